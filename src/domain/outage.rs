//! Outages of destinations that have ended: the lane was probed, and then a call was answered.

use crate::domain::lane::Lane;

/// An outage that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedOutage {
    /// The lane of the destination.
    pub lane: Lane,
    /// When the first call without an answer had ended, in milliseconds since 1970.
    pub from_ms: i64,
    /// When a call was answered again, in milliseconds since 1970.
    pub until_ms: i64,
}
