//! Since when this server has claimed without a break, and whether its permits were used up: what is needed to tell
//! why an attempt is late.

use crate::domain::deferral::{Deferral, ServerMoment};
use crate::domain::lane_health::LaneClass;
use crate::schedule::{ClaimQuota, ClaimedLease};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// If no claim succeeds for longer than this, what is late may be late because of that, in milliseconds. A server
/// claims every second, and less often only while all its permits are taken.
const BREAK_MS: i64 = 10_000;

/// See the documentation of the module. Only the task that claims changes it.
#[derive(Debug, Default)]
pub(super) struct WorkingTime {
    since_ms: AtomicI64,
    last_ms: AtomicI64,
    /// Whether the claim before left something because all permits, or those for its class, were taken.
    was_busy: [AtomicBool; LaneClass::ALL.len()],
}

impl WorkingTime {
    /// Notes that a claim succeeded now.
    pub(super) fn claimed(&self, now_ms: i64) {
        let last_ms = self.last_ms.swap(now_ms, Ordering::Relaxed);
        let was_busy = self
            .was_busy
            .iter()
            .any(|busy| busy.load(Ordering::Relaxed));
        let is_break = now_ms.saturating_sub(last_ms) > BREAK_MS && !was_busy;
        if last_ms == 0 || is_break {
            self.since_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// For how long, and why, the attempt of a lease was deferred that was claimed now.
    pub(super) fn deferral(&self, lease: &ClaimedLease, lease_ms: i64) -> Option<Deferral> {
        let entry = lease.claimed_entry(lease_ms);
        let server = ServerMoment {
            claiming_since_ms: self.since_ms.load(Ordering::Relaxed),
            was_busy: self.was_busy[lease.class() as usize].load(Ordering::Relaxed),
        };
        Deferral::of(entry, &lease.lane(), server)
    }

    /// Notes what a claim has left of its quota, and whether something due got nothing because of that.
    pub(super) fn used_up(&self, rest: ClaimQuota, is_limited: bool) {
        for class in LaneClass::ALL {
            let is_busy = rest.total == 0 || is_limited && rest.is_used_up(class);
            self.was_busy[class as usize].store(is_busy, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_without_claims_begins_the_time_anew() {
        let working = WorkingTime::default();
        let since = |now_ms| {
            working.claimed(now_ms);
            working.since_ms.load(Ordering::Relaxed)
        };
        assert_eq!(since(1_000), 1_000);
        assert_eq!(since(2_000), 1_000);
        assert_eq!(since(2_000 + BREAK_MS), 1_000);
        assert_eq!(since(12_001 + BREAK_MS), 12_001 + BREAK_MS);
        // While all permits are taken, nothing is claimed, and that is no break.
        working.used_up(ClaimQuota::of(0), false);
        assert_eq!(since(100_000), 12_001 + BREAK_MS);
    }

    #[test]
    fn the_classes_are_busy_one_by_one() {
        let working = WorkingTime::default();
        let busy = |rest, is_limited| {
            working.used_up(rest, is_limited);
            let busy = working.was_busy.each_ref();
            busy.map(|busy| busy.load(Ordering::Relaxed))
        };
        assert_eq!(busy(ClaimQuota::of(4), false), [false; 4]);
        assert_eq!(busy(ClaimQuota::of(0), false), [true; 4]);
        let rest = ClaimQuota {
            probing: 0,
            ..ClaimQuota::of(4)
        };
        assert_eq!(busy(rest, true), [false, false, false, true]);
        assert_eq!(busy(rest, false), [false; 4]);
    }
}
