//! Test calls to endpoints.

use super::endpoints::NO_ENDPOINTS;
use super::{Service, ServiceError};
use crate::domain::act::{Act, ActSubject};
use crate::domain::attempt::Attempt;
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::journal::{Actor, PersonAct};
use async_trait::async_trait;
use std::sync::Arc;

/// Makes test calls.
#[async_trait]
pub trait TestCaller: Send + Sync {
    /// Makes one signed call to an endpoint, and keeps nothing of it.
    async fn call(&self, endpoint: Arc<Endpoint>) -> Attempt;
}

impl Service {
    /// Makes one signed call to an endpoint, which is not kept. The audit log keeps who asked for it.
    ///
    /// # Errors
    /// As [`Service::stored_endpoint`] and [`Service::keep_act`], and [`ServiceError::TooManyTestCalls`]. A call that fails
    /// is no error.
    pub async fn test_endpoint(
        &self,
        name: &EndpointName,
        actor: &Actor,
    ) -> Result<Attempt, ServiceError> {
        let endpoint = self.stored_endpoint(name).await?;
        let caller = self.test_caller.as_ref().ok_or(NO_ENDPOINTS)?;
        let permit = self.test_calls.try_acquire();
        let _permit = permit.map_err(|_| ServiceError::TooManyTestCalls)?;
        let subject = ActSubject::Endpoint(name.clone());
        let act = PersonAct::of(Act::TestEndpoint, subject, actor, self.clock.now_ms());
        self.keep_act(&act).await?;
        tracing::info!(endpoint = %name, actor = %actor.name(), "a test call to an endpoint was asked for");
        Ok(caller.call(Arc::new(endpoint)).await)
    }
}
