//! Reads a registration from JSON, and checks it. The result is a [`Registration`] or a list of all wrong
//! fields.
//!
//! In an optional field, `null` means the same as a missing field. In `body`, `null` is a JSON value and is
//! delivered.

use crate::api::ack_rule::{AckDocument, read_ack};
use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, UnreadableJson, given, optional, required, string};
use crate::api::headers_field::{headers_or_null, read_headers};
use crate::api::ladder::{LadderDocument, read_ladder};
use crate::api::order_field::{OrderDocument, read_order};
use crate::api::schema::{
    NAME, Part, PriorityName, document, duration_or_null, named_schema, reference_or_null,
    text_or_null, time_or_null, topic, url_or_null,
};
use crate::domain::alert::ALERT_TOPIC;
use crate::domain::destination::Destination;
use crate::domain::duration;
use crate::domain::endpoint::EndpointName;
use crate::domain::key::{Key, LONGEST_ID, check_id, check_topic};
use crate::domain::notification::{
    LONGEST_CONTENT_TYPE, LONGEST_DELAY_MS, Registration, Start, Target,
};
use crate::domain::priority::Priority;
use crate::domain::timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use uuid::Uuid;

const FIELDS: [&str; 14] = [
    "topic",
    "id",
    "endpoint",
    "url",
    "body",
    "body_base64",
    "content_type",
    "headers",
    "delay",
    "deliver_at",
    "ladder",
    "ack",
    "priority",
    "order",
];

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The values that a registration is checked against.
#[derive(Debug, Clone, Copy)]
pub struct RegistrationContext {
    /// Maximum length of a notification's body, in bytes.
    pub largest_body_bytes: usize,
    /// The schedule's time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// The error for a body that is not a valid request.
#[derive(Debug)]
pub enum InvalidRequest {
    /// The text is not a JSON object.
    Unreadable(UnreadableJson),
    /// These fields are wrong.
    Fields(FieldErrors),
}

/// Reads one registration.
///
/// # Errors
/// [`InvalidRequest`] lists every wrong field.
pub fn parse(text: &str, measure: RegistrationContext) -> Result<Registration, InvalidRequest> {
    let mut errors = FieldErrors::default();
    let [
        topic,
        id,
        endpoint,
        url,
        body,
        body_base64,
        content_type,
        headers,
        delay,
        deliver_at,
        ladder,
        ack,
        priority,
        order,
    ] = fields::read(text, &FIELDS, "", &mut errors).map_err(InvalidRequest::Unreadable)?;
    // All fields are read before an error is returned, so that the list contains all errors.
    let read = (
        read_key(topic, id, &mut errors),
        read_target(endpoint, url, &mut errors),
        read_body(body, body_base64, measure.largest_body_bytes, &mut errors),
        optional(
            content_type,
            "/content_type",
            &mut errors,
            check_content_type,
        ),
        read_headers(headers, &mut errors),
        read_start(delay, deliver_at, measure.now_ms, &mut errors),
        read_ladder(ladder, &mut errors),
        read_ack(ack, &mut errors),
        optional(priority, "/priority", &mut errors, read_priority),
        read_order(order, &mut errors),
    );
    match read {
        (
            Ok(key),
            Ok(target),
            Ok((body, default_type)),
            Ok(content_type),
            Ok(headers),
            Ok(start),
            Ok(ladder),
            Ok(ack),
            Ok(priority),
            Ok(order),
        ) if errors.is_empty() => Ok(Registration {
            key,
            target,
            body,
            content_type: content_type.unwrap_or_else(|| default_type.to_string()),
            headers,
            start: start.unwrap_or(Start::After(0)),
            ladder,
            ack,
            priority: priority.unwrap_or_default(),
            order,
        }),
        _ => Err(InvalidRequest::Fields(errors)),
    }
}

/// Reads what is to be called: an endpoint, a URL, or an endpoint with another URL.
fn read_target(
    endpoint: Option<&RawValue>,
    url: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Target, Noted> {
    let endpoint = optional(endpoint, "/endpoint", errors, EndpointName::parse);
    let url = optional(url, "/url", errors, Destination::parse);
    match (endpoint?, url?) {
        (Some(endpoint), url) => Ok(Target::Endpoint(endpoint, url)),
        (None, Some(url)) => Ok(Target::Url(url)),
        (None, None) => Err(errors.add("/url", "this field is missing; give `url` or `endpoint`")),
    }
}

fn read_key(
    topic: Option<&RawValue>,
    id: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Key, Noted> {
    let topic = required(topic, "/topic", errors, |topic| {
        check_topic(topic).map_err(|bad| bad.to_string())?;
        if topic == ALERT_TOPIC {
            return Err(format!(
                "`{ALERT_TOPIC}` is the topic of the server's own alerts"
            ));
        }
        Ok(topic.to_string())
    });
    let id = optional(id, "/id", errors, |id| {
        check_id(id).map(|()| id.to_string())
    });
    let id = id?.unwrap_or_else(|| Uuid::now_v7().to_string());
    Ok(Key::new(&topic?, &id).expect("invariant: both parts were checked"))
}

/// Reads the bytes to deliver. Also returns the default of the content type.
fn read_body(
    body: Option<&RawValue>,
    body_base64: Option<&RawValue>,
    largest: usize,
    errors: &mut FieldErrors,
) -> Result<(Bytes, &'static str), Noted> {
    let too_large = |pointer, errors: &mut FieldErrors| {
        let detail = format!("a body is at most {largest} bytes long");
        Err(errors.add_too_large(pointer, detail))
    };
    match (body, given(body_base64)) {
        (None, None) => Err(errors.add("/body", "this field is missing")),
        (Some(_), Some(_)) => {
            Err(errors.add("/body_base64", "give `body` or `body_base64`, not both"))
        }
        (Some(body), None) if body.get().starts_with('"') => {
            let text = string(body).map_err(|bad| errors.add("/body", bad))?;
            if text.len() > largest {
                return too_large("/body", errors);
            }
            Ok((Bytes::from(text.into_owned().into_bytes()), TEXT))
        }
        (Some(body), None) => {
            let text = body.get();
            if text.len() > largest {
                return too_large("/body", errors);
            }
            Ok((Bytes::copy_from_slice(text.as_bytes()), JSON))
        }
        (None, Some(encoded)) => {
            let encoded = string(encoded).map_err(|bad| errors.add("/body_base64", bad))?;
            let bytes = STANDARD.decode(encoded.as_bytes()).map_err(|error| {
                let detail = format!("not standard base64 with padding: {error}");
                errors.add("/body_base64", detail)
            })?;
            if bytes.len() > largest {
                return too_large("/body_base64", errors);
            }
            Ok((Bytes::from(bytes), JSON))
        }
    }
}

fn check_content_type(text: &str) -> Result<String, String> {
    let printable = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if text.is_empty() || text.len() > LONGEST_CONTENT_TYPE || !printable || text.trim() != text {
        return Err(format!(
            "a content type is 1 to {LONGEST_CONTENT_TYPE} printable ASCII characters without a space at the beginning or end"
        ));
    }
    Ok(text.to_string())
}

fn read_priority(name: &str) -> Result<Priority, &'static str> {
    Priority::from_name(name).ok_or("a priority is `high`, `normal` or `low`")
}

/// Reads when the first attempt is due; `None` if neither field is given.
pub(super) fn read_start(
    delay: Option<&RawValue>,
    deliver_at: Option<&RawValue>,
    now_ms: i64,
    errors: &mut FieldErrors,
) -> Result<Option<Start>, Noted> {
    let (delay, deliver_at) = (given(delay), given(deliver_at));
    let both = delay.is_some() && deliver_at.is_some();
    let delay_ms = optional(delay, "/delay", errors, |text| {
        let delay_ms = duration::parse_ms(text).map_err(|bad| bad.to_string())?;
        if delay_ms > LONGEST_DELAY_MS {
            return Err("a delay is at most 30 days".to_string());
        }
        Ok(delay_ms)
    });
    let at_ms = optional(deliver_at, "/deliver_at", errors, |text| {
        let at_ms = timestamp::parse_ms(text).map_err(|bad| bad.to_string())?;
        if at_ms > now_ms + LONGEST_DELAY_MS {
            return Err("this is more than 30 days ahead".to_string());
        }
        Ok(at_ms)
    });
    if both {
        return Err(errors.add("/deliver_at", "give `delay` or `deliver_at`, not both"));
    }
    let start = match (delay_ms?, at_ms?) {
        (_, Some(at_ms)) => Some(Start::At(at_ms)),
        (Some(delay_ms), None) => Some(Start::After(delay_ms)),
        (None, None) => None,
    };
    Ok(start)
}

/// A registration as a caller writes it.
pub struct RegistrationDocument;
named_schema!(
    RegistrationDocument,
    "Registration",
    document(&FIELDS, described(), &["topic"]).description(Some(
        "A notification to be registered. `url` or `endpoint` is needed, and `body` or `body_base64`."
    ))
);

fn described() -> [Part; FIELDS.len()] {
    let body = ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some(
            "A JSON string is sent byte for byte; any other JSON value, `null` included, as the very text that was received.",
        ));
    let encoded = text_or_null().description(Some(
        "Instead of `body`, for bytes: standard base64 with padding.",
    ));
    let content_type = text_or_null()
        .max_length(Some(LONGEST_CONTENT_TYPE))
        .pattern(Some("^[!-~]([ -~]*[!-~])?$"))
        .description(Some(
            "If it is left out: `application/json`, or `text/plain; charset=utf-8` for a string body.",
        ));
    let delay = duration_or_null().description(Some(
        "When the first attempt is due, at most 30 days ahead.",
    ));
    let deliver_at = time_or_null().description(Some(
        "Instead of `delay`. A time in the past means at once.",
    ));
    [
        topic().into(),
        text_or_null()
            .min_length(Some(1))
            .max_length(Some(LONGEST_ID))
            .pattern(Some("^[ -~]+$"))
            .description(Some(
                "The caller's own, unique within the topic. If it is left out, one is made.",
            ))
            .into(),
        text_or_null()
            .pattern(Some(NAME))
            .description(Some(
                "The name of an endpoint, instead of `url` or beside it.",
            ))
            .into(),
        url_or_null().into(),
        body.into(),
        encoded.into(),
        content_type.into(),
        headers_or_null().into(),
        delay.into(),
        deliver_at.into(),
        reference_or_null::<LadderDocument>().into(),
        reference_or_null::<AckDocument>().into(),
        reference_or_null::<PriorityName>().into(),
        reference_or_null::<OrderDocument>().into(),
    ]
}

#[cfg(test)]
mod tests;
