//! The lanes that the claims of this server skip, because it cannot sign the calls to their endpoints, or does not know these.
//!
//! A server that claimed such an entry could only give it back, and the entry would be late for the servers that can
//! sign. So its claims name these lanes. A skipped lane keeps its turn and its entries, and other servers serve it as
//! if this one were not there.

use crate::domain::lane::Lane;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// Maximum number of lanes that a server skips. Each claim names all of them.
pub const MOST_SKIPPED: usize = 1_000;

/// Why a lane is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipCause {
    /// This server cannot open a key of the endpoint.
    Key,
    /// This server does not know the endpoint, or cannot read it.
    Endpoint,
}

/// The skipped lanes of one server; none at first.
#[derive(Debug, Default)]
pub struct SkippedLanes(RwLock<Skipped>);

#[derive(Debug, Default)]
struct Skipped {
    all: Arc<BTreeSet<Lane>>,
    /// Those of them that are skipped because of [`SkipCause::Endpoint`].
    of_unknown_endpoints: BTreeSet<Lane>,
}

impl SkippedLanes {
    /// The lanes.
    #[must_use]
    pub fn current(&self) -> Arc<BTreeSet<Lane>> {
        self.read().all.clone()
    }

    /// Those that are skipped because of [`SkipCause::Key`].
    #[must_use]
    pub fn with_unusable_keys(&self) -> Arc<BTreeSet<Lane>> {
        let skipped = self.read();
        match skipped.of_unknown_endpoints.is_empty() {
            true => skipped.all.clone(),
            false => Arc::new(&*skipped.all - &skipped.of_unknown_endpoints),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Skipped> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Skips a lane from the next claim on. Returns `false` if [`MOST_SKIPPED`] others are skipped already.
    pub fn skip(&self, lane: &Lane, cause: SkipCause) -> bool {
        let mut skipped = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !skipped.all.contains(lane) {
            if skipped.all.len() >= MOST_SKIPPED {
                return false;
            }
            Arc::make_mut(&mut skipped.all).insert(lane.clone());
        }
        match cause {
            SkipCause::Key => skipped.of_unknown_endpoints.remove(lane),
            SkipCause::Endpoint => skipped.of_unknown_endpoints.insert(lane.clone()),
        };
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
        let mut skipped = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Skipped {
            all,
            of_unknown_endpoints,
        } = &mut *skipped;
        let all = Arc::make_mut(all);
        for lane in over {
            all.remove(lane);
            of_unknown_endpoints.remove(lane);
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
            let skips = || skipped.skip(&lane(number), SkipCause::Key);
            assert!(skips() && skips());
        }
        assert!(!skipped.skip(&lane(MOST_SKIPPED), SkipCause::Key));
        assert!(!skipped.retain(|_| true));
        assert!(skipped.retain(|known| *known == lane(7)));
        assert_eq!(skipped.current().iter().collect::<Vec<_>>(), [&lane(7)]);
        assert!(skipped.skip(&lane(MOST_SKIPPED), SkipCause::Key));
    }

    #[test]
    fn lanes_of_unknown_endpoints_are_skipped_and_lack_no_key() {
        let skipped = SkippedLanes::default();
        let [locked, unknown] = ["endpoint:locked", "endpoint:unknown"].map(Lane::from_name);
        assert!(skipped.skip(&locked, SkipCause::Key));
        assert!(skipped.skip(&unknown, SkipCause::Endpoint));
        let lanes = |lanes: Arc<BTreeSet<Lane>>| lanes.iter().cloned().collect::<Vec<_>>();
        let both = [locked.clone(), unknown.clone()];
        assert_eq!(lanes(skipped.current()), both);
        let with_keys = || lanes(skipped.with_unusable_keys());
        assert_eq!(with_keys(), both[..1]);
        // It is known by now, and its key cannot be opened.
        assert!(skipped.skip(&unknown, SkipCause::Key));
        assert_eq!(with_keys(), both);
        assert!(skipped.skip(&unknown, SkipCause::Endpoint));
        assert!(skipped.retain(|lane| *lane == locked));
        assert_eq!(with_keys(), both[..1]);
    }
}
