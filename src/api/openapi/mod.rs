//! The description of the API in OpenAPI 3.1: `GET /openapi.json`, and the command `ringback openapi`.
//!
//! It is made from the code: answers have derived schemas, requests have theirs beside the code that reads them, and the
//! roles of each route are those of [`crate::api::rights`]. It does not depend on the settings of a server and tells nothing
//! that is secret, so it needs no API key. A copy is in `docs/openapi.json`; a test compares both.

mod alerts;
mod callback;
mod configuration;
mod examples;
mod health;
mod lanes;
mod notifications;
mod problems;
mod route;
mod trace_headers;

use crate::api::problem::{ProblemType, ProblemView};
use crate::api::schema::with_parts;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, header};
use problems::ProblemResponses;
use std::sync::LazyLock;
use utoipa::openapi::path::{PathItemBuilder, PathsBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, ServerBuilder,
};

/// The name of the security scheme.
const API_KEY: &str = "apiKey";

const INTRODUCTION: &str = "Ringback delivers payment callbacks: a service registers a notification, a URL and a body, and \
    Ringback POSTs it to the merchant, signed, again and again on a ladder of intervals, until the merchant acknowledges it.\n\n\
    Requests and answers are JSON in UTF-8. Times are RFC 3339; those in answers are in UTC with milliseconds. Durations are \
    written `200ms`, `4m`, `24h22m`. An unknown member, a member that is given twice, and an unknown parameter are errors. \
    `null` means the same as to leave a member out, except in `body` and in a merge patch. Answers may get new members: \
    ignore those that you do not know.\n\n\
    Errors are `application/problem+json`: go by their `type`. A path that is not described here is answered 404 with the \
    type `urn:ringback:problem:route`, a method that a path does not accept 405 with `urn:ringback:problem:method` and `Allow`. \
    A 429 and a 503 have `Retry-After`. After a 503, take nothing for done, and send the same request again: nothing is \
    registered twice by that.";

const TAGS: [(&str, &str); 8] = [
    (
        "notifications",
        "Register, look up, find, cancel, move and send again.",
    ),
    ("dead letters", "What nobody acknowledged."),
    (
        "destinations",
        "How each destination is doing; hold, release, and send what is pending.",
    ),
    ("jobs", "What concerns many notifications."),
    (
        "endpoints",
        "Receivers that have a name, with settings and signing keys of their own.",
    ),
    (
        "default keys",
        "What signs the calls to receivers without keys of their own.",
    ),
    ("access", "API keys and the audit log."),
    (
        "server",
        "Whether the server is alive and ready, its metrics, and this description.",
    ),
];

/// The text of the description, as `docs/openapi.json` has it.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let text = description().to_pretty_json();
    text.expect("invariant: names and texts serialise") + "\n"
});

/// The text of the description.
#[must_use]
pub fn text() -> &'static str {
    &TEXT
}

/// `GET /openapi.json`: the description of the API.
pub async fn show() -> Response {
    let content_type = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, content_type)], text()).into_response()
}

/// The description of the API.
fn description() -> OpenApi {
    let mut routes = Vec::new();
    routes.extend(notifications::routes());
    routes.extend(lanes::routes());
    routes.extend(configuration::routes());
    routes.extend(health::routes());

    let mut problems = ProblemResponses::default();
    let mut components = ComponentsBuilder::new()
        .schemas_from_iter(with_parts::<ProblemView<'_>>())
        .schemas_from_iter(with_parts::<ProblemType>());
    let mut paths: Vec<(&str, PathItemBuilder)> = Vec::new();
    for route in routes {
        let (method, path) = (route.method.clone(), route.path);
        let (operation, parts) = route.operation(&mut problems);
        components = components.schemas_from_iter(parts);
        let at = paths.iter().position(|(other, _)| *other == path);
        let at = at.unwrap_or_else(|| {
            paths.push((path, PathItemBuilder::new()));
            paths.len() - 1
        });
        let item = std::mem::take(&mut paths[at].1);
        paths[at].1 = item.operation(method, operation);
    }
    let mut all = PathsBuilder::new();
    for (path, item) in paths {
        all = all.path(path, item.build());
    }
    let security = [SecurityRequirement::new(API_KEY, [] as [&str; 0])];
    let tags = TAGS.map(|(name, words)| {
        let tag = TagBuilder::new().name(name);
        tag.description(Some(words)).build()
    });
    let components = components
        .responses_from_iter(problems.into_responses())
        .security_scheme(API_KEY, api_key());
    OpenApiBuilder::new()
        .info(info())
        .servers(Some([ServerBuilder::new()
            .url("http://127.0.0.1:8400")
            .description(Some(
                "A server on this machine, as `ringback serve` starts it.",
            ))
            .build()]))
        .paths(all)
        .webhooks(Some(callback::webhooks()))
        .components(Some(components.build()))
        .security(Some(security))
        .tags(Some(tags))
        .build()
}

fn info() -> utoipa::openapi::Info {
    let license = LicenseBuilder::new()
        .name(env!("CARGO_PKG_LICENSE"))
        .identifier(Some(env!("CARGO_PKG_LICENSE")));
    InfoBuilder::new()
        .title("Ringback")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(INTRODUCTION))
        .license(Some(license.build()))
        .build()
}

fn api_key() -> SecurityScheme {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("rbk_...")
        .description(Some(
            "An API key, in the header `Authorization: Bearer KEY`. A server that has no key accepts requests without one, \
             from its own machine alone. The description of each request names the roles that may send it.",
        ));
    SecurityScheme::Http(scheme.build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::problem::ProblemKind;

    #[test]
    fn every_kind_of_problem_can_be_the_answer_to_some_request() {
        let text = text();
        for kind in ProblemKind::ALL {
            let is_described = text.contains(&format!("\"{}\": {{", kind.name()));
            // These two are of requests that are not described.
            let is_unknown = matches!(kind, ProblemKind::Route | ProblemKind::Method);
            assert_eq!(is_described, !is_unknown, "{kind:?}");
        }
    }

    #[test]
    fn each_reference_leads_somewhere() {
        let document: serde_json::Value = serde_json::from_str(text()).expect("JSON");
        let references = text().split("\"$ref\": \"#").skip(1);
        let mut count = 0;
        for reference in references.filter_map(|rest| rest.split('"').next()) {
            assert!(document.pointer(reference).is_some(), "{reference}");
            count += 1;
        }
        assert!(count > 100, "{count} references");
    }
}
