//! One attempt, as it is kept: what was sent when, and what came back.

use crate::domain::progress::Progress;
use crate::domain::state::named;

/// Bytes of an answer that are kept; support staff need its beginning.
pub const KEPT_ANSWER_BYTES: usize = 4 * 1024;
/// Bytes of an answer that are read; a longer one is cut off and is no acknowledgement.
pub const READ_ANSWER_BYTES: usize = 64 * 1024;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The answer satisfied the ack rule.
    Acknowledged,
    /// A 2xx whose body is not what the ack rule asks for.
    WrongAnswer,
    /// A status other than 2xx, redirects included.
    HttpStatus,
    /// The time for the whole attempt ran out.
    Timeout,
    /// No connection: refused, unreachable, reset while connecting.
    Connect,
    /// The TLS handshake or the certificate failed.
    Tls,
    /// The host name has no address.
    Dns,
    /// The address may not be called; nothing was sent.
    Blocked,
    /// The connection broke or what came back is no HTTP.
    Protocol,
    /// We stopped or died in the middle; the attempt is made again and takes no step.
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

/// What came of calling the receiver once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub outcome: Outcome,
    /// The HTTP status, if one came back.
    pub status: Option<u16>,
    /// The first [`KEPT_ANSWER_BYTES`] of the body.
    pub body: Vec<u8>,
    /// The reason in plain words.
    pub reason: String,
}

/// An attempt as the journal keeps it. Instants in milliseconds since 1970, UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The series it belongs to.
    pub series: u32,
    /// 1, 2, ... over all series. An interrupted attempt and its repetition share a number.
    pub number: u32,
    /// When it was due.
    pub due_ms: i64,
    /// When it started.
    pub started_ms: i64,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
    /// What came of it.
    pub answer: Answer,
}

impl Attempt {
    /// One whose lease expired before anybody recorded an outcome: the next of this progress, which
    /// began at `started_ms` at the earliest.
    #[must_use]
    pub fn interrupted(progress: &Progress, started_ms: i64) -> Self {
        Self {
            series: progress.series,
            number: progress.next_number(),
            due_ms: progress.next_due_ms(),
            started_ms,
            duration_ms: 0,
            answer: Answer {
                outcome: Outcome::Interrupted,
                status: None,
                body: Vec::new(),
                reason:
                    "the instance that made this attempt ended before it recorded an outcome; the \
                         receiver may have got it"
                        .to_string(),
            },
        }
    }
}

/// Shows bytes so that what the eye would miss is seen: a BOM, control characters and bytes that
/// are no UTF-8 are written as escapes, everything printable as itself.
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
