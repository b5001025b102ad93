//! The recording of an attempt, and what the journal answers to it.

use crate::domain::attempt::Attempt;
use crate::domain::decision::Decision;
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;

/// An attempt that has ended, and what follows from it.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The notification that was attempted.
    pub key: Key,
    /// The attempt, with what came back.
    pub attempt: Attempt,
    /// How far the notification had come before. The state changes only if it still stands there;
    /// a delivery counts as long as the notification is scheduled in the same series.
    pub before: Progress,
    /// What follows. For an interrupted attempt: the same as before, and no state changes.
    pub decision: Decision,
    /// When the attempt ended, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What a recording did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// The attempt is kept and the decision applied.
    Applied,
    /// The attempt is kept; the notification stands elsewhere than `before` said, namely here
    /// (without its attempts).
    Stale(Box<Snapshot>),
    /// No such notification.
    Missing,
}
