//! The JSON form of an endpoint: reading it, showing it, and changing it by a merge patch (RFC 7396).

use crate::api::ack_rule::read_ack;
use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, UnreadableJson, given, optional, required, wrong_kind};
use crate::api::headers_field::read_headers;
use crate::api::key_document::{KeyView, read_keys};
use crate::api::ladder::read_ladder;
use crate::api::registration::InvalidRequest;
use crate::domain::destination::Destination;
use crate::domain::duration;
use crate::domain::endpoint::{
    Endpoint, EndpointSettings, LARGEST_METADATA, LONGEST_USER_AGENT, SHORTEST_TIMEOUT_MS,
    SignatureHeaders,
};
use crate::domain::timestamp::display_ms;
use crate::service::EndpointRequest;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::time::Duration;

const FIELDS: [&str; 9] = [
    "url",
    "ladder",
    "ack",
    "timeout",
    "headers",
    "user_agent",
    "signature_headers",
    "metadata",
    "keys",
];
const SIGNATURE_FIELDS: [&str; 3] = ["id", "timestamp", "signature"];

/// An endpoint in an answer.
#[derive(Debug, Serialize)]
pub struct EndpointView<'a> {
    name: &'a str,
    version: u32,
    #[serde(flatten)]
    settings: SettingsView<'a>,
    /// The newest first.
    keys: Vec<KeyView<'a>>,
    /// Until when the default secret of the server signs along with the keys.
    default_secret_until: Option<String>,
    created_at: String,
    changed_at: String,
}

/// The settings of an endpoint, with the names that a request has for them. What is not set is `null`.
#[derive(Debug, Serialize)]
struct SettingsView<'a> {
    url: &'a str,
    ladder: Option<Box<RawValue>>,
    ack: Option<Box<RawValue>>,
    timeout: Option<String>,
    headers: Map<String, Value>,
    user_agent: Option<&'a str>,
    signature_headers: &'a SignatureHeaders,
    metadata: Option<Box<RawValue>>,
}

impl<'a> EndpointView<'a> {
    /// The view of an endpoint.
    #[must_use]
    pub fn of(endpoint: &'a Endpoint) -> Self {
        Self {
            name: endpoint.name.as_str(),
            version: endpoint.version,
            settings: SettingsView::of(&endpoint.settings),
            keys: endpoint.keys.list().iter().map(KeyView::of).collect(),
            default_secret_until: endpoint.keys.default_until_ms().map(display_ms),
            created_at: display_ms(endpoint.created_ms),
            changed_at: display_ms(endpoint.changed_ms),
        }
    }
}

impl<'a> SettingsView<'a> {
    fn of(settings: &'a EndpointSettings) -> Self {
        let headers = settings.headers.pairs().iter();
        Self {
            url: settings.url.as_str(),
            ladder: (settings.ladder.as_ref()).map(|ladder| name_or_object(&ladder.to_text())),
            ack: settings
                .ack
                .as_ref()
                .map(|ack| name_or_object(&ack.to_text())),
            timeout: settings.timeout_ms.map(duration::display_ms),
            headers: headers
                .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
                .collect(),
            user_agent: settings.user_agent.as_deref(),
            signature_headers: &settings.signature_headers,
            metadata: settings
                .metadata
                .clone()
                .and_then(|text| RawValue::from_string(text).ok()),
        }
    }
}

/// The stored form of a ladder or a rule is a name, or JSON.
fn name_or_object(text: &str) -> Box<RawValue> {
    let json = if text.starts_with('{') {
        text.to_string()
    } else {
        Value::from(text).to_string()
    };
    RawValue::from_string(json).expect("invariant: a quoted name and a stored object are JSON")
}

/// Reads an endpoint. A call may take at most `longest_timeout`.
///
/// # Errors
/// [`InvalidRequest`] lists every wrong field.
pub fn parse(text: &str, longest_timeout: Duration) -> Result<EndpointRequest, InvalidRequest> {
    let mut errors = FieldErrors::default();
    let [
        url,
        ladder,
        ack,
        timeout,
        headers,
        user_agent,
        signature_headers,
        metadata,
        keys,
    ] = fields::read(text, &FIELDS, "", &mut errors).map_err(InvalidRequest::Unreadable)?;
    let read = (
        required(url, "/url", &mut errors, Destination::parse),
        read_ladder(ladder, &mut errors),
        read_ack(ack, &mut errors),
        optional(timeout, "/timeout", &mut errors, |text| {
            check_timeout(text, longest_timeout)
        }),
        read_headers(headers, &mut errors),
        optional(user_agent, "/user_agent", &mut errors, check_user_agent),
        read_signature_headers(signature_headers, &mut errors),
        read_metadata(metadata, &mut errors),
        read_keys(keys, &mut errors),
    );
    let (
        Ok(url),
        Ok(ladder),
        Ok(ack),
        Ok(timeout_ms),
        Ok(headers),
        Ok(user_agent),
        Ok(signature_headers),
        Ok(metadata),
        Ok(keys),
    ) = read
    else {
        return Err(InvalidRequest::Fields(errors));
    };
    let taken = signature_headers.names();
    for (name, _) in headers.pairs() {
        if taken.contains(&name.as_str()) {
            let detail = "a header of the signature has this name";
            errors.add_member("/headers", name, detail);
        }
    }
    if !errors.is_empty() {
        return Err(InvalidRequest::Fields(errors));
    }
    let settings = EndpointSettings {
        url,
        ladder,
        ack,
        timeout_ms,
        headers,
        user_agent,
        signature_headers,
        metadata,
    };
    Ok(EndpointRequest { settings, keys })
}

