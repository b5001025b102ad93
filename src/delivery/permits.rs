//! How many attempts a server makes at a time, and for which lanes.
//!
//! A quarter is kept for lanes whose destination answers and has no call in flight, one attempt for each.
//! Lanes whose destination is not known to answer get half at most, those that are probed an eighth. So
//! destinations that hang can hold permits, but never those of the destinations that answer. And a claim takes a
//! few of them only, because thousands of new connections at once would delay the calls that are due meanwhile.

use crate::domain::lane_health::LaneClass;
use crate::schedule::ClaimQuota;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Maximum number of leases that one claim takes to lanes whose destination is not known to answer, and to lanes
/// that are probed.
const MOST_DOUBTFUL_PER_CLAIM: usize = 32;
const MOST_PROBING_PER_CLAIM: usize = 8;

/// A claim that follows one which took all that was left waits for this part of all permits, the total divided by
/// this. So a server with few permits does not wait.
const WORTH_A_CLAIM: usize = 64;

/// The permits of one server.
#[derive(Debug)]
pub(super) struct Permits {
    total: usize,
    /// Number of permits that are held, by the class of the lane when it was claimed.
    held: Mutex<[usize; LaneClass::ALL.len()]>,
    released: Notify,
}

/// The right to make one attempt. Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Arc<Permits>,
    class: LaneClass,
}

impl Permits {
    /// For so many attempts at a time, at least one.
    pub(super) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self {
            total: total.max(1),
            held: Mutex::default(),
            released: Notify::new(),
        })
    }

    /// What may be claimed now.
    pub(super) fn quota(&self) -> ClaimQuota {
        let held = self.held();
        let free = self.total.saturating_sub(held.iter().sum());
        let left = |share: usize, class: LaneClass| share.saturating_sub(held[class as usize]);
        ClaimQuota {
            total: free,
            kept_for_idle: (self.total / 4).min(free),
            doubtful: left(self.total.div_ceil(2), LaneClass::Doubtful)
                .min(MOST_DOUBTFUL_PER_CLAIM),
            probing: left(self.total.div_ceil(8), LaneClass::Probing).min(MOST_PROBING_PER_CLAIM),
        }
    }

    /// Whether another claim may serve a class for which this quota is used up. `rest` is what is left of it.
    pub(super) fn may_follow(&self, quota: ClaimQuota, rest: ClaimQuota) -> bool {
        let left = self.quota();
        let classes = [LaneClass::Doubtful, LaneClass::Probing];
        classes.into_iter().any(|class| {
            quota.for_visit(class) > 0 && rest.is_used_up(class) && left.for_visit(class) > 0
        })
    }

    /// Takes a permit for a lease of this class. Only one task claims and takes, within a quota of before, so
    /// there is one left.
    pub(super) fn take(self: &Arc<Self>, class: LaneClass) -> Permit {
        self.held()[class as usize] += 1;
        Permit {
            permits: self.clone(),
            class,
        }
    }

    /// Waits until a permit is given back. A permit that was given back since the last wait ends it at once.
    pub(super) async fn released(&self) {
        self.released.notified().await;
    }

    /// If lanes that have calls in flight already get nothing now, because their part is held, waits for so many free permits
    /// that a claim is worth its cost, for `longest` at most. The result is whether permits were given back meanwhile: this
    /// wait has used up what [`Permits::released`] would tell of them.
    pub(super) async fn gather(&self, longest: Duration) -> bool {
        let before = self.quota();
        if before.for_visit(LaneClass::Busy) > 0 {
            return false;
        }
        let worth = (self.total / WORTH_A_CLAIM).max(1);
        let enough = async {
            while self.quota().shared() < worth {
                self.released().await;
            }
        };
        // Fewer are enough when the time is over.
        let _ = tokio::time::timeout(longest, enough).await;
        self.quota().total > before.total
    }

    fn held(&self) -> std::sync::MutexGuard<'_, [usize; LaneClass::ALL.len()]> {
        // Counting cannot panic half-way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.held()[self.class as usize] -= 1;
        self.permits.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LaneClass::{Busy, Doubtful, Idle, Probing};

    #[test]
    fn destinations_that_hang_hold_a_part_only() {
        let permits = Permits::new(16);
        let mut held: Vec<Permit> = (0..8).map(|_| permits.take(Doubtful)).collect();
        held.extend((0..2).map(|_| permits.take(Probing)));
        let quota = permits.quota();
        let used_up = LaneClass::ALL.map(|class| quota.is_used_up(class));
        assert_eq!(used_up, [false, false, true, true]);
        held.extend((0..2).map(|_| permits.take(Busy)));
        let quota = permits.quota();
        let visits = LaneClass::ALL.map(|class| quota.for_visit(class));
        assert_eq!(visits, [1, 0, 0, 0], "the last quarter is kept");
        held.extend((0..4).map(|_| permits.take(Idle)));
        assert_eq!(permits.quota().total, 0);
        held.clear();
        assert_eq!(permits.quota(), Permits::new(16).quota());
    }

    #[test]
    fn a_server_with_few_permits_still_serves_every_class() {
        for total in 0..8 {
            let quota = Permits::new(total).quota();
            for class in LaneClass::ALL {
                assert!(quota.for_visit(class) > 0, "{total} {class:?}");
            }
        }
    }

    #[test]
    fn a_claim_takes_a_few_doubtful_lanes_and_another_may_follow() {
        let permits = Permits::new(4_096);
        let quota = permits.quota();
        assert_eq!(quota.doubtful, MOST_DOUBTFUL_PER_CLAIM);
        let mut rest = quota;
        let mut held = Vec::new();
        assert!(!permits.may_follow(quota, rest), "nothing was taken");
        for _ in 0..MOST_DOUBTFUL_PER_CLAIM {
            rest.take(Doubtful, 1);
            held.push(permits.take(Doubtful));
        }
        assert!(permits.may_follow(quota, rest));
        held.extend((0..2_048 - MOST_DOUBTFUL_PER_CLAIM).map(|_| permits.take(Doubtful)));
        assert!(!permits.may_follow(quota, rest), "all of the half is held");
        assert!(!permits.may_follow(permits.quota(), permits.quota()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_after_all_permits_were_taken_waits_for_a_part_of_them() {
        const LONGEST: Duration = Duration::from_millis(2);
        let permits = Permits::new(256);
        let mut held: Vec<Permit> = (0..192).map(|_| permits.take(Busy)).collect();
        assert!(!permits.gather(LONGEST).await, "none was given back");
        let (given_back, ()) = tokio::join!(permits.gather(LONGEST), async {
            held.truncate(190);
        });
        assert!(given_back, "fewer are enough when the time is over");
        assert!(!permits.gather(LONGEST).await, "some are free");
        held.extend((0..2).map(|_| permits.take(Busy)));
        let began = tokio::time::Instant::now();
        let (given_back, ()) = tokio::join!(permits.gather(LONGEST), async {
            held.truncate(188);
        });
        assert!(given_back && began.elapsed().is_zero());
    }

    #[tokio::test]
    async fn a_permit_that_is_given_back_ends_the_wait() {
        let permits = Permits::new(1);
        drop(permits.take(Idle));
        permits.released().await;
        let held = permits.take(Idle);
        let (_, ()) = tokio::join!(permits.released(), async { drop(held) });
    }
}
