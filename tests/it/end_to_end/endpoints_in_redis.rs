//! Endpoints without a journal: what two servers do to one at the same moment, and what happens when Redis loses them,
//! in whole or in part. Nothing pending is lost with them, and all servers see the same.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{Server, Stores};
use crate::support::{short_pause, within};
use redis::aio::MultiplexedConnection;
use reqwest::Method;
use serde_json::{Value, json};

const PATH: &str = "/v1/endpoints/shop";

/// Two servers without a journal, and a connection to their Redis.
struct Pair {
    one: Server,
    other: Server,
    redis: MultiplexedConnection,
}

impl Pair {
    async fn start() -> Self {
        let one = Server::start(Stores::RedisOnly).await;
        let other = Server::open(one.config().clone(), None, None).await;
        let url = one.config().schedule.redis.clone().expect("on Redis");
        let redis = connect(url.expose()).await;
        Self { one, other, redis }
    }

    async fn put(&self, endpoint: &Value) -> u16 {
        let put = self.one.call(Method::PUT, PATH, Some(endpoint.clone()));
        put.await.0
    }

    /// Sets the endpoint until this is the answer: while a server finds out what was lost, it refuses changes.
    async fn until_put(&self, endpoint: &Value, status: u16) {
        let put = async {
            while self.put(endpoint).await != status {
                short_pause().await;
            }
        };
        within("the endpoint to be set", put).await;
    }

    /// Holds or releases the lane of the endpoint.
    async fn change_lane(&self, verb: &str) {
        let path = format!("/v1/lanes/endpoint%3Ashop/{verb}");
        let changed = async {
            loop {
                let body = Some(json!({ "reason": "x" }));
                if matches!(self.one.call(Method::POST, &path, body).await.0, 200 | 202) {
                    return;
                }
                short_pause().await;
            }
        };
        within("the lane to be changed", changed).await;
    }

    async fn command(&mut self, words: &[&str]) {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let done = command.exec_async(&mut self.redis).await;
        done.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }

    /// Waits until the lists of both servers have so many endpoints.
    async fn until_both_know(&self, many: usize) {
        for server in [&self.one, &self.other] {
            let known = async {
                loop {
                    let (_, page) = server.call(Method::GET, "/v1/endpoints", None).await;
                    if page["items"].as_array().expect("items").len() == many {
                        return;
                    }
                    short_pause().await;
                }
            };
            within("a server to know what is kept", known).await;
        }
    }

    async fn stop(self) {
        self.one.stop().await;
        self.other.stop().await;
    }
}

fn naming(id: &str) -> Value {
    json!({ "topic": "t", "id": id, "endpoint": "shop", "body": format!("id={id}") })
}

