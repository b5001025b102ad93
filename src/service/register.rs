//! Registering notifications.

use super::difference::{AskedStart, differing_fields};
use super::held::HeldLease;
use super::timeouts::with_timeout;
use super::{LONGEST_REBUILD_WAIT, Service, ServiceError, snapshot_of};
use crate::domain::later::is_far;
use crate::domain::notification::{Notification, Registration};
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};
use crate::domain::webhook_id::WebhookId;
use crate::journal::{Actor, RegisterResult, Registering};
use crate::schedule::memory_budget::MemoryReservation;
use crate::schedule::{Entry, LeaseRequest, Registered, ScheduleError, Settlement};
use std::sync::Arc;
use uuid::{Timestamp, Uuid};

/// Maximum number of notifications that a registration removes from the schedule.
const MOST_REMOVED: usize = 64;

/// The result of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegisterReply {
    /// It is new. It will be delivered, parked or cancelled.
    Created(Snapshot),
    /// The same was registered before, and nobody has cancelled it; its state now.
    Existing(Snapshot),
}

impl Service {
    /// Registers a notification. After this has answered, it will not be lost.
    ///
    /// # Errors
    /// [`ServiceError::OutOfOrder`] if the order of notifications does not allow it; [`ServiceError::NoJournal`] if it has
    /// an order and there is no journal; [`ServiceError::Mismatch`] if the key was registered with other content; [`ServiceError::Cancelled`] if
    /// it was registered with the same content and the notification was cancelled; [`ServiceError::Full`] if
    /// too much is pending, and then nothing of it was written down. If a store fails, the caller may and
    /// should repeat the same registration: that makes one notification.
    pub async fn register(
        &self,
        registration: Registration,
        actor: Actor,
    ) -> Result<RegisterReply, ServiceError> {
        let asked = AskedStart::of(&registration);
        if registration.order.is_some() && !self.has_journal() {
            return Err(ServiceError::NoJournal("keep an order of notifications"));
        }
        // Before the endpoint is looked up: it may be removed and made again since, and then this means the one that was found.
        let now_ms = self.clock.now_ms();
        let endpoint = match registration.target.endpoint() {
            None => None,
            Some(name) => match self.endpoint_to_use(name, now_ms).await? {
                Some(endpoint) => Some(endpoint),
                // The same registration may have been accepted before the endpoint was removed.
                None => {
                    let unknown = ServiceError::UnknownEndpoint(name.clone());
                    let known = Box::pin(self.recorded(&registration.key)).await?;
                    let known = known.ok_or(unknown)?;
                    let (notification, _) = registration.accept(known.webhook_id, 0, None);
                    return Box::pin(self.answer_known(known, &notification, asked)).await;
                }
            },
        };
        let settings = endpoint.as_deref().map(|endpoint| &endpoint.settings);
        let webhook_id = new_webhook_id(now_ms);
        let (notification, progress) = registration.accept(webhook_id, now_ms, settings);
        let notification = Arc::new(notification);
        let _lock = self.locks.lock(&notification.key).await?;
        let mut fresh = Snapshot::of_new(&notification, progress);
        self.endpoints.fill_in_url(&mut fresh);
        let is_far = is_far(notification.registered_ms, progress.first_due_ms);
        let entry = Entry {
            // A change by hand does not wait for it then.
            verify: is_far && self.has_journal(),
            ..Entry::scheduled(notification.clone(), progress)
        };
        // Kept until the entry is in the schedule. What waits in the journal takes no memory.
        let reserved = match self.is_in_window(&progress) {
            true => self.schedule.reserve_memory(&notification),
            false => Ok(MemoryReservation::unlimited()),
        };
        let known = match (&self.recorder, reserved) {
            // A notification that is registered already takes no more memory.
            (_, Err(full)) => Box::pin(self.recorded(&notification.key))
                .await?
                .ok_or(full)?,
            (Some(recorder), Ok(_reserved)) => {
                let registering = Registering {
                    notification: notification.clone(),
                    progress,
                    actor,
                };
                match Box::pin(with_timeout(recorder.register(registering))).await? {
                    RegisterResult::Created => {
                        // Dying here leaves it in the journal alone. The caller got no answer, and a repeated
                        // registration or the reconciler puts it into the schedule.
                        self.schedule_recorded(entry).await?;
                        return Ok(RegisterReply::Created(fresh));
                    }
                    RegisterResult::CreatedOver(ended) => {
                        self.schedule_recorded(entry).await?;
                        Box::pin(self.remove_ended(&ended)).await;
                        return Ok(RegisterReply::Created(fresh));
                    }
                    RegisterResult::Superseded(snapshot) => {
                        let Snapshot {
                            progress,
                            state,
                            cause,
                            ended_ms,
                            ..
                        } = *snapshot;
                        let ended = Snapshot {
                            progress,
                            state,
                            cause,
                            ended_ms,
                            ..fresh
                        };
                        return Ok(RegisterReply::Created(ended));
                    }
                    RegisterResult::OutOfOrder { conflict, other } => {
                        return Err(ServiceError::OutOfOrder { conflict, other });
                    }
                    RegisterResult::Existing(snapshot) => *snapshot,
                }
            }
            (None, Ok(_reserved)) => match self.schedule_new(entry).await? {
                Registered::Created => return Ok(RegisterReply::Created(fresh)),
                Registered::Existing(found) => snapshot_of(*found),
            },
        };
        Box::pin(self.answer_known(known, &notification, asked)).await
    }

