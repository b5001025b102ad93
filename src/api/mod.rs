//! The HTTP API: for the services that register notifications, and for support staff.
//!
//! This module defines the routes, checks requests and writes answers. Every error is answered as
//! `application/problem+json`, and a wrong request gets all its errors at once. The module knows nothing of
//! stores and delivery: [`crate::service`] executes the requests.
//!
//! All input is bounded: requests in flight ([`concurrency_limit`]), the length of a body and the time that
//! it may take ([`body`]), the bytes of all bodies together ([`request_memory`]), the items of a batch, the
//! items of a page, the errors in an answer.

pub mod ack_rule;
mod admission;
mod api_keys;
pub mod attempt_view;
mod audit_log;
pub mod auth;
pub mod batch;
pub mod body;
pub mod bulk_jobs;
pub mod concurrency_limit;
pub mod cross_site;
pub mod dead_letters;
pub mod default_keys;
pub mod endpoint_document;
mod endpoint_fields;
pub mod endpoint_keys;
pub mod endpoint_view;
pub mod endpoints;
pub mod field_errors;
pub mod fields;
pub mod headers_field;
pub mod health;
pub mod job_notifications;
pub mod job_view;
pub mod jobs;
pub mod key_document;
pub mod key_places;
mod key_requests;
pub mod ladder;
pub mod lanes;
mod merge_patch;
pub mod metrics;
pub mod notifications;
pub mod openapi;
mod order_field;
pub mod path;
pub mod payload;
pub mod problem;
pub mod query;
pub mod reason;
pub mod registration;
mod registration_problem;
pub mod request_memory;
mod request_metrics;
mod request_span;
pub mod reschedule;
pub mod rights;
mod schema;
pub mod server;
mod stalled_answer;
pub mod timeline;
pub mod unread;
pub mod view;

use crate::config::ApiKey;
use crate::domain::notification::LARGEST_BODY_BYTES;
use crate::service::Service;
use crate::telemetry::traces::Tracer;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use body::BodyBounds;
use concurrency_limit::ConcurrencyLimit;
use problem::Problem;
use registration::RegistrationContext;
use request_memory::RequestMemory;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum bytes of a registration without its body.
const BESIDE_BODY_BYTES: usize = 64 * 1024;
/// Maximum characters that JSON needs for one byte of a string (`\u0000`).
const LONGEST_ESCAPE: usize = 6;
/// Maximum length of a batch request, in bytes. If a single registration may be longer than this, a batch may
/// be as long as a single registration.
const LARGEST_BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of batch requests that run at once. Others wait.
const MOST_BATCHES: usize = 16;
/// Maximum number of payloads that are read at once. Others wait.
const MOST_PAYLOADS: usize = 16;
/// Default of [`ApiSettings::request_memory_bytes`].
const REQUEST_MEMORY_BYTES: usize = 64 * 1024 * 1024;
/// Default of [`ApiSettings::longest_wait`].
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The API's settings.
#[derive(Clone)]
pub struct ApiSettings {
    /// Maximum length of a notification's body, in bytes.
    pub largest_body_bytes: usize,
    /// Maximum number of requests in flight. Others are answered 503.
    pub most_requests: usize,
    /// The longest time-out that an endpoint may have: that of the server.
    pub longest_timeout: Duration,
    /// Maximum time for a request's body to arrive.
    pub body_time: Duration,
    /// Maximum bytes of all request bodies in memory. The first [`FREE_BYTES`](request_memory::FREE_BYTES) of
    /// each body are not counted.
    pub request_memory_bytes: usize,
    /// How long a batch request or the reading of a payload waits for a permit, and any request for memory, before it
    /// is answered 503.
    pub longest_wait: Duration,
    /// Whether the router serves the metrics.
    pub metrics: MetricsRoute,
    /// Records the requests that register notifications.
    pub tracer: Tracer,
}

/// Whether the router of the API serves the metrics.
#[derive(Debug, Clone)]
pub enum MetricsRoute {
    /// It does, to readers that send this key, if there is one.
    Here(Option<ApiKey>),
    /// Another listener does.
    Elsewhere,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            largest_body_bytes: LARGEST_BODY_BYTES,
            most_requests: 1_024,
            longest_timeout: Duration::from_secs(15),
            body_time: Duration::from_secs(30),
            request_memory_bytes: REQUEST_MEMORY_BYTES,
            longest_wait: LONGEST_WAIT,
            metrics: MetricsRoute::Here(None),
            tracer: Tracer::default(),
        }
    }
}

impl fmt::Debug for ApiSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            largest_body_bytes,
            most_requests,
            longest_timeout,
            body_time,
            request_memory_bytes,
            longest_wait,
            metrics,
            tracer,
        } = self;
        out.debug_struct("ApiSettings")
            .field("largest_body_bytes", largest_body_bytes)
            .field("most_requests", most_requests)
            .field("longest_timeout", longest_timeout)
            .field("body_time", body_time)
            .field("request_memory_bytes", request_memory_bytes)
            .field("longest_wait", longest_wait)
            .field("metrics", metrics)
            .field("tracer", tracer)
            .finish()
    }
}

/// The state that all handlers share.
pub struct Api {
    service: Arc<Service>,
    settings: ApiSettings,
    concurrency_limit: ConcurrencyLimit,
    batches: Semaphore,
    payloads: Semaphore,
    request_memory: RequestMemory,
}

impl Api {
    /// The limits of a request with one registration.
    fn single_bounds(&self) -> BodyBounds {
        let body_bytes = self.settings.largest_body_bytes;
        self.bounds(body_bytes.saturating_mul(LONGEST_ESCAPE) + BESIDE_BODY_BYTES)
    }

