//! A notification leased for a change by hand.
//!
//! A server leases a notification before it changes it. Then no server sends or changes it meanwhile, and an
//! entry that another server puts into the schedule now waits for the lease. The journal accepts a change
//! only with the lease's token, and only if the notification's fence was not raised meanwhile.
//!
//! For this, the fence is read *before* the lease is requested. A server that leases the notification
//! after this lease has expired raises the fence, before it sends the notification or by its own change. So the
//! journal refuses the late change. If the fence were read under the lease, this could happen: the lease
//! expires, another server raises the fence, and we read the raised fence. The journal would then accept the
//! late change.
//!
//! If the process dies, its lease expires after a few seconds. The worker that gets the notification next
//! raises the fence and reads the state in the journal. So the journal refuses a change of the dead process
//! that arrives later.

use super::timeouts::with_timeout;
use super::{ASK_AGAIN, LONGEST_LEASE_WAIT, Service, ServiceError};
use crate::domain::change::Change;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::lane_health::LaneReport;
use crate::domain::later::is_far;
use crate::domain::lease::LeaseToken;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::JournalReads;
use crate::schedule::{
    CHANGE_LEASE_MS, Entry, HAND_LEASE_WAIT_MS, KnownToJournal, Lease, LeaseRequest, LeasedOne,
    Reservation, ScheduleError, Settled, Settlement,
};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A lease for a change by hand.
#[derive(Debug)]
pub(super) enum HeldLease {
    /// A lease on an entry in the schedule.
    Entry(Box<Lease>),
    /// A lease on a key that has no entry in the schedule.
    Key(LeaseToken),
}

/// The result of a request for a lease.
pub(super) enum Leasing {
    /// The lease, and the recorded state before it was given, without the attempts.
    Held(HeldLease, Box<Snapshot>),
    /// No lease: an attempt is or may be in flight.
    InFlight,
    /// No lease: the recorded state does not allow the change. Without a lease, a caller that repeats a
    /// refused request again and again delays no attempt.
    Refused(Box<Snapshot>),
    /// There is no such notification.
    Missing,
}

impl HeldLease {
    /// The lease that a request was given, if any.
    pub(super) fn of(leased: LeasedOne) -> Option<Self> {
        match leased {
            LeasedOne::Leased(lease) => Some(Self::Entry(lease)),
            LeasedOne::Reserved(token) => Some(Self::Key(token)),
            LeasedOne::InFlight
            | LeasedOne::Changing
            | LeasedOne::MayBeInFlight
            | LeasedOne::Expected
            | LeasedOne::Missing => None,
        }
    }

    /// If the change asks for a call now, reports that to the lane when the lease is settled: the call does not
    /// wait until the destination, if it fails, is probed next.
    pub(super) fn for_change(self, change: Change) -> Self {
        match self {
            Self::Entry(lease) if change.asks_for_a_call() => {
                let report = Some(LaneReport::CallNow);
                Self::Entry(Box::new(lease.with_report(report)))
            }
            held @ (Self::Entry(_) | Self::Key(_)) => held,
        }
    }

    /// What proves the lease to the journal.
    pub(super) fn token(&self) -> LeaseToken {
        match self {
            Self::Entry(lease) => lease.token(),
            Self::Key(token) => token.clone(),
        }
    }
}

