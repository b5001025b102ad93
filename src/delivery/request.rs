//! Makes the requests: the headers of a call, signed at this moment, for each version of HTTP.

use super::call_target::CallTarget;
use crate::clock::Clock;
use crate::domain::headers::Headers;
use crate::domain::notification::Notification;
use crate::domain::trace_context::TraceContext;
use crate::domain::url_parts::UrlParts;
use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use http::{Request, Uri};
use http_body_util::Full;
use std::time::Instant;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const RINGBACK_TOPIC: HeaderName = HeaderName::from_static("ringback-topic");
const RINGBACK_ATTEMPT: HeaderName = HeaderName::from_static("ringback-attempt");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What may differ between the requests of one notification: the number of the attempt, the time that is signed, which is
/// read when a request is made, and the target.
#[derive(Clone, Copy)]
pub struct Signed<'call> {
    /// The number of the attempt.
    pub number: u32,
    /// Its time is signed.
    pub clock: &'call dyn Clock,
    /// The target.
    pub target: CallTarget<'call>,
    /// When the time limit of the call ends.
    pub until: Instant,
}

/// Makes requests.
pub struct RequestMaker {
    /// The `User-Agent` of calls to endpoints that have none of their own.
    pub user_agent: HeaderValue,
}

impl RequestMaker {
    /// A request for HTTP/1.1.
    ///
    /// # Errors
    /// A header cannot be written.
    pub fn http1(
        &self,
        url: UrlParts<'_>,
        notification: &Notification,
        body: &Bytes,
        signed: Signed<'_>,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::post(url.path);
        if let Some(headers) = request.headers_mut() {
            headers.insert(HOST, HeaderValue::from_str(url.authority)?);
            self.put_headers(headers, notification, body, signed)?;
        }
        request.body(Full::new(body.clone()))
    }

    /// A request for HTTP/2, without its body. The host is in the URL (`:authority`), and there are no headers of a
    /// connection: a caller may set none ([`Headers`]).
    ///
    /// # Errors
    /// A header cannot be written.
    pub fn http2(
        &self,
        url: UrlParts<'_>,
        notification: &Notification,
        body: &Bytes,
        signed: Signed<'_>,
    ) -> Result<Request<()>, http::Error> {
        let to = Uri::builder()
            .scheme(if url.is_https { "https" } else { "http" })
            .authority(url.authority)
            .path_and_query(url.path);
        let mut request = Request::post(to.build()?);
        if let Some(headers) = request.headers_mut() {
            self.put_headers(headers, notification, body, signed)?;
        }
        request.body(())
    }

    fn put_headers(
        &self,
        headers: &mut HeaderMap,
        notification: &Notification,
        body: &Bytes,
        Signed {
            number,
            clock,
            target,
            ..
        }: Signed<'_>,
    ) -> Result<(), http::Error> {
        let webhook_id = notification.webhook_id.to_string();
        let timestamp_s = clock.now_ms().div_euclid(1_000);
        let signature = target.signers.sign(&webhook_id, timestamp_s, body);
        let own = notification.headers.pairs();
        let of_endpoint = target.headers().map_or(&[][..], Headers::pairs);
        headers.reserve(11 + own.len() + of_endpoint.len());
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        // The notification's own headers replace those of its endpoint.
        for (name, value) in of_endpoint.iter().chain(own) {
            headers.insert(
                HeaderName::from_bytes(name.as_bytes())?,
                HeaderValue::from_str(value)?,
            );
        }
        if let Some(trace) = target.trace {
            put_trace(headers, trace)?;
        }
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_str(&notification.content_type)?,
        );
        // `hyper` sends no length with an empty body, and some receivers answer 411 to such a POST (RFC 9110,
        // "Content-Length": a client should send it).
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        let settings = target.endpoint.map(|endpoint| &endpoint.settings);
        let user_agent = settings.and_then(|settings| settings.user_agent.as_deref());
        let user_agent = match user_agent {
            Some(own) => HeaderValue::from_str(own)?,
            None => self.user_agent.clone(),
        };
        headers.insert(USER_AGENT, user_agent);
        let [id, timestamp, sign] = signature_headers(target)?;
        headers.insert(id, HeaderValue::try_from(webhook_id)?);
        headers.insert(timestamp, HeaderValue::from(timestamp_s));
        headers.insert(sign, HeaderValue::try_from(signature)?);
        headers.insert(
            RINGBACK_TOPIC,
            HeaderValue::from_str(notification.key.topic())?,
        );
        headers.insert(RINGBACK_ATTEMPT, HeaderValue::from(number));
        Ok(())
    }
}

/// Puts a trace context in, unless the headers have one that was given with the registration or by the endpoint: that is sent
/// as it was given.
fn put_trace(headers: &mut HeaderMap, trace: &TraceContext) -> Result<(), http::Error> {
    if headers.contains_key(TRACEPARENT) {
        return Ok(());
    }
    headers.insert(TRACEPARENT, HeaderValue::try_from(trace.traceparent())?);
    if let Some(state) = trace.state().filter(|_| !headers.contains_key(TRACESTATE)) {
        headers.insert(TRACESTATE, HeaderValue::from_str(state.as_str())?);
    }
    Ok(())
}

/// The names of the headers with the webhook id, the time and the signature.
fn signature_headers(target: CallTarget<'_>) -> Result<[HeaderName; 3], http::Error> {
    let Some(endpoint) = target.endpoint else {
        return Ok([WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE]);
    };
    let [id, timestamp, signature] = endpoint.settings.signature_headers.names();
    let name = |name: &str| HeaderName::from_bytes(name.as_bytes());
    Ok([name(id)?, name(timestamp)?, name(signature)?])
}
