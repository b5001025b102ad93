//! Cancel, retry, reschedule, replay, resend, discard.

use super::{Embedded, NOW_MS, Reply, order};
use reqwest::Method;
use ringback::domain::progress::Progress;
use ringback::domain::state::{Cause, State};
use ringback::schedule::{ClaimQuota, ScheduleLeases as _, Settled, Settlement};
use serde_json::{Value, json};

const ONE: &str = "/v1/notifications/payment.succeeded/1";
const DEAD_ONE: &str = "/v1/dead-letters/payment.succeeded/1";

fn delayed() -> Value {
    let mut order = order("1");
    order["delay"] = json!("30m");
    order
}

#[tokio::test]
async fn a_cancelled_notification_is_not_attempted_and_can_be_cancelled_again() {
    let embedded = Embedded::start().await;
    embedded.server.register(&delayed()).await.is(201);
    for _ in 0..2 {
        let view = embedded.server.delete(ONE).await.is(200);
        assert_eq!(view["state"], "cancelled");
        assert_eq!(view["next_attempt_at"], Value::Null);
        assert_eq!(view["ended_at"], "2026-11-20T08:30:00.000Z");
        assert_eq!(view["attempts_left"], 0);
    }
    let reply = embedded.server.post(&format!("{ONE}/retry")).await;
    reply.is_problem(409, "state");
    assert_eq!(reply.body["state"], "cancelled");
    assert_eq!(reply.header("retry-after"), None);
    let missing = embedded.server.delete("/v1/notifications/t/none").await;
    missing.is_problem(404, "missing");
}

