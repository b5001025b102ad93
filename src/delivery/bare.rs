//! Reads in the journal what the schedule does not have of a claimed notification: everything but when it is due.
//!
//! What a schedule was loaded with from a journal takes little memory this way, and nothing in it can be older than the
//! journal: the attempt sends what is read here, after the lease was given.

use super::confirm::UNKNOWN_AGAIN_MS;
use super::worker::Worker;
use crate::domain::body::Body;
use crate::domain::progress::Progress;
use crate::health::{Backoff, Store};
use crate::journal::recorder::Recorder;
use crate::journal::{JournalError, Pending};
use crate::schedule::{
    BareLease, CLAIMED_EARLY_MS, ClaimedLease, Entry, Lease, Reservation, ScheduleError,
};
use bytes::Bytes;
use std::sync::Arc;

/// After how many milliseconds a notification is tried again that the journal can neither read nor set aside.
const REFUSED_AGAIN_MS: i64 = 60_000;

impl Worker {
    /// Gives a claimed lease back under which no attempt was made.
    pub(super) async fn release_claimed(&self, lease: ClaimedLease) {
        match lease {
            ClaimedLease::Whole(lease) => self.release(lease).await,
            ClaimedLease::Bare(lease) => self.release_bare(*lease).await,
        }
    }

