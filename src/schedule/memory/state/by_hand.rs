//! Leases for changes by hand and for repairs: on an entry, due or not, or on a key that has no entry.

use super::{Holder, Job, LeaseInForce, MemoryState, waiting};
use crate::domain::lane::KeyInLane;
use crate::domain::lease::LeaseToken;
use crate::domain::state::State;
use crate::schedule::memory::order_turns::Placed;
use crate::schedule::memory::timed::Timed;
use crate::schedule::memory::waiting::Precedence;
use crate::schedule::{
    CHANGE_LEASE_MS, Entry, HAND_LEASE_WAIT_MS, LeaseRequest, LeasedOne, Reservation, Settled,
};

impl MemoryState {
    pub(in crate::schedule::memory) fn lease_one(
        &mut self,
        request: &LeaseRequest,
        now_ms: i64,
    ) -> LeasedOne {
        let key = &request.entry.key;
        self.return_if_expired(key, now_ms);
        let Some(job) = self.jobs.get(key) else {
            return self.reserve(request, now_ms);
        };
        let (entry, (precedence, waiting)) = (job.entry.clone(), waiting(job));
        let is_pending = entry.state == State::Scheduled;
        let key = entry.notification.key.clone();
        match job.lease {
            Some(in_force) if in_force.holder == Holder::Attempt => return LeasedOne::InFlight,
            Some(in_force) if in_force.holder != Holder::Change(request.id()) => {
                return LeasedOne::Changing;
            }
            Some(in_force) => {
                let (at_ms, key) = (in_force.expiry.at_ms, key.clone());
                self.leases.remove(&Timed { at_ms, key });
                if is_pending && !in_force.counted {
                    self.add_to_lane(&entry, now_ms);
                    self.remove_for_lease(&entry, precedence, &waiting, now_ms);
                }
            }
            None => self.remove_for_lease(&entry, precedence, &waiting, now_ms),
        }
        let in_force = LeaseInForce {
            expiry: self.expiry(now_ms + CHANGE_LEASE_MS),
            holder: Holder::Change(request.id()),
            counted: is_pending,
        };
        LeasedOne::Leased(Box::new(self.give_lease(key, in_force)))
    }

    /// Removes an entry from where it waits or is remembered, for a lease.
    fn remove_for_lease(
        &mut self,
        entry: &Entry,
        precedence: Precedence,
        waiting: &Timed,
        now_ms: i64,
    ) {
        let notification = &entry.notification;
        match (entry.state, entry.ended_ms) {
            (State::Scheduled, _) => {
                let lane = &notification.lane;
                self.lanes.start_lease(lane, precedence, waiting, now_ms);
            }
            (State::Dead, Some(ended_ms)) => self.ended.unpark(ended_ms, &notification.key),
            (State::Delivered | State::Cancelled, Some(ended_ms)) => {
                let forget_ms = self.forget_ms(ended_ms);
                self.ended.cancel_expiry(forget_ms, &notification.key);
            }
            (State::Delivered | State::Dead | State::Cancelled, None) => {}
        }
    }

    /// Leases a key that has no entry.
    fn reserve(&mut self, request: &LeaseRequest, now_ms: i64) -> LeasedOne {
        let key = &request.entry.key;
        let holder = Holder::Change(request.id());
        match (self.reserved.get(key), request.known) {
            (Some(in_force), _) if in_force.holder != holder => return LeasedOne::Changing,
            (Some(in_force), _) => {
                self.reservation_expiries
                    .remove(&(in_force.expiry.at_ms, key.clone()));
            }
            (None, None) => return LeasedOne::Missing,
            (None, Some(known)) if now_ms <= known.registered_ms + HAND_LEASE_WAIT_MS => {
                return LeasedOne::Expected;
            }
            (None, Some(_)) => {}
        }
        // If it is not known whether this change was written either, the end of its lease adds the key again.
        self.unknown_changes.remove(key);
        let expiry = self.expiry(now_ms + CHANGE_LEASE_MS);
        self.reservation_expiries
            .insert((expiry.at_ms, key.clone()));
        let in_force = LeaseInForce {
            expiry,
            holder,
            counted: false,
        };
        self.reserved.insert(key.clone(), in_force);
        LeasedOne::Reserved(LeaseToken::granted(request.entry.clone(), expiry))
    }

    pub(in crate::schedule::memory) fn end_reservation(
        &mut self,
        lease: &LeaseToken,
        reservation: Reservation,
        now_ms: i64,
    ) -> Settled {
        let key = lease.key();
        let is_same = |in_force: &LeaseInForce| in_force.expiry == lease.expiry();
        let waits_for_it = |job: &Job| {
            let is_same = job
                .lease
                .as_ref()
                .is_some_and(|in_force| is_same(in_force) && !in_force.counted);
            is_same && job.entry.state == State::Scheduled
        };
        let arrived = match self.jobs.get(key) {
            Some(job) if waits_for_it(job) => self.jobs.remove(key),
            Some(_) => return Settled::Lost,
            None if self.reserved.get(key).is_some_and(is_same) => None,
            None => return Settled::Lost,
        };
        let at_ms = lease.expiry().at_ms;
        if let Some(job) = &arrived {
            let key = job.entry.notification.key.clone();
            self.leases.remove(&Timed { at_ms, key });
            self.scan_slots.remove(job.scan_slot);
            self.budget.remove(&job.entry.notification);
        } else {
            self.reserved.remove(key);
            self.reservation_expiries.remove(&(at_ms, key.clone()));
        }
        let entry = match reservation {
            Reservation::Put(entry) => Some(*entry),
            Reservation::Forget => None,
            Reservation::Defer(at_ms) => {
                if let Some(job) = arrived {
                    self.insert_put_off(job.entry, at_ms, now_ms);
                }
                None
            }
            Reservation::End(order) => {
                if let Some(order) = &order {
                    let KeyInLane { key, lane } = lease.entry();
                    self.end_turn(Placed { lane, key, order }, now_ms);
                }
                None
            }
            Reservation::Recheck => {
                if arrived.is_none() {
                    self.unknown_changes.add(key.clone(), now_ms);
                }
                arrived.map(|job| to_recheck(job.entry))
            }
        };
        if let Some(entry) = entry {
            self.insert_waiting(entry, now_ms);
        }
        Settled::Done
    }
}

/// An entry that arrived during a change by hand of which it is not known whether it was written.
pub(super) fn to_recheck(entry: Entry) -> Entry {
    Entry {
        verify: true,
        raise_fence: true,
        ..entry
    }
}
