//! A lease: the right to attempt or to change one notification, until it expires.
//!
//! A schedule gives leases and knows the one in force. What proves a lease elsewhere is its
//! [`LeaseToken`]: a journal takes a change by hand only together with one, so no caller can write a
//! change without having leased the notification first.

use crate::domain::key::Key;
use crate::domain::lane::KeyInLane;
use std::fmt;

/// When a lease ends, and what tells it from any other lease on the same notification.
///
/// Written as `1795163400123042`: milliseconds since 1970 by the schedule's clock, and three digits that
/// differ between two leases which end in the same millisecond.
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

    /// Reads what [`Expiry`] displays.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let digits: i64 = text.parse().ok()?;
        let numbers = i64::from(Self::NUMBERS);
        Some(Self {
            at_ms: digits.div_euclid(numbers),
            number: u16::try_from(digits.rem_euclid(numbers)).ok()?,
        })
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.at_ms.saturating_mul(i64::from(Self::NUMBERS));
        write!(out, "{}", digits.saturating_add(i64::from(self.number)))
    }
}

/// Proves that its holder leased a notification. Only schedules make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseToken {
    entry: KeyInLane,
    expiry: Expiry,
}

impl LeaseToken {
    /// For schedules alone, when they give a lease; a test checks that nobody else names this.
    #[must_use]
    pub fn granted(entry: KeyInLane, expiry: Expiry) -> Self {
        Self { entry, expiry }
    }

    /// Which notification is leased.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.entry.key
    }

    /// Where a schedule finds it.
    #[must_use]
    pub fn entry(&self) -> &KeyInLane {
        &self.entry
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
        assert_eq!(expiry.to_string(), "1795163400123042");
        check("1795163400123042", Some((1_795_163_400_123, 42)));
        check("1795163400123999", Some((1_795_163_400_123, 999)));
        check("5000", Some((5, 0)));
        check("42", Some((0, 42)));
        for text in ["", "x", "5.", "5.042", "1e9", " 5", "99999999999999999999"] {
            check(text, None);
        }
    }
}