/// Applies a merge patch (RFC 7396) to an endpoint: a member replaces the one there, `null` removes it, and
/// objects are merged. The keys are replaced as a whole; `null` removes all of them.
///
/// # Errors
/// [`InvalidRequest`] lists every wrong field of the patch, or of the endpoint that would result.
pub fn patched(
    before: &EndpointSettings,
    patch: &str,
    longest_timeout: Duration,
) -> Result<EndpointRequest, InvalidRequest> {
    // Unknown and duplicate names are errors here too: in the merged document they could not be seen.
    let mut errors = FieldErrors::default();
    let fields =
        fields::read(patch, &FIELDS, "", &mut errors).map_err(InvalidRequest::Unreadable)?;
    let [.., keys] = fields;
    let removes_keys = keys.is_some_and(|keys| keys.get() == "null");
    if !errors.is_empty() {
        return Err(InvalidRequest::Fields(errors));
    }
    let syntax = |error| InvalidRequest::Unreadable(UnreadableJson::Syntax(error));
    let patch: Value = serde_json::from_str(patch).map_err(syntax)?;
    let mut document = serde_json::to_value(SettingsView::of(before)).map_err(syntax)?;
    merge(&mut document, patch);
    let mut request = parse(&document.to_string(), longest_timeout)?;
    if removes_keys {
        request.keys = Some(Vec::new());
    }
    Ok(request)
}

/// The algorithm of RFC 7396, section 2. The depth is that of the patch, which the parser limits to 128.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

