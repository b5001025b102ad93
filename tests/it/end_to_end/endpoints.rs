//! Endpoints: what they decide for the calls of notifications that name them, and when a change holds.

use super::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores};
use crate::support::{short_pause, within};
use reqwest::Method;
use serde_json::{Value, json};

on_stores!(
    an_endpoint_is_asked_at_each_attempt_and_the_ladder_is_fixed,
    a_registration_goes_over_its_endpoint,
    an_endpoint_survives_a_restart_and_is_removed_when_nothing_names_it,
    a_test_call_is_signed_and_not_kept,
    a_patch_changes_what_it_names,
    an_endpoint_says_whether_retry_after_is_followed,
    an_endpoint_limits_its_lane,
);
on_stores!(@ postgres_shared Postgres a_change_on_one_server_holds_on_the_other);
on_stores!(@ redis_shared RedisOnly a_change_on_one_server_holds_on_the_other);

async fn put(server: &Server, name: &str, endpoint: Value) -> (u16, Value) {
    let path = format!("/v1/endpoints/{name}");
    server.call(Method::PUT, &path, Some(endpoint)).await
}

/// The versions of the endpoint that the attempts used.
fn versions(view: &Value) -> Value {
    let attempts = view["attempts"].as_array().expect("attempts").iter();
    attempts
        .map(|attempt| attempt["endpoint_version"].clone())
        .collect()
}

/// Why the attempts were deferred, and for how long.
fn deferrals(view: &Value) -> Value {
    let attempts = view["attempts"].as_array().expect("attempts").iter();
    attempts
        .map(|attempt| json!([attempt["deferred_by"], attempt["deferred_ms"]]))
        .collect()
}

/// What is seen of attempts: without a journal they are not kept.
fn kept(stores: Stores, attempts: Value) -> Value {
    match stores {
        Stores::RedisOnly | Stores::ClusterOnly => json!([]),
        Stores::Embedded
        | Stores::Redis
        | Stores::Postgres
        | Stores::Sentinel
        | Stores::Cluster => attempts,
    }
}

fn naming(id: &str, endpoint: &str) -> Value {
    json!({ "topic": "t", "id": id, "endpoint": endpoint, "body": format!("id={id}") })
}

async fn an_endpoint_is_asked_at_each_attempt_and_the_ladder_is_fixed(stores: Stores) {
    let mut old = Merchant::scripted(vec![], Reaction::fail()).await;
    let mut new = Merchant::scripted(vec![], Reaction::Answer(204, vec![])).await;
    let server = Server::start_by_hand(stores).await;
    let (status, made) = put(
        &server,
        "shop-1",
        json!({
            "url": old.url("/old"), "ladder": { "intervals": ["10s", "10s"] },
            "headers": { "X-Shop": "one", "X-Other": "endpoint" }, "user_agent": "Pay/1",
            "signature_headers": { "id": "X-Id", "timestamp": "X-Time", "signature": "X-Sign" },
        }),
    )
    .await;
    assert_eq!((status, &made["version"]), (201, &json!(1)), "{made}");
    let mut asked = naming("1", "shop-1");
    asked["headers"] = json!({ "X-Other": "own" });
    let view = server.register(asked).await;
    assert_eq!(view["lane"], "endpoint:shop-1");
    assert_eq!(view["url"], old.url("/old"));
    assert_eq!(view["attempts_left"], 3);
    let call = old.call().await;
    assert!(call.request_line.contains(" /old"), "{call:?}");
    for (name, value) in [
        ("X-Shop", "one"),
        ("X-Other", "own"),
        ("User-Agent", "Pay/1"),
    ] {
        assert_eq!(call.header(name), value, "{name}");
    }
    assert_eq!(call.header("X-Id"), view["webhook_id"]);
    assert!(call.header("X-Sign").starts_with("v1,"));
    assert!(
        call.headers
            .iter()
            .all(|(name, _)| !name.to_lowercase().starts_with("webhook-")),
        "{call:?}"
    );
    server.until_attempts("1", 1).await;

    let changed = json!({ "url": new.url("/new"), "ack": "standard-webhooks", "ladder": "wechat" });
    let (status, changed) = put(&server, "shop-1", changed).await;
    assert_eq!((status, &changed["version"]), (200, &json!(2)), "{changed}");
    server.clock().advance(10_000);
    let call = new.call().await;
    assert!(call.request_line.contains(" /new"), "{call:?}");
    assert!(
        call.headers
            .iter()
            .all(|(name, _)| !name.eq_ignore_ascii_case("x-shop"))
    );
    assert_eq!(call.header("Webhook-Id"), view["webhook_id"]);
    let view = server.until_state("1", "delivered").await;
    assert_eq!(view["url"], new.url("/new"));
    assert_eq!(view["ladder"]["intervals"], json!(["10s", "10s"]));
    assert_eq!(versions(&view), kept(stores, json!([1, 2])));
    assert!(old.arrived().is_none());
    server.stop().await;
}

