//! Lists that look for an id, the beginning of one, a webhook id or a part of a URL.

use super::journaled::Journaled;
use super::{Embedded, NOTIFICATIONS, Reply, order};
use ringback::journal::MOST_TOPICS;
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

fn of(topic: &str, id: &str) -> Value {
    let mut registration = order(id);
    registration["topic"] = json!(topic);
    registration
}

/// The list with these parameters, which are escaped here.
async fn list(journaled: &Journaled, parameters: &[(&str, &str)]) -> Reply {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(parameters);
    let path = format!("{NOTIFICATIONS}?{}", query.finish());
    journaled.server.get(&path).await
}

/// The keys on the only page of a list.
async fn found(journaled: &Journaled, parameters: &[(&str, &str)]) -> Vec<String> {
    let page = list(journaled, parameters).await.is(200);
    assert_eq!(page["next_cursor"], Value::Null, "{parameters:?}");
    let items = page["items"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_string();
    let key = |item: &Value| format!("{}/{}", text(&item["topic"]), text(&item["id"]));
    items.map(key).collect()
}

#[tokio::test]
async fn what_is_looked_for_is_found_in_all_topics_or_in_one() {
    let journaled = Journaled::start().await;
    let mut webhook_ids = Vec::new();
    for (topic, id) in [("a", "order-1"), ("b", "order-1"), ("b", "order-10")] {
        let registered = journaled.server.register(&of(topic, id)).await.is(201);
        let webhook_id = registered["webhook_id"].as_str().expect("a text");
        webhook_ids.push(webhook_id.to_string());
        journaled.clock.advance(1_000);
    }
    let check = async |parameters: &[(&str, &str)], expected: &[&str]| {
        assert_eq!(
            found(&journaled, parameters).await,
            expected,
            "{parameters:?}"
        );
    };
    check(&[("id", "order-1")], &["b/order-1", "a/order-1"]).await;
    check(&[("id", "order-1"), ("topic", "a")], &["a/order-1"]).await;
    check(&[("id", "order-1"), ("state", "delivered")], &[]).await;
    let begun = ["b/order-10", "b/order-1", "a/order-1"];
    check(&[("id_prefix", "order-")], &begun).await;
    check(&[("id_prefix", "order-10")], &["b/order-10"]).await;
    let webhook_id = ("webhook_id", &*webhook_ids[1]);
    check(&[webhook_id], &["b/order-1"]).await;
    check(&[webhook_id, ("id", "order-1")], &["b/order-1"]).await;
    check(&[webhook_id, ("topic", "a")], &[]).await;
    let from = ("from", "2026-11-20T08:30:01Z");
    check(&[("id_prefix", "order"), from], &begun[..2]).await;
    check(&[("url_contains", "SHOP.example/n")], &begun).await;
    check(&[("url_contains", "other.example")], &[]).await;
    let both = [("url_contains", "shop"), ("id", "order-10")];
    check(&both, &["b/order-10"]).await;
    check(
        &[("id", ""), ("id_prefix", ""), ("topic", "a")],
        &["a/order-1"],
    )
    .await;
}

#[tokio::test]
async fn hostile_texts_are_only_texts() {
    let journaled = Journaled::start().await;
    for id in ["100%", "a_b", "it's", "\"", "a\\b", "a b", "a+b", "--;"] {
        journaled.server.register(&of("t", id)).await.is(201);
        let key = format!("t/{id}");
        assert_eq!(found(&journaled, &[("id", id)]).await, [&*key], "{id}");
        let begun = found(&journaled, &[("id_prefix", id)]).await;
        assert_eq!(begun, [&*key], "{id}");
    }
    for text in ["%", "_", "a%", "*", "' OR '1'='1", "\\", "a__"] {
        assert!(
            found(&journaled, &[("id", text)]).await.is_empty(),
            "{text}"
        );
        let begun = found(&journaled, &[("id_prefix", text)]).await;
        assert!(begun.is_empty(), "{text}: {begun:?}");
    }
    for text in ["%", "_", "*", "'--", "\\", "$1", "?11", "例え"] {
        let found = found(&journaled, &[("url_contains", text)]).await;
        assert!(found.is_empty(), "{text}: {found:?}");
    }
    let too_long = "x".repeat(257);
    for (name, text) in [
        ("id", "\0"),
        ("id", "ä"),
        ("id", &*too_long),
        ("id_prefix", "a\0"),
        ("id_prefix", "\u{202e}"),
        ("id_prefix", &*too_long),
        ("webhook_id", "msg_"),
        ("webhook_id", "msg_%"),
        ("webhook_id", "msg_00000000-0000-0000-0000-000000000000"),
        ("webhook_id", &*too_long),
        ("url_contains", "\0"),
        ("url_contains", "a\nb"),
        ("url_contains", " "),
        ("url_contains", &*too_long),
    ] {
        let reply = list(&journaled, &[(name, text)]).await;
        reply.is_problem(400, "parameters");
        assert_eq!(reply.body["errors"][0]["parameter"], name, "{text:?}");
    }
}

#[tokio::test]
async fn an_id_in_too_many_topics_asks_for_the_topic() {
    let journaled = Journaled::start().await;
    let many: Vec<Value> = (0..=MOST_TOPICS)
        .map(|number| of(&format!("t{number}"), "1"))
        .collect();
    for part in many.chunks(1_000) {
        let batch = json!({ "notifications": part });
        let path = format!("{NOTIFICATIONS}/batch");
        journaled.server.post_json(&path, &batch).await.is(200);
    }
    let reply = journaled.server.get("/v1/notifications?id=1").await;
    reply.is_problem(400, "parameters");
    assert_eq!(reply.body["errors"][0]["parameter"], "topic");
    let one = found(&journaled, &[("id", "1"), ("topic", "t7")]).await;
    assert_eq!(one, ["t7/1"]);
}

#[tokio::test]
async fn without_a_journal_a_search_is_refused_as_a_list_is() {
    let embedded = Embedded::start().await;
    for query in ["id=1", "id_prefix=1", "url_contains=shop"] {
        let reply = embedded
            .server
            .get(&format!("{NOTIFICATIONS}?{query}"))
            .await;
        reply.is_problem(501, "no-journal");
    }
}
