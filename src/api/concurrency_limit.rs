//! Limits the number of requests under `/v1` in flight, and runs each of them to its end.
//!
//! Each of these requests runs in its own task, which holds a permit until the request has ended. So if a
//! client closes its connection, its request is not interrupted between the journal and the schedule, and the
//! permit is not given to another request too early. If a request panics, its client still gets an answer.

use crate::api::problem::Problem;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The permits for requests.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit(Arc<Semaphore>);

impl ConcurrencyLimit {
    /// Makes a limit of `permits` requests.
    #[must_use]
    pub fn of(permits: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            permits.min(Semaphore::MAX_PERMITS),
        )))
    }

    /// Runs a request if there is a permit. Otherwise answers 503.
    pub async fn run(&self, request: Request, next: Next) -> Response {
        let Ok(permit) = self.0.clone().try_acquire_owned() else {
            return Problem::busy().into_response();
        };
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let executed = tokio::spawn(async move {
            let response = next.run(request).await;
            drop(permit);
            response
        });
        match executed.await {
            Ok(response) => response,
            Err(error) => {
                tracing::error!(
                    %method,
                    path = uri.path(),
                    %error,
                    "a request panicked, which is a bug; the caller gets an error 500"
                );
                Problem::internal().into_response()
            }
        }
    }
}
