//! One HTTP call: signed, sent, and its answer read.
//!
//! The whole call has one time limit over connecting, headers and body. Redirects are not followed,
//! proxies of the environment not used, bodies not decompressed. Connections are kept and used
//! again. Nothing is sent twice, but for one case: a kept connection turns out to be closed before a
//! answer began (`delivery::reuse`).

use super::failure::{blocked, classify, is_broken_off, without_answer};
use super::guard::{Guard, Scheme};
use super::resolver::GuardedResolver;
use super::reuse::{self, Watched};
use crate::domain::ack::AckRule;
use crate::domain::attempt::{Answer, KEPT_ANSWER_BYTES, Outcome, READ_ANSWER_BYTES};
use crate::domain::duration;
use crate::domain::notification::Notification;
use crate::domain::signature::SigningSecret;
use crate::trust;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Client, Url};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long an idle connection is kept. Shorter than what common servers grant (Node's default is
/// 5 s), so that a call is hardly ever sent into a connection that is just being closed.
const IDLE: Duration = Duration::from_secs(4);
/// Idle connections kept for one host.
const IDLE_PER_HOST: usize = 64;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const RINGBACK_TOPIC: HeaderName = HeaderName::from_static("ringback-topic");
const RINGBACK_ATTEMPT: HeaderName = HeaderName::from_static("ringback-attempt");

/// What the courier goes by.
#[derive(Debug, Clone)]
pub struct CourierSettings {
    /// Which addresses may be called.
    pub guard: Guard,
    /// Signs what is sent.
    pub secret: SigningSecret,
    /// The limit of one attempt.
    pub timeout: Duration,
    /// What receivers are told of who calls.
    pub user_agent: String,
}

/// Makes HTTP calls.
pub struct Courier {
    /// By scheme, because a resolver does not learn which scheme it resolves for.
    https: Clients,
    http: Clients,
    guard: Arc<Guard>,
    secret: SigningSecret,
    timeout: Duration,
    user_agent: HeaderValue,
}

/// The clients for one scheme.
struct Clients {
    /// Keeps connections and uses them again.
    pooled: Client,
    /// Opens a connection for every call.
    fresh: Client,
}

/// How a call went.
enum Called {
    /// An answer came, or it is known why none did.
    Answered(Answer),
    /// The connection broke before an answer began.
    BrokenOff(Answer),
}

impl Courier {
    /// Builds the clients.
    ///
    /// # Errors
    /// If the TLS stack cannot be set up.
    pub fn new(settings: CourierSettings) -> Result<Self, reqwest::Error> {
        let guard = Arc::new(settings.guard);
        let clients = |scheme| -> Result<Clients, reqwest::Error> {
            Ok(Clients {
                pooled: client(&guard, scheme, IDLE_PER_HOST)?,
                fresh: client(&guard, scheme, 0)?,
            })
        };
        Ok(Self {
            https: clients(Scheme::Https)?,
            http: clients(Scheme::Http)?,
            guard,
            secret: settings.secret,
            timeout: settings.timeout,
            user_agent: HeaderValue::try_from(settings.user_agent)
                .unwrap_or(HeaderValue::from_static("Ringback")),
        })
    }

    /// The limit of one attempt.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Delivers a notification once. `number` is the attempt's, `now_ms` the time that is signed.
    pub async fn deliver(&self, notification: &Notification, number: u32, now_ms: i64) -> Answer {
        match tokio::time::timeout(self.timeout, self.call(notification, number, now_ms)).await {
            Ok(answer) => answer,
            Err(_) => {
                let limit = duration::display_ms(self.timeout.as_millis().try_into().unwrap_or(0));
                without_answer(
                    Outcome::Timeout,
                    format!("no complete answer within {limit}"),
                )
            }
        }
    }

    async fn call(&self, notification: &Notification, number: u32, now_ms: i64) -> Answer {
        let Some(url) = notification.destination.url() else {
            return without_answer(Outcome::Blocked, "the URL cannot be read".to_string());
        };
        let scheme = if url.scheme() == "https" {
            Scheme::Https
        } else {
            Scheme::Http
        };
        // The resolver never sees an address literal.
        if let Some(address) = literal(&url)
            && let Err(error) = self.guard.check(address, scheme)
        {
            return blocked(&error);
        }
        let clients = match scheme {
            Scheme::Https => &self.https,
            Scheme::Http => &self.http,
        };
        let call = async |client: &Client| {
            let Some(headers) = self.headers(notification, number, now_ms) else {
                let reason = "a header cannot be sent".to_string();
                return Called::Answered(without_answer(Outcome::Blocked, reason));
            };
            let request = client.post(url.clone()).headers(headers);
            send(request.body(notification.body.clone()), notification.ack).await
        };
        match reuse::watch(call(&clients.pooled)).await {
            // The other side had closed a connection that we kept: it has not read this call, so
            // it is made now, once, on a new connection. Without this, servers that close soon
            // after answering fail a quarter of their calls.
            (Called::BrokenOff(_), true) => match call(&clients.fresh).await {
                Called::Answered(answer) | Called::BrokenOff(answer) => answer,
            },
            (Called::Answered(answer) | Called::BrokenOff(answer), _) => answer,
        }
    }

    fn headers(&self, notification: &Notification, number: u32, now_ms: i64) -> Option<HeaderMap> {
        let webhook_id = notification.webhook_id.to_string();
        let timestamp_s = now_ms.div_euclid(1_000);
        let signature = self
            .secret
            .sign(&webhook_id, timestamp_s, &notification.body);
        let own = notification.headers.pairs();
        let mut headers = HeaderMap::with_capacity(8 + own.len());
        for (name, value) in own {
            headers.insert(
                HeaderName::from_bytes(name.as_bytes()).ok()?,
                HeaderValue::from_str(value).ok()?,
            );
        }
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_str(&notification.content_type).ok()?,
        );
        headers.insert(USER_AGENT, self.user_agent.clone());
        headers.insert(WEBHOOK_ID, HeaderValue::try_from(webhook_id).ok()?);
        headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(timestamp_s));
        headers.insert(WEBHOOK_SIGNATURE, HeaderValue::try_from(signature).ok()?);
        headers.insert(
            RINGBACK_TOPIC,
            HeaderValue::from_str(notification.key.topic()).ok()?,
        );
        headers.insert(RINGBACK_ATTEMPT, HeaderValue::from(number));
        Some(headers)
    }
}

