//! The route `/v1/notifications/{topic}/{id}/payload`: what a notification sends.
//!
//! What is sent may hold personal data, so an answer is not to be kept by caches. The log says who has read it, and the audit
//! log too, but for the services that register notifications themselves. They have nothing of the content.

use crate::api::Api;
use crate::api::auth::OnBehalfOf;
use crate::api::path::KeyPath;
use crate::api::problem::Problem;
use crate::api::query::NoQuery;
use crate::api::view::json;
use crate::domain::key::Key;
use crate::service::SentPayload;
use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use utoipa::ToSchema;

/// The headers and the body of a notification.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SentPayload)]
pub struct PayloadView<'a> {
    topic: &'a str,
    id: &'a str,
    content_type: &'a str,
    /// Those that were registered.
    #[schema(value_type = HashMap<String, String>)]
    headers: Map<String, Value>,
    /// The body, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    /// The body in base64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    body_bytes: usize,
    /// The SHA-256 of the body, in hexadecimal digits.
    sha256: String,
}

impl<'a> PayloadView<'a> {
    fn of(key: &'a Key, payload: &'a SentPayload) -> Self {
        let headers = payload.headers.pairs().iter();
        let body = std::str::from_utf8(&payload.body).ok();
        Self {
            topic: key.topic(),
            id: key.id(),
            content_type: &payload.content_type,
            headers: headers
                .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
                .collect(),
            body,
            body_base64: body.is_none().then(|| STANDARD.encode(&payload.body)),
            body_bytes: payload.body.len(),
            sha256: hex_digits(&Sha256::digest(&payload.body)),
        }
    }
}

/// `GET /v1/notifications/{topic}/{id}/payload`: the registered headers and the body.
pub async fn show(
    State(api): State<Arc<Api>>,
    _: NoQuery,
    KeyPath(key): KeyPath,
    OnBehalfOf(actor): OnBehalfOf,
) -> Result<Response, Problem> {
    let _permit = api.payload_permit().await?;
    let payload = api.service.payload(&key, &actor, "").await;
    let payload = payload.map_err(Problem::of_service)?;
    tracing::info!(
        notification = %key,
        actor = %actor.name(),
        "the headers and the body of a notification were read over the API"
    );
    let mut response = json(StatusCode::OK, &PayloadView::of(&key, &payload));
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    Ok(response)
}

fn hex_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::headers::Headers;
    use bytes::Bytes;
    use serde_json::json;

    #[test]
    fn a_body_is_shown_as_text_or_in_base64() {
        let key = Key::new("t", "1").expect("a key");
        let shown = |body: &'static [u8]| {
            let payload = SentPayload {
                content_type: "text/plain".to_string(),
                headers: Headers::from_stored(vec![("x-a".to_string(), "1".to_string())]),
                body: Bytes::from_static(body),
            };
            serde_json::to_value(PayloadView::of(&key, &payload)).expect("JSON")
        };
        let expected = json!({
            "topic": "t", "id": "1", "content_type": "text/plain", "headers": { "x-a": "1" },
            "body": "abc", "body_bytes": 3,
            // FIPS 180-2, appendix B.1.
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        });
        assert_eq!(shown(b"abc"), expected);
        assert_eq!(shown(b"")["body"], "");
        assert_eq!(shown("ä\0".as_bytes())["body"], "ä\0");
        let binary = shown(b"\xff\x00");
        assert_eq!(binary["body_base64"], "/wA=");
        assert_eq!(binary.get("body"), None);
        assert_eq!(binary["body_bytes"], 2);
    }
}
