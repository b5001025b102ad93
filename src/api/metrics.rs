//! The route `/metrics`: all metrics in the text format of Prometheus.
//!
//! The route needs no API key, so that a monitoring system needs none. The answer contains only numbers: topics,
//! destinations and addresses are not used as labels. Who wants to hide the numbers too gives the metrics a listener of
//! their own, or a key of their own. No API key is accepted in place of that one: whoever reads metrics needs no more.

use crate::api::auth::key_of;
use crate::api::notifications;
use crate::api::problem::{Problem, ProblemKind};
use crate::config::ApiKey;
use crate::domain::api_key::ApiKeyDigest;
use crate::service::Service;
use crate::telemetry::metrics::CONTENT_TYPE;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, header};
use std::sync::Arc;

/// What the route needs.
struct MetricsAccess {
    service: Arc<Service>,
    /// The digest of the key that readers must send, if they need one.
    key: Option<ApiKeyDigest>,
}

/// Makes the router of `/metrics`. `key`: that readers must send, if they need one.
pub fn metrics_router(service: Arc<Service>, key: Option<&ApiKey>) -> Router {
    let key = key.map(|key| ApiKeyDigest::of(key.expose().as_bytes()));
    Router::new()
        .route("/metrics", get(show))
        .method_not_allowed_fallback(notifications::unknown_method)
        .with_state(Arc::new(MetricsAccess { service, key }))
}

impl MetricsAccess {
    /// Checks that a request may read the metrics. Digests are compared, so the time does not depend on the key.
    fn admit(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(expected) = &self.key else {
            return Ok(());
        };
        match key_of(headers)? {
            Some(sent) if expected.is_same(&ApiKeyDigest::of(sent)) => Ok(()),
            Some(_) | None => Err(Problem::new(
                ProblemKind::Unauthorized,
                "the metrics have a key of their own: send the value of --metrics-key as a bearer token",
            )),
        }
    }
}

/// Answers with all metrics. If a store does not answer within a time limit, its values are left out.
async fn show(State(access): State<Arc<MetricsAccess>>, headers: HeaderMap) -> Response {
    if let Err(problem) = access.admit(&headers) {
        return problem.into_response();
    }
    let text = access.service.measure().await;
    let content_type = HeaderValue::from_static(CONTENT_TYPE);
    ([(header::CONTENT_TYPE, content_type)], text.to_string()).into_response()
}