    /// Looks a bare entry up in the journal. Returns its lease, and its body if that is short: the entry itself never gets it, so
    /// that the schedule stays small. Returns `None` if nothing is sent under this lease.
    pub(super) async fn look_up_bare(
        &self,
        mut lease: BareLease,
    ) -> Option<(Box<Lease>, Option<Bytes>)> {
        let key = lease.bare.entry.key.clone();
        let Some(recorder) = &self.recorder else {
            tracing::error!(
                notification = %key,
                "the schedule has no content of a notification, and this server has no journal, so it is not sent; start \
                 the server with the journal that has it"
            );
            let again_ms = self.clock.now_ms() + UNKNOWN_AGAIN_MS;
            self.end_bare(lease, Reservation::Defer(again_ms)).await;
            return None;
        };
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        loop {
            // If its attempt is to be recorded as interrupted too, the fence is raised with that.
            let raises_fence = lease.bare.raise_fence && lease.bare.interrupted_ms.is_none();
            let reading = match raises_fence {
                true => recorder.fence_pending(key.clone()).await,
                false => recorder.pending(key.clone()).await,
            };
            let error = match reading {
                Ok(Some(pending)) => {
                    if raises_fence {
                        lease.bare.raise_fence = false;
                    }
                    return self.with_recorded(lease, pending).await;
                }
                Ok(None) => match self.without_pending(recorder, &lease).await {
                    Ok(reservation) => {
                        self.end_bare(lease, reservation).await;
                        return None;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if let JournalError::Corrupt(_) | JournalError::Refused(_) = error {
                let why = format!("the journal cannot read the notification: {error}");
                let latest_ms = self.latest_start_before_ms(lease.expires_ms());
                let is_set_aside = tokio::select! {
                    biased;
                    done = self.set_aside(recorder, &key, why) => done.is_some(),
                    () = self.clock.sleep_until(latest_ms) => false,
                };
                let reservation = match is_set_aside {
                    true => Reservation::Forget,
                    // If the lease expired, an attempt would count as interrupted that was not made.
                    false => Reservation::Defer(self.clock.now_ms() + REFUSED_AGAIN_MS),
                };
                self.end_bare(lease, reservation).await;
                return None;
            }
            tracing::debug!(
                notification = %key,
                %error,
                "a notification cannot be read in the journal now; trying again"
            );
            if !self
                .wait_for_journal(lease.expires_ms(), &mut backoff)
                .await
            {
                self.release_bare(lease).await;
                return None;
            }
        }
    }

    /// The whole lease on a notification that is pending in the journal. `None` if it is not to be sent now.
    async fn with_recorded(
        &self,
        mut lease: BareLease,
        pending: Pending,
    ) -> Option<(Box<Lease>, Option<Bytes>)> {
        let Pending {
            mut notification,
            progress,
        } = pending;
        let body = notification.body.here().cloned();
        if let Some(bytes) = &body {
            Arc::make_mut(&mut notification).body = Body::InJournal(bytes.len());
        }
        let lease_ms = self.schedule.limits().lease_ms;
        let bare = &mut lease.bare;
        let expired_ms = bare.interrupted_ms.map(|given_ms| given_ms + lease_ms);
        if expired_ms.is_some_and(|expired_ms| was_recorded(&progress, expired_ms)) {
            // The journal has that attempt. What is written late under that lease must be refused all the same.
            (bare.interrupted_ms, bare.raise_fence) = (None, true);
        }
        let leased_ms = lease.expires_ms() - lease_ms;
        let reservation = if notification.lane != lease.bare.entry.lane {
            // Maintenance puts it into its lane.
            Reservation::Forget
        } else if notification.order.is_some()
            || progress.next_due_ms() > leased_ms + CLAIMED_EARLY_MS
        {
            // It is due later, or its content is missing in the schedule and a claim must know its place in an order.
            Reservation::Put(Box::new(Entry {
                verify: true,
                ..lease.bare.with(notification, progress)
            }))
        } else {
            return Some((Box::new(lease.with(notification, progress)), body));
        };
        self.end_bare(lease, reservation).await;
        None
    }

    /// What is done with a bare entry whose notification is not pending in the journal, or was not a moment ago.
    async fn without_pending(
        &self,
        recorder: &Recorder,
        lease: &BareLease,
    ) -> Result<Reservation, JournalError> {
        let key = &lease.bare.entry.key;
        Ok(match recorder.snapshot(key.clone()).await? {
            Some(snapshot) if snapshot.is_to_be_sent() => Reservation::Recheck,
            Some(_) => Reservation::Forget,
            None => {
                tracing::error!(
                    notification = %key,
                    "the journal has lost a notification, and the schedule has no copy of it; register it again unless \
                     its merchant has accepted it"
                );
                // A newer copy of the journal may be restored.
                Reservation::Defer(self.clock.now_ms() + UNKNOWN_AGAIN_MS)
            }
        })
    }

    async fn release_bare(&self, lease: BareLease) {
        let now_ms = self.clock.now_ms();
        self.end_bare(lease, Reservation::Defer(now_ms)).await;
    }

    /// Ends a lease on a bare entry, however long that takes. If it was lost, another server has the entry, or nobody.
    pub(super) async fn end_bare(&self, lease: BareLease, reservation: Reservation) {
        let key = lease.bare.entry.key.clone();
        let mut backoff = Backoff::new(&self.health, Store::Schedule);
        loop {
            let ending = self
                .schedule
                .end_reservation(lease.token(), reservation.clone());
            match ending.await {
                Ok(_) => return,
                Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Rebuilding)) => {
                    tracing::debug!(
                        notification = %key,
                        %error,
                        "the lease of a notification cannot be settled now; trying again"
                    );
                    let waiting = self.abandon.run_until_cancelled(backoff.wait());
                    if waiting.await.is_none() {
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
}

/// Whether the attempt of a lease that expired at this instant was recorded, by what the journal says now. What is leased is
/// due, so what is due after the end of the lease, and of the same series, was attempted under it. An attempt that was
/// recorded and is made again before that instant is not known to be.
fn was_recorded(progress: &Progress, expired_ms: i64) -> bool {
    progress.first_due_ms <= expired_ms && progress.next_due_ms() > expired_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ladder::Ladder;

    #[test]
    fn what_is_due_after_the_end_of_a_lease_was_recorded_under_it() {
        const DUE_MS: i64 = 100_000;
        const LEASE_MS: i64 = 20_000;
        let ladder = Ladder::standard();
        let registered = Progress::start(&ladder, DUE_MS);
        let mut failed = registered;
        (failed.attempts, failed.due_ms) = (1, DUE_MS + 240_000);
        let expired_ms = DUE_MS - CLAIMED_EARLY_MS + LEASE_MS;
        for (progress, expired_ms, recorded) in [
            (registered, expired_ms, false),
            (registered, expired_ms + 7_000, false),
            (failed, expired_ms, true),
            // The second attempt was leased.
            (failed, expired_ms + 240_000, false),
            // An attempt by hand is due when it is asked for, which is refused during a lease.
            (failed.retry(DUE_MS + 50), expired_ms + 50, false),
            (failed.retry(expired_ms + 1), expired_ms, true),
            // Nothing says that it was attempted before it was moved, or is sent again.
            (
                failed.reschedule(&ladder, DUE_MS + 500_000),
                expired_ms,
                false,
            ),
            (
                failed.next_series(&ladder, DUE_MS + 500_000),
                expired_ms,
                false,
            ),
        ] {
            let found = was_recorded(&progress, expired_ms);
            assert_eq!(found, recorded, "{progress:?} {expired_ms}");
        }
    }
}
