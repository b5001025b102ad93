//! When there is next something to claim in each partition, as far as this instance knows, and from which partitions it
//! claims at once.
//!
//! With several partitions, a claim asks only those in which something is known to be due. Once a second, or when nothing
//! is known to be due, it polls: it claims from some partitions in turn whatever is known of them, and looks into the
//! others ([`super::poll`]). So what no message told is found within two seconds: a claim may come just before the
//! second is over.
//!
//! An instance claims at once from the partitions that it owns ([`super::shares`]). Another partition is only looked into. If
//! something there has been due for longer than [`GRACE_MS`], its owner is dead, hangs, or has no permits: then this instance
//! *adopts* the partition, which means that it claims from it at once for some time. So nothing depends on the owner.

use crate::clock::{Clock as _, OffsetClock};
use crate::domain::lane::Lane;
use crate::schedule::wake::{NEVER_MS, Wake};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// For how long something is due in a partition of another instance before this one claims it, in milliseconds. An owner
/// claims within milliseconds, and much later only if it cannot. Longer than an owner that works may take: a pause of its
/// process, a full claim of each of its partitions, a connection that is opened again. The partitions of others are looked
/// into every one or two seconds, so what an owner leaves is claimed one to three seconds late.
pub const GRACE_MS: i64 = 1_000;
/// For how long a partition is adopted, in milliseconds: until it is known who claims instead of a dead owner.
const ADOPTED_MS: i64 = super::shares::CLAIMS_FOR_MS;
/// How often all partitions are polled, in milliseconds.
const POLL_MS: i64 = 1_000;
/// How many partitions are claimed from at a poll although nothing is known to be due there. A claim also forgets what was
/// remembered long enough, and notices what is missing.
const CLAIMED_AT_POLL: usize = 16;

/// What is known of all partitions.
pub struct PartitionWakes {
    wake: Wake,
    known: Box<[KnownPartition]>,
    clock: Arc<OffsetClock>,
    /// When they were last polled.
    polled_ms: AtomicI64,
    /// The partition with which the next claim begins. It changes, so that no partition is always the last.
    first: Mutex<FirstPartition>,
    /// The lanes that the last claim skipped.
    skipped: Mutex<Arc<BTreeSet<Lane>>>,
}

struct KnownPartition {
    /// When something is due there; [`NEVER_MS`] if nothing is known.
    due_ms: AtomicI64,
    /// Whether its last claim left out what is due, because the quota for its class was used up.
    is_limited: AtomicBool,
    is_owned: AtomicBool,
    adopted_until_ms: AtomicI64,
}

#[derive(Default)]
struct FirstPartition {
    /// Of a claim.
    claimed: usize,
    /// Of those that are claimed from at a poll.
    polled: usize,
}

/// Which partitions a claim asks.
#[derive(Debug)]
pub struct ClaimPlan {
    /// From these it claims, in this order.
    pub to_claim: Vec<usize>,
    /// Into these it looks before.
    pub to_poll: Vec<usize>,
    /// When something is due in each partition as far as is known now; [`NEVER_MS`] if nothing is known. What becomes known
    /// later brings the wake forward.
    pub due_ms: Vec<i64>,
}

/// The wake of one partition.
pub struct PartitionWake {
    all: Arc<PartitionWakes>,
    number: usize,
}

impl PartitionWake {
    /// That of this partition.
    pub fn of(all: Arc<PartitionWakes>, number: usize) -> Self {
        Self { all, number }
    }

    /// Notes that something in the partition is due at this instant, which may be earlier than the known one.
    pub fn bring_forward(&self, at_ms: i64) {
        self.all.bring_forward(self.number, at_ms);
    }

    /// Whether this instance claims from the partition at once.
    pub fn is_claimed(&self) -> bool {
        self.all.is_claimed(self.number, self.all.clock.now_ms())
    }
}

