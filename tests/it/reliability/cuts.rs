//! One fault of one line, at the very place where it matters: what was asked for has been carried
//! out, and its reply is cut off; or the store is out of reach while something falls due.

use crate::support::held::held;
use crate::support::merchant::Merchant;
use crate::support::proxy::{Cut, Line, Proxy};
use crate::support::redis::connect;
use crate::support::ringback::{Api, Server, Stores, registration};
use crate::support::signing::master_key;
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::{JournalConfig, PostgresUrl, RedisUrl};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Which store is behind the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// Redis, with the journal in SQLite.
    Redis,
    /// PostgreSQL, with the schedule in Redis.
    Postgres,
}

/// A server with a line to one of its stores.
struct Lined {
    /// Redis, past the line.
    redis: String,
    line: Proxy,
    server: Server,
    merchant: Merchant,
}

impl Lined {
    async fn start(store: Store) -> Self {
        let stores = match store {
            Store::Redis => Stores::Redis,
            Store::Postgres => Stores::Postgres,
        };
        let mut past = None;
        let server = Server::start_as(stores, |config| {
            let redis = config.schedule.redis.clone().expect("on Redis");
            let redis = redis.expose().to_string();
            let line = match store {
                Store::Redis => {
                    let (line, url) = Proxy::before(&redis);
                    config.schedule.redis = Some(RedisUrl::parse(&url).expect("a URL"));
                    line
                }
                Store::Postgres => {
                    let JournalConfig::Postgres(url) = &config.journal else {
                        panic!("on PostgreSQL");
                    };
                    let (line, url) = Proxy::before(url.expose());
                    let url = PostgresUrl::parse(&url).expect("a URL");
                    config.journal = JournalConfig::Postgres(url);
                    line
                }
            };
            past = Some((redis, line));
            config.master_key = master_key(7);
            // Short leases.
            config.delivery.timeout = Duration::from_millis(500);
        })
        .await;
        let (redis, line) = past.expect("a line");
        Self {
            redis,
            line,
            server,
            merchant: Merchant::start().await,
        }
    }

    async fn register(&self, id: &str, delay: &str) -> u16 {
        let mut asked = registration(id, &self.merchant);
        asked["delay"] = delay.into();
        let call = self
            .server
            .call(Method::POST, "/v1/notifications", Some(asked));
        call.await.0
    }

    /// Exactly one call came, and none is to come: Redis has let go of everything.
    async fn delivered_once(mut self, id: &str) -> Value {
        let view = self.server.until_state(id, "delivered").await;
        let mut redis = connect(&self.redis).await;
        within("Redis to let go", async {
            while held(&mut redis).await > 0 {
                short_pause().await;
            }
        })
        .await;
        self.server.stop().await;
        assert_eq!(self.merchant.call().await.attempt(), 1);
        assert!(self.merchant.arrived().is_none(), "called twice: {view}");
        view
    }
}

