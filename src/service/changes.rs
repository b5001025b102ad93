//! Changes by hand: cancel, retry, reschedule, replay, resend, discard.
//!
//! All do the same steps: read the recorded state of the notification and lease it ([`super::held`]), then
//! write the change into the record under that lease. Only the last step depends on the kind of record: a
//! journal ([`in_journal`]), or without one the schedule itself ([`in_schedule`]).
//!
//! A change is completed even if the caller disconnects.

mod in_journal;
mod in_schedule;

use super::held::Leasing;
use super::{ASK_AGAIN, LONGEST_LEASE_WAIT, Service, ServiceError};
use crate::domain::change::Change;
use crate::domain::key::Key;
use crate::domain::notification::Start;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::Actor;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Instant;

/// A requested change.
#[derive(Debug, Clone)]
struct ChangeRequest {
    key: Key,
    change: Change,
    actor: Actor,
    reason: String,
}

/// The result of one try.
enum ChangeStep {
    /// The answer to the caller.
    Answered(Box<Result<Snapshot, ServiceError>>),
    /// Nothing was changed, because the lease was lost or the state has changed: try again.
    Again,
}

impl ChangeStep {
    fn answered(answer: Result<Snapshot, ServiceError>) -> Self {
        Self::Answered(Box::new(answer))
    }
}

impl Service {
    /// Cancels a scheduled notification, or one that a higher number of its order has ended: it stays cancelled, whatever
    /// is answered to an attempt that was in flight. After this has succeeded, no attempt begins. Four places ensure this:
    ///
    /// * While the notification is leased for the change, no claim returns it (`lease_one.lua`,
    ///   `memory/state/by_hand.rs`).
    /// * If that lease expires, a worker asks the journal and raises the fence before it sends
    ///   (`Worker::confirm`).
    /// * A call whose lease has expired sends no first byte (`delivery/socket.rs`).
    /// * After a loss of data, the change is refused while an attempt may be in flight
    ///   ([`crate::schedule::LeasedOne::MayBeInFlight`]).
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it has ended otherwise, or an attempt is or may be in flight: that
    /// attempt can no longer be stopped, so the caller should ask again when it has ended.
    pub async fn cancel(
        self: &Arc<Self>,
        key: &Key,
        actor: Actor,
    ) -> Result<Snapshot, ServiceError> {
        self.change(key, Change::Cancel, actor, "").await
    }

    /// Makes an attempt of a scheduled notification due now; its ladder continues afterwards. Does nothing if
    /// an attempt is in flight already.
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
    /// [`ServiceError::Refused`] if it is not dead; [`ServiceError::EndpointMadeAgain`].
    pub async fn replay(
        self: &Arc<Self>,
        key: &Key,
        actor: Actor,
        reason: &str,
    ) -> Result<Snapshot, ServiceError> {
        self.change(key, Change::Replay, actor, reason).await
    }

    /// Sends a delivered notification again, as [`Service::replay`] does with a dead letter.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if it is not delivered; [`ServiceError::EndpointMadeAgain`];
    /// [`ServiceError::PayloadDeleted`] if its body was deleted; [`ServiceError::NoJournal`] without a journal, because a schedule forgets the body with the
    /// delivery.
    pub async fn resend(
        self: &Arc<Self>,
        key: &Key,
        actor: Actor,
        reason: &str,
    ) -> Result<Snapshot, ServiceError> {
        if self.has_journal() {
            return self.change(key, Change::Resend, actor, reason).await;
        }
        let found = self.find(key).await?.ok_or(ServiceError::Missing)?;
        match Change::Resend.is_allowed(&found) {
            true => Err(ServiceError::NoJournal(
                "send a delivered notification again, because its body is not kept",
            )),
            false => Err(ServiceError::Refused {
                change: Change::Resend,
                snapshot: Box::new(found),
            }),
        }
    }

    /// Moves the first attempt of a scheduled notification's series, and the deadline with it. After this has
    /// succeeded, no attempt begins before the new instant unless one is requested by hand. That is ensured as
    /// for [`Service::cancel`]: the move is one more change that the worker finds in the journal.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if the ladder has made an attempt in this series, if one is or may be in
    /// flight, if it is set aside, or if it has ended.
    pub async fn reschedule(
        self: &Arc<Self>,
        key: &Key,
        start: Start,
        actor: Actor,
    ) -> Result<Snapshot, ServiceError> {
        self.change(key, Change::Reschedule(start), actor, "").await
    }

