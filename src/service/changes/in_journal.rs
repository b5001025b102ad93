//! Changing a notification that a journal records: the change is written there, then the lease is settled
//! to the new state in the journal.

use super::{ChangeRequest, ChangeStep, repeated};
use crate::domain::attempt::Attempt;
use crate::domain::decision::Decision;
use crate::domain::key::Key;
use crate::domain::lane::KeyInLane;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::recorder::Recorder;
use crate::journal::{ChangeResult, Changing, Journal, JournalError, JournalReads, Recording};
use crate::schedule::{Entry, Lease, LeaseRequest, Settled};
use crate::service::held::HeldLease;
use crate::service::timeouts::with_timeout;
use crate::service::{Service, ServiceError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First wait before a notification that has ended is removed again from a schedule that fails; it doubles.
const REMOVE_AGAIN: Duration = Duration::from_millis(200);
/// For how long that is tried. After that, what is left is found by the reconciler or by the sweep.
const LONGEST_REMOVING: Duration = Duration::from_secs(30);

/// The result of writing a change into the journal.
enum JournalReply {
    /// The state in the journal now, and the answer to the caller.
    Has {
        after: Box<Snapshot>,
        answer: Box<Result<Snapshot, ServiceError>>,
    },
    /// The fence was raised meanwhile, so our lease is lost; nothing was written.
    LeaseLost,
    /// There is no such notification.
    Missing,
    /// The journal failed; it is not known whether the change was written.
    Unknown(JournalError),
}

impl Service {
    /// Writes a change into the journal under a lease, and settles the lease. `before` is the recorded state
    /// before the notification was leased.
    pub(super) async fn change_in_journal(
        self: &Arc<Self>,
        recorder: &Recorder,
        asked: &ChangeRequest,
        held: HeldLease,
        before: Snapshot,
    ) -> ChangeStep {
        let journal = recorder.journal();
        if let HeldLease::Entry(lease) = &held
            && let Err(error) = self.record_interruption(recorder, lease, &before).await
        {
            self.release(held).await;
            return ChangeStep::answered(Err(error));
        }
        let changing = Changing {
            lease: held.token(),
            fence: before.fence,
            change: asked.change,
            series_priority: None,
            actor: asked.actor.clone(),
            reason: asked.reason.clone(),
            at_ms: self.clock.now_ms(),
        };
        match self.write(journal, asked, changing, &before).await {
            JournalReply::Has { after, answer } => {
                self.settle_change(journal, asked, held, &after, *answer)
                    .await
            }
            JournalReply::LeaseLost => {
                self.recheck(held).await;
                ChangeStep::Again
            }
            JournalReply::Missing => {
                self.release(held).await;
                ChangeStep::answered(Err(ServiceError::Missing))
            }
            JournalReply::Unknown(error) => {
                self.recheck(held).await;
                ChangeStep::answered(Err(error.into()))
            }
        }
    }

    /// Writes a change into the journal, if the state allows it. `before` is the recorded state before the notification was
    /// leased.
    async fn write(
        &self,
        journal: &dyn Journal,
        asked: &ChangeRequest,
        changing: Changing,
        before: &Snapshot,
    ) -> JournalReply {
        match with_timeout(journal.change(changing.clone())).await {
            Ok(ChangeResult::Done(after)) => done(journal, after).await,
            Ok(ChangeResult::Refused(recorded)) => {
                // A pending notification may be sent after the lease is settled. So the fence is raised: a
                // request that lost an earlier lease must not write a change after that.
                let fenced = match recorded.state {
                    State::Scheduled => {
                        with_timeout(journal.fence(std::slice::from_ref(&asked.key))).await
                    }
                    State::Delivered | State::Dead | State::Cancelled => Ok(Vec::new()),
                };
                match fenced {
                    Ok(after) => JournalReply::Has {
                        after: (after.into_iter().flatten().next())
                            .map_or_else(|| recorded.clone(), Box::new),
                        answer: Box::new(repeated(asked.change, *recorded)),
                    },
                    Err(error) => JournalReply::Unknown(error),
                }
            }
            Ok(ChangeResult::PayloadDeleted(recorded)) => JournalReply::Has {
                after: recorded.clone(),
                answer: Box::new(Err(ServiceError::PayloadDeleted(recorded))),
            },
            Ok(ChangeResult::Superseded(recorded)) => JournalReply::Has {
                after: recorded.clone(),
                answer: Box::new(Err(ServiceError::Superseded(recorded))),
            },
            Ok(ChangeResult::Fenced(_)) => JournalReply::LeaseLost,
            Ok(ChangeResult::Missing) => JournalReply::Missing,
            // The journal may have applied the change nevertheless. A caller that is told to ask again would have a delivered
            // notification sent once more. If nothing is found, the journal may still apply it.
            Err(error @ JournalError::Unavailable(_)) => {
                match find_applied(journal, &changing, before).await {
                    Some(after) => done(journal, after).await,
                    None => JournalReply::Unknown(error),
                }
            }
            Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                JournalReply::Unknown(error)
            }
        }
    }

    /// Settles the lease to the state in the journal.
    async fn settle_change(
        self: &Arc<Self>,
        journal: &dyn Journal,
        asked: &ChangeRequest,
        held: HeldLease,
        after: &Snapshot,
        answer: Result<Snapshot, ServiceError>,
    ) -> ChangeStep {
        let settled = self.settle_to_journal(journal, (held, true), after).await;
        match (settled, after.state) {
            (Ok(Settled::Lost) | Err(_), State::Delivered | State::Dead | State::Cancelled) => {
                self.remove_after_loss(after.key_in_lane());
                ChangeStep::answered(answer)
            }
            // An ended notification is never sent again: while the lease lasts it is not claimed, and after
            // the lease has expired the journal is asked.
            (Ok(Settled::Done), State::Delivered | State::Dead | State::Cancelled)
            | (Ok(Settled::Done), State::Scheduled) => ChangeStep::answered(answer),
            // The change is in the journal, but the server that has the lease now may have read the journal
            // before the change was written. The reconciler may not find the change either: its instant is that
            // of the request, and the window with that instant may be over. So the schedule is repaired here.
            (Ok(Settled::Lost), State::Scheduled) => {
                self.restore(journal, &asked.key).await;
                ChangeStep::answered(answer)
            }
            (Err(error), State::Scheduled) => ChangeStep::answered(Err(error)),
        }
    }

    /// Puts a notification that is pending in the journal into the schedule, if it is missing there or has
    /// other progress. After a failure, the sweep does it.
    pub(in crate::service) async fn restore(&self, journal: &dyn JournalReads, key: &Key) {
        let Ok(Some(pending)) = with_timeout(journal.pending(key)).await else {
            return;
        };
        let entry = Entry {
            verify: true,
            ..Entry::scheduled(pending.notification, pending.progress)
        };
        if let Err(error) = with_timeout(self.schedule.restore(&[entry])).await {
            tracing::debug!(
                notification = %key,
                %error,
                "a changed notification that is pending could not be put into the schedule; if it is missing there, the sweep \
                 puts it in"
            );
        }
    }

    /// Removes a notification from the schedule that has ended, and whose lease was lost before the schedule was told. It
    /// may have come back with an older copy of the data, and have been compared with the journal before it ended there.
    /// Goes on in the background: for the time of a lease, the journal is asked before it is sent.
    pub(in crate::service) fn remove_after_loss(self: &Arc<Self>, entry: KeyInLane) {
        let service = self.clone();
        tokio::spawn(async move {
            let Some(journal) = service.journal() else {
                return;
            };
            let began = Instant::now();
            let mut wait = REMOVE_AGAIN;
            while let Err(error) = service.remove_if_ended(journal, entry.clone()).await {
                tracing::debug!(
                    notification = %entry.key,
                    %error,
                    "a notification that has ended could not be removed from the schedule"
                );
                if !error.may_pass() || began.elapsed() > LONGEST_REMOVING {
                    return;
                }
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
        });
    }

    async fn remove_if_ended(
        &self,
        journal: &dyn JournalReads,
        entry: KeyInLane,
    ) -> Result<(), ServiceError> {
        let request = LeaseRequest::for_repair(entry.clone());
        let leasing = with_timeout(self.schedule.lease_one(&request)).await?;
        let Some(held) = HeldLease::of(leasing) else {
            return Ok(());
        };
        // Read again: it may have been replayed since.
        let recorded = with_timeout(journal.snapshots(std::slice::from_ref(&entry.key))).await;
        match recorded.map(|mut recorded| recorded.pop().flatten()) {
            Ok(Some(recorded)) if recorded.state != State::Scheduled => {
                if let (HeldLease::Entry(lease), Some(recorder)) = (&held, &self.recorder)
                    && let Err(error) = self.record_interruption(recorder, lease, &recorded).await
                {
                    self.recheck(held).await;
                    return Err(error);
                }
                self.settle_to_journal(journal, (held, true), &recorded)
                    .await?;
            }
            Ok(_) => self.recheck(held).await,
            Err(error) => {
                self.recheck(held).await;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Records an attempt whose lease expired before its outcome was known. After a cancellation or a replay,
    /// no server would record it.
    pub(in crate::service) async fn record_interruption(
        &self,
        recorder: &Recorder,
        lease: &Lease,
        before: &Snapshot,
    ) -> Result<(), ServiceError> {
        let Some(started_ms) = lease.entry.interrupted_ms else {
            return Ok(());
        };
        let progress = lease.entry.progress;
        // The outcome may be recorded already, if only the settlement was lost.
        let recorded = with_timeout(recorder.snapshot(before.key.clone())).await?;
        let step = |progress: &Progress| (progress.series, progress.attempts);
        if recorded.is_none_or(|recorded| step(&recorded.progress) != step(&progress)) {
            return Ok(());
        }
        let recording = Recording {
            key: before.key.clone(),
            attempt: Arc::new(Attempt::interrupted(&progress, started_ms)),
            before: progress,
            decision: Decision {
                state: State::Scheduled,
                cause: None,
                progress,
                request: None,
            },
            at_ms: self.clock.now_ms(),
        };
        with_timeout(recorder.record(recording)).await?;
        Ok(())
    }
}

/// The reply for a change that was written. The answer contains the attempts, like a look-up.
async fn done(journal: &dyn JournalReads, after: Box<Snapshot>) -> JournalReply {
    let shown = with_timeout(journal.find(&after.key)).await;
    let shown = shown.ok().flatten().unwrap_or_else(|| (*after).clone());
    JournalReply::Has {
        after,
        answer: Box::new(Ok(shown)),
    }
}

/// Looks once whether a change was written whose answer did not come. Returns the notification after it.
async fn find_applied(
    journal: &dyn JournalReads,
    changing: &Changing,
    before: &Snapshot,
) -> Option<Box<Snapshot>> {
    let key = std::slice::from_ref(changing.lease.key());
    let found = with_timeout(journal.snapshots(key)).await;
    let now = found.ok()?.pop().flatten()?;
    changing.is_applied(before, &now).then(|| Box::new(now))
}
