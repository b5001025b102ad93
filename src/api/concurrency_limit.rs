//! Bounds the requests in flight, and runs each to its end.
//!
//! Every request runs in a task of its own, which holds its permit until it has ended. A client that
//! hangs up therefore cannot stop a change between the journal and the schedule, nor make room for
//! another request while its own is still at work; and a panic costs one request, not the
//! connection it shares.

use crate::api::problem::Problem;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The permits for requests.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit(Arc<Semaphore>);

impl ConcurrencyLimit {
    /// A limit of so many requests.
    #[must_use]
    pub fn of(permits: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            permits.min(Semaphore::MAX_PERMITS),
        )))
    }
}

/// Lets a request through if there is a permit.
pub async fn pass(
    State(concurrency_limit): State<ConcurrencyLimit>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(permit) = concurrency_limit.0.try_acquire_owned() else {
        return Problem::busy().into_response();
    };
    let executed = tokio::spawn(async move {
        let response = next.run(request).await;
        drop(permit);
        response
    });
    match executed.await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(%error, "a request panicked, which is a bug; the caller got an error 500");
            Problem::internal().into_response()
        }
    }
}