fn client(
    guard: &Arc<Guard>,
    scheme: Scheme,
    idle_per_host: usize,
) -> Result<Client, reqwest::Error> {
    trust::build(|| {
        let guard = guard.clone();
        Client::builder()
            .dns_resolver(Arc::new(GuardedResolver { guard, scheme }))
            .connector_layer(Watched)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .http1_only()
            .http1_title_case_headers()
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(idle_per_host)
            .min_tls_version(reqwest::tls::Version::TLS_1_2)
    })
}

/// Sends one request and reads its answer.
async fn send(request: reqwest::RequestBuilder, ack: AckRule) -> Called {
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) if is_broken_off(&error) => return Called::BrokenOff(classify(&error)),
        Err(error) => return Called::Answered(classify(&error)),
    };
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let whole = loop {
        match response.chunk().await {
            Ok(None) => break true,
            Ok(Some(chunk)) => {
                let room = READ_ANSWER_BYTES - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    break false;
                }
            }
            Err(error) => {
                body.truncate(KEPT_ANSWER_BYTES);
                return Called::Answered(Answer {
                    status: Some(status),
                    body,
                    ..classify(&error)
                });
            }
        }
    };
    Called::Answered(ack.judge(status, &body, whole))
}

/// The address in a URL that names one instead of a host; odd notations were normalised when the
/// URL was parsed.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        url::Host::Domain(_) => None,
        url::Host::Ipv4(address) => Some(address.into()),
        url::Host::Ipv6(address) => Some(address.into()),
    }
}
