//! Counts the requests to the API and measures how long they take, by route and status.
//!
//! Only routes of the table of rights have a name in the metrics: nothing that a caller can choose becomes a label.

use super::Api;
use super::rights::route_of;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;

/// What requests are counted under that match a path but no method of it.
const OTHER: (&str, &str) = ("other", "other");

/// Passes a request on, and counts it when its answer begins.
pub async fn count(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str);
    let (method, path) = route_of(request.method(), path).unwrap_or(OTHER);
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let metrics = api.service.metrics();
    metrics.request(method, path, status, begun.elapsed());
    response
}
