//! Registering one notification.

use super::{Embedded, NOTIFICATIONS, Reply, order};
use bytes::Bytes;
use reqwest::Method;
use ringback::api::ApiSettings;
use ringback::domain::key::Key;
use ringback::schedule::ScheduleReads as _;
use serde_json::{Value, json};

#[tokio::test]
async fn a_registration_is_new_once_and_the_same_afterwards() {
    let embedded = Embedded::start().await;
    let fresh = embedded.server.register(&order("1")).await.is(201);
    let webhook_id = fresh["webhook_id"].as_str().expect("a text").to_string();
    assert_eq!(
        fresh,
        json!({
            "topic": "payment.succeeded", "id": "1", "webhook_id": webhook_id,
            "lane": "https://shop.example", "url": "https://shop.example/notify",
            "state": "scheduled", "series": 1, "attempts_made": 0, "attempts_left": 8,
            "registered_at": "2026-11-20T08:30:00.000Z",
            "next_attempt_at": "2026-11-20T08:30:00.000Z",
            "deadline_at": "2026-11-21T08:52:00.000Z",
            "ended_at": null, "cause": null, "attempts": [],
            "priority": "normal", "order": null,
        })
    );
    embedded.clock.advance(5_000);
    assert_eq!(embedded.server.register(&order("1")).await.is(200), fresh);
    let lease = embedded.claim().await;
    let body = Bytes::from_static(b"out_trade_no=1");
    assert_eq!(lease.entry.notification.body, body.into());
    let again = embedded.server.register(&order("1")).await.is(200);
    assert_eq!(again["state"], "in_flight");
}

#[tokio::test]
async fn other_content_under_the_same_key_is_a_mismatch() {
    let embedded = Embedded::start().await;
    embedded.server.register(&order("a b")).await.is(201);
    let mut other = order("a b");
    other["body"] = json!("out_trade_no=2");
    let reply = embedded.server.register(&other).await;
    reply.is_problem(409, "mismatch");
    let subject = |name: &str| reply.body[name].as_str().map(str::to_string);
    assert_eq!(subject("topic").as_deref(), Some("payment.succeeded"));
    assert_eq!(subject("id").as_deref(), Some("a b"));
    assert_eq!(subject("state").as_deref(), Some("scheduled"));
    assert_eq!(reply.header("retry-after"), None);
}

