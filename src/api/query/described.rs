//! The schemas of the parameters of paths and queries. A list of parameters takes the same names as the code that reads it.

use super::audit_log::{AUDIT_LOG, LONGEST_ACTOR};
use super::search::LONGEST_URL_PART;
use super::{
    DEAD_LETTERS, DEFAULT_ITEMS, ENDPOINTS, JOB_NOTIFICATIONS, JOBS, LANES, LIST, LONGEST_CURSOR,
    LONGEST_LANE_CURSOR, MOST_ITEMS,
};
use crate::api::schema::{NAME, names, state_names, text};
use crate::domain::job::JobState;
use crate::domain::job_result::JobResult;
use crate::domain::key::LONGEST_ID;
use crate::domain::lane_settings::LaneState;
use crate::domain::state::Cause;
use serde_json::Value;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};

/// What a parameter may be, and what it says.
type Described = (ObjectBuilder, &'static str);

/// The parameters of `GET /v1/notifications`.
#[must_use]
pub fn list_parameters() -> Vec<Parameter> {
    let webhook_id = text().pattern(Some("^msg_[0-9a-fA-F]{32}$"));
    let part = text()
        .max_length(Some(LONGEST_URL_PART))
        .pattern(Some("^[!-~]*$"));
    let mut states = state_names();
    states.insert(0, "pending");
    states.insert(2, "due");
    let described = [
        topic(),
        (id(), "The id."),
        (id(), "What the id begins with."),
        (webhook_id, "The `Webhook-Id` of its calls."),
        (part, "A part of the URL."),
        (
            names(&states),
            "The state. `pending` is what is `scheduled` or `in_flight`. With `due`, the list has what is `scheduled` and due now, the one that became due last first, and `from` \
             and `to` are compared with when it became due.",
        ),
        lane(),
        from("registered"),
        to("registered"),
        limit(),
        cursor(LONGEST_CURSOR),
    ];
    parameters(&LIST, described)
}

/// The parameters of `GET /v1/dead-letters`.
#[must_use]
pub fn dead_letters_parameters() -> Vec<Parameter> {
    let causes = Cause::ALL.iter().filter(|cause| cause.is_of_dead());
    let causes: Vec<&str> = causes.map(|cause| cause.as_str()).collect();
    let described = [
        topic(),
        lane(),
        (names(&causes), "Why it is dead."),
        from("parked"),
        to("parked"),
        limit(),
        cursor(LONGEST_CURSOR),
    ];
    parameters(&DEAD_LETTERS, described)
}

/// The parameters of `GET /v1/endpoints`.
#[must_use]
pub fn endpoints_parameters() -> Vec<Parameter> {
    parameters(&ENDPOINTS, [limit(), cursor(LONGEST_CURSOR)])
}

/// The parameters of `GET /v1/lanes`.
#[must_use]
pub fn lanes_parameters() -> Vec<Parameter> {
    let states: Vec<&str> = LaneState::ALL.iter().map(|state| state.as_str()).collect();
    let described = [
        (names(&states), "The state."),
        limit(),
        cursor(LONGEST_LANE_CURSOR),
    ];
    parameters(&LANES, described)
}

/// The parameters of `GET /v1/jobs`.
#[must_use]
pub fn jobs_parameters() -> Vec<Parameter> {
    let states: Vec<&str> = JobState::ALL.iter().map(|state| state.as_str()).collect();
    let described = [
        (names(&states), "The state."),
        limit(),
        cursor(LONGEST_CURSOR),
    ];
    parameters(&JOBS, described)
}

/// The parameters of `GET /v1/jobs/{id}/notifications`.
#[must_use]
pub fn job_notifications_parameters() -> Vec<Parameter> {
    let results: Vec<&str> = JobResult::ALL.iter().map(|one| one.as_str()).collect();
    let described = [
        (names(&results), "The result; `done` if it is left out."),
        limit(),
        cursor(LONGEST_CURSOR),
    ];
    parameters(&JOB_NOTIFICATIONS, described)
}

/// The parameters of `GET /v1/audit-log`.
#[must_use]
pub fn audit_parameters() -> Vec<Parameter> {
    let actor = text().max_length(Some(LONGEST_ACTOR));
    let described = [
        (actor, "Who did it."),
        from("done"),
        to("done"),
        limit(),
        cursor(LONGEST_CURSOR),
    ];
    parameters(&AUDIT_LOG, described)
}

/// A parameter in the path of a route.
#[must_use]
pub fn path_parameter(path: &str, name: &'static str) -> Parameter {
    let (schema, words, example) = match (name, path) {
        ("topic", _) => (
            text().pattern(Some(NAME)),
            "The topic of the notification.",
            "payment.succeeded",
        ),
        ("lane", _) => (
            text().min_length(Some(1)),
            "`endpoint:NAME`, an origin, or any URL that goes there; percent-encoded.",
            "https://shop.example",
        ),
        ("name", path) if path.starts_with("/v1/keys") => (
            text().min_length(Some(1)),
            "The name of the API key.",
            "orders",
        ),
        ("name", _) => (
            text().pattern(Some(NAME)),
            "The name of the endpoint.",
            "shop-1",
        ),
        ("id", path) if path.starts_with("/v1/jobs") => (
            text().pattern(Some("^[0-9a-f-]{1,64}$")),
            "The id of the job.",
            "019aa3f2-7c1e-7000-8000-0123456789ab",
        ),
        ("id", path) if path.contains("keys/") => (
            text().min_length(Some(1)),
            "The id of the signing key.",
            "key_1f2e3d4c",
        ),
        _ => (
            id(),
            "The id of the notification, percent-encoded.",
            "order-1001",
        ),
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(schema))
        .description(Some(words))
        .example(Some(Value::from(example)))
        .build()
}

fn parameters<const N: usize>(
    names: &[&'static str; N],
    described: [Described; N],
) -> Vec<Parameter> {
    let parameters = names.iter().zip(described).map(|(name, (schema, words))| {
        ParameterBuilder::new()
            .name(*name)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .schema(Some(schema))
            .description(Some(words))
            .build()
    });
    parameters.collect()
}

fn topic() -> Described {
    (text().pattern(Some(NAME)), "The topic.")
}

fn id() -> ObjectBuilder {
    text()
        .min_length(Some(1))
        .max_length(Some(LONGEST_ID))
        .pattern(Some("^(?!\\.{1,2}$)[ -~]+$"))
}

fn lane() -> Described {
    (
        text(),
        "The destination: `endpoint:NAME`, an origin, or any URL that goes there.",
    )
}

fn from(what: &str) -> Described {
    let words = match what {
        "registered" => "Registered at this time or later.",
        "parked" => "Parked at this time or later.",
        _ => "Done at this time or later.",
    };
    (time(), words)
}

fn to(what: &str) -> Described {
    let words = match what {
        "registered" => "Registered before this time.",
        "parked" => "Parked before this time.",
        _ => "Done before this time.",
    };
    (time(), words)
}

fn time() -> ObjectBuilder {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}

fn limit() -> Described {
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(MOST_ITEMS as f64))
        .default(Some(Value::from(DEFAULT_ITEMS)));
    (number, "How many items a page has at most.")
}

fn cursor(longest: usize) -> Described {
    let cursor = text().max_length(Some(longest)).pattern(Some("^[!-~]*$"));
    (cursor, "The `next_cursor` of the page before.")
}
