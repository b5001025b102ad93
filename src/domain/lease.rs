//! A lease: the right to attempt or to change one notification, until it expires.
//!
//! A schedule gives leases and knows which lease of a notification is in force. A [`LeaseToken`] proves a
//! lease to a journal. A journal accepts a change by hand only with a token, so a caller must lease the
//! notification before it can change it.

use crate::domain::key::Key;
use crate::domain::lane::KeyInLane;
use std::fmt;

/// When a lease ends. The value also identifies the lease among all leases on the same notification.
///
/// It is written as `1795163400123042`: milliseconds since 1970 by the schedule's clock, and a number of
/// three digits. Two leases on the same notification that end in the same millisecond have different numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry {
    /// When the lease ends, in milliseconds since 1970 by the schedule's clock.
    pub at_ms: i64,
    /// From 0 to 999. It differs between leases on the same notification that end in the same millisecond.
    pub number: u16,
}

impl Expiry {
    /// How many values [`Expiry::number`] can have.
    pub const NUMBERS: u16 = 1_000;

    /// Reads the written form of an [`Expiry`].
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

/// The proof that a notification is leased. Only schedules make tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseToken {
    entry: KeyInLane,
    expiry: Expiry,
}

impl LeaseToken {
    /// Makes a token. Only schedules call this, when they give a lease; a test checks that no other module
    /// does.
    #[must_use]
    pub fn granted(entry: KeyInLane, expiry: Expiry) -> Self {
        Self { entry, expiry }
    }

    /// The key of the leased notification.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.entry.key
    }

    /// The key and lane of the leased notification.
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
