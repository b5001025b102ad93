//! Answers that say why: lists with the last attempt, a refused registration with the fields that differ, the address that
//! a receiver redirects to.

use super::{on_journaled_stores, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Server, Stores, registration, with_ladder};
use reqwest::Method;
use serde_json::{Value, json};

const DEAD_LETTERS: &str = "/v1/dead-letters";

async fn dead_letters(server: &Server, query: &str) -> Value {
    let path = format!("{DEAD_LETTERS}?{query}");
    let (status, page) = server.call(Method::GET, &path, None).await;
    assert_eq!(status, 200, "{page}");
    page
}

async fn dead_letters_say_how_they_ended_and_how_many_there_are(stores: Stores) {
    let server = Server::start(stores).await;
    let has_attempts = stores != Stores::RedisOnly;
    assert_eq!(dead_letters(&server, "").await["total"], 0);
    let merchant = Merchant::scripted(
        vec![Reaction::Answer(500, b"oops".to_vec())],
        Reaction::Answer(403, b"no".to_vec()),
    )
    .await;
    for (number, id) in ["a", "b", "c"].into_iter().enumerate() {
        server.register(with_ladder(id, &merchant, &[])).await;
        server.until_state(id, "dead").await;
        assert_eq!(dead_letters(&server, "").await["total"], number + 1);
    }
    let page = dead_letters(&server, "limit=2").await;
    assert_eq!(page["total"], 3, "{page}");
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let rest = dead_letters(&server, &format!("cursor={cursor}")).await;
    assert_eq!(rest["total"], 3, "of all pages: {rest}");
    let items = [page["items"].as_array(), rest["items"].as_array()];
    let items = items.map(|items| items.expect("a list").clone()).concat();
    assert_eq!(items.len(), 3);
    for item in items {
        let first = item["id"] == "a";
        let (status, reason) = if first {
            (500, "answered 500")
        } else {
            (403, "answered 403")
        };
        let mut last = item["last_attempt"].clone();
        if !has_attempts {
            assert_eq!(last, Value::Null);
            continue;
        }
        let started_at = last["started_at"].take();
        assert!(
            started_at.as_str().is_some_and(|at| at.starts_with("20")),
            "{item}"
        );
        let expected = json!({ "outcome": "http_status", "status": status, "reason": reason, "started_at": null });
        assert_eq!(last, expected);
        assert_eq!(item["attempts"], json!([]));
    }
    // What would have to be counted is not counted.
    for filter in [
        "topic=t",
        "cause=ladder_exhausted",
        "from=2026-11-20T08:30:00Z",
    ] {
        let page = dead_letters(&server, filter).await;
        assert_eq!(page.get("total"), None, "{filter}: {page}");
    }
    server.stop().await;
}

async fn the_last_of_several_attempts_is_the_one_that_is_listed(stores: Stores) {
    let server = Server::start(stores).await;
    let merchant = Merchant::scripted(
        vec![Reaction::Answer(500, b"oops".to_vec())],
        Reaction::success(),
    )
    .await;
    let mut later = registration("later", &merchant);
    later["delay"] = json!("1h");
    server.register(later).await;
    server
        .register(with_ladder("a", &merchant, &["10ms"]))
        .await;
    server.until_state("a", "delivered").await;
    let (status, page) = server.call(Method::GET, "/v1/notifications", None).await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(page.get("total"), None);
    let last = &page["items"][0]["last_attempt"];
    assert_eq!(
        (&last["outcome"], &last["status"]),
        (&json!("acknowledged"), &json!(200))
    );
    assert_eq!(last["reason"], Value::Null);
    assert_eq!(page["items"][1]["id"], "later");
    assert_eq!(page["items"][1]["last_attempt"], Value::Null);
    server.stop().await;
}

async fn a_registration_that_differs_is_told_in_which_fields(stores: Stores) {
    let merchant = Merchant::start().await;
    let server = Server::start(stores).await;
    let mut first = registration("a", &merchant);
    first["delay"] = json!("1h");
    first["body"] = json!("pin=1234");
    server.register(first.clone()).await;
    let check = async |change: Value, expected: &[&str]| {
        let mut second = first.clone();
        for (name, value) in change.as_object().expect("an object") {
            second[name] = value.clone();
        }
        let (status, problem) = server
            .call(Method::POST, "/v1/notifications", Some(second))
            .await;
        assert_eq!(status, 409, "{problem}");
        let errors = problem["errors"].as_array().expect("a list");
        let named: Vec<&str> = errors
            .iter()
            .filter_map(|error| error["pointer"].as_str()?.strip_prefix('/'))
            .collect();
        assert_eq!(named, expected, "{problem}");
        let detail = problem["detail"].as_str().expect("a text");
        assert!(
            detail.ends_with(&format!(": {}", expected.join(", "))),
            "{detail}"
        );
        let text = problem.to_string();
        assert!(!text.contains("1234") && !text.contains("5678"), "{text}");
    };
    check(json!({ "body": "pin=5678" }), &["body"]).await;
    check(
        json!({ "body": "pin=5678", "delay": "2h" }),
        &["body", "delay"],
    )
    .await;
    check(json!({ "delay": "2h" }), &["delay"]).await;
    check(json!({ "headers": { "x-pin": "5678" } }), &["headers"]).await;
    check(json!({ "url": merchant.url("/5678") }), &["url"]).await;
    check(
        json!({ "ladder": "wechat", "ack": "exact", "priority": "high" }),
        &["ack", "priority", "ladder"],
    )
    .await;
    server.stop().await;
}

async fn the_target_of_a_redirect_is_kept_in_the_reason(stores: Stores) {
    let server = Server::start(stores).await;
    let long = format!("https://www.shop.example/{}", "x".repeat(400));
    for (id, location, shown) in [
        (
            "a",
            "https://www.shop.example/notify",
            "https://www.shop.example/notify",
        ),
        ("b", "/\u{e9}\"", "/é\""),
        ("c", &*long, &*format!("{}...", &long[..300])),
    ] {
        let answer =
            format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let merchant = Merchant::scripted(vec![], Reaction::Raw(answer.into_bytes())).await;
        server.register(with_ladder(id, &merchant, &[])).await;
        server.until_state(id, "dead").await;
        let expected = format!(
            "answered 302: the receiver redirects to `{shown}`; redirects are not followed"
        );
        assert_eq!(server.get(id).await["attempts"][0]["reason"], expected);
    }
    server.stop().await;
}

on_stores! {
    dead_letters_say_how_they_ended_and_how_many_there_are,
    a_registration_that_differs_is_told_in_which_fields,
}

mod journaled {
    use super::*;

    on_journaled_stores! {
        the_last_of_several_attempts_is_the_one_that_is_listed,
        the_target_of_a_redirect_is_kept_in_the_reason,
    }
}