async fn a_registration_goes_over_its_endpoint(stores: Stores) {
    let merchant = Merchant::scripted(vec![], Reaction::Answer(200, b"OK".to_vec())).await;
    let mut elsewhere = Merchant::scripted(vec![], Reaction::Answer(200, b"OK".to_vec())).await;
    let server = Server::start(stores).await;
    let endpoint =
        json!({ "url": merchant.url("/n"), "ack": { "text": "OK" }, "ladder": "wechat" });
    put(&server, "shop-1", endpoint).await;
    let mut asked = naming("1", "shop-1");
    asked["url"] = json!(elsewhere.url("/own"));
    let view = server.register(asked.clone()).await;
    assert_eq!(
        (&view["lane"], &view["url"]),
        (&json!("endpoint:shop-1"), &asked["url"])
    );
    let call = elsewhere.call().await;
    assert!(call.request_line.contains(" /own"), "{call:?}");
    server.until_state("1", "delivered").await;
    let mut asked = naming("2", "shop-1");
    (asked["ack"], asked["ladder"]) = (json!("success"), json!({ "intervals": [] }));
    server.register(asked.clone()).await;
    server.until_state("2", "dead").await;
    // The same registration is the same, whatever its endpoint says by now.
    put(
        &server,
        "shop-1",
        json!({ "url": merchant.url("/n"), "ladder": "alipay" }),
    )
    .await;
    let (status, _) = server
        .call(Method::POST, "/v1/notifications", Some(asked.clone()))
        .await;
    assert_eq!(status, 200);
    (asked["endpoint"], asked["id"]) = (json!("shop-2"), json!("3"));
    let (status, problem) = server
        .call(Method::POST, "/v1/notifications", Some(asked))
        .await;
    assert_eq!(status, 422, "{problem}");
    assert_eq!(problem["errors"][0]["pointer"], "/endpoint");
    server.stop().await;
}

async fn an_endpoint_survives_a_restart_and_is_removed_when_nothing_names_it(stores: Stores) {
    let merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start_by_hand(stores).await;
    let path = "/v1/endpoints/shop-1";
    let endpoint = json!({ "url": merchant.url("/n"), "ladder": { "intervals": ["1h"] } });
    put(&server, "shop-1", endpoint).await;
    server.register(naming("1", "shop-1")).await;
    server.until_attempts("1", 1).await;
    let server = server.restart().await;
    assert_eq!(server.call(Method::GET, path, None).await.1["version"], 1);
    let (status, problem) = server.call(Method::DELETE, path, None).await;
    assert_eq!(status, 409, "{problem}");
    assert_eq!(problem["type"], "urn:ringback:problem:endpoint-in-use");
    merchant.now_does(Reaction::success());
    server.clock().advance(3_600_000);
    server.until_state("1", "delivered").await;
    assert_eq!(server.call(Method::DELETE, path, None).await.0, 204);
    for method in [Method::GET, Method::DELETE, Method::PATCH] {
        let body = (method == Method::PATCH).then(|| json!({ "timeout": "1s" }));
        let (status, problem) = server.call(method, path, body).await;
        assert_eq!(status, 404, "{problem}");
        assert_eq!(problem["type"], "urn:ringback:problem:missing-endpoint");
    }
    let refused = server
        .call(
            Method::POST,
            "/v1/notifications",
            Some(naming("2", "shop-1")),
        )
        .await;
    assert_eq!(refused.0, 422, "{}", refused.1);
    // What was accepted before is still the same registration.
    let (status, known) = server
        .call(
            Method::POST,
            "/v1/notifications",
            Some(naming("1", "shop-1")),
        )
        .await;
    assert_eq!(
        (status, &known["state"]),
        (200, &json!("delivered")),
        "{known}"
    );
    let mut other = naming("1", "shop-1");
    other["body"] = json!("other");
    let (status, problem) = server
        .call(Method::POST, "/v1/notifications", Some(other))
        .await;
    assert_eq!(status, 409, "{problem}");
    let (status, again) = put(&server, "shop-1", json!({ "url": merchant.url("/n") })).await;
    assert_eq!((status, &again["version"]), (201, &json!(2)));
    server.stop().await;
}

