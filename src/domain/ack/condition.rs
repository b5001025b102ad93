//! What an answer is compared with.

use super::json_value::{LARGEST_EXACT, PlainValue};
use super::xml::{self, BadXml, DEEPEST};
use crate::domain::attempt::escape;
use crate::domain::attempt_reason::BodyFlaw;
use crate::domain::key::Key;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// How much of a wrong answer the reason quotes, in bytes.
const QUOTED_BYTES: usize = 60;
/// Replaced by the notification's id in a text.
const ID: &str = "{id}";
/// Replaced by the notification's topic in a text.
const TOPIC: &str = "{topic}";

/// What an answer has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Its body is a text.
    Text(TextCondition),
    /// Its status is one of these.
    Status(Statuses),
    /// Its body is JSON in which a place has a value.
    Json(JsonCondition),
    /// Its body is XML in which an element has a text.
    Xml(XmlCondition),
}

/// The text that a body has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextCondition {
    /// The text; `{id}` and `{topic}` in it stand for those of the notification.
    pub text: String,
    /// Whether upper and lower case of ASCII letters are the same.
    pub ignore_case: bool,
    /// Whether white space around it is wrong. Merchants' samples print a newline after it.
    pub exact: bool,
}

/// The statuses that acknowledge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statuses {
    /// 200 to 299.
    Success,
    /// These, in ascending order.
    Listed(Vec<u16>),
}

/// The value that a place in a JSON body has to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonCondition {
    /// The place (RFC 6901); empty for the whole body.
    pub pointer: String,
    /// The value.
    pub equals: Value,
}

/// The text that an element of an XML body has to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XmlCondition {
    /// The element's name as it is written in the body, with its prefix if it has one.
    pub element: String,
    /// The text.
    pub equals: String,
}

/// What a member of a JSON object takes beside its name and value, in bytes: the name's own parts, and its place in the map.
const MEMBER_BYTES: usize = 64;

impl Condition {
    /// About how many bytes its texts and values take.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Self::Text(condition) => condition.text.len(),
            Self::Status(Statuses::Success) => 0,
            Self::Status(Statuses::Listed(statuses)) => size_of_val(statuses.as_slice()),
            Self::Json(condition) => condition.pointer.len() + value_bytes(&condition.equals),
            Self::Xml(condition) => condition.element.len() + condition.equals.len(),
        }
    }

    /// Compares the body of the answer to the notification of this key. The error says how it differs.
    pub(super) fn check_body(&self, key: &Key, body: &[u8]) -> Result<(), BodyFlaw> {
        match self {
            Self::Text(condition) => condition.check(key, body),
            Self::Status(_) => Ok(()),
            Self::Json(condition) => condition.check(body),
            Self::Xml(condition) => condition.check(body),
        }
    }
}

impl TextCondition {
    fn check(&self, key: &Key, body: &[u8]) -> Result<(), BodyFlaw> {
        let expected = self.expected(key);
        // An id may begin or end with a space, so the text may too although the rule has none at its ends. A text of
        // nothing but spaces is not the same as an empty body.
        let wanted = expected.trim_ascii().as_bytes();
        let (given, wanted) = match self.exact || wanted.is_empty() {
            true => (body, expected.as_bytes()),
            false => (body.trim_ascii(), wanted),
        };
        let same = if self.ignore_case {
            given.eq_ignore_ascii_case(wanted)
        } else {
            given == wanted
        };
        if same {
            return Ok(());
        }
        let expected = expected.into_owned();
        Err(match body {
            [] => BodyFlaw::Empty { expected },
            body => BodyFlaw::OtherText {
                body: shown(body),
                expected,
            },
        })
    }

    /// The text for one notification.
    fn expected(&self, key: &Key) -> Cow<'_, str> {
        let mut rest = self.text.as_str();
        if !rest.contains(ID) && !rest.contains(TOPIC) {
            return Cow::Borrowed(rest);
        }
        // One pass, so that an id which contains `{topic}` stays as it is.
        let mut expected = String::new();
        while let Some(at) = rest.find('{') {
            expected.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix(ID) {
                expected.push_str(key.id());
                rest = after;
            } else if let Some(after) = rest.strip_prefix(TOPIC) {
                expected.push_str(key.topic());
                rest = after;
            } else {
                expected.push('{');
                rest = &rest[1..];
            }
        }
        expected.push_str(rest);
        Cow::Owned(expected)
    }
}

