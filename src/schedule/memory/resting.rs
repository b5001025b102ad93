//! The states of lanes that have no entries now.
//!
//! A lane is often empty between two notifications, and its state must outlive that. It is forgotten after
//! [`LaneHealth::kept_ms`] without a call, and the number of states is bounded.

use crate::domain::lane::Lane;
use crate::domain::lane_health::LaneHealth;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Maximum number of lanes whose state is kept while they have no entries.
const MOST_RESTING: usize = 100_000;

/// The states of lanes without entries.
#[derive(Debug, Default)]
pub(super) struct RestingLanes {
    states: HashMap<Arc<Lane>, LaneHealth>,
    /// When each state is forgotten.
    by_end: BTreeSet<(i64, Arc<Lane>)>,
    /// Those whose last call was not acknowledged, by name.
    failing: BTreeSet<Arc<Lane>>,
}

impl RestingLanes {
    /// Keeps the state of a lane that has no entries any more. Forgets those that are kept for too long.
    pub(super) fn rest(&mut self, lane: Arc<Lane>, health: LaneHealth, now_ms: i64) {
        if health.used_ms > 0 {
            self.by_end.insert((end_ms(&lane, &health), lane.clone()));
            if health.is_unacknowledged() {
                self.failing.insert(lane.clone());
            }
            self.states.insert(lane, health);
        }
        while let Some((end_ms, _)) = self.by_end.first()
            && (*end_ms <= now_ms || self.by_end.len() > MOST_RESTING)
            && let Some((_, lane)) = self.by_end.pop_first()
        {
            self.states.remove(&lane);
            self.failing.remove(&lane);
        }
    }

    /// Lanes whose last call was not acknowledged, in the order of their names.
    pub(super) fn failing(
        &self,
        range: (Bound<&Lane>, Bound<&Lane>),
        now_ms: i64,
    ) -> impl Iterator<Item = &Lane> {
        let names = self.failing.range::<Lane, _>(range).map(AsRef::as_ref);
        names.filter(move |lane| self.get(lane, now_ms).is_some())
    }

    /// The state of a lane that has no entry.
    pub(super) fn get(&self, lane: &Lane, now_ms: i64) -> Option<LaneHealth> {
        let health = self.states.get(lane).copied();
        health.filter(|health| end_ms(lane, health) > now_ms)
    }

    /// Removes and returns the state of a lane that has an entry again.
    pub(super) fn wake(&mut self, lane: &Lane, now_ms: i64) -> Option<LaneHealth> {
        let (name, health) = self.states.remove_entry(lane)?;
        let end_ms = end_ms(lane, &health);
        self.failing.remove(lane);
        self.by_end.remove(&(end_ms, name));
        (end_ms > now_ms).then_some(health)
    }
}

fn end_ms(lane: &Lane, health: &LaneHealth) -> i64 {
    let kept_ms = health.kept_ms(lane.is_of_endpoint());
    health.used_ms.saturating_add(kept_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::Outcome;
    use crate::domain::lane_health::{
        CallOutcome, KEPT_FAILING_MS, KEPT_MS, KEPT_UNACKNOWLEDGED_MS, LaneReport,
    };

    fn lane(name: &str) -> Lane {
        Lane::from_name(name)
    }

    fn used(used_ms: i64) -> LaneHealth {
        let mut health = LaneHealth::unknown(1);
        health.observe(LaneReport::Answered(1), used_ms, used_ms, 1, 1);
        health
    }

    #[test]
    fn a_state_is_kept_for_a_bounded_time() {
        let mut resting = RestingLanes::default();
        resting.rest(Arc::new(lane("a")), used(1), 1);
        assert_eq!(resting.wake(&lane("a"), KEPT_MS), Some(used(1)));
        assert_eq!(resting.wake(&lane("a"), KEPT_MS), None, "it was returned");
        resting.rest(Arc::new(lane("a")), used(1), 1);
        assert_eq!(resting.wake(&lane("a"), KEPT_MS + 1), None);
        resting.rest(Arc::new(lane("a")), used(1), 1);
        resting.rest(Arc::new(lane("b")), used(2), KEPT_MS + 1);
        assert_eq!((resting.states.len(), resting.by_end.len()), (1, 1));
    }

    #[test]
    fn an_endpoint_that_fails_is_remembered_for_longer() {
        let mut failing = used(1);
        failing.observe(LaneReport::Unanswered, 1, 1, 1, 1);
        for (name, kept_ms) in [("a", KEPT_MS), ("endpoint:a", KEPT_FAILING_MS)] {
            let mut resting = RestingLanes::default();
            resting.rest(Arc::new(lane(name)), failing, 1);
            assert_eq!(resting.get(&lane(name), kept_ms), Some(failing), "{name}");
            assert_eq!(resting.get(&lane(name), kept_ms + 1), None, "{name}");
            resting.rest(Arc::new(lane("b")), used(kept_ms), kept_ms + 1);
            assert_eq!(resting.states.len(), 1, "{name}");
        }
    }

    #[test]
    fn a_lane_whose_last_call_was_not_acknowledged_is_remembered_for_longer_and_found() {
        let mut failing = used(1);
        failing.note_outcome(
            CallOutcome {
                outcome: Outcome::HttpStatus,
                status: Some(500),
            },
            1,
        );
        let mut resting = RestingLanes::default();
        let found = |resting: &RestingLanes, now_ms| {
            let names = resting.failing((Bound::Unbounded, Bound::Unbounded), now_ms);
            names
                .map(|lane| lane.as_str().to_string())
                .collect::<Vec<_>>()
        };
        resting.rest(Arc::new(lane("a")), failing, 1);
        resting.rest(Arc::new(lane("b")), used(1), 1);
        assert_eq!(found(&resting, KEPT_UNACKNOWLEDGED_MS), ["a"]);
        assert!(found(&resting, KEPT_UNACKNOWLEDGED_MS + 1).is_empty());
        assert_eq!(resting.wake(&lane("a"), 2), Some(failing));
        assert!(found(&resting, 2).is_empty());
        resting.rest(Arc::new(lane("a")), failing, 1);
        resting.rest(
            Arc::new(lane("c")),
            used(KEPT_UNACKNOWLEDGED_MS),
            KEPT_UNACKNOWLEDGED_MS + 1,
        );
        assert!(resting.failing.is_empty(), "it was forgotten");
    }

    #[test]
    fn the_state_that_was_used_least_is_forgotten_first() {
        let mut resting = RestingLanes::default();
        for number in 0..=MOST_RESTING {
            let used_ms = i64::try_from(number).expect("small") + 1;
            resting.rest(Arc::new(lane(&number.to_string())), used(used_ms), 1);
        }
        assert_eq!(resting.states.len(), MOST_RESTING);
        assert_eq!(resting.wake(&lane("0"), 1), None);
        assert!(resting.wake(&lane("1"), 1).is_some());
    }

    #[test]
    fn a_lane_that_was_never_called_has_no_state_to_keep() {
        let mut resting = RestingLanes::default();
        resting.rest(Arc::new(lane("a")), LaneHealth::unknown(2), 1);
        assert!(resting.states.is_empty() && resting.by_end.is_empty());
    }
}
