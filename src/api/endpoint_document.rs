//! Reads the JSON document of an endpoint, and changes it by a merge patch (RFC 7396).

mod described;

pub use described::{EndpointDocument, EndpointPatch};

use crate::api::ack_rule::{ACK_MEMBERS, JSON_MEMBERS, XML_MEMBERS, read_ack};
use crate::api::endpoint_fields::{
    SIGNATURE_FIELDS, check_timeout, check_user_agent, read_after_outage_rate, read_concurrency,
    read_gone, read_metadata, read_rate, read_retry_after, read_signature_headers,
};
use crate::api::endpoint_view::SettingsView;
use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, UnreadableJson, given, optional, required};
use crate::api::headers_field::read_headers;
use crate::api::key_document::read_keys;
use crate::api::ladder::{LADDER_MEMBERS, read_ladder};
use crate::api::merge_patch::{ObjectWriter, Patch};
use crate::api::registration::InvalidRequest;
use crate::domain::certificates::Certificates;
use crate::domain::client_key::ClientKey;
use crate::domain::destination::Destination;
use crate::domain::endpoint::{EndpointSettings, SignatureHeaders};
use crate::domain::endpoint_tls::{ClientKeyRequest, EndpointTls, TlsRequest};
use crate::domain::headers::Headers;
use crate::domain::http_version::HttpVersion;
use crate::domain::lane_settings::LaneLimits;
use crate::service::EndpointRequest;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const FIELDS: [&str; 18] = [
    "url",
    "ladder",
    "ack",
    "timeout",
    "concurrency",
    "rate",
    "retry_after",
    "gone",
    "after_outage_rate",
    "headers",
    "user_agent",
    "signature_headers",
    "http",
    "ca",
    "client_certificate",
    "metadata",
    "client_key",
    "keys",
];

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
        concurrency,
        rate,
        retry_after,
        gone,
        after_outage_rate,
        headers,
        user_agent,
        signature_headers,
        http,
        ca,
        client_certificate,
        metadata,
        client_key,
        keys,
    ] = fields::read(text, &FIELDS, "", &mut errors).map_err(InvalidRequest::Unreadable)?;
    let read = (
        required(url, "/url", &mut errors, Destination::parse),
        read_ladder(ladder, &mut errors),
        read_ack(ack, &mut errors),
        optional(timeout, "/timeout", &mut errors, |text| {
            check_timeout(text, longest_timeout)
        }),
        read_concurrency(concurrency, &mut errors),
        read_rate(rate, &mut errors),
        read_retry_after(retry_after, &mut errors),
        read_gone(gone, &mut errors),
        read_after_outage_rate(after_outage_rate, &mut errors),
        read_headers(headers, &mut errors),
        optional(user_agent, "/user_agent", &mut errors, check_user_agent),
        read_signature_headers(signature_headers, &mut errors),
        optional(http, "/http", &mut errors, HttpVersion::parse),
        read_metadata(metadata, &mut errors),
        read_keys(keys, &mut errors),
        read_tls(ca, client_certificate, client_key, &mut errors),
    );
    let (
        Ok(url),
        Ok(ladder),
        Ok(ack),
        Ok(timeout_ms),
        Ok(concurrency),
        Ok(rate),
        Ok(retry_after),
        Ok(gone),
        Ok(after_outage_rate),
        Ok(headers),
        Ok(user_agent),
        Ok(signature_headers),
        Ok(http),
        Ok(metadata),
        Ok(keys),
        Ok(tls),
    ) = read
    else {
        return Err(InvalidRequest::Fields(errors));
    };
    check_names(&headers, &signature_headers, &mut errors);
    if !errors.is_empty() {
        return Err(InvalidRequest::Fields(errors));
    }
    let settings = EndpointSettings {
        url,
        ladder,
        ack,
        timeout_ms,
        limits: LaneLimits { concurrency, rate },
        retry_after,
        gone,
        after_outage_rate,
        headers,
        user_agent,
        signature_headers,
        http,
        tls: None,
        metadata,
        made_again_ms: None,
    };
    Ok(EndpointRequest {
        settings,
        keys,
        tls,
    })
}

