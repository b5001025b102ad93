//! The routes that make a job of a filter: `POST /v1/dead-letters/replay` and `POST /v1/notifications/cancel`.

use crate::api::Api;
use crate::api::auth::OnBehalfOf;
use crate::api::body::read_optional_json;
use crate::api::field_errors::FieldErrors;
use crate::api::fields::{self, given, optional};
use crate::api::job_view::{accepted, previewed, same};
use crate::api::jobs::{JobRequest, described_fields, job_fields};
use crate::api::problem::Problem;
use crate::api::query::{NoQuery, parse_cause, parse_id_part, parse_lane, parse_time};
use crate::api::schema::{
    NAME, Part, document, named_schema, names_or_null, text_or_null, time_or_null,
};
use crate::domain::job::JobKind;
use crate::domain::job_filter::JobFilter;
use crate::domain::key::{LONGEST_ID, check_topic};
use crate::domain::state::Cause;
use crate::journal::Actor;
use crate::service::{BulkReply, BulkRequest};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::value::RawValue;
use std::sync::Arc;
use utoipa::openapi::schema::ObjectBuilder;

const FIELDS: [&str; 4] = ["filter", "reason", "rate", "dry_run"];
/// The members of a filter of dead letters.
const OF_DEAD: [&str; 6] = ["topic", "lane", "from", "to", "id_contains", "cause"];
/// The members of a filter of pending notifications.
const OF_PENDING: [&str; 5] = ["topic", "lane", "from", "to", "id_contains"];

/// `POST /v1/dead-letters/replay`: replays the dead letters that pass a filter, as a job. The answer says if the filter names a
/// lane that is held.
pub async fn replay(
    state: State<Arc<Api>>,
    _: NoQuery,
    actor: OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    start(state, actor, request, JobKind::Replay).await
}

/// `POST /v1/notifications/cancel`: cancels the pending notifications that pass a filter, as a job.
pub async fn cancel(
    state: State<Arc<Api>>,
    _: NoQuery,
    actor: OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    start(state, actor, request, JobKind::Cancel).await
}

async fn start(
    State(api): State<Arc<Api>>,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
    kind: JobKind,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_optional_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let (asked, filter) = parse(text.as_ref().map_or("{}", |text| text.as_str()), kind)?;
    let is_dry_run = asked.is_dry_run;
    let request = request_of(asked, filter.clone(), kind, actor);
    if is_dry_run {
        let preview = api.service.preview_bulk(request).await;
        let preview = preview.map_err(Problem::of_service)?;
        let hold = api.service.hold_of_filter(kind, &filter).await;
        return Ok(previewed(&preview, hold.as_ref()));
    }
    let reply = api.service.start_bulk(request).await;
    let reply = reply.map_err(Problem::of_service)?;
    let hold = api.service.hold_of_filter(kind, &filter).await;
    Ok(match &reply {
        BulkReply::Made(job) => accepted(job, hold.as_ref()),
        BulkReply::Runs(job) => same(job, hold.as_ref()),
    })
}

fn request_of(asked: JobRequest, filter: JobFilter, kind: JobKind, actor: Actor) -> BulkRequest {
    BulkRequest {
        kind,
        filter,
        rate: asked.rate,
        actor,
        reason: asked.reason,
    }
}

/// Reads `{"filter", "reason", "rate", "dry_run"}`. The filter must be there: whoever forgets it does not mean all.
fn parse(text: &str, kind: JobKind) -> Result<(JobRequest, JobFilter), Problem> {
    let mut errors = FieldErrors::default();
    let [filter, rest @ ..] =
        fields::read(text, &FIELDS, "", &mut errors).map_err(Problem::unreadable)?;
    let asked = job_fields(rest, &mut errors);
    let filter = match given(filter) {
        Some(filter) => read_filter(filter, kind, &mut errors),
        None => {
            let missing = "this field is missing; an empty object means all";
            errors.add("/filter", missing);
            None
        }
    };
    match (asked, filter) {
        (Some(asked), Some(filter)) if errors.is_empty() => Ok((asked, filter)),
        _ => Err(Problem::fields(errors)),
    }
}

fn read_filter(text: &RawValue, kind: JobKind, errors: &mut FieldErrors) -> Option<JobFilter> {
    let read = match kind == JobKind::Replay {
        true => fields::read(text.get(), &OF_DEAD, "/filter", errors),
        false => fields::read(text.get(), &OF_PENDING, "/filter", errors)
            .map(|[topic, lane, from, to, id]| [topic, lane, from, to, id, None]),
    };
    let values = match read {
        Ok(values) => values,
        Err(unreadable) => {
            errors.add("/filter", unreadable);
            return None;
        }
    };
    let [topic, lane, from, to, id_contains, cause] = values;
    let topic_of = |topic: &str| check_topic(topic).map(|()| topic.to_string());
    let filter = JobFilter {
        topic: optional(topic, "/filter/topic", errors, topic_of).ok()?,
        lane: optional(lane, "/filter/lane", errors, parse_lane).ok()?,
        from_ms: optional(from, "/filter/from", errors, parse_time).ok()?,
        to_ms: optional(to, "/filter/to", errors, parse_time).ok()?,
        id_contains: optional(id_contains, "/filter/id_contains", errors, parse_id_part).ok()?,
        cause: optional(cause, "/filter/cause", errors, parse_cause).ok()?,
    };
    if values.iter().any(Option::is_some) && filter == JobFilter::default() {
        // Callers send `null` for a value that they do not have. That must not mean everything.
        let all_null = "every field of the filter is null; an empty object means all";
        errors.add("/filter", all_null);
        return None;
    }
    Some(filter)
}

