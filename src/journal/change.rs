//! A change by hand, and what the journal answers to it.

use super::actor::Actor;
use crate::domain::change::Change;
use crate::domain::lease::LeaseToken;
use crate::domain::snapshot::Snapshot;

/// A change by hand, to be applied and written down.
#[derive(Debug, Clone)]
pub struct Changing {
    /// The lease on what is changed: no other server attempts or changes it meanwhile.
    pub lease: LeaseToken,
    /// [`Snapshot::fence`] as it was read before that lease was asked for. Read under the lease, it might
    /// be one that was raised since the lease was lost.
    pub fence: u64,
    /// The change to apply.
    pub change: Change,
    /// Who asked for it.
    pub actor: Actor,
    /// Why, in the words of who asked; may be empty.
    pub reason: String,
    /// When it was asked for, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What a change found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeResult {
    /// It was applied; this is how the notification stands now (without its attempts).
    Done(Box<Snapshot>),
    /// Its state does not allow it; nothing changed (without its attempts).
    Refused(Box<Snapshot>),
    /// Its fence is another than the change was decided on, so the lease was lost meanwhile and
    /// another server has the notification; nothing changed (without its attempts).
    Fenced(Box<Snapshot>),
    /// No such notification.
    Missing,
}
