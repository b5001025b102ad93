//! Every entry, its lease and its end: the contract as plain data structures.
//!
//! Pure: time comes in as a value. Registering, settling and the like cost a few steps in sorted
//! sets; a claim costs what it brings, and returns or forgets a bounded number beside that.

use super::ended::Ended;
use super::lanes::Lanes;
use super::named::{Named, Timed};
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use crate::domain::state::{Cause, State};
use crate::schedule::{
    Claimed, DeadPage, Entry, Found, Holding, Lease, Limits, Registered, Restored, Scanned,
    ScheduleCounts, ScheduleError, Settled, Settlement, Taken,
};
use bytes::Bytes;
use slab::Slab;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Most expired leases that one claim returns to their lanes.
const MOST_RETURNED: usize = 256;
/// Most ended entries that one claim forgets.
const MOST_FORGOTTEN: usize = 256;

/// One entry with what the schedule knows beside it.
#[derive(Debug)]
struct Job {
    entry: Entry,
    /// The expiry of the lease that is out.
    lease: Option<i64>,
    /// Its place among all entries.
    place: usize,
    /// The expiry of the last lease there was. The next one differs, though it be taken within the
    /// same millisecond: the expiry is the fence.
    last_fence: i64,
}

/// How a lease ended an entry.
struct End {
    state: State,
    cause: Option<Cause>,
    progress: Progress,
    ended_ms: i64,
}

/// All entries of one schedule.
#[derive(Debug)]
pub(super) struct Book {
    limits: Limits,
    jobs: HashMap<Named, Job>,
    /// All entries, each in a place that it keeps, to be leafed through.
    places: Slab<Named>,
    lanes: Lanes,
    leases: BTreeSet<Timed>,
    ended: Ended,
}

