//! The JSON form of the signing keys of an endpoint: reading a request, and showing a key without its secret.

use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, elements, given, optional, required};
use crate::api::registration::InvalidRequest;
use crate::api::schema::{
    KeyKindName, array_of, document, duration_or_null, named_schema, reference_or_null, text,
    text_or_null,
};
use crate::domain::duration;
use crate::domain::endpoint_keys::{
    EndpointKey, LONGEST_OVERLAP_MS, MOST_KEYS, STANDARD_OVERLAP_MS,
};
use crate::domain::signing_key::{KeyKind, SigningKey};
use crate::domain::timestamp::display_ms;
use crate::service::{AddedKey, KeyToAdd};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;

const FIELDS: [&str; 3] = ["secret", "kind", "overlap"];
const KEY_FIELDS: [&str; 1] = ["secret"];
const KEYS: &str = "/keys";
/// The notation of a secret: the base64 of 24 to 64 bytes, or of an ed25519 key.
const SECRET: &str = "^(whsec|whsk)_";

/// A signing key in an answer. `signs_until` is `null` if the key signs for good.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SigningKey)]
pub struct KeyView<'a> {
    id: &'a str,
    #[schema(value_type = KeyKindName)]
    kind: &'static str,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(required, format = DateTime)]
    signs_until: Option<String>,
    /// `whpk_...` of an `ed25519` key.
    #[schema(required)]
    public_key: Option<&'a str>,
}

/// A signing key in the answer to the request that made it.
#[derive(Serialize, ToSchema)]
#[schema(as = AddedSigningKey)]
pub struct AddedKeyView<'a> {
    #[serde(flatten)]
    key: KeyView<'a>,
    /// The secret, if the server made it. It is shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

impl<'a> KeyView<'a> {
    /// The view of a key.
    #[must_use]
    pub fn of(key: &'a EndpointKey) -> Self {
        Self {
            id: &key.id,
            kind: key.kind.as_str(),
            created_at: display_ms(key.created_ms),
            signs_until: key.signs_until_ms.map(display_ms),
            public_key: key.public_key.as_deref(),
        }
    }
}

impl KeyView<'_> {
    /// The id of the key.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id
    }
}

impl<'a> AddedKeyView<'a> {
    /// The view of a key, with its secret if it was made just now.
    #[must_use]
    pub fn of(added: &'a AddedKey) -> Self {
        Self {
            key: KeyView::of(&added.key),
            secret: added.secret.as_ref().map(|secret| secret.as_str()),
        }
    }
}

/// Reads the request to add a key.
///
/// # Errors
/// [`InvalidRequest`] lists every wrong field. It contains no secret.
pub fn parse(text: &str) -> Result<KeyToAdd, InvalidRequest> {
    let mut errors = FieldErrors::default();
    let [secret, kind, overlap] =
        fields::read(text, &FIELDS, "", &mut errors).map_err(InvalidRequest::Unreadable)?;
    let read = (
        optional(secret, "/secret", &mut errors, SigningKey::parse),
        optional(kind, "/kind", &mut errors, check_kind),
        optional(overlap, "/overlap", &mut errors, check_overlap),
    );
    if let (Ok(Some(key)), Ok(Some(kind)), _) = &read
        && key.kind() != *kind
    {
        let own = key.kind().as_str();
        errors.add("/kind", format_args!("the given secret is {own}"));
    }
    match read {
        (Ok(key), Ok(kind), Ok(overlap_ms)) if errors.is_empty() => Ok(KeyToAdd {
            key,
            kind: kind.unwrap_or(KeyKind::Symmetric),
            overlap_ms: overlap_ms.unwrap_or(STANDARD_OVERLAP_MS),
        }),
        _ => Err(InvalidRequest::Fields(errors)),
    }
}

/// Reads the member `keys` of an endpoint: objects that have a secret, the newest first. `None` if it is not given.
///
/// # Errors
/// Adds every wrong field to `errors`, without its secret.
pub fn read_keys(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<Vec<SigningKey>>, Noted> {
    let Some(field) = given(field) else {
        return Ok(None);
    };
    let (items, count) = elements(field.get(), MOST_KEYS).map_err(|bad| errors.add(KEYS, bad))?;
    if count > MOST_KEYS {
        let detail = format!("an endpoint has at most {MOST_KEYS} signing keys");
        return Err(errors.add(KEYS, detail));
    }
    let mut keys: Vec<SigningKey> = Vec::with_capacity(items.len());
    let mut wrong = None;
    for (index, item) in items.into_iter().enumerate() {
        match read_key(item, &format!("{KEYS}/{index}"), errors) {
            Ok(key) if keys.iter().any(|other| other.is_same(&key)) => {
                let pointer = format!("{KEYS}/{index}/secret");
                wrong = Some(errors.add(&pointer, "this secret is given twice"));
            }
            Ok(key) => keys.push(key),
            Err(noted) => wrong = Some(noted),
        }
    }
    wrong.map_or(Ok(Some(keys)), Err)
}

fn read_key(item: &RawValue, pointer: &str, errors: &mut FieldErrors) -> Result<SigningKey, Noted> {
    let [secret] = fields::read(item.get(), &KEY_FIELDS, pointer, errors)
        .map_err(|bad| errors.add(pointer, bad))?;
    let pointer = format!("{pointer}/secret");
    required(secret, &pointer, errors, SigningKey::parse)
}

fn check_kind(text: &str) -> Result<KeyKind, &'static str> {
    KeyKind::from_name(text).ok_or("a kind is `symmetric` or `ed25519`")
}

