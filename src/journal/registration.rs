//! The registration of a notification, and the journal's reply to it.

use super::actor::Actor;
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::order::OrderConflict;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use std::sync::Arc;

/// A notification to be registered.
#[derive(Debug, Clone)]
pub struct Registering {
    /// The notification, with its body.
    pub notification: Arc<Notification>,
    /// The progress of the notification. This is the start of its first series, unless the journal lost the
    /// notification and gets it again from the schedule.
    pub progress: Progress,
    /// Who registered the notification.
    pub actor: Actor,
}

/// The journal's reply to a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegisterResult {
    /// The notification is new, and is kept.
    Created,
    /// As [`RegisterResult::Created`], and it has ended these, which were pending with lower numbers of its order.
    CreatedOver(Vec<Snapshot>),
    /// The notification is new, is kept, and is cancelled: a higher number of its order was registered before.
    Superseded(Box<Snapshot>),
    /// The notification is not kept.
    OutOfOrder {
        /// Why its order does not allow it.
        conflict: OrderConflict,
        /// What is in the way: the one with its number; that with the highest number, if the mode is another one; the first
        /// higher number that was sent. `None` if it is not there any more.
        other: Option<Key>,
    },
    /// The key is registered already. Contains the existing notification, without its attempts.
    Existing(Box<Snapshot>),
}