impl Service {
    /// Leases a notification for a change by hand. Waits for a short time while another change of it is
    /// being made, while its registration may be on its way into the schedule, and while the attempt that
    /// ended it is being settled. The caller must hold this process's lock on its key.
    ///
    /// # Errors
    /// [`ServiceError::Unsettled`] if the wait takes too long; else the errors of the stores.
    pub(super) async fn lease(
        self: &Arc<Self>,
        key: &Key,
        change: Change,
    ) -> Result<Leasing, ServiceError> {
        let started = Instant::now();
        // A request whose replies were lost may have a lease, and only that request gets the lease again.
        let mut request = self.unanswered().remove(key);
        let mut may_have_lease = request.is_some();
        let leased = loop {
            let before = match self.recorded(key).await {
                Ok(Some(before)) => before,
                Ok(None) => break Ok(Leasing::Missing),
                Err(error) => break Err(error),
            };
            if !change.is_allowed(&before) && !may_have_lease {
                break Ok(Leasing::Refused(Box::new(before)));
            }
            let request = request.get_or_insert_with(|| LeaseRequest::new(before.key_in_lane()));
            request.known = self.has_journal().then(|| known(&before));
            let may_wait = started.elapsed() <= LONGEST_LEASE_WAIT;
            let leased = with_timeout(self.schedule.lease_one(request)).await;
            may_have_lease &= leased.is_err();
            match leased {
                Ok(LeasedOne::Leased(lease)) => {
                    break Ok(Leasing::Held(HeldLease::Entry(lease), Box::new(before)));
                }
                Ok(LeasedOne::Reserved(token)) => {
                    break Ok(Leasing::Held(HeldLease::Key(token), Box::new(before)));
                }
                Ok(LeasedOne::Missing) => break Ok(Leasing::Missing),
                Ok(LeasedOne::MayBeInFlight) => break Ok(Leasing::InFlight),
                // Its attempt may last as long as any other.
                Ok(LeasedOne::InFlight) if before.takes_late_delivery() => {
                    break Ok(Leasing::InFlight);
                }
                // The notification has ended in the journal: the lease of its last attempt is about to be
                // settled.
                Ok(LeasedOne::InFlight) if before.state != State::Scheduled && may_wait => {}
                Ok(LeasedOne::InFlight) => break Ok(Leasing::InFlight),
                Ok(LeasedOne::Changing | LeasedOne::Expected) if may_wait => {}
                Ok(LeasedOne::Changing | LeasedOne::Expected) => {
                    break Err(ServiceError::Unsettled);
                }
                // The reply may be lost: the same request gets the same lease again.
                Err(ScheduleError::Unavailable(_) | ScheduleError::Rebuilding) if may_wait => {
                    may_have_lease = true;
                }
                Err(error) => {
                    may_have_lease = true;
                    break Err(error.into());
                }
            }
            tokio::time::sleep(ASK_AGAIN).await;
        };
        if may_have_lease && let Some(request) = request {
            self.clone().give_back(request);
        }
        leased
    }

