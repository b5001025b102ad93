//! `PATCH /v1/notifications/{topic}/{id}`: moves the first attempt of a pending notification.

use crate::api::Api;
use crate::api::auth::OnBehalfOf;
use crate::api::body::read_json;
use crate::api::field_errors::FieldErrors;
use crate::api::fields;
use crate::api::path::KeyPath;
use crate::api::problem::Problem;
use crate::api::query::NoQuery;
use crate::api::registration::read_start;
use crate::api::schema::{document, duration_or_null, named_schema, time_or_null};
use crate::api::view::notification;
use crate::domain::notification::Start;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use std::sync::Arc;

const FIELDS: [&str; 2] = ["delay", "deliver_at"];

/// Moves the first attempt to the instant that `delay` or `deliver_at` gives. A delay counts from now.
pub async fn reschedule(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let start = parse(text.as_str(), api.measure().now_ms)?;
    let snapshot = api
        .service
        .reschedule(&key, start, actor)
        .await
        .map_err(Problem::of_service)?;
    Ok(notification(StatusCode::OK, &snapshot))
}

fn parse(text: &str, now_ms: i64) -> Result<Start, Problem> {
    let mut errors = FieldErrors::default();
    let [delay, deliver_at] =
        fields::read(text, &FIELDS, "", &mut errors).map_err(Problem::unreadable)?;
    match read_start(delay, deliver_at, now_ms, &mut errors) {
        Ok(Some(start)) if errors.is_empty() => return Ok(start),
        Ok(None) if errors.is_empty() => {
            errors.add("", "give `delay` or `deliver_at`");
        }
        Ok(_) | Err(_) => {}
    }
    Err(Problem::fields(errors))
}

/// A move as a caller writes it.
pub struct MoveDocument;
named_schema!(MoveDocument, "Move", {
    let delay = duration_or_null().description(Some("From now, at most 30 days."));
    let deliver_at = time_or_null().description(Some("At most 30 days ahead."));
    document(&FIELDS, [delay.into(), deliver_at.into()], &[])
        .min_properties(Some(1))
        .description(Some("When the first attempt is to be due: one of both."))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_says_when_in_one_of_two_ways() {
        fn check(text: &str, expected: Result<Start, &str>) {
            let parsed = parse(text, 1_000).map_err(|problem| problem.detail().to_string());
            let parsed = parsed.as_ref().map_err(String::as_str);
            assert_eq!(parsed.copied(), expected, "{text}");
        }
        const NEITHER: &str = "give `delay` or `deliver_at`";
        check(r#"{"delay":"30m"}"#, Ok(Start::After(1_800_000)));
        check(r#"{"delay":"0s"}"#, Ok(Start::After(0)));
        check(
            r#"{"delay":"30d","deliver_at":null}"#,
            Ok(Start::After(2_592_000_000)),
        );
        check(
            r#"{"deliver_at":"1970-01-01T00:00:02Z"}"#,
            Ok(Start::At(2_000)),
        );
        check(
            r#"{"deliver_at":"1970-01-31T00:00:01Z"}"#,
            Ok(Start::At(2_592_001_000)),
        );
        check("{}", Err(NEITHER));
        check(r#"{"delay":null}"#, Err(NEITHER));
        check(
            r#"{"delay":"721h"}"#,
            Err("/delay: a delay is at most 30 days"),
        );
        check(
            r#"{"deliver_at":"1970-01-31T00:00:01.001Z"}"#,
            Err("/deliver_at: this is more than 30 days ahead"),
        );
        check(
            r#"{"delay":"1s","deliver_at":"1970-01-01T00:00:02Z"}"#,
            Err("/deliver_at: give `delay` or `deliver_at`, not both"),
        );
        check(
            r#"{"delay":5}"#,
            Err("/delay: a string is expected, not a number"),
        );
        check(
            r#"{"delay":"1s","ladder":"wechat"}"#,
            Err("/ladder: unknown field; known are delay, deliver_at"),
        );
        check("[]", Err("an object is expected, not an array"));
    }
}