async fn a_test_call_is_signed_and_not_kept(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::success()], Reaction::fail()).await;
    let server = Server::start(stores).await;
    put(&server, "shop-1", json!({ "url": merchant.url("/n") })).await;
    let path = "/v1/endpoints/shop-1/test";
    for outcome in ["acknowledged", "wrong_answer"] {
        let (status, attempt) = server.call(Method::POST, path, None).await;
        assert_eq!(
            (status, &attempt["outcome"]),
            (200, &json!(outcome)),
            "{attempt}"
        );
        assert_eq!(attempt["endpoint_version"], 1);
        let call = merchant.call().await;
        assert_eq!(call.header("Ringback-Topic"), "ringback.test");
        assert!(call.header("Webhook-Signature").starts_with("v1,"));
    }
    if stores != Stores::RedisOnly {
        let (_, page) = server.call(Method::GET, "/v1/notifications", None).await;
        assert_eq!(page["items"], json!([]));
    }
    let (status, _) = server
        .call(Method::POST, "/v1/endpoints/shop-2/test", None)
        .await;
    assert_eq!(status, 404);
    server.stop().await;
}

async fn a_patch_changes_what_it_names(stores: Stores) {
    let server = Server::start(stores).await;
    let url = "https://shop.example/n";
    put(
        &server,
        "b",
        json!({ "url": url, "timeout": "5s", "metadata": { "owner": "eu" } }),
    )
    .await;
    let path = "/v1/endpoints/b";
    let patch = json!({ "timeout": null, "metadata": { "region": 1 } });
    let (status, view) = server.call(Method::PATCH, path, Some(patch.clone())).await;
    assert_eq!((status, &view["version"]), (200, &json!(2)), "{view}");
    assert_eq!(view["timeout"], Value::Null);
    assert_eq!(view["metadata"], json!({ "owner": "eu", "region": 1 }));
    // The same patch again changes nothing.
    let (_, view) = server.call(Method::PATCH, path, Some(patch)).await;
    assert_eq!(view["version"], 2);
    let (status, problem) = server
        .call(Method::PATCH, path, Some(json!({ "url": "x" })))
        .await;
    assert_eq!(
        (status, &problem["errors"][0]["pointer"]),
        (422, &json!("/url"))
    );
    let (status, problem) = put(&server, "a%2Fb", json!({ "url": url })).await;
    assert_eq!(status, 400, "{problem}");
    for name in ["c", "a"] {
        put(&server, name, json!({ "url": url })).await;
    }
    let list = async |query: &str| {
        let path = format!("/v1/endpoints?{query}");
        let (_, page) = server.call(Method::GET, &path, None).await;
        let items = page["items"].as_array().expect("items").iter();
        let names: Vec<Value> = items.map(|item| item["name"].clone()).collect();
        (Value::from(names), page["next_cursor"].clone())
    };
    assert_eq!(list("limit=2").await, (json!(["a", "b"]), json!("b")));
    assert_eq!(list("limit=2&cursor=b").await, (json!(["c"]), Value::Null));
    server.stop().await;
}

