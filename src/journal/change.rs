//! A change by hand, and the journal's reply to it.

use super::actor::Actor;
use crate::domain::change::Change;
use crate::domain::lease::LeaseToken;
use crate::domain::priority::Priority;
use crate::domain::snapshot::Snapshot;

/// A change by hand, to be applied to a notification and recorded in its history.
#[derive(Debug, Clone)]
pub struct Changing {
    /// The lease on the notification. While the lease is in force, no other server attempts or changes the
    /// notification.
    pub lease: LeaseToken,
    /// [`Snapshot::fence`], read before the lease is requested. If it were read under the lease, this could
    /// happen: the lease is lost, another server raises the fence, and we read the raised fence. The journal
    /// would then accept our change.
    pub fence: u64,
    /// The change to apply.
    pub change: Change,
    /// The priority of the series, if the change begins one. `None`: that of the registration.
    pub series_priority: Option<Priority>,
    /// Who asked for the change.
    pub actor: Actor,
    /// The reason that the caller gave; may be empty.
    pub reason: String,
    /// When the change was requested, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The journal's reply to a change by hand. The notifications in it are without their attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeResult {
    /// The change was applied. Contains the notification after the change.
    Done(Box<Snapshot>),
    /// The state of the notification does not allow the change. Nothing was changed.
    Refused(Box<Snapshot>),
    /// The fence of the notification differs from [`Changing::fence`]: a worker has raised it, or another change
    /// was applied, since that fence was read. Nothing was changed.
    Fenced(Box<Snapshot>),
    /// The change sends the notification again, and a higher number of its order, in which only the latest counts,
    /// was registered. Nothing was changed.
    Superseded(Box<Snapshot>),
    /// The change needs the body of the notification ([`Change::needs_payload`]), which the journal does not
    /// have: it was deleted when it was old enough. Nothing was changed.
    PayloadDeleted(Box<Snapshot>),
    /// The journal has no such notification.
    Missing,
}
