//! The name of an endpoint that was removed is given to another one: what was registered for the old one never goes to
//! the new one.

use super::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::proxy::{Line, Proxy};
use crate::support::ringback::{Server, Stores, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::{JournalConfig, PostgresUrl, ServeConfig};
use serde_json::{Value, json};
use std::time::Duration;

on_stores!(
    what_has_ended_is_not_sent_again_to_another_endpoint_of_the_name,
    what_is_pending_is_not_sent_to_another_endpoint_of_the_name,
    what_has_ended_is_sent_again_to_an_endpoint_that_was_only_changed,
    a_hold_belongs_to_the_name,
);

mod with_orders {
    use super::numbers_of_another_endpoint_of_the_name_do_not_count;

    crate::end_to_end::on_journaled_stores!(numbers_of_another_endpoint_of_the_name_do_not_count);
}

const SHOP: &str = "/v1/endpoints/shop-1";
const MADE_AGAIN: &str = "urn:ringback:problem:endpoint-made-again";

on_stores!(@ two_servers Postgres what_another_server_still_knows_is_not_used_for_the_new_one);

async fn put(server: &Server, merchant: &Merchant) -> (u16, Value) {
    let endpoint = json!({ "url": merchant.url("/n"), "ladder": { "intervals": [] } });
    server.call(Method::PUT, SHOP, Some(endpoint)).await
}

/// Makes the endpoint again after it was removed. That is answered once every server knows of the removal, by the clock.
async fn put_again(server: &Server, merchant: &Merchant) -> (u16, Value) {
    let turning = async {
        within("the endpoint to be made", async {
            while server.call(Method::GET, SHOP, None).await.0 != 200 {
                short_pause().await;
            }
        })
        .await;
        server.clock().advance(5_000);
    };
    let (answer, ()) = tokio::join!(put(server, merchant), turning);
    answer
}

fn asked(id: &str) -> Value {
    json!({ "topic": "t", "id": id, "endpoint": "shop-1", "body": format!("id={id}") })
}

async fn register(server: &Server, id: &str) -> Value {
    server.register(asked(id)).await
}

async fn send_again(server: &Server, id: &str, how: &str) -> (u16, Value) {
    let path = match how {
        "replay" => format!("/v1/dead-letters/t/{id}/replay"),
        how => format!("/v1/notifications/t/{id}/{how}"),
    };
    let reason = Some(json!({ "reason": "x" }));
    server.call(Method::POST, &path, reason).await
}

/// What is said of a notification whose endpoint was removed.
async fn check_warning(server: &Server, id: &str, expected: &str) {
    let view = server.get(id).await;
    let warning = view["warning"].as_str().unwrap_or_default();
    assert!(warning.contains(expected), "{expected} in {view}");
}

async fn change_lane(server: &Server, verb: &str) {
    let path = format!("/v1/lanes/endpoint%3Ashop-1/{verb}");
    let reason = Some(json!({ "reason": "x" }));
    let (status, answer) = server.call(Method::POST, &path, reason).await;
    assert!(matches!(status, 200 | 202), "{answer}");
}

async fn what_has_ended_is_not_sent_again_to_another_endpoint_of_the_name(stores: Stores) {
    let mut old = Merchant::scripted(vec![Reaction::success()], Reaction::fail()).await;
    let mut new = Merchant::start().await;
    // All of this happens in the same millisecond.
    let server = Server::start_by_hand(stores).await;
    put(&server, &old).await;
    register(&server, "delivered").await;
    server.until_state("delivered", "delivered").await;
    for id in ["dead", "other"] {
        register(&server, id).await;
        server.until_state(id, "dead").await;
    }
    assert_eq!(server.get("dead").await.get("warning"), None);
    assert_eq!(server.call(Method::DELETE, SHOP, None).await.0, 204);
    check_warning(&server, "dead", "a replay uses the last settings").await;
    check_warning(&server, "delivered", "a resend uses the last settings").await;
    // Nobody else has the name yet, so its last settings are used.
    assert_eq!(send_again(&server, "other", "replay").await.0, 200);
    server.until_attempts("other", 2).await;
    while old.arrived().is_some() {}

    let (status, made) = put_again(&server, &new).await;
    assert_eq!((status, &made["version"]), (201, &json!(2)), "{made}");
    register(&server, "fresh").await;
    server.until_state("fresh", "delivered").await;
    assert_eq!(new.call().await.body, b"id=fresh");
    let server = server.restart().await;
    let resent = match stores {
        // The body was forgotten with the delivery.
        Stores::RedisOnly | Stores::ClusterOnly => (501, "urn:ringback:problem:no-journal"),
        Stores::Embedded
        | Stores::Redis
        | Stores::Postgres
        | Stores::Sentinel
        | Stores::Cluster => (409, MADE_AGAIN),
    };
    for (id, how, expected) in [
        ("dead", "replay", (409, MADE_AGAIN)),
        ("other", "replay", (409, MADE_AGAIN)),
        ("delivered", "resend", resent),
    ] {
        let before = server.get(id).await;
        assert_eq!(before["url"], json!(null), "it is not that of the new one");
        check_warning(&server, id, "another one was made under its name").await;
        let (status, problem) = send_again(&server, id, how).await;
        assert_eq!((status, &problem["type"]), (expected.0, &json!(expected.1)));
        assert_eq!(server.get(id).await, before, "nothing was changed");
    }
    assert_eq!(server.get("fresh").await.get("warning"), None);
    // A change of the new one changes nothing about that.
    let patch = Some(json!({ "timeout": "1s" }));
    assert_eq!(server.call(Method::PATCH, SHOP, patch).await.0, 200);
    assert_eq!(send_again(&server, "dead", "replay").await.0, 409);
    assert!(old.arrived().is_none() && new.arrived().is_none());
    server.stop().await;
}

async fn what_is_pending_is_not_sent_to_another_endpoint_of_the_name(stores: Stores) {
    let old = Merchant::scripted(vec![], Reaction::fail()).await;
    let mut new = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    put(&server, &old).await;
    register(&server, "1").await;
    server.until_state("1", "dead").await;
    assert_eq!(server.call(Method::DELETE, SHOP, None).await.0, 204);
    // A registration that is made in the same moment as the removal leaves the same behind.
    change_lane(&server, "hold").await;
    assert_eq!(send_again(&server, "1", "replay").await.0, 200);
    assert_eq!(put_again(&server, &new).await.0, 201);
    register(&server, "2").await;
    change_lane(&server, "release").await;
    let ended = server.until_state("1", "dead").await;
    assert_eq!(ended["cause"], "blocked");
    if stores != Stores::RedisOnly {
        let last = &ended["attempts"][1];
        assert_eq!(last["outcome"], "blocked");
        let reason = last["reason"].as_str().expect("text");
        assert!(reason.contains("removed and made again"), "{reason}");
    }
    assert_eq!(new.call().await.body, b"id=2");
    server.until_state("2", "delivered").await;
    assert!(new.arrived().is_none());
    server.stop().await;
}

async fn what_has_ended_is_sent_again_to_an_endpoint_that_was_only_changed(stores: Stores) {
    let old = Merchant::scripted(vec![], Reaction::fail()).await;
    let mut new = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    put(&server, &old).await;
    register(&server, "1").await;
    server.until_state("1", "dead").await;
    server.clock().advance(60_000);
    assert_eq!(put(&server, &new).await.0, 200);
    assert_eq!(send_again(&server, "1", "replay").await.0, 200);
    server.until_state("1", "delivered").await;
    assert_eq!(new.call().await.body, b"id=1");
    server.stop().await;
}

async fn a_hold_belongs_to_the_name(stores: Stores) {
    let old = Merchant::start().await;
    let mut new = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    put(&server, &old).await;
    change_lane(&server, "hold").await;
    assert_eq!(server.call(Method::DELETE, SHOP, None).await.0, 204);
    assert_eq!(put_again(&server, &new).await.0, 201);
    let server = server.restart().await;
    register(&server, "1").await;
    let path = "/v1/lanes/endpoint%3Ashop-1";
    let (_, lane) = server.call(Method::GET, path, None).await;
    assert_eq!(
        (&lane["state"], &lane["held_reason"]),
        (&json!("held"), &json!("x")),
        "{lane}"
    );
    assert!(new.arrived().is_none());
    change_lane(&server, "release").await;
    server.until_state("1", "delivered").await;
    assert_eq!(new.call().await.body, b"id=1");
    server.stop().await;
}

async fn numbers_of_another_endpoint_of_the_name_do_not_count(stores: Stores) {
    let old = Merchant::start().await;
    let mut new = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let ordered = |id: &str, number: i64, mode: &str| {
        json!({
            "topic": "t", "id": id, "endpoint": "shop-1", "body": format!("id={id}"),
            "order": { "key": mode, "number": number, "mode": mode },
        })
    };
    put(&server, &old).await;
    for mode in ["latest", "strict"] {
        let id = format!("{mode}-old");
        server.register(ordered(&id, 7, mode)).await;
        server.until_state(&id, "delivered").await;
    }
    assert_eq!(server.call(Method::DELETE, SHOP, None).await.0, 204);
    put_again(&server, &new).await;
    for mode in ["latest", "strict"] {
        let id = format!("{mode}-new");
        let made = server.register(ordered(&id, 1, mode)).await;
        assert_eq!(made["state"], "scheduled", "{made}");
        server.until_state(&id, "delivered").await;
        assert_eq!(new.call().await.body, format!("id={id}").into_bytes());
    }
    server.stop().await;
}

async fn what_another_server_still_knows_is_not_used_for_the_new_one(stores: Stores) {
    const MANY: usize = 12;
    let mut old = Merchant::start().await;
    let mut new = Merchant::start().await;
    let mut hanging = Merchant::scripted(vec![], Reaction::Hang).await;
    // One attempt takes all its time, so it sends nothing of what follows.
    let busy = |config: &mut ServeConfig| {
        config.delivery.concurrency = 1;
        config.delivery.timeout = Duration::from_secs(60);
    };
    let server = Server::start_as(stores, busy).await;
    put(&server, &old).await;
    server.register(registration("hanging", &hanging)).await;
    hanging.call().await;
    let mut config = server.config().clone();
    config.delivery.concurrency = 100;
    let JournalConfig::Postgres(url) = &config.journal else {
        panic!("in PostgreSQL");
    };
    let (line, url) = Proxy::before(url.expose());
    config.journal = JournalConfig::Postgres(PostgresUrl::parse(&url).expect("a URL"));
    // It knows the old one, and then reads no more.
    let other = Server::open(config, None, None).await;
    line.set(Line::Holds).await;
    assert_eq!(server.call(Method::DELETE, SHOP, None).await.0, 204);
    assert_eq!(put(&server, &new).await.0, 201);
    for number in 0..MANY {
        register(&server, &number.to_string()).await;
    }
    // While it reads nothing it sends nothing of that.
    let lane = "/v1/lanes/endpoint%3Ashop-1";
    let is_claimed = within("the other one to claim", async {
        while server.call(Method::GET, lane, None).await.1["in_flight"] == 0 {
            short_pause().await;
        }
    });
    is_claimed.await;
    line.set(Line::Passes).await;
    for _ in 0..MANY {
        new.call().await;
    }
    assert!(old.arrived().is_none());
    other.stop().await;
    server.stop().await;
}