fn check_timeout(text: &str, longest: Duration) -> Result<i64, String> {
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

fn check_user_agent(text: &str) -> Result<String, String> {
    let printable = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if text.is_empty() || text.len() > LONGEST_USER_AGENT || !printable || text.trim() != text {
        return Err(format!(
            "a user agent is 1 to {LONGEST_USER_AGENT} printable ASCII characters without a space at the \
             beginning or end"
        ));
    }
    Ok(text.to_string())
}

fn read_signature_headers(
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

fn read_metadata(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::problem::Problem;

    const LONGEST: Duration = Duration::from_secs(15);
    const PLAIN: &str = r#"{"url":"https://shop.example/n"}"#;
    const FULL: &str = r#"{"url":"https://shop.example/n","ladder":"wechat","ack":{"status":"2xx"},"timeout":"5s",
        "headers":{"X-Shop":"1"},"user_agent":"Pay/1","signature_headers":{"id":"X-Id"},"metadata":{"a":[1]}}"#;

    fn summary(invalid: InvalidRequest) -> String {
        Problem::invalid(invalid).detail().to_string()
    }

    #[test]
    fn an_endpoint_is_shown_as_it_was_set() {
        fn check(text: &str, expected: &str) {
            let settings = parse(text, LONGEST).map_err(summary).expect(text).settings;
            let shown = serde_json::to_string(&SettingsView::of(&settings)).expect("JSON");
            assert_eq!(shown, expected);
            let again = parse(&shown, LONGEST)
                .map_err(summary)
                .expect("what is shown can be set");
            assert_eq!(again.settings, settings);
        }
        check(
            PLAIN,
            r#"{"url":"https://shop.example/n","ladder":null,"ack":null,"timeout":null,"headers":{},"user_agent":null,"signature_headers":{"id":"webhook-id","timestamp":"webhook-timestamp","signature":"webhook-signature"},"metadata":null}"#,
        );
        check(
            FULL,
            r#"{"url":"https://shop.example/n","ladder":"wechat","ack":{"status":"2xx"},"timeout":"5s","headers":{"x-shop":"1"},"user_agent":"Pay/1","signature_headers":{"id":"x-id","timestamp":"webhook-timestamp","signature":"webhook-signature"},"metadata":{"a":[1]}}"#,
        );
    }

    #[test]
    fn wrong_fields_are_named() {
        fn check(members: &str, expected: &str) {
            let text = format!(r#"{{"url":"https://shop.example/n",{members}}}"#);
            let found = summary(parse(&text, LONGEST).expect_err(members));
            assert!(found.contains(expected), "{members}: {found}");
        }
        check(
            r#""rates":1"#,
            "/rates: unknown field; known are url, ladder",
        );
        check(
            r#""url":"https://b.example""#,
            "/url: this field is given twice",
        );
        check(r#""ladder":"x""#, "/ladder: unknown ladder `x`");
        check(r#""ack":"x""#, "/ack: unknown ack rule `x`");
        check(
            r#""timeout":"99ms""#,
            "/timeout: a time-out is from 100ms to 15s",
        );
        check(
            r#""timeout":"16s""#,
            "/timeout: a time-out is from 100ms to 15s",
        );
        check(r#""timeout":5"#, "/timeout: a string is expected");
        check(r#""headers":{"host":"a"}"#, "/headers/host: ");
        check(
            r#""headers":{"x-id":"a"},"signature_headers":{"id":"X-Id"}"#,
            "/headers/x-id: ",
        );
        check(
            r#""user_agent":"""#,
            "/user_agent: a user agent is 1 to 256",
        );
        check(r#""user_agent":"a\nb""#, "/user_agent: a user agent is");
        check(
            r#""signature_headers":{"id":"Host"}"#,
            "/signature_headers/id: ",
        );
        check(
            r#""signature_headers":{"x":"a"}"#,
            "/signature_headers/x: unknown field",
        );
        check(
            r#""signature_headers":{"id":"x","timestamp":"X"}"#,
            "/signature_headers: the three headers",
        );
        check(
            r#""metadata":[]"#,
            "/metadata: an object is expected, not an array",
        );
        check(
            &format!(r#""metadata":{{"a":"{}"}}"#, "x".repeat(8_192)),
            "/metadata: metadata is at most",
        );
        check(
            r#""metadata":{"a":"\ud800"}"#,
            "/metadata: this value cannot be kept",
        );
        let missing = summary(parse("{}", LONGEST).expect_err("no url"));
        assert_eq!(missing, "/url: this field is missing");
    }

    #[test]
    fn a_patch_replaces_removes_and_merges() {
        fn check(patch: &str, expected: Result<&str, &str>) {
            let before = parse(FULL, LONGEST).expect("valid").settings;
            let after = patched(&before, patch, LONGEST)
                .map(|request| request.settings)
                .map_err(summary);
            let expected = expected.map(|text| parse(text, LONGEST).expect(text).settings);
            match (&after, &expected) {
                (Err(found), Err(expected)) => {
                    assert!(found.contains(expected), "{patch}: {found}")
                }
                (after, expected) => {
                    assert_eq!(after.as_ref().ok(), expected.as_ref().ok(), "{patch}")
                }
            }
        }
        check("{}", Ok(FULL));
        check(r#"{"timeout":"7s"}"#, Ok(&FULL.replace("5s", "7s")));
        check(
            r#"{"ladder":null,"ack":null,"timeout":null,"headers":null,"user_agent":null,"signature_headers":null,
                "metadata":null}"#,
            Ok(PLAIN),
        );
        check(
            r#"{"headers":{"x-shop":null,"y":"2"},"metadata":{"b":{"c":null,"d":1}}}"#,
            Ok(&FULL
                .replace(r#""X-Shop":"1""#, r#""y":"2""#)
                .replace("[1]", r#"[1],"b":{"d":1}"#)),
        );
        check(r#"{"ack":{"text":"OK"}}"#, Err("exactly one of"));
        check(r#"{"url":null}"#, Err("/url: this field is missing"));
        check(r#"{"nmae":null}"#, Err("/nmae: unknown field"));
        check(r#"{"url":"x","url":"y"}"#, Err("given twice"));
        check("[]", Err("an object is expected"));
        check("{", Err("not JSON"));
    }
    #[test]
    fn keys_are_kept_unless_they_are_given() {
        const KEYS: &str = r#"[{"secret":"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"}]"#;
        let count = |request: EndpointRequest| request.keys.map(|keys| keys.len());
        let set = |keys: &str| {
            let text = format!(r#"{{"url":"https://shop.example/n"{keys}}}"#);
            count(parse(&text, LONGEST).map_err(summary).expect("valid"))
        };
        assert_eq!(set(""), None);
        assert_eq!(set(r#","keys":null"#), None);
        assert_eq!(set(r#","keys":[]"#), Some(0));
        assert_eq!(set(&format!(r#","keys":{KEYS}"#)), Some(1));
        let before = parse(PLAIN, LONGEST).expect("valid").settings;
        let change = |patch: &str| {
            count(
                patched(&before, patch, LONGEST)
                    .map_err(summary)
                    .expect("valid"),
            )
        };
        assert_eq!(change(r#"{"timeout":"1s"}"#), None);
        assert_eq!(change(r#"{"keys":null}"#), Some(0));
        assert_eq!(change(&format!(r#"{{"keys":{KEYS}}}"#)), Some(1));
    }
}