/// Applies a merge patch (RFC 7396) to an endpoint: a member replaces the one there, `null` removes it, and
/// objects are merged. What the patch does not name stays as it is. The keys are replaced as a whole. `null` for the
/// keys is refused: it could come from a client that writes `null` for what it does not know. To remove the client
/// certificate removes its key too.
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
    let [.., client_key, keys] = fields;
    if keys.is_some_and(|keys| keys.get() == "null") {
        errors.add(
            "/keys",
            "null removes no keys; `[]` removes all of them, DELETE /v1/endpoints/{name}/keys/{id} removes one",
        );
    }
    let keys = read_keys(keys, &mut errors);
    let client_key = read_client_key(client_key, &mut errors);
    // The keys were read above. Here, copies of them would be made that nobody overwrites.
    let named = FIELDS.into_iter().zip(fields);
    let named = named.filter_map(|(name, text)| Some((name, text?)));
    let patches: Vec<(&str, Patch<'_>)> = named
        .filter(|(name, _)| !matches!(*name, "client_key" | "keys"))
        .map(|(name, text)| (name, read_patch(name, text, &mut errors)))
        .collect();
    let (Ok(client_key), Ok(keys), true) = (client_key, keys, errors.is_empty()) else {
        return Err(InvalidRequest::Fields(errors));
    };
    let syntax = |error| InvalidRequest::Unreadable(UnreadableJson::Syntax(error));
    let document = serde_json::to_string(&SettingsView::of(before)).map_err(syntax)?;
    let named: Vec<&str> = patches.iter().map(|(name, _)| *name).collect();
    let document = merged(&document, &patches).map_err(InvalidRequest::Unreadable)?;
    let EndpointRequest {
        settings: read,
        tls,
        ..
    } = parse(&document, longest_timeout)?;
    let is_named = |name| named.contains(&name);
    let settings = EndpointSettings {
        url: read.url,
        ladder: if is_named("ladder") {
            read.ladder
        } else {
            before.ladder.clone()
        },
        ack: if is_named("ack") {
            read.ack
        } else {
            before.ack.clone()
        },
        timeout_ms: if is_named("timeout") {
            read.timeout_ms
        } else {
            before.timeout_ms
        },
        limits: LaneLimits {
            concurrency: if is_named("concurrency") {
                read.limits.concurrency
            } else {
                before.limits.concurrency
            },
            rate: if is_named("rate") {
                read.limits.rate
            } else {
                before.limits.rate
            },
        },
        retry_after: if is_named("retry_after") {
            read.retry_after
        } else {
            before.retry_after
        },
        gone: if is_named("gone") {
            read.gone
        } else {
            before.gone
        },
        after_outage_rate: if is_named("after_outage_rate") {
            read.after_outage_rate
        } else {
            before.after_outage_rate
        },
        headers: if is_named("headers") {
            read.headers
        } else {
            before.headers.clone()
        },
        user_agent: if is_named("user_agent") {
            read.user_agent
        } else {
            before.user_agent.clone()
        },
        signature_headers: if is_named("signature_headers") {
            read.signature_headers
        } else {
            before.signature_headers.clone()
        },
        http: if is_named("http") {
            read.http
        } else {
            before.http
        },
        tls: None,
        metadata: if is_named("metadata") {
            read.metadata
        } else {
            before.metadata.clone()
        },
        made_again_ms: None,
    };
    check_names(&settings.headers, &settings.signature_headers, &mut errors);
    if !errors.is_empty() {
        return Err(InvalidRequest::Fields(errors));
    }
    let tls_before = before.tls.as_ref();
    let certificate_before = tls_before.and_then(EndpointTls::identity);
    let tls = TlsRequest {
        ca: if is_named("ca") {
            tls.ca
        } else {
            tls_before.and_then(EndpointTls::ca).cloned()
        },
        certificate: if is_named("client_certificate") {
            tls.certificate
        } else {
            certificate_before.map(|identity| identity.certificate.clone())
        },
        key: client_key,
    };
    Ok(EndpointRequest {
        settings,
        keys,
        tls,
    })
}