/// The body of `a`, which is in the registration that a store gets and in nothing else.
fn body() -> Cut {
    Cut::To(b"id=a".to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_whose_reply_was_cut_is_refused_or_kept_and_asking_again_doubles_nothing() {
    async fn check(store: Store, after: usize, times: usize) {
        let lined = Lined::start(store).await;
        lined.line.cut(body(), after, times);
        let status = lined.register("a", "0s").await;
        lined.line.has_cut().await;
        assert!(matches!(status, 200 | 201 | 503), "{store:?}: {status}");
        println!("{store:?}, {times} replies cut after {after} bytes: {status}");
        within("the registration to be accepted", async {
            while lined.register("a", "0s").await == 503 {}
        })
        .await;
        lined.delivered_once("a").await;
    }
    for store in [Store::Redis, Store::Postgres] {
        check(store, 0, 1).await;
        check(store, 5, 1).await;
        check(store, 0, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_was_cut_is_given_again_at_once() {
    let lined = Lined::start(Store::Redis).await;
    lined.line.cut(Cut::With(b"t/a".to_vec()), 0, 1);
    assert_eq!(lined.register("a", "100ms").await, 201);
    lined.line.has_cut().await;
    let view = lined.delivered_once("a").await;
    assert_eq!(view["attempts"][0]["outcome"], "acknowledged");
    assert_eq!(view["attempts_made"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_whose_reply_was_cut_is_not_delivered_twice() {
    async fn check(store: Store, outcome: &str, after: usize, times: usize) {
        let lined = Lined::start(store).await;
        let which = Cut::To(outcome.as_bytes().to_vec());
        lined.line.cut(which, after, times);
        assert_eq!(lined.register("a", "0s").await, 201);
        lined.line.has_cut().await;
        let view = lined.delivered_once("a").await;
        assert_eq!(view["attempts_made"], 1);
        let attempts = view["attempts"].as_array().expect("attempts");
        assert_eq!(attempts.len(), 1, "recorded once: {view}");
    }
    for (after, times) in [(0, 1), (3, 1), (0, 2)] {
        // The settlement, and the recording.
        check(Store::Redis, "forget", after, times).await;
        check(Store::Postgres, "acknowledged", after, times).await;
    }
}

/// Nobody else has a secret that the server made, so whoever asked for it must get it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_made_key_whose_commit_was_not_answered_is_shown() {
    let lined = Lined::start(Store::Postgres).await;
    let api = &*lined.server;
    let asked = |path: String, body: Value, method| async move {
        let (status, view) = api.call(method, &path, Some(body)).await;
        assert_eq!(status, 201, "{view}");
        view
    };
    for number in 0..4 {
        let path = format!("/v1/endpoints/shop-{number}");
        let endpoint = json!({ "url": lined.merchant.url("/x") });
        asked(path.clone(), endpoint, Method::PUT).await;
        lined.line.cut(Cut::To(b"COMMIT".to_vec()), 0, 1);
        let made = asked(format!("{path}/keys"), json!({}), Method::POST).await;
        lined.line.has_cut().await;
        let secret = made["secret"].as_str().unwrap_or_default();
        assert!(secret.starts_with("whsec_"), "{number}: no secret");
        let (_, view) = api.call(Method::GET, &path, None).await;
        assert_eq!(view["keys"].as_array().map(Vec::len), Some(1), "{view}");
    }
}

/// It was there when the request came and is gone now, so the answer is not 404.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_whose_commit_was_not_answered_is_answered_as_done() {
    let lined = Lined::start(Store::Postgres).await;
    let made = async |api: &Api, method: Method, path: &str, body: Value| {
        let (status, view) = api.call(method, path, Some(body)).await;
        assert_eq!(status, 201, "{path}: {view}");
        view
    };
    let admin = json!({ "name": "admin", "role": "operator" });
    let admin = made(&*lined.server, Method::POST, "/v1/keys", admin).await;
    let api = &lined.server.with_key(admin["key"].as_str().expect("a key"));
    let remove = async |path: &str| {
        let shown = async || api.call(Method::GET, path, None).await.0;
        assert_eq!(shown().await, 200, "{path}");
        lined.line.cut(Cut::To(b"COMMIT".to_vec()), 0, 1);
        let (status, view) = api.call(Method::DELETE, path, None).await;
        lined.line.has_cut().await;
        assert_eq!(status, 204, "{path}: {view}");
        assert_eq!(shown().await, 404, "{path}");
    };
    // The second key signs for good, so the first one can be removed.
    let first_of_two = async |keys: &str| {
        let first = made(api, Method::POST, keys, json!({})).await;
        made(api, Method::POST, keys, json!({})).await;
        format!("{keys}/{}", first["id"].as_str().expect("an id"))
    };
    for number in 0..2 {
        let endpoint = format!("/v1/endpoints/shop-{number}");
        let settings = json!({ "url": lined.merchant.url("/x"), "rate": 5.0 });
        made(api, Method::PUT, &endpoint, settings).await;
        let key = first_of_two(&format!("{endpoint}/keys")).await;
        remove(&key).await;
        remove(&endpoint).await;
        let key = first_of_two("/v1/default-keys").await;
        remove(&key).await;
        let name = format!("anna-{number}");
        let asked = json!({ "name": name, "role": "support" });
        made(api, Method::POST, "/v1/keys", asked).await;
        remove(&format!("/v1/keys/{name}")).await;
    }
    // Each was removed once.
    let (_, log) = api.call(Method::GET, "/v1/audit-log", None).await;
    let items = log["items"].as_array().expect("acts");
    for (act, times) in [
        ("endpoint.remove_key", 2),
        ("endpoint.remove", 2),
        ("default_key.remove", 2),
        ("api_key.revoke", 2),
    ] {
        let found = items.iter().filter(|item| item["act"] == act).count();
        assert_eq!(found, times, "{act}: {log}");
    }
}

/// Whoever is told that a resend was not done repeats it, and the merchant would be called once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_by_hand_whose_commit_was_not_answered_is_answered_as_done() {
    let mut lined = Lined::start(Store::Postgres).await;
    for number in 0..3 {
        let id = format!("resent-{number}");
        assert_eq!(lined.register(&id, "0s").await, 201);
        lined.server.until_state(&id, "delivered").await;
        lined.line.cut(Cut::To(b"COMMIT".to_vec()), 0, 1);
        let path = format!("/v1/notifications/t/{id}/resend");
        let resent = lined.server.call(Method::POST, &path, Some(json!({})));
        let (status, view) = resent.await;
        lined.line.has_cut().await;
        assert_eq!((status, &view["series"]), (200, &json!(2)), "{view}");
        let is_over = |view: &Value| view["state"] == "delivered";
        let view = lined.server.until(&id, is_over).await;
        assert_eq!(view["series"], 2, "{view}");
        for attempt in [1, 2] {
            assert_eq!(lined.merchant.call().await.attempt(), attempt);
        }

        let id = format!("cancelled-{number}");
        assert_eq!(lined.register(&id, "1h").await, 201);
        lined.line.cut(Cut::To(b"COMMIT".to_vec()), 0, 1);
        let path = format!("/v1/notifications/t/{id}");
        let (status, view) = lined.server.call(Method::DELETE, &path, None).await;
        lined.line.has_cut().await;
        assert_eq!((status, &view["state"]), (200, &json!("cancelled")));
    }
    assert!(lined.merchant.arrived().is_none(), "nothing is sent twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_cut_in_the_middle_break_no_connection_for_good() {
    for store in [Store::Redis, Store::Postgres] {
        let lined = Lined::start(store).await;
        // Those to the first commands of new connections too.
        lined.line.cut(Cut::Any, 5, 20);
        within("the replies to be cut", async {
            while lined.line.cuts() {
                lined.register("a", "0s").await;
            }
        })
        .await;
        within("the registration to be accepted", async {
            while lined.register("a", "0s").await == 503 {}
        })
        .await;
        lined.delivered_once("a").await;
    }
}

/// Has the line fail while something falls due, and says how long after its return that is
/// delivered.
async fn resumes_after(store: Store, fault: Line) -> Duration {
    let mut lined = Lined::start(store).await;
    assert_eq!(lined.register("a", "300ms").await, 201);
    lined.line.set(fault).await;
    // Nothing can be registered.
    assert_eq!(lined.register("b", "0s").await, 503);
    if store == Store::Redis {
        assert!(lined.merchant.arrived().is_none(), "it cannot be claimed");
    }
    lined.line.set(Line::Passes).await;
    let back = Instant::now();
    // Due while the line was away, or registered by the first request after its return.
    within("a registration to be accepted", async {
        while lined.register("b", "0s").await == 503 {}
    })
    .await;
    lined.server.until_state("a", "delivered").await;
    lined.server.until_state("b", "delivered").await;
    let took = back.elapsed();
    lined.server.stop().await;
    for _ in ["a", "b"] {
        assert_eq!(lined.merchant.call().await.attempt(), 1);
    }
    assert!(lined.merchant.arrived().is_none());
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_goes_on_by_itself_when_a_store_is_back() {
    for store in [Store::Redis, Store::Postgres] {
        for fault in [Line::Refuses, Line::Closes, Line::Swallows] {
            let took = resumes_after(store, fault).await;
            println!("{store:?} {fault:?}: all delivered {took:.1?} after the line was back");
        }
    }
}
