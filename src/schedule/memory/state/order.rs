//! Entries with a place in an order: two of one order key are never in flight together.

use super::{Job, MemoryState, waiting};
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::order::OrderMode;
use crate::domain::state::State;
use crate::schedule::memory::order_turns::{Placed, Wanted};
use crate::schedule::memory::timed::Timed;
use crate::schedule::{BEHIND_MS, Settlement};
use std::sync::Arc;

impl MemoryState {
    /// Whether an entry that was taken from its lane may be leased for an attempt. If another one of its order key is in
    /// flight, it is put back until the lease of that one would expire. If a lower number of a strict order waits in the
    /// lane, or is one of `taken`, it is put back for longer: the end of that one makes it due.
    pub(super) fn may_go(&mut self, key: &Key, taken: &[Timed], now_ms: i64) -> bool {
        let Some(job) = self.jobs.get(key) else {
            return true;
        };
        let notification = job.entry.notification.clone();
        let Some(placed) = Placed::of(&notification) else {
            return true;
        };
        let until_ms = if self.is_behind(placed, taken) {
            Some(now_ms + BEHIND_MS)
        } else {
            let holder = self.turns.other_holder(placed);
            let in_force = holder.and_then(|holder| self.jobs.get(holder)?.lease);
            // A claim returns only some of the leases that are over. This one holds nobody up: put off until an instant
            // that has passed, the entry would be due at once, again and again.
            let expiry_ms = in_force.map(|lease| lease.expiry.at_ms);
            expiry_ms.filter(|at_ms| *at_ms > now_ms)
        };
        let Some(until_ms) = until_ms else {
            self.turns.hold(placed);
            return true;
        };
        self.turns.wait(placed);
        self.wait_until(key, until_ms, now_ms);
        self.lanes.end_lease(&notification.lane, now_ms);
        self.lanes.give_back_call(&notification.lane, now_ms);
        false
    }

    /// Whether a lower number of a strict order waits, or is one of `taken`.
    fn is_behind(&mut self, placed: Placed<'_>, taken: &[Timed]) -> bool {
        let order = placed.order;
        if order.mode() != OrderMode::Strict {
            return false;
        }
        let is_lower = |key: &Key| {
            let other = self.jobs.get(key).map(|job| &job.entry.notification);
            other
                .and_then(|other| other.order.as_ref())
                .is_some_and(|other| other.key() == order.key() && other.number() < order.number())
        };
        if taken.iter().any(|other| is_lower(&other.key)) {
            return true;
        }
        while let Some(lower) = self.turns.waiting(placed, Wanted::LowerThanOwn) {
            if self.jobs.get(&lower.1).is_some_and(waits_in_lane) {
                return true;
            }
            self.turns.forget(placed, &lower);
        }
        false
    }

    /// Adds an entry that is neither leased nor in its lane to its lane, due at this instant.
    fn wait_until(&mut self, key: &Key, at_ms: i64, now_ms: i64) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.entry.was_put_off = true;
            job.deferred_ms = Some(at_ms);
            let (precedence, entry) = waiting(job);
            let lane = &job.entry.notification.lane;
            self.lanes.add_waiting(lane, precedence, entry, now_ms);
        }
    }

    /// Makes the next entry of an order key due, after the lease of this one was settled.
    pub(super) fn pass_turn(
        &mut self,
        notification: &Arc<Notification>,
        settlement: &Settlement,
        now_ms: i64,
    ) {
        let Some(placed) = Placed::of(notification) else {
            return;
        };
        let mode = placed.order.mode();
        let wanted = match settlement {
            Settlement::Defer(_) | Settlement::DeferWithout(..)
                if self.turns.has_missed_an_end(placed) =>
            {
                self.turns.wait(placed);
                self.make_due(placed.key, now_ms);
                None
            }
            Settlement::Defer(_) | Settlement::DeferWithout(..) => {
                self.turns.wait(placed);
                Some(match mode {
                    OrderMode::Strict => Wanted::LowerThanOwn,
                    OrderMode::Latest => Wanted::HigherThanOwn,
                })
            }
            Settlement::End { .. } => return self.end_turn(placed, now_ms),
            Settlement::Again(_) | Settlement::Release | Settlement::Recheck => {
                let own = (placed.order.number(), placed.key.clone());
                self.turns.forget(placed, &own);
                match mode {
                    OrderMode::Strict => None,
                    OrderMode::Latest => Some(Wanted::Highest),
                }
            }
        };
        if let Some(wanted) = wanted {
            self.make_next_due(placed, wanted, now_ms);
        }
        self.turns.release(placed);
    }

    /// Makes the next entry of an order key due, after one has ended.
    pub(super) fn end_turn(&mut self, placed: Placed<'_>, now_ms: i64) {
        self.turns.end(placed);
        let wanted = match placed.order.mode() {
            OrderMode::Strict => Wanted::Lowest,
            OrderMode::Latest => Wanted::Highest,
        };
        self.make_next_due(placed, wanted, now_ms);
        self.turns.release(placed);
    }

    fn make_next_due(&mut self, placed: Placed<'_>, wanted: Wanted, now_ms: i64) {
        while let Some(next) = self.turns.waiting(placed, wanted) {
            if self.make_due(&next.1, now_ms) {
                break;
            }
            self.turns.forget(placed, &next);
        }
    }

    /// Makes an entry due when its progress says, if it waits in its lane.
    fn make_due(&mut self, key: &Key, now_ms: i64) -> bool {
        let Some(job) = self.jobs.get_mut(key).filter(|job| waits_in_lane(job)) else {
            return false;
        };
        let before = waiting(job);
        job.deferred_ms = None;
        let after = waiting(job);
        let notification = job.entry.notification.clone();
        let lane = &notification.lane;
        (self.lanes).add_waiting(lane, after.0, after.1.clone(), now_ms);
        if before != after {
            (self.lanes).remove_waiting(lane, before.0, &before.1, now_ms);
        }
        true
    }
}

fn waits_in_lane(job: &Job) -> bool {
    job.lease.is_none() && job.entry.state == State::Scheduled
}
