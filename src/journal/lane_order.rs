//! A change of the settings of a lane.

use super::actor::Actor;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::LaneSetting;

/// A change of the settings of a lane, to be recorded. The later change of two wins. Whoever holds the lane and how
/// many calls it makes are changed apart: a person holds it, and an endpoint, when there are endpoints, sets the
/// limits of its lane in the transaction that changes the endpoint.
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
