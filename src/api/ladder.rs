//! Reads the ladder (the retry schedule) of a registration: a name or an object.
//!
//! An error inside the object is reported at `/ladder`, and the text of the error names the member.

use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, given, plain, string, wrong_kind};
use crate::api::schema::{
    DURATION, array_of, document, duration_or_null, named_schema, names, or_null, or_null_list,
    text,
};
use crate::domain::ladder::{CustomLadder, Ladder, MOST_INTERVALS, named};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Type};

const LADDER: &str = "/ladder";
/// The members of a ladder.
pub const LADDER_MEMBERS: [&str; 4] = ["intervals", "window", "repeat_last", "jitter"];

/// Reads the ladder of a registration or an endpoint; `None` if none is given.
///
/// # Errors
/// [`Noted`] if the name is unknown, or if a custom ladder breaks a rule.
pub fn read_ladder(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<Ladder>, Noted> {
    let Some(field) = given(field) else {
        return Ok(None);
    };
    let read = match field.get().as_bytes().first() {
        Some(b'"') => {
            let name = string(field).map_err(|bad| errors.add(LADDER, bad))?;
            Ladder::by_name(&name).map_err(|bad| errors.add(LADDER, bad))
        }
        Some(b'{') => read_custom(field.get(), errors),
        Some(_) | None => {
            Err(errors.add(LADDER, wrong_kind(field, "a ladder's name or an object")))
        }
    };
    read.map(Some)
}

fn read_custom(text: &str, errors: &mut FieldErrors) -> Result<Ladder, Noted> {
    let mut inner = FieldErrors::default();
    let members = fields::read(text, &LADDER_MEMBERS, "", &mut inner)
        .map_err(|_| errors.add(LADDER, "a member's name contains half a surrogate pair"))?;
    let [intervals, window, repeat_last, jitter] = members.map(given);
    let custom = CustomLadder {
        intervals: read_intervals(intervals, &mut inner),
        window: fields::optional(window, "/window", &mut inner, |window| {
            Ok::<_, &str>(window.to_string())
        })
        .unwrap_or_default(),
        repeat_last: plain(repeat_last, "/repeat_last", "true or false", &mut inner),
        jitter: plain(jitter, "/jitter", "a number from 0 to 0.5", &mut inner),
    };
    if inner.is_empty() {
        return Ladder::custom(&custom).map_err(|bad| errors.add(LADDER, bad));
    }
    let mut noted = Noted;
    for error in inner.into_list() {
        noted = errors.add(LADDER, error.in_words());
    }
    Err(noted)
}

/// Reads the intervals of a custom ladder. A ladder without intervals has one attempt.
fn read_intervals(field: Option<&RawValue>, errors: &mut FieldErrors) -> Vec<String> {
    const POINTER: &str = "/intervals";
    let Some(field) = field else {
        return Vec::new();
    };
    // At most one more interval than permitted is read, so that `Ladder::custom` refuses the ladder.
    let elements = match fields::elements(field.get(), MOST_INTERVALS + 1) {
        Ok((elements, _)) => elements,
        Err(bad) => {
            errors.add(POINTER, bad);
            return Vec::new();
        }
    };
    let mut intervals = Vec::with_capacity(elements.len());
    for (position, element) in elements.into_iter().enumerate() {
        match string(element) {
            Ok(interval) => intervals.push(interval.into_owned()),
            Err(bad) => {
                errors.add_member(POINTER, &position.to_string(), bad);
            }
        }
    }
    intervals
}

/// A ladder as a caller writes it: a name or an object.
pub struct LadderDocument;
named_schema!(LadderDocument, "Ladder", {
    let known: Vec<&str> = named::all()
        .iter()
        .filter_map(|(ladder, _)| ladder.name())
        .collect();
    AnyOfBuilder::new().item(names(&known)).item(custom_ladder()).description(Some(
        "When attempts are made: the name of a ladder, or intervals. If it is left out: that of the endpoint, else `alipay`.",
    ))
});

fn custom_ladder() -> ObjectBuilder {
    let interval = text().pattern(Some(DURATION));
    let members = [
        or_null_list(array_of(interval).max_items(Some(MOST_INTERVALS)))
            .description(Some("The waits between attempts. None: one attempt."))
            .into(),
        duration_or_null()
            .description(Some(
                "How long after the first attempt others may be due, at most 60 days.",
            ))
            .into(),
        or_null(Type::Boolean)
            .description(Some("Repeats the last interval until the window closes."))
            .into(),
        or_null(Type::Number)
            .minimum(Some(0.0))
            .maximum(Some(0.5))
            .description(Some(
                "By which share of itself an interval is shortened or lengthened at random.",
            ))
            .into(),
    ];
    document(&LADDER_MEMBERS, members, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn ladders_are_read_by_name_or_as_objects() {
        fn check(text: &str, expected: &str) {
            let mut errors = FieldErrors::default();
            let ladder = read_ladder(Some(raw(text)), &mut errors);
            assert_eq!(
                ladder.map(|ladder| ladder.map_or("none".to_string(), |ladder| ladder.to_text())),
                Ok(expected.to_string()),
                "{text}: {}",
                errors.summary()
            );
        }
        check("null", "none");
        check(r#""wechat""#, "wechat");
        check(
            r#"{"intervals":["10s","1m"],"window":"1h","repeat_last":true,"jitter":0.1}"#,
            r#"{"intervals":["10s","1m"],"window":"1h","repeat_last":true,"jitter":0.1}"#,
        );
        check(
            r#"{"intervals":["10s"],"window":null,"repeat_last":null,"jitter":null}"#,
            r#"{"intervals":["10s"],"window":"10s"}"#,
        );
        check(
            r#"{"intervals":["10s"],"jitter":0}"#,
            r#"{"intervals":["10s"],"window":"10s"}"#,
        );
        check(r#"{"intervals":[]}"#, r#"{"intervals":[],"window":"0s"}"#);
        check("{}", r#"{"intervals":[],"window":"0s"}"#);
    }

    #[test]
    fn bad_ladders_are_reported_at_the_ladder_and_name_the_member() {
        fn check(text: &str, expected: &str) {
            let mut errors = FieldErrors::default();
            read_ladder(Some(raw(text)), &mut errors).expect_err(text);
            let summary = errors.summary();
            assert!(summary.starts_with("/ladder: "), "{summary}");
            assert!(summary.contains(expected), "{text}: {summary}");
        }
        check(r#""alipya""#, "unknown ladder `alipya`");
        check(r#""\ud800""#, "half a surrogate pair");
        check(
            "7",
            "a ladder's name or an object is expected, not a number",
        );
        check("[]", "not an array");
        check(
            r#"{"windw":"1h"}"#,
            "/windw: unknown field; known are intervals",
        );
        check(
            r#"{"window":"1h","window":"1h"}"#,
            "/window: this field is given twice",
        );
        check(r#"{"\ud800":1}"#, "half a surrogate pair");
        check(
            r#"{"intervals":"10s"}"#,
            "/intervals: an array is expected, not a string",
        );
        check(
            r#"{"intervals":["1s",5]}"#,
            "/intervals/1: a string is expected, not a number",
        );
        check(
            r#"{"intervals":[null]}"#,
            "/intervals/0: a string is expected, not null",
        );
        check(r#"{"intervals":["-1s"]}"#, "`-1s` is not a duration");
        check(
            r#"{"window":3600}"#,
            "/window: a string is expected, not a number",
        );
        check(r#"{"window":"61d"}"#, "at most 60 days");
        check(
            r#"{"repeat_last":"yes"}"#,
            "/repeat_last: true or false is expected",
        );
        check(
            r#"{"jitter":"0.1"}"#,
            "/jitter: a number from 0 to 0.5 is expected",
        );
        check(
            r#"{"jitter":1e999}"#,
            "/jitter: a number from 0 to 0.5 is expected",
        );
        check(r#"{"jitter":0.51}"#, "from 0 to 0.5");
        check(r#"{"x":1,"jitter":[]}"#, "/x: unknown field");
        check(r#"{"x":1,"jitter":[]}"#, "/jitter: a number");
        let many = format!(r#"{{"intervals":[{}"1s"]}}"#, r#""1s","#.repeat(100));
        check(&many, "at most 100 intervals");
    }
}
