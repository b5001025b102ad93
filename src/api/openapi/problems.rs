//! The error answers in the description: one for each set of problems that share a status.

use crate::api::problem::{ProblemKind, ProblemView};
use crate::api::schema::reference;
use serde_json::json;
use std::collections::BTreeMap;
use utoipa::openapi::Ref;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Type};

/// The error answers that operations refer to, by their names.
#[derive(Default)]
pub(super) struct ProblemResponses(BTreeMap<String, Response>);

impl ProblemResponses {
    /// The answers with these problems, by their statuses.
    pub(super) fn answers(&mut self, kinds: &[ProblemKind]) -> Vec<(String, Ref)> {
        let mut by_status: BTreeMap<u16, Vec<ProblemKind>> = BTreeMap::new();
        for kind in ProblemKind::ALL {
            if kinds.contains(kind) {
                by_status
                    .entry(kind.status().as_u16())
                    .or_default()
                    .push(*kind);
            }
        }
        let answers = by_status.into_iter().map(|(status, kinds)| {
            let name = name_of(&kinds);
            let reference = Ref::from_response_name(&name);
            self.0.entry(name).or_insert_with(|| response(&kinds));
            (status.to_string(), reference)
        });
        answers.collect()
    }

    /// All of them.
    pub(super) fn into_responses(self) -> BTreeMap<String, Response> {
        self.0
    }
}

/// The name of an answer with one of these problems, such as `ForbiddenOrCrossSite`.
fn name_of(kinds: &[ProblemKind]) -> String {
    let names = kinds.iter().map(|kind| format!("{kind:?}"));
    names.collect::<Vec<_>>().join("Or")
}

fn response(kinds: &[ProblemKind]) -> Response {
    let urns = kinds.iter().map(|kind| kind.urn());
    let only = ObjectBuilder::new().property(
        "type",
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(urns)),
    );
    let schema = AllOfBuilder::new()
        .item(reference::<ProblemView<'_>>())
        .item(only);
    let examples = kinds.iter().map(|kind| {
        let example = ExampleBuilder::new().summary(kind.title());
        (kind.name(), example.value(Some(example_of(*kind))).build())
    });
    let content = ContentBuilder::new()
        .schema(Some(schema))
        .examples_from_iter(examples);
    let titles: Vec<&str> = kinds.iter().map(|kind| kind.title()).collect();
    let mut response = ResponseBuilder::new()
        .description(format!("{}.", titles.join("; or: ")))
        .content("application/problem+json", content.build());
    if kinds.contains(&ProblemKind::Unauthorized) {
        response = response.header("WWW-Authenticate", header("`Bearer`.", Type::String));
    }
    let is_for_later = |kind: &ProblemKind| {
        matches!(kind.status().as_u16(), 429 | 503) || *kind == ProblemKind::State
    };
    if kinds.iter().any(is_for_later) {
        let words = match kinds.contains(&ProblemKind::State) {
            true => "In how many seconds the change may be possible, if an attempt is in flight.",
            false => "In how many seconds to send the same request again.",
        };
        response = response.header("Retry-After", header(words, Type::Integer));
    }
    response.build()
}

fn header(description: &str, kind: Type) -> utoipa::openapi::header::Header {
    HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(kind)))
        .description(Some(description))
        .build()
}

fn example_of(kind: ProblemKind) -> serde_json::Value {
    let mut example = json!({
        "type": kind.urn(), "title": kind.title(), "status": kind.status().as_u16(), "detail": detail_of(kind),
    });
    match kind {
        ProblemKind::Fields => {
            example["errors"] =
                json!([{ "pointer": "/url", "detail": "the scheme of a URL is https or http" }]);
        }
        ProblemKind::Parameters => {
            example["errors"] =
                json!([{ "parameter": "limit", "detail": "a limit is a number from 1 to 1000" }]);
        }
        ProblemKind::Mismatch => {
            example["errors"] = json!([{ "pointer": "/body", "detail": "differs from what was registered before" }]);
        }
        _ => {}
    }
    example
}

/// What happened, as an answer could say.
fn detail_of(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Fields => "/url: the scheme of a URL is https or http",
        ProblemKind::Parameters => "limit: a limit is a number from 1 to 1000",
        other => other.title(),
    }
}
