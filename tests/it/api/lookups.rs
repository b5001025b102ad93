//! Looking up, listing, and the routes themselves.

use super::{Embedded, NOTIFICATIONS, Reply, order};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn one_notification_is_shown_with_its_ladder_and_history() {
    let embedded = Embedded::start().await;
    let mut custom = order("2");
    custom["ladder"] = json!({"intervals": ["10s"], "window": null});
    embedded.server.register(&order("1")).await.is(201);
    embedded.server.register(&custom).await.is(201);
    let path = |id: &str| format!("{NOTIFICATIONS}/payment.succeeded/{id}");
    let one = embedded.server.get(&path("1")).await.is(200);
    assert_eq!(one["ladder"], "alipay");
    assert_eq!(one["transitions"], json!([]), "no journal keeps any");
    let other = embedded.server.get(&path("2")).await.is(200);
    assert_eq!(
        other["ladder"],
        json!({"intervals": ["10s"], "window": "10s"})
    );
    assert_eq!(other["attempts_left"], 2);
}

#[tokio::test]
async fn ids_of_any_printable_characters_can_be_asked_for() {
    async fn check(id: &str, segment: &str) {
        let embedded = Embedded::start().await;
        embedded.server.register(&order(id)).await.is(201);
        let path = format!("{NOTIFICATIONS}/payment.succeeded/{segment}");
        assert_eq!(embedded.server.get(&path).await.is(200)["id"], id);
        let retried = embedded.server.post(&format!("{path}/retry")).await.is(200);
        assert_eq!(retried["id"], id);
        assert_eq!(
            embedded.server.delete(&path).await.is(200)["state"],
            "cancelled"
        );
    }
    check("a/b", "a%2Fb").await;
    check("a/retry", "a%2fretry").await;
    check("//", "%2F%2F").await;
    check("a?b=c&d", "a%3Fb=c&d").await;
    check("100%", "100%25").await;
    check("%2F", "%252F").await;
    check("a b", "a%20b").await;
    check("a+b", "a+b").await;
    check("#~\"<>\\^`{|}", "%23~%22%3C%3E%5C%5E%60%7B%7C%7D").await;
    check("batch", "batch").await;
    check(&"x".repeat(128), &"x".repeat(128)).await;
}

#[tokio::test]
async fn a_name_that_nothing_can_have_names_nothing() {
    let embedded = Embedded::start().await;
    let check = async |path: &str, status: u16, kind: &str| {
        let reply = embedded.server.get(path).await;
        reply.is_problem(status, kind);
        reply.body["detail"].as_str().unwrap_or("").to_string()
    };
    check("/v1/notifications/t/none", 404, "missing").await;
    let detail = check("/v1/notifications/a%2Fb/1", 404, "missing").await;
    assert!(detail.contains("a topic is"), "{detail}");
    let detail = check("/v1/notifications/t/%C3%A4", 404, "missing").await;
    assert!(detail.contains("an id is"), "{detail}");
    let long = format!("/v1/notifications/t/{}", "x".repeat(129));
    check(&long, 404, "missing").await;
    check("/v1/notifications/t/%00", 404, "missing").await;
    check("/v1/notifications/t/%ff", 400, "parameters").await;
    check("/v1/notifications/t/1?dry_run=1", 400, "parameters").await;
}

#[tokio::test]
async fn what_no_route_takes_is_a_problem_too() {
    let embedded = Embedded::start().await;
    for path in [
        "/",
        "/v2/notifications",
        "/v1/notifications/",
        "/v1/notifications/t/1/",
        "/v1/notifications/t/1/x/y",
        "/%ff",
    ] {
        embedded.server.get(path).await.is_problem(404, "route");
    }
    let reply = embedded.server.post("/v1/dead-letters/discard").await;
    reply.is_problem(404, "route");
    let check = async |method: Method, path: &str, allow: &str| {
        let reply = Reply::of(embedded.server.request(method, path)).await;
        reply.is_problem(405, "method");
        let mut allowed: Vec<&str> = reply.header("allow").unwrap_or("").split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow, "{path}");
    };
    check(Method::PUT, NOTIFICATIONS, "GET,HEAD,POST").await;
    check(Method::OPTIONS, NOTIFICATIONS, "GET,HEAD,POST").await;
    check(Method::GET, "/v1/notifications/batch", "POST").await;
    check(
        Method::POST,
        "/v1/notifications/t/1",
        "DELETE,GET,HEAD,PATCH",
    )
    .await;
    check(Method::GET, "/v1/notifications/t/1/retry", "POST").await;
    check(Method::GET, "/v1/notifications/t/1/resend", "POST").await;
    check(Method::POST, "/v1/notifications/t/1/payload", "GET,HEAD").await;
    check(Method::GET, "/v1/notifications/cancel", "POST").await;
    check(Method::GET, "/v1/dead-letters/replay", "POST").await;
    check(Method::GET, "/v1/dead-letters/t/1", "DELETE").await;
    check(Method::POST, "/healthz", "GET,HEAD").await;
    check(Method::POST, "/readyz", "GET,HEAD").await;
}

#[tokio::test]
async fn a_list_needs_a_journal_and_says_so() {
    let embedded = Embedded::start().await;
    embedded
        .server
        .get(NOTIFICATIONS)
        .await
        .is_problem(501, "no-journal");
}

#[tokio::test]
async fn wrong_parameters_of_a_list_are_all_named() {
    let embedded = Embedded::start().await;
    let reply = embedded
        .server
        .get("/v1/notifications?limit=0&state=asleep&colour=red&topic=a&topic=b")
        .await;
    reply.is_problem(400, "parameters");
    let errors = reply.body["errors"].as_array().expect("a list").clone();
    let mut named: Vec<&str> = errors
        .iter()
        .filter_map(|error| error["parameter"].as_str())
        .collect();
    named.sort_unstable();
    assert_eq!(named, ["colour", "limit", "state", "topic"]);
}

#[tokio::test]
async fn health_is_told_without_a_key() {
    let embedded = Embedded::start().await;
    let alive = embedded.server.get("/healthz").await.is(200);
    assert_eq!(alive, json!({"status": "ok"}));
    let ready = embedded.server.get("/readyz").await.is(200);
    let stores = json!([{"store": "schedule", "state": "up"}]);
    assert_eq!(ready, json!({"status": "ready", "stores": stores}));
}
