//! Makes one HTTP call: signs the request, sends it and reads the answer.
//!
//! One time limit applies to the whole call: connecting, headers and body. The client does not follow
//! redirects, uses no proxy but that of its settings and does not decompress bodies. Connections are
//! kept for later calls (`delivery::pool`). No request is sent twice: a call moves from a kept connection
//! to a new one only if no byte of the request was written, and over HTTP/2 (`delivery::http2`) also if the receiver
//! says that it did not process it.

use super::address_filter::{AddressFilter, Blocked, Scheme};
use super::call_recorder::CallRecorder;
use super::call_target::CallTarget;
use super::connector::ReceiverConnector;
use super::exchange::{ExchangeResult, exchange};
use super::failure::{blocked, not_connected, without_answer};
use super::http2::caller::{Http2Caller, Http2Result, Http2Route};
use super::judging::{Judging, UnfinishedAnswer};
use super::lookups::{HostResolver, Lookups, SystemResolver};
use super::pool::Pool;
use super::proxy::{Proxy, ProxyError};
use super::request::{RequestMaker, Signed};
use super::tls_profiles::{TlsConfigs, TlsProfile, TlsProfiles};
use crate::clock::Clock;
use crate::domain::attempt::{Answer, Outcome};
use crate::domain::attempt_reason::{ConnectionReason, FailureReason, ProxyReason, UnsentReason};
use crate::domain::duration;
use crate::domain::endpoint::Endpoint;
use crate::domain::http_version::HttpVersion;
use crate::domain::notification::Notification;
use crate::domain::proxy_url::ProxyUrl;
use crate::domain::url_parts::UrlParts;
use crate::tls_roots;
use bytes::Bytes;
use http::HeaderValue;
use std::borrow::Cow;
use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

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
    /// Look-ups of other names took all threads until the time of the call was over, and nothing was sent. It is not known
    /// how the receiver would have answered.
    NotLookedUp,
    /// The proxy failed, and nothing was sent. It is not known how the receiver would have answered. Contains what
    /// the proxy did, as a sentence.
    NoProxy(ProxyReason),
}

