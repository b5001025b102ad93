//! `GET /metrics`, for Prometheus and whatever reads its text.
//!
//! Asks for no key: monitoring has none, and there is nothing in it but numbers. No topic, no
//! destination and no address is a label.

use crate::api::Api;
use crate::telemetry::metrics::CONTENT_TYPE;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use std::sync::Arc;

/// All metrics. A store that is away is left out of them and does not delay the answer.
pub async fn show(State(api): State<Arc<Api>>) -> Response {
    let text = api.service.measure().await;
    let content_type = HeaderValue::from_static(CONTENT_TYPE);
    ([(header::CONTENT_TYPE, content_type)], text.to_string()).into_response()
}
