//! Reading lanes, without a change.

use super::Lanes;
use crate::domain::lane::Lane;
use crate::domain::lane_health::LaneHealth;
use crate::schedule::LaneCounts;
use crate::schedule::lane_status::{LanePage, LaneSelection, LaneStatus};
use std::collections::BTreeSet;
use std::ops::Bound;

impl Lanes {
    /// One lane. Everything that is due by `held_until_ms` is here.
    pub(in crate::schedule::memory) fn status(
        &self,
        lane: &Lane,
        held_until_ms: i64,
        now_ms: i64,
    ) -> LaneStatus {
        let settings = self.settings.get(lane).cloned();
        let Some(queue) = self.lanes.get(lane) else {
            let resting = self.resting.get(lane, now_ms);
            let health = resting.unwrap_or(LaneHealth::unknown(self.start));
            return LaneStatus {
                held_until_ms,
                ..LaneStatus::of(lane.clone(), &health, self.cap, settings)
            };
        };
        let later = match held_until_ms {
            i64::MAX => 0,
            until_ms => queue.waiting.len() - queue.waiting.due(until_ms),
        };
        let first_ms = queue.waiting.first_due_ms();
        LaneStatus {
            waiting: count(queue.waiting.len()),
            due: count(queue.waiting.due(now_ms)),
            in_flight: count(queue.leases),
            held_until_ms,
            later: count(later),
            oldest_due_ms: first_ms.filter(|first_ms| *first_ms <= now_ms),
            ..LaneStatus::of(lane.clone(), &queue.health, self.cap, settings)
        }
    }

    /// How many lanes are in which state.
    pub(in crate::schedule::memory) fn counts(&self) -> LaneCounts {
        let mut counts = LaneCounts::default();
        for queue in self.lanes.values() {
            let count = match (queue.is_held, queue.health.is_probing()) {
                (true, _) => &mut counts.held,
                (false, true) => &mut counts.probing,
                (false, false) => &mut counts.open,
            };
            *count += 1;
        }
        counts
    }

    /// Lanes in the order of their names, `limit` at most. The cursor is the name of the last lane.
    pub(in crate::schedule::memory) fn page(
        &self,
        selection: LaneSelection,
        cursor: Option<&str>,
        limit: usize,
        (held_until_ms, now_ms): (i64, i64),
    ) -> LanePage {
        let after = cursor.map(Lane::from_name);
        let start = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range: (Bound<&Lane>, Bound<&Lane>) = (start, Bound::Unbounded);
        let limit = limit.max(1);
        let configured = || self.settings.range::<Lane, _>(range).map(|(lane, _)| lane);
        let with_entries = || self.names.range::<Lane, _>(range).map(AsRef::as_ref);
        let mut names: BTreeSet<&Lane> = BTreeSet::new();
        match selection {
            LaneSelection::All => {
                names.extend(configured().take(limit + 1));
                names.extend(with_entries().take(limit + 1));
            }
            LaneSelection::Configured => names.extend(configured().take(limit + 1)),
            LaneSelection::Failing => {
                let failing = self.resting.failing(range, now_ms);
                let others = failing.filter(|lane| !self.settings.contains_key(*lane));
                names.extend(others.take(limit + 1));
            }
        }
        let has_more = names.len() > limit;
        let lanes: Vec<LaneStatus> = names
            .into_iter()
            .take(limit)
            .map(|lane| self.status(lane, held_until_ms, now_ms))
            .collect();
        let last = lanes.last().map(|status| status.lane.as_str().to_string());
        LanePage {
            lanes,
            next: last.filter(|_| has_more),
        }
    }
}

fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}
