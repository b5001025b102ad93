//! The states of lanes that have no entries now.
//!
//! A lane is often empty between two notifications, and its state must outlive that. It is forgotten after
//! [`LaneHealth::kept_ms`] without a call, and the number of states is bounded.

use crate::domain::lane::Lane;
use crate::domain::lane_health::LaneHealth;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Maximum number of lanes whose state is kept while they have no entries.
const MOST_RESTING: usize = 100_000;

/// The states of lanes without entries.
#[derive(Debug, Default)]
pub(super) struct RestingLanes {
    states: HashMap<Arc<Lane>, LaneHealth>,
    /// When each state is forgotten.
    by_end: BTreeSet<(i64, Arc<Lane>)>,
}

impl RestingLanes {
    /// Keeps the state of a lane that has no entries any more. Forgets those that are kept for too long.
    pub(super) fn rest(&mut self, lane: Arc<Lane>, health: LaneHealth, now_ms: i64) {
        if health.used_ms > 0 {
            self.by_end.insert((end_ms(&lane, &health), lane.clone()));
            self.states.insert(lane, health);
        }
        while let Some((end_ms, _)) = self.by_end.first()
            && (*end_ms <= now_ms || self.by_end.len() > MOST_RESTING)
            && let Some((_, lane)) = self.by_end.pop_first()
        {
            self.states.remove(&lane);
        }
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
    use crate::domain::lane_health::{KEPT_FAILING_MS, KEPT_MS, LaneReport};

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
