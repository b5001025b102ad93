//! Entries with a place in an order: two of one order key are never in flight together.

use super::{MemoryState, waiting};
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::order::OrderMode;
use crate::domain::state::State;
use crate::schedule::Settlement;
use std::sync::Arc;

impl MemoryState {
    /// Whether an entry that was taken from its lane may be leased for an attempt. If another one of its order key is in
    /// flight, it is put back until the lease of that one would expire.
    pub(super) fn may_go(&mut self, key: &Key, now_ms: i64) -> bool {
        let Some(job) = self.jobs.get(key) else {
            return true;
        };
        let notification = job.entry.notification.clone();
        if notification.order.is_none() {
            return true;
        }
        let holder = self.turns.other_holder(&notification);
        let in_force = holder.and_then(|holder| self.jobs.get(holder)?.lease);
        let Some(in_force) = in_force else {
            self.turns.hold(&notification);
            return true;
        };
        self.turns.wait(&notification);
        self.wait_until(key, in_force.expiry.at_ms, now_ms);
        self.lanes.end_lease(&notification.lane, now_ms);
        false
    }

    /// Adds an entry that is neither leased nor in its lane to its lane, due at this instant.
    fn wait_until(&mut self, key: &Key, at_ms: i64, now_ms: i64) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.entry.was_put_off = true;
            job.deferred_ms = Some(at_ms);
            let entry = waiting(job);
            let Notification { lane, priority, .. } = &*job.entry.notification;
            self.lanes.add_waiting(lane, *priority, entry, now_ms);
        }
    }

    /// Makes the next entry of an order key due, after the lease of this one was settled.
    pub(super) fn pass_turn(
        &mut self,
        notification: &Arc<Notification>,
        settlement: &Settlement,
        now_ms: i64,
    ) {
        let Some(order) = &notification.order else {
            return;
        };
        let passes = match settlement {
            Settlement::Defer(_) => {
                self.turns.wait(notification);
                false
            }
            Settlement::End { .. } => {
                self.turns.forget(notification);
                true
            }
            Settlement::Again(_) | Settlement::Release | Settlement::Recheck => {
                order.mode() == OrderMode::Latest
            }
        };
        while passes && let Some(next) = self.turns.next(notification) {
            let Some(job) = self.jobs.get_mut(&next) else {
                continue;
            };
            if job.lease.is_some() || job.entry.state != State::Scheduled {
                continue;
            }
            let before = waiting(job);
            job.deferred_ms = None;
            let after = waiting(job);
            let Notification { lane, priority, .. } = &*job.entry.notification.clone();
            self.lanes
                .add_waiting(lane, *priority, after.clone(), now_ms);
            if before != after {
                self.lanes.remove_waiting(lane, *priority, &before, now_ms);
            }
            break;
        }
        self.turns.release(notification);
    }
}
