//! A delivered notification that is sent again, because its receiver lost it.

use super::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration, with_ladder};
use reqwest::Method;
use serde_json::{Value, json};

on_stores!(
    delivered_it_is_sent_again_under_its_webhook_id,
    what_is_not_delivered_cannot_be_sent_again,
    what_is_sent_again_has_its_whole_ladder_and_survives_a_restart,
);

const RESEND: &str = "/v1/notifications/t/a/resend";

async fn resend(server: &Server) -> (u16, Value) {
    let body = json!({ "reason": "they lost their database" });
    server.call(Method::POST, RESEND, Some(body)).await
}

/// Without a journal, the body is forgotten with the delivery.
async fn check_refused_without_a_journal(server: &Server, merchant: &mut Merchant) {
    let (status, problem) = resend(server).await;
    assert_eq!(status, 501, "{problem}");
    assert_eq!(problem["type"], "urn:ringback:problem:no-journal");
    assert_eq!(server.get("a").await["state"], "delivered");
    assert!(merchant.arrived().is_none());
}

async fn delivered_it_is_sent_again_under_its_webhook_id(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let first = server.register(registration("a", &merchant)).await;
    merchant.call().await;
    server.until_state("a", "delivered").await;
    server.clock().advance(300_000);
    if stores == Stores::RedisOnly {
        check_refused_without_a_journal(&server, &mut merchant).await;
        return server.stop().await;
    }
    let (status, view) = resend(&server).await;
    assert_eq!(
        (status, &view["state"]),
        (200, &json!("scheduled")),
        "{view}"
    );
    assert_eq!(
        (&view["series"], &view["ended_at"]),
        (&json!(2), &json!(null))
    );
    let call = merchant.call().await;
    assert_eq!((call.attempt(), &call.body[..]), (2, &b"id=a"[..]));
    let webhook_id = first["webhook_id"].as_str().expect("text");
    assert_eq!(call.header("Webhook-Id"), webhook_id);
    let fresh_s = (BEGIN_MS + 300_000) / 1_000;
    assert_eq!(call.header("Webhook-Timestamp"), fresh_s.to_string());
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 2);
    assert_eq!(view["attempts"][1]["series"], 2);
    let lines: Vec<&Value> = view["timeline"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|line| &line["kind"])
        .collect();
    assert_eq!(
        lines,
        [
            "registered",
            "attempt",
            "delivered",
            "resent",
            "attempt",
            "delivered"
        ]
    );
    let resent = &view["timeline"][3];
    assert_eq!(resent["detail"], "they lost their database");
    assert_eq!(resent["actor"], "api");
    // The registration that made it is still the same one.
    let again = Some(registration("a", &merchant));
    let (status, view) = server.call(Method::POST, "/v1/notifications", again).await;
    assert_eq!((status, &view["series"]), (200, &json!(2)));
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn what_is_not_delivered_cannot_be_sent_again(stores: Stores) {
    let held = Reaction::Held(Box::new(Reaction::Answer(410, vec![])));
    let mut merchant = Merchant::scripted(vec![], held).await;
    let server = Server::start(stores).await;
    let (status, _) = resend(&server).await;
    assert_eq!(status, 404);
    let check = async |state: &str| {
        let (status, problem) = resend(&server).await;
        assert_eq!(status, 409, "{problem}");
        assert_eq!(problem["type"], "urn:ringback:problem:state");
        assert_eq!(problem["state"], state);
    };
    server.register(with_ladder("a", &merchant, &[])).await;
    merchant.call().await;
    server.until_state("a", "in_flight").await;
    check("in_flight").await;
    merchant.release();
    server.until_state("a", "dead").await;
    check("dead").await;
    let dead = "/v1/dead-letters/t/a";
    let (status, _) = server.call(Method::DELETE, dead, None).await;
    assert_eq!(status, 200);
    check("cancelled").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn what_is_sent_again_has_its_whole_ladder_and_survives_a_restart(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    server.register(with_ladder("a", &merchant, &["1m"])).await;
    merchant.call().await;
    server.until_state("a", "delivered").await;
    if stores == Stores::RedisOnly {
        check_refused_without_a_journal(&server, &mut merchant).await;
        return server.stop().await;
    }
    merchant.now_does(Reaction::fail());
    assert_eq!(resend(&server).await.0, 200);
    merchant.call().await;
    let view = server.until_attempts("a", 2).await;
    assert_eq!(view["next_attempt_at"], "2026-11-20T08:31:00.000Z");
    assert_eq!(view["deadline_at"], "2026-11-20T08:31:00.000Z");
    let server = server.restart().await;
    server.clock().advance(60_000);
    assert_eq!(merchant.call().await.attempt(), 3);
    let dead = server.until_state("a", "dead").await;
    assert_eq!(dead["cause"], "ladder_exhausted");
    // From now on it is a dead letter like any other.
    let (status, problem) = resend(&server).await;
    assert_eq!((status, &problem["state"]), (409, &json!("dead")));
    merchant.now_does(Reaction::success());
    let replay = "/v1/dead-letters/t/a/replay";
    assert_eq!(server.call(Method::POST, replay, None).await.0, 200);
    assert_eq!(merchant.call().await.attempt(), 4);
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["series"], 3);
    server.stop().await;
}
