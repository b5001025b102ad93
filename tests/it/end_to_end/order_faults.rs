//! Orders of notifications when something is lost: a server that is killed, a Redis that is flushed.

use super::on_stores;
use super::process::{KINDS, arguments, start};
use crate::support::held::held;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{Api, BEGIN_MS, Server, Stores, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::ServeConfig;
use ringback::domain::timestamp;
use serde_json::{Value, json};

on_stores!(@ late_embedded Embedded an_attempt_says_for_how_long_it_waited_for_its_order);
on_stores!(@ late_redis Redis an_attempt_says_for_how_long_it_waited_for_its_order);
on_stores!(@ late_postgres Postgres an_attempt_says_for_how_long_it_waited_for_its_order);
on_stores!(@ again_embedded Embedded what_a_higher_number_follows_is_not_sent_again);
on_stores!(@ again_postgres Postgres what_a_higher_number_follows_is_not_sent_again);

/// A registration with a place in the order of a key.
fn numbered(merchant: &Merchant, key: &str, number: i64, mode: &str) -> Value {
    let mut asked = registration(&format!("{key}{number}"), merchant);
    asked["order"] = json!({ "key": key, "number": number, "mode": mode });
    asked
}

async fn an_attempt_says_for_how_long_it_waited_for_its_order(stores: Stores) {
    const WAIT_MS: i64 = 8_000;
    let server = Server::start_by_hand(stores).await;
    let several = |config: &mut ServeConfig| config.schedule.lane_start = 4;
    let server = server.restart_as(several).await;
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    server.register(numbered(&merchant, "o", 1, "strict")).await;
    merchant.call().await;
    let before = server.register(numbered(&merchant, "o", 2, "strict")).await;
    // What is behind it in its lane is sent, so it was put off.
    server.register(registration("plain", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=plain");
    server.clock().advance(WAIT_MS);
    merchant.release();
    server.until_state("o1", "delivered").await;
    assert_eq!(merchant.call().await.body, b"id=o2");
    let view = server.until_state("o2", "delivered").await;
    let attempt = &view["attempts"][0];
    assert_eq!(attempt["deferred_by"], "order", "{view}");
    assert_eq!(attempt["deferred_ms"], WAIT_MS, "{view}");
    let deadline = |view: &Value| {
        let text = view["deadline_at"].as_str().expect("an instant");
        timestamp::parse_ms(text).expect("an instant")
    };
    assert_eq!(deadline(&view), deadline(&before) + WAIT_MS, "{view}");
    assert!(deadline(&view) > BEGIN_MS);
    server.stop().await;
}

async fn change(server: &Api, path: &str) -> (u16, Value) {
    let body = json!({ "reason": "a test" });
    server.call(Method::POST, path, Some(body)).await
}

async fn what_a_higher_number_follows_is_not_sent_again(stores: Stores) {
    let server = Server::start(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let mut dies = numbered(&merchant, "o", 1, "latest");
    dies["ladder"] = json!({ "intervals": [], "window": "1h" });
    server.register(dies).await;
    server.until_state("o1", "dead").await;
    merchant.now_does(Reaction::success());
    for number in [2, 3] {
        server
            .register(numbered(&merchant, "o", number, "latest"))
            .await;
        let id = format!("o{number}");
        server.until_state(&id, "delivered").await;
    }
    for (path, id) in [
        ("/v1/dead-letters/t/o1/replay", "o1"),
        ("/v1/notifications/t/o2/resend", "o2"),
    ] {
        let before = server.get(id).await;
        let (status, problem) = change(&server, path).await;
        assert_eq!(status, 409, "{problem}");
        assert_eq!(
            problem["type"], "urn:ringback:problem:out-of-order",
            "{problem}"
        );
        assert_eq!(server.get(id).await, before);
    }
    let (status, view) = change(&server, "/v1/notifications/t/o3/resend").await;
    assert_eq!(status, 200, "{view}");
    for id in ["o1", "o2", "o3", "o3"] {
        assert_eq!(merchant.call().await.body, format!("id={id}").into_bytes());
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_in_flight_keeps_a_superseded_one_from_being_cancelled() {
    for stores in [Stores::Embedded, Stores::Postgres] {
        let server = Server::start(stores).await;
        let held = Reaction::Held(Box::new(Reaction::success()));
        let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
        server.register(numbered(&merchant, "o", 1, "latest")).await;
        merchant.call().await;
        server.register(numbered(&merchant, "o", 2, "latest")).await;
        let path = "/v1/notifications/t/o1";
        let (status, problem) = server.call(Method::DELETE, path, None).await;
        assert_eq!(status, 409, "{problem}");
        merchant.release();
        server.until_state("o1", "delivered").await;
        server.until_state("o2", "delivered").await;
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_redis_keeps_every_order() {
    let server = Server::start_by_hand(Stores::Redis).await;
    let mut merchant = Merchant::start().await;
    let later = |mut asked: Value| {
        asked["delay"] = json!("30m");
        asked
    };
    for asked in [
        later(numbered(&merchant, "s", 1, "strict")),
        numbered(&merchant, "s", 2, "strict"),
        later(numbered(&merchant, "l", 1, "latest")),
        later(numbered(&merchant, "l", 2, "latest")),
    ] {
        server.register(asked).await;
    }
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let flush = redis::cmd("FLUSHDB").exec_async(&mut redis).await;
    flush.expect("flushed");
    server.clock().advance(1);
    server
        .register(later(numbered(&merchant, "l", 3, "latest")))
        .await;
    within("Redis to be loaded", async {
        loop {
            if held(&mut redis).await == 3 {
                return;
            }
            short_pause().await;
        }
    })
    .await;
    assert!(merchant.arrived().is_none(), "the first one is not due");
    server.clock().advance(30 * 60_000);
    let mut arrived = Vec::new();
    for _ in 0..3 {
        let body = merchant.call().await.body;
        arrived.push(String::from_utf8(body).expect("a text"));
    }
    for id in ["s1", "s2", "l3"] {
        server.until_state(id, "delivered").await;
    }
    for id in ["l1", "l2"] {
        assert_eq!(server.get(id).await["cause"], "superseded");
    }
    arrived.retain(|body| body != "id=l3");
    assert_eq!(arrived, ["id=s1", "id=s2"]);
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_during_an_attempt_keeps_the_order() {
    for stores in KINDS {
        for mode in ["latest", "strict"] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let mut arguments = arguments(stores);
            // A short limit makes short leases. The server is killed before it ends, on a slow machine too.
            arguments.extend(["--timeout", "3s"].map(String::from));
            let mut merchant = Merchant::scripted(vec![Reaction::Hang], Reaction::success()).await;
            let server = start(dir.path(), &arguments).await;
            server
                .api()
                .register(numbered(&merchant, "o", 1, mode))
                .await;
            assert_eq!(merchant.call().await.body, b"id=o1");
            server
                .api()
                .register(numbered(&merchant, "o", 2, mode))
                .await;
            server.kill().await;
            let server = start(dir.path(), &arguments).await;
            server.api().until_state("o2", "delivered").await;
            let expected: &[&[u8]] = match mode {
                "latest" => &[b"id=o2"],
                _ => &[b"id=o1", b"id=o2"],
            };
            for body in expected {
                assert_eq!(merchant.call().await.body, *body, "{stores:?} {mode}");
            }
            let first = server.api().get("o1").await;
            match mode {
                "latest" => assert_eq!(first["cause"], "superseded", "{first}"),
                _ => assert_eq!(first["state"], "delivered", "{first}"),
            }
            server.kill().await;
            assert!(merchant.arrived().is_none(), "{stores:?} {mode}");
        }
    }
}
