//! How many attempts a server makes at a time, and for which lanes.
//!
//! A quarter is kept for lanes whose destination answers and has no call in flight, one attempt for each.
//! Lanes whose destination is not known to answer get half at most, those that are probed an eighth. So
//! destinations that hang can hold permits, but never those of the destinations that answer. A sixteenth is kept for these
//! two kinds of lanes: however many calls the others have to make, a new destination is called, and one that failed gets
//! the call that shows that it answers again. Their attempts begin at a limited rate, because thousands of new
//! connections at once would delay the calls that are due meanwhile.

use super::start_rate::StartRate;
use crate::domain::lane_health::LaneClass;
use crate::schedule::ClaimQuota;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// An attempt for a lane whose destination is not known to answer begins once in this time, after a burst of
/// [`MOST_AT_ONCE`]. More begin as others are answered.
const DOUBTFUL_ONE_IN: Duration = Duration::from_micros(2_500);
/// Likewise an attempt for a lane that is probed. Each that fails is recorded and costs as much as one that is answered. A
/// lane is probed every 30 s at most, so up to 6,000 lanes are probed as often as they should be.
const PROBING_ONE_IN: Duration = Duration::from_millis(5);
const MOST_AT_ONCE: usize = 8;

/// A claim that follows one which took all that was left waits for this part of all permits, the total divided by
/// this. So a server with few permits does not wait.
const WORTH_A_CLAIM: usize = 64;
/// A claim that follows one which filled its lanes waits until this part of the attempts in flight has ended, their number
/// divided by this. So a server with few attempts in flight does not wait.
const WORTH_OF_FULL_LANES: usize = 16;

