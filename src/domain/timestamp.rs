//! Instants: milliseconds since 1970 in UTC inside, RFC 3339 with milliseconds outside.

use jiff::Timestamp;
use thiserror::Error;

/// Why a text is not an instant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is not an RFC 3339 time like 2026-11-20T08:30:00.000Z")]
pub struct BadTimestamp {
    given: String,
}

/// Reads an RFC 3339 time with any offset; finer parts than a millisecond are cut off.
///
/// # Errors
/// [`BadTimestamp`] names the text that was given.
pub fn parse_ms(text: &str) -> Result<i64, BadTimestamp> {
    // jiff also reads RFC 9557 zone suffixes and other ISO 8601 forms; the contract says RFC 3339.
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
        // Outside the years that RFC 3339 can write; no accepted input leads here.
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