    /// Makes any change that a person asks for, and keeps the reason that they give.
    ///
    /// # Errors
    /// As the method of the change.
    pub async fn change_for_reason(
        self: &Arc<Self>,
        key: &Key,
        change: Change,
        actor: Actor,
        reason: &str,
    ) -> Result<Snapshot, ServiceError> {
        match change {
            Change::Resend => self.resend(key, actor, reason).await,
            Change::Cancel
            | Change::Discard
            | Change::Replay
            | Change::Retry
            | Change::Reschedule(_) => self.change(key, change, actor, reason).await,
        }
    }

    /// Discards a dead letter. It counts as cancelled.
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
        let asked = ChangeRequest {
            key: key.clone(),
            change,
            actor,
            reason: reason.to_string(),
        };
        let service = self.clone();
        let changing = tokio::spawn(async move { service.run_change(&asked).await });
        let mut changed = changing
            .await
            .unwrap_or_else(|error| resume_unwind(error.into_panic()));
        if let Ok(snapshot) = &mut changed {
            self.endpoints.fill_in_url(snapshot);
        }
        changed
    }

    /// Leases the notification and makes the change. Tries again if the state has changed meanwhile.
    async fn run_change(self: &Arc<Self>, asked: &ChangeRequest) -> Result<Snapshot, ServiceError> {
        let _lock = self.locks.lock(&asked.key).await?;
        let started = Instant::now();
        while started.elapsed() <= LONGEST_LEASE_WAIT {
            let tried = match self.lease(&asked.key, asked.change).await? {
                Leasing::Held(held, before) => {
                    let held = held.for_change(asked.change);
                    match (
                        self.check_endpoint(asked.change, &before).await,
                        &self.recorder,
                    ) {
                        (Err(refused), _) => {
                            self.release(held).await;
                            ChangeStep::answered(Err(refused))
                        }
                        (Ok(()), Some(recorder)) => {
                            self.change_in_journal(recorder, asked, held, *before).await
                        }
                        (Ok(()), None) => self.change_in_schedule(asked, held).await,
                    }
                }
                Leasing::InFlight => self.answer_in_flight(asked).await,
                Leasing::Refused(before) => self.refuse(asked, *before).await,
                Leasing::Missing => ChangeStep::answered(Err(ServiceError::Missing)),
            };
            match tried {
                ChangeStep::Answered(answer) => return *answer,
                ChangeStep::Again => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
        Err(ServiceError::Unsettled)
    }

    /// The answer if the recorded state does not allow the change.
    async fn refuse(&self, asked: &ChangeRequest, before: Snapshot) -> ChangeStep {
        match self.find(&asked.key).await {
            Ok(shown) => {
                let shown = shown.unwrap_or(before);
                match asked.change.is_allowed(&shown) {
                    true => ChangeStep::Again,
                    false => ChangeStep::answered(repeated(asked.change, shown)),
                }
            }
            Err(error) => ChangeStep::answered(Err(error)),
        }
    }

    /// The answer while an attempt is in flight. The attempt can no longer be stopped, and a retry needs no
    /// second one.
    async fn answer_in_flight(&self, asked: &ChangeRequest) -> ChangeStep {
        let found = match self.find(&asked.key).await {
            Ok(Some(found)) => found,
            Ok(None) => return ChangeStep::answered(Err(ServiceError::Missing)),
            Err(error) => return ChangeStep::answered(Err(error)),
        };
        let snapshot = Snapshot {
            in_flight: true,
            ..found
        };
        match asked.change {
            Change::Retry => ChangeStep::answered(Ok(snapshot)),
            // That attempt has ended the notification meanwhile, and its lease is being settled. If a higher number of its
            // order has ended it, the attempt may last.
            change
                if snapshot.state != State::Scheduled
                    && !snapshot.takes_late_delivery()
                    && change.is_allowed(&snapshot) =>
            {
                ChangeStep::Again
            }
            change @ (Change::Cancel
            | Change::Discard
            | Change::Replay
            | Change::Resend
            | Change::Reschedule(_)) => ChangeStep::answered(Err(ServiceError::Refused {
                change,
                snapshot: Box::new(snapshot),
            })),
        }
    }
}

/// The answer to a refused change: success for a cancellation or a discard if the notification is cancelled
/// already.
fn repeated(change: Change, snapshot: Snapshot) -> Result<Snapshot, ServiceError> {
    match (change, snapshot.state) {
        (Change::Cancel | Change::Discard, State::Cancelled) => Ok(snapshot),
        _ => Err(ServiceError::Refused {
            change,
            snapshot: Box::new(snapshot),
        }),
    }
}
