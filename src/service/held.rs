//! A notification leased for a change by hand.
//!
//! Whoever changes a notification leases it first: then no server sends it or changes it meanwhile, and
//! what another server is just putting into the schedule waits for the lease. The journal takes a change
//! only with the lease, and only if nobody has leased the notification since.
//!
//! For that, the fence is read *before* the lease is asked for. Whoever leases the notification after this
//! lease has expired raises the fence, so the change no longer fits. Read under the lease, it might be read
//! after the lease has expired and somebody else has raised it, and the change would fit again.
//!
//! Dying with a lease lets it expire after a few seconds; whoever gets the notification next then has the
//! journal refuse what the dead one may still be writing, and asks how the notification stands.

use super::timeouts::with_timeout;
use super::{ASK_AGAIN, LONGEST_LEASE_WAIT, Service, ServiceError};
use crate::domain::change::Change;
use crate::domain::key::Key;
use crate::domain::lease::LeaseToken;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::JournalReads;
use crate::schedule::{
    CHANGE_LEASE_MS, Entry, Known, Lease, LeaseRequest, LeasedOne, Reservation, ScheduleError,
    Settled, Settlement,
};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A lease for a change by hand.
#[derive(Debug)]
pub(super) enum Held {
    /// Of an entry in the schedule.
    Entry(Box<Lease>),
    /// Of a key of which nothing is in the schedule.
    Key(LeaseToken),
}

/// What asking for a lease came to.
pub(super) enum Leasing {
    /// The lease; and how the journal had the notification before, without its attempts.
    Held(Held, Option<Box<Snapshot>>),
    /// There is none to be had: an attempt is, or may be, in flight.
    InFlight,
    /// None is needed: by the journal, it is in a state in which this change is not made. So those who
    /// ask for what is refused, again and again, keep no attempt waiting.
    Refused(Box<Snapshot>),
    /// There is no such notification.
    Missing,
}

impl Held {
    /// What proves the lease to the journal.
    pub(super) fn token(&self) -> LeaseToken {
        match self {
            Self::Entry(lease) => lease.token(),
            Self::Key(token) => token.clone(),
        }
    }
}

impl Service {
    /// Leases a notification for a change by hand. Waits, but not for long, while another change of it is
    /// being made, while its registration may be on its way into the schedule, and while the attempt that
    /// ended it is being settled. To be called with this process's own lock on it.
    ///
    /// # Errors
    /// [`ServiceError::Unsettled`] if what is waited for takes too long; else what the stores say.
    pub(super) async fn lease(
        self: &Arc<Self>,
        key: &Key,
        change: Change,
    ) -> Result<Leasing, ServiceError> {
        let started = Instant::now();
        // One whose replies did not come may have a lease, which it alone gets again.
        let doubtful = self.doubtful().remove(key);
        let mut in_doubt = doubtful.is_some();
        let mut request = doubtful.unwrap_or_else(|| LeaseRequest::new(key.clone()));
        let leased = loop {
            let before = match self.snapshot(key).await {
                Ok(before) => before,
                Err(error) => break Err(error),
            };
            if self.has_journal() {
                let Some(stands) = &before else {
                    break Ok(Leasing::Missing);
                };
                request.known = Some(known(stands));
                if !change.is_allowed(stands.state) && !in_doubt {
                    break Ok(Leasing::Refused(Box::new(stands.clone())));
                }
            }
            let may_wait = started.elapsed() <= LONGEST_LEASE_WAIT;
            let leased = with_timeout(self.schedule.lease_one(&request)).await;
            in_doubt &= leased.is_err();
            match (leased, &before) {
                (Ok(LeasedOne::Leased(lease)), _) => {
                    break Ok(Leasing::Held(Held::Entry(lease), before.map(Box::new)));
                }
                (Ok(LeasedOne::Reserved(token)), _) => {
                    break Ok(Leasing::Held(Held::Key(token), before.map(Box::new)));
                }
                (Ok(LeasedOne::Missing), _) => break Ok(Leasing::Missing),
                (Ok(LeasedOne::MayBeInFlight), _) => break Ok(Leasing::InFlight),
                // One that has ended by the journal is about to be settled.
                (Ok(LeasedOne::InFlight), Some(stands)) if !is_scheduled(stands) && may_wait => {}
                (Ok(LeasedOne::InFlight), _) => break Ok(Leasing::InFlight),
                (Ok(LeasedOne::Changing | LeasedOne::Expected), _) if may_wait => {}
                (Ok(LeasedOne::Changing | LeasedOne::Expected), _) => {
                    break Err(ServiceError::Unsettled);
                }
                // The reply may have been lost: asked again, the same lease is given again.
                (Err(ScheduleError::Unavailable(_) | ScheduleError::Rebuilding), _) if may_wait => {
                    in_doubt = true;
                }
                (Err(error), _) => {
                    in_doubt = true;
                    break Err(error.into());
                }
            }
            tokio::time::sleep(ASK_AGAIN).await;
        };
        if in_doubt {
            self.clone().give_back(request);
        }
        leased
    }

