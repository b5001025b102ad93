//! What a schedule has of a pending notification whose content is left to the journal.

use super::lane::KeyInLane;
use super::priority::Priority;

/// The place of a pending notification in its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceInLane {
    /// The notification.
    pub entry: KeyInLane,
    /// When its next attempt is due, in milliseconds since 1970.
    pub due_ms: i64,
    /// The priority of its series.
    pub priority: Priority,
}
