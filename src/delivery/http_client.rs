//! Makes one HTTP call: signs the request, sends it and reads the answer.
//!
//! One time limit applies to the whole call: connecting, headers and body. The client does not follow
//! redirects, uses no proxy but that of its settings and does not decompress bodies. Connections are
//! kept for later calls (`delivery::pool`). No request is sent twice: a call moves from a kept connection
//! to a new one only if no byte of the request was written.

use super::address_filter::{AddressFilter, Scheme};
use super::call_recorder::CallRecorder;
use super::call_target::CallTarget;
use super::connector::{Opening, ReceiverConnector};
use super::exchange::{ExchangeResult, Judging, exchange};
use super::failure::{blocked, not_connected, without_answer};
use super::lookups::{HostResolver, Lookups, SystemResolver};
use super::pool::Pool;
use super::proxy::{Proxy, ProxyError};
use super::tls_profiles::TlsProfiles;
use crate::clock::Clock;
use crate::domain::attempt::{Answer, Outcome};
use crate::domain::duration;
use crate::domain::headers::Headers;
use crate::domain::notification::Notification;
use crate::domain::proxy_url::ProxyUrl;
use crate::tls_roots;
use bytes::Bytes;
use http::Request;
use http::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use http_body_util::Full;
use std::borrow::Cow;
use std::error::Error;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use url::{Position, Url};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const RINGBACK_TOPIC: HeaderName = HeaderName::from_static("ringback-topic");
const RINGBACK_ATTEMPT: HeaderName = HeaderName::from_static("ringback-attempt");

/// The settings of the HTTP client.
#[derive(Debug, Clone)]
pub struct HttpClientSettings {
    /// Which addresses may be called.
    pub filter: AddressFilter,
    /// The time limit of one attempt.
    pub timeout: Duration,
    /// The `User-Agent` of calls to receivers.
    pub user_agent: String,
    /// The proxy through which all calls go.
    pub proxy: Option<ProxyUrl>,
}

/// The result of a call.
#[derive(Debug)]
pub enum SendResult {
    /// An answer came, or the call failed and the answer says why.
    Answered(Answer),
    /// The lease expired before a byte of the request was written. Nothing was sent.
    TooLate,
    /// The proxy failed, and nothing was sent. It is not known how the receiver would have answered. Contains what
    /// the proxy did, as a sentence.
    NoProxy(String),
}

/// What may differ between the requests of one notification: the number of the attempt, the time that is signed, which is
/// read when a request is made, and the target.
#[derive(Clone, Copy)]
struct Signed<'call> {
    number: u32,
    clock: &'call dyn Clock,
    target: CallTarget<'call>,
    /// When the time limit of the call ends.
    until: Instant,
}

/// Makes HTTP calls to receivers.
pub struct HttpClient {
    /// Each scheme has its own connector, because a resolver is not told for which scheme it resolves.
    https: ReceiverConnector,
    http: ReceiverConnector,
    pool: Pool,
    filter: Arc<AddressFilter>,
    profiles: TlsProfiles,
    proxy: Option<Arc<Proxy>>,
    timeout: Duration,
    user_agent: HeaderValue,
}

impl HttpClient {
    /// Creates a client that calls only the addresses that the filter allows.
    #[must_use]
    pub fn new(settings: HttpClientSettings) -> Self {
        Self::with_resolver(settings, Arc::new(SystemResolver))
    }

    /// As [`HttpClient::new`]; host names are resolved by this resolver instead of that of the operating system.
    #[must_use]
    pub fn with_resolver(settings: HttpClientSettings, resolver: Arc<dyn HostResolver>) -> Self {
        let lookups = Arc::new(Lookups::new(resolver));
        let filter = Arc::new(settings.filter);
        let mut tls = tls_roots::client_config();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let proxy = settings.proxy.map(|url| {
            let proxy = Proxy::new(url, settings.timeout, lookups.clone());
            Arc::new(proxy)
        });
        let connector = |scheme| {
            let proxy = proxy.clone();
            ReceiverConnector::new(filter.clone(), scheme, tls.clone(), proxy, lookups.clone())
        };
        Self {
            https: connector(Scheme::Https),
            http: connector(Scheme::Http),
            pool: Pool::default(),
            filter,
            profiles: TlsProfiles::new(tls.clone()),
            proxy: proxy.clone(),
            timeout: settings.timeout,
            user_agent: HeaderValue::try_from(settings.user_agent)
                .unwrap_or(HeaderValue::from_static("Ringback")),
        }
    }

    /// The time limit of one attempt.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The TLS configurations of endpoints.
    #[must_use]
    pub fn profiles(&self) -> &TlsProfiles {
        &self.profiles
    }

