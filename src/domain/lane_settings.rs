//! The settings of a lane: how many calls to its destination may be in flight, how many are made in a second, and
//! whether a person holds it.
//!
//! A lane without settings has the cap of all lanes and no rate. A *held* lane makes no calls. What waits in it
//! keeps its place and spends no attempt, and nothing of it is dropped.

use crate::domain::call_rate::CallRate;
use crate::domain::lane::Lane;
use crate::domain::state::named;
use std::num::NonZeroU32;

/// How many calls a lane makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneLimits {
    /// The largest number of calls in flight, over all servers; `None` for the cap of all lanes.
    pub concurrency: Option<NonZeroU32>,
    /// Calls per second, over all servers; `None` for no bound.
    pub rate: Option<CallRate>,
}

/// Who holds a lane, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneHold {
    /// The name of the user who holds it.
    pub by: Box<str>,
    /// The reason that the user gave; may be empty.
    pub reason: Box<str>,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
}

impl LaneHold {
    /// This hold after somebody holds the lane again. It lasts since it began. With another reason it is theirs; without
    /// one, nothing changes.
    #[must_use]
    pub fn again(&self, by: &str, reason: &str) -> Self {
        if reason.is_empty() || *reason == *self.reason {
            return self.clone();
        }
        Self {
            by: by.into(),
            reason: reason.into(),
            since_ms: self.since_ms,
        }
    }
}

/// The settings of one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneSettings {
    /// How many calls it makes.
    pub limits: LaneLimits,
    /// Who holds it; `None` if nobody does.
    pub hold: Option<LaneHold>,
}

impl LaneSettings {
    /// These settings after a change of one lane.
    pub fn apply(&mut self, setting: LaneSetting) {
        match setting {
            LaneSetting::All(settings) => *self = settings,
            LaneSetting::Limits(limits) => self.limits = limits,
            LaneSetting::Hold(hold) => self.hold = hold,
        }
    }
}

/// The state of a lane in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneState {
    /// Calls are made.
    Open,
    /// Calls to the destination get no answer, so it is called once in a while.
    Probing,
    /// A person holds it, so no calls are made.
    Held,
}

named!(LaneState {
    Open = "open",
    Probing = "probing",
    Held = "held",
});

/// What changes in the settings of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneSetting {
    /// All of them.
    All(LaneSettings),
    /// How many calls it makes. Who holds it does not change.
    Limits(LaneLimits),
    /// Who holds it; `None` releases it. How many calls it makes does not change.
    Hold(Option<LaneHold>),
}

/// A change of the settings of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneChange {
    /// The lane.
    pub lane: Lane,
    /// What changes.
    pub setting: LaneSetting,
    /// The number of this change in the journal; 0 without a journal. Changes have ascending numbers, and a lane
    /// has the number of its last one.
    pub number: i64,
}

/// Changes of the settings of lanes, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneChanges {
    /// The changes.
    pub changes: Vec<LaneChange>,
    /// Which changes they are, if a journal numbers them.
    pub range: Option<ChangeRange>,
}

/// Which changes are brought: all that come after the change `after`, up to the change `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeRange {
    /// The changes up to this number were brought before.
    pub after: i64,
    /// The number of the last change that is brought.
    pub until: i64,
    /// Whether these are all that the journal had when it was read.
    pub is_last: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_is_held_again_is_held_since_the_first_time() {
        let first = LaneHold {
            by: "anna".into(),
            reason: "moving".into(),
            since_ms: 5,
        };
        let check = |reason, by: &str, expected: &str| {
            let again = first.again("bert", reason);
            assert_eq!((&*again.by, &*again.reason), (by, expected), "{reason}");
            assert_eq!(again.since_ms, 5);
        };
        check("", "anna", "moving");
        check("moving", "anna", "moving");
        check("until noon", "bert", "until noon");
    }

    #[test]
    fn a_setting_changes_only_its_part() {
        let hold = LaneHold {
            by: "anna".into(),
            reason: "moving".into(),
            since_ms: 5,
        };
        let limits = LaneLimits {
            concurrency: NonZeroU32::new(3),
            rate: CallRate::per_second(2.0).ok(),
        };
        let mut settings = LaneSettings::default();
        settings.apply(LaneSetting::Hold(Some(hold.clone())));
        settings.apply(LaneSetting::Limits(limits));
        let both = LaneSettings {
            limits,
            hold: Some(hold),
        };
        assert_eq!(settings, both);
        settings.apply(LaneSetting::Hold(None));
        assert_eq!((settings.limits, settings.hold.clone()), (limits, None));
        settings.apply(LaneSetting::All(LaneSettings::default()));
        assert_eq!(settings, LaneSettings::default());
    }
}
