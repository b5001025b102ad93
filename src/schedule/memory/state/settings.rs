//! The settings of lanes: which changes are here, and whether any are missing.

use super::MemoryState;
use crate::domain::lane::Lane;
use crate::domain::lane_health::LaneReport;
use crate::domain::lane_settings::LaneChanges;
use crate::schedule::{Configured, SettingsReached, SettingsSource};
use std::collections::BTreeMap;

/// Up to which change of the journal the settings are here.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SettingsProgress {
    reached: i64,
    /// Whether all were brought that the journal had.
    is_complete: bool,
}

impl MemoryState {
    /// See [`crate::schedule::ScheduleMaintenance::call_lane_now`].
    pub(in crate::schedule::memory) fn call_lane_now(&mut self, lane: &Lane, now_ms: i64) {
        self.lanes
            .observe(lane, LaneReport::CallNow, now_ms, now_ms);
    }

    pub(in crate::schedule::memory) fn configure_lanes(
        &mut self,
        changes: &LaneChanges,
        now_ms: i64,
    ) -> Configured {
        let reached = self.settings.reached;
        if let Some(range) = changes.range {
            if range.after > reached {
                return Configured::OthersMissing;
            }
            self.settings.reached = reached.max(range.until);
            self.settings.is_complete |= range.is_last;
        }
        for change in &changes.changes {
            // A server that was suspended may bring changes that are here already, and later ones too.
            if changes.range.is_none() || change.number > reached {
                self.lanes
                    .configure(&change.lane, change.setting.clone(), now_ms);
            }
        }
        Configured::Obeyed
    }

    pub(in crate::schedule::memory) fn settings_reached(&self) -> SettingsReached {
        let SettingsProgress {
            reached,
            is_complete,
        } = self.settings;
        SettingsReached {
            number: is_complete.then_some(reached),
            is_confirmed: is_complete,
            generations: BTreeMap::new(),
        }
    }

    /// Whether nothing may be claimed, because a lane may be held and this is not known here yet.
    pub(super) fn lacks_settings(&self) -> bool {
        self.limits.settings_source == SettingsSource::Journal && !self.settings.is_complete
    }
}
