//! Which of the notifications of a lane goes first.

use super::on_stores;
use crate::support::merchant::Merchant;
use crate::support::ringback::{Server, Stores, registration};
use reqwest::Method;
use ringback::config::ServeConfig;
use ringback::domain::lane::Lane;
use serde_json::{Value, json};

on_stores!(higher_priorities_go_first_also_after_a_restart);

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
