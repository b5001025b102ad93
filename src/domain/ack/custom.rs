//! An ack rule of the caller's own: how it is written, within which limits, and why one is refused.

use super::condition::{Condition, JsonCondition, Statuses, TextCondition, XmlCondition};
use super::{AckRule, Rule};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use thiserror::Error;

/// Longest text, pointer or element's name, in bytes.
pub const LONGEST_TEXT: usize = 256;
/// Longest JSON value to compare with, in bytes of its shortest form.
pub const LONGEST_VALUE: usize = 1024;
/// Maximum number of statuses in a list.
pub const MOST_STATUSES: usize = 32;

/// A rule as it is written in JSON: one of `text`, `status`, `json` and `xml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomAck {
    /// The body has to be this text. `{id}` and `{topic}` stand for those of the notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// With `text`: upper and lower case of ASCII letters are the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// With `text`: white space around it is wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// The status has to be one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WrittenStatuses>,
    /// The body has to be JSON in which a place has a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<WrittenJson>,
    /// The body has to be XML in which an element has a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xml: Option<WrittenXml>,
}

/// The statuses of a rule as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WrittenStatuses {
    /// `2xx`.
    Class(String),
    /// A list of codes.
    Codes(Vec<u16>),
}

/// The `json` of a rule as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenJson {
    /// A JSON pointer (RFC 6901).
    pub pointer: String,
    /// A JSON value, as it is written.
    #[serde(deserialize_with = "super::json_value::deserialize")]
    pub equals: Value,
}

/// The `xml` of a rule as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenXml {
    /// The element's name.
    pub element: String,
    /// The text that it has to have.
    pub equals: String,
}

/// Why an ack rule is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadAckRule {
    /// No rule of that name.
    #[error("unknown ack rule `{name}`; known are {known}", known = known.join(", "))]
    Unknown {
        /// The beginning of what was asked for.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// Several conditions, or none.
    #[error("an ack rule has exactly one of `text`, `status`, `json` and `xml`")]
    NotOne,
    /// `ignore_case` or `exact` beside another condition.
    #[error("`ignore_case` and `exact` go with `text` only")]
    TextOnly,
    /// The text is empty, too long, or begins or ends with white space that is not compared.
    #[error(
        "`text` is 1 to {LONGEST_TEXT} bytes, without white space at its ends unless `exact` is true"
    )]
    Text,
    /// The status is neither.
    #[error(
        "`status` is \"2xx\" or a list of 1 to {MOST_STATUSES} statuses from 200 to 299 or 400 to 599, \
         each once"
    )]
    Status,
    /// The pointer is none.
    #[error(
        "`pointer` is a JSON pointer: empty, or `/` before each name, at most {LONGEST_TEXT} bytes"
    )]
    Pointer,
    /// The value is too long.
    #[error("`equals` is at most {LONGEST_VALUE} bytes of JSON")]
    Value,
    /// The element has no name.
    #[error("`element` is the name of an element, 1 to {LONGEST_TEXT} bytes")]
    Element,
    /// The element's text is too long, or begins or ends with white space, which is not compared.
    #[error("`equals` is at most {LONGEST_TEXT} bytes, without white space at its ends")]
    ElementText,
    /// The text is neither a name nor an object of a rule.
    #[error("an ack rule is a name or an object: {0}")]
    Shape(String),
}

impl AckRule {
    /// A rule of the caller's own.
    ///
    /// # Errors
    /// [`BadAckRule`] says which limit it breaks.
    pub fn custom(custom: CustomAck) -> Result<Self, BadAckRule> {
        Ok(Self(Arc::new(Rule {
            name: None,
            condition: custom.check()?,
        })))
    }
}

impl CustomAck {
    /// How a rule is written if it has no name.
    pub(super) fn of(condition: &Condition) -> Self {
        let mut written = Self::default();
        match condition.clone() {
            Condition::Text(condition) => {
                written.text = Some(condition.text);
                written.ignore_case = condition.ignore_case;
                written.exact = condition.exact;
            }
            Condition::Status(Statuses::Success) => {
                written.status = Some(WrittenStatuses::Class("2xx".to_string()));
            }
            Condition::Status(Statuses::Listed(codes)) => {
                written.status = Some(WrittenStatuses::Codes(codes));
            }
            Condition::Json(JsonCondition { pointer, equals }) => {
                written.json = Some(WrittenJson { pointer, equals });
            }
            Condition::Xml(XmlCondition { element, equals }) => {
                written.xml = Some(WrittenXml { element, equals });
            }
        }
        written
    }

    fn check(self) -> Result<Condition, BadAckRule> {
        let of_text = self.ignore_case || self.exact;
        match (self.text, self.status, self.json, self.xml) {
            (Some(text), None, None, None) => check_text(text, self.ignore_case, self.exact),
            (None, Some(_), None, None)
            | (None, None, Some(_), None)
            | (None, None, None, Some(_))
                if of_text =>
            {
                Err(BadAckRule::TextOnly)
            }
            (None, Some(statuses), None, None) => check_statuses(statuses),
            (None, None, Some(json), None) => check_json(json),
            (None, None, None, Some(xml)) => check_xml(xml),
            _ => Err(BadAckRule::NotOne),
        }
    }
}

fn check_text(text: String, ignore_case: bool, exact: bool) -> Result<Condition, BadAckRule> {
    let is_comparable = exact || text.trim_ascii().len() == text.len();
    if text.is_empty() || text.len() > LONGEST_TEXT || !is_comparable {
        return Err(BadAckRule::Text);
    }
    Ok(Condition::Text(TextCondition {
        text,
        ignore_case,
        exact,
    }))
}

fn check_statuses(written: WrittenStatuses) -> Result<Condition, BadAckRule> {
    let mut codes = match written {
        WrittenStatuses::Class(class) if class == "2xx" => {
            return Ok(Condition::Status(Statuses::Success));
        }
        WrittenStatuses::Class(_) => return Err(BadAckRule::Status),
        WrittenStatuses::Codes(codes) => codes,
    };
    let listed = codes.len();
    codes.sort_unstable();
    codes.dedup();
    let all_valid = codes
        .iter()
        .all(|code| matches!(code, 200..=299 | 400..=599));
    if !all_valid || codes.len() != listed || !(1..=MOST_STATUSES).contains(&listed) {
        return Err(BadAckRule::Status);
    }
    Ok(Condition::Status(Statuses::Listed(codes)))
}

fn check_json(WrittenJson { pointer, equals }: WrittenJson) -> Result<Condition, BadAckRule> {
    if pointer.len() > LONGEST_TEXT || !(pointer.is_empty() || pointer.starts_with('/')) {
        return Err(BadAckRule::Pointer);
    }
    if equals.to_string().len() > LONGEST_VALUE {
        return Err(BadAckRule::Value);
    }
    Ok(Condition::Json(JsonCondition { pointer, equals }))
}

fn check_xml(WrittenXml { element, equals }: WrittenXml) -> Result<Condition, BadAckRule> {
    let is_markup = |character: char| character.is_whitespace() || "<>&/='\"".contains(character);
    if element.is_empty() || element.len() > LONGEST_TEXT || element.contains(is_markup) {
        return Err(BadAckRule::Element);
    }
    if equals.len() > LONGEST_TEXT || equals.trim_ascii().len() != equals.len() {
        return Err(BadAckRule::ElementText);
    }
    Ok(Condition::Xml(XmlCondition { element, equals }))
}
