//! The receiver that survives everything: it lives in the test process, answers by plan, and notes
//! every call with who made it.
//!
//! Each server of a run has a `User-Agent` of its own, so a call tells which server sent it, also when
//! that one has been killed in the meantime.

use super::plan::Plan;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Destinations, each with a lane of its own.
const ORIGINS: usize = 8;

/// One attempt of one notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Try {
    /// The notification's number.
    pub number: u32,
    /// The attempt's.
    pub attempt: u32,
}

/// One call.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// When it was read.
    pub at: Instant,
    /// Which server made it: its place among [`Receiver::admit`]ted ones.
    pub sender: usize,
    /// Whether `success` was answered.
    pub acknowledged: bool,
}

/// All calls.
#[derive(Debug, Default)]
pub struct Book {
    /// The calls of each attempt, in the order in which they came.
    pub calls: HashMap<Try, Vec<Arrival>>,
    /// The webhook id of each notification that was called.
    pub webhook_ids: HashMap<u32, String>,
    /// What should never have come.
    pub faults: Vec<String>,
}

/// What the `User-Agent` of a server begins with.
const AGENT: &str = "server-";

struct Shared {
    seed: u64,
    senders: AtomicUsize,
    book: Mutex<Book>,
}

/// A running receiver; ends when dropped.
pub struct Receiver {
    shared: Arc<Shared>,
    origins: Vec<String>,
    _tasks: JoinSet<()>,
}

impl Receiver {
    /// Starts one that answers by the plans of a seed.
    pub async fn start(seed: u64) -> Self {
        let shared = Arc::new(Shared {
            seed,
            senders: AtomicUsize::new(0),
            book: Mutex::default(),
        });
        let mut origins = Vec::new();
        let mut tasks = JoinSet::new();
        for _ in 0..ORIGINS {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("bound");
            origins.push(format!("http://{address}"));
            tasks.spawn(listen(listener, shared.clone()));
        }
        Self {
            shared,
            origins,
            _tasks: tasks,
        }
    }

    /// Where it listens.
    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Makes a `User-Agent` for one more server, and gives its place among all servers of the run.
    pub fn admit(&self) -> (usize, String) {
        let sender = self.shared.senders.fetch_add(1, Ordering::Relaxed);
        (sender, format!("{AGENT}{sender}"))
    }

    /// What has come so far.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book.lock().expect("not poisoned")
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let _ = stream.set_nodelay(true);
        while connections.try_join_next().is_some() {}
        let shared = shared.clone();
        connections.spawn(async move {
            let sender = OnceLock::new();
            let service = service_fn(|request| answer(request, &shared, &sender));
            // A sender that was killed in the middle is what this is about.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: &Shared,
    sender: &OnceLock<usize>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let at = Instant::now();
    let (head, body) = request.into_parts();
    if body.collect().await.is_err() {
        // Broken off before it was complete: no receiver would act on it.
        return Ok(Response::new(Full::default()));
    }
    let header = |name: &str| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    };
    let number = Plan::number_of(head.uri.path().trim_start_matches('/'));
    let attempt = header("ringback-attempt").parse().ok();
    let from = sender.get().copied().or_else(|| {
        let found = header("user-agent").strip_prefix(AGENT)?.parse().ok()?;
        Some(*sender.get_or_init(|| found))
    });
    let (Some(number), Some(attempt), Some(sender)) = (number, attempt, from) else {
        let fault = format!("a call that is none of ours: {head:?}");
        shared.book.lock().expect("not poisoned").faults.push(fault);
        return Ok(Response::new(Full::default()));
    };
    let this = Try { number, attempt };
    let place = {
        let mut book = shared.book.lock().expect("not poisoned");
        let id = header("webhook-id").to_string();
        let known = book.webhook_ids.entry(number).or_insert_with(|| id.clone());
        if *known != id {
            let fault = format!("{this:?} came as {id}, but earlier as {known}");
            book.faults.push(fault);
        }
        let calls = book.calls.entry(this).or_default();
        calls.push(Arrival {
            at,
            sender,
            acknowledged: false,
        });
        calls.len() - 1
    };
    let reply = Plan::of(shared.seed, number).reply(attempt);
    if !reply.after.is_zero() {
        // A slow merchant. Dropped here if the sender dies meanwhile: it got no answer.
        tokio::time::sleep(reply.after).await;
    }
    if reply.is_success() {
        let mut book = shared.book.lock().expect("not poisoned");
        if let Some(arrival) = book
            .calls
            .get_mut(&this)
            .and_then(|calls| calls.get_mut(place))
        {
            arrival.acknowledged = true;
        }
    }
    let mut response = Response::new(Full::new(Bytes::from_static(reply.body.as_bytes())));
    *response.status_mut() = hyper::StatusCode::from_u16(reply.status).expect("a status");
    Ok(response)
}
