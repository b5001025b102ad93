//! Every entry, its lease and its end: the contract as plain data structures.
//!
//! Pure: the time is a parameter. Registering and settling cost a few steps in sorted sets. The cost
//! of a claim grows with the leases it gives; besides, it returns and forgets a bounded number of entries.

mod by_hand;
mod order;
mod reads;
mod settings;

use super::bodies::HeldBodies;
use super::ended::EndedEntries;
use super::lanes::Lanes;
use super::order_turns::OrderTurns;
use super::outages::Outages;
use super::timed::Timed;
use super::unknown_changes::UnknownChanges;
use super::waiting::Precedence;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::lane_health::LaneClass;
use crate::domain::lease::Expiry;
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use crate::domain::state::{End, State};
use crate::schedule::memory_budget::MemoryBudget;
use crate::schedule::{
    ClaimQuota, Claimed, Entry, Lease, Limits, PROMPT_MS, Registered, Restored, Settled, Settlement,
};
use by_hand::to_recheck;
use bytes::Bytes;
use settings::SettingsProgress;
use slab::Slab;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Maximum number of expired leases that one claim returns to their lanes.
const MOST_RETURNED: usize = 256;
/// Maximum number of ended entries that one claim forgets.
const MOST_FORGOTTEN: usize = 256;

/// One entry and its lease.
#[derive(Debug)]
struct Job {
    entry: Entry,
    /// The lease in force.
    lease: Option<LeaseInForce>,
    /// When it is due if that was put off ([`Settlement::Defer`]), in milliseconds since 1970.
    deferred_ms: Option<i64>,
    /// Its slot in `scan_slots`.
    scan_slot: usize,
}

/// A lease in force.
#[derive(Debug, Clone, Copy)]
struct LeaseInForce {
    expiry: Expiry,
    holder: Holder,
    /// Whether its lane counts it: the entry is pending, and was taken from its lane.
    counted: bool,
}

/// The purpose of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// An attempt.
    Attempt,
    /// A change by hand or a repair, by the request of this id.
    Change(u64),
}

/// All entries of one schedule.
#[derive(Debug)]
pub(super) struct MemoryState {
    limits: Limits,
    bodies: HeldBodies,
    budget: Arc<MemoryBudget>,
    jobs: HashMap<Key, Job>,
    /// All entries, each in a slot that does not change, for scans.
    scan_slots: Slab<Key>,
    lanes: Lanes,
    /// The order keys that have an entry in flight.
    turns: OrderTurns,
    /// The outages that have ended.
    outages: Outages,
    leases: BTreeSet<Timed>,
    /// Leases on keys that have no entry. An entry that is put in takes over the lease of its key.
    reserved: HashMap<Key, LeaseInForce>,
    /// When each lease in `reserved` ends.
    reservation_expiries: BTreeSet<(i64, Key)>,
    /// Keys whose reservation ended before an entry arrived, and for which it is not known whether the
    /// change was written.
    unknown_changes: UnknownChanges,
    ended: EndedEntries,
    /// The number of the next lease.
    number: u16,
    /// Up to which change the settings of lanes are here.
    settings: SettingsProgress,
}

impl MemoryState {
    pub(super) fn new(limits: Limits, bodies: HeldBodies, budget: Arc<MemoryBudget>) -> Self {
        Self {
            limits,
            bodies,
            budget,
            jobs: HashMap::new(),
            scan_slots: Slab::new(),
            lanes: Lanes::new(limits.lane_start, limits.lane_cap),
            turns: OrderTurns::default(),
            outages: Outages::default(),
            leases: BTreeSet::new(),
            reserved: HashMap::new(),
            reservation_expiries: BTreeSet::new(),
            unknown_changes: UnknownChanges::default(),
            ended: EndedEntries::default(),
            number: 0,
            settings: SettingsProgress::default(),
        }
    }

    pub(super) fn register(&mut self, mut entry: Entry, now_ms: i64) -> Registered {
        if let Some(found) = self.find(&entry.notification.key) {
            return Registered::Existing(Box::new(found));
        }
        entry.verify |= now_ms > entry.notification.registered_ms + PROMPT_MS;
        self.insert(entry, now_ms);
        Registered::Created
    }

