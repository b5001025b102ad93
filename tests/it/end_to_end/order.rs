//! Which of the notifications of a lane goes first.

use super::{on_several_redis, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration};
use reqwest::Method;
use ringback::config::ServeConfig;
use ringback::domain::lane::Lane;
use serde_json::{Value, json};

on_stores!(higher_priorities_go_first_also_after_a_restart);
on_stores!(@ ordered_embedded Embedded
    the_highest_number_ends_lower_ones_that_wait
    an_attempt_in_flight_is_not_undone_and_has_no_next_one
    a_strict_number_waits_until_the_lower_ones_have_ended
    a_strict_number_is_sent_after_the_lower_one_has_died
    strict_numbers_of_one_batch_arrive_in_their_order
);
on_stores!(@ ordered_redis Redis
    the_highest_number_ends_lower_ones_that_wait
    an_attempt_in_flight_is_not_undone_and_has_no_next_one
    a_strict_number_waits_until_the_lower_ones_have_ended
    a_strict_number_is_sent_after_the_lower_one_has_died
    strict_numbers_of_one_batch_arrive_in_their_order
);
on_stores!(@ ordered_postgres Postgres
    the_highest_number_ends_lower_ones_that_wait
    an_attempt_in_flight_is_not_undone_and_has_no_next_one
    a_strict_number_waits_until_the_lower_ones_have_ended
    a_strict_number_is_sent_after_the_lower_one_has_died
    strict_numbers_of_one_batch_arrive_in_their_order
);
on_several_redis!(
    higher_priorities_go_first_also_after_a_restart,
    the_highest_number_ends_lower_ones_that_wait,
    a_strict_number_waits_until_the_lower_ones_have_ended,
);
on_stores!(@ without_a_journal RedisOnly an_order_needs_a_journal);

/// Holds the lane of a merchant, or releases it.
async fn change_lane(server: &Server, merchant: &Merchant, verb: &str) {
    let lane = Lane::parse(&merchant.url("/")).expect("a lane");
    let lane: String = url::form_urlencoded::byte_serialize(lane.as_str().as_bytes()).collect();
    let path = format!("/v1/lanes/{lane}/{verb}");
    let body = json!({ "reason": "a test" });
    let (status, view) = server.call(Method::POST, &path, Some(body)).await;
    assert!((200..300).contains(&status), "{view}");
}

async fn register(server: &Server, asked: Value) -> (u16, Value) {
    server
        .call(Method::POST, "/v1/notifications", Some(asked))
        .await
}

async fn higher_priorities_go_first_also_after_a_restart(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let one = |config: &mut ServeConfig| config.schedule.lane_concurrency = 1;
    let server = Server::start_as(stores, one).await;
    change_lane(&server, &merchant, "hold").await;
    for (id, priority) in [
        ("low", json!("low")),
        ("none", Value::Null),
        ("normal", json!("normal")),
        ("high", json!("high")),
    ] {
        let mut asked = registration(id, &merchant);
        asked["priority"] = priority.clone();
        let (status, view) = register(&server, asked.clone()).await;
        assert_eq!(status, 201, "{view}");
        let shown = priority.as_str().unwrap_or("normal");
        assert_eq!(view["priority"], shown, "{view}");
        assert_eq!(server.get(id).await["priority"], shown);
        // Another priority is another registration.
        asked["priority"] = json!(if shown == "low" { "high" } else { "low" });
        assert_eq!(register(&server, asked).await.0, 409);
    }
    let mut wrong = registration("wrong", &merchant);
    wrong["priority"] = json!("urgent");
    let (status, problem) = register(&server, wrong).await;
    assert_eq!(
        (status, &problem["errors"][0]["pointer"]),
        (422, &json!("/priority"))
    );
    let server = server.restart().await;
    change_lane(&server, &merchant, "release").await;
    for id in ["high", "none", "normal", "low"] {
        assert_eq!(merchant.call().await.body, format!("id={id}").into_bytes());
    }
    server.stop().await;
}

/// A registration with a place in an order.
fn ordered(merchant: &Merchant, id: &str, number: i64, mode: &str) -> Value {
    let mut asked = registration(id, merchant);
    asked["order"] = json!({ "key": "order-1001", "number": number, "mode": mode });
    asked
}

fn later(mut asked: Value) -> Value {
    asked["delay"] = json!("1h");
    asked
}

/// Registers what must be refused because of its order, and of the other notification with this id.
async fn refused(server: &Server, asked: Value, other: &str) {
    let (status, problem) = register(server, asked).await;
    assert_eq!(status, 409, "{problem}");
    assert_eq!(problem["type"], "urn:ringback:problem:out-of-order");
    assert_eq!(problem["other"], json!({ "topic": "t", "id": other }));
    let detail = problem["detail"].as_str().expect("a sentence");
    assert!(
        detail.ends_with(&format!("; the other is t {other}")),
        "{detail}"
    );
}