fn check_overlap(text: &str) -> Result<i64, String> {
    let overlap_ms = duration::parse_ms(text).map_err(|bad| bad.to_string())?;
    if !(0..=LONGEST_OVERLAP_MS).contains(&overlap_ms) {
        return Err("an overlap is from 0s to 30d".to_string());
    }
    Ok(overlap_ms)
}

/// A request to add a signing key, as a caller writes it.
pub struct KeyToAddDocument;
named_schema!(KeyToAddDocument, "SigningKeyToAdd", {
    let secret = text_or_null().pattern(Some(SECRET)).description(Some(
        "`whsec_...` or `whsk_...`; left out, the server makes one, and answers with it this once.",
    ));
    let kind = reference_or_null::<KeyKindName>();
    let overlap = duration_or_null().description(Some(
        "For how long the other keys sign along, at most 30 days; a day if it is left out.",
    ));
    document(&FIELDS, [secret.into(), kind.into(), overlap.into()], &[])
        .description(Some("A signing key to be added. The body may be left out."))
});

/// The schema of the member `keys` of an endpoint.
#[must_use]
pub fn described_keys() -> ArrayBuilder {
    let key = document(
        &KEY_FIELDS,
        [text().pattern(Some(SECRET)).into()],
        &KEY_FIELDS,
    );
    array_of(key).max_items(Some(MOST_KEYS)).description(Some(
        "Its signing keys, the newest first. They replace those that it has; left out, it keeps them.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::problem::Problem;

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    #[test]
    fn a_key_to_add_has_defaults() {
        let check = |text: &str, is_given: bool, kind: KeyKind, overlap_ms: i64| {
            let key = parse(text).map_err(Problem::invalid).expect(text);
            let found = (key.key.is_some(), key.kind, key.overlap_ms);
            assert_eq!(found, (is_given, kind, overlap_ms), "{text}");
        };
        let day_ms = 86_400_000;
        check("{}", false, KeyKind::Symmetric, day_ms);
        check(
            r#"{"kind":"ed25519","overlap":"0s"}"#,
            false,
            KeyKind::Ed25519,
            0,
        );
        let given = format!(r#"{{"secret":"{SECRET}","overlap":"30d","kind":null}}"#);
        check(&given, true, KeyKind::Symmetric, 30 * day_ms);
    }

    #[test]
    fn wrong_fields_are_named_without_a_secret() {
        let check = |text: &str, expected: &str| {
            let text = text.replace("SECRET", SECRET);
            let found = Problem::invalid(parse(&text).expect_err(&text));
            let found = serde_json::to_string(&found.view()).expect("JSON");
            assert!(found.contains(expected), "{text}: {found}");
            assert!(!found.contains("C2FV"), "{found}");
        };
        check(
            r#"{"secret":"C2FVsBQIhrs"}"#,
            "/secret: a signing key starts",
        );
        check(
            r#"{"secret":"whsec_C2FV"}"#,
            "/secret: a signing secret is 24",
        );
        check(r#"{"secret":5}"#, "/secret: a string is expected");
        check(
            r#"{"secret":"SECRET","kind":"ed25519"}"#,
            "/kind: the given secret is symmetric",
        );
        check(r#"{"kind":"rsa"}"#, "/kind: a kind is");
        check(r#"{"overlap":"30d1ms"}"#, "/overlap: an overlap is from");
        check(r#"{"overlap":5}"#, "/overlap: a string is expected");
        check(r#"{"key":"SECRET"}"#, "/key: unknown field");
        check("[]", "an object is expected");
    }

    #[test]
    fn the_keys_of_an_endpoint_are_a_list_of_secrets() {
        let read = |text: &str| {
            let text = text.replace("SECRET", SECRET);
            let raw = RawValue::from_string(text).expect("JSON");
            let mut errors = FieldErrors::default();
            let read = read_keys(Some(&raw), &mut errors);
            let read = read.map(|keys| keys.map(|keys| keys.len()));
            if !errors.is_empty() {
                return Err(errors.summary());
            }
            read.map_err(|_| String::new())
        };
        let check = |text: &str, expected: &str| {
            let found = read(text).expect_err(text);
            assert!(found.contains(expected), "{text}: {found}");
            assert!(!found.contains("C2FV"), "{found}");
        };
        assert_eq!(read("null"), Ok(None));
        assert_eq!(read("[]"), Ok(Some(0)));
        assert_eq!(read(r#"[{"secret":"SECRET"}]"#), Ok(Some(1)));
        check("{}", "/keys: an array is expected");
        check(r#"["SECRET"]"#, "/keys/0: an object is expected");
        check("[{}]", "/keys/0/secret: this field is missing");
        check(r#"[{"secret":"SECRET","id":"x"}]"#, "/keys/0/id: unknown");
        check(
            r#"[{"secret":"SECRET"},{"secret":"SECRET"}]"#,
            "/keys/1/secret: this secret is given twice",
        );
        let eleven = [r#"{"secret":"SECRET"}"#; 11].join(",");
        check(&format!("[{eleven}]"), "/keys: an endpoint has at most 10");
    }
}
