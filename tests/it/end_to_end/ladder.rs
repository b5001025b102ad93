//! The ladder, step by step in simulated time.

use super::{on_several_redis, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration, with_ladder};
use ringback::domain::timestamp;
use ringback::schedule::CLAIMED_EARLY_MS;
use serde_json::{Value, json};

on_stores!(
    refused_then_delivered_at_the_right_step,
    the_alipay_ladder_stands_at_the_golden_times,
    the_window_cuts_a_ladder_short,
    an_outage_of_ours_moves_the_anchor,
    a_window_that_closed_while_we_were_down_leaves_one_attempt,
);
on_several_redis!(
    refused_then_delivered_at_the_right_step,
    the_alipay_ladder_stands_at_the_golden_times,
    an_outage_of_ours_moves_the_anchor,
);

fn at(offset_ms: i64) -> Value {
    json!(timestamp::display_ms(BEGIN_MS + offset_ms))
}

async fn refused_then_delivered_at_the_right_step(stores: Stores) {
    let refusals = vec![Reaction::fail(), Reaction::Answer(500, b"oops".to_vec())];
    let mut merchant = Merchant::scripted(refusals, Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    assert_eq!(
        server.until_attempts("a", 1).await["next_attempt_at"],
        at(240_000)
    );
    // Later, it is claimed, to ask the journal before it is due.
    let before_ms = CLAIMED_EARLY_MS + 1;
    server.clock().advance(240_000 - before_ms);
    // Somebody else's delivery proves that the clock was seen and nothing came early.
    server.register(registration("b", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=b");
    server.until_attempts("b", 1).await;
    assert!(merchant.arrived().is_none());
    server.clock().advance(before_ms);
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 2);
    server.stop().await;
}

async fn the_alipay_ladder_stands_at_the_golden_times(stores: Stores) {
    let table: Value =
        serde_json::from_str(include_str!("../../../fixtures/ladders/alipay.json")).expect("JSON");
    let offsets: Vec<i64> =
        serde_json::from_value(table["offsets_ms"].clone()).expect("the offsets");
    assert_eq!(offsets.len(), 8);
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(registration("a", &merchant)).await;
    for (index, offset_ms) in offsets.iter().enumerate() {
        let number = index as u64 + 1;
        if index > 0 {
            let due = server.get("a").await["next_attempt_at"].clone();
            assert_eq!(due, at(*offset_ms), "attempt {number}");
        }
        server.clock().turn_to(BEGIN_MS + offset_ms);
        let call = merchant.call().await;
        assert_eq!(u64::from(call.attempt()), number);
        let signed_s = (BEGIN_MS + offset_ms) / 1000;
        assert_eq!(call.header("Webhook-Timestamp"), signed_s.to_string());
        server.until_attempts("a", number).await;
    }
    let view = server.get("a").await;
    assert_eq!(view["state"], "dead");
    assert_eq!(view["cause"], table["ends_with"]);
    assert_eq!(view["deadline_at"], at(87_720_000));
    if stores != Stores::RedisOnly {
        for (index, offset_ms) in offsets.iter().enumerate() {
            assert_eq!(view["attempts"][index]["due_at"], at(*offset_ms));
            assert_eq!(view["attempts"][index]["started_at"], at(*offset_ms));
        }
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn the_window_cuts_a_ladder_short(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start_by_hand(stores).await;
    let mut asked = with_ladder("a", &merchant, &["1m", "1h", "1h"]);
    asked["ladder"]["window"] = json!("5m");
    let view = server.register(asked).await;
    assert_eq!(view["attempts_left"], 3);
    for offset_ms in [0, 60_000, 300_000] {
        server.clock().turn_to(BEGIN_MS + offset_ms);
        merchant.call().await;
        server
            .until("a", |view| {
                view["state"] == "dead" || view["next_attempt_at"] != at(offset_ms)
            })
            .await;
    }
    assert_eq!(
        server.until_state("a", "dead").await["cause"],
        "window_closed"
    );
    server.stop().await;
}

async fn an_outage_of_ours_moves_the_anchor(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    server.until_attempts("a", 1).await;
    // Due at 4m, made at 9m: the next comes 10m after that, and there is no burst.
    server.clock().turn_to(BEGIN_MS + 540_000);
    merchant.call().await;
    let view = server.until_attempts("a", 2).await;
    assert_eq!(view["next_attempt_at"], at(540_000 + 600_000));
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_window_that_closed_while_we_were_down_leaves_one_attempt(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    server.until_attempts("a", 1).await;
    let clock = server.clock().clone();
    let server = server.restart().await;
    clock.turn_to(BEGIN_MS + 48 * 3_600_000);
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_state("a", "dead").await;
    assert_eq!(view["cause"], "window_closed");
    if stores != Stores::RedisOnly {
        let reason = view["attempts"][1]["reason"].as_str().expect("a reason");
        assert!(reason.contains("recovery attempt"), "{reason}");
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}
