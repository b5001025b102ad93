//! Reads the reason that support staff give for a change by hand.

use crate::api::Api;
use crate::api::body::read_optional_json;
use crate::api::field_errors::FieldErrors;
use crate::api::fields::{self, UnreadableJson, optional};
use crate::api::problem::Problem;
use crate::api::registration::InvalidRequest;
use crate::api::schema::{document, named_schema, text_or_null};
use axum::extract::Request;
use utoipa::openapi::schema::ObjectBuilder;

const FIELDS: [&str; 1] = ["reason"];
/// Maximum length of a reason, in characters.
const LONGEST_REASON: usize = 500;

/// Reads `{"reason": "..."}` from the body of a request. The body and the field may be left out; then the reason
/// is empty.
///
/// # Errors
/// The problem to answer with.
pub async fn reason_of(api: &Api, request: Request) -> Result<String, Problem> {
    let (parts, body) = request.into_parts();
    let mut share = api.request_memory.share();
    let text = read_optional_json(&parts.headers, body, api.small_bounds(), &mut share).await?;
    match text {
        Some(text) => read_reason(text.as_str()).map_err(Problem::invalid),
        None => Ok(String::new()),
    }
}

fn read_reason(text: &str) -> Result<String, InvalidRequest> {
    let mut errors = FieldErrors::default();
    let unreadable = |unreadable: UnreadableJson| InvalidRequest::Unreadable(unreadable);
    let [reason] = fields::read(text, &FIELDS, "", &mut errors).map_err(unreadable)?;
    let reason = optional(reason, "/reason", &mut errors, check_reason);
    match reason {
        Ok(reason) if errors.is_empty() => Ok(reason.unwrap_or_default()),
        Ok(_) | Err(_) => Err(InvalidRequest::Fields(errors)),
    }
}

/// Checks a reason. Control characters are refused: a reason is plain text, and PostgreSQL does not store
/// the character NUL.
///
/// # Errors
/// A sentence that says what is allowed.
pub fn check_reason(reason: &str) -> Result<String, String> {
    let plain = |character: char| !character.is_control() || matches!(character, '\n' | '\t');
    if reason.chars().count() > LONGEST_REASON || !reason.chars().all(plain) {
        return Err(format!(
            "a reason is at most {LONGEST_REASON} characters and contains no control characters"
        ));
    }
    Ok(reason.to_string())
}

/// A reason as a caller gives it.
pub struct ReasonDocument;
named_schema!(
    ReasonDocument,
    "Reason",
    document(&FIELDS, [reason_or_null().into()], &[])
        .description(Some("Why it is done. The body may be left out."))
);

/// The schema of a reason.
#[must_use]
pub fn reason_or_null() -> ObjectBuilder {
    text_or_null()
        .max_length(Some(LONGEST_REASON))
        .pattern(Some("^[^\\u0000-\\u0008\\u000B-\\u001F\\u007F-\\u009F]*$"))
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
