//! The HTTP API of the service: for the services that register notifications, and for support
//! staff.
//!
//! Owns the routes, what a request must look like, and how everything is shown. Promises that every
//! error is `application/problem+json` and that a wrong request gets all its errors listed at
//! once. Deliberately knows nothing of stores and of delivery: [`crate::service`] does what is
//! asked.
//!
//! Everything that comes in is bounded: requests in flight ([`concurrency_limit`]), the length of a body and the
//! time it may take ([`body`]), the bytes of all bodies together ([`request_memory`]), the items of a batch, the
//! items of a page, the errors in an answer.

pub mod ack_rule;
pub mod auth;
pub mod batch;
pub mod body;
pub mod concurrency_limit;
pub mod dead_letters;
pub mod field_errors;
pub mod fields;
pub mod health;
pub mod ladder;
pub mod metrics;
pub mod notifications;
pub mod problem;
pub mod query;
pub mod registration;
pub mod request_memory;
pub mod server;
pub mod timeline;
pub mod unread;
pub mod view;

use crate::domain::notification::LARGEST_BODY_BYTES;
use crate::service::Service;
use auth::RequiredApiKey;
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

/// What a registration may be long besides its body, in bytes.
const BESIDE_BODY_BYTES: usize = 64 * 1024;
/// JSON writes a byte of a string in six characters at most (`\u0000`).
const LONGEST_ESCAPE: usize = 6;
/// Longest batch request, in bytes, unless a single registration may be longer.
const LARGEST_BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of batch requests executed at once; more than that wait.
const MOST_BATCHES: usize = 16;
/// Bytes of all bodies together that have arrived, beside the first
/// [`FREE_BYTES`](request_memory::FREE_BYTES) of each.
const REQUEST_MEMORY_BYTES: usize = 64 * 1024 * 1024;
/// How long a request waits for its turn, or for memory.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The API's settings.
#[derive(Clone)]
pub struct ApiSettings {
    /// Largest body of a notification, in bytes.
    pub largest_body_bytes: usize,
    /// The key that every request under `/v1` must show, if there is one.
    pub api_key: Option<String>,
    /// Maximum number of requests in flight at once; more than that are answered 503.
    pub most_requests: usize,
    /// Longest time for a request's body to arrive.
    pub body_time: Duration,
    /// Maximum bytes of all bodies together, beside the first [`FREE_BYTES`](request_memory::FREE_BYTES) of each.
    pub request_memory_bytes: usize,
    /// How long a request waits where too many are in flight, or hold too many bytes.
    pub longest_wait: Duration,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            largest_body_bytes: LARGEST_BODY_BYTES,
            api_key: None,
            most_requests: 1_024,
            body_time: Duration::from_secs(30),
            request_memory_bytes: REQUEST_MEMORY_BYTES,
            longest_wait: LONGEST_WAIT,
        }
    }
}

impl fmt::Debug for ApiSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            largest_body_bytes,
            api_key,
            most_requests,
            body_time,
            request_memory_bytes,
            longest_wait,
        } = self;
        out.debug_struct("ApiSettings")
            .field("largest_body_bytes", largest_body_bytes)
            .field("api_key", &api_key.as_ref().map(|_| "set"))
            .field("most_requests", most_requests)
            .field("body_time", body_time)
            .field("request_memory_bytes", request_memory_bytes)
            .field("longest_wait", longest_wait)
            .finish()
    }
}

/// What the handlers share.
pub struct Api {
    service: Arc<Service>,
    settings: ApiSettings,
    batches: Semaphore,
    request_memory: RequestMemory,
}

impl Api {
    /// The bounds of a request with one registration.
    fn single_bounds(&self) -> BodyBounds {
        let body_bytes = self.settings.largest_body_bytes;
        self.bounds(body_bytes.saturating_mul(LONGEST_ESCAPE) + BESIDE_BODY_BYTES)
    }

    /// The bounds of a request with many.
    fn batch_bounds(&self) -> BodyBounds {
        self.bounds(self.single_bounds().bytes.max(LARGEST_BATCH_BYTES))
    }

    /// The bounds of a request with a few words.
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

    /// Waits for a permit among the batch requests. Each gives the stores much to do, so few run at
    /// once; they are as fast as the stores, so waiting a little is better than refusing.
    async fn batch_permit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        match tokio::time::timeout(self.settings.longest_wait, self.batches.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            // It is never closed; a closed one has no permits either.
            Ok(Err(_)) | Err(_) => Err(Problem::busy()),
        }
    }
}

/// The routes, over one service.
pub fn router(service: Arc<Service>, settings: ApiSettings) -> Router {
    let concurrency_limit = ConcurrencyLimit::of(settings.most_requests);
    let key = RequiredApiKey::new(settings.api_key.as_deref());
    let request_memory = RequestMemory::new(settings.request_memory_bytes, settings.longest_wait);
    let api = Arc::new(Api {
        service,
        settings,
        batches: Semaphore::new(MOST_BATCHES),
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
            get(notifications::show).delete(notifications::cancel),
        )
        .route(
            "/v1/notifications/{topic}/{id}/retry",
            post(notifications::retry),
        )
        .route("/v1/dead-letters", get(dead_letters::list))
        .route(
            "/v1/dead-letters/{topic}/{id}",
            delete(dead_letters::discard),
        )
        .route(
            "/v1/dead-letters/{topic}/{id}/replay",
            post(dead_letters::replay),
        )
        .method_not_allowed_fallback(notifications::unknown_method)
        .route_layer(from_fn_with_state(
            concurrency_limit,
            concurrency_limit::pass,
        ))
        // Outermost: a request without a key takes no permit.
        .route_layer(from_fn_with_state(key, auth::admit));
    // No key, since probes have none; and no limit of requests: while a store is away all permits may be
    // taken, and that is when probes must be answered. They share one check of the stores.
    let health = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::show))
        .method_not_allowed_fallback(notifications::unknown_method);
    v1.merge(health)
        .fallback(notifications::unknown_route)
        .with_state(api)
}
