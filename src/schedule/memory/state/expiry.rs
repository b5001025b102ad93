//! What a claim does first: entries whose lease has expired go back to their lanes, and ended ones are forgotten.

use super::{Holder, LeaseInForce, MemoryState};
use crate::domain::key::Key;
use crate::domain::state::State;
use crate::schedule::memory::timed::Timed;

/// Maximum number of expired leases that one claim returns to their lanes.
const MOST_RETURNED: usize = 256;
/// Maximum number of ended entries that one claim forgets.
const MOST_FORGOTTEN: usize = 256;

impl MemoryState {
    /// When the next lease expires.
    pub(super) fn next_expiry_ms(&self) -> Option<i64> {
        let expires_ms = self.leases.first().map(|lease| lease.at_ms);
        let reserved_ms = self.reservation_expiries.first().map(|(at_ms, _)| *at_ms);
        [expires_ms, reserved_ms].into_iter().flatten().min()
    }

    pub(super) fn return_expired(&mut self, now_ms: i64) {
        for _ in 0..MOST_RETURNED {
            match self.leases.first() {
                Some(Timed { at_ms, key }) if *at_ms <= now_ms => {
                    let key = key.clone();
                    self.return_if_expired(&key, now_ms);
                }
                Some(_) | None => break,
            }
        }
        for _ in 0..MOST_RETURNED {
            match self.reservation_expiries.first() {
                Some((at_ms, key)) if *at_ms <= now_ms => {
                    let key = key.clone();
                    self.return_if_expired(&key, now_ms);
                }
                Some(_) | None => return,
            }
        }
    }

    /// Ends the lease on an entry or a key if it has expired.
    pub(super) fn return_if_expired(&mut self, key: &Key, now_ms: i64) {
        let is_over = |in_force: &LeaseInForce| in_force.expiry.at_ms <= now_ms;
        let Some(job) = self.jobs.get_mut(key) else {
            if let Some(in_force) = self.reserved.get(key).filter(|in_force| is_over(in_force)) {
                self.reservation_expiries
                    .remove(&(in_force.expiry.at_ms, key.clone()));
                self.reserved.remove(key);
                self.unknown_changes.add(key.clone(), now_ms);
            }
            return;
        };
        let Some(in_force) = job.lease.filter(is_over) else {
            return;
        };
        job.lease = None;
        let at_ms = in_force.expiry.at_ms;
        if job.entry.state == State::Scheduled {
            job.entry.verify = true;
            match in_force.holder {
                Holder::Change(_) => job.entry.raise_fence = true,
                Holder::Attempt => {
                    job.entry.interrupted_ms = Some(at_ms - self.limits.lease_ms);
                }
            }
        }
        let entry = job.entry.clone();
        let key = entry.notification.key.clone();
        self.leases.remove(&Timed { at_ms, key });
        self.return_entry(&entry, now_ms);
        if in_force.counted {
            self.lanes.end_lease(&entry.notification.lane, now_ms);
        }
    }

    pub(super) fn forget(&mut self, now_ms: i64) {
        for _ in 0..MOST_FORGOTTEN {
            let Some(key) = self.ended.forget(now_ms) else {
                return;
            };
            if let Some(job) = self.jobs.remove(&key) {
                self.budget.remove(&job.entry.notification);
                self.scan_slots.remove(job.scan_slot);
            }
        }
    }
}
