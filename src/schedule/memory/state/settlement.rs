//! Settling a lease: what becomes of its entry, and of the lane and the order that it belongs to.

use super::{Holder, MemoryState, waiting};
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use crate::domain::state::{End, State};
use crate::schedule::memory::timed::Timed;
use crate::schedule::{Entry, Lease, Settled, Settlement};
use bytes::Bytes;
use std::sync::Arc;

impl MemoryState {
    pub(in crate::schedule::memory) fn settle(
        &mut self,
        lease: &Lease,
        settlement: Settlement,
        now_ms: i64,
    ) -> Settled {
        let key = &lease.entry.notification.key;
        let Some(job) = self.jobs.get_mut(key) else {
            return Settled::Lost;
        };
        let in_force = match job.lease {
            Some(in_force) if in_force.expiry == lease.expiry() => in_force,
            Some(_) | None => return Settled::Lost,
        };
        job.lease = None;
        let notification = job.entry.notification.clone();
        self.leases.remove(&Timed {
            at_ms: lease.expires_ms(),
            key: notification.key.clone(),
        });
        // Before the lease ends, since a lane without entries and leases is not kept.
        if let Some(outcome) = lease.outcome {
            let lane = &notification.lane;
            self.lanes.note_outcome(lane, outcome, now_ms);
        }
        if let Some(report) = lease.report {
            let leased_ms = in_force.expiry.at_ms - self.limits.lease_ms;
            let lane = &notification.lane;
            if let Some(from_ms) = self.lanes.observe(lane, report, leased_ms, now_ms) {
                self.outages.note(lane, from_ms, now_ms);
            }
        }
        let settled = settlement.clone();
        match settlement {
            Settlement::Again(progress) => {
                let mut lighter = notification.clone();
                self.budget.remove(&notification);
                self.bodies.leave_unless_small(&self.budget, &mut lighter);
                self.budget.add(&lighter);
                job.entry = Entry::scheduled(lighter, progress);
                let entry = job.entry.clone();
                self.add_to_lane(&entry, now_ms);
            }
            Settlement::Recheck => {
                if job.entry.state == State::Scheduled {
                    job.entry.verify = true;
                    job.entry.raise_fence = true;
                }
                let entry = job.entry.clone();
                self.return_entry(&entry, now_ms);
            }
            Settlement::Release => {
                let entry = job.entry.clone();
                self.return_entry(&entry, now_ms);
            }
            Settlement::Defer(at_ms) | Settlement::DeferWithout(_, at_ms)
                if job.entry.state == State::Scheduled =>
            {
                job.entry.was_put_off = true;
                job.entry.lacked = settled.lacked();
                job.deferred_ms = Some(at_ms);
                let (precedence, entry) = waiting(job);
                let lane = &notification.lane;
                self.lanes.add_waiting(lane, precedence, entry, now_ms);
            }
            Settlement::Defer(_) | Settlement::DeferWithout(..) => {
                let entry = job.entry.clone();
                self.return_entry(&entry, now_ms);
            }
            Settlement::End {
                end,
                progress,
                ended_ms,
            } => self.end(key, end, progress, ended_ms),
        }
        if in_force.counted {
            self.lanes.end_lease(&notification.lane, now_ms);
            if matches!(settled, Settlement::Defer(_) | Settlement::DeferWithout(..))
                && in_force.holder == Holder::Attempt
            {
                self.lanes.give_back_call(&notification.lane, now_ms);
            }
        }
        self.pass_turn(&notification, &settled, now_ms);
        Settled::Done
    }

    /// Forgets an ended entry, or remembers it: a dead one with its body, any other without.
    fn end(&mut self, key: &Key, end: End, progress: Progress, ended_ms: i64) {
        let Some(mut job) = self.jobs.remove(key) else {
            return;
        };
        self.budget.remove(&job.entry.notification);
        let Some(remember_ms) = self.limits.remember_ms else {
            self.scan_slots.remove(job.scan_slot);
            return;
        };
        let mut notification = job.entry.notification;
        if end.state() == State::Dead {
            self.ended.park(ended_ms, key.clone());
        } else {
            notification = without_body(&notification);
            let forget_ms = ended_ms.saturating_add(remember_ms);
            self.ended.expire_at(forget_ms, key.clone());
        }
        job.entry = Entry {
            state: end.state(),
            cause: end.cause(),
            ended_ms: Some(ended_ms),
            ..Entry::scheduled(notification.clone(), progress)
        };
        self.budget.add(&notification);
        let key = notification.key.clone();
        self.scan_slots[job.scan_slot] = key.clone();
        self.jobs.insert(key, job);
    }
}

fn without_body(notification: &Notification) -> Arc<Notification> {
    Arc::new(Notification {
        body: Bytes::new().into(),
        ..notification.clone()
    })
}
