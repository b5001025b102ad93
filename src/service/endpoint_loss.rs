//! What became of the endpoint that a notification names, if that is not the present one of its name.
//!
//! It is looked up for one notification, and not for lists.

use super::Service;
use super::timeouts::with_timeout;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;

/// Why the endpoint that a notification names is not the present one of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointLoss {
    /// It was removed. Its last settings are used.
    Removed,
    /// It was removed, and another one was made under its name, perhaps for somebody else.
    MadeAgain,
    /// The store has no record of it.
    Unrecorded,
}

impl EndpointLoss {
    /// What became of the endpoint, and what that means for a notification in this state.
    #[must_use]
    pub fn in_words(self, state: State) -> &'static str {
        match (self, state) {
            (Self::Removed, State::Scheduled) => {
                "its endpoint was removed; its attempts use the last settings of that endpoint"
            }
            (Self::Removed, State::Dead) => {
                "its endpoint was removed; a replay uses the last settings of that endpoint, and is refused if another one \
                 was made under its name by then"
            }
            (Self::Removed, State::Delivered) => {
                "its endpoint was removed; a resend uses the last settings of that endpoint, and is refused if another one \
                 was made under its name by then"
            }
            (Self::Removed, State::Cancelled) => "its endpoint was removed",
            (Self::MadeAgain, State::Scheduled) => {
                "its endpoint was removed, and another one was made under its name, perhaps for somebody else: it is not \
                 sent there, and ends as a dead letter; to have it sent there, register it under another id"
            }
            (Self::MadeAgain, State::Delivered | State::Dead | State::Cancelled) => {
                "its endpoint was removed, and another one was made under its name, perhaps for somebody else: it is never \
                 sent there; to have it sent there, register it under another id"
            }
            (Self::Unrecorded, State::Scheduled) => {
                "there is no record of its endpoint: it waits until the endpoint is set again"
            }
            (Self::Unrecorded, State::Delivered | State::Dead) => {
                "there is no record of its endpoint: if it is sent again, it waits until the endpoint is set again"
            }
            (Self::Unrecorded, State::Cancelled) => "there is no record of its endpoint",
        }
    }
}

impl Service {
    /// What became of the endpoint that a notification names. `None` if that is the present one of its name, if it names none,
    /// or if the store does not say: the notification can be shown without this.
    pub async fn endpoint_loss(&self, found: &Snapshot) -> Option<EndpointLoss> {
        let name = found.lane.endpoint()?;
        let registered_ms = found.registered_ms;
        if let Some(known) = self.endpoints.known_for(&name, self.clock.now_ms()) {
            return (!known.is_meant_by(registered_ms)).then_some(EndpointLoss::MadeAgain);
        }
        let store = self.endpoints.store()?;
        match with_timeout(store.find(&name)).await {
            Ok(Some(stored)) if !stored.endpoint.is_meant_by(registered_ms) => {
                Some(EndpointLoss::MadeAgain)
            }
            Ok(Some(stored)) => stored.is_removed.then_some(EndpointLoss::Removed),
            Ok(None) => Some(EndpointLoss::Unrecorded),
            Err(error) => {
                tracing::debug!(endpoint = %name, %error, "the store could not say what became of an endpoint");
                None
            }
        }
    }
}
