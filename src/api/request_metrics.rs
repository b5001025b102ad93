//! Counts the requests to the API and measures how long they take, by route and status.
//!
//! Only routes of the table of rights have a name in the metrics: nothing that a caller can choose becomes a label.

use super::rights::route_of;
use crate::telemetry::metrics::Metrics;
use axum::extract::{MatchedPath, Request};
use http::StatusCode;
use std::time::Instant;

/// What requests are counted under that match a path but no method of it.
const OTHER: (&str, &str) = ("other", "other");

/// A request that has begun.
#[derive(Debug)]
pub(super) struct RequestCount {
    begun: Instant,
    route: (&'static str, &'static str),
}

impl RequestCount {
    /// Notes that a request begins.
    pub(super) fn begin(request: &Request) -> Self {
        let path = request.extensions().get::<MatchedPath>();
        let path = path.map_or("", MatchedPath::as_str);
        Self {
            begun: Instant::now(),
            route: route_of(request.method(), path).unwrap_or(OTHER),
        }
    }

    /// Counts the request when its answer begins.
    pub(super) fn end(self, metrics: &Metrics, status: StatusCode) {
        let (method, path) = self.route;
        metrics.request(method, path, status.as_u16(), self.begun.elapsed());
    }
}
