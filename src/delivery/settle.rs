//! Settles the lease of an attempt, however long that takes.
//!
//! The lease may have been lost meanwhile. An outcome that the journal has recorded must still reach the
//! schedule, and a lease that another worker has must not be changed.

use super::worker::Worker;
use crate::domain::deferral::Lacked;
use crate::domain::progress::Progress;
use crate::domain::state::State;
use crate::health::{Backoff, Store};
use crate::journal::recorder::Recorder;
use crate::schedule::{
    ClaimedLease, Lease, LeaseRequest, LeasedOne, Reservation, ScheduleError, Settled, Settlement,
};

/// How long a notification waits for which this server had no capacity, in milliseconds.
const CAPACITY_DEFERRAL_MS: i64 = 1_000;

impl Worker {
    /// Releases a lease under which no attempt was made.
    pub(super) async fn release(&self, lease: Box<Lease>) {
        self.settle(lease, Settlement::Release).await;
    }

    /// Lets a notification wait that was not sent because other attempts had all of something that this server has a bounded
    /// amount of. It has waited for that already. If it were due at once, it would be claimed at once, and wait again in the
    /// place of one that needs nothing of it. No attempt is spent.
    pub(super) async fn defer_without_capacity(&self, lease: Box<Lease>) {
        let again_ms = self.clock.now_ms().saturating_add(CAPACITY_DEFERRAL_MS);
        let settlement = Settlement::DeferWithout(Lacked::Capacity, again_ms);
        self.settle(lease, settlement).await;
    }

