//! Reading what a notification sends.

use super::timeouts::{with_long_timeout, with_timeout};
use super::{Service, ServiceError};
use crate::domain::ack::AckRule;
use crate::domain::body::Body;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::{Actor, BodyReading, JournalError, Payload, PayloadContent, PersonAct};
use bytes::Bytes;

/// The headers and the body of a notification, as they were registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPayload {
    /// The content type of the body.
    pub content_type: String,
    /// The headers that the caller added.
    pub headers: Headers,
    /// The body.
    pub body: Bytes,
}

impl Service {
    /// What a notification sends. The audit log keeps who has read it, and why, if they say so.
    ///
    /// # Errors
    /// [`ServiceError::Missing`]; [`ServiceError::PayloadGone`] if it is not kept any more; if the store that keeps it
    /// fails; as [`Service::keep_act`].
    pub async fn payload(
        &self,
        key: &Key,
        actor: &Actor,
        reason: &str,
    ) -> Result<SentPayload, ServiceError> {
        let Payload {
            content_type,
            content,
            ..
        } = (self.kept_payload(key).await?).ok_or(ServiceError::Missing)?;
        let PayloadContent { headers, body } = content.ok_or(ServiceError::PayloadGone)?;
        // A body that is not here would be in a journal, and was read.
        let body = body.here().cloned().ok_or(ServiceError::PayloadGone)?;
        let act = PersonAct::reading_payload(key, actor, self.clock.now_ms());
        let reason = reason.to_string();
        self.keep_act(&PersonAct { reason, ..act }).await?;
        Ok(SentPayload {
            content_type,
            headers,
            body,
        })
    }

    /// What a notification sends, as far as it is kept.
    pub(super) async fn kept_payload(&self, key: &Key) -> Result<Option<Payload>, ServiceError> {
        match self.journal() {
            Some(journal) => Ok(with_long_timeout(journal.payload(key, BodyReading::Read)).await?),
            None => self.payload_in_schedule(key).await,
        }
    }

    /// What a notification sends, with the length of the body instead of the body, to be shown beside the notification. Its
    /// ack rule is that of the endpoint if it has none of its own. `None` if the store cannot read it: the notification is
    /// shown nevertheless.
    ///
    /// # Errors
    /// If the store that keeps it fails.
    pub async fn payload_outline(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Option<Payload>, ServiceError> {
        let key = &snapshot.key;
        let payload = match self.journal() {
            Some(journal) => {
                match with_timeout(journal.payload(key, BodyReading::LengthOnly)).await {
                    Ok(payload) => payload,
                    Err(JournalError::Corrupt(reason)) => {
                        tracing::warn!(
                            notification = %key,
                            reason,
                            "what a notification sends cannot be read in the journal, so it is shown without it"
                        );
                        None
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            None => self.payload_in_schedule(key).await?,
        };
        Ok(payload.map(|payload| Payload {
            ack: payload.ack.or_else(|| self.ack_of_endpoint(snapshot)),
            ..payload
        }))
    }

    /// The ack rule of the endpoint that a notification names, at this moment. `None` if there is no such endpoint.
    fn ack_of_endpoint(&self, snapshot: &Snapshot) -> Option<AckRule> {
        let name = snapshot.lane.endpoint()?;
        let endpoint = self.endpoints.known_for(&name, snapshot.registered_ms)?;
        let is_meant = endpoint.is_meant_by(snapshot.registered_ms);
        let own = endpoint.settings.ack.clone();
        is_meant.then(|| own.unwrap_or_else(AckRule::standard))
    }

    /// Without a journal, the schedule keeps the bodies of what is pending or dead.
    async fn payload_in_schedule(&self, key: &Key) -> Result<Option<Payload>, ServiceError> {
        let Some(found) = with_timeout(self.schedule.find(key)).await? else {
            return Ok(None);
        };
        let notification = found.entry.notification;
        let is_kept = match found.entry.state {
            State::Scheduled | State::Dead => true,
            State::Delivered | State::Cancelled => false,
        };
        let content = is_kept.then(|| PayloadContent {
            headers: notification.headers.clone(),
            body: Body::clone(&notification.body),
        });
        Ok(Some(Payload {
            ack: notification.ack.clone(),
            content_type: notification.content_type.clone(),
            content,
        }))
    }
}