fn read_tls(
    ca: Option<&RawValue>,
    certificate: Option<&RawValue>,
    key: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<TlsRequest, Noted> {
    let ca = optional(ca, "/ca", errors, Certificates::parse);
    let pointer = "/client_certificate";
    let certificate = optional(certificate, pointer, errors, Certificates::parse);
    // In a whole document, `null` means what a missing field means.
    let key = read_client_key(given(key), errors);
    Ok(TlsRequest {
        ca: ca?,
        certificate: certificate?,
        key: key?,
    })
}

fn read_client_key(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<ClientKeyRequest, Noted> {
    let Some(field) = field else {
        return Ok(ClientKeyRequest::Keep);
    };
    let key = optional(Some(field), "/client_key", errors, ClientKey::parse)?;
    Ok(key.map_or(ClientKeyRequest::Remove, ClientKeyRequest::Set))
}

/// Checks that no header of the endpoint has the name of a header of the signature.
fn check_names(headers: &Headers, signature: &SignatureHeaders, errors: &mut FieldErrors) {
    let taken = signature.names();
    for (name, _) in headers.pairs() {
        if taken.contains(&name.as_str()) {
            let detail = "a header of the signature has this name";
            errors.add_member("/headers", name, detail);
        }
    }
}

/// Reads what a patch says about one field. Names that would do nothing are errors, as they are in a whole document.
fn read_patch<'a>(name: &str, text: &'a RawValue, errors: &mut FieldErrors) -> Patch<'a> {
    let pointer = format!("/{name}");
    let mut patch = Patch::read(text, &pointer, errors);
    let Patch::Object(members) = &mut patch else {
        return patch;
    };
    match name {
        "headers" => lower_names(members, &pointer, errors),
        "ladder" => check_removed(members, &pointer, &LADDER_MEMBERS, errors),
        "signature_headers" => check_removed(members, &pointer, &SIGNATURE_FIELDS, errors),
        "ack" => {
            check_removed(members, &pointer, &ACK_MEMBERS, errors);
            for (name, member) in &*members {
                let pointer = format!("{pointer}/{name}");
                match (&**name, member) {
                    ("json", Patch::Object(inner)) => {
                        check_removed(inner, &pointer, &JSON_MEMBERS, errors);
                    }
                    ("xml", Patch::Object(inner)) => {
                        check_removed(inner, &pointer, &XML_MEMBERS, errors);
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    patch
}

/// The names of headers are kept in lower case, in which a patch has to name them.
fn lower_names(members: &mut [(Cow<'_, str>, Patch<'_>)], pointer: &str, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for (name, _) in members {
        let lower = name.to_ascii_lowercase();
        if !names.insert(lower.clone()) {
            errors.add_member(pointer, name, "this header is given twice");
        }
        *name = Cow::Owned(lower);
    }
}

/// Checks the names of the members that a patch removes. Those of the others are checked with the result.
fn check_removed(
    members: &[(Cow<'_, str>, Patch<'_>)],
    pointer: &str,
    known: &[&str],
    errors: &mut FieldErrors,
) {
    for (name, member) in members {
        if member.removes() && !known.contains(&&**name) {
            let known = known.join(", ");
            let detail = format_args!("unknown field; known are {known}");
            errors.add_member(pointer, name, detail);
        }
    }
}

/// The members of a document that these patches name, as they become, and the URL, which is required.
fn merged(document: &str, patches: &[(&str, Patch<'_>)]) -> Result<String, UnreadableJson> {
    let mut before = HashMap::new();
    fields::each_member(document, |name, value| {
        before.insert(name.into_owned(), value);
    })?;
    let mut merged = String::new();
    let mut object = ObjectWriter::begin(&mut merged);
    for (name, patch) in patches {
        if !patch.removes() {
            patch.merge_into(before.get(*name).copied(), object.member(name));
        }
    }
    let is_patched = patches.iter().any(|(name, _)| *name == "url");
    if let Some(url) = before.get("url").filter(|_| !is_patched) {
        object.member("url").push_str(url.get());
    }
    object.end();
    Ok(merged)
}

#[cfg(test)]
mod tests;