impl PartitionWakes {
    /// Of so many partitions, all of which this instance owns.
    pub fn of(many: usize, clock: Arc<OffsetClock>) -> Self {
        let unknown = || KnownPartition {
            due_ms: AtomicI64::new(NEVER_MS),
            is_limited: AtomicBool::new(false),
            is_owned: AtomicBool::new(true),
            adopted_until_ms: AtomicI64::new(i64::MIN),
        };
        Self {
            wake: Wake::default(),
            known: (0..many).map(|_| unknown()).collect(),
            clock,
            polled_ms: AtomicI64::new(i64::MIN),
            first: Mutex::default(),
            skipped: Mutex::default(),
        }
    }

    /// The wake of the dispatcher.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Notes that something in a partition is due at this instant, and wakes the dispatcher if this instance claims there.
    pub fn bring_forward(&self, number: usize, at_ms: i64) {
        self.known[number].due_ms.fetch_min(at_ms, Ordering::SeqCst);
        if self.is_claimed(number, self.clock.now_ms()) {
            self.wake.bring_forward(at_ms);
        }
    }

    /// The next claim looks into all partitions.
    pub fn poll_soon(&self) {
        self.polled_ms.store(i64::MIN, Ordering::SeqCst);
        self.wake.bring_forward(0);
    }

    /// From now on this instance owns these partitions. It claims at once from those that it did not own before.
    pub fn own(&self, owned: &[bool]) {
        for (number, (known, is_owned)) in self.known.iter().zip(owned).enumerate() {
            if !known.is_owned.swap(*is_owned, Ordering::SeqCst) && *is_owned {
                self.bring_forward(number, 0);
            }
        }
    }

    /// Whether this instance claims from a partition at once.
    fn is_claimed(&self, number: usize, now_ms: i64) -> bool {
        let known = &self.known[number];
        known.is_owned.load(Ordering::SeqCst)
            || known.adopted_until_ms.load(Ordering::SeqCst) > now_ms
    }

    /// Which of the partitions that `count` a claim asks now that skips these lanes.
    pub fn plan(
        &self,
        now_ms: i64,
        skipped: &Arc<BTreeSet<Lane>>,
        counts: impl Fn(usize) -> bool,
    ) -> ClaimPlan {
        let many = self.known.len();
        if many == 1 {
            return ClaimPlan {
                to_claim: (0..1).filter(|number| counts(*number)).collect(),
                to_poll: Vec::new(),
                due_ms: vec![NEVER_MS],
            };
        }
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let from = first.claimed;
        first.claimed = (from + 1) % many;
        let counts = &counts;
        let in_turn = |from: usize| {
            (from..many)
                .chain(0..from)
                .filter(move |number| counts(*number))
        };
        let due_ms: Vec<i64> = (self.known.iter())
            .map(|known| known.due_ms.load(Ordering::SeqCst))
            .collect();
        let is_due = |number: &usize| {
            self.is_claimed(*number, now_ms)
                && (due_ms[*number] <= now_ms
                    || self.known[*number].is_limited.load(Ordering::SeqCst))
        };
        let mut to_claim: Vec<usize> = in_turn(from).filter(is_due).collect();
        let polled_ms = self.polled_ms.load(Ordering::SeqCst);
        // The clock may be set back.
        let is_over = now_ms < polled_ms || now_ms.saturating_sub(polled_ms) >= POLL_MS;
        let skips_others = self.skips_others(skipped);
        if !(to_claim.is_empty() || is_over || skips_others) {
            return ClaimPlan {
                to_claim,
                to_poll: Vec::new(),
                due_ms,
            };
        }
        self.polled_ms.store(now_ms, Ordering::SeqCst);
        let mut is_asked = vec![false; many];
        to_claim.iter().for_each(|number| is_asked[*number] = true);
        let is_left = |number: &usize| !is_asked[*number];
        let (claimed, others): (Vec<usize>, Vec<usize>) = in_turn(first.polled)
            .filter(is_left)
            .partition(|number| self.is_claimed(*number, now_ms));
        let (at_once, rest) = claimed.split_at(claimed.len().min(CLAIMED_AT_POLL));
        first.polled = at_once.last().map_or(0, |last| (last + 1) % many);
        to_claim.extend(at_once);
        ClaimPlan {
            to_claim,
            to_poll: rest.iter().copied().chain(others).collect(),
            due_ms,
        }
    }

