//! The schemas of an endpoint's document and of a merge patch of it.

use super::FIELDS;
use crate::api::ack_rule::AckDocument;
use crate::api::endpoint_fields::{MOST_CALLS, SIGNATURE_FIELDS};
use crate::api::headers_field::headers_or_null;
use crate::api::key_document::described_keys;
use crate::api::ladder::LadderDocument;
use crate::api::schema::{
    GonePolicyName, Part, any_object, document, duration_or_null, map_or_null, named_schema,
    names_or_null, nullable, or_null, or_null_list, reference_or_null, text_or_null, url_or_null,
};
use crate::domain::certificates::LARGEST_CERTIFICATES;
use crate::domain::client_key::LARGEST_CLIENT_KEY;
use crate::domain::endpoint::LONGEST_USER_AGENT;
use crate::domain::job::HIGHEST_JOB_RATE;
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, SchemaType, Type};

/// An endpoint as a caller writes it.
pub struct EndpointDocument;
named_schema!(EndpointDocument, "EndpointToSet", {
    let merged = Merged {
        ladder: reference_or_null::<LadderDocument>().into(),
        ack: reference_or_null::<AckDocument>().into(),
        headers: headers_or_null(),
        keys: or_null_list(described_keys()),
    };
    document(&FIELDS, merged.members(), &["url"]).description(Some(
        "An endpoint: a receiver with settings of its own. What is left out, or `null`, is not set.",
    ))
});

/// A merge patch (RFC 7396) of an endpoint.
pub struct EndpointPatch;
named_schema!(EndpointPatch, "EndpointPatch", {
    let name_or_part = || AnyOfBuilder::new().item(text_or_null()).item(any_object());
    let merged = Merged {
        ladder: name_or_part().into(),
        ack: name_or_part().into(),
        headers: map_or_null(text_or_null()),
        keys: described_keys(),
    };
    document(&FIELDS, merged.members(), &[]).description(Some(
        "A merge patch (RFC 7396) of an endpoint: a member replaces the one there, `null` removes it, objects are merged, \
         and what is not named stays as it is.",
    ))
});

/// The members in which a patch differs from a whole document.
struct Merged {
    ladder: Part,
    ack: Part,
    headers: ObjectBuilder,
    keys: ArrayBuilder,
}

impl Merged {
    /// All members, in the order of the names.
    fn members(self) -> [Part; FIELDS.len()] {
        let names = SIGNATURE_FIELDS.map(|_| text_or_null().into());
        let signature_headers = nullable(document(&SIGNATURE_FIELDS, names, &[])).description(
            Some("Other names for the headers with the id, the time and the signature."),
        );
        let rate = |description: &str| {
            or_null(Type::Number)
                .minimum(Some(0.001))
                .description(Some(description))
        };
        let pem = |most: usize, description: &str| {
            text_or_null()
                .max_length(Some(most))
                .description(Some(description))
        };
        [
            url_or_null().schema_type(Type::String).into(),
            self.ladder,
            self.ack,
            duration_or_null()
                .description(Some(
                    "The time limit of a call, from 100ms to that of the server.",
                ))
                .into(),
            or_null(Type::Integer)
                .minimum(Some(1))
                .maximum(Some(MOST_CALLS))
                .description(Some("The largest number of calls at a time."))
                .into(),
            rate("The largest number of calls per second, with at most three decimals.").into(),
            or_null(Type::Boolean)
                .description(Some("Whether `Retry-After` of a 429 or 503 is followed."))
                .into(),
            reference_or_null::<GonePolicyName>().into(),
            rate("How many notifications per second are made due after an outage.")
                .maximum(Some(HIGHEST_JOB_RATE))
                .into(),
            self.headers.into(),
            text_or_null()
                .max_length(Some(LONGEST_USER_AGENT))
                .pattern(Some("^[!-~]([ -~]*[!-~])?$"))
                .into(),
            signature_headers.into(),
            names_or_null(&["1.1", "2"])
                .description(Some("The version of HTTP that calls speak."))
                .into(),
            pem(
                LARGEST_CERTIFICATES,
                "In PEM: the authorities that its certificate may be from.",
            )
            .into(),
            pem(
                LARGEST_CERTIFICATES,
                "In PEM: the certificate that is shown to it.",
            )
            .into(),
            map_or_null(ObjectBuilder::new().schema_type(SchemaType::AnyValue))
                .description(Some("The caller's own, at most 8 KiB of JSON."))
                .into(),
            pem(
                LARGEST_CLIENT_KEY,
                "In PEM: the key of `client_certificate`. It is never answered.",
            )
            .into(),
            self.keys.into(),
        ]
    }
}
