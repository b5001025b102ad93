//! What a schedule holds of a notification, and where.

use crate::domain::deferral::Lacked;
use crate::domain::lane::KeyInLane;
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use crate::domain::state::{Cause, State};
use std::sync::Arc;

/// What the schedule holds of one notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What to deliver. Its body may be in the journal alone, if there is one. An ended entry that is only
    /// remembered has an empty body.
    pub notification: Arc<Notification>,
    /// How far it has come.
    pub progress: Progress,
    /// Scheduled, or ended and remembered ([`super::Limits::remember_ms`]).
    pub state: State,
    /// Why it is dead, if it is.
    pub cause: Option<Cause>,
    /// When it ended, if it has, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
    /// The journal must be asked before the next attempt: the notification may have ended there.
    pub verify: bool,
    /// Set if its lease expired, so an attempt may have been made that is not recorded: when that
    /// lease was given, in milliseconds since 1970.
    pub interrupted_ms: Option<i64>,
    /// A change by hand may still be written late: its lease expired or may be lost, or it is not known whether
    /// the change was written. Before anything is sent, the fence must be raised, so that the journal refuses
    /// the late change.
    pub raise_fence: bool,
    /// It was put off: by a server that could not make the attempt ([`super::Settlement::Defer`]), or because another entry
    /// of its order was in flight.
    pub was_put_off: bool,
    /// What the server lacked that put it off ([`super::Settlement::DeferWithout`]).
    pub lacked: Option<Lacked>,
}

impl Entry {
    /// A pending notification.
    #[must_use]
    pub fn scheduled(notification: Arc<Notification>, progress: Progress) -> Self {
        Self {
            notification,
            progress,
            state: State::Scheduled,
            cause: None,
            ended_ms: None,
            verify: false,
            interrupted_ms: None,
            raise_fence: false,
            was_put_off: false,
            lacked: None,
        }
    }

    /// Whether it cannot be bare, although the journal has it: a claim needs its place in its order, or the time for which an
    /// attempt was requested by hand. The journal's pages of places select by the same rule.
    #[must_use]
    pub fn is_needed_whole(&self) -> bool {
        self.notification.order.is_some() || self.progress.retry_at_ms.is_some()
    }
}

/// What the schedule holds of a notification of which the journal has the rest: where it is, and when it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BareEntry {
    /// The notification.
    pub entry: KeyInLane,
    /// When it is to be claimed, in milliseconds since 1970: when its next attempt is due, or up to
    /// [`CLAIMED_EARLY_MS`](super::CLAIMED_EARLY_MS) before.
    pub due_ms: i64,
    /// As [`Entry::interrupted_ms`].
    pub interrupted_ms: Option<i64>,
    /// As [`Entry::raise_fence`].
    pub raise_fence: bool,
    /// As [`Entry::was_put_off`].
    pub was_put_off: bool,
    /// As [`Entry::lacked`].
    pub lacked: Option<Lacked>,
}

impl BareEntry {
    /// The whole entry, with what was read in the journal. If a lease on it has expired, or a change by hand may still be
    /// written, the journal must be asked again.
    #[must_use]
    pub fn with(&self, notification: Arc<Notification>, progress: Progress) -> Entry {
        Entry {
            verify: self.interrupted_ms.is_some() || self.raise_fence,
            interrupted_ms: self.interrupted_ms,
            raise_fence: self.raise_fence,
            was_put_off: self.was_put_off,
            lacked: self.lacked,
            ..Entry::scheduled(notification, progress)
        }
    }
}

/// An entry that was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    /// The entry.
    pub entry: Entry,
    /// Whether it is leased.
    pub in_flight: bool,
}

/// An entry without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// Scheduled, or ended and remembered.
    pub state: State,
    /// How far it has come.
    pub progress: HeldProgress,
    /// Whether it is leased.
    pub in_flight: bool,
}

impl Holding {
    /// Whether the entry is bare: the journal alone has its content.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        matches!(self.progress, HeldProgress::Due(_))
    }
}

/// What is known of how far an entry has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldProgress {
    /// All of it.
    Whole(Progress),
    /// Only when it is to be claimed, in milliseconds since 1970: the entry is bare ([`BareEntry::due_ms`]).
    Due(i64),
}

impl HeldProgress {
    /// When the entry is due next, in milliseconds since 1970; of a bare one, when it is to be claimed.
    #[must_use]
    pub fn next_due_ms(&self) -> i64 {
        match self {
            Self::Whole(progress) => progress.next_due_ms(),
            Self::Due(due_ms) => *due_ms,
        }
    }
}
