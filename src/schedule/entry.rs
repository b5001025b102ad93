//! What a schedule holds of a notification, and where.

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
    /// It was put off by a server whose proxy failed ([`super::Settlement::DeferForProxy`]).
    pub awaited_proxy: bool,
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
            awaited_proxy: false,
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
    pub progress: Progress,
    /// Whether it is leased.
    pub in_flight: bool,
}
