//! Endpoints that were removed and made again under their names: what was registered for the old one is never sent to the
//! new one, which may belong to somebody else.

use super::timeouts::with_timeout;
use super::{Service, ServiceError};
use crate::domain::change::Change;
use crate::domain::endpoint::Endpoint;
use crate::domain::lane::Lane;
use crate::domain::snapshot::Snapshot;
use std::collections::HashMap;
use std::sync::Arc;

impl Service {
    /// What has ended is not sent again to an endpoint that was made under the name of its own. The worker looks at the
    /// endpoint once more before it sends.
    pub(super) async fn check_endpoint(
        &self,
        change: Change,
        before: &Snapshot,
    ) -> Result<(), ServiceError> {
        match change.needs_payload() && self.is_endpoint_made_again(before).await? {
            true => Err(ServiceError::EndpointMadeAgain(Box::new(before.clone()))),
            false => Ok(()),
        }
    }

    /// Whether the endpoint that a notification names was removed and made again since the notification was registered, so
    /// that the notification can never be sent again.
    ///
    /// # Errors
    /// If the store of the endpoints fails.
    pub async fn is_endpoint_made_again(&self, found: &Snapshot) -> Result<bool, ServiceError> {
        Ok(is_of_another(
            found,
            self.endpoint_of(&found.lane).await?.as_deref(),
        ))
    }

    /// [`Service::is_endpoint_made_again`] of each of these. Each endpoint is looked up once.
    ///
    /// # Errors
    /// If the store of the endpoints fails.
    pub async fn are_endpoints_made_again(
        &self,
        found: &[Snapshot],
    ) -> Result<Vec<bool>, ServiceError> {
        let mut endpoints: HashMap<&Lane, Option<Arc<Endpoint>>> = HashMap::new();
        for one in found {
            if !endpoints.contains_key(&one.lane) {
                endpoints.insert(&one.lane, self.endpoint_of(&one.lane).await?);
            }
        }
        let flags = found.iter().map(|one| {
            let endpoint = endpoints.get(&one.lane).and_then(Option::as_deref);
            is_of_another(one, endpoint)
        });
        Ok(flags.collect())
    }

    /// The endpoint whose lane this is, also if it was removed.
    async fn endpoint_of(&self, lane: &Lane) -> Result<Option<Arc<Endpoint>>, ServiceError> {
        let Some(name) = lane.endpoint() else {
            return Ok(None);
        };
        Ok(with_timeout(self.endpoints.of_pending(&name, self.clock.now_ms())).await?)
    }
}

fn is_of_another(found: &Snapshot, endpoint: Option<&Endpoint>) -> bool {
    endpoint.is_some_and(|endpoint| !endpoint.is_meant_by(found.registered_ms))
}