#[tokio::test]
async fn what_is_in_flight_cannot_be_cancelled_yet() {
    let embedded = Embedded::start().await;
    embedded.server.register(&order("1")).await.is(201);
    embedded.claim().await;
    let reply = embedded.server.delete(ONE).await;
    reply.is_problem(409, "state");
    assert_eq!(reply.body["state"], "in_flight");
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_retry_is_due_at_once_and_takes_no_arguments() {
    let embedded = Embedded::start().await;
    embedded.server.register(&delayed()).await.is(201);
    let path = format!("{ONE}/retry");
    let view = embedded.server.post(&path).await.is(200);
    assert_eq!(view["next_attempt_at"], "2026-11-20T08:30:00.000Z");
    assert_eq!(view.get("waiting_for"), Some(&Value::Null), "{view}");
    assert_eq!(view.get("waiting_because"), Some(&Value::Null), "{view}");
    embedded.server.post_text(&path, "{}").await.is(200);
    let reply = embedded.server.post_text(&path, r#"{"delay":"1s"}"#).await;
    reply.is_problem(422, "fields");
    assert_eq!(reply.body["errors"][0]["pointer"], "/delay");
    let reply = embedded.server.post("/v1/notifications/t/none/retry").await;
    reply.is_problem(404, "missing");
}

#[tokio::test]
async fn a_retry_says_what_it_waits_for() {
    let embedded = Embedded::start().await;
    embedded.server.register(&delayed()).await.is(201);
    // As many as the lane may have in flight before a call was answered.
    for id in 2..10 {
        let order = order(&id.to_string());
        embedded.server.register(&order).await.is(201);
    }
    let claimed = embedded.schedule.claim(ClaimQuota::of(10)).await;
    let mut leases = claimed.expect("claims").leases;
    assert_eq!(leases.len(), 8);
    let path = format!("{ONE}/retry");
    let view = embedded.server.post(&path).await.is(200);
    assert_eq!(view["waiting_for"], "concurrency", "{view}");
    let because = "its lane has 8 of 8 calls in flight, and 1 notifications are due in it";
    assert_eq!(view["waiting_because"], because);
    // The attempt in flight is the one that is asked for.
    let other = "/v1/notifications/payment.succeeded/2/retry";
    let view = embedded.server.post(other).await.is(200);
    assert_eq!(view["state"], "in_flight");
    assert_eq!(view["waiting_for"], Value::Null, "{view}");
    let lease = leases.remove(0);
    let settled = embedded.schedule.settle(lease, Settlement::Release).await;
    assert_eq!(settled.expect("settles"), Settled::Done);
    let view = embedded.server.post(&path).await.is(200);
    assert_eq!(view["waiting_for"], Value::Null, "{view}");
}

#[tokio::test]
async fn a_dead_letter_is_listed_and_replayed() {
    let embedded = Embedded::start().await;
    embedded.server.register(&order("1")).await.is(201);
    let replay = format!("{DEAD_ONE}/replay");
    let reply = embedded.server.post(&replay).await;
    reply.is_problem(409, "state");
    assert_eq!(reply.body["state"], "scheduled");
    embedded.park(Cause::LadderExhausted).await;
    let page = embedded.server.get("/v1/dead-letters").await.is(200);
    assert_eq!(page["next_cursor"], Value::Null);
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(page["items"][0]["cause"], "ladder_exhausted");
    assert_eq!(page["items"][0]["last_attempt"], Value::Null);
    assert_eq!(page["total"], 1);
    let other = embedded
        .server
        .get("/v1/dead-letters?cause=blocked")
        .await
        .is(200);
    assert_eq!(other, json!({"items": [], "next_cursor": null}));
    let path = "/v1/dead-letters?lane=https://Shop.example/notify";
    let of_lane = embedded.server.get(path).await.is(200);
    assert_eq!(of_lane["items"], page["items"]);
    assert_eq!(of_lane.get("total"), None);
    for bad in [r#"{"reason":5}"#, r#"{"why":"x"}"#, "[]"] {
        let reply = embedded.server.post_text(&replay, bad).await;
        reply.is_problem(422, "fields");
    }
    embedded.clock.advance(1_000);
    let view = embedded
        .server
        .post_json(&replay, &json!({"reason": "the merchant is back"}))
        .await
        .is(200);
    assert_eq!(view["state"], "scheduled");
    assert_eq!(view["series"], 2);
    assert_eq!(view["next_attempt_at"], "2026-11-20T08:30:01.000Z");
}

#[tokio::test]
async fn a_reason_must_be_declared_as_json_like_any_body() {
    let embedded = Embedded::start().await;
    let request = embedded
        .server
        .request(Method::POST, &format!("{DEAD_ONE}/replay"))
        .header("content-type", "text/plain")
        .body("{}");
    Reply::of(request).await.is_problem(415, "media-type");
    let reply = embedded
        .server
        .post_text(&format!("{DEAD_ONE}/replay"), " ".repeat(64 * 1024 + 1))
        .await;
    reply.is_problem(413, "too-large");
}

#[tokio::test]
async fn a_discarded_dead_letter_counts_as_cancelled() {
    let embedded = Embedded::start().await;
    embedded.server.register(&order("1")).await.is(201);
    embedded
        .server
        .delete(DEAD_ONE)
        .await
        .is_problem(409, "state");
    embedded.park(Cause::WindowClosed).await;
    let view = embedded.server.delete(DEAD_ONE).await.is(200);
    assert_eq!(view["state"], "cancelled");
    let page = embedded.server.get("/v1/dead-letters").await.is(200);
    assert_eq!(page["items"], json!([]));
}

#[tokio::test]
async fn an_actor_that_is_no_short_name_is_refused() {
    let embedded = Embedded::start().await;
    embedded.server.register(&order("1")).await.is(201);
    let check = async |actor: &str, status: u16| {
        let request = embedded
            .server
            .request(Method::POST, &format!("{ONE}/retry"));
        let reply = Reply::of(request.header("ringback-actor", actor)).await;
        assert_eq!(reply.status, status, "{actor}");
        if status == 422 {
            assert_eq!(reply.body["errors"][0]["header"], "Ringback-Actor");
        }
    };
    check("li.lei", 200).await;
    check(&"x".repeat(64), 200).await;
    check(&"x".repeat(65), 422).await;
    check("dispatcher", 422).await;
    check("李", 422).await;
}

#[tokio::test]
async fn a_page_of_another_site_cannot_change_anything() {
    let embedded = Embedded::start().await;
    embedded.server.register(&order("1")).await.is(201);
    let asked = |method: Method, path: String, site: &'static str| {
        let request = embedded.server.request(method, &path);
        Reply::of(request.header("sec-fetch-site", site))
    };
    let retry = || format!("{ONE}/retry");
    let refused = asked(Method::POST, retry(), "cross-site").await;
    refused.is_problem(403, "cross-site");
    let refused = asked(Method::DELETE, ONE.to_string(), "same-site").await;
    refused.is_problem(403, "cross-site");
    // Browsers do not send that header to every address, but an `Origin`.
    let of_origin = |origin: &str| {
        let request = embedded.server.request(Method::POST, &retry());
        Reply::of(request.header("origin", origin))
    };
    for origin in ["http://other.example", "null"] {
        of_origin(origin).await.is_problem(403, "cross-site");
    }
    let request = embedded.server.request(Method::POST, &retry());
    let reply = Reply::of(request.header("host", "0.0.0.0:8400")).await;
    reply.is_problem(403, "cross-site");
    asked(Method::POST, retry(), "same-origin").await.is(200);
    asked(Method::GET, ONE.to_string(), "cross-site")
        .await
        .is(200);
}

#[tokio::test]
async fn a_pending_notification_is_moved_with_its_deadline() {
    let embedded = Embedded::start().await;
    embedded.server.register(&delayed()).await.is(201);
    let ask = async |body: &str| embedded.server.patch(ONE, body).await;
    let view = ask(r#"{"delay":"45m"}"#).await.is(200);
    assert_eq!(view["next_attempt_at"], "2026-11-20T09:15:00.000Z");
    assert_eq!(view["deadline_at"], "2026-11-21T09:37:00.000Z");
    let view = ask(r#"{"deliver_at":"2026-11-20T16:40:00+08:00"}"#)
        .await
        .is(200);
    assert_eq!(view["next_attempt_at"], "2026-11-20T08:40:00.000Z");
    // The registration that made it is still the same one.
    let again = embedded.server.register(&delayed()).await.is(200);
    assert_eq!(again["next_attempt_at"], "2026-11-20T08:40:00.000Z");
    let view = ask(r#"{"deliver_at":"2000-01-01T00:00:00Z"}"#)
        .await
        .is(200);
    assert_eq!(view["next_attempt_at"], "2026-11-20T08:30:00.000Z");
    let missing = embedded
        .server
        .patch("/v1/notifications/t/none", r#"{"delay":"1s"}"#)
        .await;
    missing.is_problem(404, "missing");
}

#[tokio::test]
async fn a_move_that_says_anything_else_is_refused() {
    let embedded = Embedded::start().await;
    embedded.server.register(&delayed()).await.is(201);
    let check = async |body: &str, pointer: &str| {
        let reply = embedded.server.patch(ONE, body).await;
        reply.is_problem(422, "fields");
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{body}");
    };
    check("{}", "").await;
    check(r#"{"delay":null}"#, "").await;
    check(
        r#"{"delay":"1s","deliver_at":"2026-11-20T08:40:00Z"}"#,
        "/deliver_at",
    )
    .await;
    check(r#"{"delay":"721h"}"#, "/delay").await;
    check(
        r#"{"deliver_at":"2026-12-20T08:30:00.001Z"}"#,
        "/deliver_at",
    )
    .await;
    check(r#"{"delay":"1s","body":"x"}"#, "/body").await;
    let nothing = embedded.server.patch(ONE, "").await;
    nothing.is_problem(400, "malformed");
    let view = embedded.server.get(ONE).await.is(200);
    assert_eq!(view["next_attempt_at"], "2026-11-20T09:00:00.000Z");
}

#[tokio::test]
async fn what_is_in_flight_or_was_attempted_cannot_be_moved() {
    let embedded = Embedded::start().await;
    embedded.server.register(&order("1")).await.is(201);
    let lease = embedded.claim().await;
    let ask = async || embedded.server.patch(ONE, r#"{"delay":"1h"}"#).await;
    let reply = ask().await;
    reply.is_problem(409, "state");
    assert_eq!(reply.body["state"], "in_flight");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let failed = Progress {
        step: 1,
        attempts: 1,
        due_ms: NOW_MS,
        ..lease.entry.progress
    };
    let settlement = Settlement::Again(failed);
    let settled = embedded.schedule.settle(lease, settlement).await;
    assert_eq!(settled.expect("settles"), Settled::Done);
    let check = |reply: &Reply, state: &str| {
        reply.is_problem(409, "state");
        assert_eq!(reply.body["state"], state);
        assert_eq!(reply.header("retry-after"), None, "it stays so");
        let detail = reply.body["detail"].as_str().expect("a text");
        assert!(detail.contains("after the first attempt"), "{detail}");
    };
    check(&ask().await, "scheduled");
    embedded.claim().await;
    check(&ask().await, "in_flight");
}

#[tokio::test]
async fn without_a_journal_nothing_delivered_is_sent_again() {
    let embedded = Embedded::start().await;
    let resend = format!("{ONE}/resend");
    let ask = async || {
        let body = json!({"reason": "the shop lost it"});
        embedded.server.post_json(&resend, &body).await
    };
    ask().await.is_problem(404, "missing");
    embedded.server.register(&order("1")).await.is(201);
    let reply = ask().await;
    reply.is_problem(409, "state");
    assert_eq!(reply.body["state"], "scheduled");
    let lease = embedded.claim().await;
    let progress = lease.entry.progress;
    let delivered = Settlement::to(State::Delivered, None, progress, NOW_MS);
    let settled = embedded.schedule.settle(lease, delivered).await;
    assert_eq!(settled.expect("settles"), Settled::Done);
    let reply = ask().await;
    reply.is_problem(501, "no-journal");
    let detail = reply.body["detail"].as_str().expect("a text");
    assert!(detail.contains("its body is not kept"), "{detail}");
    for bad in [r#"{"reason":5}"#, r#"{"why":"x"}"#, "[]"] {
        let reply = embedded.server.post_text(&resend, bad).await;
        reply.is_problem(422, "fields");
    }
}

#[tokio::test]
async fn what_was_cancelled_is_not_taken_for_a_schedule() {
    let embedded = Embedded::start().await;
    embedded.server.register(&delayed()).await.is(201);
    embedded.server.delete(ONE).await.is(200);
    // As after a lost reply: whoever registers learns that nothing is sent.
    let reply = embedded.server.register(&delayed()).await;
    reply.is_problem(409, "cancelled");
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(reply.body["state"], "cancelled");
    assert_eq!(reply.body["id"], "1");
    let view = &reply.body["notification"];
    assert_eq!(view["state"], "cancelled");
    assert_eq!(view["ended_at"], "2026-11-20T08:30:00.000Z");
    assert_eq!(view["next_attempt_at"], Value::Null);
    let mut other = delayed();
    other["body"] = json!("different");
    embedded
        .server
        .register(&other)
        .await
        .is_problem(409, "mismatch");
    let batch = json!({"notifications": [delayed(), order("2")]});
    let path = "/v1/notifications/batch";
    let reply = embedded.server.post_json(path, &batch).await.is(200);
    assert_eq!(reply["results"][0]["status"], 409);
    let problem = &reply["results"][0]["problem"];
    assert_eq!(problem["type"], "urn:ringback:problem:cancelled");
    assert_eq!(problem["notification"]["state"], "cancelled");
    assert_eq!(reply["results"][1]["status"], 201);
    // A dead letter that was discarded counts as cancelled.
    embedded.park(Cause::Refused).await;
    let dead = "/v1/dead-letters/payment.succeeded/2";
    embedded.server.delete(dead).await.is(200);
    let reply = embedded.server.register(&order("2")).await;
    reply.is_problem(409, "cancelled");
}
