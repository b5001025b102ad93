//! A pending notification that is moved: the payment deadline of its order was extended, or brought forward.

use super::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration, with_ladder};
use reqwest::Method;
use ringback::schedule::CLAIMED_EARLY_MS;
use serde_json::{Value, json};

on_stores!(
    moved_later_it_comes_then_and_not_before,
    moved_earlier_it_comes_then,
    moved_its_ladder_and_deadline_follow,
    what_was_attempted_or_has_ended_stays_where_it_is,
    a_move_drops_an_attempt_that_was_asked_for_by_hand,
    what_was_cancelled_and_is_registered_again_is_refused,
);

const MINUTE_MS: i64 = 60_000;

async fn change(server: &Server, id: &str, body: Value) -> (u16, Value) {
    let path = format!("/v1/notifications/t/{id}");
    server.call(Method::PATCH, &path, Some(body)).await
}

async fn moved(server: &Server, id: &str, body: Value) -> Value {
    let (status, view) = change(server, id, body).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(view["state"], "scheduled", "{view}");
    view
}

fn delayed(id: &str, merchant: &Merchant, delay: &str) -> Value {
    let mut asked = registration(id, merchant);
    asked["delay"] = json!(delay);
    asked
}

/// Registers one that is due at once, and awaits its delivery: what was due before would have come first.
async fn until_others_went_through(server: &Server, merchant: &mut Merchant, id: &str) {
    server.register(registration(id, merchant)).await;
    let body = merchant.call().await.body;
    assert_eq!(body, format!("id={id}").into_bytes());
    server.until_state(id, "delivered").await;
}