    /// Which part of the schedule a registration is put into now ([`crate::schedule::ScheduleMaintenance::part_of`]); `None` if
    /// it waits in the journal until later.
    #[must_use]
    pub fn part_for(&self, registration: &Registration) -> Option<usize> {
        let now_ms = self.clock.now_ms();
        let first_due_ms = registration.start.first_due_ms(now_ms);
        let window = self.schedule.limits().window;
        let part = || self.schedule.part_of(&registration.target.lane());
        window.includes(first_due_ms, now_ms).then(part)
    }

    /// Whether this part of the schedule is known not to answer, while others do.
    #[must_use]
    pub fn is_out_of_reach(&self, part: usize) -> bool {
        self.schedule.out_of_reach().contains(&part)
    }

    /// The answer to a registration whose key is registered already.
    async fn answer_known(
        &self,
        mut known: Snapshot,
        asked: &Notification,
        asked_start: AskedStart,
    ) -> Result<RegisterReply, ServiceError> {
        if known.fingerprint != asked.fingerprint {
            // If it cannot be read, the fields that it has are not compared. The answer is the same. Few are read at once:
            // a caller with a mistake may send thousands of these, and the readers of the journal have other work.
            let payload = match self.comparisons.try_acquire() {
                Ok(_permit) => Box::pin(self.kept_payload(&known.key)).await.ok().flatten(),
                Err(_) => None,
            };
            let differing = differing_fields(asked, asked_start, &known, payload.as_ref());
            return Err(ServiceError::Mismatch {
                snapshot: Box::new(known),
                differing,
            });
        }
        // One that a higher number has ended was answered as registered, so its repetition is too.
        if known.state == State::Cancelled && known.cause != Some(Cause::Superseded) {
            return Err(ServiceError::Cancelled(Box::new(known)));
        }
        if let (Some(journal), State::Scheduled) = (self.journal(), known.state) {
            known.in_flight = self.ensure_scheduled(journal, &known).await?;
        }
        self.endpoints.fill_in_url(&mut known);
        Ok(RegisterReply::Existing(known))
    }

    /// Removes notifications from the schedule that a higher number of their order has ended. What is left there, because
    /// it is in flight or the schedule fails, is removed by its worker or by maintenance: the journal is asked before an
    /// attempt of a notification with an order. The caller waits for this, so a schedule that is away is asked once.
    async fn remove_ended(&self, ended: &[Snapshot]) {
        for snapshot in ended.iter().take(MOST_REMOVED) {
            if let Err(error) = self.remove_one_ended(snapshot).await {
                tracing::debug!(
                    notification = %snapshot.key,
                    %error,
                    "a notification that a higher number of its order has ended could not be removed from the schedule"
                );
                if error.may_pass() {
                    return;
                }
            }
        }
    }

    async fn remove_one_ended(&self, snapshot: &Snapshot) -> Result<(), ServiceError> {
        let request = LeaseRequest::for_repair(snapshot.key_in_lane());
        let leasing = with_timeout(self.schedule.lease_one(&request)).await?;
        match HeldLease::of(leasing) {
            Some(HeldLease::Entry(lease)) => {
                if let Some(recorder) = &self.recorder
                    && let Err(error) = self.record_interruption(recorder, &lease, snapshot).await
                {
                    self.release(HeldLease::Entry(lease)).await;
                    return Err(error);
                }
                let settlement = Settlement::to_journal(snapshot, self.clock.now_ms());
                with_timeout(self.schedule.settle(*lease, settlement)).await?;
            }
            // The schedule has lost its content.
            Some(held) => self.forget(held).await?,
            None => {}
        }
        Ok(())
    }

    /// Puts the entry of a notification into the schedule that the journal has just registered as new. If the schedule has
    /// an entry of an earlier registration, the journal was set back to an older copy and has lost that one: its entry is
    /// replaced. While that is in flight it is left alone: its worker forgets it, because the journal has another one.
    async fn schedule_recorded(&self, entry: Entry) -> Result<(), ServiceError> {
        let Registered::Existing(found) = self.schedule_new(entry.clone()).await? else {
            return Ok(());
        };
        if found.entry.notification.webhook_id == entry.notification.webhook_id {
            // Another server found it in the journal and was faster.
            return Ok(());
        }
        let request = LeaseRequest::for_repair(entry.notification.key_in_lane());
        let leasing = with_timeout(self.schedule.lease_one(&request)).await?;
        if let Some(held) = HeldLease::of(leasing) {
            self.forget(held).await?;
            // Dying here leaves it in the journal alone, as above.
            self.schedule_new(entry).await?;
        }
        Ok(())
    }

    /// Puts a new entry into the schedule, unless it is due so late that it waits in the journal. So the schedule is not
    /// asked for such an entry, and may be out of reach. A schedule that has lost its data accepts entries again as soon as
    /// this server has inspected it. So this function waits for that for a short time.
    async fn schedule_new(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        if !self.is_in_window(&entry.progress) {
            return Ok(Registered::Created);
        }
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

/// A new webhook id. It contains the instant of registration, by which a search for the id finds the notification.
fn new_webhook_id(now_ms: i64) -> WebhookId {
    let at_ms = u64::try_from(now_ms).unwrap_or(0);
    let nanos = u32::try_from(at_ms % 1_000).unwrap_or(0) * 1_000_000;
    let instant = Timestamp::from_unix_time(at_ms / 1_000, nanos, 0, 0);
    WebhookId::new(Uuid::new_v7(instant))
}