impl Book {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            jobs: HashMap::new(),
            places: Slab::new(),
            lanes: Lanes::new(limits.lane_cap),
            leases: BTreeSet::new(),
            ended: Ended::default(),
        }
    }

    pub(super) fn register(&mut self, entry: Entry, now_ms: i64) -> Registered {
        if let Some(found) = self.find(&entry.notification.key) {
            return Registered::Existing(Box::new(found));
        }
        self.add(entry, now_ms);
        Registered::Created
    }

    fn add(&mut self, entry: Entry, now_ms: i64) {
        self.wait(&entry, now_ms);
        let name = Named::of(&entry.notification);
        let job = Job {
            entry,
            lease: None,
            place: self.places.insert(name.clone()),
            last_fence: i64::MIN,
        };
        self.jobs.insert(name, job);
    }

    pub(super) fn restore(&mut self, entries: &[Entry], now_ms: i64) -> Restored {
        let mut restored = Restored::default();
        for entry in entries {
            match self.jobs.get_mut(&entry.notification.key) {
                None => {
                    self.add(entry.clone(), now_ms);
                    restored.missing += 1;
                }
                Some(job)
                    if job.lease.is_none()
                        && job.entry.state == State::Scheduled
                        && job.entry.progress != entry.progress =>
                {
                    let due_ms = job.entry.progress.next_due_ms();
                    job.entry = entry.clone();
                    let lane = &entry.notification.lane;
                    let name = Named::of(&entry.notification);
                    self.lanes.withdraw(lane, name, due_ms, now_ms);
                    self.wait(entry, now_ms);
                    restored.moved += 1;
                }
                Some(_) => {}
            }
        }
        restored
    }

    pub(super) fn holding(&self, key: &Key) -> Option<Holding> {
        self.jobs.get(key).map(|job| Holding {
            state: job.entry.state,
            progress: job.entry.progress,
            in_flight: job.lease.is_some(),
        })
    }

    pub(super) fn scan(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Scanned, ScheduleError> {
        let start: usize = match cursor {
            Some(text) => text.parse().map_err(|_| ScheduleError::BadCursor)?,
            None => 0,
        };
        let end = start.saturating_add(limit.max(1));
        let holdings = (start..end.min(self.places.capacity()))
            .filter_map(|place| self.places.get(place))
            .filter_map(|name| Some((name.key().clone(), self.holding(name.key())?)))
            .collect();
        let next = (end < self.places.capacity()).then(|| end.to_string());
        Ok(Scanned { holdings, next })
    }

    pub(super) fn claim(&mut self, most: usize, now_ms: i64) -> Claimed {
        self.return_expired(now_ms);
        self.forget(now_ms);
        let mut leases = Vec::new();
        while leases.len() < most {
            let Some(taken) = self.lanes.visit(most - leases.len(), now_ms) else {
                break;
            };
            for Timed { name, .. } in taken {
                leases.push(self.lease(name, now_ms));
            }
        }
        Claimed {
            leases,
            next_due_ms: self.next_ms(),
        }
    }

    pub(super) fn settle(&mut self, lease: &Lease, settlement: Settlement, now_ms: i64) -> Settled {
        let key = &lease.entry.notification.key;
        let Some(job) = self.jobs.get_mut(key) else {
            return Settled::Lost;
        };
        if job.lease != Some(lease.expires_ms) {
            return Settled::Lost;
        }
        job.lease = None;
        let notification = job.entry.notification.clone();
        self.leases.remove(&Timed {
            at_ms: lease.expires_ms,
            name: Named::of(&notification),
        });
        match settlement {
            Settlement::Again(progress)
            | Settlement::End {
                state: State::Scheduled,
                progress,
                ..
            } => {
                job.entry = Entry::scheduled(notification.clone(), progress);
                let entry = job.entry.clone();
                self.wait(&entry, now_ms);
            }
            Settlement::Recheck => {
                job.entry.verify = true;
                let entry = job.entry.clone();
                self.wait(&entry, now_ms);
            }
            Settlement::Release => {
                let entry = job.entry.clone();
                self.wait(&entry, now_ms);
            }
            Settlement::End {
                state: state @ (State::Delivered | State::Dead | State::Cancelled),
                cause,
                progress,
                ended_ms,
            } => self.end(
                key,
                End {
                    state,
                    cause,
                    progress,
                    ended_ms,
                },
            ),
        }
        self.lanes.free(&notification.lane, now_ms);
        Settled::Done
    }

    pub(super) fn renew(&mut self, lease: &Lease, now_ms: i64) -> Option<i64> {
        let name = Named::of(&lease.entry.notification);
        let job = self.jobs.get_mut(name.key())?;
        if job.lease != Some(lease.expires_ms) {
            return None;
        }
        self.leases.remove(&Timed {
            at_ms: lease.expires_ms,
            name: name.clone(),
        });
        let renewed = self.lease(name, now_ms);
        Some(renewed.expires_ms)
    }

    pub(super) fn take(&mut self, key: &Key, now_ms: i64) -> Taken {
        let Some(job) = self.jobs.get(key) else {
            return Taken::Missing;
        };
        match job.entry.state {
            State::Scheduled if job.lease.is_some() => Taken::InFlight,
            State::Scheduled => {
                let notification = job.entry.notification.clone();
                let due_ms = job.entry.progress.next_due_ms();
                let name = Named::of(&notification);
                self.lanes
                    .take(&notification.lane, name.clone(), due_ms, now_ms);
                Taken::Leased(Box::new(self.lease(name, now_ms)))
            }
            State::Delivered | State::Dead | State::Cancelled => {
                Taken::Ended(Box::new(job.entry.clone()))
            }
        }
    }

    pub(super) fn advance(&mut self, key: &Key, now_ms: i64) -> Option<Found> {
        let job = self.jobs.get_mut(key)?;
        let before = job.entry.progress;
        let hurried = before.retry(now_ms);
        if job.entry.state == State::Scheduled && job.lease.is_none() && hurried != before {
            job.entry.progress = hurried;
            let entry = job.entry.clone();
            let notification = &entry.notification;
            self.lanes.withdraw(
                &notification.lane,
                Named::of(notification),
                before.next_due_ms(),
                now_ms,
            );
            self.wait(&entry, now_ms);
        }
        self.find(key)
    }

    pub(super) fn find(&self, key: &Key) -> Option<Found> {
        self.jobs.get(key).map(|job| Found {
            entry: job.entry.clone(),
            in_flight: job.lease.is_some(),
        })
    }

    pub(super) fn in_flight(&self, key: &Key) -> bool {
        self.jobs.get(key).is_some_and(|job| job.lease.is_some())
    }

    pub(super) fn revive(
        &mut self,
        key: &Key,
        progress: Option<Progress>,
        now_ms: i64,
    ) -> Option<Entry> {
        let job = self.jobs.get_mut(key)?;
        let before = job.entry.clone();
        let Some(ended_ms) = before.ended_ms.filter(|_| before.state == State::Dead) else {
            return Some(before);
        };
        self.ended.unpark(ended_ms, key);
        match progress {
            Some(progress) => {
                job.entry = Entry::scheduled(before.notification.clone(), progress);
                let entry = job.entry.clone();
                self.wait(&entry, now_ms);
            }
            None => self.end(
                key,
                End {
                    state: State::Cancelled,
                    cause: None,
                    progress: before.progress,
                    ended_ms: now_ms,
                },
            ),
        }
        Some(before)
    }

    pub(super) fn dead(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<DeadPage, ScheduleError> {
        let (keys, next) = self.ended.page(cursor, limit)?;
        let entries = keys
            .into_iter()
            .filter_map(|key| self.jobs.get(key))
            .map(|job| job.entry.clone())
            .collect();
        Ok(DeadPage { entries, next })
    }

    pub(super) fn counts(&self) -> ScheduleCounts {
        let count = |many: usize| u64::try_from(many).unwrap_or(u64::MAX);
        ScheduleCounts {
            pending: count(self.jobs.len() - self.ended.count()),
            in_flight: count(self.leases.len()),
            dead: count(self.ended.dead_count()),
        }
    }

    pub(super) fn lane_in_flight(&self, lane: &Lane) -> usize {
        self.lanes.leases(lane)
    }

    /// When there is next something to claim: a lane is due, or a lease expires.
    pub(super) fn next_ms(&self) -> Option<i64> {
        let expires_ms = self.leases.first().map(|lease| lease.at_ms);
        match (self.lanes.next_ms(), expires_ms) {
            (Some(due_ms), Some(expires_ms)) => Some(due_ms.min(expires_ms)),
            (due_ms, expires_ms) => due_ms.or(expires_ms),
        }
    }

    fn wait(&mut self, entry: &Entry, now_ms: i64) {
        let Entry {
            notification,
            progress,
            ..
        } = entry;
        self.lanes.wait(
            &notification.lane,
            Named::of(notification),
            progress.next_due_ms(),
            now_ms,
        );
    }

    /// Puts a lease on an entry that its lane has just given up.
    fn lease(&mut self, name: Named, now_ms: i64) -> Lease {
        let job = self
            .jobs
            .get_mut(name.key())
            .expect("invariant: what waits in a lane has its entry here");
        let expires_ms = (now_ms + self.limits.lease_ms).max(job.last_fence.saturating_add(1));
        job.lease = Some(expires_ms);
        job.last_fence = expires_ms;
        let lease = Lease {
            entry: job.entry.clone(),
            expires_ms,
        };
        self.leases.insert(Timed {
            at_ms: expires_ms,
            name,
        });
        lease
    }

    fn return_expired(&mut self, now_ms: i64) {
        for _ in 0..MOST_RETURNED {
            let expired = match self.leases.first() {
                Some(lease) if lease.at_ms <= now_ms => self.leases.pop_first(),
                Some(_) | None => None,
            };
            let Some(Timed { name, at_ms }) = expired else {
                return;
            };
            let job = self
                .jobs
                .get_mut(name.key())
                .expect("invariant: what is leased has its entry here");
            job.lease = None;
            job.entry.interrupted_ms = Some(at_ms - self.limits.lease_ms);
            job.entry.verify = true;
            let entry = job.entry.clone();
            self.wait(&entry, now_ms);
            self.lanes.free(&entry.notification.lane, now_ms);
        }
    }

    fn forget(&mut self, now_ms: i64) {
        for _ in 0..MOST_FORGOTTEN {
            let Some(key) = self.ended.forget(now_ms) else {
                return;
            };
            if let Some(job) = self.jobs.remove(&key) {
                self.places.remove(job.place);
            }
        }
    }

    /// Forgets an ended entry, or remembers it: a dead one whole, any other without its body.
    fn end(&mut self, key: &Key, end: End) {
        let Some(mut job) = self.jobs.remove(key) else {
            return;
        };
        let Some(remember_ms) = self.limits.remember_ms else {
            self.places.remove(job.place);
            return;
        };
        let mut notification = job.entry.notification;
        if end.state == State::Dead {
            self.ended.park(end.ended_ms, key.clone());
        } else {
            notification = without_body(&notification);
            let forget_ms = end.ended_ms.saturating_add(remember_ms);
            self.ended.fade(forget_ms, key.clone());
        }
        job.entry = Entry {
            state: end.state,
            cause: end.cause,
            ended_ms: Some(end.ended_ms),
            ..Entry::scheduled(notification.clone(), end.progress)
        };
        let name = Named::of(&notification);
        self.places[job.place] = name.clone();
        self.jobs.insert(name, job);
    }
}

fn without_body(notification: &Notification) -> Arc<Notification> {
    Arc::new(Notification {
        body: Bytes::new(),
        ..notification.clone()
    })
}