async fn the_highest_number_ends_lower_ones_that_wait(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let first = later(ordered(&merchant, "1", 1, "latest"));
    let (status, view) = register(&server, first.clone()).await;
    assert_eq!(
        (status, &view["state"]),
        (201, &json!("scheduled")),
        "{view}"
    );
    assert_eq!(view["order"], first["order"]);
    let (status, view) = register(&server, ordered(&merchant, "3", 3, "latest")).await;
    assert_eq!(status, 201, "{view}");
    let ended = server.get("1").await;
    assert_eq!(
        (&ended["state"], &ended["cause"]),
        (&json!("cancelled"), &json!("superseded"))
    );
    assert_eq!(merchant.call().await.body, b"id=3");
    server.until_state("3", "delivered").await;
    // The same registration again is answered as it was.
    let (status, view) = register(&server, first).await;
    assert_eq!(
        (status, &view["cause"]),
        (200, &json!("superseded")),
        "{view}"
    );
    // A lower one that comes late is cancelled at once.
    let late = ordered(&merchant, "2", 2, "latest");
    for expected in [201, 200] {
        let (status, view) = register(&server, late.clone()).await;
        assert_eq!(status, expected, "{view}");
        assert_eq!(
            (&view["state"], &view["cause"]),
            (&json!("cancelled"), &json!("superseded"))
        );
        assert_eq!(view["attempts_left"], 0);
    }
    refused(&server, ordered(&merchant, "3b", 3, "latest"), "3").await;
    refused(&server, ordered(&merchant, "4", 4, "strict"), "3").await;
    let (status, problem) = register(&server, ordered(&merchant, "5", -1, "newest")).await;
    assert_eq!(status, 422, "{problem}");
    let server = server.restart().await;
    assert_eq!(server.get("1").await["cause"], "superseded");
    server.register(ordered(&merchant, "9", 9, "latest")).await;
    assert_eq!(merchant.call().await.body, b"id=9");
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn an_attempt_in_flight_is_not_undone_and_has_no_next_one(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    for (id, next, number, reaction, state) in [
        ("1", "2", 1, Reaction::success(), "delivered"),
        ("3", "4", 3, Reaction::fail(), "cancelled"),
    ] {
        merchant.now_does(Reaction::Held(Box::new(reaction)));
        server
            .register(ordered(&merchant, id, number, "latest"))
            .await;
        assert_eq!(merchant.call().await.body, format!("id={id}").into_bytes());
        merchant.now_does(Reaction::success());
        server
            .register(ordered(&merchant, next, number + 1, "latest"))
            .await;
        assert!(merchant.arrived().is_none(), "not side by side");
        merchant.release();
        assert_eq!(
            merchant.call().await.body,
            format!("id={next}").into_bytes()
        );
        server.until_state(next, "delivered").await;
        let view = server.until_state(id, state).await;
        assert_eq!(view["attempts"].as_array().map(Vec::len), Some(1), "{view}");
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_strict_number_waits_until_the_lower_ones_have_ended(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    server
        .register(later(ordered(&merchant, "1", 1, "strict")))
        .await;
    server.register(ordered(&merchant, "3", 3, "strict")).await;
    server.register(ordered(&merchant, "2", 2, "strict")).await;
    server.register(registration("other", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=other");
    server.until_state("other", "delivered").await;
    assert!(merchant.arrived().is_none());
    assert_eq!(
        server.get("2").await["attempts_made"],
        0,
        "waiting is no attempt"
    );
    let waits = |view: &Value| view["waiting_for"] == "order";
    let view = server.until("2", waits).await;
    let because = view["waiting_because"].as_str().expect("a sentence");
    assert!(because.contains("a lower number"), "{because}");
    let path = "/v1/notifications/t/1";
    let (status, view) = server.call(Method::DELETE, path, None).await;
    assert_eq!(status, 200, "{view}");
    for id in ["2", "3"] {
        assert_eq!(merchant.call().await.body, format!("id={id}").into_bytes());
        server.until_state(id, "delivered").await;
    }
    refused(&server, ordered(&merchant, "0", 0, "strict"), "2").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_strict_number_is_sent_after_the_lower_one_has_died(stores: Stores) {
    let bad = Reaction::fail();
    let mut merchant = Merchant::scripted(vec![bad.clone(), bad], Reaction::success()).await;
    let server = Server::start(stores).await;
    change_lane(&server, &merchant, "hold").await;
    for number in 1..=3 {
        let mut asked = ordered(&merchant, &number.to_string(), number, "strict");
        asked["ladder"] = json!({ "intervals": if number == 1 { vec!["50ms"] } else { vec![] } });
        assert_eq!(register(&server, asked).await.0, 201);
    }
    change_lane(&server, &merchant, "release").await;
    // The first one has two attempts, and dies. The others go on after that, in their order.
    for id in ["1", "1", "2", "3"] {
        assert_eq!(merchant.call().await.body, format!("id={id}").into_bytes());
    }
    assert_eq!(
        server.until_state("1", "dead").await["cause"],
        "ladder_exhausted"
    );
    for id in ["2", "3"] {
        let sent = server.until_state(id, "delivered").await;
        assert_eq!(sent["attempts"].as_array().map(Vec::len), Some(1), "{sent}");
    }
    server.stop().await;
}

async fn an_order_needs_a_journal(stores: Stores) {
    let merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let (status, problem) = register(&server, ordered(&merchant, "1", 1, "latest")).await;
    assert_eq!(status, 501, "{problem}");
    server.stop().await;
}

/// So many that several transactions keep them.
async fn strict_numbers_of_one_batch_arrive_in_their_order(stores: Stores) {
    const MANY: usize = 60;
    let server = Server::start(stores).await;
    let mut merchant = Merchant::start().await;
    let numbered = |number: usize| {
        let mut asked = registration(&format!("n{number:02}"), &merchant);
        asked["order"] = json!({ "key": "o", "number": number, "mode": "strict" });
        asked
    };
    let batch: Vec<Value> = (0..MANY).map(numbered).collect();
    let batch = json!({ "notifications": batch });
    let (status, answer) = server
        .call(Method::POST, "/v1/notifications/batch", Some(batch))
        .await;
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().expect("a list");
    assert_eq!(results.len(), MANY);
    for result in results {
        assert_eq!(result["status"], 201, "{result}");
    }
    for number in 0..MANY {
        let call = merchant.call().await;
        assert_eq!(call.body, format!("id=n{number:02}").as_bytes());
    }
    server.stop().await;
}
