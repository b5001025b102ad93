//! Which instances claim, and which partitions each of them owns.
//!
//! With every heartbeat an instance notes in `meta` whether it claims, and learns which others do. From their names alone each
//! calculates the same shares, so nothing has to be agreed on. What an instance knows may be old or wrong: then two claim
//! from a partition at once, which costs a claim that brings nothing, or none does, and the others claim there after
//! [`super::partition_wakes::GRACE_MS`]. A lease belongs to one instance whatever the shares are.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// For how long after its heartbeat an instance counts as one that claims, in milliseconds: three heartbeats. An instance
/// that learns nothing of the others for so long owns all partitions.
pub const CLAIMS_FOR_MS: i64 = 15_000;
/// An instance claims every second, unless it has as many attempts in flight as it may have. After this time without a
/// claim, in milliseconds, the others own its partitions.
const CLAIMED_WITHIN_MS: i64 = 3_000;
/// With fewer partitions than that for each instance, every instance owns all. The destinations of one partition may have
/// most of the work, so a few partitions would not share it evenly. With one partition, one instance would have it all.
const FEWEST_EACH: usize = 4;
/// The message, in place of a due time, that an instance has begun or stopped to claim. Servers of earlier versions ignore
/// it.
pub const INSTANCES_CHANGED: &str = "instances";

/// What this instance knows of those that claim.
pub struct ClaimingInstances {
    /// When this one last claimed.
    claimed_ms: AtomicI64,
    /// Whether the others know it as one that claims.
    is_announced: AtomicBool,
    /// Whether the heartbeat that tells them so was asked for.
    is_asked_for: AtomicBool,
    /// When it last learnt which instances claim.
    learnt: Mutex<Option<Instant>>,
    changed: Notify,
}

impl Default for ClaimingInstances {
    fn default() -> Self {
        Self {
            claimed_ms: AtomicI64::new(i64::MIN),
            is_announced: AtomicBool::new(false),
            is_asked_for: AtomicBool::new(false),
            learnt: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl ClaimingInstances {
    /// Notes that this instance has claimed. The others learn at once that it has begun to.
    pub fn claimed(&self, now_ms: i64) {
        self.claimed_ms.store(now_ms, Ordering::Relaxed);
        if !self.is_announced.load(Ordering::Relaxed)
            && !self.is_asked_for.swap(true, Ordering::Relaxed)
        {
            self.changed.notify_one();
        }
    }

    /// Whether this instance claims.
    pub fn claims(&self, now_ms: i64) -> bool {
        let claimed_ms = self.claimed_ms.load(Ordering::Relaxed);
        claimed_ms != i64::MIN && now_ms.saturating_sub(claimed_ms) < CLAIMED_WITHIN_MS
    }

    /// Notes whether the others know this instance as one that claims. Returns whether they knew it differently before.
    pub fn announced(&self, claims: bool) -> bool {
        let before = self.is_announced.swap(claims, Ordering::Relaxed);
        self.is_asked_for.store(false, Ordering::Relaxed);
        before != claims
    }

    /// Notes that it was learnt which instances claim.
    pub fn learnt(&self) {
        *self.learnt.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether what was learnt is too old.
    pub fn is_outdated(&self) -> bool {
        let learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = Duration::from_millis(CLAIMS_FOR_MS.unsigned_abs());
        learnt.is_none_or(|learnt| learnt.elapsed() >= longest)
    }

    /// Another instance has begun or stopped to claim.
    pub fn note_change(&self) {
        self.changed.notify_one();
    }

    /// Completes when an instance has begun or stopped to claim since the last call. For one waiter.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Which of so many partitions an instance owns, if it and these others claim.
///
/// Rendezvous hashing, with equal parts: each partition belongs to the instance with the highest score for it among those
/// that have no full part yet. Instances that know the same names calculate the same.
pub fn owned_by(own: &str, others: &BTreeSet<String>, partitions: usize) -> Vec<bool> {
    let mut instances: BTreeSet<&str> = others.iter().map(String::as_str).collect();
    instances.insert(own);
    if instances.len() == 1 || partitions < FEWEST_EACH * instances.len() {
        return vec![true; partitions];
    }
    let instances: Vec<&str> = instances.into_iter().collect();
    let (part, mut larger) = (partitions / instances.len(), partitions % instances.len());
    let mut parts = vec![0; instances.len()];
    let mut owned = vec![false; partitions];
    for (number, is_owned) in owned.iter_mut().enumerate() {
        let has_room =
            |place: &usize| parts[*place] < part || (parts[*place] == part && larger > 0);
        let owner = (0..instances.len())
            .filter(has_room)
            .max_by_key(|place| score(instances[*place], number))
            .expect("invariant: the parts have room for all partitions");
        larger -= usize::from(parts[owner] == part);
        parts[owner] += 1;
        *is_owned = instances[owner] == own;
    }
    owned
}

/// The score of an instance for a partition. It must be the same in all versions: with another one, servers of two versions
/// would leave some partitions to each other.
fn score(instance: &str, partition: usize) -> u64 {
    let name = instance
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    // The last steps of SplitMix64, since that hash alone mixes its last bytes poorly.
    let mixed = name ^ (partition as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(many: usize) -> BTreeSet<String> {
        let name = |number| format!("0199f3c2a4b57c00a1b2c3d4e5f6{number:04}");
        (0..many).map(name).collect()
    }

    #[test]
    fn every_partition_has_one_owner_and_the_parts_are_equal() {
        for (instances, partitions) in [(2, 8), (3, 16), (4, 16), (4, 255), (5, 256), (64, 256)] {
            let all = names(instances);
            let parts: Vec<Vec<bool>> = all
                .iter()
                .map(|own| owned_by(own, &all, partitions))
                .collect();
            for number in 0..partitions {
                let owners = parts.iter().filter(|part| part[number]).count();
                assert_eq!(owners, 1, "{instances} {partitions} {number}");
            }
            for part in parts {
                let many = part.iter().filter(|is_owned| **is_owned).count();
                let equal = partitions / instances..=partitions.div_ceil(instances);
                assert!(equal.contains(&many), "{instances} {partitions}: {many}");
            }
        }
    }

    #[test]
    fn few_partitions_are_not_shared_out() {
        let all = names(2);
        let own = all.first().expect("some");
        assert_eq!(owned_by(own, &all, 1), [true]);
        assert_eq!(owned_by(own, &all, 7), [true; 7]);
        let part = owned_by(own, &all, 8);
        assert_eq!(part.iter().filter(|is_owned| **is_owned).count(), 4);
        assert_eq!(owned_by(own, &BTreeSet::new(), 256), [true; 256]);
    }

    #[test]
    fn an_instance_that_leaves_moves_few_partitions_of_the_others() {
        let (all, fewer) = (names(4), names(3));
        let kept: usize = (fewer.iter())
            .map(|own| {
                let (before, after) = (owned_by(own, &all, 256), owned_by(own, &fewer, 256));
                before
                    .iter()
                    .zip(after)
                    .filter(|(before, after)| **before && *after)
                    .count()
            })
            .sum();
        assert!(kept > 150, "{kept} of 192");
    }

    #[test]
    fn an_instance_claims_until_it_has_not_claimed_for_some_time() {
        let instances = ClaimingInstances::default();
        assert!(!instances.claims(0));
        instances.claimed(1_000);
        assert!(instances.claims(1_000 + CLAIMED_WITHIN_MS - 1));
        assert!(!instances.claims(1_000 + CLAIMED_WITHIN_MS));
        assert!(instances.announced(true) && !instances.announced(true));
        assert!(instances.announced(false));
    }
}
