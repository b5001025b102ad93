//! Reads the fields of an endpoint that no registration has.

use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, given, optional, wrong_kind};
use crate::domain::call_rate::{BadCallRate, CallRate};
use crate::domain::duration;
use crate::domain::endpoint::{
    LARGEST_METADATA, LONGEST_USER_AGENT, SHORTEST_TIMEOUT_MS, SignatureHeaders,
};
use crate::domain::job::HIGHEST_JOB_RATE;
use crate::domain::receiver_requests::GonePolicy;
use serde_json::Value;
use serde_json::value::RawValue;
use std::num::NonZeroU32;
use std::time::Duration;

/// The largest `concurrency` of an endpoint: the default of what a server makes in all.
pub(super) const MOST_CALLS: u32 = 4_096;
pub(super) const SIGNATURE_FIELDS: [&str; 3] = ["id", "timestamp", "signature"];

pub(super) fn check_timeout(text: &str, longest: Duration) -> Result<i64, String> {
    let timeout_ms = duration::parse_ms(text).map_err(|bad| bad.to_string())?;
    let longest_ms = i64::try_from(longest.as_millis()).unwrap_or(i64::MAX);
    if !(SHORTEST_TIMEOUT_MS..=longest_ms).contains(&timeout_ms) {
        return Err(format!(
            "a time-out is from {} to {}, the time-out of the server",
            duration::display_ms(SHORTEST_TIMEOUT_MS),
            duration::display_ms(longest_ms)
        ));
    }
    Ok(timeout_ms)
}

pub(super) fn read_concurrency(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<NonZeroU32>, Noted> {
    let Some(field) = given(field) else {
        return Ok(None);
    };
    let number: Option<NonZeroU32> = serde_json::from_str(field.get()).ok();
    let number = number.filter(|number| number.get() <= MOST_CALLS);
    number.map(Some).ok_or_else(|| {
        let detail = format!("a number of calls at a time, from 1 to {MOST_CALLS}, is expected");
        errors.add("/concurrency", detail)
    })
}

pub(super) fn read_rate(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<CallRate>, Noted> {
    let Some(field) = given(field) else {
        return Ok(None);
    };
    let number: Option<f64> = serde_json::from_str(field.get()).ok();
    let rate = number.ok_or(BadCallRate).and_then(CallRate::per_second);
    rate.map(Some).map_err(|bad| errors.add("/rate", bad))
}

pub(super) fn read_retry_after(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<bool>, Noted> {
    match given(field).map(RawValue::get) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(errors.add("/retry_after", "true or false is expected")),
    }
}

pub(super) fn read_gone(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<GonePolicy>, Noted> {
    optional(field, "/gone", errors, |name| {
        GonePolicy::from_name(name).ok_or("`park` or `hold` is expected")
    })
}

pub(super) fn read_after_outage_rate(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<CallRate>, Noted> {
    let Some(field) = given(field) else {
        return Ok(None);
    };
    let number: Option<f64> = serde_json::from_str(field.get()).ok();
    let number = number.filter(|rate| *rate <= HIGHEST_JOB_RATE);
    let rate = number.and_then(|rate| CallRate::per_second(rate).ok());
    rate.map(Some).ok_or_else(|| {
        let detail = format!(
            "a number of notifications per second, above 0 and at most {HIGHEST_JOB_RATE}, is expected"
        );
        errors.add("/after_outage_rate", detail)
    })
}

pub(super) fn check_user_agent(text: &str) -> Result<String, String> {
    let printable = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if text.is_empty() || text.len() > LONGEST_USER_AGENT || !printable || text.trim() != text {
        return Err(format!(
            "a user agent is 1 to {LONGEST_USER_AGENT} printable ASCII characters without a space at the \
             beginning or end"
        ));
    }
    Ok(text.to_string())
}

pub(super) fn read_signature_headers(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<SignatureHeaders, Noted> {
    const POINTER: &str = "/signature_headers";
    let standard = SignatureHeaders::default();
    let Some(field) = given(field) else {
        return Ok(standard);
    };
    let [id, timestamp, signature] = fields::read(field.get(), &SIGNATURE_FIELDS, POINTER, errors)
        .map_err(|bad| errors.add(POINTER, bad))?;
    let mut name = |field, name: &str, standard: String| {
        let pointer = format!("{POINTER}/{name}");
        let given = optional(field, &pointer, errors, SignatureHeaders::check_name);
        given.map(|given| given.unwrap_or(standard))
    };
    let id = name(id, "id", standard.id);
    let timestamp = name(timestamp, "timestamp", standard.timestamp);
    let signature = name(signature, "signature", standard.signature);
    let names = SignatureHeaders {
        id: id?,
        timestamp: timestamp?,
        signature: signature?,
    };
    let [id, timestamp, signature] = names.names();
    if id == timestamp || id == signature || timestamp == signature {
        return Err(errors.add(POINTER, "the three headers have different names"));
    }
    Ok(names)
}

pub(super) fn read_metadata(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<String>, Noted> {
    const POINTER: &str = "/metadata";
    let Some(field) = given(field) else {
        return Ok(None);
    };
    let text = field.get();
    if !text.starts_with('{') {
        return Err(errors.add(POINTER, wrong_kind(field, "an object")));
    }
    if text.len() > LARGEST_METADATA {
        let detail = format!("metadata is at most {LARGEST_METADATA} bytes of JSON");
        return Err(errors.add(POINTER, detail));
    }
    // A text with half a surrogate pair, or nested too deep, could not be read again. PostgreSQL does not store
    // the character NUL, but JSON writes it as an escape.
    if serde_json::from_str::<Value>(text).is_err() {
        return Err(errors.add(POINTER, "this value cannot be kept"));
    }
    Ok(Some(text.to_string()))
}
