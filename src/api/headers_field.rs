//! Reads the headers that a registration or an endpoint adds to calls.

use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, UnreadableJson, given, string};
use crate::api::schema::{map_or_null, text};
use crate::domain::headers::{Headers, MOST_HEADERS};
use serde_json::value::RawValue;
use utoipa::openapi::schema::ObjectBuilder;

/// The field `headers`: an object of names and values. None is the same as an empty object.
///
/// # Errors
/// [`Noted`] if a header breaks a rule.
pub fn read_headers(field: Option<&RawValue>, errors: &mut FieldErrors) -> Result<Headers, Noted> {
    let mut headers = Headers::default();
    let Some(field) = given(field) else {
        return Ok(headers);
    };
    let mut noted = None;
    let seen = fields::each_member(field.get(), |name, value| {
        let bad = match string(value) {
            Ok(value) => match headers.insert(&name, &value) {
                Ok(()) => return,
                Err(bad) => bad.to_string(),
            },
            Err(bad) => bad.to_string(),
        };
        noted = Some(errors.add_member("/headers", &name, bad));
    });
    match (seen, noted) {
        (Ok(()), None) => Ok(headers),
        (Ok(()), Some(noted)) => Err(noted),
        (Err(UnreadableJson::Kind(kind)), _) => Err(errors.add("/headers", kind)),
        // The grammar was checked before. So the only possible error is half a surrogate pair in a name.
        (Err(UnreadableJson::Syntax(_)), _) => {
            Err(errors.add("/headers", fields::BadString::Surrogate))
        }
    }
}

/// The schema of the field.
#[must_use]
pub fn headers_or_null() -> ObjectBuilder {
    map_or_null(text().pattern(Some("^[\\t -~]*$")))
        .property_names(Some(text().pattern(Some("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"))))
        .max_properties(Some(MOST_HEADERS))
        .description(Some(
            "Headers of the caller's own, such as `{\"x-request-id\": \"42\"}`; none that HTTP or the server sets.",
        ))
}
