//! Calls over HTTP/2: what receivers get, connections that calls share, and receivers that choose HTTP/1.1.
//! `http2_failures` has receivers that fail or break the rules.

use super::on_stores;
use crate::support::forward_proxy::{ForwardProxy, Speaks};
use crate::support::http2::{Http2Call, Http2Receiver, connections};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Api, Server, Stores};
use crate::support::tls::Authority;
use h2::Reason;
use reqwest::Method;
use ringback::domain::master_key::MasterKey;
use ringback::domain::proxy_url::ProxyUrl;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;
use zeroize::Zeroizing;

on_stores!(a_notification_is_delivered_over_http2);

const HERE: &[&str] = &["127.0.0.1"];
const H2: &[&str] = &["h2"];
const BOTH: &[&str] = &["h2", "http/1.1"];
/// No call runs into this limit.
const LONG: Duration = Duration::from_secs(60);

pub(super) async fn start() -> Server {
    start_on(Stores::Embedded, None).await
}

pub(super) async fn start_on(stores: Stores, proxy: Option<&ForwardProxy>) -> Server {
    let proxy = proxy.map(|proxy| ProxyUrl::parse(&proxy.url(None)).expect("a proxy"));
    Server::start_as(stores, |config| {
        config.delivery.proxy = proxy;
        config.delivery.timeout = LONG;
        config.master_key = Some(MasterKey::from_random(Zeroizing::new([7; 32])));
    })
    .await
}

pub(super) async fn set(server: &Server, name: &str, endpoint: Value) {
    let path = format!("/v1/endpoints/{name}");
    let (status, shown) = server.call(Method::PUT, &path, Some(endpoint)).await;
    assert!(matches!(status, 200 | 201), "{shown}");
}

pub(super) async fn tested(server: &Api, name: &str) -> Value {
    let path = format!("/v1/endpoints/{name}/test");
    server.call(Method::POST, &path, None).await.1
}

/// So many test calls at the same time.
pub(super) async fn tested_often(server: &Server, name: &'static str, count: usize) -> Vec<Value> {
    let api: &Api = server;
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let api = api.clone();
        calls.spawn(async move { tested(&api, name).await });
    }
    calls.join_all().await
}

pub(super) fn over_http2(url: &str) -> Value {
    json!({ "url": url, "http": "2" })
}

pub(super) fn check(attempt: &Value, outcome: &str, http: &str) {
    assert_eq!(attempt["outcome"], outcome, "{attempt}");
    assert_eq!(attempt["http"], http, "{attempt}");
}

