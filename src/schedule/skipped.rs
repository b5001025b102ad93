//! The lanes that the claims of this server skip, because it cannot sign the calls to their endpoints.
//!
//! A server that claimed such an entry could only give it back, and the entry would be late for the servers that can
//! sign. So its claims name these lanes. A skipped lane keeps its turn and its entries, and other servers serve it as
//! if this one were not there.

use crate::domain::lane::Lane;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

/// Maximum number of lanes that a server skips. Each claim names all of them.
pub const MOST_SKIPPED: usize = 1_000;

/// The skipped lanes of one server; none at first.
#[derive(Debug, Default)]
pub struct SkippedLanes(RwLock<Arc<BTreeSet<Lane>>>);

impl SkippedLanes {
    /// The lanes.
    #[must_use]
    pub fn current(&self) -> Arc<BTreeSet<Lane>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Skips a lane from the next claim on. Returns `false` if [`MOST_SKIPPED`] others are skipped already.
    pub fn skip(&self, lane: &Lane) -> bool {
        let mut lanes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !lanes.contains(lane) {
            if lanes.len() >= MOST_SKIPPED {
                return false;
            }
            Arc::make_mut(&mut lanes).insert(lane.clone());
        }
        true
    }

    /// Skips only those lanes from now on for which `keeps` says so. Returns whether there were others.
    pub fn retain(&self, keeps: impl Fn(&Lane) -> bool) -> bool {
        // `keeps` may take long, so it is called without the lock.
        let before = self.current();
        let over: Vec<&Lane> = before.iter().filter(|lane| !keeps(lane)).collect();
        if over.is_empty() {
            return false;
        }
        let mut lanes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let lanes = Arc::make_mut(&mut lanes);
        for lane in over {
            lanes.remove(lane);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skipped_lanes_are_bounded_and_can_be_claimed_again() {
        let skipped = SkippedLanes::default();
        let lane = |number: usize| Lane::from_name(&format!("endpoint:shop-{number}"));
        for number in 0..MOST_SKIPPED {
            assert!(skipped.skip(&lane(number)) && skipped.skip(&lane(number)));
        }
        assert!(!skipped.skip(&lane(MOST_SKIPPED)));
        assert!(!skipped.retain(|_| true));
        assert!(skipped.retain(|known| *known == lane(7)));
        assert_eq!(skipped.current().iter().collect::<Vec<_>>(), [&lane(7)]);
        assert!(skipped.skip(&lane(MOST_SKIPPED)));
    }
}
