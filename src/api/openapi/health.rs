//! The requests that need no API key.

use super::route::Route;
use crate::api::health::{Liveness, NotReadyDocument, ReadyDocument, StoreView};
use crate::api::problem::ProblemKind;
use crate::api::schema::{any_object, reference, text};
use crate::telemetry::metrics;
use serde_json::json;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::HttpMethod::Get;
use utoipa::openapi::response::ResponseBuilder;

const SERVER: &str = "server";

/// All of them.
pub(super) fn routes() -> Vec<Route> {
    let not_ready = ContentBuilder::new().schema(Some(reference::<NotReadyDocument>()));
    let not_ready = ResponseBuilder::new()
        .description("A store does not work.")
        .content("application/problem+json", not_ready.build());
    let numbers = ContentBuilder::new().schema(Some(text()));
    let numbers = ResponseBuilder::new()
        .description("All metrics, in the text format of OpenMetrics.")
        .content(metrics::CONTENT_TYPE, numbers.build());
    let description = ContentBuilder::new().schema(Some(any_object()));
    let description = ResponseBuilder::new()
        .description("This description.")
        .content("application/json", description.build());
    let retry_after = ("Retry-After", "In how many seconds to ask again.");
    vec![
        Route::new(Get, "/healthz", "isAlive")
            .says(
                SERVER,
                "Whether the process runs",
                "It does not ask the stores.",
            )
            .answer::<Liveness>(200, "It runs.", &[], Some(json!({ "status": "ok" }))),
        Route::new(Get, "/readyz", "isReady")
            .says(
                SERVER,
                "Whether registrations can be accepted and attempts be made",
                "`warnings` name what a person should solve although the server works.",
            )
            .answer::<ReadyDocument>(200, "It is ready.", &[], None)
            .parts::<NotReadyDocument>()
            .parts::<StoreView>()
            .answered(503, not_ready, &[retry_after]),
        Route::new(Get, "/metrics", "getMetrics")
            .says(
                SERVER,
                "Numbers for Prometheus",
                "With `--metrics-key`, that key has to be sent as a bearer token. With `--metrics-listen`, another address \
                 serves it.",
            )
            .answered(200, numbers, &[])
            .problems(&[ProblemKind::Unauthorized]),
        Route::new(Get, "/openapi.json", "getDescription")
            .says(SERVER, "The description of this API", "In OpenAPI 3.1.")
            .answered(200, description, &[]),
    ]
}
