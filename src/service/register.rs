//! Taking notifications in.

use super::timeouts::with_timeout;
use super::{LONGEST_WAIT, Service, ServiceError, snapshot_of};
use crate::domain::notification::Registration;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::domain::webhook_id::WebhookId;
use crate::journal::{Actor, RegisterResult, Registering};
use crate::schedule::{Entry, Registered, ScheduleError};
use std::sync::Arc;
use uuid::Uuid;

/// What a registration came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegisterReply {
    /// It is new, and will be delivered, parked or cancelled.
    Created(Snapshot),
    /// The same was registered before; this is how it stands.
    Existing(Snapshot),
}

impl Service {
    /// Registers a notification. Once this has answered, it will not be lost.
    ///
    /// # Errors
    /// [`ServiceError::Mismatch`] if the key is taken by other content; [`ServiceError::Full`] if too
    /// much is pending, and then nothing of it was written down. If a store fails, the same
    /// registration may and should be sent again: it leads to one notification.
    pub async fn register(
        &self,
        registration: Registration,
        actor: Actor,
    ) -> Result<RegisterReply, ServiceError> {
        let webhook_id = WebhookId::new(Uuid::now_v7());
        let (notification, progress) = registration.accept(webhook_id, self.clock.now_ms());
        let notification = Arc::new(notification);
        let _lock = self.locks.lock(&notification.key).await?;
        let fresh = Snapshot::of_new(&notification, progress);
        let entry = Entry::scheduled(notification.clone(), progress);
        // Kept until it is in the schedule.
        let reserved = self.schedule.reserve_memory(&notification);
        let mut known = match (&self.recorder, reserved) {
            // What is known already takes no more.
            (_, Err(full)) => self.recorded(&notification.key).await?.ok_or(full)?,
            (Some(recorder), Ok(_reserved)) => {
                let registering = Registering {
                    notification,
                    progress,
                    actor,
                };
                match with_timeout(recorder.register(registering)).await? {
                    RegisterResult::Created => {
                        // Dying here leaves it in the journal alone; nobody was answered yet, and
                        // registering again or the reconciler puts it there.
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
        if known.fingerprint != fresh.fingerprint {
            return Err(ServiceError::Mismatch(Box::new(known)));
        }
        if let (Some(journal), State::Scheduled) = (self.journal(), known.state) {
            known.in_flight = self.ensure_scheduled(journal, &known).await?;
        }
        Ok(RegisterReply::Existing(known))
    }

    /// Puts a new entry into the schedule. One that has lost what it held takes entries again as soon
    /// as its rebuild has begun, which is worth a moment's wait.
    async fn schedule_new(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        match (
            with_timeout(self.schedule.register(entry.clone())).await,
            self.schedule.recoverable(),
        ) {
            (Err(ScheduleError::Rebuilding), Some(recoverable)) => {
                // What comes of waiting, registering again will tell.
                let _ = tokio::time::timeout(LONGEST_WAIT, recoverable.wait_until_usable()).await;
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
