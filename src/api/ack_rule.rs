//! Reads the ack rule that a registration or an endpoint chooses: a name or an object.
//!
//! An error inside an object is reported at the field itself, and names the member.

use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, given, plain, string, wrong_kind};
use crate::api::schema::{
    array_of, document, named_schema, names, names_or_null, nullable, or_null, text, text_or_null,
};
use crate::domain::ack::custom::{
    CustomAck, LONGEST_TEXT, MOST_STATUSES, WrittenJson, WrittenStatuses, WrittenXml,
};
use crate::domain::ack::json_value::{DEEPEST_EQUALS, read_equals};
use crate::domain::ack::{AckRule, BadAckRule, named};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, SchemaType, Type};

const ACK: &str = "/ack";
/// The members of an ack rule.
pub const ACK_MEMBERS: [&str; 6] = ["text", "ignore_case", "exact", "status", "json", "xml"];
/// The members of `json` in an ack rule.
pub const JSON_MEMBERS: [&str; 2] = ["pointer", "equals"];
/// The members of `xml` in an ack rule.
pub const XML_MEMBERS: [&str; 2] = ["element", "equals"];

/// The ack rule of a registration or an endpoint; `None` if none is given.
///
/// # Errors
/// [`Noted`] if there is no such rule, or one of the caller's own breaks a limit.
pub fn read_ack(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<AckRule>, Noted> {
    let Some(field) = given(field) else {
        return Ok(None);
    };
    let read = match field.get().as_bytes().first() {
        Some(b'"') => {
            let name = string(field).map_err(|bad| errors.add(ACK, bad))?;
            AckRule::by_name(&name).map_err(|bad| errors.add(ACK, bad))
        }
        Some(b'{') => read_custom(field.get(), errors),
        Some(_) | None => {
            let expected = "an ack rule's name or an object";
            Err(errors.add(ACK, wrong_kind(field, expected)))
        }
    };
    read.map(Some)
}

fn read_custom(text: &str, errors: &mut FieldErrors) -> Result<AckRule, Noted> {
    let mut inner = FieldErrors::default();
    let custom = read_members(text, &mut inner).map_err(|error| errors.add(ACK, error))?;
    if inner.is_empty() {
        return AckRule::custom(custom).map_err(|bad| errors.add(ACK, bad));
    }
    let mut noted = Noted;
    for error in inner.into_list() {
        noted = errors.add(ACK, error.in_words());
    }
    Err(noted)
}

fn read_members(text: &str, errors: &mut FieldErrors) -> Result<CustomAck, fields::UnreadableJson> {
    let members = fields::read(text, &ACK_MEMBERS, "", errors)?;
    let [text, ignore_case, exact, status, json, xml] = members.map(given);
    Ok(CustomAck {
        text: read_text(text, "/text", errors),
        ignore_case: plain(ignore_case, "/ignore_case", "true or false", errors),
        exact: plain(exact, "/exact", "true or false", errors),
        status: status.and_then(|status| read_status(status, errors)),
        json: json.and_then(|json| read_json(json, errors)),
        xml: xml.and_then(|xml| read_xml(xml, errors)),
    })
}

fn read_text(field: Option<&RawValue>, pointer: &str, errors: &mut FieldErrors) -> Option<String> {
    let read = fields::optional(field, pointer, errors, |text| {
        Ok::<_, &str>(text.to_string())
    });
    read.unwrap_or_default()
}

fn read_status(field: &RawValue, errors: &mut FieldErrors) -> Option<WrittenStatuses> {
    if field.get().starts_with('"') {
        return read_text(Some(field), "/status", errors).map(WrittenStatuses::Class);
    }
    // One more than a rule may list, so that the rule itself refuses that many.
    let listed = fields::elements(field.get(), MOST_STATUSES + 1).ok();
    let codes = listed.and_then(|(elements, _)| {
        let mut codes = elements.into_iter();
        codes.try_fold(Vec::new(), |mut read, code| {
            read.push(serde_json::from_str(code.get()).ok()?);
            Some(read)
        })
    });
    if codes.is_none() {
        errors.add("/status", BadAckRule::Status);
    }
    codes.map(WrittenStatuses::Codes)
}

fn read_json(field: &RawValue, errors: &mut FieldErrors) -> Option<WrittenJson> {
    let [pointer, equals] = read_object(field, &JSON_MEMBERS, "/json", errors)?;
    let pointer = fields::required(pointer, "/json/pointer", errors, keep);
    let Some(equals) = equals else {
        errors.add("/json/equals", "this field is missing");
        return None;
    };
    let Some(equals) = read_equals(equals.get()) else {
        let detail = format!(
            "this value cannot be compared with: it is nested more than {DEEPEST_EQUALS} levels deep, or has a number \
             that is not exact, or a character that JSON forbids"
        );
        errors.add("/json/equals", detail);
        return None;
    };
    Some(WrittenJson {
        pointer: pointer.ok()?,
        equals,
    })
}

fn read_xml(field: &RawValue, errors: &mut FieldErrors) -> Option<WrittenXml> {
    let [element, equals] = read_object(field, &XML_MEMBERS, "/xml", errors)?;
    let element = fields::required(element, "/xml/element", errors, keep);
    let equals = fields::required(equals, "/xml/equals", errors, keep);
    Some(WrittenXml {
        element: element.ok()?,
        equals: equals.ok()?,
    })
}

fn keep(text: &str) -> Result<String, BadAckRule> {
    Ok(text.to_string())
}

fn read_object<'a>(
    field: &'a RawValue,
    names: &'static [&'static str; 2],
    pointer: &str,
    errors: &mut FieldErrors,
) -> Option<[Option<&'a RawValue>; 2]> {
    match fields::read(field.get(), names, pointer, errors) {
        Ok(members) => Some(members),
        Err(bad) => {
            errors.add(pointer, bad);
            None
        }
    }
}

