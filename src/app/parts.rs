//! The parts of a server, made as its settings say.

use super::stores::ServerStores;
use crate::api::{ApiSettings, MetricsRoute};
use crate::clock::{Clock, millis};
use crate::config::{RetentionConfig, ServeConfig};
use crate::delivery::address_filter::AddressFilter;
use crate::delivery::dispatcher::Dispatcher;
use crate::delivery::http_client::{HttpClient, HttpClientSettings};
use crate::endpoints::Endpoints;
use crate::journal::recorder::Recorder;
use crate::maintenance::Maintenance;
use crate::maintenance::prune::Retention;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Tracer;
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;

/// The bodies that attempts read may take `schedule-memory` divided by this. This memory is not part of
/// `schedule-memory`, because the bodies are being sent and do not wait in the schedule.
const BODY_MEMORY_DIVISOR: usize = 4;
/// Maximum number of requests handled at once.
const MOST_REQUESTS: usize = 1_024;

/// Inspects the schedule for lost data and prepares maintenance. An error names the schedule.
pub(super) async fn begin_maintenance(
    config: &ServeConfig,
    stores: &ServerStores,
    metrics: Arc<Metrics>,
) -> anyhow::Result<Maintenance> {
    let (journal, schedule) = (stores.journal.clone(), stores.schedule.clone());
    Maintenance::begin(journal, schedule, retention(config), metrics)
        .await
        .with_context(|| match &config.schedule.redis {
            Some(redis) => format!("--redis {redis}"),
            None => "the schedule in memory".to_string(),
        })
}

fn retention(config: &ServeConfig) -> Retention {
    let RetentionConfig {
        payloads,
        records,
        dead,
    } = config.retention;
    let ms = |kept: Option<Duration>| kept.map(millis);
    Retention {
        payloads_ms: ms(payloads),
        records_ms: ms(records),
        dead_ms: ms(dead),
    }
}

pub(super) fn dispatcher(
    config: &ServeConfig,
    stores: &ServerStores,
    recorder: Option<Arc<Recorder>>,
    (client, endpoints, clock, metrics): (
        Arc<HttpClient>,
        Arc<Endpoints>,
        Arc<dyn Clock>,
        Arc<Metrics>,
    ),
) -> Dispatcher {
    Dispatcher::new(
        client,
        stores.schedule.clone(),
        recorder,
        clock,
        config.delivery.concurrency,
        stores.health.clone(),
        metrics,
    )
    .with_endpoints(endpoints)
    .with_body_memory(config.schedule.memory_bytes / BODY_MEMORY_DIVISOR)
}

pub(super) fn http_client(config: &ServeConfig) -> HttpClient {
    if let Some(proxy) = &config.delivery.proxy {
        tracing::info!(%proxy, "all calls to receivers go through a proxy");
    }
    HttpClient::new(HttpClientSettings {
        filter: AddressFilter {
            allowed: config.delivery.allow_destinations.clone(),
            allow_http: config.delivery.allow_http,
        },
        timeout: config.delivery.timeout,
        user_agent: config.delivery.user_agent.clone(),
        proxy: config.delivery.proxy.clone(),
    })
}

pub(super) fn api_settings(config: &ServeConfig, tracer: Tracer) -> ApiSettings {
    ApiSettings {
        largest_body_bytes: config.api.largest_body_bytes,
        most_requests: MOST_REQUESTS,
        longest_timeout: config.delivery.timeout,
        metrics: match config.api.metrics_listen {
            None => MetricsRoute::Here(config.api.metrics_key.clone()),
            Some(_) => MetricsRoute::Elsewhere,
        },
        tracer,
        ..ApiSettings::default()
    }
}
