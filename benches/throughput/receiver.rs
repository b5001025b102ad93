//! The receiver: acknowledges all calls but those to [`REFUSED`], counts them, and records how late each one arrived.
//!
//! It runs as a separate process: the same program, started with the argument [`ROLE`]. It listens on one port
//! for each lane and prints the ports. It answers each `GET` request with its statistics.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, Command};

/// The first argument that makes this program the receiver.
pub const ROLE: &str = "receiver";

/// Calls to this path are answered with the status 500.
pub const REFUSED: &str = "/refuse";

/// The receiver's statistics since the last reset.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Stats {
    /// The number of calls.
    pub calls: u64,
    /// When the first call arrived, in microseconds since 1970.
    pub first_us: u64,
    /// When the last call arrived, in microseconds since 1970.
    pub last_us: u64,
    /// How late each call with a due time in its body arrived, in microseconds. Filled only if `late` was
    /// requested.
    pub late_us: Vec<u64>,
    /// When each of these calls was due, in microseconds since 1970, in the same order.
    pub due_us: Vec<u64>,
}

/// A running receiver process. It ends when this value is dropped.
pub struct Receiver {
    _process: Child,
    _pipe: ChildStdin,
    /// One URL per lane.
    pub urls: Vec<String>,
    client: reqwest::Client,
}

impl Receiver {
    /// Starts a receiver with this number of lanes.
    pub async fn start(lanes: usize) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args([ROLE, &lanes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a receiver");
        let pipe = process.stdin.take().expect("piped");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let ports = lines
            .next_line()
            .await
            .expect("readable")
            .expect("the ports");
        let urls = ports
            .split(' ')
            .map(|port| format!("http://127.0.0.1:{port}/notify"))
            .collect();
        let client = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("a client");
        Self {
            _process: process,
            _pipe: pipe,
            urls,
            client,
        }
    }

    /// Reads the statistics. `what` is `late` to get the lateness of each call too, `reset` to set the statistics
    /// back afterwards, or empty.
    pub async fn stats(&self, what: &str) -> Stats {
        let url = format!("{}?{what}", self.urls[0]);
        let answer = self
            .client
            .get(url)
            .send()
            .await
            .expect("the receiver answers");
        answer.json().await.expect("stats")
    }
}

struct Seen {
    calls: AtomicU64,
    first_us: AtomicU64,
    last_us: AtomicU64,
    /// How late each call arrived, and when it was due, in microseconds.
    late_us: Mutex<Vec<(u64, u64)>>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            calls: AtomicU64::new(0),
            first_us: AtomicU64::new(u64::MAX),
            last_us: AtomicU64::new(0),
            late_us: Mutex::default(),
        }
    }
}

/// Runs the receiver until its standard input closes.
pub async fn run() {
    let lanes = std::env::args()
        .nth(2)
        .and_then(|lanes| lanes.parse().ok())
        .unwrap_or(1);
    let seen = Arc::new(Seen::default());
    let mut ports = Vec::new();
    for _ in 0..lanes {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        ports.push(listener.local_addr().expect("bound").port().to_string());
        tokio::spawn(accept(listener, seen.clone()));
    }
    println!("{}", ports.join(" "));
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
}

async fn accept(listener: TcpListener, seen: Arc<Seen>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let seen = seen.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, seen.clone()));
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Seen>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::GET {
        return Ok(Response::new(Full::new(stats(
            request.uri().query().unwrap_or(""),
            &seen,
        ))));
    }
    let arrived_us = now_us();
    let is_refused = request.uri().path() == REFUSED;
    let body = request
        .into_body()
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    seen.calls.fetch_add(1, Ordering::Relaxed);
    seen.first_us.fetch_min(arrived_us, Ordering::Relaxed);
    seen.last_us.fetch_max(arrived_us, Ordering::Relaxed);
    if let Some(due_us) = due_us(&body) {
        seen.late_us
            .lock()
            .expect("not poisoned")
            .push((arrived_us.saturating_sub(due_us), due_us));
    }
    let mut answer = Response::new(Full::new(Bytes::from_static(b"success")));
    if is_refused {
        *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    Ok(answer)
}

/// The due time at the start of a body (`due=<ms since 1970>&...`), in microseconds since 1970.
fn due_us(body: &[u8]) -> Option<u64> {
    let digits = body
        .strip_prefix(b"due=")?
        .split(|byte| *byte == b'&')
        .next()?;
    Some(std::str::from_utf8(digits).ok()?.parse::<u64>().ok()? * 1_000)
}

fn stats(what: &str, seen: &Seen) -> Bytes {
    let mut stats = Stats {
        calls: seen.calls.load(Ordering::Relaxed),
        first_us: seen.first_us.load(Ordering::Relaxed),
        last_us: seen.last_us.load(Ordering::Relaxed),
        late_us: Vec::new(),
        due_us: Vec::new(),
    };
    match what {
        "reset" => {
            seen.calls.store(0, Ordering::Relaxed);
            seen.first_us.store(u64::MAX, Ordering::Relaxed);
            seen.last_us.store(0, Ordering::Relaxed);
            seen.late_us.lock().expect("not poisoned").clear();
        }
        "late" => {
            let seen = seen.late_us.lock().expect("not poisoned");
            (stats.late_us, stats.due_us) = seen.iter().copied().unzip();
        }
        _ => {}
    }
    serde_json::to_vec(&stats).expect("serialisable").into()
}

/// Microseconds since 1970.
pub fn now_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    u64::try_from(since.as_micros()).expect("before the year 500,000")
}
