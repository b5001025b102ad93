//! After the call: its outcome into the journal, its lease settled, however long that takes.

use super::errand::Errands;
use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::decision::Decision;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::health::{Patience, Store};
use crate::journal::recorder::Recorder;
use crate::journal::{JournalError, Recorded, Recording};
use crate::schedule::{Lease, LeaseRequest, LeasedOne, ScheduleError, Settled, Settlement};
use std::pin::pin;

/// How long before its end a lease is renewed whose outcome is not recorded yet. Less than what a
/// lease lasts beyond the longest attempt, so that it is never renewed while all is well.
const RENEW_BEFORE_MS: i64 = 2_000;

impl Errands {
    /// Gives a lease back unused.
    pub(super) async fn release(&self, lease: Lease) {
        self.settle(lease, Settlement::Release).await;
    }

    /// Writes an outcome to the journal, however long that takes: the outcome of a call that was
    /// made must not be forgotten while we live. The lease is renewed meanwhile, so that nobody
    /// makes the attempt again. Says how to settle; `None` if we are to end first.
    pub(super) async fn record(
        &self,
        lease: &mut Lease,
        attempt: Attempt,
        decision: Decision,
    ) -> Option<Settlement> {
        self.meters.attempt(&attempt);
        let interrupted = attempt.answer.outcome == Outcome::Interrupted;
        let carried_out = if interrupted {
            Settlement::Release
        } else {
            self.carry(&decision)
        };
        let Some(recorder) = &self.recorder else {
            return Some(carried_out);
        };
        let recording = Recording {
            key: lease.entry.notification.key.clone(),
            attempt,
            before: lease.entry.progress,
            decision,
            at_ms: self.clock.now_ms(),
        };
        let mut keeping = pin!(self.keep(recorder, recording, carried_out));
        let mut renew_at_ms = lease.expires_ms() - RENEW_BEFORE_MS;
        let mut patience = Patience::new(&self.health, Store::Schedule);
        loop {
            tokio::select! {
                biased;
                settlement = &mut keeping => return settlement,
                () = self.clock.sleep_until(renew_at_ms) => {}
            }
            match self.schedule.renew(lease).await {
                Ok(Some(expiry)) => {
                    lease.renewed(expiry);
                    renew_at_ms = expiry.at_ms - RENEW_BEFORE_MS;
                }
                // Somebody else has it; the journal will say which outcome counts.
                Ok(None) => return keeping.await,
                // Out of reach, so nobody can claim it either.
                Err(_) => tokio::select! {
                    biased;
                    settlement = &mut keeping => return settlement,
                    () = patience.wait() => {}
                },
            }
        }
    }

    async fn keep(
        &self,
        recorder: &Recorder,
        recording: Recording,
        carried_out: Settlement,
    ) -> Option<Settlement> {
        let mut patience = Patience::new(&self.health, Store::Journal);
        loop {
            match recorder.record(recording.clone()).await {
                Ok(Recorded::Applied) => return Some(carried_out),
                Ok(Recorded::Stale(snapshot)) => return Some(self.conform(&snapshot)),
                Ok(Recorded::Missing) => {
                    tracing::error!(notification = %recording.key, "the journal lost a notification");
                    return Some(carried_out);
                }
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    // Trying again cannot help; to send it again would be worse than a gap in the
                    // record.
                    tracing::error!(notification = %recording.key, %error, "an outcome cannot be recorded");
                    return Some(carried_out);
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(notification = %recording.key, %error, "recording waits");
                    self.give_up.run_until_cancelled(patience.wait()).await?;
                }
            }
        }
    }

    /// Settles a lease, trying again while that may help: the fence makes repeating safe.
    ///
    /// A lease that is lost may have been claimed again by this very process: then that one is settled
    /// instead. An end that the journal holds is carried out whoever has the lease.
    pub(super) async fn settle(&self, mut lease: Lease, mut settlement: Settlement) {
        let key = lease.entry.notification.key.clone();
        let mut patience = Patience::new(&self.health, Store::Schedule);
        loop {
            match self
                .schedule
                .settle(lease.clone(), settlement.clone())
                .await
            {
                Ok(Settled::Done) => return,
                Ok(Settled::Lost) => {
                    // Normal after a reply was lost on its way; the call had been carried out.
                    tracing::debug!(notification = %key, "the lease was lost");
                    let newest = match self.under_way.newer(&key) {
                        Some(newest) => newest,
                        None if matches!(settlement, Settlement::End { .. })
                            && self.recorder.is_some() =>
                        {
                            let request = LeaseRequest::new(key.clone());
                            match self.schedule.lease_one(&request).await {
                                Ok(LeasedOne::Leased(newest)) => *newest,
                                // It comes back when its lease expires; the journal is asked then.
                                Ok(_) | Err(_) => return,
                            }
                        }
                        None => return,
                    };
                    let (here, there) = (lease.entry.progress, newest.entry.progress);
                    if here.series != there.series {
                        // It was replayed meanwhile: that is none of ours.
                        settlement = Settlement::Release;
                    } else if here.attempts != there.attempts
                        && !matches!(settlement, Settlement::End { .. })
                    {
                        // Somebody else has come further or less far: the journal knows.
                        settlement = Settlement::Recheck;
                    }
                    lease = newest;
                }
                Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Rebuilding)) => {
                    tracing::debug!(notification = %key, %error, "settling waits");
                    let waiting = self.give_up.run_until_cancelled(patience.wait());
                    if waiting.await.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::error!(notification = %key, %error, "a lease cannot be settled");
                    return;
                }
            }
        }
    }

    fn carry(&self, decision: &Decision) -> Settlement {
        match decision.state {
            State::Scheduled => Settlement::Again(decision.progress),
            State::Delivered | State::Dead | State::Cancelled => Settlement::End {
                state: decision.state,
                cause: decision.cause,
                progress: decision.progress,
                ended_ms: self.clock.now_ms(),
            },
        }
    }

    /// Brings the schedule to where the journal stands.
    pub(super) fn conform(&self, snapshot: &Snapshot) -> Settlement {
        match snapshot.state {
            State::Scheduled => Settlement::Again(snapshot.progress),
            State::Delivered | State::Dead | State::Cancelled => Settlement::End {
                state: snapshot.state,
                cause: snapshot.cause,
                progress: snapshot.progress,
                ended_ms: snapshot.ended_ms.unwrap_or_else(|| self.clock.now_ms()),
            },
        }
    }
}