    /// Whether the last claim skipped other lanes. What is due in one that was skipped is not known.
    fn skips_others(&self, skipped: &Arc<BTreeSet<Lane>>) -> bool {
        let mut before = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = !Arc::ptr_eq(&before, skipped) && *before != *skipped;
        *before = skipped.clone();
        is_other
    }

    /// Takes in when there is next something to claim in a partition that was looked into. Returns whether this claim must ask
    /// the partition.
    pub fn polled(&self, number: usize, next_ms: Option<i64>, now_ms: i64) -> bool {
        let Some(next_ms) = next_ms else {
            return false;
        };
        if !self.is_claimed(number, now_ms) {
            if next_ms > now_ms.saturating_sub(GRACE_MS) {
                return false;
            }
            let known = &self.known[number];
            let until_ms = now_ms.saturating_add(ADOPTED_MS);
            known.adopted_until_ms.store(until_ms, Ordering::SeqCst);
        }
        // Without the wake: this claim asks there now, or its reply says when. What is due there may be what this instance
        // skips, and the wake would then have it claim without a pause.
        self.known[number]
            .due_ms
            .fetch_min(next_ms, Ordering::SeqCst);
        next_ms <= now_ms
    }

    /// Forgets what is known to be due in a partition: to be called right before a claim there.
    pub fn begin_claim(&self, number: usize) {
        self.known[number].due_ms.store(NEVER_MS, Ordering::SeqCst);
    }

    /// Takes in the reply to that claim.
    pub fn claimed(&self, number: usize, next_due_ms: Option<i64>, is_limited: bool) {
        let known = &self.known[number];
        if let Some(next_due_ms) = next_due_ms {
            known.due_ms.fetch_min(next_due_ms, Ordering::SeqCst);
        }
        known.is_limited.store(is_limited, Ordering::SeqCst);
    }

    /// That claim failed: the next one after `at_ms` asks the partition again.
    pub fn failed(&self, number: usize, at_ms: i64) {
        self.known[number].due_ms.fetch_min(at_ms, Ordering::SeqCst);
    }

    /// The poll failed, or was not finished: the next claim polls again.
    pub fn poll_failed(&self) {
        self.polled_ms.store(i64::MIN, Ordering::SeqCst);
    }

