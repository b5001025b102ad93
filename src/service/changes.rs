//! Changes by hand: cancel, retry, replay, discard.
//!
//! All go one way: lease the notification ([`super::held`]), read how it stands, write the change into
//! the journal under that lease, settle the lease by what the journal has. Without a journal, the
//! schedule is the record, and the settlement is the change.
//!
//! They are carried to their end even if whoever asked goes away.

use super::held::{Held, Leasing};
use super::timeouts::with_timeout;
use super::{LONGEST_LEASE_WAIT, Service, ServiceError, snapshot_of};
use crate::domain::attempt::Attempt;
use crate::domain::change::{Change, Changed};
use crate::domain::decision::Decision;
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::recorder::Recorder;
use crate::journal::{
    Actor, ChangeResult, Changing, Journal, JournalError, JournalReads, Recording,
};
use crate::schedule::{Entry, Found, Lease, Settled, Settlement};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Instant;

/// A change that somebody asked for.
#[derive(Debug, Clone)]
struct Asked {
    key: Key,
    change: Change,
    actor: Actor,
    reason: String,
}

/// What one try came to.
enum Tried {
    /// This is the answer.
    Answered(Box<Result<Snapshot, ServiceError>>),
    /// The lease was lost before the change was written down; nothing changed.
    LeaseLost,
}

/// What writing a change into the journal came to.
enum Written {
    /// This is how the notification stands in the journal now, and what is answered.
    Stands {
        after: Box<Snapshot>,
        answer: Box<Result<Snapshot, ServiceError>>,
    },
    /// Somebody else had the lease meanwhile; nothing was written.
    LeaseLost,
    /// There is no such notification.
    Missing,
    /// The journal failed; whether it was written is not known.
    Unknown(JournalError),
}

impl Tried {
    fn answered(answer: Result<Snapshot, ServiceError>) -> Self {
        Self::Answered(Box::new(answer))
    }
}

impl Service {
    /// Calls a scheduled notification off. Once this has answered, no attempt begins.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it has ended otherwise, or an attempt is or may be in flight:
    /// that one can no longer be called back, so the caller should ask again when it has ended.
    pub async fn cancel(
        self: &Arc<Self>,
        key: &Key,
        actor: Actor,
    ) -> Result<Snapshot, ServiceError> {
        self.change(key, Change::Cancel, actor, "").await
    }

    /// Makes an attempt of a scheduled notification now; its ladder goes on afterwards. Does
    /// nothing to one that is in flight anyhow.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it has ended.
    pub async fn retry(
        self: &Arc<Self>,
        key: &Key,
        actor: Actor,
    ) -> Result<Snapshot, ServiceError> {
        self.change(key, Change::Retry, actor, "").await
    }

    /// Starts a dead letter's ladder again: a new series, under the same webhook id.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it is not dead.
    pub async fn replay(
        self: &Arc<Self>,
        key: &Key,
        actor: Actor,
        reason: &str,
    ) -> Result<Snapshot, ServiceError> {
        self.change(key, Change::Replay, actor, reason).await
    }

    /// Gives a dead letter up for good. It counts as cancelled.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it is not dead.
    pub async fn discard(
        self: &Arc<Self>,
        key: &Key,
        actor: Actor,
    ) -> Result<Snapshot, ServiceError> {
        self.change(key, Change::Discard, actor, "").await
    }

