//! The trace context of a registration, handed on to the receiver, by servers that export no traces.

use super::on_stores;
use crate::page::Browser;
use crate::support::merchant::{Call, Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{Api, Server, Stores, registration, with_ladder};
use crate::support::within;
use reqwest::Method;
use serde_json::{Value, json};

on_stores!(
    a_trace_goes_on_after_a_restart_and_a_loss_of_data,
    the_same_registration_may_come_with_another_trace,
);
on_stores!(@ journaled Embedded a_replay_belongs_to_the_trace_of_the_registration);

/// That of a caller that records.
pub const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-af7651916cd43dd8448eb211c80319c7-b7ad6b7169203331-01";
const STATE: &str = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";

/// Names and values.
type RequestHeaders<'test> = &'test [(&'test str, &'test str)];

/// One POST of JSON with these headers.
pub async fn post(api: &Api, path: &str, body: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().build();
    let url = format!("{}{path}", api.url());
    let mut request = client.expect("a client").post(url).json(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = within("the API", request.send()).await.expect("an answer");
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("JSON"))
}

/// Registers one with these headers; the answer must be 201.
pub async fn register(api: &Api, body: &Value, headers: &[(&str, &str)]) {
    let (status, view) = post(api, "/v1/notifications", body, headers).await;
    assert_eq!(status, 201, "{view}");
}

/// The value of a header that a call may have.
pub fn header<'call>(call: &'call Call, name: &str) -> Option<&'call str> {
    let mut found = (call.headers.iter()).filter(|(known, _)| known.eq_ignore_ascii_case(name));
    let value = found.next().map(|(_, value)| value.as_str());
    assert!(found.next().is_none(), "{name} is sent once: {call:?}");
    value
}

/// Empties the server's Redis behind its back.
pub async fn flush(server: &Server) {
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let flush = ::redis::cmd("FLUSHDB").exec_async(&mut redis).await;
    flush.expect("flushed");
}

fn check(call: &Call, parent: Option<&str>, state: Option<&str>) {
    let found = (header(call, "traceparent"), header(call, "tracestate"));
    assert_eq!(found, (parent, state));
}

async fn a_trace_goes_on_after_a_restart_and_a_loss_of_data(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    let headers = [("traceparent", PARENT), ("tracestate", STATE)];
    register(&server, &with_ladder("a", &merchant, &["6h"]), &headers).await;
    check(&merchant.call().await, Some(PARENT), Some(STATE));
    server.until_attempts("a", 1).await;
    if matches!(stores, Stores::Redis | Stores::Postgres) {
        flush(&server).await;
    }
    let server = server.restart().await;
    server.until("a", |view| view["state"] == "scheduled").await;
    server.clock().advance(6 * 3_600_000);
    check(&merchant.call().await, Some(PARENT), Some(STATE));
    server.until_state("a", "delivered").await;
    server.stop().await;
}

async fn the_same_registration_may_come_with_another_trace(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut asked = registration("a", &merchant);
    asked["delay"] = "1h".into();
    register(&server, &asked, &[("traceparent", PARENT)]).await;
    for headers in [&[("traceparent", OTHER)][..], &[]] {
        let (status, view) = post(&server, "/v1/notifications", &asked, headers).await;
        assert_eq!(status, 200, "{view}");
    }
    assert_eq!(server.get("a").await["trace_id"], PARENT[3..35]);
    let shown = Browser::of(&server).get("/ui/notifications/t/a").await;
    let to_copy = format!("data-copy=\"{}\"", &PARENT[3..35]);
    assert!(shown.text.contains(&to_copy), "{}", shown.text);
    server.clock().advance(3_600_000);
    check(&merchant.call().await, Some(PARENT), None);
    // With other content it is another one, and the trace is no field that differs.
    asked["body"] = "other".into();
    let (status, problem) = post(&server, "/v1/notifications", &asked, &[]).await;
    assert_eq!(status, 409, "{problem}");
    assert!(!problem.to_string().contains("headers"), "{problem}");
    server.stop().await;
}

async fn a_replay_belongs_to_the_trace_of_the_registration(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    let asked = with_ladder("a", &merchant, &[]);
    register(&server, &asked, &[("traceparent", PARENT)]).await;
    check(&merchant.call().await, Some(PARENT), None);
    server.until_state("a", "dead").await;
    let replay = "/v1/dead-letters/t/a/replay";
    let reason = json!({ "reason": "mended" });
    let (status, view) = server.call(Method::POST, replay, Some(reason)).await;
    assert_eq!(status, 200, "{view}");
    check(&merchant.call().await, Some(PARENT), None);
    server.until_state("a", "delivered").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_standard_does_not_allow_is_ignored() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
    let upper = PARENT.to_uppercase();
    let longer = format!("{PARENT}-00");
    let cases: [(RequestHeaders<'_>, Option<&str>, Option<&str>); 8] = [
        (&[], None, None),
        (
            &[("traceparent", &zeros), ("tracestate", STATE)],
            None,
            None,
        ),
        (&[("traceparent", &upper)], None, None),
        (&[("traceparent", &longer)], None, None),
        (
            &[("traceparent", PARENT), ("traceparent", OTHER)],
            None,
            None,
        ),
        (&[("tracestate", STATE)], None, None),
        (
            &[("traceparent", PARENT), ("tracestate", "a=1,a=2")],
            Some(PARENT),
            None,
        ),
        (
            &[
                ("traceparent", PARENT),
                ("tracestate", "a=1"),
                ("tracestate", "b=2"),
            ],
            Some(PARENT),
            Some("a=1,b=2"),
        ),
    ];
    for (number, (headers, parent, state)) in cases.into_iter().enumerate() {
        register(
            &server,
            &registration(&number.to_string(), &merchant),
            headers,
        )
        .await;
        check(&merchant.call().await, parent, state);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_of_the_registration_goes_over_that_of_its_request() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let sent = [("traceparent", PARENT), ("tracestate", STATE)];
    let mut asked = registration("a", &merchant);
    asked["headers"] = json!({ "Traceparent": "my own" });
    register(&server, &asked, &sent).await;
    check(&merchant.call().await, Some("my own"), None);
    let mut asked = registration("b", &merchant);
    asked["headers"] = json!({ "tracestate": "my own" });
    register(&server, &asked, &sent).await;
    check(&merchant.call().await, Some(PARENT), Some("my own"));
    let payload = server
        .call(Method::GET, "/v1/notifications/t/b/payload", None)
        .await
        .1;
    assert_eq!(
        payload["headers"],
        json!({ "tracestate": "my own" }),
        "{payload}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_a_batch_belong_to_the_trace_of_its_request() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    let both = ["a", "b"].map(|id| registration(id, &merchant));
    let batch = json!({ "notifications": both });
    let headers = [("traceparent", PARENT)];
    let (status, view) = post(&server, "/v1/notifications/batch", &batch, &headers).await;
    assert_eq!(status, 200, "{view}");
    for _ in both {
        check(&merchant.call().await, Some(PARENT), None);
    }
    server.stop().await;
}
