//! A merchant whose answers are held like calls to a store, and who keeps an account of them.

use super::gate::{Gate, Verdict};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ringback::clock::{Clock as _, ManualClock};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// One call that came.
#[derive(Debug, Clone)]
pub struct Call {
    /// Where it stands among all that happened.
    pub at: u64,
    /// When it came, by the clock of the stores.
    pub at_ms: i64,
    /// The attempt's number.
    pub attempt: u32,
    /// The server that made it.
    pub server: usize,
    /// Whether `success` was answered.
    pub acknowledged: bool,
    /// Where its answer stands among all that happened; `None` if there was none.
    pub answered_at: Option<u64>,
}

/// What is known of all notifications, by their ids.
pub struct Account {
    clock: ManualClock,
    calls: Mutex<HashMap<String, Vec<Call>>>,
    gates: Mutex<HashMap<usize, Gate>>,
    /// The notifications of which an attempt that is made again is refused.
    refusing_copies: Mutex<HashSet<String>>,
    /// When each thing happened, by the clock of the stores.
    happened: Mutex<Vec<i64>>,
}

impl Account {
    /// A number that is higher than that of all that happened before.
    pub fn now(&self) -> u64 {
        let mut happened = self.happened.lock().expect("not poisoned");
        happened.push(self.clock.now_ms());
        happened.len() as u64
    }

    /// When the thing with this number happened, by the clock of the stores.
    pub fn ms_at(&self, at: u64) -> i64 {
        let happened = self.happened.lock().expect("not poisoned");
        let index = usize::try_from(at).expect("small") - 1;
        happened[index]
    }

    /// The calls of one notification.
    pub fn calls(&self, id: &str) -> Vec<Call> {
        let calls = self.calls.lock().expect("not poisoned");
        calls.get(id).cloned().unwrap_or_default()
    }

    /// Has the merchant refuse each attempt of a notification that comes again, although it acknowledged the first one.
    pub fn refuse_copies(&self, id: &str) {
        let mut refusing = self.refusing_copies.lock().expect("not poisoned");
        refusing.insert(id.to_string());
    }

    /// Holds the answers to one server's calls there.
    pub fn hold(&self, server: usize, gate: Gate) {
        self.gates
            .lock()
            .expect("not poisoned")
            .insert(server, gate);
    }
}

/// A running merchant; ends when dropped.
pub struct Merchant {
    pub account: Arc<Account>,
    pub origin: String,
    _tasks: JoinSet<()>,
}

impl Merchant {
    /// Starts one. A path is the number of the attempt that it acknowledges, and an id.
    pub async fn start(clock: ManualClock) -> Self {
        let account = Arc::new(Account {
            clock,
            calls: Mutex::default(),
            gates: Mutex::default(),
            refusing_copies: Mutex::default(),
            happened: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let origin = format!("http://{}", listener.local_addr().expect("bound"));
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, account.clone()));
        Self {
            account,
            origin,
            _tasks: tasks,
        }
    }
}

async fn listen(listener: TcpListener, account: Arc<Account>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        while connections.try_join_next().is_some() {}
        let account = account.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, &account));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // The caller may have been killed.
            let _ = connection.await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    account: &Account,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| {
        let value = request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_string()
    };
    let attempt: u32 = header("ringback-attempt").parse().expect("a number");
    let agent = header("user-agent");
    let server: usize = agent
        .trim_start_matches("server-")
        .parse()
        .expect("a number");
    let path = request.uri().path().trim_start_matches('/').to_string();
    let (good, id) = path.split_once('/').expect("two parts");
    let good: u32 = good.parse().expect("a number");
    let refuses_copies = {
        let refusing = account.refusing_copies.lock().expect("not poisoned");
        refusing.contains(id)
    };
    let (place, is_copy) = {
        let mut calls = account.calls.lock().expect("not poisoned");
        let calls = calls.entry(id.to_string()).or_default();
        let is_copy = calls.iter().any(|call| call.attempt == attempt);
        calls.push(Call {
            at: account.now(),
            at_ms: account.clock.now_ms(),
            attempt,
            server,
            acknowledged: false,
            answered_at: None,
        });
        (calls.len() - 1, is_copy)
    };
    let gate = account
        .gates
        .lock()
        .expect("not poisoned")
        .get(&server)
        .cloned();
    if let Some(gate) = gate
        && gate.pass("merchant").await.verdict == Verdict::Died
    {
        std::future::pending::<()>().await;
    }
    let success = attempt >= good && !(is_copy && refuses_copies);
    let mut calls = account.calls.lock().expect("not poisoned");
    if let Some(call) = calls.get_mut(id).and_then(|calls| calls.get_mut(place)) {
        call.acknowledged = success;
        call.answered_at = Some(account.now());
    }
    drop(calls);
    let body = if success { "success" } else { "fail" };
    Ok(Response::new(Full::new(Bytes::from_static(
        body.as_bytes(),
    ))))
}