async fn an_endpoint_says_whether_retry_after_is_followed(stores: Stores) {
    let answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n".to_vec();
    let merchant = Merchant::scripted(vec![], Reaction::Raw(answer)).await;
    let server = Server::start_by_hand(stores).await;
    let ladder = json!({ "intervals": ["10s"], "window": "1h" });
    for (name, follow, next) in [
        ("yes", json!(true), "2026-11-20T08:31:00.000Z"),
        ("no", json!(false), "2026-11-20T08:30:10.000Z"),
        ("default", Value::Null, "2026-11-20T08:30:10.000Z"),
    ] {
        let endpoint =
            json!({ "url": merchant.url("/n"), "ladder": ladder, "retry_after": follow });
        put(&server, name, endpoint).await;
        server.register(naming(name, name)).await;
        let view = server.until_attempts(name, 1).await;
        assert_eq!(view["next_attempt_at"], next, "{name}: {view}");
    }
    server.stop().await;
}

async fn an_endpoint_limits_its_lane(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let path = "/v1/lanes/endpoint%3Ashop-1";
    let endpoint = json!({ "url": merchant.url("/n"), "concurrency": 3, "rate": 1 });
    put(&server, "shop-1", endpoint).await;
    let (status, lane) = server.call(Method::GET, path, None).await;
    assert_eq!(
        (status, &lane["endpoint"]),
        (200, &json!("shop-1")),
        "{lane}"
    );
    assert_eq!(
        (&lane["concurrency"], &lane["rate"]),
        (&json!(3), &json!(1.0)),
        "{lane}"
    );
    for id in ["1", "2"] {
        server.register(naming(id, "shop-1")).await;
    }
    merchant.call().await;
    let view = server.until_state("1", "delivered").await;
    assert_eq!(deferrals(&view), kept(stores, json!([[null, null]])));
    server.clock().advance(900);
    let view = server.get("2").await;
    assert_eq!(view["attempts_made"], 0, "{view}");
    assert_eq!(view["waiting_for"], "rate", "{view}");
    let because = view["waiting_because"].as_str().expect("a sentence");
    assert!(because.contains("calls per second"), "{because}");
    assert!(merchant.arrived().is_none(), "one call per second");
    server.clock().advance(100);
    merchant.call().await;
    let view = server.until_state("2", "delivered").await;
    assert_eq!(view["attempts_made"], 1);
    assert_eq!(view["waiting_for"], Value::Null, "{view}");
    assert_eq!(deferrals(&view), kept(stores, json!([["rate", 1_000]])));
    server
        .call(Method::DELETE, "/v1/endpoints/shop-1", None)
        .await;
    let (_, lane) = server.call(Method::GET, path, None).await;
    assert_eq!(lane["rate"], Value::Null, "{lane}");
    server.stop().await;
}

async fn a_change_on_one_server_holds_on_the_other(stores: Stores) {
    let mut old = Merchant::scripted(vec![], Reaction::fail()).await;
    let mut new = Merchant::start().await;
    let first = Server::start_by_hand(stores).await;
    let mut beside = first.config().clone();
    let dir = tempfile::tempdir().expect("a temporary directory");
    beside.data_dir = dir.path().to_path_buf();
    let second = Server::open(beside, Some(first.clock().clone()), None).await;
    let ladder = json!({ "intervals": ["10s", "10s"] });
    put(
        &first,
        "shop-1",
        json!({ "url": old.url("/n"), "ladder": ladder }),
    )
    .await;
    // The other server is asked at once: it looks the endpoint up.
    second.register(naming("1", "shop-1")).await;
    old.call().await;
    second.until_attempts("1", 1).await;
    put(
        &first,
        "shop-1",
        json!({ "url": new.url("/n"), "ladder": ladder }),
    )
    .await;
    // Whichever server makes the next attempt knows the change as soon as its list shows it.
    let known = async {
        loop {
            let (_, page) = second.call(Method::GET, "/v1/endpoints", None).await;
            if page["items"][0]["version"] == 2 {
                return;
            }
            short_pause().await;
        }
    };
    within("the other server to know the change", known).await;
    first.stop().await;
    second.clock().advance(10_000);
    new.call().await;
    let view = second.until_state("1", "delivered").await;
    assert_eq!(versions(&view), kept(stores, json!([1, 2])));
    assert!(old.arrived().is_none());
    second.stop().await;
}
