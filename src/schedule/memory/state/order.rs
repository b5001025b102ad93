//! Entries with a place in an order: two of one order key are never in flight together.

use super::{Job, MemoryState, waiting};
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::order::OrderMode;
use crate::domain::state::State;
use crate::schedule::memory::order_turns::Wanted;
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
        if notification.order.is_none() {
            return true;
        }
        let until_ms = if self.is_behind(&notification, taken) {
            Some(now_ms + BEHIND_MS)
        } else {
            let holder = self.turns.other_holder(&notification);
            let in_force = holder.and_then(|holder| self.jobs.get(holder)?.lease);
            in_force.map(|lease| lease.expiry.at_ms)
        };
        let Some(until_ms) = until_ms else {
            self.turns.hold(&notification);
            return true;
        };
        self.turns.wait(&notification);
        self.wait_until(key, until_ms, now_ms);
        self.lanes.end_lease(&notification.lane, now_ms);
        self.lanes.give_back_call(&notification.lane, now_ms);
        false
    }

    /// Whether a lower number of a strict order waits, or is one of `taken`.
    fn is_behind(&mut self, notification: &Notification, taken: &[Timed]) -> bool {
        let order = match &notification.order {
            Some(order) if order.mode() == OrderMode::Strict => order,
            Some(_) | None => return false,
        };
        let is_lower = |key: &Key| {
            let other = self.jobs.get(key).map(|job| &job.entry.notification);
            other
                .and_then(|other| other.order.as_ref())
                .is_some_and(|other| other.key() == order.key() && other.number() < order.number())
        };
        if taken.iter().any(|other| is_lower(&other.key)) {
            return true;
        }
        while let Some(lower) = self.turns.waiting(notification, Wanted::LowerThanOwn) {
            if self.jobs.get(&lower.1).is_some_and(waits_in_lane) {
                return true;
            }
            self.turns.forget(notification, &lower);
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
        let Some(order) = &notification.order else {
            return;
        };
        let key = &notification.key;
        let own = (order.number(), key.clone());
        let wanted = match (settlement, order.mode()) {
            (Settlement::Defer(_) | Settlement::DeferForProxy(_), _)
                if self.turns.has_missed_an_end(notification) =>
            {
                self.turns.wait(notification);
                self.make_due(key, now_ms);
                None
            }
            (Settlement::Defer(_) | Settlement::DeferForProxy(_), mode) => {
                self.turns.wait(notification);
                Some(match mode {
                    OrderMode::Strict => Wanted::LowerThanOwn,
                    OrderMode::Latest => Wanted::HigherThanOwn,
                })
            }
            (Settlement::End { .. }, mode) => {
                self.turns.forget(notification, &own);
                self.turns.end(notification);
                Some(match mode {
                    OrderMode::Strict => Wanted::Lowest,
                    OrderMode::Latest => Wanted::Highest,
                })
            }
            (Settlement::Again(_) | Settlement::Release | Settlement::Recheck, mode) => {
                self.turns.forget(notification, &own);
                match mode {
                    OrderMode::Strict => None,
                    OrderMode::Latest => Some(Wanted::Highest),
                }
            }
        };
        if let Some(wanted) = wanted {
            while let Some(next) = self.turns.waiting(notification, wanted) {
                if self.make_due(&next.1, now_ms) {
                    break;
                }
                self.turns.forget(notification, &next);
            }
        }
        self.turns.release(notification);
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
