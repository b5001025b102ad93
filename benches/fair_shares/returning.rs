//! A merchant that was away and comes back: how long it takes until it has all that waited for it.
//!
//! Its endpoint has a rate. While it is away, its address refuses connections. All its notifications are registered and
//! due while it is away.

use crate::load;
use crate::receiver::now_us;
use crate::server::Setup;
use serde_json::json;
use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// The name of its endpoint.
const ENDPOINT: &str = "returning";
/// How many notifications wait for it.
const WAITING: usize = 10_000;
/// How many calls per second its endpoint allows.
const RATE: u32 = 500;
/// The longest time between two probes, and some more.
const LONGEST_WAIT: Duration = Duration::from_secs(180);

/// How it went.
pub struct Return {
    away: Duration,
    /// From the moment at which it accepted connections to the first call.
    first: Duration,
    /// From the first call to the last.
    all: Duration,
    /// The largest number of attempts that one notification had.
    most_attempts: u64,
    /// How many attempts there were beyond the first of each notification.
    more_attempts: u64,
}

impl fmt::Display for Return {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{WAITING} waited for {} s; the first call came {:.1} s after it was back, the last {:.1} s after the first \
             ({:.0}/s, at a rate of {RATE}/s); {} attempts beyond one each, {} at most for one",
            self.away.as_secs(),
            self.first.as_secs_f64(),
            self.all.as_secs_f64(),
            WAITING as f64 / self.all.as_secs_f64(),
            self.more_attempts,
            self.most_attempts,
        )
    }
}

/// Registers notifications for an endpoint that refuses connections, and accepts them after this time.
pub async fn measure(setup: &Setup, away: Duration) -> Return {
    // The socket keeps its port. While it does not listen, connections to it are refused. Otherwise another program
    // could get the port, and the calls.
    let socket = TcpSocket::new_v4().expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(any).expect("a free port");
    let address = socket.local_addr().expect("bound");
    let endpoint = json!({
        "url": format!("http://{address}/notify"),
        "rate": RATE,
        "after_outage_rate": RATE,
    });
    let url = format!("{}/v1/endpoints/{ENDPOINT}", setup.urls[0]);
    let answer = setup.client.put(url).json(&endpoint).send().await;
    let status = answer.expect("the server answers").status();
    assert!(status.is_success(), "the endpoint is kept: {status}");
    let run = setup.next_run();
    let registration = move |number, due_ms| {
        json!({
            "topic": "payment.succeeded",
            "id": format!("order-{run}-{number:08}"),
            "endpoint": ENDPOINT,
            "body": load::body(due_ms),
        })
    };
    load::register_each(setup, vec![now_us() / 1_000; WAITING], registration).await;
    tokio::time::sleep(away).await;

    let listener = socket.listen(1_024).expect("it listens");
    let calls = Arc::new(Mutex::new(Calls::default()));
    let back_us = now_us();
    let listening = tokio::spawn(accept(listener, calls.clone()));
    let arrived = tokio::time::timeout(LONGEST_WAIT, async {
        while calls.lock().expect("not poisoned").attempts.len() < WAITING {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    arrived.await.expect("all have arrived");
    // A call that is made twice would come now.
    tokio::time::sleep(Duration::from_secs(5)).await;
    listening.abort();
    let calls = calls.lock().expect("not poisoned");
    let most_attempts = calls.attempts.values().copied().max().unwrap_or(0);
    Return {
        away,
        first: Duration::from_micros(calls.first_us - back_us),
        all: Duration::from_micros(calls.last_us - calls.first_us),
        most_attempts,
        more_attempts: calls.attempts.values().map(|attempt| attempt - 1).sum(),
    }
}

#[derive(Default)]
struct Calls {
    first_us: u64,
    last_us: u64,
    /// For each `Webhook-Id`, the number of the attempt that arrived.
    attempts: HashMap<String, u64>,
}

async fn accept(listener: TcpListener, calls: Arc<Mutex<Calls>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(acknowledge(stream, calls.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Acknowledges each call. A call fits into the buffer and comes in one piece.
async fn acknowledge(mut stream: TcpStream, calls: Arc<Mutex<Calls>>) {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuccess";
    let mut buffer = [0; 8_192];
    loop {
        let bytes = match stream.read(&mut buffer).await {
            Ok(bytes) if bytes > 0 => bytes,
            Ok(_) | Err(_) => return,
        };
        let head = String::from_utf8_lossy(&buffer[..bytes]).to_lowercase();
        let header = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches(':').trim().to_string())
        };
        if let (Some(id), Some(attempt)) = (header("webhook-id"), header("ringback-attempt")) {
            let mut calls = calls.lock().expect("not poisoned");
            calls.last_us = now_us();
            if calls.attempts.is_empty() {
                calls.first_us = calls.last_us;
            }
            let attempt = attempt.parse().expect("a number");
            let before = calls.attempts.insert(id, attempt);
            assert_eq!(before, None, "a call was made twice");
        }
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}
