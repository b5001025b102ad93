//! A lease: the right to attempt or to change one notification, until it expires.
//!
//! A schedule gives leases and knows the one in force. What proves a lease elsewhere is its
//! [`LeaseToken`]: a journal takes a change by hand only together with one, so nobody can write a
//! change without having leased the notification first.

use crate::domain::key::Key;
use std::fmt;

/// When a lease ends, and what tells it from any other lease on the same notification.
///
/// Written as `1795163400123.042`: milliseconds since 1970 by the schedule's clock, and a number that
/// differs between two leases which end in the same millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry {
    /// When it ends, in milliseconds since 1970 by the schedule's clock.
    pub at_ms: i64,
    /// From 0 to 999.
    pub number: u16,
}

impl Expiry {
    /// Numbers are below this.
    pub const NUMBERS: u16 = 1_000;

    /// Reads what [`Expiry`] displays; also a text without a number, which is 0 then.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (at_ms, number) = match text.split_once('.') {
            None => (text, 0),
            Some((at_ms, digits)) => {
                if digits.is_empty()
                    || digits.len() > 3
                    || digits.bytes().any(|b| !b.is_ascii_digit())
                {
                    return None;
                }
                let number: u16 = digits.parse().ok()?;
                (at_ms, number * [100, 10, 1][digits.len() - 1])
            }
        };
        Some(Self {
            at_ms: at_ms.parse().ok()?,
            number,
        })
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{:03}", self.at_ms, self.number)
    }
}

/// Proves that its holder leased a notification. Only schedules make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseToken {
    key: Key,
    expiry: Expiry,
}

impl LeaseToken {
    /// For schedules alone, when they give a lease; a test checks that nobody else names this.
    #[must_use]
    pub fn granted(key: Key, expiry: Expiry) -> Self {
        Self { key, expiry }
    }

    /// Which notification is leased.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// When the lease ends.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_read_as_it_is_written() {
        fn check(text: &str, expected: Option<(i64, u16)>) {
            let read = Expiry::from_text(text).map(|expiry| (expiry.at_ms, expiry.number));
            assert_eq!(read, expected, "{text}");
        }
        let expiry = Expiry {
            at_ms: 1_795_163_400_123,
            number: 42,
        };
        assert_eq!(expiry.to_string(), "1795163400123.042");
        check("1795163400123.042", Some((1_795_163_400_123, 42)));
        check("1795163400123", Some((1_795_163_400_123, 0)));
        check("5.9", Some((5, 900)));
        check("5.99", Some((5, 990)));
        for text in ["", "x", "5.", "5.0420", "5.-1", ".5x"] {
            check(text, None);
        }
    }
}