    /// Settles a lease. Tries again while the schedule is unavailable; repeating is safe, because the expiry
    /// identifies the lease.
    ///
    /// If the lease was lost and this process has claimed the notification again, the newer lease is settled
    /// instead. If no worker has a lease, for example because Redis was set back to a copy that is older than
    /// the lost lease, an outcome must still reach the schedule. So this function leases the notification and
    /// settles it to the state in the journal.
    pub(super) async fn settle(&self, mut lease: Box<Lease>, mut settlement: Settlement) {
        let key = lease.entry.notification.key.clone();
        let mut backoff = Backoff::new(&self.health, Store::Schedule);
        loop {
            match self
                .schedule
                .settle((*lease).clone(), settlement.clone())
                .await
            {
                Ok(Settled::Done) => return,
                Ok(Settled::Lost) => {
                    match Box::pin(self.after_lost_lease(&lease, settlement)).await {
                        Some((newest, instead)) => (lease, settlement) = (newest, instead),
                        None => return,
                    }
                }
                Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Rebuilding)) => {
                    tracing::debug!(
                        notification = %key,
                        %error,
                        "the lease of a notification cannot be settled now; trying again"
                    );
                    let waiting = self.abandon.run_until_cancelled(backoff.wait());
                    if Box::pin(waiting).await.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::error!(
                        notification = %key,
                        %error,
                        "settling the lease of a notification failed; a lease that is not settled expires, and \
                         then the notification is claimed again"
                    );
                    return;
                }
            }
        }
    }

    /// What to settle instead of a lost lease, and how: the newer lease that this process has on the same
    /// notification. If there is none, applies the outcome in the journal and returns `None`.
    async fn after_lost_lease(
        &self,
        lost: &Lease,
        settlement: Settlement,
    ) -> Option<(Box<Lease>, Settlement)> {
        let key = &lost.entry.notification.key;
        // This is normal if the reply to an earlier try was lost: that call had settled the lease.
        tracing::debug!(
            notification = %key,
            "the lease of a notification is no longer in force: it has expired or was lost, or an earlier try has \
             settled it already"
        );
        let newest = match self.in_flight.newer(key) {
            Some(ClaimedLease::Whole(newest)) => newest,
            // What it would be settled to is in the journal, which is read after the next claim.
            Some(ClaimedLease::Bare(newest)) => {
                self.end_bare(*newest, Reservation::Recheck).await;
                return None;
            }
            None => {
                if is_outcome(&settlement)
                    && let Some(recorder) = &self.recorder
                {
                    self.bring_entry_to_the_journal(recorder, lost).await;
                }
                return None;
            }
        };
        let (here, there) = (lost.entry.progress, newest.entry.progress);
        let step = |progress: Progress| (progress.attempts, progress.first_due_ms);
        let instead = if here.series != there.series {
            // The notification has a new series by now, to which our outcome does not belong.
            Settlement::Release
        } else if !matches!(settlement, Settlement::End { .. })
            && (step(here) != step(there) || newest.entry.raise_fence)
        {
            // Another worker has recorded an attempt, the notification was moved, or a change by hand may still be
            // written under an expired lease. So the journal is asked.
            Settlement::Recheck
        } else {
            settlement
        };
        let newest = newest.with_report(lost.report).with_outcome(lost.outcome);
        Some((Box::new(newest), instead))
    }

    /// Gives the entry of a lost lease, which no worker has, the state in the journal. If another worker has a lease, that
    /// worker does so.
    async fn bring_entry_to_the_journal(&self, recorder: &Recorder, lost: &Lease) {
        let entry = lost.entry.notification.key_in_lane();
        let request = LeaseRequest::for_repair(entry);
        let mut backoff = Backoff::new(&self.health, Store::Schedule);
        let leased = loop {
            match self.schedule.lease_one(&request).await {
                // The recovery may have compared it with the journal before this outcome was written there.
                Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Rebuilding)) => {
                    tracing::debug!(
                        notification = %lost.entry.notification.key,
                        %error,
                        "a notification whose lease was lost cannot be given its outcome in the schedule now; trying again"
                    );
                    let waiting = self.abandon.run_until_cancelled(backoff.wait());
                    if Box::pin(waiting).await.is_none() {
                        return;
                    }
                }
                leased => break leased,
            }
        };
        let ended = match leased {
            Ok(LeasedOne::Leased(newest)) => {
                self.bring_to_the_journal(recorder, *newest).await;
                return;
            }
            // A bare entry has no state of its own.
            Ok(LeasedOne::Reserved(lease)) => {
                let recheck = Reservation::Recheck;
                self.schedule.end_reservation(lease, recheck).await
            }
            Ok(_) | Err(_) => return,
        };
        if let Err(error) = ended {
            tracing::debug!(
                notification = %lost.entry.notification.key,
                %error,
                "settling the lease that replaced a lost lease failed; if it is not settled, it expires, and then the \
                 journal is asked"
            );
        }
    }

    /// Settles the lease that replaced a lost one to the state in the journal. If that fails, the lease
    /// expires, and the journal is asked after the next claim.
    async fn bring_to_the_journal(&self, recorder: &Recorder, lease: Lease) {
        let key = lease.entry.notification.key.clone();
        let of_expired = lease.entry.raise_fence || lease.entry.interrupted_ms.is_some();
        let settlement = match recorder.snapshot(key.clone()).await {
            Ok(Some(recorded)) if recorded.state != State::Scheduled || !of_expired => {
                Settlement::to_journal(&recorded, self.clock.now_ms())
            }
            Ok(_) | Err(_) => Settlement::Recheck,
        };
        if let Err(error) = self.schedule.settle(lease, settlement).await {
            tracing::debug!(
                notification = %key,
                %error,
                "settling the lease that replaced a lost lease failed; if it is not settled, it expires, and then the \
                 journal is asked"
            );
        }
    }
}

/// Whether a settlement applies an outcome that the journal holds.
fn is_outcome(settlement: &Settlement) -> bool {
    match settlement {
        Settlement::Again(_) | Settlement::End { .. } => true,
        Settlement::Release
        | Settlement::Recheck
        | Settlement::Defer(_)
        | Settlement::DeferWithout(..) => false,
    }
}
