//! A change of the settings of a lane.

use super::actor::Actor;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::LaneSetting;

/// A change of the settings of a lane, to be recorded. The later change of two wins. Whoever holds the lane and how
/// many calls it makes are changed apart: a person holds it, and the transaction that changes an endpoint sets the
/// limits of its lane.
#[derive(Debug, Clone)]
pub struct LaneOrder {
    /// The lane.
    pub lane: Lane,
    /// What changes.
    pub setting: LaneSetting,
    /// Who asked for the change.
    pub actor: Actor,
    /// The reason that the caller gave; may be empty.
    pub reason: String,
    /// When the change was requested, in milliseconds since 1970.
    pub at_ms: i64,
}
