//! Changes by hand: cancel, retry, replay, discard.

use super::in_time::in_time;
use super::{Service, ServiceError, snapshot_of};
use crate::domain::change::Change;
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::{Actor, ChangeResult, Changing, Journal};
use crate::schedule::shared::Shared;
use crate::schedule::{Entry, Found, Lease, Settled, Settlement, Taken};

impl Service {
    /// Calls a scheduled notification off. Once this has answered, no attempt begins.
    ///
    /// The entry is leased first, so that nobody sends it meanwhile, then the journal is told, then
    /// the lease is settled. Dying in between lets the lease expire; the claim that follows asks
    /// the journal before it sends.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it has ended otherwise, or an attempt is or may be under way:
    /// that one can no longer be called back, so the caller should ask again when it has ended.
    pub async fn cancel(&self, key: &Key, actor: Actor) -> Result<Snapshot, ServiceError> {
        let change = Change::Cancel;
        let _lock = self.locks.lock(key).await?;
        match in_time(self.schedule.take(key)).await? {
            Taken::Leased(lease) if self.may_be_under_way(&lease.entry.progress) => {
                in_time(self.schedule.settle(*lease, Settlement::Release)).await?;
                let snapshot = self.find(key).await?.ok_or(ServiceError::Missing)?;
                under_way(change, snapshot)
            }
            Taken::Leased(lease) => self.cancel_leased(*lease, actor).await,
            Taken::InFlight => {
                let snapshot = self.find(key).await?.ok_or(ServiceError::Missing)?;
                if snapshot.state != State::Scheduled {
                    // The lease of what ended it is still out: of a cancellation that died before
                    // it was answered, say. Whoever gets the entry next asks the journal.
                    return repeated(change, snapshot);
                }
                under_way(change, snapshot)
            }
            Taken::Ended(entry) => repeated(
                change,
                snapshot_of(Found {
                    entry: *entry,
                    in_flight: false,
                }),
            ),
            Taken::Missing => {
                let journal = self.journal().ok_or(ServiceError::Missing)?;
                // It has ended, or the schedule has lost it, or another server is registering it.
                let (snapshot, _) = self.in_step(journal, key).await?;
                if snapshot.state == State::Scheduled && self.may_be_under_way(&snapshot.progress) {
                    return under_way(change, snapshot);
                }
                self.change(journal, change, key, actor, "").await
            }
        }
    }

    /// Whether an attempt may be under way whose lease the schedule has lost with all the rest: it
    /// was due before that, and has not had the time that an attempt may take.
    fn may_be_under_way(&self, progress: &Progress) -> bool {
        let lost_ms = self.schedule.shared().and_then(Shared::lost_ms);
        let lease_ms = self.schedule.limits().lease_ms;
        lost_ms.is_some_and(|lost_ms| {
            progress.next_due_ms() <= lost_ms && self.clock.now_ms() < lost_ms + lease_ms
        })
    }

    async fn cancel_leased(&self, lease: Lease, actor: Actor) -> Result<Snapshot, ServiceError> {
        let key = lease.entry.notification.key.clone();
        let now_ms = self.clock.now_ms();
        let result = match self.journal() {
            Some(journal) => self.change(journal, Change::Cancel, &key, actor, "").await,
            None => Ok(Snapshot {
                state: State::Cancelled,
                ended_ms: Some(now_ms),
                ..snapshot_of(Found {
                    entry: lease.entry.clone(),
                    in_flight: false,
                })
            }),
        };
        let settlement = match stand(&result) {
            Ok(snapshot) => Settlement::End {
                state: snapshot.state,
                cause: snapshot.cause,
                progress: snapshot.progress,
                ended_ms: snapshot.ended_ms.unwrap_or(now_ms),
            },
            // The journal may have carried it out all the same.
            Err(_) => Settlement::Recheck,
        };
        let settled = in_time(self.schedule.settle(lease, settlement)).await?;
        if settled == Settled::Lost && self.journal().is_none() {
            // It took too long, and somebody else is sending it now.
            return Err(ServiceError::Unsettled);
        }
        result
    }