/// A request to replay dead letters, as a caller writes it.
pub struct BulkReplayDocument;
named_schema!(BulkReplayDocument, "BulkReplay", {
    let [topic, lane, from, to, id_contains] = filter_members();
    let causes = Cause::ALL.iter().filter(|cause| cause.is_of_dead());
    let causes: Vec<&str> = causes.map(|cause| cause.as_str()).collect();
    let cause = names_or_null(&causes).into();
    bulk(document(
        &OF_DEAD,
        [topic, lane, from, to, id_contains, cause],
        &[],
    ))
});

/// A request to cancel pending notifications, as a caller writes it.
pub struct BulkCancelDocument;
named_schema!(BulkCancelDocument, "BulkCancel", {
    bulk(document(&OF_PENDING, filter_members(), &[]))
});

fn filter_members() -> [Part; OF_PENDING.len()] {
    let lane = text_or_null().description(Some(
        "`endpoint:NAME`, an origin, or any URL that goes there.",
    ));
    let part = text_or_null()
        .max_length(Some(LONGEST_ID))
        .pattern(Some("^[ -~]+$"))
        .description(Some("A part of the ids."));
    [
        text_or_null().pattern(Some(NAME)).into(),
        lane.into(),
        time_or_null().into(),
        time_or_null().into(),
        part.into(),
    ]
}

fn bulk(filter: ObjectBuilder) -> ObjectBuilder {
    let filter = filter.description(Some(
        "Which notifications. An empty object means all; one in which everything is `null` is refused.",
    ));
    let [reason, rate, dry_run] = described_fields();
    document(&FIELDS, [filter.into(), reason, rate, dry_run], &["filter"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: JobKind, filter: &str, expected: Result<&str, &str>) {
        let parsed = parse(&format!("{{\"filter\":{filter}}}"), kind);
        let parsed = parsed.map(|(_, filter)| filter.to_stored());
        let parsed = parsed.map_err(|problem| problem.detail().to_string());
        assert_eq!(
            parsed.as_deref().map_err(String::as_str),
            expected,
            "{filter}"
        );
    }

    #[test]
    fn a_filter_has_the_fields_of_a_list() {
        for kind in [JobKind::Replay, JobKind::Cancel] {
            check(kind, "{}", Ok("{}"));
            check(
                kind,
                r#"{"topic":"paid","lane":"https://Shop.Example/x","cause":null}"#,
                match kind {
                    JobKind::Replay => Ok(r#"{"topic":"paid","lane":"https://shop.example"}"#),
                    _ => Err(
                        "/filter/cause: unknown field; known are topic, lane, from, to, id_contains",
                    ),
                },
            );
            check(
                kind,
                r#"{"from":"1970-01-01T00:00:01Z","to":"1970-01-01T08:00:02+08:00","id_contains":" a"}"#,
                Ok(r#"{"from_ms":1000,"to_ms":2000,"id_contains":" a"}"#),
            );
        }
        check(
            JobKind::Replay,
            r#"{"cause":"refused"}"#,
            Ok(r#"{"cause":"refused"}"#),
        );
    }

    #[test]
    fn a_filter_that_says_nothing_by_mistake_is_refused() {
        const ALL: &str = "/filter: every field of the filter is null; an empty object means all";
        const MISSING: &str = "/filter: this field is missing; an empty object means all";
        let replay = JobKind::Replay;
        check(replay, "null", Err(MISSING));
        check(replay, r#"{"topic":null}"#, Err(ALL));
        check(
            replay,
            r#"{"topic":null,"lane":null,"cause":null}"#,
            Err(ALL),
        );
        check(
            replay,
            "[]",
            Err("/filter: an object is expected, not an array"),
        );
        let without = parse("{}", replay).map_err(|problem| problem.detail().to_string());
        assert_eq!(without, Err(MISSING.to_string()));
        let unknown = parse(r#"{"filter":{},"all":true}"#, replay);
        let unknown = unknown.map_err(|problem| problem.detail().to_string());
        let expected = "/all: unknown field; known are filter, reason, rate, dry_run";
        assert_eq!(unknown, Err(expected.to_string()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let replay = JobKind::Replay;
        for (filter, expected) in [
            (r#"{"topic":""}"#, "/filter/topic: a topic is"),
            (r#"{"lane":"shop"}"#, "/filter/lane: a lane is"),
            (r#"{"from":"today"}"#, "/filter/from: "),
            (r#"{"to":5}"#, "/filter/to: a string is expected"),
            (
                r#"{"id_contains":""}"#,
                "/filter/id_contains: a part of an id is",
            ),
            (
                r#"{"cause":"superseded"}"#,
                "/filter/cause: the cause of a dead letter is",
            ),
        ] {
            let parsed = parse(&format!("{{\"filter\":{filter}}}"), replay);
            let detail = parsed.map_err(|problem| problem.detail().to_string());
            let detail = detail.expect_err(filter);
            assert!(detail.starts_with(expected), "{filter}: {detail}");
        }
    }
}
