//! From registration to the end, and again: delivered, parked, replayed, cancelled, retried.

use super::{on_several_redis, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration, with_ladder};
use reqwest::Method;
use ringback::domain::timestamp;
use ringback::schedule::CLAIMED_EARLY_MS;
use serde_json::json;

on_stores!(
    delivered_at_the_first_attempt,
    no_attempt_begins_before_it_is_due,
    the_same_registration_again_changes_nothing,
    the_same_id_a_hundred_times_at_once_delivers_once,
    cancelled_before_it_is_due_it_is_never_sent,
    while_an_attempt_is_in_flight_it_cannot_be_cancelled,
    a_cancellation_beside_its_registration_holds,
    a_delayed_callback_comes_when_it_is_due,
    parked_then_replayed_it_keeps_its_webhook_id,
    a_discarded_dead_letter_stays_down,
    a_retry_by_hand_comes_at_once_and_the_ladder_goes_on,
    what_is_pending_survives_a_restart,
);
on_several_redis!(
    delivered_at_the_first_attempt,
    the_same_id_a_hundred_times_at_once_delivers_once,
    cancelled_before_it_is_due_it_is_never_sent,
    while_an_attempt_is_in_flight_it_cannot_be_cancelled,
    a_cancellation_beside_its_registration_holds,
    parked_then_replayed_it_keeps_its_webhook_id,
    a_discarded_dead_letter_stays_down,
    a_retry_by_hand_comes_at_once_and_the_ladder_goes_on,
    what_is_pending_survives_a_restart,
);

