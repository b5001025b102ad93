//! The day that is exported, and how its times are written.
//!
//! A day is 24 hours from midnight at a fixed offset from UTC, so it is exact: a time zone whose clocks change has days of 23
//! and 25 hours, and its rules may be others on another machine.

use crate::domain::timestamp::display_ms;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use std::fmt;

/// The length of a day.
const DAY_MS: i64 = 86_400_000;
/// The offsets that are used on Earth are between -12:00 and +14:00.
const MOST_MINUTES: i64 = 14 * 60;

/// A fixed offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcOffset {
    minutes: i64,
}

/// A day at an offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaySpan {
    date: Date,
    offset: UtcOffset,
    /// When it begins, in milliseconds since 1970.
    pub from_ms: i64,
    /// When the next one begins.
    pub until_ms: i64,
}

impl UtcOffset {
    /// Reads `+08:00`, `-03:30` or `Z`.
    ///
    /// # Errors
    /// A sentence that quotes the beginning of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = || {
            if text == "Z" {
                return Some(0);
            }
            let bytes = text.as_bytes();
            if !text.is_ascii() || bytes.len() != 6 || bytes[3] != b':' {
                return None;
            }
            let number = |from: usize| {
                let digits = &text[from..from + 2];
                let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
                are_digits.then(|| digits.parse::<i64>().ok()).flatten()
            };
            let (hours, minutes) = (number(1)?, number(4)?);
            let all = hours * 60 + minutes;
            if minutes > 59 || all > MOST_MINUTES {
                return None;
            }
            match bytes[0] {
                b'+' => Some(all),
                b'-' => Some(-all),
                _ => None,
            }
        };
        let minutes = read().ok_or_else(|| {
            let start: String = text.chars().take(20).collect();
            format!("`{start}` is not an offset like +08:00 or -03:30, of at most 14 hours")
        })?;
        Ok(Self { minutes })
    }

    fn ms(self) -> i64 {
        self.minutes * 60_000
    }

    /// Prints an instant by a clock with this offset: `2026-11-20T16:30:00.000+08:00`.
    pub fn display(self, at_ms: i64) -> String {
        if self.minutes == 0 {
            return display_ms(at_ms);
        }
        let mut text = display_ms(at_ms.saturating_add(self.ms()));
        if text.pop().is_some() {
            text.push_str(&self.to_string());
        }
        text
    }
}

impl fmt::Display for UtcOffset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.minutes < 0 { '-' } else { '+' };
        let minutes = self.minutes.abs();
        write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl DaySpan {
    /// Reads a date such as `2026-11-20`, or `yesterday`, which is the last day that is over at `now_ms`.
    ///
    /// # Errors
    /// A sentence that quotes the beginning of the text.
    pub fn parse(text: &str, offset: UtcOffset, now_ms: i64) -> Result<Self, String> {
        let bad = || {
            let start: String = text.chars().take(20).collect();
            format!("`{start}` is not a day like 2026-11-20, nor `yesterday`")
        };
        let date = match text {
            "yesterday" => {
                let now = Timestamp::from_millisecond(now_ms + offset.ms()).map_err(|_| bad())?;
                let today = now.to_zoned(TimeZone::UTC).date();
                today.checked_sub(1.day()).map_err(|_| bad())?
            }
            text => date(text).ok_or_else(bad)?,
        };
        let midnight = date.to_zoned(TimeZone::UTC).map_err(|_| bad())?;
        let from_ms = midnight.timestamp().as_millisecond() - offset.ms();
        Ok(Self {
            date,
            offset,
            from_ms,
            until_ms: from_ms + DAY_MS,
        })
    }

    /// The offset from UTC.
    pub fn offset(&self) -> UtcOffset {
        self.offset
    }
}

/// The date, as it was given.
impl fmt::Display for DaySpan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.date, out)
    }
}

/// Reads `2026-11-20` and nothing else that the library would take.
fn date(text: &str) -> Option<Date> {
    let fits = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    let is_written = text.len() == 10 && text.bytes().enumerate().all(fits);
    is_written.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T08:30:00Z.
    const NOW_MS: i64 = 1_795_163_400_000;

    fn offset(text: &str) -> UtcOffset {
        UtcOffset::parse(text).expect(text)
    }

    #[test]
    fn a_day_is_24_hours_from_midnight_at_its_offset() {
        fn check(text: &str, at: &str, expected: &str, from: &str) {
            let span = DaySpan::parse(text, offset(at), NOW_MS).expect(text);
            assert_eq!(span.to_string(), expected, "{text} {at}");
            assert_eq!(display_ms(span.from_ms), from, "{text} {at}");
            assert_eq!(span.until_ms - span.from_ms, 24 * 3_600_000);
        }
        check("2026-11-20", "Z", "2026-11-20", "2026-11-20T00:00:00.000Z");
        check(
            "2026-11-20",
            "+08:00",
            "2026-11-20",
            "2026-11-19T16:00:00.000Z",
        );
        check(
            "2026-11-20",
            "-03:30",
            "2026-11-20",
            "2026-11-20T03:30:00.000Z",
        );
        check(
            "2028-02-29",
            "+00:00",
            "2028-02-29",
            "2028-02-29T00:00:00.000Z",
        );
        check("yesterday", "Z", "2026-11-19", "2026-11-19T00:00:00.000Z");
        // There it is the 19th still, and there the 20th.
        check(
            "yesterday",
            "-09:00",
            "2026-11-18",
            "2026-11-18T09:00:00.000Z",
        );
        check(
            "yesterday",
            "+14:00",
            "2026-11-19",
            "2026-11-18T10:00:00.000Z",
        );
    }

    #[test]
    fn what_is_no_day_or_no_offset_is_quoted() {
        for text in [
            "",
            "today",
            "2026-11-31",
            "2026-1-20",
            "2026-11-20T00:00:00Z",
            "20261120",
            "+02026-11-20",
            "２０２６-11-20",
        ] {
            let bad = DaySpan::parse(text, offset("Z"), NOW_MS).expect_err(text);
            assert!(bad.contains("is not a day like 2026-11-20"), "{bad}");
        }
        for text in [
            "",
            "8",
            "+8",
            "08:00",
            "+0800",
            "+08:60",
            "+14:01",
            "-14:01",
            "UTC+8",
            "+08:00:00",
            "++8:00",
            "z",
            "é08:0",
        ] {
            let bad = UtcOffset::parse(text).expect_err(text);
            assert!(bad.contains("is not an offset like +08:00"), "{bad}");
        }
        let long = DaySpan::parse(&"9".repeat(300), offset("Z"), NOW_MS).expect_err("long");
        assert!(long.len() < 100, "{long}");
    }

    #[test]
    fn times_are_written_by_the_clock_of_the_day() {
        fn check(at: &str, expected: &str) {
            assert_eq!(offset(at).display(NOW_MS), expected);
        }
        check("Z", "2026-11-20T08:30:00.000Z");
        check("+00:00", "2026-11-20T08:30:00.000Z");
        check("-00:00", "2026-11-20T08:30:00.000Z");
        check("+08:00", "2026-11-20T16:30:00.000+08:00");
        check("-09:30", "2026-11-19T23:00:00.000-09:30");
    }
}
