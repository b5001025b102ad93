//! Changing a notification that a journal records: the change is written there, and the lease settled by
//! what the journal then has.

use super::{ChangeRequest, ChangeStep, repeated};
use crate::domain::attempt::Attempt;
use crate::domain::decision::Decision;
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::recorder::Recorder;
use crate::journal::{ChangeResult, Changing, Journal, JournalError, JournalReads, Recording};
use crate::schedule::{Entry, Lease, Settled};
use crate::service::held::HeldLease;
use crate::service::timeouts::with_timeout;
use crate::service::{Service, ServiceError};

/// What writing a change into the journal came to.
enum JournalReply {
    /// This is what the journal has now, and what is answered.
    Has {
        after: Box<Snapshot>,
        answer: Box<Result<Snapshot, ServiceError>>,
    },
    /// Another request has had the lease meanwhile; nothing was written.
    LeaseLost,
    /// There is no such notification.
    Missing,
    /// The journal failed; whether it was written is not known.
    Unknown(JournalError),
}

impl Service {
    /// Writes a change into the journal under a lease, and settles the lease. `before` is how the
    /// notification was recorded before it was leased.
    pub(super) async fn change_in_journal(
        &self,
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
            actor: asked.actor.clone(),
            reason: asked.reason.clone(),
            at_ms: self.clock.now_ms(),
        };
        match self.write(journal, asked, changing).await {
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

    /// Writes a change into the journal, as far as the state allows it.
    async fn write(
        &self,
        journal: &dyn Journal,
        asked: &ChangeRequest,
        changing: Changing,
    ) -> JournalReply {
        match with_timeout(journal.change(changing)).await {
            Ok(ChangeResult::Done(after)) => {
                // Shown with its attempts, as by a look-up.
                let shown = with_timeout(journal.find(&asked.key)).await;
                let shown = shown.ok().flatten().unwrap_or_else(|| (*after).clone());
                JournalReply::Has {
                    after,
                    answer: Box::new(Ok(shown)),
                }
            }
            Ok(ChangeResult::Refused(recorded)) => {
                // What is pending may be sent once the lease is settled. A request that had a lease
                // before, and lost it, must not write a change after that.
                let fenced = match recorded.state {
                    State::Scheduled => with_timeout(journal.fence(&asked.key)).await,
                    State::Delivered | State::Dead | State::Cancelled => Ok(None),
                };
                match fenced {
                    Ok(after) => JournalReply::Has {
                        after: after.map_or_else(|| recorded.clone(), Box::new),
                        answer: Box::new(repeated(asked.change, *recorded)),
                    },
                    Err(error) => JournalReply::Unknown(error),
                }
            }
            Ok(ChangeResult::Fenced(_)) => JournalReply::LeaseLost,
            Ok(ChangeResult::Missing) => JournalReply::Missing,
            // The journal may have applied it all the same, or may do so yet.
            Err(error) => JournalReply::Unknown(error),
        }
    }

    /// Settles the lease by what the journal has now.
    async fn settle_change(
        &self,
        journal: &dyn Journal,
        asked: &ChangeRequest,
        held: HeldLease,
        after: &Snapshot,
        answer: Result<Snapshot, ServiceError>,
    ) -> ChangeStep {
        let settled = self.settle_to_journal(journal, held, after).await;
        match (settled, after.state) {
            // What has ended is never sent again: the lease keeps it back, and once that has expired
            // the journal is asked.
            (_, State::Delivered | State::Dead | State::Cancelled)
            | (Ok(Settled::Done), State::Scheduled) => ChangeStep::answered(answer),
            // The journal has it. The server that has the lease now may have asked the journal before that,
            // and a change that was written late lies before what the reconciler reads.
            (Ok(Settled::Lost), State::Scheduled) => {
                self.restore(journal, &asked.key).await;
                ChangeStep::answered(answer)
            }
            (Err(error), State::Scheduled) => ChangeStep::answered(Err(error)),
        }
    }

    /// Puts into the schedule what is pending in the journal, as far as the schedule does not have it.
    /// A failure is left to the sweep.
    async fn restore(&self, journal: &dyn JournalReads, key: &Key) {
        let Ok(Some(pending)) = with_timeout(journal.pending(key)).await else {
            return;
        };
        let entry = Entry {
            verify: true,
            ..Entry::scheduled(pending.notification, pending.progress)
        };
        if let Err(error) = with_timeout(self.schedule.restore(&[entry])).await {
            tracing::debug!(notification = %key, %error, "cannot be put back");
        }
    }

    /// Writes down that an attempt may have been made whose lease expired before its outcome was known:
    /// once it is called off or begun anew, nobody else would.
    async fn record_interruption(
        &self,
        recorder: &Recorder,
        lease: &Lease,
        before: &Snapshot,
    ) -> Result<(), ServiceError> {
        let Some(started_ms) = lease.entry.interrupted_ms else {
            return Ok(());
        };
        let progress = lease.entry.progress;
        // Its outcome may have been recorded, and only the settlement lost.
        let recorded = with_timeout(recorder.snapshot(before.key.clone())).await?;
        let step = |progress: &Progress| (progress.series, progress.attempts);
        if recorded.is_none_or(|recorded| step(&recorded.progress) != step(&progress)) {
            return Ok(());
        }
        let recording = Recording {
            key: before.key.clone(),
            attempt: Attempt::interrupted(&progress, started_ms),
            before: progress,
            decision: Decision {
                state: State::Scheduled,
                cause: None,
                progress,
            },
            at_ms: self.clock.now_ms(),
        };
        with_timeout(recorder.record(recording)).await?;
        Ok(())
    }
}
