//! What a receiver asks for with its answer: a longer wait (`Retry-After`), or no more calls (410).

use super::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration};
use reqwest::Method;
use ringback::domain::timestamp;
use ringback::schedule::CLAIMED_EARLY_MS;
use serde_json::{Value, json};

on_stores!(
    retry_after_moves_the_next_attempt_and_the_ladder_counts_on_from_there,
    a_date_moves_the_next_attempt_no_further_than_the_end_of_the_window,
    a_retry_after_that_cannot_be_meant_changes_nothing,
    the_other_ladders_keep_their_times,
    a_receiver_that_is_gone_ends_the_notification_until_it_is_replayed,
    gone_is_one_failure_of_many_for_alipay,
);

const STANDARD_WEBHOOKS: &str = "standard-webhooks";
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

fn at(offset_ms: i64) -> Value {
    json!(timestamp::display_ms(BEGIN_MS + offset_ms))
}

/// An answer with these headers and an empty body.
fn answer(status: &str, headers: &[&str]) -> Reaction {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\n\r\n");
    Reaction::Raw(text.into())
}

fn on_ladder(id: &str, merchant: &Merchant, ladder: &str) -> Value {
    let mut registration = registration(id, merchant);
    registration["ladder"] = json!(ladder);
    registration
}

/// The last attempt of a notification, if attempts are kept; checks what it asked for and its reason.
fn check_last(stores: Stores, view: &Value, retry_after: Value, reason: &str) {
    if stores == Stores::RedisOnly {
        return;
    }
    let attempts = view["attempts"].as_array().expect("the attempts");
    let attempt = attempts.last().expect("an attempt");
    assert_eq!(attempt["retry_after"], retry_after, "{attempt}");
    assert_eq!(attempt["outcome"], "http_status", "{attempt}");
    assert_eq!(attempt["reason"], reason, "{attempt}");
}

