//! What a store is asked for, and how a call ended: what the watched stores report to health.

use std::fmt;

/// A store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// The record.
    Journal,
    /// The index of what is due.
    Schedule,
}

impl Store {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Schedule => "schedule",
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// What a store is asked for. Told apart because it may do one and not another: a Redis that is full
/// drains but accepts nothing, a database that can only be read does neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Looking up what a worker or a request needs.
    Read,
    /// Taking registrations and changes by hand.
    Accept,
    /// Handing out what is due.
    Claim,
    /// Recording and settling what was done.
    Settle,
    /// Lists, counts and maintenance: what may take long, and delays no other work.
    Browse,
}

impl Work {
    /// All kinds, in the order of their declaration.
    pub const ALL: &[Self] = &[
        Self::Read,
        Self::Accept,
        Self::Claim,
        Self::Settle,
        Self::Browse,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "reading",
            Self::Accept => "accepting",
            Self::Claim => "claiming",
            Self::Settle => "settling",
            Self::Browse => "browsing",
        }
    }

    /// Whether registrations cannot be accepted, or work cannot drain, without it.
    pub(super) fn is_needed(self) -> bool {
        match self {
            Self::Read | Self::Accept | Self::Claim | Self::Settle => true,
            Self::Browse => false,
        }
    }
}

/// How a call ended, as far as that is about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallResult {
    /// The store did its work, or would have: what it answered may be an error of another kind.
    Answered,
    /// It answered, but with something that cannot be read. Whether it does its work for others is not
    /// known.
    Unreadable,
    /// It is out of reach, too slow, or refuses, for this cause.
    Failed(String),
    /// It has lost what it held and is being loaded again.
    Rebuilding(String),
}
