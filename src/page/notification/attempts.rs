//! The attempts of a notification, each with all that is known of it.

use crate::domain::attempt::{Attempt, Outcome, escape};
use crate::domain::call_trace::{CallTrace, Phase, TlsVersion};
use crate::domain::http_version::HttpVersion;
use crate::domain::retry_after::RetryAfter;
use crate::domain::snapshot::Snapshot;
use crate::page::language::Language;
use crate::page::reason::ShownReason;
use crate::page::texts::attempts::AttemptTexts;
use crate::page::texts::outcomes::OutcomeTexts;
use crate::page::texts::states::StateTexts;
use crate::page::times::{TimeTag, duration_in_words};
use std::fmt::Write as _;

/// Bytes of an answer that are shown in hexadecimal digits, at most.
const MOST_HEX_BYTES: usize = 256;
/// Bytes in a line of them.
const HEX_LINE_BYTES: usize = 16;

/// An attempt.
pub struct AttemptCard<'a> {
    /// The place in the order of the attempts, which is its name on the page.
    pub at: usize,
    pub number: u32,
    pub series: u32,
    /// The name of the outcome.
    pub outcome: &'static str,
    pub outcome_in_words: &'static str,
    pub is_good: bool,
    pub meaning: &'static str,
    pub matter: &'static str,
    pub causes: &'static str,
    pub status: Option<u16>,
    pub due: TimeTag,
    pub started: TimeTag,
    pub took: String,
    /// By how much it began late, if it was noticed.
    pub late: Option<String>,
    /// For how long it was deferred, and why.
    pub deferred: Option<(String, &'static str)>,
    pub reason: ShownReason,
    /// Whether the ack rule has judged the answer.
    pub is_judged: bool,
    /// The phases, each with its time and its share of the longest in percent, in steps of five.
    pub phases: Vec<PhaseBar>,
    pub address: Option<&'a str>,
    /// Whether the connection was new or kept.
    pub connection: Option<&'static str>,
    pub tls: Option<&'static str>,
    pub http: Option<&'static str>,
    pub endpoint_version: Option<u32>,
    pub key_ids: String,
    pub retry_after: Option<String>,
    /// The beginning of the answer, escaped.
    pub answer: Option<String>,
    /// The same in hexadecimal digits; empty if there is none.
    pub hex: String,
    pub answer_bytes: usize,
}

/// A phase of a call.
pub struct PhaseBar {
    pub name: &'static str,
    pub took: String,
    /// The width of its bar: 0 to 20.
    pub width: u64,
}

/// An attempt that began later than this was late, in milliseconds.
const LATE_MS: i64 = 1_000;

/// The attempts, newest first.
pub fn cards(snapshot: &Snapshot, language: Language) -> Vec<AttemptCard<'_>> {
    let attempts = snapshot.attempts.iter().enumerate().rev();
    attempts
        .map(|(at, attempt)| AttemptCard::of(at, attempt, language))
        .collect()
}