#[tokio::test]
async fn bodies_arrive_byte_for_byte() {
    async fn check(members: &str, bytes: &[u8], content_type: &str) {
        let embedded = Embedded::start().await;
        let text = format!(r#"{{"topic":"t","id":"1","url":"https://shop.example/",{members}}}"#);
        embedded.server.post_text(NOTIFICATIONS, text).await.is(201);
        let key = Key::new("t", "1").expect("a key");
        let found = embedded.schedule.find(&key).await.expect("works");
        let notification = found.expect("registered").entry.notification;
        let body = notification.body.here().expect("at hand");
        assert_eq!(&body[..], bytes, "{members}");
        assert_eq!(notification.content_type, content_type, "{members}");
    }
    let text = "text/plain; charset=utf-8";
    check(r#""body":"\u0000é\n""#, "\0é\n".as_bytes(), text).await;
    check(
        "\"body\": {\"b\" : 1.0,\r\n \"a\":2} ",
        b"{\"b\" : 1.0,\r\n \"a\":2}",
        "application/json",
    )
    .await;
    check(r#""body":null"#, b"null", "application/json").await;
    check(r#""body_base64":"/wA=""#, b"\xff\0", "application/json").await;
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    check(
        &format!("\"body\":{deep}"),
        deep.as_bytes(),
        "application/json",
    )
    .await;
}

#[tokio::test]
async fn a_registration_without_an_id_gets_one_that_can_be_looked_up() {
    let embedded = Embedded::start().await;
    let mut nameless = order("");
    nameless["id"] = Value::Null;
    let made = embedded.server.register(&nameless).await.is(201);
    let id = made["id"].as_str().expect("an id");
    let path = format!("{NOTIFICATIONS}/payment.succeeded/{id}");
    assert_eq!(
        embedded.server.get(&path).await.is(200)["webhook_id"],
        made["webhook_id"]
    );
}

#[tokio::test]
async fn a_request_that_is_no_json_is_told_where() {
    async fn check(body: &[u8], detail: &str) {
        let embedded = Embedded::start().await;
        let reply = embedded.server.post_text(NOTIFICATIONS, body).await;
        reply.is_problem(400, "malformed");
        let told = reply.body["detail"].as_str().unwrap_or("");
        assert!(told.contains(detail), "{told}");
    }
    check(b"", "has no body").await;
    check(b"   ", "EOF while parsing a value at line 1 column 3").await;
    check(b"{\"topic\":NaN}", "line 1 column 10").await;
    check(b"{\n  \"topic\": \"t\",\n}", "line 3 column 1").await;
    check(b"{} x", "trailing characters at line 1 column 4").await;
    check(b"\xef\xbb\xbf{}", "byte order mark").await;
    check(b"{\"topic\":\"\xc3\x28\"}", "not UTF-8 at byte 10").await;
    check(b"{\"\\ud800\":1}", "hex escape at line 1 column 9").await;
    check("[".repeat(200_000).as_bytes(), "EOF while parsing").await;
}

#[tokio::test]
async fn every_wrong_field_is_named_with_its_pointer() {
    let embedded = Embedded::start().await;
    let wrong = json!({
        "topic": "", "url": "gopher://x", "body": "", "body_base64": "",
        "headers": {"a/b": "1"}, "delay": "-1s", "deliver_at": "now",
        "ladder": {"intervals": ["1"]}, "ack": {"status": 200}, "x~y": 1,
    });
    let reply = embedded.server.register(&wrong).await;
    reply.is_problem(422, "fields");
    let errors = reply.body["errors"].as_array().expect("a list").clone();
    let mut pointers: Vec<&str> = errors
        .iter()
        .filter_map(|error| error["pointer"].as_str())
        .collect();
    pointers.sort_unstable();
    assert_eq!(
        pointers,
        [
            "/ack",
            "/body_base64",
            "/delay",
            "/deliver_at",
            "/deliver_at",
            "/headers/a~1b",
            "/ladder",
            "/topic",
            "/url",
            "/x~0y"
        ]
    );
    let key = Key::new("t", "1").expect("a key");
    assert!(embedded.schedule.find(&key).await.expect("works").is_none());
}

#[tokio::test]
async fn only_what_is_declared_as_json_is_read() {
    async fn check(content_type: Option<&str>, status: u16) {
        let embedded = Embedded::start().await;
        let request = embedded.server.request(Method::POST, NOTIFICATIONS);
        let request = match content_type {
            Some(content_type) => request.header("content-type", content_type),
            None => request,
        };
        let reply = Reply::of(request.body(order("1").to_string())).await;
        assert_eq!(reply.status, status, "{content_type:?}");
        if status == 415 {
            reply.is_problem(415, "media-type");
        }
    }
    check(Some("application/json"), 201).await;
    check(Some("application/json; charset=utf-8"), 201).await;
    check(Some("text/plain"), 415).await;
    check(Some("application/x-www-form-urlencoded"), 415).await;
    check(None, 415).await;
}

#[tokio::test]
async fn a_packed_body_is_refused_as_such() {
    let embedded = Embedded::start().await;
    let request = embedded
        .server
        .request(Method::POST, NOTIFICATIONS)
        .header("content-type", "application/json")
        .header("content-encoding", "gzip")
        .body(vec![0x1f, 0x8b, 8]);
    Reply::of(request).await.is_problem(415, "media-type");
}

#[tokio::test]
async fn a_body_over_the_bound_names_itself_and_a_request_over_its_own_is_cut_off() {
    let embedded = Embedded::with(ApiSettings {
        largest_body_bytes: 100,
        ..ApiSettings::default()
    })
    .await;
    let of_length = |length: usize| {
        let mut order = order("1");
        order["body"] = Value::String("é".repeat(length / 2));
        order
    };
    embedded.server.register(&of_length(100)).await.is(201);
    let reply = embedded.server.register(&of_length(102)).await;
    reply.is_problem(413, "too-large");
    assert_eq!(reply.body["errors"][0]["pointer"], "/body");
    // Six characters a byte at most, and 64 KiB for all the rest.
    let most = 6 * 100 + 64 * 1024;
    let mut padded = of_length(100).to_string();
    padded.push_str(&" ".repeat(most - padded.len()));
    embedded
        .server
        .post_text(NOTIFICATIONS, padded.clone())
        .await
        .is(200);
    for more in [1, 3_000_000] {
        let longer = padded.clone() + &" ".repeat(more);
        let reply = embedded.server.post_text(NOTIFICATIONS, longer).await;
        reply.is_problem(413, "too-large");
        assert!(reply.body.get("errors").is_none());
    }
}
