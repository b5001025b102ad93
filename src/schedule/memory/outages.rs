//! Outages of destinations that have ended.

use crate::domain::lane::Lane;
use crate::domain::outage::EndedOutage;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Maximum number that is returned at a time.
const MOST: usize = 64;

/// Those that no server has dealt with; one of each lane at most.
#[derive(Debug, Default)]
pub(super) struct Outages {
    by_lane: BTreeMap<Lane, (i64, i64)>,
    /// The last one that was returned. The next ones come after it, so that those that cannot be dealt with yet hide no
    /// others.
    last: Option<Lane>,
}

impl Outages {
    /// Notes one that ends now. It begins when one began that is noted already.
    pub(super) fn note(&mut self, lane: &Lane, from_ms: i64, now_ms: i64) {
        let noted = self
            .by_lane
            .entry(lane.clone())
            .or_insert((from_ms, now_ms));
        *noted = (noted.0.min(from_ms), now_ms);
    }

    /// Forgets these, unless there was another outage since.
    pub(super) fn forget(&mut self, handled: &[EndedOutage]) {
        for outage in handled {
            if self.by_lane.get(&outage.lane) == Some(&(outage.from_ms, outage.until_ms)) {
                self.by_lane.remove(&outage.lane);
            }
        }
    }

    /// Some of them; others at the next call, if there are more.
    pub(super) fn some(&mut self) -> Vec<EndedOutage> {
        let from = self.last.take();
        let from = from.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let after = self.by_lane.range::<Lane, _>((from, Bound::Unbounded));
        let rest = self.by_lane.len() - after.clone().count();
        let some: Vec<EndedOutage> = after
            .chain(self.by_lane.iter().take(rest))
            .take(MOST)
            .map(|(lane, (from_ms, until_ms))| EndedOutage {
                lane: lane.clone(),
                from_ms: *from_ms,
                until_ms: *until_ms,
            })
            .collect();
        self.last = some.last().map(|outage| outage.lane.clone());
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_stay_hide_no_others() {
        let mut outages = Outages::default();
        let many = 2 * MOST + 1;
        for number in 0..many {
            outages.note(&Lane::from_name(&format!("endpoint:{number}")), 1, 2);
        }
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let some = outages.some();
            assert_eq!(some.len(), MOST);
            seen.extend(some.into_iter().map(|outage| outage.lane));
        }
        assert_eq!(seen.len(), many);
    }
}