    /// Asks in the background whether a request whose replies were lost got a lease, and gives that lease
    /// back. Stops if another change of the same notification uses the request first. A lease that is not
    /// given back expires after a few seconds.
    fn give_back(self: Arc<Self>, request: LeaseRequest) {
        let key = request.entry.key.clone();
        {
            let mut unanswered = self.unanswered();
            if unanswered.len() >= MAX_UNANSWERED {
                return;
            }
            unanswered.insert(key.clone(), request.clone());
        }
        let until = Instant::now() + Duration::from_millis(CHANGE_LEASE_MS.unsigned_abs());
        tokio::spawn(async move {
            while Instant::now() < until {
                tokio::time::sleep(GIVE_BACK_AGAIN).await;
                let Ok(_lock) = self.locks.lock(&key).await else {
                    continue;
                };
                if self.unanswered().get(&key) != Some(&request) {
                    return;
                }
                match with_timeout(self.schedule.lease_one(&request)).await {
                    Ok(leased) => {
                        if let Some(held) = HeldLease::of(leased) {
                            self.release(held).await;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(
                            notification = %key,
                            %error,
                            "it is not known whether the schedule leased a notification for a change by hand; asking \
                             again"
                        );
                        continue;
                    }
                }
                self.unanswered().remove(&key);
                return;
            }
            let mut unanswered = self.unanswered();
            if unanswered.get(&key) == Some(&request) {
                unanswered.remove(&key);
            }
        });
    }

    /// The map is valid even after a panic under its lock: every change to it is one call.
    fn unanswered(&self) -> MutexGuard<'_, HashMap<Key, LeaseRequest>> {
        let unanswered = self.unanswered.lock();
        unanswered.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the lease on a notification that was not changed.
    pub(super) async fn release(&self, held: HeldLease) {
        self.end_held(held, Settlement::Release).await;
    }

    /// Gives back the lease on a notification whose change may be written already, or may still be written.
    /// Before anything is sent, the journal is asked and the fence is raised.
    pub(super) async fn recheck(&self, held: HeldLease) {
        self.end_held(held, Settlement::Recheck).await;
    }

    /// Has the schedule forget the entry on which it gave this lease.
    pub(super) async fn forget(&self, held: HeldLease) -> Result<(), ServiceError> {
        let settled = match held {
            HeldLease::Entry(lease) => {
                let forget = Settlement::forget(lease.entry.progress, self.clock.now_ms());
                with_timeout(self.schedule.settle(*lease, forget)).await
            }
            HeldLease::Key(token) => {
                with_timeout(self.schedule.end_reservation(token, Reservation::Forget)).await
            }
        };
        settled?;
        Ok(())
    }

    async fn end_held(&self, held: HeldLease, settlement: Settlement) {
        let key = held.token().key().clone();
        let settled = match held {
            HeldLease::Entry(lease) => with_timeout(self.schedule.settle(*lease, settlement)).await,
            HeldLease::Key(token) => {
                // A lease on a key is never just released: an entry may have arrived under the lease, and the
                // journal is asked before that entry is sent.
                with_timeout(self.schedule.end_reservation(token, Reservation::Recheck)).await
            }
        };
        if let Err(error) = settled {
            // It expires in a few seconds.
            tracing::debug!(
                notification = %key,
                %error,
                "the lease for a change by hand could not be ended; it expires in a few seconds"
            );
        }
    }

    /// Settles a lease to the state in the journal, so that the schedule agrees with it. The attempt that a change asked for may
    /// begin without waiting for the next probe of its destination only if `call_now`.
    ///
    /// # Errors
    /// If a store fails. The lease then expires, and the journal is asked before anything is sent.
    pub(super) async fn settle_to_journal(
        &self,
        journal: &dyn JournalReads,
        (held, call_now): (HeldLease, bool),
        snapshot: &Snapshot,
    ) -> Result<Settled, ServiceError> {
        let settled = match held {
            HeldLease::Entry(lease) => {
                let settlement = Settlement::to_journal(snapshot, self.clock.now_ms());
                with_timeout(self.schedule.settle(*lease, settlement)).await?
            }
            HeldLease::Key(token) => {
                let reservation = match snapshot.state {
                    State::Scheduled => match with_timeout(journal.pending(token.key())).await? {
                        Some(pending) => Reservation::Put(Box::new(Entry::scheduled(
                            pending.notification,
                            pending.progress,
                        ))),
                        None => Reservation::Recheck,
                    },
                    State::Delivered | State::Dead | State::Cancelled => {
                        Reservation::End(snapshot.order.clone())
                    }
                };
                let is_put = matches!(reservation, Reservation::Put(_));
                let settled =
                    with_timeout(self.schedule.end_reservation(token, reservation)).await?;
                let is_asked_for = is_put && snapshot.progress.retry_at_ms.is_some();
                if call_now && is_asked_for && settled == Settled::Done {
                    self.call_lane_now(&snapshot.lane).await;
                }
                settled
            }
        };
        Ok(settled)
    }

    /// Has the next call to a destination not wait until it is probed next: a lease of an entry can say that, and the lease of a
    /// key cannot. If this fails, the call is made with the next probe.
    pub(super) async fn call_lane_now(&self, lane: &Lane) {
        if let Err(error) = with_timeout(self.schedule.call_lane_now(lane)).await {
            tracing::debug!(
                lane = lane.as_str(),
                %error,
                "the schedule could not be asked for a call now; it is made with the next probe"
            );
        }
    }
}

/// Whether the registration of a notification may still be on its way into the schedule, and would be sent without asking
/// the journal if it arrived now.
pub(super) fn may_be_on_its_way(recorded: &Snapshot, now_ms: i64) -> bool {
    now_ms <= known(recorded).registered_ms + HAND_LEASE_WAIT_MS
}

/// What a request for a lease says of the notification, in case the schedule has no entry.
fn known(recorded: &Snapshot) -> KnownToJournal {
    // If an attempt was made, the registration has arrived. A notification that is set aside was claimed before,
    // so its registration has arrived too.
    let arrived = recorded.progress.attempts > 0
        || recorded.state != State::Scheduled
        || recorded.set_aside.is_some();
    // The journal is asked before such a registration is sent, so it is none the worse for arriving after the change. A move
    // may have made it far, but not while the registration could still arrive: the move has waited for that.
    let is_verified = is_far(recorded.registered_ms, recorded.progress.first_due_ms);
    let due_ms = match recorded.takes_late_delivery() {
        // An attempt may be in flight since before it ended, also one that was asked for by hand: nothing tells any more
        // when that was due.
        true => Some(recorded.registered_ms),
        false => recorded.next_due_ms(),
    };
    KnownToJournal {
        registered_ms: match arrived || is_verified {
            true => 0,
            false => recorded.registered_ms,
        },
        // If it is set aside, no attempt was made, or its attempt has ended. So none is in flight.
        due_ms: due_ms.filter(|_| recorded.set_aside.is_none()),
    }
}

/// Maximum number of requests for a lease of which it is not known whether they got one.
const MAX_UNANSWERED: usize = 10_000;
/// Wait between two tries to give a lease back.
const GIVE_BACK_AGAIN: Duration = Duration::from_millis(250);
