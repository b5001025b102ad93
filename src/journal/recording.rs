//! The recording of an attempt, and the journal's reply to it.

use crate::domain::attempt::Attempt;
use crate::domain::decision::Decision;
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use std::sync::Arc;

/// An attempt that has ended, and the decision that follows from it.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The notification that was attempted.
    pub key: Key,
    /// The attempt, with the receiver's answer. Shared, because a recording is copied for each try to write it.
    pub attempt: Arc<Attempt>,
    /// The progress of the notification before the attempt. The decision after a failure is applied only if the
    /// notification still has this progress. A delivery is applied if the notification is in the same series, and is
    /// pending, or is dead, or was ended by a higher number of its order alone.
    pub before: Progress,
    /// The state and the progress that follow. An interrupted attempt changes neither.
    pub decision: Decision,
    /// When this is written, in milliseconds since 1970: later with each try. If the notification ends, this is its end, so
    /// whoever reads what has ended in that order and goes on from a position misses nothing that is written late. Two
    /// recordings of the same attempt may differ in it.
    pub at_ms: i64,
}

/// The journal's reply to a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// The attempt is kept, and the decision is applied.
    Applied,
    /// The attempt is kept, but the decision is not applied: the notification has ended, or no longer has the progress
    /// [`Recording::before`]. Contains the notification as it is now, without its attempts.
    Stale(Box<Snapshot>),
    /// The journal has no such notification. Nothing is kept.
    Missing,
}
