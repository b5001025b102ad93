//! Outages of destinations that have ended.

use crate::domain::lane::Lane;
use crate::domain::outage::EndedOutage;
use std::collections::HashMap;

/// Maximum number that is returned at a time.
const MOST: usize = 64;

/// Those that no server has dealt with; one of each lane at most.
#[derive(Debug, Default)]
pub(super) struct Outages(HashMap<Lane, (i64, i64)>);

impl Outages {
    /// Notes one that ends now. It begins when one began that is noted already.
    pub(super) fn note(&mut self, lane: &Lane, from_ms: i64, now_ms: i64) {
        let noted = self.0.entry(lane.clone()).or_insert((from_ms, now_ms));
        *noted = (noted.0.min(from_ms), now_ms);
    }

    /// Forgets these, unless there was another outage since.
    pub(super) fn forget(&mut self, handled: &[EndedOutage]) {
        for outage in handled {
            if self.0.get(&outage.lane) == Some(&(outage.from_ms, outage.until_ms)) {
                self.0.remove(&outage.lane);
            }
        }
    }

    /// Some of them.
    pub(super) fn some(&self) -> Vec<EndedOutage> {
        let some = self.0.iter().take(MOST);
        some.map(|(lane, (from_ms, until_ms))| EndedOutage {
            lane: lane.clone(),
            from_ms: *from_ms,
            until_ms: *until_ms,
        })
        .collect()
    }
}
