//! The record of one attempt: when it was due, when it started, and what the receiver answered.

use crate::domain::attempt_reason::UnsentReason;
use crate::domain::call_trace::CallTrace;
use crate::domain::deferral::DeferralReason;
use crate::domain::progress::Progress;
use crate::domain::state::named;

/// Bytes of an answer that are stored. Support staff need the beginning of an answer.
pub const KEPT_ANSWER_BYTES: usize = 4 * 1024;
/// Bytes of an answer that are read. A longer answer is cut off and is not an acknowledgement.
pub const READ_ANSWER_BYTES: usize = 64 * 1024;

/// With this status, a receiver says that there is nothing to call any more (RFC 9110). By Standard Webhooks it
/// asks for no more calls.
pub const GONE: u16 = 410;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The answer satisfied the ack rule.
    Acknowledged,
    /// The status was 2xx, but the body was not the one that the ack rule requires.
    WrongAnswer,
    /// The status was not 2xx. Redirects are included.
    HttpStatus,
    /// The time limit for the whole attempt was exceeded.
    Timeout,
    /// No connection could be opened: it was refused, unreachable or reset.
    Connect,
    /// The TLS handshake or the certificate failed.
    Tls,
    /// The host name could not be resolved to an address.
    Dns,
    /// The address filter forbids the address. Nothing was sent.
    Blocked,
    /// The connection broke, or the answer was not HTTP.
    Protocol,
    /// The dispatcher stopped or crashed during the attempt. The attempt is made again. An interrupted
    /// attempt uses no step of the ladder.
    Interrupted,
}

named!(Outcome {
    Acknowledged = "acknowledged",
    WrongAnswer = "wrong_answer",
    HttpStatus = "http_status",
    Timeout = "timeout",
    Connect = "connect",
    Tls = "tls",
    Dns = "dns",
    Blocked = "blocked",
    Protocol = "protocol",
    Interrupted = "interrupted",
});

/// The result of one call to the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How the call ended.
    pub outcome: Outcome,
    /// The HTTP status, if the receiver sent one.
    pub status: Option<u16>,
    /// The first [`KEPT_ANSWER_BYTES`] of the answer's body.
    pub body: Vec<u8>,
    /// Why the call failed, in plain words. Empty if the answer was an acknowledgement. What this version writes is made of
    /// [`crate::domain::attempt_reason`].
    pub reason: String,
}

/// One attempt, as the journal stores it. Instants are in milliseconds since 1970, UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The series that the attempt belongs to. A replay or a resend starts a new series.
    pub series: u32,
    /// The attempt's number: 1, 2, ... over all series. An interrupted attempt and its repetition have
    /// the same number.
    pub number: u32,
    /// When the attempt was due.
    pub due_ms: i64,
    /// When the attempt started.
    pub started_ms: i64,
    /// How long the attempt took, in milliseconds.
    pub duration_ms: i64,
    /// The result of the call.
    pub answer: Answer,
    /// How the call went on the network.
    pub trace: CallTrace,
}

impl Attempt {
    /// The record of an attempt whose lease expired before an outcome was recorded. It is the next attempt
    /// of `progress`. `started_ms` is when its lease began; it cannot have started before that, nor before it was due.
    #[must_use]
    pub fn interrupted(progress: &Progress, started_ms: i64) -> Self {
        Self {
            series: progress.series,
            number: progress.next_number(),
            due_ms: progress.next_due_ms(),
            started_ms: started_ms.max(progress.next_due_ms()),
            duration_ms: 0,
            answer: Answer {
                outcome: Outcome::Interrupted,
                status: None,
                body: Vec::new(),
                reason: UnsentReason::Lost.to_string(),
            },
            trace: CallTrace::default(),
        }
    }

    /// How late the attempt began, in milliseconds. What waited for its destination or its order is not late; what waited
    /// because of the servers is. `None` for an interrupted attempt, which may be recorded long after it began.
    #[must_use]
    pub fn late_ms(&self) -> Option<i64> {
        if self.answer.outcome == Outcome::Interrupted {
            return None;
        }
        let deferred_ms = self.trace.deferral.map_or(0, |deferral| match deferral.by {
            DeferralReason::Busy | DeferralReason::Keys | DeferralReason::Proxy => 0,
            DeferralReason::Held
            | DeferralReason::Probing
            | DeferralReason::Rate
            | DeferralReason::Concurrency
            | DeferralReason::Order => deferral.ms,
        });
        let late_ms = self.started_ms.saturating_sub(self.due_ms);
        Some(late_ms.saturating_sub(deferred_ms).max(0))
    }
}

/// Makes bytes readable as text. A BOM, control characters and bytes that are not UTF-8 are written as
/// escapes. Printable characters stay as they are, except that a backslash is doubled.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\'' => shown.push(character),
                _ => shown.extend(character.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_eye_would_miss_is_escaped() {
        fn check(bytes: &[u8], shown: &str) {
            assert_eq!(escape(bytes), shown);
        }
        check(b"success", "success");
        check(b"success\r\n", "success\\r\\n");
        check("\u{feff}success".as_bytes(), "\\u{feff}success");
        check(b"\xffok", "\\xffok");
        check(
            "<p class=\"x\">失败</p>".as_bytes(),
            "<p class=\"x\">失败</p>",
        );
        check(b"a\\n\0", "a\\\\n\\0");
    }

    #[test]
    fn every_outcome_has_one_name() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from_name(outcome.as_str()), Some(*outcome));
        }
    }
}
