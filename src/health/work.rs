//! The kinds of work that stores do, and the results of calls: the watched stores report both to health.

use std::fmt;

/// One of the two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// The record of all notifications.
    Journal,
    /// The index of the pending notifications by due time.
    Schedule,
}

impl Store {
    /// The name of the store.
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

/// The kind of work of a call. Health tells the kinds apart, because a store may do one and not another: a
/// full Redis settles but accepts no registrations, and a read-only database does neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Look-ups for a worker or a request.
    Read,
    /// Registrations and changes by hand.
    Accept,
    /// Claims of due notifications.
    Claim,
    /// Recording outcomes and settling leases.
    Settle,
    /// Lists, counts and maintenance. These calls may take long, and no other work waits for them.
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

    /// The name of the kind of work.
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

    /// Whether accepting registrations or delivering notifications needs this kind of work.
    pub(super) fn is_needed(self) -> bool {
        match self {
            Self::Read | Self::Accept | Self::Claim | Self::Settle => true,
            Self::Browse => false,
        }
    }
}

/// The result of a call, as far as it tells whether the store works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallResult {
    /// The store works. Its answer may be an error that is not the store's fault.
    Answered,
    /// The answer of the store cannot be read, or only a part of the store does not answer. This does not tell whether the
    /// store works for other calls.
    Unreadable,
    /// The store is out of reach, too slow or refuses the call, for this cause.
    Failed(String),
    /// The store has lost data and is being loaded again.
    Rebuilding(String),
}