async fn a_notification_is_delivered_over_http2(stores: Stores) {
    let private = Authority::new("Private");
    let tls = private.issue(HERE).server_config(BOTH, None);
    let mut receiver = Http2Receiver::start(Some(tls)).await;
    let server = start_on(stores, None).await;
    let endpoint = json!({
        "url": receiver.url(), "http": "2", "ca": private.pem(), "headers": {"X-Shop": "1", "X-Both": "shop"},
        "user_agent": "Pay/1", "signature_headers": {"id": "X-Id"},
    });
    set(&server, "shop", endpoint).await;
    let body = "x".repeat(200_000);
    let registration = json!({
        "topic": "t", "id": "a", "endpoint": "shop", "body": body, "content_type": "text/plain",
        "headers": {"X-Both": "own"},
    });
    server.register(registration).await;
    let mut call = receiver.call().await;
    let head = &call.head;
    assert_eq!(head.method, "POST");
    let port = receiver.port();
    let url = format!("https://127.0.0.1:{port}/notify?a=1");
    assert_eq!(head.uri.to_string(), url, "scheme, authority and path");
    assert_eq!(call.body, body.as_bytes());
    let headers: BTreeMap<&str, &str> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().expect("a text")))
        .collect();
    let names: Vec<&str> = headers.keys().copied().collect();
    let expected = [
        "accept",
        "content-length",
        "content-type",
        "ringback-attempt",
        "ringback-topic",
        "user-agent",
        "webhook-signature",
        "webhook-timestamp",
        "x-both",
        "x-id",
        "x-shop",
    ];
    assert_eq!(names, expected);
    for (name, value) in [
        ("content-length", "200000"),
        ("content-type", "text/plain"),
        ("ringback-attempt", "1"),
        ("ringback-topic", "t"),
        ("user-agent", "Pay/1"),
        ("x-both", "own"),
        ("x-shop", "1"),
    ] {
        assert_eq!(headers[name], value);
    }
    assert!(headers["webhook-signature"].starts_with("v1,"));
    call.answer(200, "success");
    let view = server.until_state("a", "delivered").await;
    if stores != Stores::RedisOnly {
        let attempt = &view["attempts"][0];
        check(attempt, "acknowledged", "2");
        assert_eq!(attempt["tls"], "1.3", "{attempt}");
        assert_eq!(attempt["connection"], "new", "{attempt}");
        assert_eq!(attempt["address"], format!("127.0.0.1:{port}"), "{attempt}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_the_same_time_share_one_connection() {
    let private = Authority::new("Private");
    let tls = private.issue(HERE).server_config(H2, None);
    let mut receiver = Http2Receiver::start(Some(tls)).await;
    let server = start().await;
    let endpoint = json!({ "url": receiver.url(), "http": "2", "ca": private.pem() });
    set(&server, "shop", endpoint).await;
    let answering = async {
        // All are in flight before the first is answered, and the last that came is answered first.
        let mut calls = receiver.calls(10).await;
        assert_eq!(connections(&calls).len(), 1);
        while let Some(call) = calls.pop() {
            call.acknowledge();
        }
    };
    let (attempts, ()) = tokio::join!(tested_often(&server, "shop", 10), answering);
    for attempt in &attempts {
        check(attempt, "acknowledged", "2");
    }
    let is_new = |attempt: &&Value| attempt["connection"] == "new";
    assert_eq!(attempts.iter().filter(is_new).count(), 1);
    let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
        receiver.call().await.acknowledge();
    });
    assert_eq!(attempt["connection"], "kept", "{attempt}");
    assert_eq!(receiver.opened(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_gets_no_more_calls_on_a_connection_than_it_allows() {
    let mut receiver = Http2Receiver::start_as(None, |builder| {
        builder.max_concurrent_streams(2);
    })
    .await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let answering = async {
        let calls = receiver.calls(5).await;
        let mut by_connection = BTreeMap::new();
        for call in &calls {
            *by_connection.entry(call.connection).or_insert(0) += 1;
        }
        let counts: Vec<i32> = by_connection.into_values().collect();
        assert_eq!(counts, [2, 2, 1]);
        calls.into_iter().for_each(Http2Call::acknowledge);
    };
    let (attempts, ()) = tokio::join!(tested_often(&server, "shop", 5), answering);
    for attempt in &attempts {
        check(attempt, "acknowledged", "2");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_its_place_within_its_time() {
    let mut receiver = Http2Receiver::start_as(None, |builder| {
        builder.max_concurrent_streams(1);
    })
    .await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let mut hasty = over_http2(&receiver.url());
    hasty["timeout"] = json!("300ms");
    // Eight connections are the most that the calls of one endpoint get.
    let (attempts, attempt) = tokio::join!(tested_often(&server, "shop", 8), async {
        let mut calls = receiver.calls(8).await;
        assert_eq!(connections(&calls).len(), 8);
        set(&server, "shop", hasty).await;
        let attempt = tested(&server, "shop").await;
        assert!(receiver.arrived().is_none());
        set(&server, "shop", over_http2(&receiver.url())).await;
        let (last, ()) = tokio::join!(tested(&server, "shop"), async {
            calls.pop().expect("eight").acknowledge();
            receiver.call().await.acknowledge();
        });
        check(&last, "acknowledged", "2");
        assert_eq!(receiver.opened(), 8);
        calls.into_iter().for_each(Http2Call::acknowledge);
        attempt
    });
    for attempt in &attempts {
        check(attempt, "acknowledged", "2");
    }
    assert_eq!(attempt["outcome"], "timeout", "{attempt}");
    let reason = "no complete answer within 300ms; the time ran out while a free place on a connection was awaited: \
        the receiver allows 1 calls at a time on each";
    assert_eq!(attempt["reason"], reason);
    assert_eq!(attempt["http"], Value::Null, "nothing was sent");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_may_choose_http1() {
    for alpn in [&["http/1.1"][..], &[]] {
        let private = Authority::new("Private");
        let tls = private.issue(HERE).server_config(alpn, None);
        let receiver = Http2Receiver::start(Some(tls)).await;
        let server = start().await;
        let endpoint = json!({ "url": receiver.url(), "http": "2", "ca": private.pem() });
        set(&server, "shop", endpoint).await;
        for attempt in tested_often(&server, "shop", 5).await {
            check(&attempt, "acknowledged", "1.1");
        }
        check(&tested(&server, "shop").await, "acknowledged", "1.1");
        assert_eq!(receiver.http1_calls(), 6);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_version_holds_for_the_next_attempt() {
    let private = Authority::new("Private");
    let tls = private.issue(HERE).server_config(BOTH, None);
    let mut receiver = Http2Receiver::start(Some(tls)).await;
    let server = start().await;
    for (http, expected) in [
        (Value::Null, "1.1"),
        (json!("2"), "2"),
        (json!("1.1"), "1.1"),
    ] {
        let endpoint = json!({ "url": receiver.url(), "http": http, "ca": private.pem() });
        set(&server, "shop", endpoint).await;
        let answering = async {
            if expected == "2" {
                receiver.call().await.acknowledge();
            }
        };
        let (attempt, ()) = tokio::join!(tested(&server, "shop"), answering);
        check(&attempt, "acknowledged", expected);
    }
    assert_eq!(receiver.http1_calls(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tls_http2_is_spoken_from_the_first_byte() {
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
        receiver.call().await.acknowledge();
    });
    check(&attempt, "acknowledged", "2");
    assert_eq!(attempt["tls"], Value::Null, "{attempt}");
    // A public address is refused as it is over HTTP/1.1.
    set(&server, "shop", over_http2("http://192.0.2.1/n")).await;
    assert_eq!(tested(&server, "shop").await["outcome"], "blocked");
    // Most servers of HTTP/1.1 answer the first bytes with a 400.
    let merchant = Merchant::scripted(
        Vec::new(),
        Reaction::RawThenClose(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    )
    .await;
    set(&server, "shop", over_http2(&merchant.url("/n"))).await;
    let attempt = tested(&server, "shop").await;
    assert_eq!(attempt["outcome"], "protocol", "{attempt}");
    let reason = "the receiver answered with HTTP/1.1 before a request was sent, so it does not speak HTTP/2 here; set \
        `http` of the endpoint to 1.1";
    assert_eq!(attempt["reason"], reason);
    assert_eq!(attempt["http"], Value::Null, "nothing was sent");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_goes_through_the_proxy_with_a_client_certificate() {
    for speaks in [Speaks::Http, Speaks::Socks] {
        let proxy = ForwardProxy::start(speaks, None).await;
        let private = Authority::new("Private");
        let tls = private.issue(HERE).server_config(H2, Some(&private));
        let mut receiver = Http2Receiver::start(Some(tls)).await;
        let client = private.issue(&["client"]);
        let server = start_on(Stores::Embedded, Some(&proxy)).await;
        let endpoint = json!({
            "url": receiver.url(), "http": "2", "ca": private.pem(),
            "client_certificate": client.certificate_pem(), "client_key": client.key_pem(),
        });
        set(&server, "shop", endpoint).await;
        let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
            receiver.call().await.acknowledge();
        });
        check(&attempt, "acknowledged", "2");
        let address = format!("127.0.0.1:{}", receiver.port());
        assert_eq!(proxy.asked(), [address]);
        // TLS 1.3 refuses a client only after the handshake, when HTTP/2 has begun.
        set(
            &server,
            "other",
            json!({ "url": receiver.url(), "http": "2", "ca": private.pem() }),
        )
        .await;
        let attempt = tested(&server, "other").await;
        assert_eq!(attempt["outcome"], "tls", "{attempt}");
        assert_eq!(
            attempt["reason"],
            "the receiver asks for a client certificate"
        );
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_time_runs_out_disturbs_no_other_on_its_connection() {
    let mut receiver = Http2Receiver::start(None).await;
    let server = start().await;
    set(&server, "shop", over_http2(&receiver.url())).await;
    let mut hasty = over_http2(&receiver.url());
    hasty["timeout"] = json!("500ms");
    let (patient, attempt) = tokio::join!(tested(&server, "shop"), async {
        let first = receiver.call().await;
        set(&server, "shop", hasty).await;
        let (attempt, reset) = tokio::join!(tested(&server, "shop"), async {
            let second = receiver.call().await;
            assert_eq!(second.connection, first.connection);
            second.was_reset().await
        });
        assert_eq!(reset, Reason::CANCEL);
        first.acknowledge();
        attempt
    });
    check(&patient, "acknowledged", "2");
    check(&attempt, "timeout", "2");
    let reason = "no complete answer within 500ms; the time ran out while the answer was awaited";
    assert_eq!(attempt["reason"], reason);
    // The receiver has answered since, so the connection is used again.
    set(&server, "shop", over_http2(&receiver.url())).await;
    let (attempt, ()) = tokio::join!(tested(&server, "shop"), async {
        receiver.call().await.acknowledge();
    });
    assert_eq!(attempt["connection"], "kept", "{attempt}");
    assert_eq!(receiver.opened(), 1);
    server.stop().await;
}
