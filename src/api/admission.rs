//! What every request under `/v1` goes through before its handler: it is counted, its caller is checked, and it takes a
//! permit.
//!
//! This is one layer and not three, because axum copies the routes behind a layer for every request that passes it.

use super::auth;
use super::request_metrics::RequestCount;
use crate::api::Api;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Passes a request on to its handler, or answers it.
pub(super) async fn pass(
    State(api): State<Arc<Api>>,
    mut request: Request,
    next: Next,
) -> Response {
    let count = RequestCount::begin(&request);
    // The caller is checked first, so a request without a right takes no permit.
    let response = match auth::admit(&api, &mut request).await {
        Ok(()) => api.concurrency_limit.run(request, next).await,
        Err(problem) => problem.into_response(),
    };
    count.end(api.service.metrics(), response.status());
    response
}
