//! The notification that a problem is about.

use crate::domain::change::Change;
use crate::domain::snapshot::Snapshot;
use serde_json::value::RawValue;

/// The existing notification that a request is in conflict with, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) topic: String,
    pub(super) id: String,
    pub(super) state: &'static str,
    /// Whether the conflict may be over when the attempt in flight has ended.
    pub(super) may_pass: bool,
    /// The whole notification.
    pub(super) notification: Option<WrittenNotification>,
}

impl Subject {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self {
            topic: snapshot.key.topic().to_string(),
            id: snapshot.key.id().to_string(),
            state: snapshot.state_name(),
            may_pass: false,
            notification: None,
        }
    }

    /// The notification that refuses a change.
    pub(super) fn of_refused(change: Change, snapshot: &Snapshot) -> Self {
        Self {
            may_pass: snapshot.in_flight && change.may_follow_the_attempt(snapshot),
            ..Self::of(snapshot)
        }
    }
}

/// A whole notification, as JSON.
#[derive(Debug, Clone)]
pub(super) struct WrittenNotification(pub(super) Box<RawValue>);

impl PartialEq for WrittenNotification {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for WrittenNotification {}
