//! Registering alerts: notifications of the server itself, under a topic that callers cannot use.

use super::{RegisterReply, Service, ServiceError};
use crate::domain::alert::PreparedAlert;
use crate::domain::endpoint::EndpointName;
use crate::journal::Actor;

impl Service {
    /// Registers an alert for an endpoint. Returns whether it is new. One with the same id is the same alert, whatever it
    /// says: another server has found the same episode, with other figures. It can be repeated.
    ///
    /// # Errors
    /// [`ServiceError::UnknownEndpoint`]; as [`Service::register`].
    pub async fn register_alert(
        &self,
        alert: &PreparedAlert,
        name: &EndpointName,
    ) -> Result<bool, ServiceError> {
        let endpoint = self.endpoint_to_use(name, self.clock.now_ms()).await?;
        let endpoint = endpoint.ok_or_else(|| ServiceError::UnknownEndpoint(name.clone()))?;
        let registration = alert.registration(&endpoint);
        match self.register(registration, Actor::maintenance()).await {
            Ok(RegisterReply::Created(_)) => Ok(true),
            Ok(RegisterReply::Existing(_))
            | Err(ServiceError::Mismatch { .. } | ServiceError::Cancelled(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
