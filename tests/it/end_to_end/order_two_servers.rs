//! Orders with two servers at work. The receiver notes every call and how it ended, and answers some calls slowly and some with
//! a failure at first.

use super::{on_several_redis, on_stores};
use crate::support::ringback::{Server, Stores};
use crate::support::signing::beside;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

on_stores!(@ postgres Postgres two_servers_keep_the_order_of_every_key);
on_several_redis!(two_servers_keep_the_order_of_every_key);

/// Destinations. Each has an order key of each mode.
const LANES: usize = 5;
const KEYS: usize = 2 * LANES;
/// Numbers of each order key.
const NUMBERS: usize = 12;
/// One call in so many is answered slowly: after so many further registrations, or all.
const SLOW_ONE_IN: usize = 3;
const SLOW_BY: usize = 10;
/// A limit that no call runs into while a test lasts.
const GENEROUS: Duration = Duration::from_secs(60);

fn mode_of(key: usize) -> &'static str {
    match key % 2 {
        0 => "strict",
        _ => "latest",
    }
}

/// The numbers of a key in the order in which they are registered. A strict number is refused once a higher one was sent.
fn numbers_of(key: usize) -> impl Iterator<Item = usize> {
    let step = if mode_of(key) == "strict" { 1 } else { 5 };
    (0..NUMBERS).map(move |turn| turn * step % NUMBERS)
}

/// Whether the receiver answers the first attempt with a failure. It does so with the highest number.
fn fails_at_first(number: usize) -> bool {
    number % 4 == 3
}

fn id_of(key: usize, number: usize) -> String {
    format!("k{key}-{number}")
}

/// What the receiver saw.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A call of this number has come.
    Called(usize),
    /// It is over.
    Ended { number: usize, is_success: bool },
}

/// A receiver at several addresses.
struct Receiver {
    urls: Vec<String>,
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    seen: Mutex<Seen>,
    /// How many notifications are registered.
    registered: watch::Sender<usize>,
}

#[derive(Default)]
struct Seen {
    calls: usize,
    /// By order key.
    events: [Vec<Event>; KEYS],
}