async fn moved_later_it_comes_then_and_not_before(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    server.register(delayed("a", &merchant, "30m")).await;
    server.clock().advance(29 * MINUTE_MS);
    let view = moved(&server, "a", json!({ "delay": "15m" })).await;
    assert_eq!(view["next_attempt_at"], "2026-11-20T09:14:00.000Z");
    // It may be claimed a little before it is due, and is then called soon although this clock stands still.
    let early_ms = CLAIMED_EARLY_MS + 1;
    server.clock().turn_to(BEGIN_MS + 44 * MINUTE_MS - early_ms);
    until_others_went_through(&server, &mut merchant, "other").await;
    assert!(merchant.arrived().is_none());
    // The registration that made it is still the same one, and answers how it stands.
    let again = Some(delayed("a", &merchant, "30m"));
    let (status, view) = server.call(Method::POST, "/v1/notifications", again).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(view["next_attempt_at"], "2026-11-20T09:14:00.000Z");
    server.clock().advance(early_ms);
    assert_eq!(merchant.call().await.body, b"id=a");
    let view = server.until_state("a", "delivered").await;
    if stores != Stores::RedisOnly {
        assert_eq!(view["attempts"][0]["due_at"], "2026-11-20T09:14:00.000Z");
        let line = &view["timeline"][1];
        assert_eq!(line["kind"], "rescheduled");
        assert_eq!(line["actor"], "api");
        assert_eq!(
            line["detail"],
            "from 2026-11-20T09:00:00.000Z to 2026-11-20T09:14:00.000Z"
        );
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn moved_earlier_it_comes_then(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    server.register(delayed("a", &merchant, "30m")).await;
    let at = json!({ "deliver_at": "2026-11-20T16:40:00+08:00" });
    let view = moved(&server, "a", at).await;
    assert_eq!(view["next_attempt_at"], "2026-11-20T08:40:00.000Z");
    let early_ms = CLAIMED_EARLY_MS + 1;
    server.clock().turn_to(BEGIN_MS + 10 * MINUTE_MS - early_ms);
    until_others_went_through(&server, &mut merchant, "other").await;
    server.clock().advance(early_ms);
    assert_eq!(merchant.call().await.body, b"id=a");
    server.until_state("a", "delivered").await;
    // An instant in the past means at once.
    server.register(delayed("b", &merchant, "30m")).await;
    let past = json!({ "deliver_at": "2026-11-20T08:00:00Z" });
    moved(&server, "b", past).await;
    assert_eq!(merchant.call().await.body, b"id=b");
    server.until_state("b", "delivered").await;
    server.clock().advance(60 * MINUTE_MS);
    until_others_went_through(&server, &mut merchant, "last").await;
    server.stop().await;
    assert!(merchant.arrived().is_none(), "neither came a second time");
}

async fn moved_its_ladder_and_deadline_follow(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start_by_hand(stores).await;
    let mut asked = with_ladder("a", &merchant, &["1m", "2m"]);
    asked["delay"] = json!("30m");
    server.register(asked).await;
    moved(&server, "a", json!({ "delay": "5m" })).await;
    let view = moved(&server, "a", json!({ "delay": "10m" })).await;
    assert_eq!(view["deadline_at"], "2026-11-20T08:43:00.000Z");
    let server = server.restart().await;
    for (attempt, after) in [(1, 10), (2, 1), (3, 2)] {
        server.clock().advance(after * MINUTE_MS);
        assert_eq!(merchant.call().await.attempt(), attempt);
        server
            .until("a", |view| view["attempts_made"] == attempt)
            .await;
    }
    let dead = server.until_state("a", "dead").await;
    assert_eq!(dead["cause"], "ladder_exhausted");
    assert_eq!(dead["deadline_at"], "2026-11-20T08:43:00.000Z");
    server.stop().await;
}

async fn what_was_attempted_or_has_ended_stays_where_it_is(stores: Stores) {
    let held = Reaction::Held(Box::new(Reaction::fail()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    let later = || json!({ "delay": "1h" });
    let (status, _) = change(&server, "a", later()).await;
    assert_eq!(status, 404);
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    let (status, problem) = change(&server, "a", later()).await;
    assert_eq!((status, &problem["state"]), (409, &json!("in_flight")));
    merchant.release();
    let before = server.until_attempts("a", 1).await;
    let (status, problem) = change(&server, "a", later()).await;
    assert_eq!((status, &problem["state"]), (409, &json!("scheduled")));
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("after the first attempt"), "{detail}");
    let after = server.get("a").await;
    assert_eq!(after["next_attempt_at"], before["next_attempt_at"]);
    server.clock().advance(4 * MINUTE_MS);
    merchant.call().await;
    server.until_state("a", "delivered").await;
    let (status, problem) = change(&server, "a", later()).await;
    assert_eq!((status, &problem["state"]), (409, &json!("delivered")));
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_move_drops_an_attempt_that_was_asked_for_by_hand(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(delayed("a", &merchant, "30m")).await;
    let retry = "/v1/notifications/t/a/retry";
    assert_eq!(server.call(Method::POST, retry, None).await.0, 200);
    assert_eq!(merchant.call().await.attempt(), 1);
    server.until_attempts("a", 1).await;
    // The ladder has not begun, so it can still be moved.
    let view = moved(&server, "a", json!({ "delay": "40m" })).await;
    assert_eq!(view["next_attempt_at"], "2026-11-20T09:10:00.000Z");
    assert_eq!(view["attempts_left"], 8);
    server.clock().turn_to(BEGIN_MS + 40 * MINUTE_MS);
    assert_eq!(merchant.call().await.attempt(), 2);
    server.until_state("a", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn what_was_cancelled_and_is_registered_again_is_refused(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    server.register(delayed("a", &merchant, "30m")).await;
    let path = "/v1/notifications/t/a";
    assert_eq!(server.call(Method::DELETE, path, None).await.0, 200);
    for _ in 0..2 {
        let again = Some(delayed("a", &merchant, "30m"));
        let (status, problem) = server.call(Method::POST, "/v1/notifications", again).await;
        assert_eq!(status, 409, "{problem}");
        assert_eq!(problem["type"], "urn:ringback:problem:cancelled");
        assert_eq!(problem["state"], "cancelled");
        assert_eq!(problem["notification"]["state"], "cancelled");
    }
    let (status, problem) = change(&server, "a", json!({ "delay": "1h" })).await;
    assert_eq!((status, &problem["state"]), (409, &json!("cancelled")));
    server.clock().advance(31 * MINUTE_MS);
    until_others_went_through(&server, &mut merchant, "other").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}
