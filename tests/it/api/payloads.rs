//! Reading what a notification sends.

use super::journaled::Journaled;
use super::{Embedded, NOW_MS, Server, order};
use ringback::domain::state::{Cause, State};
use ringback::journal::Prune;
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::Settlement;
use serde_json::{Value, json};

const PATH: &str = "/v1/notifications/payment.succeeded/1";

/// The payload of the notification.
async fn payload(server: &Server) -> Value {
    let reply = server.get(&format!("{PATH}/payload")).await;
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    reply.is(200)
}

fn detailed() -> Value {
    let mut registration = order("1");
    registration["headers"] =
        json!({ "X-Request-Id": "42\\\"", "authorization": "Bearer hunter2" });
    registration["body"] = json!("a=\u{1b}[2J\r\nä");
    registration
}

#[tokio::test]
async fn what_is_sent_is_shown_and_its_outline_beside_the_notification() {
    let journaled = Journaled::start().await;
    let embedded = Embedded::start().await;
    for server in [&journaled.server, &embedded.server] {
        server.register(&detailed()).await.is(201);
        let shown = payload(server).await;
        let expected = json!({
            "topic": "payment.succeeded", "id": "1",
            "content_type": "text/plain; charset=utf-8",
            "headers": { "authorization": "Bearer hunter2", "x-request-id": "42\\\"" },
            "body": "a=\u{1b}[2J\r\nä", "body_bytes": 10,
            "sha256": shown["sha256"],
        });
        assert_eq!(shown, expected);
        assert_eq!(shown["sha256"].as_str().map(str::len), Some(64));
        let one = server.get(PATH).await.is(200);
        assert_eq!(one["content_type"], "text/plain; charset=utf-8");
        assert_eq!(one["ack"], "success");
        assert_eq!(one["ladder"], "alipay");
        assert_eq!(
            one["header_names"],
            json!(["authorization", "x-request-id"])
        );
        assert_eq!(one["body_bytes"], 10);
        assert!(!one.to_string().contains("hunter2"), "{one}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_text_is_shown_in_base64() {
    let journaled = Journaled::start().await;
    let mut registration = order("1");
    registration
        .as_object_mut()
        .expect("an object")
        .remove("body");
    registration["body_base64"] = json!("/wA=");
    registration["ack"] = json!({ "status": [200, 204] });
    journaled.server.register(&registration).await.is(201);
    let shown = payload(&journaled.server).await;
    assert_eq!(shown["body_base64"], "/wA=");
    assert_eq!((shown.get("body"), &shown["body_bytes"]), (None, &json!(2)));
    assert_eq!(shown["headers"], json!({}));
    let one = journaled.server.get(PATH).await.is(200);
    assert_eq!(one["ack"], json!({ "status": [200, 204] }));
    assert_eq!(
        (&one["header_names"], &one["body_bytes"]),
        (&json!([]), &json!(2))
    );
}

#[tokio::test]
async fn what_is_not_there_or_not_kept_any_more_is_a_problem() {
    let journaled = Journaled::start().await;
    let path = format!("{PATH}/payload");
    journaled.server.get(&path).await.is_problem(404, "missing");
    let wrong = journaled.server.get(&format!("{path}?body=1")).await;
    wrong.is_problem(400, "parameters");
    journaled.server.register(&detailed()).await.is(201);
    journaled.server.delete(PATH).await.is(200);
    payload(&journaled.server).await;
    let prune = Prune {
        payloads_before_ms: NOW_MS + 1_000,
        records_before_ms: 0,
        dead_before_ms: None,
    };
    let journal = journaled.recorder.journal();
    assert_eq!(journal.prune(&prune, 10).await.expect("pruned").payloads, 1);
    let gone = journaled.server.get(&path).await;
    gone.is_problem(410, "payload-gone");
    assert_eq!(gone.header("retry-after"), None);
    let one = journaled.server.get(PATH).await.is(200);
    assert_eq!(one["content_type"], "text/plain; charset=utf-8");
    assert_eq!(
        (&one["header_names"], &one["body_bytes"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn without_a_journal_what_is_pending_or_dead_is_shown() {
    let embedded = Embedded::start().await;
    embedded.server.register(&detailed()).await.is(201);
    payload(&embedded.server).await;
    embedded.park(Cause::Refused).await;
    assert_eq!(payload(&embedded.server).await["body_bytes"], 10);

    let delivered = Embedded::start().await;
    delivered.server.register(&detailed()).await.is(201);
    let lease = delivered.claim().await;
    let settlement = Settlement::to(State::Delivered, None, lease.entry.progress, NOW_MS);
    delivered
        .schedule
        .settle(lease, settlement)
        .await
        .expect("settled");
    let gone = delivered.server.get(&format!("{PATH}/payload")).await;
    gone.is_problem(410, "payload-gone");
    let one = delivered.server.get(PATH).await.is(200);
    assert_eq!(
        (&one["state"], &one["body_bytes"]),
        (&json!("delivered"), &Value::Null)
    );
}