impl<'a> AttemptCard<'a> {
    /// An attempt, and its place in the order of the attempts.
    pub fn of(at: usize, attempt: &'a Attempt, language: Language) -> Self {
        let t = OutcomeTexts::of(language);
        let own = AttemptTexts::of(language);
        let (answer, trace) = (&attempt.answer, &attempt.trace);
        let late_ms = attempt.started_ms.saturating_sub(attempt.due_ms);
        let deferral = trace.deferral;
        Self {
            at,
            number: attempt.number,
            series: attempt.series,
            outcome: answer.outcome.as_str(),
            outcome_in_words: t.short(answer.outcome),
            is_good: answer.outcome == Outcome::Acknowledged,
            meaning: t.meaning(answer.outcome),
            matter: t.matter(answer.outcome),
            causes: t.causes(answer.outcome, trace.is_unsent()),
            status: answer.status,
            due: TimeTag(attempt.due_ms),
            started: TimeTag(attempt.started_ms),
            took: duration_in_words(attempt.duration_ms),
            late: (late_ms >= LATE_MS).then(|| duration_in_words(late_ms)),
            deferred: deferral.map(|deferral| {
                let why = StateTexts::of(language).waiting(deferral.by);
                (duration_in_words(deferral.ms), why)
            }),
            reason: ShownReason::of(&answer.reason, language),
            is_judged: matches!(answer.outcome, Outcome::Acknowledged | Outcome::WrongAnswer),
            phases: phases(trace, own),
            address: trace.address.as_deref(),
            connection: trace.is_connected().then_some(match trace.is_kept {
                true => own.kept,
                false => own.new,
            }),
            tls: trace.tls.map(TlsVersion::as_str),
            http: trace.http().map(HttpVersion::as_str),
            endpoint_version: trace.endpoint_version,
            key_ids: match trace.is_unsent() || answer.outcome == Outcome::Blocked {
                true => String::new(),
                false => trace.key_ids.join(", "),
            },
            retry_after: trace.retry_after.map(|asked| match asked {
                RetryAfter::Unusable => own.unusable.to_string(),
                RetryAfter::Seconds(_) | RetryAfter::Date(_) => asked.shown(),
            }),
            answer: answer.status.map(|_| escape(&answer.body)),
            hex: hex_lines(&answer.body),
            answer_bytes: answer.body.len(),
        }
    }
}

fn phases(trace: &CallTrace, t: &'static AttemptTexts) -> Vec<PhaseBar> {
    let took = |phase| trace.phase_us(phase);
    let longest_us = Phase::ALL.into_iter().filter_map(took).max();
    let longest_us = longest_us.unwrap_or(0).max(1);
    let bars = Phase::ALL.into_iter().filter_map(|phase| {
        let took_us = took(phase)?;
        Some(PhaseBar {
            name: t.phase(phase),
            took: format!("{}.{} ms", took_us / 1_000, took_us % 1_000 / 100),
            width: took_us.saturating_mul(20) / longest_us,
        })
    });
    bars.collect()
}

/// The first bytes as in `hexdump -C`: the place, the bytes, and what of them is printable ASCII.
fn hex_lines(bytes: &[u8]) -> String {
    let mut text = String::new();
    let shown = &bytes[..bytes.len().min(MOST_HEX_BYTES)];
    for (line, bytes) in shown.chunks(HEX_LINE_BYTES).enumerate() {
        let _ = write!(text, "{:04x}  ", line * HEX_LINE_BYTES);
        for at in 0..HEX_LINE_BYTES {
            match bytes.get(at) {
                Some(byte) => {
                    let _ = write!(text, "{byte:02x} ");
                }
                None => text.push_str("   "),
            }
        }
        text.push(' ');
        for byte in bytes {
            let is_plain = byte.is_ascii_graphic() || *byte == b' ';
            text.push(if is_plain { char::from(*byte) } else { '.' });
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_lines_of_sixteen() {
        assert_eq!(hex_lines(b""), "");
        let expected = format!("0000  41 0a {}A.\n", " ".repeat(3 * 14 + 1));
        assert_eq!(hex_lines(b"A\n"), expected);
        let long = hex_lines(&[0xff; MOST_HEX_BYTES + 1]);
        assert_eq!(long.lines().count(), MOST_HEX_BYTES / HEX_LINE_BYTES);
        assert!(long.contains("00f0  ff ff"), "{long}");
    }

    #[test]
    fn the_longest_phase_has_the_longest_bar() {
        let t = AttemptTexts::of(Language::English);
        let mut trace = CallTrace::default();
        assert!(phases(&trace, t).is_empty());
        trace.set_phase_us(Phase::Connect, 1_250);
        trace.set_phase_us(Phase::Body, 5_000);
        let bars = phases(&trace, t);
        let shown: Vec<_> = bars
            .iter()
            .map(|bar| (bar.took.as_str(), bar.width))
            .collect();
        assert_eq!(shown, [("1.2 ms", 5), ("5.0 ms", 20)]);
    }
}
