//! Removing an endpoint that no pending notification names.

use super::timeouts::{with_long_timeout, with_timeout};
use super::{Service, ServiceError};
use crate::domain::endpoint::EndpointName;
use crate::domain::lane::Lane;
use crate::domain::state::State;
use crate::endpoints::store::{EndpointRemoved, EndpointStore};
use crate::journal::{Actor, Filter, Journal, JournalError, Order, RemovingEndpoint};

impl Service {
    /// Removes an endpoint that no pending notification names.
    ///
    /// A registration that is being made in the same moment may still name it. Its attempts then use the last
    /// settings, which the store keeps.
    ///
    /// # Errors
    /// [`ServiceError::EndpointInUse`], [`ServiceError::MissingEndpoint`]; as [`Service::set_endpoint`].
    pub async fn remove_endpoint(
        &self,
        name: &EndpointName,
        actor: Actor,
    ) -> Result<(), ServiceError> {
        let store = self.endpoint_store()?;
        let _change = self.change_of_endpoints().await?;
        self.stored_endpoint(name).await?;
        // Without a journal, the schedule finds that out when it removes the endpoint.
        if let EndpointStore::Journal(journal) = store
            && with_long_timeout(is_in_use(journal.as_ref(), name)).await?
        {
            return Err(ServiceError::EndpointInUse);
        }
        let removing = RemovingEndpoint {
            name: name.clone(),
            actor: actor.clone(),
            at_ms: self.clock.now_ms(),
        };
        let removed = with_timeout(store.remove(&removing)).await?;
        if removed == EndpointRemoved::InUse {
            return Err(ServiceError::EndpointInUse);
        }
        self.endpoints.forget(name);
        self.bring_limits(store, name).await;
        if removed == EndpointRemoved::Missing {
            return Err(ServiceError::MissingEndpoint);
        }
        tracing::info!(endpoint = %name, actor = %actor.name(), "an endpoint was removed");
        Ok(())
    }
}

/// Whether a pending notification names the endpoint.
async fn is_in_use(journal: &dyn Journal, name: &EndpointName) -> Result<bool, JournalError> {
    let filter = Filter {
        lane: Some(Lane::of_endpoint(name).as_str().to_string()),
        state: Some(State::Scheduled),
        ..Filter::default()
    };
    let mut cursor = None;
    loop {
        // A page can be empty although there are more.
        let page = journal.list(&filter, Order::Registered, cursor, 1).await?;
        if !page.items.is_empty() {
            return Ok(true);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(false);
        }
    }
}