async fn no_attempt_begins_before_it_is_due(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let ids: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
    for (number, id) in ids.iter().enumerate() {
        let mut asked = registration(id, &merchant);
        asked["delay"] = json!(format!("{}ms", 200 + 7 * number));
        server.register(asked).await;
    }
    for id in &ids {
        let view = server.until_state(id, "delivered").await;
        merchant.call().await;
        if stores != Stores::RedisOnly {
            let attempt = &view["attempts"][0];
            let [due, started] = ["due_at", "started_at"].map(|name| {
                let text = attempt[name].as_str().expect("an instant");
                timestamp::parse_ms(text).expect("an instant")
            });
            assert!(started >= due, "{attempt}");
        }
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn delivered_at_the_first_attempt(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let mut asked = registration("order-1", &merchant);
    asked["content_type"] = json!("application/x-www-form-urlencoded");
    asked["headers"] = json!({ "x-request-id": "42" });
    let view = server.register(asked).await;
    assert_eq!(view["state"], "scheduled");
    assert_eq!(view["attempts_left"], 8);
    assert_eq!(view["lane"], merchant.url(""));

    let call = merchant.call().await;
    assert_eq!(call.request_line, "POST /notify HTTP/1.1");
    assert_eq!(call.body, b"id=order-1");
    assert_eq!(
        call.header("Content-Type"),
        "application/x-www-form-urlencoded"
    );
    assert_eq!(call.header("X-Request-Id"), "42");
    assert_eq!(call.header("Ringback-Topic"), "t");
    assert_eq!(call.attempt(), 1);
    assert_eq!(
        call.header("Webhook-Id"),
        view["webhook_id"].as_str().expect("text")
    );
    let agent = concat!("Ringback/", env!("CARGO_PKG_VERSION"));
    assert_eq!(call.header("User-Agent"), agent);
    // On HTTP/1.1 careless receivers look for the names as they are documented.
    for name in [
        "Webhook-Id",
        "Webhook-Timestamp",
        "Webhook-Signature",
        "Ringback-Attempt",
    ] {
        assert!(
            call.headers.iter().any(|(known, _)| known == name),
            "{name}: {call:?}"
        );
    }

    let view = server.until_state("order-1", "delivered").await;
    assert_eq!(
        (&view["attempts_made"], &view["attempts_left"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(view["next_attempt_at"], json!(null));
    assert!(view["ended_at"].is_string());
    if stores != Stores::RedisOnly {
        assert_eq!(view["attempts"][0]["outcome"], "acknowledged");
        assert_eq!(view["attempts"][0]["answer"], "success");
        assert_eq!(view["attempts"][0]["status"], 200);
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn the_same_registration_again_changes_nothing(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let asked = registration("a", &merchant);
    let first = server.register(asked.clone()).await;
    merchant.call().await;
    server.until_state("a", "delivered").await;
    let path = "/v1/notifications";
    let (status, view) = server.call(Method::POST, path, Some(asked.clone())).await;
    assert_eq!((status, &view["state"]), (200, &json!("delivered")));
    assert_eq!(view["webhook_id"], first["webhook_id"]);
    let mut other = asked;
    other["body"] = json!("something else");
    let (status, problem) = server.call(Method::POST, path, Some(other)).await;
    assert_eq!(status, 409, "{problem}");
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn the_same_id_a_hundred_times_at_once_delivers_once(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let api = (*server).clone();
        let asked = registration("a", &merchant);
        calls.spawn(async move {
            api.call(Method::POST, "/v1/notifications", Some(asked))
                .await
                .0
        });
    }
    let mut answers = calls.join_all().await;
    answers.sort_unstable();
    assert_eq!(answers[..99], [200; 99]);
    assert_eq!(answers[99], 201);
    merchant.call().await;
    server.until_state("a", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn cancelled_before_it_is_due_it_is_never_sent(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut asked = registration("close", &merchant);
    asked["delay"] = json!("30m");
    server.register(asked).await;
    let mut count = registration("count", &merchant);
    count["delay"] = json!("31m");
    server.register(count).await;
    let path = "/v1/notifications/t/close";
    let (status, view) = server.call(Method::DELETE, path, None).await;
    assert_eq!((status, &view["state"]), (200, &json!("cancelled")));
    let (again, _) = server.call(Method::DELETE, path, None).await;
    assert_eq!(again, 200, "cancelling twice is as good as once");
    // The count is due later, so once it has come, the other would have come.
    server.clock().advance(31 * 60_000);
    assert_eq!(merchant.call().await.body, b"id=count");
    server.until_state("count", "delivered").await;
    let (status, _) = server
        .call(Method::DELETE, "/v1/notifications/t/count", None)
        .await;
    assert_eq!(status, 409, "what was delivered cannot be cancelled");
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn while_an_attempt_is_in_flight_it_cannot_be_cancelled(stores: Stores) {
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![], held).await;
    let server = Server::start(stores).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    server.until_state("a", "in_flight").await;
    let (status, problem) = server
        .call(Method::DELETE, "/v1/notifications/t/a", None)
        .await;
    assert_eq!(status, 409, "{problem}");
    merchant.release();
    server.until_state("a", "delivered").await;
    server.stop().await;
}

async fn a_cancellation_beside_its_registration_holds(stores: Stores) {
    const MANY: usize = 100;
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..MANY {
        let id = format!("n{number}");
        let mut asked = registration(&id, &merchant);
        asked["delay"] = json!("30m");
        let api = (*server).clone();
        asking.spawn(async move {
            let path = format!("/v1/notifications/t/{id}");
            let cancelling = api.call(Method::DELETE, &path, None);
            let registering = api.call(Method::POST, "/v1/notifications", Some(asked));
            let ((registered, _), (cancelled, _)) = tokio::join!(registering, cancelling);
            assert_eq!(registered, 201);
            (id, cancelled)
        });
    }
    let (cancelled, pending): (Vec<_>, Vec<_>) = asking
        .join_all()
        .await
        .into_iter()
        .partition(|(_, cancelled)| *cancelled == 200);
    for (id, _) in &cancelled {
        assert_eq!(server.get(id).await["state"], "cancelled");
    }
    server.clock().advance(31 * 60_000);
    let mut bodies = Vec::new();
    for (id, _) in &pending {
        server.until_state(id, "delivered").await;
        bodies.push(merchant.call().await.body);
    }
    for (id, _) in &cancelled {
        assert!(
            !bodies.contains(&format!("id={id}").into_bytes()),
            "{id} was sent"
        );
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_delayed_callback_comes_when_it_is_due(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut asked = registration("close", &merchant);
    asked["delay"] = json!("30m");
    let view = server.register(asked).await;
    assert_eq!(view["next_attempt_at"], "2026-11-20T09:00:00.000Z");
    // Later, it is claimed, to ask the journal before it is due.
    let before_ms = CLAIMED_EARLY_MS + 1;
    server.clock().turn_to(BEGIN_MS + 30 * 60_000 - before_ms);
    // A later registration that is due at once goes through; the delayed one still waits.
    server.register(registration("other", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=other");
    server.until_state("other", "delivered").await;
    assert!(merchant.arrived().is_none());
    server.clock().advance(before_ms);
    let call = merchant.call().await;
    assert_eq!(call.body, b"id=close");
    assert_eq!(
        call.header("Webhook-Timestamp"),
        ((BEGIN_MS / 1000) + 1_800).to_string()
    );
    server.until_state("close", "delivered").await;
    server.stop().await;
}

async fn parked_then_replayed_it_keeps_its_webhook_id(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start_by_hand(stores).await;
    let first = server.register(with_ladder("a", &merchant, &["1m"])).await;
    merchant.call().await;
    server.until_attempts("a", 1).await;
    server.clock().advance(60_000);
    merchant.call().await;
    let dead = server.until_state("a", "dead").await;
    assert_eq!(dead["cause"], "ladder_exhausted");
    let (status, list) = server.call(Method::GET, "/v1/dead-letters", None).await;
    assert_eq!(status, 200);
    assert_eq!(list["items"][0]["id"], "a");

    merchant.now_does(Reaction::success());
    server.clock().advance(3_600_000);
    let path = "/v1/dead-letters/t/a/replay";
    let (status, view) = server
        .call(
            Method::POST,
            path,
            Some(json!({ "reason": "they repaired it" })),
        )
        .await;
    assert_eq!(
        (status, &view["state"]),
        (200, &json!("scheduled")),
        "{view}"
    );
    assert_eq!(view["series"], 2);
    let call = merchant.call().await;
    assert_eq!(
        call.header("Webhook-Id"),
        first["webhook_id"].as_str().expect("text")
    );
    assert_eq!(call.attempt(), 3);
    let fresh_s = (BEGIN_MS + 60_000 + 3_600_000) / 1000;
    assert_eq!(call.header("Webhook-Timestamp"), fresh_s.to_string());
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 3);
    if stores != Stores::RedisOnly {
        let outcomes: Vec<_> = (0..3)
            .map(|index| view["attempts"][index]["outcome"].clone())
            .collect();
        assert_eq!(outcomes, ["wrong_answer", "wrong_answer", "acknowledged"]);
        assert_eq!(view["attempts"][2]["series"], 2);
    }
    let (status, _) = server.call(Method::POST, path, None).await;
    assert_eq!(status, 409, "what was delivered cannot be replayed");
    server.stop().await;
}

async fn a_discarded_dead_letter_stays_down(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::Answer(410, vec![])).await;
    let server = Server::start(stores).await;
    let mut asked = registration("a", &merchant);
    asked["ack"] = json!("standard-webhooks");
    server.register(asked).await;
    merchant.call().await;
    assert_eq!(server.until_state("a", "dead").await["cause"], "refused");
    let (status, view) = server
        .call(Method::DELETE, "/v1/dead-letters/t/a", None)
        .await;
    assert_eq!(
        (status, &view["state"]),
        (200, &json!("cancelled")),
        "{view}"
    );
    let (status, _) = server
        .call(Method::POST, "/v1/dead-letters/t/a/replay", None)
        .await;
    assert_eq!(status, 409);
    let (_, list) = server.call(Method::GET, "/v1/dead-letters", None).await;
    assert_eq!(list["items"], json!([]));
    server.stop().await;
}

async fn a_retry_by_hand_comes_at_once_and_the_ladder_goes_on(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    let planned = server.until_attempts("a", 1).await["next_attempt_at"].clone();
    assert_eq!(planned, "2026-11-20T08:34:00.000Z");
    server.clock().advance(60_000);
    let path = "/v1/notifications/t/a/retry";
    let (status, view) = server.call(Method::POST, path, None).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_attempts("a", 2).await;
    assert_eq!(view["next_attempt_at"], planned);
    assert_eq!(view["attempts_left"], 7);
    server.clock().advance(3 * 60_000);
    assert_eq!(merchant.call().await.attempt(), 3);
    let view = server.until_attempts("a", 3).await;
    assert_eq!(view["next_attempt_at"], "2026-11-20T08:44:00.000Z");
    server.stop().await;
}

async fn what_is_pending_survives_a_restart(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    let before = server.until_attempts("a", 1).await;
    let server = server.restart().await;
    let after = server.get("a").await;
    for member in [
        "state",
        "next_attempt_at",
        "deadline_at",
        "webhook_id",
        "attempts_left",
    ] {
        assert_eq!(before[member], after[member], "{member}");
    }
    server.clock().advance(240_000);
    assert_eq!(merchant.call().await.attempt(), 2);
    server.until_state("a", "delivered").await;
    server.stop().await;
}