    /// Adds an entry. If its key is leased by hand, the entry waits for the end of that lease.
    fn insert(&mut self, mut entry: Entry, now_ms: i64) {
        let key = &entry.notification.key;
        let reserved = self.reserved.remove_entry(key);
        if self.unknown_changes.remove(key) {
            entry = to_recheck(entry);
        }
        let Some((key, in_force)) = reserved else {
            self.insert_waiting(entry, now_ms);
            return;
        };
        self.reservation_expiries
            .remove(&(in_force.expiry.at_ms, key));
        entry.verify = true;
        let key = self.store(entry, Some(in_force), now_ms);
        let at_ms = in_force.expiry.at_ms;
        self.leases.insert(Timed { at_ms, key });
    }

    fn insert_waiting(&mut self, entry: Entry, now_ms: i64) {
        self.add_to_lane(&entry, now_ms);
        self.store(entry, None, now_ms);
    }

    fn store(&mut self, mut entry: Entry, lease: Option<LeaseInForce>, now_ms: i64) -> Key {
        self.bodies.leave_unneeded(&self.budget, &mut entry, now_ms);
        self.budget.add(&entry.notification);
        let key = entry.notification.key.clone();
        let job = Job {
            entry,
            lease,
            deferred_ms: None,
            scan_slot: self.scan_slots.insert(key.clone()),
        };
        self.jobs.insert(key.clone(), job);
        key
    }

    pub(super) fn restore(&mut self, entries: &[Entry], now_ms: i64) -> Restored {
        let mut restored = Restored::default();
        for entry in entries {
            match self.jobs.get_mut(&entry.notification.key) {
                None => {
                    self.insert(entry.clone(), now_ms);
                    restored.missing += 1;
                }
                Some(job)
                    if job.lease.is_none()
                        && job.entry.state == State::Scheduled
                        && job.entry.progress != entry.progress =>
                {
                    let (precedence, waiting) = waiting(job);
                    job.deferred_ms = None;
                    let mut entry = entry.clone();
                    self.bodies.leave_to_journal(&mut entry.notification);
                    self.budget.remove(&job.entry.notification);
                    self.budget.add(&entry.notification);
                    let before = std::mem::replace(&mut job.entry, entry.clone());
                    job.entry.verify |= before.verify;
                    job.entry.raise_fence |= before.raise_fence;
                    job.entry.interrupted_ms = before.interrupted_ms;
                    let lane = &entry.notification.lane;
                    self.lanes
                        .remove_waiting(lane, precedence, &waiting, now_ms);
                    self.add_to_lane(&entry, now_ms);
                    restored.moved += 1;
                }
                Some(_) => {}
            }
        }
        restored
    }

    /// Gives nothing to these lanes from now on.
    pub(super) fn skip(&mut self, skipped: Arc<BTreeSet<Lane>>) {
        self.lanes.skipped = skipped;
    }

