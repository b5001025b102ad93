//! Registering notifications.

use super::timeouts::with_timeout;
use super::{LONGEST_REBUILD_WAIT, Service, ServiceError, snapshot_of};
use crate::domain::notification::{Fingerprint, Registration};
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::domain::webhook_id::WebhookId;
use crate::journal::{Actor, RegisterResult, Registering};
use crate::schedule::{Entry, Registered, ScheduleError};
use std::sync::Arc;
use uuid::Uuid;

/// The result of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegisterReply {
    /// It is new. It will be delivered, parked or cancelled.
    Created(Snapshot),
    /// The same was registered before, and was not cancelled; its state now.
    Existing(Snapshot),
}

impl Service {
    /// Registers a notification. After this has answered, it will not be lost.
    ///
    /// # Errors
    /// [`ServiceError::Mismatch`] if the key was registered with other content; [`ServiceError::Cancelled`] if
    /// it was registered with the same content and the notification was cancelled; [`ServiceError::Full`] if
    /// too much is pending, and then nothing of it was written down. If a store fails, the caller may and
    /// should repeat the same registration: that makes one notification.
    pub async fn register(
        &self,
        registration: Registration,
        actor: Actor,
    ) -> Result<RegisterReply, ServiceError> {
        let endpoint = match registration.target.endpoint() {
            None => None,
            Some(name) => match self.endpoint_to_use(name).await? {
                Some(endpoint) => Some(endpoint),
                // The same registration may have been accepted before the endpoint was removed.
                None => {
                    let unknown = ServiceError::UnknownEndpoint(name.clone());
                    let known = self.recorded(&registration.key).await?.ok_or(unknown)?;
                    return self.answer_known(known, registration.fingerprint()).await;
                }
            },
        };
        let settings = endpoint.as_deref().map(|endpoint| &endpoint.settings);
        let webhook_id = WebhookId::new(Uuid::now_v7());
        let now_ms = self.clock.now_ms();
        let (notification, progress) = registration.accept(webhook_id, now_ms, settings);
        let notification = Arc::new(notification);
        let _lock = self.locks.lock(&notification.key).await?;
        let mut fresh = Snapshot::of_new(&notification, progress);
        self.endpoints.fill_in_url(&mut fresh);
        let entry = Entry::scheduled(notification.clone(), progress);
        // Kept until the entry is in the schedule.
        let reserved = self.schedule.reserve_memory(&notification);
        let known = match (&self.recorder, reserved) {
            // A notification that is registered already takes no more memory.
            (_, Err(full)) => self.recorded(&notification.key).await?.ok_or(full)?,
            (Some(recorder), Ok(_reserved)) => {
                let registering = Registering {
                    notification,
                    progress,
                    actor,
                };
                match with_timeout(recorder.register(registering)).await? {
                    RegisterResult::Created => {
                        // Dying here leaves it in the journal alone. The caller got no answer, and a repeated
                        // registration or the reconciler puts it into the schedule.
                        self.schedule_new(entry).await?;
                        return Ok(RegisterReply::Created(fresh));
                    }
                    RegisterResult::Existing(snapshot) => *snapshot,
                }
            }
            (None, Ok(_reserved)) => match self.schedule_new(entry).await? {
                Registered::Created => return Ok(RegisterReply::Created(fresh)),
                Registered::Existing(found) => snapshot_of(*found),
            },
        };
        self.answer_known(known, fresh.fingerprint).await
    }

    /// The answer to a registration whose key is registered already.
    async fn answer_known(
        &self,
        mut known: Snapshot,
        fingerprint: Fingerprint,
    ) -> Result<RegisterReply, ServiceError> {
        if known.fingerprint != fingerprint {
            return Err(ServiceError::Mismatch(Box::new(known)));
        }
        if known.state == State::Cancelled {
            return Err(ServiceError::Cancelled(Box::new(known)));
        }
        if let (Some(journal), State::Scheduled) = (self.journal(), known.state) {
            known.in_flight = self.ensure_scheduled(journal, &known).await?;
        }
        self.endpoints.fill_in_url(&mut known);
        Ok(RegisterReply::Existing(known))
    }

    /// Puts a new entry into the schedule. A schedule that has lost its data accepts entries again as soon as
    /// this server has inspected it. So this function waits for that for a short time.
    async fn schedule_new(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        match (
            with_timeout(self.schedule.register(entry.clone())).await,
            self.schedule.recoverable(),
        ) {
            (Err(ScheduleError::Rebuilding), Some(recoverable)) => {
                // Whether the wait succeeded does not matter: the next call says whether it accepts entries.
                let _ = tokio::time::timeout(LONGEST_REBUILD_WAIT, recoverable.wait_until_usable())
                    .await;
                let late = Entry {
                    verify: true,
                    ..entry
                };
                with_timeout(self.schedule.register(late)).await
            }
            (registered, _) => registered,
        }
    }
}