impl Statuses {
    /// Whether this status acknowledges.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        match self {
            Self::Success => (200..=299).contains(&status),
            Self::Listed(codes) => codes.contains(&status),
        }
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => out.write_str("2xx"),
            Self::Listed(codes) => {
                let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
                out.write_str(&codes.join(" or "))
            }
        }
    }
}

impl JsonCondition {
    fn check(&self, body: &[u8]) -> Result<(), BodyFlaw> {
        let Ok(PlainValue(json)) = serde_json::from_slice(body) else {
            return Err(BodyFlaw::NotJson { body: shown(body) });
        };
        let pointer = &self.pointer;
        match json.pointer(pointer) {
            Some(value) if is_same(value, &self.equals) => Ok(()),
            Some(value) => Err(BodyFlaw::OtherValue {
                place: pointer.clone(),
                found: shown(value.to_string().as_bytes()),
                expected: self.equals.to_string(),
            }),
            None => Err(BodyFlaw::NoPlace {
                place: pointer.clone(),
                body: shown(body),
            }),
        }
    }
}

/// Whether two values are the same. Receivers write a number as `0`, `0.0` or `0e0`. An integer that is no floating-point
/// number of its own is the same as none.
fn is_same(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Number(number), Value::Number(same)) => {
            number == same
                || number
                    .as_f64()
                    .zip(same.as_f64())
                    .is_some_and(|(number, same)| number == same && number.abs() < LARGEST_EXACT)
        }
        (Value::Array(items), Value::Array(same)) => {
            items.len() == same.len()
                && items
                    .iter()
                    .zip(same)
                    .all(|(item, same)| is_same(item, same))
        }
        (Value::Object(members), Value::Object(same)) => {
            members.len() == same.len()
                && members
                    .iter()
                    .all(|(name, member)| same.get(name).is_some_and(|same| is_same(member, same)))
        }
        _ => value == other,
    }
}

impl XmlCondition {
    fn check(&self, body: &[u8]) -> Result<(), BodyFlaw> {
        let Self { element, equals } = self;
        match xml::element_text(body, element) {
            Ok(text) if text == *equals => Ok(()),
            Ok(text) => Err(BodyFlaw::OtherValue {
                place: element.clone(),
                found: shown(text.as_bytes()),
                expected: equals.clone(),
            }),
            Err(bad) => {
                let (element, body) = (element.clone(), shown(body));
                Err(match bad {
                    BadXml::Malformed => BodyFlaw::Malformed { body },
                    BadXml::DocumentType => BodyFlaw::DocumentType { body },
                    BadXml::TooDeep => BodyFlaw::TooDeep {
                        deepest: DEEPEST,
                        body,
                    },
                    BadXml::Missing => BodyFlaw::NoElement { element, body },
                    BadXml::Several => BodyFlaw::SeveralElements { element, body },
                    BadXml::NotText => BodyFlaw::NestedElements { element, body },
                })
            }
        }
    }
}

/// The beginning of an answer, escaped.
fn shown(body: &[u8]) -> String {
    let shown = escape(&body[..body.len().min(QUOTED_BYTES)]);
    let more = if body.len() > QUOTED_BYTES { "..." } else { "" };
    format!("{shown}{more}")
}

