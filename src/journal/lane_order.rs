//! A change of the settings of a lane.

use super::actor::Actor;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::{LaneSetting, LaneSettings};

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

impl LaneOrder {
    /// The settings of the lane after this change, if it had these before. A hold of the dispatcher replaces no hold: that
    /// of a person stays theirs, with their reason.
    pub(super) fn applied_to(&self, before: &LaneSettings) -> LaneSettings {
        let mut settings = before.clone();
        let is_hold = matches!(self.setting, LaneSetting::Hold(Some(_)));
        let is_held_already = is_hold && before.hold.is_some();
        if !(is_held_already && self.actor == Actor::dispatcher()) {
            settings.apply(self.setting.clone());
        }
        settings
    }
}
