//! Every entry, its lease and its end: the contract as plain data structures.
//!
//! Pure: the time is a parameter. Registering and settling cost a few steps in sorted sets. The cost
//! of a claim grows with the leases it gives; besides, it returns and forgets a bounded number of entries.

mod by_hand;
mod claim;
mod expiry;
mod order;
mod reads;
mod settings;
mod settlement;

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
use crate::domain::lease::Expiry;
use crate::domain::state::State;
use crate::schedule::memory_budget::MemoryBudget;
use crate::schedule::{Entry, Lease, Limits, PROMPT_MS, Registered, Restored};
use by_hand::to_recheck;
use settings::SettingsProgress;
use slab::Slab;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One entry and its lease.
#[derive(Debug)]
struct Job {
    entry: Entry,
    /// The lease in force.
    lease: Option<LeaseInForce>,
    /// When it is due if that was put off ([`crate::schedule::Settlement::Defer`]), in milliseconds since 1970.
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
    /// Up to which due time everything was put in.
    pub(super) loaded_until_ms: Option<i64>,
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
            loaded_until_ms: None,
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

    /// Puts an entry in that is not due before an instant, in milliseconds since 1970.
    fn insert_put_off(&mut self, entry: Entry, at_ms: i64, now_ms: i64) {
        let lane = entry.notification.lane.clone();
        let key = self.store(entry, None, now_ms);
        if let Some(job) = self.jobs.get_mut(&key) {
            job.deferred_ms = Some(at_ms);
            let (precedence, entry) = waiting(job);
            self.lanes.add_waiting(&lane, precedence, entry, now_ms);
        }
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
