//! The HTTP face, driven over a real socket.

mod batches;
mod bounds;
mod changes;
mod ended_numbers;
mod faulty;
mod journaled;
mod lookups;
mod payloads;
mod registrations;
mod request_memory;
mod resealing;
mod searching;

mod unread;

use reqwest::{Client, Method, RequestBuilder, Response};
use ringback::access::AccessControl;
use ringback::api::server::serve;
use ringback::api::{ApiSettings, router};
use ringback::clock::{Clock, ManualClock};
use ringback::domain::state::{Cause, State};
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::window::Window;
use ringback::schedule::{ClaimQuota, Lease, Limits, SettingsSource, Settled, Settlement};
use ringback::service::Service;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// 2026-11-20T08:30:00Z.
const NOW_MS: i64 = 1_795_163_400_000;
const NOTIFICATIONS: &str = "/v1/notifications";

/// A server on a port of its own, that ends with the test.
struct Server {
    address: SocketAddr,
    http: Client,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    async fn start(service: Service, settings: ApiSettings) -> Self {
        // A second test finds it installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let router = router(Arc::new(service), settings);
        Self {
            address,
            http: Client::builder().no_proxy().build().expect("a client"),
            serving: tokio::spawn(serve(listener, router, CancellationToken::new())),
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("http://{}{path}", self.address))
    }

    async fn get(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::GET, path)).await
    }

    async fn delete(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::DELETE, path)).await
    }

    /// Posts without a body and without a content type.
    async fn post(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::POST, path)).await
    }

    async fn post_text(&self, path: &str, body: impl Into<Vec<u8>>) -> Reply {
        let request = self.request(Method::POST, path).body(body.into());
        Reply::of(request.header("content-type", "application/json")).await
    }

    async fn patch(&self, path: &str, body: &str) -> Reply {
        let request = self.request(Method::PATCH, path).body(body.to_string());
        Reply::of(request.header("content-type", "application/json")).await
    }

    async fn post_json(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, body.to_string()).await
    }

    async fn register(&self, body: &Value) -> Reply {
        self.post_json(NOTIFICATIONS, body).await
    }
}

/// An answer, read to its end.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Value,
}

impl Reply {
    async fn of(request: RequestBuilder) -> Self {
        Self::read(request.send().await.expect("an answer")).await
    }

    async fn read(response: Response) -> Self {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.bytes().await.expect("a whole answer");
        let body = serde_json::from_slice(&text).unwrap_or(Value::Null);
        Self {
            status,
            headers,
            body,
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The document of a success.
    #[track_caller]
    fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.body
    }

    /// Checks that it is a problem of this status and kind, with all that a problem has.
    #[track_caller]
    fn is_problem(&self, status: u16, kind: &str) {
        let body = &self.body;
        assert_eq!(self.status, status, "{body}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{body}"
        );
        assert_eq!(body["status"], status, "{body}");
        assert_eq!(
            body["type"],
            format!("urn:ringback:problem:{kind}"),
            "{body}"
        );
        for member in ["title", "detail"] {
            assert!(body[member].as_str().is_some_and(|text| !text.is_empty()));
        }
    }
}

/// A service over a schedule in memory that remembers what has ended, without a journal.
struct Embedded {
    clock: ManualClock,
    schedule: Arc<MemorySchedule>,
    server: Server,
}

impl Embedded {
    async fn start() -> Self {
        Self::with(ApiSettings::default()).await
    }

    async fn with(settings: ApiSettings) -> Self {
        Self::with_access(AccessControl::default(), settings).await
    }

    /// A server that needs the key `s3cret`.
    async fn with_key() -> Self {
        let access = AccessControl::with_key(Some("s3cret"));
        Self::with_access(access, ApiSettings::default()).await
    }

    async fn with_access(access: AccessControl, settings: ApiSettings) -> Self {
        let clock = ManualClock::at(NOW_MS);
        let schedule = Arc::new(memory(&clock));
        let service = Service::new(None, schedule.clone()).with_access(Arc::new(access));
        Self {
            clock,
            schedule,
            server: Server::start(service, settings).await,
        }
    }

    /// Claims the one notification that is due.
    async fn claim(&self) -> Lease {
        let claimed = self
            .schedule
            .claim(ClaimQuota::of(10))
            .await
            .expect("claims");
        let mut leases = claimed.leases;
        assert_eq!(leases.len(), 1);
        leases.remove(0)
    }

    /// Claims the one notification that is due and parks it.
    async fn park(&self, cause: Cause) {
        let lease = self.claim().await;
        let settlement = Settlement::to(
            State::Dead,
            Some(cause),
            lease.entry.progress,
            self.clock.now_ms(),
        );
        let settled = self.schedule.settle(lease, settlement).await;
        assert_eq!(settled.expect("settles"), Settled::Done);
    }
}

fn memory(clock: &ManualClock) -> MemorySchedule {
    let limits = Limits {
        lane_start: 8,
        lane_cap: 8,
        lease_ms: 20_000,
        remember_ms: Some(600_000),
        settings_source: SettingsSource::Schedule,
        window: Window::WHOLE,
        early_ms: 0,
    };
    MemorySchedule::new(Arc::new(clock.clone()), limits)
}

/// A registration that is taken.
fn order(id: &str) -> Value {
    json!({
        "topic": "payment.succeeded",
        "id": id,
        "url": "https://shop.example/notify",
        "body": "out_trade_no=1",
    })
}
