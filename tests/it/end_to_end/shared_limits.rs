//! The limits of an endpoint hold for all servers together, and what waits because of them holds up nobody else.
//!
//! What the receiver sees is compared with upper bounds only: on a slow machine calls come later, and fewer at a time.

use super::on_stores;
use crate::support::merchant::Merchant;
use crate::support::ringback::{Server, Stores, registration};
use crate::support::signing::beside;
use crate::support::{short_pause, within};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

on_stores!(@ postgres Postgres the_limits_of_an_endpoint_hold_for_two_servers_together);
on_stores!(@ redis_only RedisOnly the_limits_of_an_endpoint_hold_for_two_servers_together);

/// Calls at a time.
const CONCURRENCY: usize = 2;
/// Calls per second.
const RATE: u32 = 20;
/// How many calls this rate allows at one moment: those of a tenth of a second.
const BURST: usize = 2;
/// What is due at once for the endpoint.
const MANY: usize = 60;
/// What is due meanwhile for another destination.
const OTHERS: usize = 20;
/// A limit that no call runs into while a test lasts.
const GENEROUS: Duration = Duration::from_secs(60);

/// A receiver that answers nothing until it is told to, and notes what comes.
struct Receiver {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    seen: Mutex<Seen>,
    /// Whether calls are answered.
    answers: watch::Sender<bool>,
}

/// What has come.
#[derive(Default)]
struct Seen {
    /// Calls that are not answered.
    in_flight: usize,
    most_in_flight: usize,
    calls: Vec<SeenCall>,
}

#[derive(Clone)]
struct SeenCall {
    at: Instant,
    /// The id of the notification, and the number of the attempt.
    attempt: [String; 2],
}

/// A call that is not answered.
struct InFlight(Arc<Shared>);

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            answers: watch::Sender::new(false),
        });
        let router = Router::new()
            .route("/notify", post(take))
            .with_state(shared.clone());
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves");
        });
        Self {
            url: format!("http://{address}/notify"),
            shared,
            task,
        }
    }

    fn calls(&self) -> Vec<SeenCall> {
        self.shared.seen().calls.clone()
    }

    async fn until_calls(&self, count: usize) {
        let coming = async {
            while self.shared.seen().calls.len() < count {
                short_pause().await;
            }
        };
        within("calls at the receiver", coming).await;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("not poisoned")
    }
}

impl InFlight {
    fn begin(shared: Arc<Shared>, attempt: [String; 2]) -> Self {
        let mut seen = shared.seen();
        seen.in_flight += 1;
        seen.most_in_flight = seen.most_in_flight.max(seen.in_flight);
        let at = Instant::now();
        seen.calls.push(SeenCall { at, attempt });
        drop(seen);
        Self(shared)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.seen().in_flight -= 1;
    }
}

/// A call is over here before its answer is sent, so the servers may make the next one only after that.
async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, _body: Bytes) -> &'static str {
    let text = |name: &'static str| headers[name].to_str().expect("a text").to_string();
    let attempt = ["webhook-id", "ringback-attempt"].map(text);
    let _in_flight = InFlight::begin(shared.clone(), attempt);
    let mut answers = shared.answers.subscribe();
    // Fails only if there is no sender any more.
    let _ = answers.wait_for(|answers| *answers).await;
    "success"
}

/// The limits hold at once, unless the schedule takes too long to answer the server that sets them.
async fn until_limited(server: &Server) {
    let path = "/v1/lanes/endpoint%3Ashop";
    loop {
        let (_, lane) = server.call(Method::GET, path, None).await;
        if lane["concurrency"] == CONCURRENCY && lane["rate"] == f64::from(RATE) {
            return;
        }
        short_pause().await;
    }
}

async fn the_limits_of_an_endpoint_hold_for_two_servers_together(stores: Stores) {
    let receiver = Receiver::start().await;
    let one = Server::start_as(stores, |config| {
        config.delivery.timeout = GENEROUS;
        // Else a destination that has not answered yet gets one call at a time.
        config.schedule.lane_start = CONCURRENCY;
    })
    .await;
    let (config, dir) = beside(one.config());
    let other = Server::open(config, None, Some(dir)).await;
    let servers = [&one, &other];
    let endpoint = json!({ "url": receiver.url, "concurrency": CONCURRENCY, "rate": RATE });
    let path = "/v1/endpoints/shop";
    let (status, shown) = one.call(Method::PUT, path, Some(endpoint)).await;
    assert_eq!(status, 201, "{shown}");
    within("the lane to be limited", until_limited(&other)).await;
    for number in 0..MANY {
        let id = format!("n{number}");
        let asked = json!({ "topic": "t", "id": id, "endpoint": "shop", "body": "x" });
        servers[number % 2].register(asked).await;
    }
    receiver.until_calls(CONCURRENCY).await;

    // The others get theirs from both servers while the endpoint has all calls that it may have, and much that is due.
    let mut others = Merchant::start().await;
    for number in 0..OTHERS {
        let asked = registration(&format!("other{number}"), &others);
        servers[number % 2].register(asked).await;
    }
    for number in 0..OTHERS {
        others.call().await;
        let id = format!("other{number}");
        one.until_state(&id, "delivered").await;
    }
    assert_eq!(receiver.calls().len(), CONCURRENCY);

    let begun = Instant::now();
    receiver.shared.answers.send_replace(true);
    for number in 0..MANY {
        let view = one.until_state(&format!("n{number}"), "delivered").await;
        assert_eq!(view["attempts_made"], 1, "{view}");
    }
    for server in [one, other] {
        server.stop().await;
    }
    let most = receiver.shared.seen().most_in_flight;
    assert_eq!(most, CONCURRENCY);
    let calls = receiver.calls();
    let attempts: BTreeSet<_> = calls.iter().map(|call| &call.attempt).collect();
    assert_eq!((calls.len(), attempts.len()), (MANY, MANY));
    let interval = Duration::from_secs(1) / RATE;
    for (number, call) in calls[CONCURRENCY..].iter().enumerate() {
        // One more than the burst, because the clock of Redis and that of this test may go apart a little.
        let after = u32::try_from(number.saturating_sub(BURST)).expect("few");
        let elapsed = call.at.duration_since(begun);
        assert!(elapsed >= interval * after, "call {number}: {elapsed:?}");
    }
}
