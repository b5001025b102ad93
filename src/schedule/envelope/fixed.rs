//! The part of an envelope whose fields never change, and the body behind it.

use super::{BodyWriting, VERSION_WITHOUT_BODY};
use crate::domain::ack::AckRule;
use crate::domain::body::Body;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::ladder::Ladder;
use crate::domain::notification::{Fingerprint, Notification};
use crate::domain::webhook_id::WebhookId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// In versions 1 and 2; the body follows. Fields may only be added at the end, with a new format version.
#[derive(Serialize, Deserialize)]
pub(super) struct FixedWithBody<'a> {
    webhook_id: [u8; 16],
    url: &'a str,
    content_type: &'a str,
    #[serde(borrow)]
    pub(super) rest: FixedRest<'a>,
}

/// In version 3; nothing follows. Likewise.
#[derive(Serialize, Deserialize)]
struct FixedWithoutBody<'a> {
    webhook_id: [u8; 16],
    #[serde(borrow)]
    url: StoredUrl<'a>,
    #[serde(borrow)]
    content_type: StoredContentType<'a>,
    body_bytes: usize,
    #[serde(borrow)]
    rest: FixedRest<'a>,
}

/// What all versions write in the same way. The headers contain the trace context too (`domain::headers`), as a server of
/// an earlier version can read and send it.
#[derive(Serialize, Deserialize)]
pub(super) struct FixedRest<'a> {
    #[serde(borrow)]
    pub(super) headers: Vec<(&'a str, &'a str)>,
    ladder: &'a str,
    ack: &'a str,
    registered_ms: i64,
    fingerprint: Fingerprint,
}

/// The URL of a notification. That of one without an endpoint begins with the name of its lane.
#[derive(Serialize, Deserialize)]
enum StoredUrl<'a> {
    /// What follows the name of the lane.
    AfterLane(&'a str),
    /// All of it; empty if it is that of the endpoint.
    Whole(&'a str),
}

/// A content type; the usual ones take a byte. Variants may only be added at the end, with a new format version.
#[derive(Serialize, Deserialize)]
enum StoredContentType<'a> {
    Json,
    Form,
    Text,
    Other(&'a str),
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const TEXT: &str = "text/plain; charset=utf-8";

impl<'a> StoredContentType<'a> {
    fn of(content_type: &'a str) -> Self {
        match content_type {
            JSON => Self::Json,
            FORM => Self::Form,
            TEXT => Self::Text,
            other => Self::Other(other),
        }
    }

    fn as_str(&self) -> &'a str {
        match self {
            Self::Json => JSON,
            Self::Form => FORM,
            Self::Text => TEXT,
            Self::Other(other) => other,
        }
    }
}

/// The fields that never change, as they were read, and the body.
pub(super) struct FixedFields {
    pub(super) webhook_id: WebhookId,
    pub(super) destination: Option<Destination>,
    pub(super) content_type: String,
    pub(super) headers: Headers,
    pub(super) ladder: Ladder,
    pub(super) ack: Option<AckRule>,
    pub(super) registered_ms: i64,
    pub(super) fingerprint: Fingerprint,
    pub(super) body: Body,
}

/// Adds the fields that never change, and the body or its length.
pub(super) fn write(notification: &Notification, body: BodyWriting, bytes: Vec<u8>) -> Vec<u8> {
    let webhook_id = notification.webhook_id.to_bytes();
    let url = Destination::to_stored(notification.destination.as_ref());
    let content_type = notification.content_type.as_str();
    let trace = notification.headers.stored_trace();
    let trace = trace.iter().map(|(name, value)| (*name, value.as_str()));
    let headers = notification.headers.pairs().iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_str()));
    let rest = FixedRest {
        headers: trace.chain(headers).collect(),
        ladder: &notification.ladder.to_text(),
        ack: &AckRule::to_stored(notification.ack.as_ref(), &notification.lane),
        registered_ms: notification.registered_ms,
        fingerprint: notification.fingerprint,
    };
    let Some(body) = written_body(notification, body) else {
        let lane = notification.lane.as_str();
        let fixed = FixedWithoutBody {
            webhook_id,
            url: (url.strip_prefix(lane)).map_or(StoredUrl::Whole(url), StoredUrl::AfterLane),
            content_type: StoredContentType::of(content_type),
            body_bytes: notification.body.len(),
            rest,
        };
        return postcard::to_extend(&fixed, bytes).expect(SERIALISES);
    };
    let fixed = FixedWithBody {
        webhook_id,
        url,
        content_type,
        rest,
    };
    let mut bytes = postcard::to_extend(&fixed, bytes).expect(SERIALISES);
    bytes.extend_from_slice(body);
    bytes
}

const SERIALISES: &str = "invariant: strings and numbers serialise into memory";

/// The bytes that are written as the body; `None` if its length is written instead.
pub(super) fn written_body(notification: &Notification, body: BodyWriting) -> Option<&[u8]> {
    match body {
        BodyWriting::Nothing => Some(&[]),
        BodyWriting::Whole => notification.body.here().map(|bytes| &bytes[..]),
        BodyWriting::LengthOnly => None,
    }
}

/// Reads `fixed`, the end of the envelope `bytes` of this version, behind the lane and the order. The body is a slice of
/// `bytes`, not a copy.
pub(super) fn read(
    version: u8,
    lane: &str,
    fixed: &[u8],
    bytes: &Bytes,
) -> Result<FixedFields, &'static str> {
    let unreadable = |_| "its fixed part";
    if version != VERSION_WITHOUT_BODY {
        let (fixed, body) =
            postcard::take_from_bytes::<FixedWithBody<'_>>(fixed).map_err(unreadable)?;
        let destination = Destination::own_from_stored(fixed.url);
        let body = bytes.slice_ref(body).into();
        let webhook_id = WebhookId::from_bytes(fixed.webhook_id);
        return (fixed.rest).into_fields(webhook_id, destination, fixed.content_type, body);
    }
    let (fixed, behind) =
        postcard::take_from_bytes::<FixedWithoutBody<'_>>(fixed).map_err(unreadable)?;
    if !behind.is_empty() {
        return Err("bytes behind its end");
    }
    let destination = match fixed.url {
        StoredUrl::Whole(url) => Destination::own_from_stored(url),
        StoredUrl::AfterLane(path) => Destination::own_from_stored(&format!("{lane}{path}")),
    };
    let body = Body::InJournal(fixed.body_bytes);
    let webhook_id = WebhookId::from_bytes(fixed.webhook_id);
    let content_type = fixed.content_type.as_str();
    (fixed.rest).into_fields(webhook_id, destination, content_type, body)
}

impl FixedRest<'_> {
    /// All the fields, with these.
    fn into_fields(
        self,
        webhook_id: WebhookId,
        destination: Option<Destination>,
        content_type: &str,
        body: Body,
    ) -> Result<FixedFields, &'static str> {
        let headers = self.headers.into_iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_string()));
        Ok(FixedFields {
            webhook_id,
            destination,
            content_type: content_type.to_string(),
            headers: Headers::from_stored(headers.collect()),
            ladder: Ladder::from_text(self.ladder).map_err(|_| "its ladder")?,
            ack: AckRule::own_from_stored(self.ack).map_err(|_| "its ack rule")?,
            registered_ms: self.registered_ms,
            fingerprint: self.fingerprint,
            body,
        })
    }
}