    /// How the journal has it, without its attempts.
    async fn snapshot(&self, key: &Key) -> Result<Option<Snapshot>, ServiceError> {
        match &self.recorder {
            Some(recorder) => Ok(with_timeout(recorder.snapshot(key.clone())).await?),
            None => Ok(None),
        }
    }

    /// Finds out in the background whether a lease was given to a request whose replies did not come, and
    /// gives it back, unless another change of the same notification goes on with the request first. A
    /// lease that is not given back expires after a few seconds.
    fn give_back(self: Arc<Self>, request: LeaseRequest) {
        let key = request.key.clone();
        {
            let mut doubtful = self.doubtful();
            if doubtful.len() >= MOST_DOUBTFUL {
                return;
            }
            doubtful.insert(key.clone(), request.clone());
        }
        let until = Instant::now() + Duration::from_millis(CHANGE_LEASE_MS.unsigned_abs());
        tokio::spawn(async move {
            while Instant::now() < until {
                tokio::time::sleep(GIVE_BACK_AGAIN).await;
                let Ok(_lock) = self.locks.lock(&key).await else {
                    continue;
                };
                if self.doubtful().get(&key) != Some(&request) {
                    return;
                }
                match with_timeout(self.schedule.lease_one(&request)).await {
                    Ok(LeasedOne::Leased(lease)) => self.release(Held::Entry(lease)).await,
                    Ok(LeasedOne::Reserved(token)) => self.release(Held::Key(token)).await,
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(notification = %key, %error, "cannot tell whether a lease was granted; asking again");
                        continue;
                    }
                }
                self.doubtful().remove(&key);
                return;
            }
            let mut doubtful = self.doubtful();
            if doubtful.get(&key) == Some(&request) {
                doubtful.remove(&key);
            }
        });
    }

    /// A panic elsewhere leaves the map whole: every change to it is one call.
    fn doubtful(&self) -> MutexGuard<'_, HashMap<Key, LeaseRequest>> {
        let doubtful = self.doubtful.lock();
        doubtful.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a lease back of something that was not changed.
    pub(super) async fn release(&self, held: Held) {
        self.end_held(held, Settlement::Release).await;
    }

    /// Gives a lease back of something of which it is not known whether it was changed.
    pub(super) async fn recheck(&self, held: Held) {
        self.end_held(held, Settlement::Recheck).await;
    }

    async fn end_held(&self, held: Held, settlement: Settlement) {
        let key = held.token().key().clone();
        let settled = match held {
            Held::Entry(lease) => with_timeout(self.schedule.settle(*lease, settlement)).await,
            Held::Key(token) => {
                with_timeout(self.schedule.end_reservation(token, Reservation::Recheck)).await
            }
        };
        if let Err(error) = settled {
            // It expires in a few seconds.
            tracing::debug!(notification = %key, %error, "a lease cannot be given back");
        }
    }

    /// Brings the schedule to where the journal stands, and so gives the lease back.
    ///
    /// # Errors
    /// If a store fails. The lease then expires, and the journal is asked before anything is sent.
    pub(super) async fn conform(
        &self,
        journal: &dyn JournalReads,
        held: Held,
        snapshot: &Snapshot,
    ) -> Result<Settled, ServiceError> {
        let settled = match held {
            Held::Entry(lease) => {
                let settlement = Settlement::to_journal(snapshot, self.clock.now_ms());
                with_timeout(self.schedule.settle(*lease, settlement)).await?
            }
            Held::Key(token) => {
                let reservation = match snapshot.state {
                    State::Scheduled => match with_timeout(journal.pending(token.key())).await? {
                        Some(pending) => Reservation::Put(Box::new(Entry::scheduled(
                            pending.notification,
                            pending.progress,
                        ))),
                        None => Reservation::Recheck,
                    },
                    State::Delivered | State::Dead | State::Cancelled => Reservation::Forget,
                };
                with_timeout(self.schedule.end_reservation(token, reservation)).await?
            }
        };
        Ok(settled)
    }
}

/// What the schedule is told of a notification that it does not hold.
fn known(stands: &Snapshot) -> Known {
    // Once an attempt was made, the registration has arrived. One that is set aside had an attempt.
    let arrived = stands.progress.attempts > 0
        || stands.state != State::Scheduled
        || stands.set_aside.is_some();
    Known {
        registered_ms: if arrived { 0 } else { stands.registered_ms },
        // Nothing is in flight of one that is set aside: its attempt had ended.
        due_ms: stands.next_due_ms().filter(|_| stands.set_aside.is_none()),
    }
}

/// Maximum number of requests for a lease of which it is not known whether they got one.
const MOST_DOUBTFUL: usize = 10_000;
/// Wait before a lease is given back again.
const GIVE_BACK_AGAIN: Duration = Duration::from_millis(250);

fn is_scheduled(snapshot: &Snapshot) -> bool {
    snapshot.state == State::Scheduled
}