async fn retry_after_moves_the_next_attempt_and_the_ladder_counts_on_from_there(stores: Stores) {
    let script = vec![
        answer("429 Too Many Requests", &["Retry-After: 600"]),
        answer("503 Service Unavailable", &["Retry-After: 1"]),
        Reaction::Answer(500, vec![]),
    ];
    let mut merchant = Merchant::scripted(script, Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    server
        .register(on_ladder("a", &merchant, STANDARD_WEBHOOKS))
        .await;
    merchant.call().await;
    let view = server.until_attempts("a", 1).await;
    assert_eq!(view["next_attempt_at"], at(10 * MINUTE_MS), "{view}");
    assert_eq!(view["attempts_left"], 9, "{view}");
    let reason = "answered 429; the receiver asks to wait 10m (Retry-After), so the next attempt is at \
        2026-11-20T08:40:00.000Z and not at 2026-11-20T08:30:05.000Z";
    check_last(stores, &view, json!("10m"), reason);
    server
        .clock()
        .advance(10 * MINUTE_MS - CLAIMED_EARLY_MS - 1);
    // Somebody else's delivery proves that the clock was seen and nothing came early.
    let other = Merchant::start().await;
    server.register(registration("b", &other)).await;
    server.until_state("b", "delivered").await;
    assert!(merchant.arrived().is_none());
    server.clock().advance(CLAIMED_EARLY_MS + 1);
    assert_eq!(merchant.call().await.attempt(), 2);
    // A wait that is shorter than the ladder's changes nothing.
    let view = server.until_attempts("a", 2).await;
    assert_eq!(view["next_attempt_at"], at(15 * MINUTE_MS), "{view}");
    let reason = "answered 503; the receiver asks to wait 1s (Retry-After), and the next attempt is not before \
        that anyway";
    check_last(stores, &view, json!("1s"), reason);
    server.clock().advance(5 * MINUTE_MS);
    assert_eq!(merchant.call().await.attempt(), 3);
    let view = server.until_attempts("a", 3).await;
    assert_eq!(view["next_attempt_at"], at(45 * MINUTE_MS), "{view}");
    check_last(stores, &view, Value::Null, "answered 500");
    server.clock().advance(30 * MINUTE_MS);
    server.until_state("a", "delivered").await;
    server.stop().await;
}

async fn a_date_moves_the_next_attempt_no_further_than_the_end_of_the_window(stores: Stores) {
    let script = vec![
        answer(
            "503 Service Unavailable",
            &["retry-after: Sat, 21 Nov 2026 08:30:00 GMT"],
        ),
        answer(
            "503 Service Unavailable",
            &["Retry-After: Tue, 24 Nov 2026 12:00:00 GMT"],
        ),
    ];
    let then = answer("503 Service Unavailable", &["Retry-After: 60"]);
    let mut merchant = Merchant::scripted(script, then).await;
    let server = Server::start_by_hand(stores).await;
    server
        .register(on_ladder("a", &merchant, STANDARD_WEBHOOKS))
        .await;
    merchant.call().await;
    let view = server.until_attempts("a", 1).await;
    assert_eq!(view["next_attempt_at"], at(24 * HOUR_MS), "{view}");
    server.clock().advance(24 * HOUR_MS);
    merchant.call().await;
    let view = server.until_attempts("a", 2).await;
    let window_ms = 75 * HOUR_MS + 35 * MINUTE_MS + 5_000;
    assert_eq!(view["next_attempt_at"], at(window_ms), "{view}");
    assert_eq!(view["deadline_at"], at(window_ms), "{view}");
    assert_eq!(view["attempts_left"], 1, "{view}");
    let reason = "answered 503; the receiver asks to wait until 2026-11-24T12:00:00.000Z (Retry-After), so the next \
        attempt is at 2026-11-23T12:05:05.000Z, when the window closes, and not at 2026-11-21T08:35:00.000Z";
    check_last(stores, &view, json!("2026-11-24T12:00:00.000Z"), reason);
    server.clock().turn_to(BEGIN_MS + window_ms);
    assert_eq!(merchant.call().await.attempt(), 3);
    let view = server.until_state("a", "dead").await;
    assert_eq!(view["cause"], "window_closed", "{view}");
    let reason = "answered 503; the receiver asks to wait 1m (Retry-After), but no attempt is left";
    check_last(stores, &view, json!("1m"), reason);
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_retry_after_that_cannot_be_meant_changes_nothing(stores: Stores) {
    let cases: [(&str, &[&str], Value); 8] = [
        (
            "huge",
            &["Retry-After: 99999999999999999999999"],
            json!("unusable"),
        ),
        ("epoch", &["Retry-After: 1795163400"], json!("498656h30m")),
        ("negative", &["Retry-After: -600"], json!("unusable")),
        ("garbage", &["Retry-After: soon\u{e9}"], json!("unusable")),
        ("empty", &["Retry-After:"], json!("unusable")),
        (
            "two",
            &["Retry-After: 600", "Retry-After: 600"],
            json!("unusable"),
        ),
        (
            "past",
            &["Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"],
            json!("1994-11-06T08:49:37.000Z"),
        ),
        ("none", &[], Value::Null),
    ];
    let server = Server::start_by_hand(stores).await;
    for (id, headers, shown) in cases {
        let reaction = answer("429 Too Many Requests", headers);
        let mut merchant = Merchant::scripted(vec![reaction], Reaction::success()).await;
        server
            .register(on_ladder(id, &merchant, STANDARD_WEBHOOKS))
            .await;
        merchant.call().await;
        let view = server.until_attempts(id, 1).await;
        assert_eq!(view["next_attempt_at"], at(5_000), "{id}: {view}");
        if stores != Stores::RedisOnly {
            let attempt = &view["attempts"][0];
            assert_eq!(attempt["retry_after"], shown, "{id}: {attempt}");
            let reason = attempt["reason"].as_str().expect("a reason");
            assert!(reason.starts_with("answered 429"), "{id}: {reason}");
            let is_said = reason.ends_with("so it changes nothing");
            assert_eq!(is_said, !matches!(id, "past" | "none"), "{id}: {reason}");
        }
    }
    server.stop().await;
}

async fn the_other_ladders_keep_their_times(stores: Stores) {
    let asks = answer("429 Too Many Requests", &["Retry-After: 3600"]);
    let mut merchant = Merchant::scripted(vec![asks], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(on_ladder("a", &merchant, "alipay")).await;
    merchant.call().await;
    let view = server.until_attempts("a", 1).await;
    assert_eq!(view["next_attempt_at"], at(4 * MINUTE_MS), "{view}");
    let reason =
        "answered 429; the receiver asks to wait 1h (Retry-After), which is not followed here";
    check_last(stores, &view, json!("1h"), reason);
    server.stop().await;
}

async fn a_receiver_that_is_gone_ends_the_notification_until_it_is_replayed(stores: Stores) {
    let gone = answer("410 Gone", &["Retry-After: 600"]);
    let by_ladder = ("ladder", on_ladder as fn(&str, &Merchant, &str) -> Value);
    let by_ack = (
        "ack",
        (|id, merchant, name| {
            let mut registration = registration(id, merchant);
            registration["ack"] = json!(name);
            registration
        }) as fn(&str, &Merchant, &str) -> Value,
    );
    let server = Server::start_by_hand(stores).await;
    for (id, asked) in [by_ladder, by_ack] {
        let script = vec![gone.clone()];
        let mut merchant = Merchant::scripted(script, Reaction::success()).await;
        server
            .register(asked(id, &merchant, STANDARD_WEBHOOKS))
            .await;
        merchant.call().await;
        let view = server.until_state(id, "dead").await;
        assert_eq!(view["cause"], "refused", "{view}");
        assert_eq!(view["next_attempt_at"], Value::Null, "{view}");
        let reason = "answered 410 (Gone): the receiver asks for no more calls";
        check_last(stores, &view, Value::Null, reason);
        let (status, list) = server
            .call(Method::GET, "/v1/dead-letters?cause=refused", None)
            .await;
        assert_eq!(
            (status, &list["items"][0]["id"]),
            (200, &json!(id)),
            "{list}"
        );
        let path = format!("/v1/dead-letters/t/{id}/replay");
        let reason = json!({ "reason": "the shop has a new server" });
        let (status, view) = server.call(Method::POST, &path, Some(reason)).await;
        assert_eq!(status, 200, "{view}");
        assert_eq!(merchant.call().await.attempt(), 2);
        let view = server.until_state(id, "delivered").await;
        assert_eq!((&view["series"], &view["cause"]), (&json!(2), &Value::Null));
        assert!(merchant.arrived().is_none());
    }
    server.stop().await;
}

async fn gone_is_one_failure_of_many_for_alipay(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![answer("410 Gone", &[])], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(on_ladder("a", &merchant, "alipay")).await;
    merchant.call().await;
    let view = server.until_attempts("a", 1).await;
    assert_eq!(view["next_attempt_at"], at(4 * MINUTE_MS), "{view}");
    let reason = "answered 410 (Gone), which counts like any other failure here";
    check_last(stores, &view, Value::Null, reason);
    server.clock().advance(4 * MINUTE_MS);
    assert_eq!(merchant.call().await.attempt(), 2);
    server.until_state("a", "delivered").await;
    server.stop().await;
}