    /// The limits of a batch request.
    fn batch_bounds(&self) -> BodyBounds {
        self.bounds(self.single_bounds().bytes.max(LARGEST_BATCH_BYTES))
    }

    /// The limits of a request that contains no registration, for example the reason of a replay.
    fn small_bounds(&self) -> BodyBounds {
        self.bounds(BESIDE_BODY_BYTES)
    }

    fn bounds(&self, bytes: usize) -> BodyBounds {
        BodyBounds {
            bytes,
            time: self.settings.body_time,
        }
    }

    fn measure(&self) -> RegistrationContext {
        RegistrationContext {
            largest_body_bytes: self.settings.largest_body_bytes,
            now_ms: self.service.clock().now_ms(),
        }
    }

    /// Waits for a permit to run a batch request. Few run at once, because each gives the stores much work.
    /// A batch request usually ends soon, so a short wait is better than an error.
    async fn batch_permit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.permit_of(&self.batches).await
    }

    /// Waits for a permit to read a payload. Few are read at once, because each may take megabytes.
    async fn payload_permit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.permit_of(&self.payloads).await
    }

    async fn permit_of<'api>(
        &self,
        semaphore: &'api Semaphore,
    ) -> Result<SemaphorePermit<'api>, Problem> {
        match tokio::time::timeout(self.settings.longest_wait, semaphore.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            // The semaphore is never closed, so only the time-out happens.
            Ok(Err(_)) | Err(_) => Err(Problem::busy()),
        }
    }
}

/// Makes the router with all routes. The handlers call `service`.
pub fn router(service: Arc<Service>, settings: ApiSettings) -> Router {
    let request_memory = RequestMemory::new(settings.request_memory_bytes, settings.longest_wait);
    let metrics = match &settings.metrics {
        MetricsRoute::Here(key) => metrics::metrics_router(service.clone(), key.as_ref()),
        MetricsRoute::Elsewhere => Router::new(),
    };
    let api = Arc::new(Api {
        service,
        concurrency_limit: ConcurrencyLimit::of(settings.most_requests),
        settings,
        batches: Semaphore::new(MOST_BATCHES),
        payloads: Semaphore::new(MOST_PAYLOADS),
        request_memory,
    });
    let v1 = Router::new()
        .route(
            "/v1/notifications",
            post(notifications::register).get(notifications::list),
        )
        .route("/v1/notifications/batch", post(batch::register))
        .route(
            "/v1/notifications/{topic}/{id}",
            get(notifications::show)
                .delete(notifications::cancel)
                .patch(reschedule::reschedule),
        )
        .route("/v1/notifications/{topic}/{id}/payload", get(payload::show))
        .route(
            "/v1/notifications/{topic}/{id}/retry",
            post(notifications::retry),
        )
        .route(
            "/v1/notifications/{topic}/{id}/resend",
            post(notifications::resend),
        )
        .route("/v1/notifications/cancel", post(bulk_jobs::cancel))
        .route("/v1/dead-letters", get(dead_letters::list))
        .route("/v1/dead-letters/replay", post(bulk_jobs::replay))
        .route(
            "/v1/dead-letters/{topic}/{id}",
            delete(dead_letters::discard),
        )
        .route(
            "/v1/dead-letters/{topic}/{id}/replay",
            post(dead_letters::replay),
        )
        .route("/v1/endpoints", get(endpoints::list))
        .route(
            "/v1/endpoints/{name}",
            get(endpoints::show)
                .put(endpoints::set)
                .patch(endpoints::change)
                .delete(endpoints::remove),
        )
        .route("/v1/endpoints/{name}/test", post(endpoints::test))
        .route("/v1/lanes", get(lanes::list))
        .route("/v1/lanes/{lane}", get(lanes::show))
        .route("/v1/lanes/{lane}/hold", post(lanes::hold))
        .route("/v1/lanes/{lane}/release", post(lanes::release))
        .route("/v1/lanes/{lane}/retry", post(lanes::retry))
        .route("/v1/jobs", get(jobs::list))
        .route("/v1/jobs/{id}", get(jobs::show))
        .route("/v1/jobs/{id}/notifications", get(jobs::notifications))
        .route("/v1/jobs/{id}/pause", post(jobs::pause))
        .route("/v1/jobs/{id}/resume", post(jobs::resume))
        .route("/v1/jobs/{id}/stop", post(jobs::stop))
        .route("/v1/audit-log", get(audit_log::list))
        .route("/v1/keys", get(api_keys::list).post(api_keys::make))
        .route(
            "/v1/keys/{name}",
            get(api_keys::show).delete(api_keys::revoke),
        )
        .route("/v1/endpoints/{name}/keys", post(endpoint_keys::add))
        .route(
            "/v1/endpoints/{name}/keys/{id}",
            get(endpoint_keys::show).delete(endpoint_keys::remove),
        )
        .route(
            "/v1/default-keys",
            get(default_keys::list).post(default_keys::add),
        )
        .route(
            "/v1/default-keys/{id}",
            get(default_keys::show).delete(default_keys::remove),
        )
        .method_not_allowed_fallback(notifications::unknown_method)
        .route_layer(from_fn_with_state(api.clone(), admission::pass));
    // These routes need no key: probes have none, and the description of the API tells nothing secret. They have no limit of requests either: while a
    // store is away, all permits may be taken, and probes must still be answered. Probes that arrive at the
    // same time share one check of the stores.
    let health = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/openapi.json", get(openapi::show))
        .method_not_allowed_fallback(notifications::unknown_method);
    v1.merge(health)
        .with_state(api)
        .merge(metrics)
        .fallback(notifications::unknown_route)
}
