//! The times that the flags `--from` and `--to` take, in the notations that people use.

use super::terminal::now_ms;
use crate::domain::duration;
use crate::domain::timestamp::{display_ms, parse_ms};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use thiserror::Error;

/// Why the text of a flag is no time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadTime {
    /// No notation fits.
    #[error(
        "`{0}` is not a time; write 2h (so long ago), 2026-11-20 (the start of that day, local time), '2026-11-20 14:30' \
         (local time) or 2026-11-20T14:30:00+08:00"
    )]
    Notation(String),
    /// It is a duration, or no notation fits, where an instant in the future is meant.
    #[error(
        "`{0}` is not an instant; write '2026-11-20 14:30' (local time) or 2026-11-20T14:30:00+08:00, or give --delay 2h"
    )]
    Instant(String),
    /// The local time zone is needed and is not known.
    #[error("the local time zone is not known ({0}); set TZ, or write 2026-11-20T14:30:00+08:00")]
    Zone(String),
}

/// Reads a time and returns it as the API takes it. RFC 3339 is passed on as it is.
///
/// # Errors
/// [`BadTime`].
pub fn parse(text: &str) -> Result<String, BadTime> {
    if parse_ms(text).is_ok() {
        return Ok(text.to_string());
    }
    at_ms(text, now_ms(), local_zone).map(display_ms)
}

/// As [`parse`], for an instant in the future: how long ago something was is none, and neither is a whole day.
///
/// # Errors
/// [`BadTime`].
pub fn parse_instant(text: &str) -> Result<String, BadTime> {
    let is_instant = duration::parse_ms(text).is_err() && (text.contains([' ', 'T', 't']));
    let parsed = is_instant.then(|| parse(text));
    match parsed {
        Some(Err(BadTime::Notation(_))) | None => {
            Err(BadTime::Instant(text.chars().take(40).collect()))
        }
        Some(parsed) => parsed,
    }
}

/// Reads one of the other notations, in milliseconds since 1970. The zone is asked for only if it is needed.
fn at_ms(
    text: &str,
    now_ms: i64,
    zone: impl FnOnce() -> Result<TimeZone, BadTime>,
) -> Result<i64, BadTime> {
    let bad = || BadTime::Notation(text.chars().take(40).collect());
    if let Ok(ago_ms) = duration::parse_ms(text) {
        return Ok(now_ms - ago_ms);
    }
    let time = local_time(text).ok_or_else(bad)?;
    // Of a time that a change of the clocks skips or repeats, the first instant is taken.
    let instant = zone()?.to_ambiguous_timestamp(time).compatible();
    Ok(instant.map_err(|_| bad())?.as_millisecond())
}

/// Reads `2026-11-20`, `2026-11-20 14:30` or `2026-11-20 14:30:05`.
fn local_time(text: &str) -> Option<DateTime> {
    let is_written = |pattern: &str| {
        let fits = |(byte, expected): (u8, u8)| match expected {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        };
        text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
    };
    if is_written("0000-00-00") {
        let date: Date = text.parse().ok()?;
        return Some(date.at(0, 0, 0, 0));
    }
    let with_seconds = is_written("0000-00-00 00:00:00");
    (with_seconds || is_written("0000-00-00 00:00"))
        .then(|| text.parse().ok())
        .flatten()
}

/// The time zone of this terminal: that of `TZ`, else that of the machine, else UTC.
fn local_zone() -> Result<TimeZone, BadTime> {
    match TimeZone::try_system() {
        Ok(zone) => Ok(zone),
        // Without either, the machine's clock shows UTC.
        Err(_) if std::env::var_os("TZ").is_none_or(|zone| zone.is_empty()) => Ok(TimeZone::UTC),
        Err(error) => Err(BadTime::Zone(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_795_163_400_000;

    fn shanghai() -> Result<TimeZone, BadTime> {
        Ok(TimeZone::posix("CST-8").expect("a zone"))
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        fn check(text: &str, expected: &str) {
            let read = at_ms(text, NOW_MS, shanghai).map(display_ms);
            assert_eq!(read.as_deref(), Ok(expected), "{text}");
        }
        check("2h", "2026-11-20T06:30:00.000Z");
        check("1d12h", "2026-11-18T20:30:00.000Z");
        check("0s", "2026-11-20T08:30:00.000Z");
        check("2026-11-20", "2026-11-19T16:00:00.000Z");
        check("2026-11-20 14:30", "2026-11-20T06:30:00.000Z");
        check("2026-11-20 14:30:05", "2026-11-20T06:30:05.000Z");
        check("2028-02-29", "2028-02-28T16:00:00.000Z");
    }

    #[test]
    fn a_day_whose_clocks_change_begins_when_it_begins() {
        fn check(zone: &str, text: &str, expected: &str) {
            let zone = TimeZone::posix(zone).expect("a zone");
            let read = at_ms(text, NOW_MS, || Ok(zone)).map(display_ms);
            assert_eq!(read.as_deref(), Ok(expected), "{text}");
        }
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        check(berlin, "2026-03-29 02:30", "2026-03-29T01:30:00.000Z");
        check(berlin, "2026-10-25 02:30", "2026-10-25T00:30:00.000Z");
        check(berlin, "2026-10-26", "2026-10-25T23:00:00.000Z");
        // Here the hour after midnight is skipped.
        let havana = "CST5CDT,M3.2.0/0,M11.1.0/1";
        check(havana, "2026-03-08", "2026-03-08T05:00:00.000Z");
    }

    #[test]
    fn other_notations_are_named_with_examples() {
        for text in [
            "",
            "now",
            "yesterday",
            "2",
            "2h ago",
            "20.11.2026",
            "2026-11-31",
            "2026-11-20T14:30",
            "2026-11-20 24:30",
            "2026-11-20 14",
            "2026-11-20 14:30 ",
            "２h",
            "2026-11-20 14:30Z",
        ] {
            let bad = at_ms(text, NOW_MS, shanghai).expect_err(text);
            assert_eq!(bad, BadTime::Notation(text.to_string()), "{text}");
            assert!(
                bad.to_string()
                    .contains("write 2h (so long ago), 2026-11-20")
            );
        }
        let longest = "9".repeat(60);
        let bad = at_ms(&longest, NOW_MS, shanghai).expect_err("too long");
        assert_eq!(bad, BadTime::Notation("9".repeat(40)));
    }

    #[test]
    fn an_instant_is_no_duration_and_no_day() {
        for bad in ["2h", "2026-11-20", "tomorrow", ""] {
            let error = parse_instant(bad).expect_err(bad);
            assert_eq!(error, BadTime::Instant(bad.to_string()));
        }
        let time = "2026-11-20T08:30:00+08:00";
        assert_eq!(parse_instant(time).as_deref(), Ok(time));
        let local = parse_instant("2026-11-20 08:30").expect("an instant");
        assert_eq!(parse("2026-11-20 08:30").as_deref(), Ok(local.as_str()));
    }

    #[test]
    fn what_names_its_zone_is_passed_on() {
        let time = "2026-11-20T08:30:00+08:00";
        assert_eq!(parse(time).as_deref(), Ok(time));
    }
}
