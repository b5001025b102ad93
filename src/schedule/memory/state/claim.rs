//! Giving leases for attempts: to the lanes that are due, class by class, within the quota of a claim.

use super::{Holder, LeaseInForce, MemoryState};
use crate::domain::key::Key;
use crate::domain::lane_health::LaneClass;
use crate::schedule::memory::timed::Timed;
use crate::schedule::{ClaimQuota, Claimed, Lease};

/// Maximum number of entries that one claim puts off because their order keeps them waiting. The next claim goes on, so that
/// one order with many due entries does not keep everybody else from the schedule for long.
const MOST_PUT_OFF: usize = 256;

impl MemoryState {
    pub(in crate::schedule::memory) fn claim(
        &mut self,
        mut quota: ClaimQuota,
        now_ms: i64,
    ) -> Claimed {
        self.lanes.begin_claim(now_ms);
        self.return_expired(now_ms);
        self.forget(now_ms);
        if self.lacks_settings() {
            return Claimed {
                next_due_ms: self.next_expiry_ms(),
                ..Claimed::default()
            };
        }
        let mut leases = Vec::new();
        let mut put_off = 0;
        for class in LaneClass::ALL {
            while quota.for_visit(class) > 0
                && put_off < MOST_PUT_OFF
                && let Some(visit) = self.lanes.visit(class, quota.for_visit(class), now_ms)
            {
                for Timed { key, .. } in &visit.taken {
                    if self.may_go(key, &visit.taken, now_ms) {
                        quota.take(class, 1);
                        let lease = self.lease_for_attempt(key.clone(), now_ms);
                        leases.push(lease.in_lane(class, visit.lane));
                    } else {
                        put_off += 1;
                    }
                }
            }
        }
        let is_due = |at_ms: i64| at_ms <= now_ms;
        let mut used_up = LaneClass::ALL.into_iter();
        let is_limited = used_up
            .any(|class| quota.is_used_up(class) && self.lanes.next_ms(class).is_some_and(is_due));
        Claimed {
            leases,
            next_due_ms: self.next_ms_within(quota, now_ms),
            is_limited,
            bare: Vec::new(),
        }
    }

    fn lease_for_attempt(&mut self, key: Key, now_ms: i64) -> Lease {
        let in_force = LeaseInForce {
            expiry: self.expiry(now_ms + self.limits.lease_ms),
            holder: Holder::Attempt,
            counted: true,
        };
        self.give_lease(key, in_force)
    }

    /// When there is next something to claim: a lane's turn, or the expiry of a lease.
    pub(in crate::schedule::memory) fn next_ms(&self) -> Option<i64> {
        self.next_ms_within(ClaimQuota::of(1), i64::MIN)
    }

    /// Likewise, without the lanes that are due while the quota for their class is used up.
    fn next_ms_within(&self, quota: ClaimQuota, now_ms: i64) -> Option<i64> {
        let turns = LaneClass::ALL.into_iter().filter_map(|class| {
            let turn_ms = self.lanes.next_ms(class)?;
            (turn_ms > now_ms || !quota.is_used_up(class)).then_some(turn_ms)
        });
        let due_ms = turns.min();
        [due_ms, self.next_expiry_ms()].into_iter().flatten().min()
    }
}