/// The permits of one server.
#[derive(Debug)]
pub(super) struct Permits {
    total: usize,
    /// Number of permits that are held, by the class of the lane when it was claimed.
    held: Mutex<[usize; LaneClass::ALL.len()]>,
    doubtful: StartRate,
    probing: StartRate,
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
            doubtful: StartRate::new(DOUBTFUL_ONE_IN, MOST_AT_ONCE),
            probing: StartRate::new(PROBING_ONE_IN, MOST_AT_ONCE),
            released: Notify::new(),
        })
    }

    /// What may be claimed now.
    pub(super) fn quota(&self) -> ClaimQuota {
        let quota = self.quota_at_any_rate();
        ClaimQuota {
            doubtful: quota.doubtful.min(self.doubtful.available()),
            probing: quota.probing.min(self.probing.available()),
            ..quota
        }
    }

    /// Likewise, without a look at how many attempts began just now.
    fn quota_at_any_rate(&self) -> ClaimQuota {
        let held = self.held();
        let free = self.total.saturating_sub(held.iter().sum());
        let left = |share: usize, class: LaneClass| share.saturating_sub(held[class as usize]);
        let troubled = held[LaneClass::Doubtful as usize] + held[LaneClass::Probing as usize];
        ClaimQuota {
            total: free,
            kept_for_idle: (self.total / 4).min(free),
            kept_for_troubled: (self.total / 16).saturating_sub(troubled).min(free),
            doubtful: left(self.total.div_ceil(2), LaneClass::Doubtful),
            probing: left(self.total.div_ceil(8), LaneClass::Probing),
        }
    }

    /// Whether a claim got nothing for a class only because its attempts began too often, so that another one soon may get
    /// something. `rest` is what is left of its quota.
    pub(super) fn is_too_fast(&self, rest: ClaimQuota) -> bool {
        let left = self.quota_at_any_rate();
        let classes = [LaneClass::Doubtful, LaneClass::Probing];
        (classes.into_iter()).any(|class| rest.is_used_up(class) && left.for_visit(class) > 0)
    }

    /// Takes a permit for a lease of this class. Only one task claims and takes, within a quota of before, so
    /// there is one left.
    pub(super) fn take(self: &Arc<Self>, class: LaneClass) -> Permit {
        self.held()[class as usize] += 1;
        if let Some(rate) = self.start_rate(class) {
            rate.take();
        }
        Permit {
            permits: self.clone(),
            class,
        }
    }

    /// Counts an attempt for a lane of this class that was answered.
    pub(super) fn answered(&self, class: LaneClass) {
        if let Some(rate) = self.start_rate(class) {
            rate.answered();
        }
    }

    /// How often attempts for lanes of this class begin; `None` without a limit.
    fn start_rate(&self, class: LaneClass) -> Option<&StartRate> {
        match class {
            LaneClass::Idle | LaneClass::Busy => None,
            LaneClass::Doubtful => Some(&self.doubtful),
            LaneClass::Probing => Some(&self.probing),
        }
    }

    /// Waits until a permit is given back. A permit that was given back since the last wait ends it at once.
    pub(super) async fn released(&self) {
        self.released.notified().await;
    }

    /// Waits, for `longest` at most, until a claim is worth its cost, in two cases. If lanes that have calls in flight already
    /// get nothing now, because their part is held: for so many free permits. If the last claim has filled its lanes
    /// (`filled`), so that they get nothing until some of their attempts have ended: for so many of all attempts to end.
    /// The result is whether permits were given back meanwhile, or since the last wait for one: this wait has used up what
    /// [`Permits::released`] would tell of them.
    pub(super) async fn gather(&self, filled: bool, longest: Duration) -> bool {
        let before = self.quota();
        let worth = if before.for_visit(LaneClass::Busy) == 0 {
            let worth = (self.total / WORTH_A_CLAIM).max(1);
            (self.total / 4 + worth).saturating_sub(before.total)
        } else if filled {
            (self.total - before.total) / WORTH_OF_FULL_LANES
        } else {
            0
        };
        if worth == 0 {
            return false;
        }
        // One that was given back before this wait began counts too: the claim did not know of it.
        let mut given_back = false;
        let enough = async {
            while self.quota().total < before.total + worth {
                self.released().await;
                given_back = true;
            }
        };
        // Fewer are enough when the time is over.
        let _ = tokio::time::timeout(longest, enough).await;
        given_back
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
    use crate::schedule::PER_VISIT;
    use LaneClass::{Busy, Doubtful, Idle, Probing};

    #[tokio::test(start_paused = true)]
    async fn destinations_that_hang_hold_a_part_only() {
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
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(permits.quota(), Permits::new(16).quota());
    }

    #[tokio::test(start_paused = true)]
    async fn destinations_that_answer_leave_a_part_to_the_others() {
        let permits = Permits::new(32);
        let visits = |permits: &Arc<Permits>| {
            let quota = permits.quota();
            LaneClass::ALL.map(|class| quota.for_visit(class))
        };
        let mut held: Vec<Permit> = (0..24).map(|_| permits.take(Busy)).collect();
        assert_eq!(visits(&permits), [1, 0, 2, 1]);
        held.extend((0..6).map(|_| permits.take(Idle)));
        assert_eq!(visits(&permits), [0, 0, 2, 1]);
        held.push(permits.take(Doubtful));
        assert_eq!(visits(&permits), [0, 0, 1, 1]);
        held.push(permits.take(Probing));
        assert_eq!(visits(&permits), [0; 4]);
        held.remove(0);
        assert_eq!(visits(&permits), [1, 0, 0, 0], "they have their part");
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

    #[tokio::test(start_paused = true)]
    async fn doubtful_lanes_are_called_at_a_limited_rate() {
        let permits = Permits::new(128);
        let mut held = Vec::new();
        let mut rest = permits.quota();
        assert_eq!(rest.doubtful, MOST_AT_ONCE);
        assert!(!permits.is_too_fast(rest), "nothing was taken");
        for _ in 0..MOST_AT_ONCE {
            rest.take(Doubtful, 1);
            held.push(permits.take(Doubtful));
        }
        assert!(rest.is_used_up(Doubtful) && permits.is_too_fast(rest));
        assert_eq!(permits.quota().for_visit(Busy), PER_VISIT);
        tokio::time::advance(3 * DOUBTFUL_ONE_IN).await;
        assert_eq!(permits.quota().doubtful, 3);
        held.extend((MOST_AT_ONCE..64).map(|_| permits.take(Doubtful)));
        let quota = permits.quota();
        assert!(quota.is_used_up(Doubtful) && !permits.is_too_fast(quota));
        drop(held.pop());
        assert!(permits.is_too_fast(quota), "one was given back since");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_after_all_permits_were_taken_waits_for_a_part_of_them() {
        const LONGEST: Duration = Duration::from_millis(2);
        let permits = Permits::new(256);
        let mut held: Vec<Permit> = (0..192).map(|_| permits.take(Busy)).collect();
        assert!(!permits.gather(false, LONGEST).await, "none was given back");
        let (given_back, ()) = tokio::join!(permits.gather(false, LONGEST), async {
            held.truncate(190);
        });
        assert!(given_back, "fewer are enough when the time is over");
        assert!(!permits.gather(false, LONGEST).await, "some are free");
        held.extend((0..2).map(|_| permits.take(Busy)));
        let began = tokio::time::Instant::now();
        let (given_back, ()) = tokio::join!(permits.gather(false, LONGEST), async {
            held.truncate(188);
        });
        assert!(given_back && began.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_after_lanes_were_filled_waits_for_a_part_of_the_attempts() {
        const LONGEST: Duration = Duration::from_millis(2);
        let permits = Permits::new(256);
        let mut held: Vec<Permit> = (0..15).map(|_| permits.take(Busy)).collect();
        let began = tokio::time::Instant::now();
        assert!(!permits.gather(true, LONGEST).await);
        assert!(began.elapsed().is_zero(), "so few are not waited for");
        held.extend((15..48).map(|_| permits.take(Busy)));
        assert!(!permits.gather(false, LONGEST).await);
        assert!(began.elapsed().is_zero(), "no lane was filled");
        let (given_back, ()) = tokio::join!(permits.gather(true, LONGEST), async {
            held.truncate(45);
        });
        assert!(given_back && began.elapsed().is_zero(), "3 of 48");
        let (given_back, ()) = tokio::join!(permits.gather(true, LONGEST), async {
            held.truncate(44);
        });
        assert!(given_back && began.elapsed() >= LONGEST, "1 of 45");
        assert!(!permits.gather(true, LONGEST).await);
        held.truncate(43);
        let given_back = permits.gather(true, LONGEST).await;
        assert!(given_back, "while the claim was in flight");
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
