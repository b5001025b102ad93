//! Whether the process lives, and whether it can work.

use crate::api::Api;
use crate::api::problem::Problem;
use crate::api::view::json;
use crate::service::ServiceError;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// A store that takes longer to answer is out of reach for whoever asks.
const LONGEST_CHECK: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
}

/// `GET /healthz`: the process answers. Says nothing of the stores, so that an outage of theirs
/// does not have every instance restarted.
pub async fn alive() -> Response {
    json(StatusCode::OK, &Health { status: "ok" })
}

/// `GET /readyz`: whether both stores work; 503 names the one that does not.
pub async fn ready(State(api): State<Arc<Api>>) -> Response {
    match tokio::time::timeout(LONGEST_CHECK, api.service.check()).await {
        Ok(Ok(())) => json(StatusCode::OK, &Health { status: "ready" }),
        Ok(Err(error)) => unready(error).into_response(),
        Err(_) => {
            let reason = "no answer within 5 s";
            Problem::unavailable("journal or the schedule", reason).into_response()
        }
    }
}

/// Whatever is wrong with a store, this instance should get no requests until it is mended.
fn unready(error: ServiceError) -> Problem {
    match error {
        ServiceError::Journal(error) => Problem::unavailable("journal", &error.to_string()),
        ServiceError::Schedule(error) => Problem::unavailable("schedule", &error.to_string()),
        ServiceError::Missing
        | ServiceError::Mismatch(_)
        | ServiceError::Refused { .. }
        | ServiceError::Unsettled
        | ServiceError::NoJournal
        | ServiceError::BadCursor => Problem::of_service(error),
    }
}
