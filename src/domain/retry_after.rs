//! The header `Retry-After` of an answer (RFC 9110, section 10.2.3): how long the receiver asks to wait.
//!
//! The header comes from a stranger. What is not exactly a number of seconds or an HTTP date changes nothing,
//! and neither does a wait of more than [`LONGEST_WAIT_MS`]: no window is longer, so it is a mistake, for example
//! an instant or milliseconds in the place of seconds. Negative numbers are not allowed by the RFC. If there is
//! more than one header, it is not known which one counts, so none does.

use crate::domain::duration;
use crate::domain::ladder::LONGEST_WINDOW_MS;
use crate::domain::timestamp;
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// The longest wait that is followed, in milliseconds: the longest window that a ladder can have.
pub const LONGEST_WAIT_MS: i64 = LONGEST_WINDOW_MS;
/// The longest text that can be an HTTP date: `Wednesday, 09-Nov-94 08:49:37 GMT` has 34 characters.
const LONGEST_TEXT: usize = 40;
/// The three forms of an HTTP date. Senders must write the first one; recipients must accept all.
const DATES: [&str; 3] = [
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %e %H:%M:%S %Y",
];
/// The stored form of a header that cannot be used.
const UNUSABLE: &str = "unusable";

/// What a receiver asked for with `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// To wait so many seconds.
    Seconds(u32),
    /// To wait until this instant, in seconds since 1970.
    Date(i64),
    /// Nothing that can be used. See the documentation of the module.
    Unusable,
}

impl RetryAfter {
    /// Reads the values of all `Retry-After` headers of an answer. `None` if there is none.
    #[must_use]
    pub fn read<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut values = values.into_iter();
        let first = values.next()?;
        if values.next().is_some() {
            return Some(Self::Unusable);
        }
        let read = std::str::from_utf8(first).ok().and_then(Self::from_value);
        Some(read.unwrap_or(Self::Unusable))
    }

    fn from_value(value: &str) -> Option<Self> {
        let value = value.trim_matches([' ', '\t']);
        if value.is_empty() || value.len() > LONGEST_TEXT {
            return None;
        }
        if value.bytes().all(|byte| byte.is_ascii_digit()) {
            return value.parse().ok().map(Self::Seconds);
        }
        let date = DATES.iter().find_map(|format| {
            let parsed = strtime::parse(format, value).ok()?;
            let date = parsed.to_datetime().ok()?;
            TimeZone::UTC.to_timestamp(date).ok()
        })?;
        Some(Self::Date(date.as_second()))
    }

    /// Until when the receiver asks to wait, in milliseconds since 1970. Its answer came at `answered_ms`. `None`
    /// if the header cannot be used.
    #[must_use]
    pub fn until_ms(self, answered_ms: i64) -> Option<i64> {
        let until_ms = match self {
            Self::Seconds(seconds) => answered_ms.checked_add(i64::from(seconds) * 1_000)?,
            Self::Date(at_s) => at_s.checked_mul(1_000)?,
            Self::Unusable => return None,
        };
        let wait_ms = until_ms.checked_sub(answered_ms)?;
        (wait_ms <= LONGEST_WAIT_MS).then_some(until_ms)
    }

    /// The text in which stores keep this: `30`, `@1795163400` or `unusable`.
    #[must_use]
    pub fn to_text(self) -> String {
        match self {
            Self::Seconds(seconds) => seconds.to_string(),
            Self::Date(at_s) => format!("@{at_s}"),
            Self::Unusable => UNUSABLE.to_string(),
        }
    }

    /// Reads what [`RetryAfter::to_text`] wrote.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        if text == UNUSABLE {
            return Some(Self::Unusable);
        }
        match text.strip_prefix('@') {
            Some(at_s) => {
                let at_s = at_s.parse().ok()?;
                Timestamp::from_second(at_s).ok()?;
                Some(Self::Date(at_s))
            }
            None => text.parse().ok().map(Self::Seconds),
        }
    }

    /// What the receiver asked for, as the API shows it: `30s`, an instant, or `unusable`.
    #[must_use]
    pub fn shown(self) -> String {
        match self {
            Self::Seconds(seconds) => duration::display_ms(i64::from(seconds) * 1_000),
            Self::Date(at_s) => timestamp::display_ms(at_s.saturating_mul(1_000)),
            Self::Unusable => UNUSABLE.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T08:30:00Z.
    const NOW_MS: i64 = 1_795_163_400_000;

    fn until_ms(values: &[&str]) -> Option<i64> {
        let read = RetryAfter::read(values.iter().map(|value| value.as_bytes()));
        let read = read.expect("there is a header");
        assert_eq!(RetryAfter::from_text(&read.to_text()), Some(read));
        read.until_ms(NOW_MS)
    }

    #[test]
    fn seconds_and_dates_are_read() {
        fn check(value: &str, wait_ms: i64) {
            assert_eq!(until_ms(&[value]), Some(NOW_MS + wait_ms), "{value}");
        }
        check("0", 0);
        check("30", 30_000);
        check(" 00120\t", 120_000);
        check("5184000", LONGEST_WAIT_MS);
        check("Fri, 20 Nov 2026 08:31:00 GMT", 60_000);
        check("Friday, 20-Nov-26 08:31:00 GMT", 60_000);
        check("Fri Nov 20 08:31:00 2026", 60_000);
        check("Sun Dec  6 08:30:00 2026", 16 * 86_400_000);
        check("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000 - NOW_MS);
    }

    #[test]
    fn what_nobody_can_mean_is_not_usable() {
        fn check(values: &[&str]) {
            assert_eq!(until_ms(values), None, "{values:?}");
        }
        for value in [
            "",
            " ",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "30s",
            "0x10",
            "1 2",
            "30, 60",
            "soon",
            "\u{0663}",
            "5184001",
            "4294967295",
            "4294967296",
            "1795163430",
            "99999999999999999999999999",
            "Fri, 20 Nov 2026 08:31:00",
            "Fri, 20 Nov 2026 08:31:00 +0100",
            "Fri, 32 Nov 2026 08:31:00 GMT",
            "Fri, 20 Nov 2026 25:31:00 GMT",
            "2026-11-20T08:31:00Z",
            "Fri, 31 Dec 9999 23:59:59 GMT",
            "Tue, 19 Jan 2027 08:30:01 GMT",
        ] {
            check(&[value]);
        }
        check(&["30", "60"]);
        check(&["30", "30"]);
        check(&[&"9".repeat(60_000)]);
        assert_eq!(RetryAfter::read([]), None);
        assert_eq!(
            RetryAfter::read([&b"\xff30"[..]]),
            Some(RetryAfter::Unusable)
        );
    }

    #[test]
    fn the_stored_form_of_a_later_version_is_left_out() {
        for text in [
            "",
            "@",
            "@x",
            "-1",
            "30s",
            "@99999999999999999",
            "4294967296",
        ] {
            assert_eq!(RetryAfter::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn people_read_it_as_a_duration_or_an_instant() {
        assert_eq!(RetryAfter::Seconds(3_630).shown(), "1h30s");
        assert_eq!(
            RetryAfter::Date(NOW_MS / 1_000).shown(),
            "2026-11-20T08:30:00.000Z"
        );
        assert_eq!(RetryAfter::Unusable.shown(), "unusable");
    }
}
