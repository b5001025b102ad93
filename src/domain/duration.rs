//! Durations as people write them: `200ms`, `4m`, `24h22m`, `30d`.
//!
//! Flags, files, JSON and printed texts all use this notation. It is strict: numbers are whole, units go
//! from large to small, and each unit occurs at most once. So a typing error is refused and does not
//! become an unexpected interval.

use thiserror::Error;

const UNITS: [(&str, i64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Maximum duration, in milliseconds: a hundred years.
pub const LONGEST_MS: i64 = 36_525 * 86_400_000;

/// The error for a text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is not a duration; write it like 200ms, 4m or 24h22m")]
pub struct BadDuration {
    given: String,
}

/// Reads a duration and returns it in milliseconds. `0s` is accepted.
///
/// # Errors
/// [`BadDuration`] names the text that was given.
pub fn parse_ms(text: &str) -> Result<i64, BadDuration> {
    parse(text).ok_or_else(|| BadDuration {
        given: text.chars().take(40).collect(),
    })
}

fn parse(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total = 0_i64;
    let mut next_unit = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || digits > 15 {
            return None;
        }
        let number: i64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .bytes()
            .take_while(|byte| !byte.is_ascii_digit())
            .count();
        let position = UNITS
            .iter()
            .position(|(name, _)| *name == &rest[..letters])?;
        if position < next_unit {
            return None;
        }
        next_unit = position + 1;
        total = total.checked_add(number.checked_mul(UNITS[position].1)?)?;
        rest = &rest[letters..];
    }
    (total <= LONGEST_MS).then_some(total)
}

/// Prints a duration in hours, minutes, seconds and milliseconds. Units whose number is zero are left out.
#[must_use]
pub fn display_ms(duration_ms: i64) -> String {
    let mut text = String::new();
    let mut rest = duration_ms.unsigned_abs();
    if duration_ms < 0 {
        text.push('-');
    }
    for (name, unit) in &UNITS[1..] {
        let unit = unit.unsigned_abs();
        let count = rest / unit;
        rest %= unit;
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
        }
    }
    if rest == 0 && duration_ms == 0 {
        text.push_str("0s");
    }
    text
}

/// Prints a duration for a person who reads a text: as [`display_ms`], and from two days on in days, hours and whole
/// minutes, such as `29d23h59m`.
#[must_use]
pub fn display_long_ms(duration_ms: i64) -> String {
    const FROM_MS: u64 = 2 * 86_400_000;
    const MINUTE_MS: u64 = 60_000;
    let length_ms = duration_ms.unsigned_abs();
    if length_ms < FROM_MS {
        return display_ms(duration_ms);
    }
    let mut text = if duration_ms < 0 { "-" } else { "" }.to_string();
    let minutes = length_ms / MINUTE_MS;
    for (name, count) in [
        ("d", minutes / 1_440),
        ("h", minutes / 60 % 24),
        ("m", minutes % 60),
    ] {
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_durations_are_read_in_days() {
        fn check(duration: &str, expected: &str) {
            let duration_ms = parse_ms(duration).expect("a duration");
            assert_eq!(display_long_ms(duration_ms), expected);
        }
        check("24h22m", "24h22m");
        check("47h59m59s999ms", "47h59m59s999ms");
        check("48h", "2d");
        check("720h", "30d");
        check("719h59m59s", "29d23h59m");
        check("75h35m5s", "3d3h35m");
        check("48h59s", "2d");
        assert_eq!(display_long_ms(-172_800_000), "-2d");
    }

    #[test]
    fn durations_parse_and_print_in_one_notation() {
        fn check(text: &str, expected_ms: i64, printed: &str) {
            assert_eq!(parse_ms(text), Ok(expected_ms), "{text}");
            assert_eq!(display_ms(expected_ms), printed, "{text}");
            assert_eq!(parse_ms(printed), Ok(expected_ms), "{printed}");
        }
        check("200ms", 200, "200ms");
        check("0s", 0, "0s");
        check("4m", 240_000, "4m");
        check("90s", 90_000, "1m30s");
        check("24h22m", 87_720_000, "24h22m");
        check("75h35m5s", 272_105_000, "75h35m5s");
        check("30d", 2_592_000_000, "720h");
        check("1d1h1m1s1ms", 90_061_001, "25h1m1s1ms");
    }

    #[test]
    fn anything_else_is_refused_and_named() {
        for text in [
            "",
            "4",
            "m",
            "4 m",
            "-4m",
            "+4m",
            "4.5m",
            "4M",
            "1s1m",
            "1m1m",
            "4µs",
            "999999999d",
            "99999999999999999999s",
            "1m ",
        ] {
            let error = parse_ms(text).expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