async fn register(server: &Server, id: &str) -> u16 {
    let asked = server.call(Method::POST, "/v1/notifications", Some(naming(id)));
    asked.await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_without_a_number_is_replaced_as_a_whole() {
    let mut pair = Pair::start().await;
    let whole = |url: &str| json!({ "url": url, "keys": [] });
    assert_eq!(pair.put(&whole("https://shop.example/a")).await, 201);
    let mut read = redis::cmd("HGET");
    read.arg("{rb:0}:endpoints").arg("shop");
    let record: String = read.query_async(&mut pair.redis).await.expect("read");
    let (_, rest) = record.split_once(' ').expect("a number");
    let record = format!("0 {rest}");
    pair.command(&["HSET", "{rb:0}:endpoints", "shop", &record])
        .await;
    assert_eq!(pair.put(&whole("https://shop.example/b")).await, 201);
    let (_, view) = pair.one.call(Method::GET, PATH, None).await;
    assert_eq!(view["url"], "https://shop.example/b");
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_beside_a_removal_has_settings_or_is_refused() {
    let pair = Pair::start().await;
    let merchant = Merchant::start().await;
    let endpoint = json!({ "url": merchant.url("/n") });
    for round in 0..20 {
        pair.put(&endpoint).await;
        if round % 2 == 0 {
            pair.until_both_know(1).await;
        }
        let id = format!("n{round}");
        let removing = pair.one.call(Method::DELETE, PATH, None);
        let (removed, registered) = tokio::join!(removing, register(&pair.other, &id));
        match registered {
            201 => {
                assert!([204, 409].contains(&removed.0), "{}", removed.1);
                pair.other.until_state(&id, "delivered").await;
            }
            refused => assert_eq!((refused, removed.0), (422, 204)),
        }
    }
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_waits_for_a_notification_is_not_removed_by_any_server() {
    let pair = Pair::start().await;
    let endpoint = json!({ "url": "https://shop.example/n" });
    pair.put(&endpoint).await;
    let mut later = naming("1");
    later["delay"] = json!("1h");
    pair.one.register(later).await;
    let (status, problem) = pair.other.call(Method::DELETE, PATH, None).await;
    assert_eq!(status, 409, "{problem}");
    assert_eq!(problem["type"], "urn:ringback:problem:endpoint-in-use");
    let cancel = pair.one.call(Method::DELETE, "/v1/notifications/t/1", None);
    assert_eq!(cancel.await.0, 200);
    assert_eq!(pair.other.call(Method::DELETE, PATH, None).await.0, 204);
    pair.until_both_know(0).await;
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_forgets_the_endpoints_of_a_flushed_redis() {
    let mut pair = Pair::start().await;
    let mut merchant = Merchant::start().await;
    let endpoint = json!({ "url": merchant.url("/n") });
    pair.put(&endpoint).await;
    pair.until_both_know(1).await;
    pair.command(&["FLUSHDB"]).await;
    pair.until_both_know(0).await;
    for server in [&pair.one, &pair.other] {
        assert_eq!(register(server, "1").await, 422);
    }
    pair.until_put(&endpoint, 201).await;
    assert_eq!(register(&pair.other, "1").await, 201);
    merchant.call().await;
    pair.one.until_state("1", "delivered").await;
    pair.stop().await;
}

/// What is lost, and whether the endpoint is lost with it.
const LOSSES: &[(&[&str], bool)] = &[
    (&["DEL", "{rb:0}:endpoints"], true),
    (&["HDEL", "{rb:0}:endpoints", "shop"], true),
    (&["SET", "{rb:0}:endpoints", "of another type"], true),
    (
        &["DEL", "{rb:0}:endpoints", "{rb:0}:endpoint_changes"],
        true,
    ),
    (&["HDEL", "{rb:0}:endpoints", ":number"], false),
    (&["DEL", "{rb:0}:endpoint_changes"], false),
    (
        &["SET", "{rb:0}:endpoint_changes", "of another type"],
        false,
    ),
    (&["ZREM", "{rb:0}:endpoint_changes", "shop"], false),
    (&["ZADD", "{rb:0}:endpoint_changes", "1", "stranger"], false),
    (&["DEL", "{rb:0}:meta"], false),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_of_endpoints_nothing_pending_is_lost() {
    let mut pair = Pair::start().await;
    let mut merchant = Merchant::scripted(vec![], Reaction::success()).await;
    let endpoint = json!({ "url": merchant.url("/n") });
    for (round, (loss, is_lost)) in LOSSES.iter().enumerate() {
        pair.put(&endpoint).await;
        pair.until_both_know(1).await;
        pair.change_lane("hold").await;
        let id = format!("n{round}");
        pair.other.register(naming(&id)).await;
        pair.command(loss).await;
        match is_lost {
            true => {
                pair.until_both_know(0).await;
                assert_eq!(register(&pair.other, "other").await, 422, "{loss:?}");
                pair.change_lane("release").await;
                pair.until_put(&endpoint, 201).await;
            }
            false => {
                pair.change_lane("release").await;
                let changed =
                    json!({ "url": merchant.url("/n"), "timeout": format!("{}s", round + 1) });
                pair.until_put(&changed, 200).await;
                let known = async {
                    loop {
                        let (_, page) = pair.other.call(Method::GET, "/v1/endpoints", None).await;
                        if page["items"][0]["timeout"] == changed["timeout"] {
                            return;
                        }
                        short_pause().await;
                    }
                };
                within("the other server to know the change", known).await;
            }
        }
        let call = merchant.call().await;
        assert_eq!(call.body, format!("id={id}").as_bytes(), "{loss:?}");
        pair.one.until_state(&id, "delivered").await;
    }
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_limits_of_a_lane_are_back_when_a_server_starts() {
    let mut pair = Pair::start().await;
    let endpoint = json!({ "url": "https://shop.example/n", "concurrency": 3, "rate": 0.5 });
    pair.put(&endpoint).await;
    pair.command(&["DEL", "{rb:0}:settings"]).await;
    let beside = Server::open(pair.one.config().clone(), None, None).await;
    let path = "/v1/lanes/endpoint%3Ashop";
    let (_, lane) = pair.other.call(Method::GET, path, None).await;
    assert_eq!(
        (&lane["concurrency"], &lane["rate"]),
        (&json!(3), &json!(0.5))
    );
    beside.stop().await;
    pair.stop().await;
}