impl Receiver {
    async fn start() -> Self {
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            registered: watch::Sender::new(0),
        });
        let (mut urls, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..LANES {
            let listener = TcpListener::bind("127.0.0.1:0").await;
            let listener = listener.expect("a free port");
            let address = listener.local_addr().expect("bound");
            let router = Router::new()
                .route("/notify", post(take))
                .with_state(shared.clone());
            urls.push(format!("http://{address}/notify"));
            tasks.push(tokio::spawn(async move {
                axum::serve(listener, router).await.expect("it serves");
            }));
        }
        Self {
            urls,
            shared,
            tasks,
        }
    }

    fn registration(&self, key: usize, number: usize) -> Value {
        json!({
            "topic": "t", "id": id_of(key, number), "url": self.urls[key / 2], "body": format!("{key} {number}"),
            "ladder": { "intervals": ["50ms", "50ms"] },
            "order": { "key": format!("k{key}"), "number": number, "mode": mode_of(key) },
        })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A call that is not answered.
struct InFlight {
    shared: Arc<Shared>,
    key: usize,
    number: usize,
    is_success: bool,
}

impl InFlight {
    /// The call, and its number among all.
    fn begin(shared: Arc<Shared>, key: usize, number: usize) -> (Self, usize) {
        let call = {
            let mut seen = shared.seen.lock().expect("not poisoned");
            seen.events[key].push(Event::Called(number));
            seen.calls += 1;
            seen.calls
        };
        let in_flight = Self {
            shared,
            key,
            number,
            is_success: false,
        };
        (in_flight, call)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut seen = self.shared.seen.lock().expect("not poisoned");
        seen.events[self.key].push(Event::Ended {
            number: self.number,
            is_success: self.is_success,
        });
    }
}

/// A call is over here before its answer is sent, so the servers may make the next one only after that.
async fn take(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, &'static str) {
    let (key, number) = body.split_once(' ').expect("two numbers");
    let [key, number]: [usize; 2] = [key, number].map(|text| text.parse().expect("a number"));
    let mut registered = shared.registered.subscribe();
    let (mut in_flight, call) = InFlight::begin(shared, key, number);
    if call % SLOW_ONE_IN == 0 {
        let enough = (*registered.borrow() + SLOW_BY).min(KEYS * NUMBERS);
        // Fails only if there is no sender any more.
        let _ = registered
            .wait_for(|registered| *registered >= enough)
            .await;
    }
    let fails = fails_at_first(number) && headers["ringback-attempt"] == "1";
    in_flight.is_success = !fails;
    drop(in_flight);
    match fails {
        true => (StatusCode::INTERNAL_SERVER_ERROR, "fail"),
        false => (StatusCode::OK, "success"),
    }
}

/// Checks what the receiver saw of a key, of which these numbers were delivered.
fn check(key: usize, events: &[Event], delivered: &[usize]) {
    let mode = mode_of(key);
    let mut in_flight = 0;
    let (mut called, mut succeeded) = (Vec::<usize>::new(), Vec::<usize>::new());
    for event in events {
        match *event {
            Event::Called(number) => {
                in_flight += 1;
                assert_eq!(in_flight, 1, "{mode} {key}: two at a time: {events:?}");
                let is_next = succeeded.iter().all(|before| *before < number);
                assert!(is_next, "{mode} {key}: {number} comes late: {events:?}");
                called.push(number);
            }
            Event::Ended { number, is_success } => {
                in_flight -= 1;
                if is_success {
                    succeeded.push(number);
                }
            }
        }
    }
    assert_eq!(in_flight, 0, "{mode} {key}: {events:?}");
    assert_eq!(succeeded, delivered, "{mode} {key}: {events:?}");
    assert_eq!(succeeded.last(), Some(&(NUMBERS - 1)), "{mode} {key}");
    if mode == "strict" {
        let all: Vec<usize> = (0..NUMBERS).collect();
        assert_eq!(succeeded, all, "{mode} {key}: {events:?}");
        assert!(called.is_sorted(), "{mode} {key}: {events:?}");
    }
}

async fn two_servers_keep_the_order_of_every_key(stores: Stores) {
    let receiver = Receiver::start().await;
    let one = Server::start_as(stores, |config| {
        config.delivery.timeout = GENEROUS;
        // Else a destination that has not answered yet gets one call at a time.
        config.schedule.lane_start = KEYS / LANES;
    })
    .await;
    let (config, dir) = beside(one.config());
    let other = Server::open(config, None, Some(dir)).await;

    let mut registering = JoinSet::new();
    for key in 0..KEYS {
        let servers = [(*one).clone(), (*other).clone()];
        let asked = numbers_of(key).map(|number| receiver.registration(key, number));
        let asked: Vec<Value> = asked.collect();
        let shared = receiver.shared.clone();
        registering.spawn(async move {
            for (turn, asked) in asked.into_iter().enumerate() {
                servers[(key + turn) % 2].register(asked).await;
                shared.registered.send_modify(|registered| *registered += 1);
            }
        });
    }
    registering.join_all().await;

    let mut delivered = vec![Vec::new(); KEYS];
    for (key, delivered) in delivered.iter_mut().enumerate() {
        // It goes last, so all others of its key have ended then. One that was superseded in flight may become delivered before.
        let highest = id_of(key, NUMBERS - 1);
        one.until_state(&highest, "delivered").await;
        for number in 0..NUMBERS {
            let has_ended = |view: &Value| view["ended_at"] != Value::Null;
            let view = one.until(&id_of(key, number), has_ended).await;
            if view["state"] == "delivered" {
                delivered.push(number);
                continue;
            }
            assert_eq!(view["state"], "cancelled", "{view}");
            assert_eq!(view["cause"], "superseded", "{view}");
        }
    }
    for server in [one, other] {
        server.stop().await;
    }
    let seen = receiver.shared.seen.lock().expect("not poisoned");
    for (key, delivered) in delivered.iter().enumerate() {
        check(key, &seen.events[key], delivered);
    }
}