    /// The next claim begins with this partition, which this one did not ask. If nothing is known to be due there, a poll was
    /// not finished: the next claim goes on with it.
    pub fn begin_with(&self, number: usize, is_due: bool) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.claimed = number;
        if !is_due {
            first.polled = number;
            self.poll_failed();
        }
    }

    /// The earliest of these instants of all partitions from which this instance claims at once, and which `counts`.
    pub fn next_due_ms(
        &self,
        now_ms: i64,
        counts: impl Fn(usize) -> bool,
        due_ms: &[i64],
    ) -> Option<i64> {
        self.claimed_partitions(now_ms, counts)
            .map(|number| due_ms[number])
            .min()
            .filter(|due_ms| *due_ms != NEVER_MS)
    }

    /// Whether the last claim of any of these left out what is due.
    pub fn is_limited(&self, now_ms: i64, counts: impl Fn(usize) -> bool) -> bool {
        self.claimed_partitions(now_ms, counts)
            .any(|number| self.known[number].is_limited.load(Ordering::SeqCst))
    }

    fn claimed_partitions(
        &self,
        now_ms: i64,
        counts: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = usize> {
        (0..self.known.len())
            .filter(move |number| self.is_claimed(*number, now_ms) && counts(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn wakes(many: usize) -> PartitionWakes {
        let clock = OffsetClock::new(Arc::new(ManualClock::at(0)));
        PartitionWakes::of(many, Arc::new(clock))
    }

    #[test]
    fn a_claim_asks_where_something_is_due_and_polls_once_a_second() {
        let (wakes, skipped) = (wakes(40), Arc::default());
        let plan = |now_ms| {
            let plan = wakes.plan(now_ms, &skipped, |_| true);
            (plan.to_claim, plan.to_poll.len())
        };
        assert_eq!(plan(0), ((0..16).collect(), 24));
        assert_eq!(plan(0), ((16..32).collect(), 24), "in turn");
        wakes.bring_forward(7, 500);
        assert_eq!(plan(499), ((32..40).chain(0..8).collect(), 24));
        assert_eq!(plan(500), (vec![7], 0));
        assert_eq!(plan(1_498), (vec![7], 0));
        let (to_claim, to_poll) = plan(1_499);
        assert_eq!((to_claim[0], to_claim.len(), to_poll), (7, 17, 23));
        wakes.begin_claim(7);
        wakes.claimed(7, Some(2_000), false);
        let due_ms = wakes.plan(1_499, &skipped, |_| true).due_ms;
        assert_eq!(wakes.next_due_ms(0, |_| true, &due_ms), Some(2_000));
        assert_eq!(wakes.next_due_ms(0, |number| number != 7, &due_ms), None);
        wakes.claimed(7, None, true);
        assert_eq!(plan(1_500), (vec![7], 0), "its quota may have grown");
    }

    #[test]
    fn claims_begin_with_another_partition_each_time() {
        let (wakes, skipped) = (wakes(3), Arc::default());
        (0..3).for_each(|number| wakes.bring_forward(number, 0));
        let plan = || wakes.plan(0, &skipped, |_| true).to_claim;
        assert_eq!(plan(), [0, 1, 2]);
        assert_eq!(plan(), [1, 2, 0]);
        wakes.begin_with(0, true);
        assert_eq!(plan(), [0, 1, 2]);
        let answers = |number: usize| number != 1;
        assert_eq!(wakes.plan(0, &skipped, answers).to_claim, [2, 0]);
    }

    #[test]
    fn a_poll_goes_on_where_a_claim_ended() {
        let (wakes, skipped) = (wakes(40), Arc::default());
        wakes.bring_forward(30, 0);
        let plan = |now_ms| wakes.plan(now_ms, &skipped, |_| true).to_claim;
        assert_eq!(plan(0), [30].into_iter().chain(0..16).collect::<Vec<_>>());
        assert_eq!(plan(1), [30]);
        wakes.begin_with(5, false);
        let from_there = [30].into_iter().chain(5..21).collect::<Vec<_>>();
        assert_eq!(plan(1), from_there);
        wakes.begin_with(30, true);
        assert_eq!(plan(1), [30]);
        assert_eq!(plan(1 + POLL_MS)[..2], [30, 21]);
    }

    #[test]
    fn what_another_instance_owns_is_claimed_when_it_is_overdue() {
        let wakes = wakes(16);
        wakes.own(&[false; 16]);
        wakes.bring_forward(3, 5);
        assert_eq!(wakes.wake().at_ms(), NEVER_MS);
        assert!(!wakes.polled(3, Some(1), GRACE_MS));
        assert!(wakes.polled(3, Some(0), GRACE_MS));
        assert_eq!(wakes.wake().at_ms(), NEVER_MS, "this claim asks there");
        assert!(wakes.is_claimed(3, GRACE_MS + ADOPTED_MS - 1));
        assert!(!wakes.is_claimed(3, GRACE_MS + ADOPTED_MS));
        let mut owned = [false; 16];
        owned[4] = true;
        wakes.own(&owned);
        assert_eq!(wakes.wake().at_ms(), 0, "it claims there at once");
        wakes.wake().reset();
        wakes.own(&owned);
        assert_eq!(wakes.wake().at_ms(), NEVER_MS);
    }
}
