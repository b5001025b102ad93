//! The listener that serves the metrics alone, if the settings name one.
//!
//! It may be reachable from other machines without a key, unlike the API: metrics are numbers, and the API's own listener
//! serves them without a key too.

use super::tasks::Tasks;
use crate::api::metrics::metrics_router;
use crate::api::notifications::unknown_route;
use crate::api::server;
use crate::config::ServeConfig;
use crate::service::Service;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A listener that accepts connections, which are not served yet.
pub(super) struct MetricsListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsListener {
    /// Opens the listener. `None` if the settings name no address for it.
    ///
    /// # Errors
    /// If the address is taken, or not of this machine.
    pub(super) async fn open(config: &ServeConfig) -> anyhow::Result<Option<Self>> {
        let Some(address) = config.api.metrics_listen else {
            return Ok(None);
        };
        let problem = || format!("cannot listen on {address} for metrics");
        let listener = TcpListener::bind(address).await.with_context(problem)?;
        let address = listener.local_addr().with_context(problem)?;
        Ok(Some(Self { listener, address }))
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the metrics.
    pub(super) fn run(self, service: Arc<Service>, config: &ServeConfig, tasks: &mut Tasks) {
        let key = config.api.metrics_key.as_ref();
        tracing::info!(
            address = %self.address,
            needs_metrics_key = key.is_some(),
            "the metrics are served by a listener of their own"
        );
        let router = metrics_router(service, key).fallback(unknown_route);
        let serving = server::serve(self.listener, router, tasks.stop_token());
        tasks.run_required("metrics", serving);
    }
}
