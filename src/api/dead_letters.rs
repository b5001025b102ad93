//! The routes `/v1/dead-letters`: list, replay and discard dead letters.

use crate::api::Api;
use crate::api::auth::OnBehalfOf;
use crate::api::body::read_optional_json;
use crate::api::field_errors::FieldErrors;
use crate::api::fields::{self, UnreadableJson, optional};
use crate::api::problem::Problem;
use crate::api::query::{KeyPath, NoQuery, dead_letters_request};
use crate::api::registration::InvalidRequest;
use crate::api::view::{ListView, json, notification};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use std::sync::Arc;

/// Maximum length of the reason of a change, in characters.
const LONGEST_REASON: usize = 500;

/// `GET /v1/dead-letters`: a page of dead letters. The one that died last comes first.
pub async fn list(State(api): State<Arc<Api>>, uri: Uri) -> Result<Response, Problem> {
    let request = dead_letters_request(&uri)?;
    let page = api
        .service
        .dead_letters(&request)
        .await
        .map_err(Problem::of_service)?;
    Ok(json(StatusCode::OK, &ListView::of(&page)))
}

/// `POST /v1/dead-letters/{topic}/{id}/replay`: starts the ladder again. The body is optional.
pub async fn replay(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_optional_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    let reason = match text {
        Some(text) => read_reason(text.as_str()).map_err(Problem::invalid)?,
        None => String::new(),
    };
    let snapshot = api
        .service
        .replay(&key, actor, &reason)
        .await
        .map_err(Problem::of_service)?;
    Ok(notification(StatusCode::OK, &snapshot))
}

/// `DELETE /v1/dead-letters/{topic}/{id}`: discards a dead letter. It cannot be replayed after that.
pub async fn discard(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
) -> Result<Response, Problem> {
    let snapshot = api
        .service
        .discard(&key, actor)
        .await
        .map_err(Problem::of_service)?;
    Ok(notification(StatusCode::OK, &snapshot))
}

/// Reads the reason of a change from the JSON of a body.
///
/// # Errors
/// What is wrong with the body.
pub fn read_reason(text: &str) -> Result<String, InvalidRequest> {
    let mut errors = FieldErrors::default();
    let unreadable = |unreadable: UnreadableJson| InvalidRequest::Unreadable(unreadable);
    let [reason] = fields::read(text, &["reason"], "", &mut errors).map_err(unreadable)?;
    let reason = optional(reason, "/reason", &mut errors, check_reason);
    match reason {
        Ok(reason) if errors.is_empty() => Ok(reason.unwrap_or_default()),
        Ok(_) | Err(_) => Err(InvalidRequest::Fields(errors)),
    }
}

/// Checks a reason. Control characters are refused: a reason is plain text, and PostgreSQL does not store
/// the character NUL.
fn check_reason(reason: &str) -> Result<String, String> {
    let plain = |character: char| !character.is_control() || matches!(character, '\n' | '\t');
    if reason.chars().count() > LONGEST_REASON || !reason.chars().all(plain) {
        return Err(format!(
            "a reason is at most {LONGEST_REASON} characters and contains no control characters"
        ));
    }
    Ok(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_short_text_and_may_be_left_out() {
        fn check(text: &str, expected: Result<&str, &str>) {
            let reason =
                read_reason(text).map_err(|invalid| Problem::invalid(invalid).detail().to_string());
            assert_eq!(
                reason.as_deref().map_err(String::as_str),
                expected,
                "{text}"
            );
        }
        const BAD: &str =
            "/reason: a reason is at most 500 characters and contains no control characters";
        check("{}", Ok(""));
        check(r#"{"reason":null}"#, Ok(""));
        check(r#"{"reason":"商户已恢复\n"}"#, Ok("商户已恢复\n"));
        let longest = "失".repeat(LONGEST_REASON);
        check(&format!("{{\"reason\":\"{longest}\"}}"), Ok(&longest));
        check(&format!("{{\"reason\":\"{longest}x\"}}"), Err(BAD));
        check(r#"{"reason":"\u0000"}"#, Err(BAD));
        check(
            r#"{"reason":5}"#,
            Err("/reason: a string is expected, not a number"),
        );
        check(
            r#"{"why":"x"}"#,
            Err("/why: unknown field; known are reason"),
        );
        check("[]", Err("an object is expected, not an array"));
        check(
            "{",
            Err("the body is not JSON: EOF while parsing an object at line 1 column 1"),
        );
    }
}
