//! What is held or probed loses no attempt and no part of its window, and its attempts say why they are late.

use super::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Api, BEGIN_MS, Server, Stores, registration, with_ladder};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::domain::lane::Lane;
use ringback::domain::timestamp;
use serde_json::{Value, json};

on_stores!(
    what_is_held_for_longer_than_its_window_gets_its_whole_ladder,
    what_waits_behind_a_probe_gets_its_whole_ladder,
    what_waits_for_an_answer_to_another_says_so,
);
on_stores!(@ postgres_shared Postgres another_server_records_what_was_held);

const HOUR_MS: i64 = 3_600_000;

fn at(offset_ms: i64) -> Value {
    json!(timestamp::display_ms(BEGIN_MS + offset_ms))
}

fn path(merchant: &Merchant) -> String {
    let lane = Lane::parse(&merchant.url("/")).expect("a lane");
    let lane: String = url::form_urlencoded::byte_serialize(lane.as_str().as_bytes()).collect();
    format!("/v1/lanes/{lane}")
}

async fn lane(server: &Api, merchant: &Merchant) -> Value {
    server.call(Method::GET, &path(merchant), None).await.1
}

async fn change(server: &Api, merchant: &Merchant, verb: &str) {
    let path = format!("{}/{verb}", path(merchant));
    let (status, view) = server.call(Method::POST, &path, None).await;
    let expected = if verb == "release" { 202 } else { 200 };
    assert_eq!(status, expected, "{view}");
}

/// Checks what an attempt says of its deferral. Without a journal attempts are not kept.
fn check_deferral(stores: Stores, view: &Value, index: usize, by: Value, ms: Value) {
    if stores != Stores::RedisOnly {
        let attempt = &view["attempts"][index];
        assert_eq!(attempt["deferred_by"], by, "{view}");
        assert_eq!(attempt["deferred_ms"], ms, "{view}");
    }
}

async fn what_is_held_for_longer_than_its_window_gets_its_whole_ladder(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    change(&server, &merchant, "hold").await;
    server
        .register(with_ladder("a", &merchant, &["10s", "20s"]))
        .await;
    server.clock().advance(HOUR_MS);
    let view = server.get("a").await;
    assert_eq!(view["deadline_at"], at(30_000), "nothing was made yet");
    assert_eq!(view["waiting_for"], "held", "{view}");
    let because = view["waiting_because"].as_str().expect("a sentence");
    assert!(because.contains("held by api since"), "{because}");
    // It is held since the first time, so all of the time counts.
    change(&server, &merchant, "hold").await;
    change(&server, &merchant, "release").await;
    let mut due_ms = HOUR_MS;
    for (number, wait_ms) in [(1, 10_000), (2, 20_000)] {
        merchant.call().await;
        let view = server.until_attempts("a", number).await;
        due_ms += wait_ms;
        assert_eq!(view["next_attempt_at"], at(due_ms), "{view}");
        assert_eq!(view["deadline_at"], at(HOUR_MS + 30_000), "{view}");
        server.clock().turn_to(BEGIN_MS + due_ms);
    }
    merchant.call().await;
    let view = server.until_state("a", "dead").await;
    assert_eq!(view["cause"], "ladder_exhausted", "{view}");
    assert_eq!(view["attempts_made"], 3);
    assert_eq!(view["waiting_for"], Value::Null, "{view}");
    check_deferral(stores, &view, 0, json!("held"), json!(HOUR_MS));
    for index in [1, 2] {
        check_deferral(stores, &view, index, Value::Null, Value::Null);
    }
    server.stop().await;
}

async fn what_waits_behind_a_probe_gets_its_whole_ladder(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::Close).await;
    for id in ["a", "b", "c"] {
        server.register(registration(id, &merchant)).await;
        merchant.call().await;
        server.until_attempts(id, 1).await;
    }
    server
        .register(with_ladder("waits", &merchant, &["10s", "20s"]))
        .await;
    server
        .register(with_ladder("next", &merchant, &["10s"]))
        .await;
    // The third call without an answer is settled a moment after it is recorded.
    within("the lane to be probed", async {
        while lane(&server, &merchant).await["state"] != "probing" {
            short_pause().await;
        }
    })
    .await;
    let failing = lane(&server, &merchant).await;
    assert_eq!(failing["last_outcome"], "protocol", "{failing}");
    assert_eq!(failing["last_status"], Value::Null);
    assert_eq!(failing["last_outcome_since"], at(0));
    server.clock().advance(500);
    let view = server.get("next").await;
    assert_eq!(view["waiting_for"], "probing", "{view}");
    merchant.now_does(Reaction::fail());
    server.clock().turn_to(BEGIN_MS + HOUR_MS);
    let view = server.until_attempts("waits", 1).await;
    assert_eq!(view["next_attempt_at"], at(HOUR_MS + 10_000), "{view}");
    assert_eq!(view["deadline_at"], at(HOUR_MS + 30_000), "{view}");
    check_deferral(stores, &view, 0, json!("probing"), json!(HOUR_MS));
    let view = server.until_attempts("next", 1).await;
    assert_eq!(view["state"], "scheduled", "{view}");
    check_deferral(stores, &view, 0, json!("probing"), json!(HOUR_MS));
    server.stop().await;
}

async fn what_waits_for_an_answer_to_another_says_so(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    server.register(registration("b", &merchant)).await;
    server.clock().advance(2_000);
    let view = server.get("b").await;
    assert_eq!(view["waiting_for"], "concurrency", "{view}");
    let because = view["waiting_because"].as_str().expect("a sentence");
    assert!(because.contains("1 of 1 calls in flight"), "{because}");
    // With the answer the lane gets two calls at a time, so the call of `b` does not fill it.
    merchant.release();
    for (id, by, ms) in [
        ("a", Value::Null, Value::Null),
        ("b", json!("concurrency"), json!(2_000)),
    ] {
        let view = server.until_state(id, "delivered").await;
        check_deferral(stores, &view, 0, by, ms);
    }
    server.stop().await;
}

async fn another_server_records_what_was_held(stores: Stores) {
    let one = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::start().await;
    change(&one, &merchant, "hold").await;
    one.register(registration("a", &merchant)).await;
    let clock = Some(one.clock().clone());
    let other = Server::open(one.config().clone(), clock, None).await;
    one.clock().advance(HOUR_MS);
    one.stop().await;
    change(&other, &merchant, "release").await;
    merchant.call().await;
    let view = other.until_state("a", "delivered").await;
    check_deferral(stores, &view, 0, json!("held"), json!(HOUR_MS));
    other.stop().await;
}