/// Makes HTTP calls to receivers.
pub struct HttpClient {
    /// Each scheme has its own connector, because a resolver is not told for which scheme it resolves.
    https: ReceiverConnector,
    http: ReceiverConnector,
    pool: Pool,
    http2: Http2Caller,
    filter: Arc<AddressFilter>,
    profiles: TlsProfiles,
    proxy: Option<Arc<Proxy>>,
    requests: RequestMaker,
    timeout: Duration,
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
        let tls = tls_roots::client_config();
        let configs = TlsConfigs::of(tls.clone());
        let proxy = settings.proxy.map(|url| {
            let proxy = Proxy::new(url, settings.timeout, lookups.clone());
            Arc::new(proxy)
        });
        let connector = |scheme| {
            let proxy = proxy.clone();
            ReceiverConnector::new(
                filter.clone(),
                scheme,
                configs.clone(),
                proxy,
                lookups.clone(),
            )
        };
        Self {
            https: connector(Scheme::Https),
            http: connector(Scheme::Http),
            pool: Pool::default(),
            http2: Http2Caller::default(),
            filter,
            profiles: TlsProfiles::new(tls),
            proxy: proxy.clone(),
            requests: RequestMaker {
                user_agent: HeaderValue::try_from(settings.user_agent)
                    .unwrap_or(HeaderValue::from_static("Ringback")),
            },
            timeout: settings.timeout,
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
        let (accepted, unfinished) = (OnceLock::new(), OnceLock::new());
        let timeout = self.timeout_of(target);
        let signed = Signed {
            number,
            clock,
            target,
            until: Instant::now() + timeout,
        };
        let cells = (&accepted, &unfinished);
        let call = self.call(notification, body, signed, until, cells, recorder);
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
        let ended = |outcome, reason: FailureReason| {
            let failure = without_answer(outcome, reason);
            SendResult::Answered(match unfinished.into_inner() {
                Some(unfinished) => UnfinishedAnswer::of_failure(unfinished, failure),
                None => failure,
            })
        };
        if is_interrupted {
            return ended(Outcome::Interrupted, UnsentReason::Stopped.into());
        }
        if recorder.is_awaiting_thread() {
            return SendResult::NotLookedUp;
        }
        if let Some(proxy) = (self.proxy.as_ref()).filter(|_| recorder.is_awaiting_proxy()) {
            proxy.try_aside();
            if let Some(fault) = proxy.health.failure() {
                return SendResult::NoProxy(ProxyReason::Failed { fault });
            }
        }
        let limit = duration::display_ms(timeout.as_millis().try_into().unwrap_or(0));
        let reason = match recorder.awaited() {
            Some(awaited) => ConnectionReason::TimedOutWhile { limit, awaited },
            None => ConnectionReason::TimedOut { limit },
        };
        ended(Outcome::Timeout, reason.into())
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

    /// What opens connections to the host of a URL. `None` if its address cannot be read.
    ///
    /// # Errors
    /// [`Blocked`] if the URL has an address that may not be called. An address in a URL is not resolved, so the filter of
    /// the resolver does not see it.
    pub(super) fn connector_of(
        &self,
        parts: UrlParts<'_>,
    ) -> Result<Option<&ReceiverConnector>, Blocked> {
        let (scheme, connector) = match parts.is_https {
            true => (Scheme::Https, &self.https),
            false => (Scheme::Http, &self.http),
        };
        if parts.is_address {
            let Ok(address) = parts.host.trim_matches(['[', ']']).parse() else {
                return Ok(None);
            };
            self.filter.check(address, scheme)?;
        }
        Ok(Some(connector))
    }

    async fn call(
        &self,
        notification: &Notification,
        body: &Bytes,
        signed: Signed<'_>,
        until: Instant,
        (accepted, unfinished): (&OnceLock<Answer>, &OnceLock<UnfinishedAnswer>),
        recorder: &CallRecorder,
    ) -> SendResult {
        let destination = signed.target.url;
        let plain = destination.plain_parts();
        let parsed = match plain {
            Some(_) => None,
            None => destination.url(),
        };
        let Some(parts) = plain.or_else(|| parsed.as_ref().map(UrlParts::of)) else {
            return without_url();
        };
        let connector = match self.connector_of(parts) {
            Ok(Some(connector)) => connector,
            Ok(None) => return without_url(),
            Err(error) => return SendResult::Answered(blocked(&error)),
        };
        let (profile, http) = (signed.target.tls, signed.target.http());
        let origin = origin(parts.origin, profile, http);
        let origin = &*origin;
        let judging = Judging {
            ack: signed.target.ack,
            key: &notification.key,
            accepted,
            unfinished,
        };
        let sent = async |connection| -> Result<ExchangeResult, Answer> {
            let request = (self.requests).http1(parts, notification, body, signed);
            let request = request.map_err(|error| unwritable(&error))?;
            let pool = &self.pool;
            Ok(exchange(connection, request, &judging, origin, pool, until, recorder).await)
        };
        let mut kept = match http {
            HttpVersion::Http1 => self.pool.take(origin, Instant::now()),
            HttpVersion::Http2 => None,
        };
        // `Unsent` is returned only for a kept connection, and there is a bounded number of these.
        loop {
            let connection = match (kept.take(), http) {
                (Some(kept), _) => kept,
                (None, HttpVersion::Http1) => {
                    let Some(url) = destination.url() else {
                        return without_url();
                    };
                    let to = (origin, profile, signed.target.share, signed.until);
                    // Opening is rare and its future is large.
                    match Box::pin(connector.open(&url, to, &self.pool, recorder)).await {
                        Ok(fresh) => fresh,
                        Err(error) => return without_connection(error.as_ref()),
                    }
                }
                (None, HttpVersion::Http2) => {
                    let shared_as = shared_as(origin, signed.target.endpoint);
                    let Some(url) = destination.url() else {
                        return without_url();
                    };
                    let route = Http2Route {
                        connector,
                        http1: &self.pool,
                        url: &url,
                        origin,
                        shared_as: &shared_as,
                        profile,
                        share: signed.target.share,
                        call_ends: signed.until,
                    };
                    let request = || {
                        let request = (self.requests).http2(parts, notification, body, signed);
                        request.map_err(|error| unwritable(&error))
                    };
                    let request = (request, body);
                    let calling = self.http2.call(&route, request, &judging, until, recorder);
                    match Box::pin(calling).await {
                        Http2Result::Answered(answer) => return SendResult::Answered(answer),
                        Http2Result::TooLate => return SendResult::TooLate,
                        Http2Result::NotConnected(error) => {
                            return without_connection(error.as_ref());
                        }
                        Http2Result::ChoseHttp1(connection) => connection,
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
}

/// Names all that decides which connections a call may use: the origin of the URL, the TLS configuration, and the
/// version of HTTP that is asked for. A connection with the certificate of one endpoint is never used for another.
fn origin<'url>(
    origin: &'url str,
    profile: Option<&TlsProfile>,
    http: HttpVersion,
) -> Cow<'url, str> {
    match (profile, http) {
        (None, HttpVersion::Http1) => Cow::Borrowed(origin),
        (Some(profile), HttpVersion::Http1) => Cow::Owned(format!("{origin} {}", profile.id())),
        (None, HttpVersion::Http2) => Cow::Owned(format!("{origin} http/2")),
        (Some(profile), HttpVersion::Http2) => {
            Cow::Owned(format!("{origin} {} http/2", profile.id()))
        }
    }
}

/// Names the calls that may be in flight on the same connection of HTTP/2: those of one endpoint to one origin. The window
/// for bodies is that of the connection, so a path that does not read its bodies would stop the calls of the others.
fn shared_as<'url>(origin: &'url str, endpoint: Option<&Endpoint>) -> Cow<'url, str> {
    match endpoint {
        Some(endpoint) => Cow::Owned(format!("{origin} {}", endpoint.name)),
        None => Cow::Borrowed(origin),
    }
}

/// The result of a call to a text from a store that is not a URL.
fn without_url() -> SendResult {
    let reason = UnsentReason::UnreadableUrl;
    SendResult::Answered(without_answer(Outcome::Blocked, reason))
}

/// The recorded answer of a call whose request cannot be written.
fn unwritable(error: &http::Error) -> Answer {
    let error = error.to_string();
    without_answer(Outcome::Blocked, UnsentReason::UnwritableRequest { error })
}

/// The result of a call for which no connection was opened.
fn without_connection(error: &(dyn Error + 'static)) -> SendResult {
    match error.downcast_ref::<ProxyError>() {
        Some(failed @ ProxyError::Failed(_)) => SendResult::NoProxy(failed.reason()),
        Some(ProxyError::Refused(_) | ProxyError::Closed | ProxyError::TooEarly(_)) | None => {
            SendResult::Answered(not_connected(error))
        }
    }
}