    /// Makes an attempt of a scheduled notification now; its ladder goes on afterwards. Does
    /// nothing to one that is due or in flight anyhow.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it has ended.
    pub async fn retry(&self, key: &Key, actor: Actor) -> Result<Snapshot, ServiceError> {
        let change = Change::Retry;
        let _lock = self.locks.lock(key).await?;
        if let Some(journal) = self.journal() {
            let (mut snapshot, found) = self.in_step(journal, key).await?;
            if found.is_some_and(|found| found.in_flight) {
                snapshot.in_flight = true;
                return Ok(snapshot);
            }
            let mut snapshot = self.change(journal, change, key, actor, "").await?;
            self.ensure_scheduled(journal, key).await?;
            if let Some(found) = in_time(self.schedule.advance(key)).await? {
                snapshot.in_flight = found.in_flight;
                snapshot.progress = found.entry.progress;
            }
            return Ok(snapshot);
        }
        let found = in_time(self.schedule.advance(key))
            .await?
            .ok_or(ServiceError::Missing)?;
        let snapshot = snapshot_of(found);
        match snapshot.state {
            State::Scheduled => Ok(snapshot),
            State::Delivered | State::Dead | State::Cancelled => Err(ServiceError::Refused {
                change,
                snapshot: Box::new(snapshot),
            }),
        }
    }

    /// Starts a dead letter's ladder again: a new series, under the same webhook id.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it is not dead.
    pub async fn replay(
        &self,
        key: &Key,
        actor: Actor,
        reason: &str,
    ) -> Result<Snapshot, ServiceError> {
        let change = Change::Replay;
        let _lock = self.locks.lock(key).await?;
        if let Some(journal) = self.journal() {
            // Not before the schedule has let go of the series that died.
            self.in_step(journal, key).await?;
            let result = self.change(journal, change, key, actor, reason).await;
            // Also after a refusal: an earlier replay may have died between the two stores.
            if let Ok(Snapshot {
                state: State::Scheduled,
                ..
            }) = stand(&result)
            {
                self.ensure_scheduled(journal, key).await?;
            }
            return result;
        }
        let entry = self.revivable(change, key).await?;
        let progress = entry
            .progress
            .replay(&entry.notification.ladder, self.clock.now_ms());
        let before = in_time(self.schedule.revive(key, Some(progress))).await?;
        let before = before.ok_or(ServiceError::Missing)?;
        refuse_unless_dead(change, &before)?;
        Ok(Snapshot::of_new(&before.notification, progress))
    }

    /// Gives a dead letter up for good. It counts as cancelled.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it is not dead.
    pub async fn discard(&self, key: &Key, actor: Actor) -> Result<Snapshot, ServiceError> {
        let change = Change::Discard;
        let _lock = self.locks.lock(key).await?;
        if let Some(journal) = self.journal() {
            return self.change(journal, change, key, actor, "").await;
        }
        let entry = self.revivable(change, key).await?;
        let before = in_time(self.schedule.revive(key, None))
            .await?
            .ok_or(ServiceError::Missing)?;
        refuse_unless_dead(change, &before)?;
        Ok(Snapshot {
            state: State::Cancelled,
            ended_ms: Some(self.clock.now_ms()),
            ..Snapshot::of_new(&before.notification, entry.progress)
        })
    }

    async fn revivable(&self, change: Change, key: &Key) -> Result<Entry, ServiceError> {
        let found = in_time(self.schedule.find(key))
            .await?
            .ok_or(ServiceError::Missing)?;
        refuse_unless_dead(change, &found.entry)?;
        Ok(found.entry)
    }

    async fn change(
        &self,
        journal: &dyn Journal,
        change: Change,
        key: &Key,
        actor: Actor,
        reason: &str,
    ) -> Result<Snapshot, ServiceError> {
        let changing = Changing {
            key: key.clone(),
            change,
            actor,
            reason: reason.to_string(),
            at_ms: self.clock.now_ms(),
        };
        match in_time(journal.change(changing)).await? {
            // Shown with its attempts, as by a look-up.
            ChangeResult::Done(snapshot) => {
                Ok(in_time(journal.find(key)).await?.unwrap_or(*snapshot))
            }
            ChangeResult::Refused(snapshot) => repeated(change, *snapshot),
            ChangeResult::Missing => Err(ServiceError::Missing),
        }
    }
}

/// An attempt can no longer be called back.
fn under_way(change: Change, snapshot: Snapshot) -> Result<Snapshot, ServiceError> {
    let snapshot = Box::new(Snapshot {
        in_flight: true,
        ..snapshot
    });
    Err(ServiceError::Refused { change, snapshot })
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

fn refuse_unless_dead(change: Change, entry: &Entry) -> Result<(), ServiceError> {
    if entry.state == State::Dead {
        return Ok(());
    }
    let found = Found {
        entry: entry.clone(),
        in_flight: false,
    };
    Err(ServiceError::Refused {
        change,
        snapshot: Box::new(snapshot_of(found)),
    })
}

/// How the notification stands, whether the change was done or refused.
fn stand(result: &Result<Snapshot, ServiceError>) -> Result<&Snapshot, &ServiceError> {
    match result {
        Ok(snapshot) => Ok(snapshot),
        Err(ServiceError::Refused { snapshot, .. }) => Ok(snapshot),
        Err(error) => Err(error),
    }
}
