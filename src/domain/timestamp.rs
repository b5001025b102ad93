//! Instants. The code uses milliseconds since 1970 in UTC; the API uses RFC 3339 with milliseconds.

use jiff::Timestamp;
use thiserror::Error;

/// The error for a text that is not an instant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{given}` is not a time like 2026-11-20T08:30:00Z or 2026-11-20T16:30:00+08:00 (RFC 3339: with a T, and the zone at its end)"
)]
pub struct BadTimestamp {
    given: String,
}

/// Reads an RFC 3339 time with any offset. Digits after the milliseconds are cut off.
///
/// # Errors
/// [`BadTimestamp`] quotes the beginning of the text.
pub fn parse_ms(text: &str) -> Result<i64, BadTimestamp> {
    // The parser also accepts zone suffixes (RFC 9557) and other forms of ISO 8601. The API promises to
    // accept RFC 3339 only.
    let plain = text.len() >= 20
        && text.is_ascii()
        && matches!(text.as_bytes()[10], b'T' | b't')
        && !text.contains('[');
    plain
        .then(|| text.parse::<Timestamp>().ok())
        .flatten()
        .map(|instant| instant.as_millisecond())
        .ok_or_else(|| BadTimestamp {
            given: text.chars().take(40).collect(),
        })
}

/// Prints an instant as `2026-11-20T08:30:00.000Z`.
#[must_use]
pub fn display_ms(at_ms: i64) -> String {
    match Timestamp::from_millisecond(at_ms) {
        Ok(instant) => format!("{instant:.3}"),
        // The instant is outside the years that the library can print. No accepted input leads here.
        Err(_) => format!("{at_ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_parse_and_print_with_milliseconds() {
        fn check(text: &str, expected_ms: i64, printed: &str) {
            assert_eq!(parse_ms(text), Ok(expected_ms), "{text}");
            assert_eq!(display_ms(expected_ms), printed, "{text}");
        }
        check(
            "2026-11-20T08:30:00.000Z",
            1_795_163_400_000,
            "2026-11-20T08:30:00.000Z",
        );
        check(
            "2026-11-20T16:30:00+08:00",
            1_795_163_400_000,
            "2026-11-20T08:30:00.000Z",
        );
        check(
            "2026-11-20T08:30:00.1239Z",
            1_795_163_400_123,
            "2026-11-20T08:30:00.123Z",
        );
    }

    #[test]
    fn other_notations_are_refused() {
        for text in [
            "",
            "now",
            "2026-11-20",
            "2026-11-20 08:30:00Z",
            "2026-11-20T08:30:00",
            "2026-13-20T08:30:00Z",
            "2026-11-20T08:30:00Z[UTC]",
            "1795163400000",
        ] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
