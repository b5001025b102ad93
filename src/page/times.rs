//! Instants and durations as the page shows them.

use crate::domain::timestamp::{self, display_ms};
use askama::filters::HtmlSafe;
use std::fmt;

/// An instant, in milliseconds since 1970. A template shows it in UTC as an element `time`; the script can show local time
/// instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeTag(pub i64);

impl TimeTag {
    /// The instant in RFC 3339.
    pub fn iso(self) -> String {
        display_ms(self.0)
    }

    /// The instant in UTC, for a sentence.
    pub fn words(self) -> String {
        let iso = self.iso();
        match (iso.get(..10), iso.get(11..19)) {
            (Some(date), Some(time)) => format!("{date} {time} UTC"),
            _ => iso,
        }
    }
}

impl fmt::Display for TimeTag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (iso, words) = (self.iso(), self.words());
        write!(out, "<time datetime=\"{iso}\">{words}</time>")
    }
}

// The text consists of digits and of what is written here.
impl HtmlSafe for TimeTag {}

/// Reads an instant: RFC 3339, or a date, or a date and a time in UTC.
#[must_use]
pub fn parse_time(text: &str) -> Option<i64> {
    let mut text = text.to_string();
    if text.as_bytes().get(10) == Some(&b' ') {
        text.replace_range(10..11, "T");
    }
    let whole = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        // A plus sign that is not escaped is a space in an address.
        _ => text.replace(' ', "+"),
    };
    timestamp::parse_ms(&whole).ok()
}

/// A duration in milliseconds, in the two largest units: `1h 5m`, `4.2s`, `18ms`. The units are the same in both languages.
#[must_use]
pub fn duration_in_words(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, minutes, hours, days) =
        (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    if ms < 1_000 {
        format!("{ms}ms")
    } else if seconds < 60 {
        format!("{seconds}.{}s", ms % 1_000 / 100)
    } else if minutes < 60 {
        format!("{minutes}m {}s", seconds % 60)
    } else if hours < 24 {
        format!("{hours}h {}m", minutes % 60)
    } else {
        format!("{days}d {}h", hours % 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_shown_in_utc() {
        assert_eq!(
            TimeTag(1_795_163_400_123).to_string(),
            "<time datetime=\"2026-11-20T08:30:00.123Z\">2026-11-20 08:30:00 UTC</time>"
        );
        // Outside the years that can be printed.
        let far = TimeTag(i64::MAX).to_string();
        assert!(far.contains("9223372036854775807ms"), "{far}");
    }

    #[test]
    fn a_time_may_be_short_and_is_in_utc_then() {
        const AT_MS: i64 = 1_795_163_400_000;
        fn check(text: &str, expected: Option<i64>) {
            assert_eq!(parse_time(text), expected, "{text}");
        }
        check("2026-11-20T08:30:00Z", Some(AT_MS));
        check("2026-11-20T16:30:00+08:00", Some(AT_MS));
        check("2026-11-20T16:30:00 08:00", Some(AT_MS));
        check("2026-11-20 08:30", Some(AT_MS));
        check("2026-11-20T08:30", Some(AT_MS));
        check("2026-11-20 08:30:00", Some(AT_MS));
        check("2026-11-20", Some(AT_MS - 30_600_000));
        check("2026-13-20", None);
        check("", None);
    }

    #[test]
    fn a_duration_has_two_units() {
        fn check(ms: i64, expected: &str) {
            assert_eq!(duration_in_words(ms), expected);
        }
        check(-1, "0ms");
        check(999, "999ms");
        check(4_250, "4.2s");
        check(60_000, "1m 0s");
        check(3_900_000, "1h 5m");
        check(90_000_000, "1d 1h");
    }
}