    /// Makes one delivery attempt to this target with this body. `number` is the number of the attempt. The time of `clock`
    /// is signed. `until` is when the lease expires: no request begins after it. If `interrupt` is cancelled, the call ends;
    /// an acknowledgement that has arrived by then counts.
    pub async fn deliver(
        &self,
        notification: &Notification,
        target: CallTarget<'_>,
        body: &Bytes,
        (number, clock): (u32, &dyn Clock),
        (until, interrupt): (Instant, &CancellationToken),
        recorder: &CallRecorder,
    ) -> SendResult {
        let accepted = OnceLock::new();
        let timeout = self.timeout_of(target);
        let signed = Signed {
            number,
            clock,
            target,
            until: Instant::now() + timeout,
        };
        let call = self.call(notification, body, signed, until, &accepted, recorder);
        let call = tokio::time::timeout(timeout, call);
        let is_interrupted = tokio::select! {
            biased;
            ended = call => match ended {
                Ok(answer) => return answer,
                Err(_) => false,
            },
            () = interrupt.cancelled() => true,
        };
        if let Some(answer) = accepted.into_inner() {
            return SendResult::Answered(answer);
        }
        if is_interrupted {
            return SendResult::Answered(without_answer(
                Outcome::Interrupted,
                "the server was stopped before an answer came".to_string(),
            ));
        }
        if let Some(proxy) = (self.proxy.as_ref()).filter(|_| recorder.is_awaiting_proxy()) {
            proxy.try_aside();
            if let Some(why) = proxy.health.failure() {
                return SendResult::NoProxy(ProxyError::Failed(why).to_string());
            }
        }
        let limit = duration::display_ms(timeout.as_millis().try_into().unwrap_or(0));
        let phase = recorder.phase();
        let phase = phase.map(|phase| format!("; the time ran out while {}", phase.in_words()));
        SendResult::Answered(without_answer(
            Outcome::Timeout,
            format!(
                "no complete answer within {limit}{}",
                phase.unwrap_or_default()
            ),
        ))
    }

    /// The time limit of a call to this target: that of its endpoint, if it is shorter. Leases are made for the
    /// limit of the server.
    fn timeout_of(&self, target: CallTarget<'_>) -> Duration {
        let own_ms = target
            .endpoint
            .and_then(|endpoint| endpoint.settings.timeout_ms);
        let own = own_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()));
        own.map_or(self.timeout, |own| own.min(self.timeout))
    }

    async fn call(
        &self,
        notification: &Notification,
        body: &Bytes,
        signed: Signed<'_>,
        until: Instant,
        accepted: &OnceLock<Answer>,
        recorder: &CallRecorder,
    ) -> SendResult {
        let Some(url) = signed.target.url.url() else {
            let reason = "the URL cannot be read".to_string();
            return SendResult::Answered(without_answer(Outcome::Blocked, reason));
        };
        let (scheme, connector) = match url.scheme() {
            "https" => (Scheme::Https, &self.https),
            _ => (Scheme::Http, &self.http),
        };
        // An address in the URL is not resolved, so the filter of the resolver does not see it.
        if let Some(address) = literal(&url)
            && let Err(error) = self.filter.check(address, scheme)
        {
            return SendResult::Answered(blocked(&error));
        }
        let profile = signed.target.tls;
        let origin = profile.map_or(Cow::Borrowed(&url[..Position::BeforePath]), |profile| {
            // A connection with the certificate of one endpoint is never used for another.
            Cow::Owned(format!("{} {}", &url[..Position::BeforePath], profile.id()))
        });
        let origin = &*origin;
        let request = || {
            let request = self.request(&url, notification, body, signed);
            request.map_err(|error| {
                without_answer(
                    Outcome::Blocked,
                    format!("the request cannot be built: {error}"),
                )
            })
        };
        let sent = async |connection| -> Result<ExchangeResult, Answer> {
            let judging = Judging {
                ack: signed.target.ack,
                key: &notification.key,
                accepted,
            };
            let request = request()?;
            let pool = &self.pool;
            Ok(exchange(connection, request, &judging, origin, pool, until, recorder).await)
        };
        // At most two rounds: the second uses a new connection, and `Unsent` is returned only for a kept one.
        let mut kept = self.pool.take(origin, Instant::now());
        loop {
            let connection = match kept.take() {
                Some(kept) => kept,
                None => {
                    let opening = Opening {
                        origin,
                        profile,
                        share: signed.target.share,
                        until: signed.until,
                    };
                    match connector.open(&url, opening, &self.pool, recorder).await {
                        Ok(fresh) => fresh,
                        Err(error) => return without_connection(error.as_ref()),
                    }
                }
            };
            match sent(connection).await {
                Ok(ExchangeResult::Answered(answer)) | Err(answer) => {
                    return SendResult::Answered(answer);
                }
                Ok(ExchangeResult::TooLate) => return SendResult::TooLate,
                Ok(ExchangeResult::Unsent) => {}
            }
        }
    }

    fn request(
        &self,
        url: &Url,
        notification: &Notification,
        body: &Bytes,
        signed: Signed<'_>,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let host = &url[Position::BeforeHost..Position::BeforePath];
        let mut request = Request::post(path);
        if let Some(headers) = request.headers_mut() {
            headers.insert(HOST, HeaderValue::from_str(host)?);
            self.put_headers(headers, notification, body, signed)?;
        }
        request.body(Full::new(body.clone()))
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
        headers.reserve(9 + own.len() + of_endpoint.len());
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        // The notification's own headers replace those of its endpoint.
        for (name, value) in of_endpoint.iter().chain(own) {
            headers.insert(
                HeaderName::from_bytes(name.as_bytes())?,
                HeaderValue::from_str(value)?,
            );
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

/// The result of a call for which no connection was opened.
fn without_connection(error: &(dyn Error + 'static)) -> SendResult {
    match error.downcast_ref::<ProxyError>() {
        Some(failed @ ProxyError::Failed(_)) => SendResult::NoProxy(failed.to_string()),
        Some(ProxyError::Refused(_) | ProxyError::Closed | ProxyError::TooEarly(_)) | None => {
            SendResult::Answered(not_connected(error))
        }
    }
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

/// The IP address in a URL, if the URL has an address in the place of a host name. The URL parser has
/// already normalised unusual notations of addresses.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        url::Host::Domain(_) => None,
        url::Host::Ipv4(address) => Some(address.into()),
        url::Host::Ipv6(address) => Some(address.into()),
    }
}