    pub(super) fn claim(&mut self, mut quota: ClaimQuota, now_ms: i64) -> Claimed {
        self.return_expired(now_ms);
        self.forget(now_ms);
        if self.lacks_settings() {
            return Claimed {
                next_due_ms: self.next_expiry_ms(),
                ..Claimed::default()
            };
        }
        let mut leases = Vec::new();
        for class in LaneClass::ALL {
            while quota.for_visit(class) > 0
                && let Some(visit) = self.lanes.visit(class, quota.for_visit(class), now_ms)
            {
                for Timed { key, .. } in &visit.taken {
                    if self.may_go(key, &visit.taken, now_ms) {
                        quota.take(class, 1);
                        let lease = self.lease_for_attempt(key.clone(), now_ms);
                        leases.push(lease.in_lane(class, visit.lane));
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

    pub(super) fn settle(&mut self, lease: &Lease, settlement: Settlement, now_ms: i64) -> Settled {
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
            Settlement::Defer(at_ms) | Settlement::DeferForProxy(at_ms)
                if job.entry.state == State::Scheduled =>
            {
                job.entry.was_put_off = true;
                job.entry.awaited_proxy = matches!(settled, Settlement::DeferForProxy(_));
                job.deferred_ms = Some(at_ms);
                let (precedence, entry) = waiting(job);
                let lane = &notification.lane;
                self.lanes.add_waiting(lane, precedence, entry, now_ms);
            }
            Settlement::Defer(_) | Settlement::DeferForProxy(_) => {
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
            if matches!(settled, Settlement::Defer(_) | Settlement::DeferForProxy(_))
                && in_force.holder == Holder::Attempt
            {
                self.lanes.give_back_call(&notification.lane, now_ms);
            }
        }
        self.pass_turn(&notification, &settled, now_ms);
        Settled::Done
    }

    pub(super) fn renew(&mut self, lease: &Lease, now_ms: i64) -> Option<Expiry> {
        let key = lease.entry.notification.key.clone();
        let in_force = self.jobs.get(&key)?.lease?;
        if in_force.expiry != lease.expiry() {
            return None;
        }
        self.leases.remove(&Timed {
            at_ms: in_force.expiry.at_ms,
            key: key.clone(),
        });
        let expiry = Expiry {
            at_ms: now_ms + self.limits.lease_ms,
            ..in_force.expiry
        };
        self.give_lease(key, LeaseInForce { expiry, ..in_force });
        Some(expiry)
    }

    /// When there is next something to claim: a lane's turn, or the expiry of a lease.
    pub(super) fn next_ms(&self) -> Option<i64> {
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

    /// When the next lease expires.
    fn next_expiry_ms(&self) -> Option<i64> {
        let expires_ms = self.leases.first().map(|lease| lease.at_ms);
        let reserved_ms = self.reservation_expiries.first().map(|(at_ms, _)| *at_ms);
        [expires_ms, reserved_ms].into_iter().flatten().min()
    }

    /// Returns an entry to where it was before it was leased.
    fn return_entry(&mut self, entry: &Entry, now_ms: i64) {
        let key = &entry.notification.key;
        match (entry.state, entry.ended_ms) {
            (State::Dead, Some(ended_ms)) => self.ended.park(ended_ms, key.clone()),
            (State::Delivered | State::Cancelled, Some(ended_ms)) => {
                self.ended.expire_at(self.forget_ms(ended_ms), key.clone());
            }
            (State::Scheduled, _) | (State::Delivered | State::Dead | State::Cancelled, None) => {
                self.add_to_lane(entry, now_ms);
            }
        }
    }

    fn forget_ms(&self, ended_ms: i64) -> i64 {
        ended_ms.saturating_add(self.limits.remember_ms.unwrap_or(0))
    }

    fn add_to_lane(&mut self, entry: &Entry, now_ms: i64) {
        let waiting = Timed {
            at_ms: entry.progress.next_due_ms(),
            key: entry.notification.key.clone(),
        };
        let lane = &entry.notification.lane;
        (self.lanes).add_waiting(lane, Precedence::of(entry), waiting, now_ms);
    }

    /// A new expiry. It differs from the others of the same millisecond, unless there are a thousand.
    fn expiry(&mut self, at_ms: i64) -> Expiry {
        let number = self.number;
        self.number = (number + 1) % Expiry::NUMBERS;
        Expiry { at_ms, number }
    }

    /// Gives an entry this lease. The entry was removed from its place before, or is leased already.
    fn give_lease(&mut self, key: Key, in_force: LeaseInForce) -> Lease {
        let job = self
            .jobs
            .get_mut(&key)
            .expect("invariant: what waits in a lane has its entry here");
        job.lease = Some(in_force);
        job.deferred_ms = None;
        let lease = Lease::granted(job.entry.clone(), in_force.expiry);
        let at_ms = in_force.expiry.at_ms;
        self.leases.insert(Timed { at_ms, key });
        lease
    }

    fn return_expired(&mut self, now_ms: i64) {
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
    fn return_if_expired(&mut self, key: &Key, now_ms: i64) {
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

    fn forget(&mut self, now_ms: i64) {
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

/// How an entry that is not leased waits in its lane.
fn waiting(job: &Job) -> (Precedence, Timed) {
    let (precedence, at_ms) = match job.deferred_ms {
        Some(at_ms) => (Precedence::of_deferred(&job.entry), at_ms),
        None => {
            let due_ms = job.entry.progress.next_due_ms();
            (Precedence::of(&job.entry), due_ms)
        }
    };
    let key = job.entry.notification.key.clone();
    (precedence, Timed { at_ms, key })
}

fn without_body(notification: &Notification) -> Arc<Notification> {
    Arc::new(Notification {
        body: Bytes::new().into(),
        ..notification.clone()
    })
}
