//! The route `/metrics`: all metrics in the text format of Prometheus.
//!
//! The route needs no API key, so that a monitoring system needs none. The answer contains only numbers: topics,
//! destinations and addresses are not used as labels.

use crate::api::Api;
use crate::telemetry::metrics::CONTENT_TYPE;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use std::sync::Arc;

/// Answers with all metrics. If a store does not answer within a time limit, its values are left out.
pub async fn show(State(api): State<Arc<Api>>) -> Response {
    let text = api.service.measure().await;
    let content_type = HeaderValue::from_static(CONTENT_TYPE);
    ([(header::CONTENT_TYPE, content_type)], text.to_string()).into_response()
}