/// About how many bytes a JSON value takes. It is as deep as the reader of JSON allows.
fn value_bytes(value: &Value) -> usize {
    let parts = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(members) => {
            let members = members.iter();
            let bytes = members.map(|(name, value)| MEMBER_BYTES + name.len() + value_bytes(value));
            bytes.sum()
        }
    };
    size_of::<Value>() + parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_whole() {
        let text = |text: &str, ignore_case, exact| {
            Condition::Text(TextCondition {
                text: text.to_string(),
                ignore_case,
                exact,
            })
        };
        let check = |condition: &Condition, body: &str, expected: bool| {
            let key = Key::new("paid", "a{topic}b").expect("a key");
            let checked = condition.check_body(&key, body.as_bytes());
            assert_eq!(
                checked.is_ok(),
                expected,
                "{condition:?} {body}: {checked:?}"
            );
        };
        check(&text("OK", false, false), "OK", true);
        check(&text("OK", false, false), "\r\nOK ", true);
        check(&text("OK", false, false), "ok", false);
        check(&text("OK", true, false), "ok\n", true);
        check(&text("OK", true, true), "ok\n", false);
        check(&text("[accepted]", false, true), "[accepted]", true);
        check(&text("ÄOK", true, true), "äok", false);
        check(&text("RECV_{id}", false, true), "RECV_a{topic}b", true);
        check(&text("RECV_{id}", false, true), "RECV_apaidb", false);
        check(&text("{topic}:{id}{", false, true), "paid:a{topic}b{", true);
        check(
            &text("{\"id\":\"{id}\"}", false, true),
            "{\"id\":\"a{topic}b\"}",
            true,
        );
        check(&text("{ID}{", false, true), "{ID}{", true);
    }

    #[test]
    fn spaces_at_the_ends_of_an_id_count_only_if_the_text_is_exact() {
        let check = |id: &str, text: &str, exact: bool, body: &str, expected: bool| {
            let condition = Condition::Text(TextCondition {
                text: text.to_string(),
                ignore_case: false,
                exact,
            });
            let key = Key::new("paid", id).expect("a key");
            let checked = condition.check_body(&key, body.as_bytes());
            assert_eq!(checked.is_ok(), expected, "{id:?} {text} {exact} {body:?}");
        };
        for body in [" 7 ", "7", "7\n"] {
            check(" 7 ", "{id}", false, body, true);
            check(" 7 ", "{id}", true, body, body == " 7 ");
        }
        check("7 ", "RECV {id}", false, "RECV 7", true);
        check("7 ", "{id}!", false, "7!", false);
        check("  ", "{id}", false, "", false);
        check("  ", "{id}", false, "  ", true);
    }

    #[test]
    fn json_values_are_compared_by_value() {
        fn check(pointer: &str, equals: &str, body: &str, expected: bool) {
            let condition = JsonCondition {
                pointer: pointer.to_string(),
                equals: serde_json::from_str(equals).expect("JSON"),
            };
            let checked = condition.check(body.as_bytes());
            assert_eq!(
                checked.is_ok(),
                expected,
                "{pointer} {equals} {body}: {checked:?}"
            );
        }
        check(
            "/err_no",
            "0",
            "{\"err_no\":0,\"err_tips\":\"success\"}",
            true,
        );
        check("/err_no", "0", " { \"err_no\" : 0.0 } ", true);
        check("/err_no", "0", "{\"err_no\":0e0}", true);
        check("/err_no", "0", "{\"err_no\":\"0\"}", false);
        check("/err_no", "0", "{\"err_no\":null}", false);
        check("/err_no", "0", "{\"err_no\":[0]}", false);
        check("/n", "9007199254740993", "{\"n\":9007199254740992}", false);
        check("/n", "9007199254740993", "{\"n\":9007199254740993}", true);
        check("/a/0/b~1c", "\"x\"", "{\"a\":[{\"b/c\":\"x\"}]}", true);
        check("", "\"ok\"", "\"ok\"", true);
        check("", "[1,{\"a\":2}]", "[1.0,{\"a\":2e0}]", true);
        check("", "{\"a\":1}", "{\"a\":1,\"b\":2}", false);
        check("/a", "1", "\u{feff}{\"a\":1}", false);
        check("/a", "1", "{\"a\":1}{\"a\":1}", false);
        check("/a", "1", "{\"a\":1", false);
        check("/a", "1", "", false);
        check("/a", "1", &"[".repeat(60_000), false);
    }

    #[test]
    fn elements_are_compared_by_their_text() {
        fn check(body: &str, expected: Result<(), &str>) {
            let condition = XmlCondition {
                element: "return_code".to_string(),
                equals: "SUCCESS".to_string(),
            };
            let checked = condition.check(body.as_bytes());
            let checked = checked.map_err(|flaw| flaw.to_string());
            assert_eq!(checked, expected.map_err(ToString::to_string), "{body}");
        }
        check(
            "<xml><return_code><![CDATA[SUCCESS]]></return_code></xml>",
            Ok(()),
        );
        check(
            "<xml><return_code>FAIL</return_code></xml>",
            Err("`return_code` in the body is `FAIL` and not `SUCCESS`"),
        );
    }
}