    async fn change(
        self: &Arc<Self>,
        key: &Key,
        change: Change,
        actor: Actor,
        reason: &str,
    ) -> Result<Snapshot, ServiceError> {
        let asked = Asked {
            key: key.clone(),
            change,
            actor,
            reason: reason.to_string(),
        };
        let service = self.clone();
        let changing = tokio::spawn(async move { service.run_change(&asked).await });
        changing
            .await
            .unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    async fn run_change(self: &Arc<Self>, asked: &Asked) -> Result<Snapshot, ServiceError> {
        let started = Instant::now();
        let _lock = self.locks.lock(&asked.key).await?;
        loop {
            let (held, before) = match self.lease(&asked.key, asked.change).await? {
                Leasing::Held(held, before) => (held, before),
                Leasing::InFlight => match self.in_flight(asked).await {
                    // That attempt has ended it meanwhile, and is being settled.
                    Err(ServiceError::Refused { snapshot, .. })
                        if snapshot.state != State::Scheduled
                            && asked.change.is_allowed(snapshot.state) =>
                    {
                        if started.elapsed() > LONGEST_LEASE_WAIT {
                            return Err(ServiceError::Unsettled);
                        }
                        continue;
                    }
                    answer => return answer,
                },
                Leasing::Refused(stands) => {
                    let shown = self.find(&asked.key).await?.unwrap_or(*stands);
                    if asked.change.is_allowed(shown.state) {
                        // It has changed since.
                        if started.elapsed() > LONGEST_LEASE_WAIT {
                            return Err(ServiceError::Unsettled);
                        }
                        continue;
                    }
                    return repeated(asked.change, shown);
                }
                Leasing::Missing => return Err(ServiceError::Missing),
            };
            let tried = match (&self.recorder, before, held) {
                (Some(recorder), Some(before), held) => {
                    self.try_journal(recorder, asked, held, *before).await
                }
                (None, _, Held::Entry(lease)) => {
                    Tried::answered(self.change_remembered(asked, *lease).await)
                }
                (None, _, Held::Key(_)) | (Some(_), None, _) => {
                    Tried::answered(Err(ServiceError::Missing))
                }
            };
            match tried {
                Tried::Answered(answer) => return *answer,
                Tried::LeaseLost if started.elapsed() <= LONGEST_LEASE_WAIT => {}
                Tried::LeaseLost => return Err(ServiceError::Unsettled),
            }
        }
    }

    /// An attempt can no longer be called back; one that is made anyhow need not be asked for.
    async fn in_flight(&self, asked: &Asked) -> Result<Snapshot, ServiceError> {
        let found = self.find(&asked.key).await?.ok_or(ServiceError::Missing)?;
        let snapshot = Snapshot {
            in_flight: true,
            ..found
        };
        match asked.change {
            Change::Retry => Ok(snapshot),
            Change::Cancel | Change::Discard | Change::Replay => Err(ServiceError::Refused {
                change: asked.change,
                snapshot: Box::new(snapshot),
            }),
        }
    }

    /// Makes a change in the journal under a lease, and settles the lease. `before` is how the
    /// notification stood before it was leased.
    async fn try_journal(
        &self,
        recorder: &Recorder,
        asked: &Asked,
        held: Held,
        before: Snapshot,
    ) -> Tried {
        let journal = recorder.journal();
        if let Held::Entry(lease) = &held
            && let Err(error) = self.note_interruption(recorder, lease, &before).await
        {
            self.release(held).await;
            return Tried::answered(Err(error));
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
            Written::Stands { after, answer } => {
                self.settle_by(journal, asked, held, &after, *answer).await
            }
            Written::LeaseLost => {
                self.recheck(held).await;
                Tried::LeaseLost
            }
            Written::Missing => {
                self.release(held).await;
                Tried::answered(Err(ServiceError::Missing))
            }
            Written::Unknown(error) => {
                self.recheck(held).await;
                Tried::answered(Err(error.into()))
            }
        }
    }

    /// Writes a change into the journal, as far as the state allows it.
    async fn write(&self, journal: &dyn Journal, asked: &Asked, changing: Changing) -> Written {
        match with_timeout(journal.change(changing)).await {
            Ok(ChangeResult::Done(after)) => {
                // Shown with its attempts, as by a look-up.
                let shown = with_timeout(journal.find(&asked.key)).await;
                let shown = shown.ok().flatten().unwrap_or_else(|| (*after).clone());
                Written::Stands {
                    after,
                    answer: Box::new(Ok(shown)),
                }
            }
            Ok(ChangeResult::Refused(stands)) => {
                // What is pending may be sent once the lease is settled. Whoever had a lease before,
                // and lost it, must not write a change after that.
                let fenced = match stands.state {
                    State::Scheduled => with_timeout(journal.fence(&asked.key)).await,
                    State::Delivered | State::Dead | State::Cancelled => Ok(None),
                };
                match fenced {
                    Ok(after) => Written::Stands {
                        after: after.map_or_else(|| stands.clone(), Box::new),
                        answer: Box::new(repeated(asked.change, *stands)),
                    },
                    Err(error) => Written::Unknown(error),
                }
            }
            Ok(ChangeResult::Fenced(_)) => Written::LeaseLost,
            Ok(ChangeResult::Missing) => Written::Missing,
            // The journal may have applied it all the same, or may do so yet.
            Err(error) => Written::Unknown(error),
        }
    }

    /// Settles the lease by how the journal has the notification now.
    async fn settle_by(
        &self,
        journal: &dyn Journal,
        asked: &Asked,
        held: Held,
        after: &Snapshot,
        answer: Result<Snapshot, ServiceError>,
    ) -> Tried {
        let settled = self.conform(journal, held, after).await;
        match (settled, after.state) {
            // What has ended is never sent again: the lease keeps it back, and once that has expired
            // the journal is asked.
            (_, State::Delivered | State::Dead | State::Cancelled)
            | (Ok(Settled::Done), State::Scheduled) => Tried::answered(answer),
            // The journal has it. Whoever has the lease now may have asked before that, and a change that
            // was written late lies before what the reconciler looks at.
            (Ok(Settled::Lost), State::Scheduled) => {
                self.put_back(journal, &asked.key).await;
                Tried::answered(answer)
            }
            (Err(error), State::Scheduled) => Tried::answered(Err(error)),
        }
    }

    /// Puts into the schedule what is pending in the journal, as far as the schedule does not have it.
    /// A failure is left to the sweep.
    async fn put_back(&self, journal: &dyn JournalReads, key: &Key) {
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
    async fn note_interruption(
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
        let stands = with_timeout(recorder.snapshot(before.key.clone())).await?;
        let step = |progress: &Progress| (progress.series, progress.attempts);
        if stands.is_none_or(|stands| step(&stands.progress) != step(&progress)) {
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

    /// Makes a change where the schedule is the record.
    async fn change_remembered(
        &self,
        asked: &Asked,
        lease: Lease,
    ) -> Result<Snapshot, ServiceError> {
        let now_ms = self.clock.now_ms();
        let entry = lease.entry.clone();
        let before = snapshot_of(Found {
            entry,
            in_flight: false,
        });
        let changed = asked
            .change
            .apply(&before.ladder, before.state, &before.progress, now_ms);
        let Some(changed) = changed else {
            self.release(Held::Entry(Box::new(lease))).await;
            return repeated(asked.change, before);
        };
        let Changed {
            state,
            cause,
            progress,
            ended_ms,
        } = changed;
        let settlement = Settlement::to(state, cause, progress, ended_ms.unwrap_or(now_ms));
        match with_timeout(self.schedule.settle(lease, settlement)).await? {
            Settled::Done => Ok(Snapshot {
                state,
                cause,
                progress,
                ended_ms,
                ..before
            }),
            // It took too long, and somebody else has it now; or this had been done, and the reply was
            // lost.
            Settled::Lost => Err(ServiceError::Unsettled),
        }
    }
}

/// A refused change that was only asked for twice is as good as done.
fn repeated(change: Change, snapshot: Snapshot) -> Result<Snapshot, ServiceError> {
    match (change, snapshot.state) {
        (Change::Cancel | Change::Discard, State::Cancelled) => Ok(snapshot),
        _ => Err(ServiceError::Refused {
            change,
            snapshot: Box::new(snapshot),
        }),
    }
}