/// An ack rule as a caller writes it: a name or an object.
pub struct AckDocument;
named_schema!(AckDocument, "Ack", {
    let known: Vec<&str> = named::all()
        .iter()
        .filter_map(|rule| rule.rule.name())
        .collect();
    AnyOfBuilder::new().item(names(&known)).item(custom_rule()).description(Some(
        "Which answers acknowledge the notification: the name of a rule, or an object with exactly one of `text`, `status`, \
         `json` and `xml`. If it is left out: that of the endpoint, else `success`.",
    ))
});

fn custom_rule() -> ObjectBuilder {
    let short = || text().max_length(Some(LONGEST_TEXT));
    let of_json = [
        short().into(),
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .into(),
    ];
    let of_xml = [short().into(), short().into()];
    let status = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(200))
        .maximum(Some(599));
    let statuses = array_of(status)
        .min_items(Some(1))
        .max_items(Some(MOST_STATUSES))
        .unique_items(true);
    let members = [
        text_or_null()
            .max_length(Some(LONGEST_TEXT))
            .description(Some("The body has to be this text. `{id}` and `{topic}` stand for those of the notification."))
            .into(),
        or_null(Type::Boolean)
            .description(Some("With `text`: upper and lower case of ASCII letters are the same."))
            .into(),
        or_null(Type::Boolean)
            .description(Some("With `text`: white space around it is wrong."))
            .into(),
        AnyOfBuilder::new()
            .item(names_or_null(&["2xx"]))
            .item(statuses)
            .description(Some("`2xx`, or the statuses from 200 to 299 or 400 to 599 that acknowledge."))
            .into(),
        nullable(document(&JSON_MEMBERS, of_json, &JSON_MEMBERS))
            .description(Some("The body has to be JSON in which the place of a JSON pointer has this value."))
            .into(),
        nullable(document(&XML_MEMBERS, of_xml, &XML_MEMBERS))
            .description(Some("The body has to be XML in which the element has this text."))
            .into(),
    ];
    document(&ACK_MEMBERS, members, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let field: &RawValue = serde_json::from_str(text).expect("JSON");
        let mut errors = FieldErrors::default();
        let rule = read_ack(Some(field), &mut errors);
        rule.map(|rule| rule.map_or("none".into(), |rule| rule.to_text().into_owned()))
            .map_err(|Noted| errors.summary())
    }

    #[test]
    fn ack_rules_are_read_by_name_or_as_objects() {
        fn check(text: &str, expected: &str) {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        check("null", "none");
        check(r#""success""#, "success");
        check(r#""exact""#, "exact");
        check(r#""wechat-v2""#, "wechat-v2");
        check(r#"{"text":"OK"}"#, r#"{"text":"OK"}"#);
        check(
            r#"{"exact":true,"text":"R_{id}","ignore_case":false,"status":null}"#,
            r#"{"text":"R_{id}","exact":true}"#,
        );
        check(r#"{"status":"2xx"}"#, r#"{"status":"2xx"}"#);
        check(r#"{"status":[204, 200]}"#, r#"{"status":[200,204]}"#);
        check(
            r#"{"json":{"pointer":"/ok","equals":null}}"#,
            r#"{"json":{"pointer":"/ok","equals":null}}"#,
        );
        check(
            r#"{"xml":{"element":"code","equals":"OK"}}"#,
            r#"{"xml":{"element":"code","equals":"OK"}}"#,
        );
    }

    #[test]
    fn bad_ack_rules_are_reported_at_the_field_and_name_the_member() {
        fn check(text: &str, expected: &str) {
            let summary = read(text).expect_err(text);
            assert!(summary.starts_with("/ack: "), "{summary}");
            assert!(summary.contains(expected), "{text}: {summary}");
        }
        check(
            r#""Success""#,
            "unknown ack rule `Success`; known are success, exact",
        );
        check(
            "true",
            "an ack rule's name or an object is expected, not a boolean",
        );
        check("[]", "not an array");
        check("{}", "exactly one of");
        check(r#"{"text":"OK","status":"2xx"}"#, "exactly one of");
        check(r#"{"txt":"OK"}"#, "/txt: unknown field; known are text");
        check(
            r#"{"text":"OK","text":"OK"}"#,
            "/text: this field is given twice",
        );
        check(r#"{"text":7}"#, "/text: a string is expected, not a number");
        check(r#"{"text":"\ud800"}"#, "half a surrogate pair");
        check(
            r#"{"text":"OK","exact":"yes"}"#,
            "/exact: true or false is expected",
        );
        check(r#"{"status":"3xx"}"#, "`status` is \"2xx\" or a list");
        check(
            r#"{"status":200}"#,
            "/status: `status` is \"2xx\" or a list",
        );
        check(r#"{"status":["200"]}"#, "/status: `status` is");
        check(r#"{"status":[70000]}"#, "/status: `status` is");
        let many = format!(r#"{{"status":[{}200]}}"#, "200,".repeat(100));
        check(&many, "`status` is");
        check(
            r#"{"json":[]}"#,
            "/json: an object is expected, not an array",
        );
        check(
            r#"{"json":{"pointer":"/a"}}"#,
            "/json/equals: this field is missing",
        );
        check(
            r#"{"json":{"pointer":1,"equals":1}}"#,
            "/json/pointer: a string is expected",
        );
        check(
            r#"{"json":{"pointer":"a","equals":1}}"#,
            "`pointer` is a JSON pointer",
        );
        check(
            r#"{"json":{"pointer":"","equals":1,"x":1}}"#,
            "/json/x: unknown field",
        );
        for depth in [17, 126, 127, 300] {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            let deep = format!(r#"{{"json":{{"pointer":"","equals":{open}{close}}}}}"#);
            check(&deep, "/json/equals: this value cannot be compared with");
        }
        for number in ["18446744073709551616", "[9007199254740993.0]", "1e300"] {
            let written = format!(r#"{{"json":{{"pointer":"","equals":{number}}}}}"#);
            check(&written, "has a number that is not exact");
        }
        check(
            r#"{"xml":{"element":"a"}}"#,
            "/xml/equals: this field is missing",
        );
        check(
            r#"{"xml":{"element":"","equals":""}}"#,
            "`element` is the name",
        );
    }
}
