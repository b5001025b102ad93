//! Endpoints that one server has set, and the calls of another server, which knows them only from the stores.
//!
//! A test call (`POST /v1/endpoints/{name}/test`) is made by the server that is asked, so these tests know who calls.

use super::on_stores;
use crate::support::forward_proxy::{ForwardProxy, Speaks};
use crate::support::http2::Http2Receiver;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{BEGIN_MS, Server, Stores, secret};
use crate::support::signing::{beside, other, with_master_key};
use crate::support::tls::Authority;
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::clock::ManualClock;
use ringback::domain::proxy_url::ProxyUrl;
use ringback::domain::signature::SigningSecret;
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_stores!(@ postgres Postgres
    what_one_server_has_set_is_in_the_calls_of_another
    each_change_on_one_server_is_in_the_next_call_of_another
);
on_stores!(@ redis_only RedisOnly
    what_one_server_has_set_is_in_the_calls_of_another
    each_change_on_one_server_is_in_the_next_call_of_another
);

const HERE: &[&str] = &["127.0.0.1"];

async fn set(server: &Server, name: &str, endpoint: Value) -> Value {
    let path = format!("/v1/endpoints/{name}");
    let (status, shown) = server.call(Method::PUT, &path, Some(endpoint)).await;
    assert_eq!(status, 201, "{shown}");
    shown
}

/// One test call.
async fn tested(server: &Server, name: &str) -> Value {
    let path = format!("/v1/endpoints/{name}/test");
    server.call(Method::POST, &path, None).await.1
}

/// Waits until a server knows the endpoint as it is shown here.
async fn until_known(server: &Server, shown: &Value) {
    let known = async {
        loop {
            let (_, page) = server.call(Method::GET, "/v1/endpoints", None).await;
            let mut items = page["items"].as_array().expect("a list").iter();
            if items
                .any(|item| item["name"] == shown["name"] && item["version"] == shown["version"])
            {
                return;
            }
            short_pause().await;
        }
    };
    within("the other server to know the change", known).await;
}

/// Takes the next call over HTTP/2, checks what the endpoint says of it, and acknowledges it.
async fn check_call(receiver: &mut Http2Receiver, own: &SigningSecret) {
    let call = receiver.call().await;
    let header = |name| call.header(name).unwrap_or_default();
    assert_eq!(header("x-shop"), "1");
    assert_eq!(header("user-agent"), "Pay/1");
    assert_eq!(call.header("webhook-id"), None);
    let timestamp = header("webhook-timestamp");
    let signature = header("webhook-signature");
    let now_s = timestamp.parse().expect("a number");
    let verified = own.verify(header("x-id"), timestamp, signature, &call.body, now_s);
    assert!(verified.is_ok(), "{:?}", call.head);
    call.acknowledge();
}

async fn what_one_server_has_set_is_in_the_calls_of_another(stores: Stores) {
    let proxy = ForwardProxy::start(Speaks::Http, None).await;
    let (config, dir) = with_master_key(stores);
    let (mut beside, beside_dir) = beside(&config);
    beside.delivery.proxy = Some(ProxyUrl::parse(&proxy.url(None)).expect("a proxy"));
    let first = Server::open(config, None, Some(dir)).await;
    let mut second = Server::open(beside, None, Some(beside_dir)).await;

    let private = Authority::new("Private");
    let (client, own) = (private.issue(&["client"]), other(9));
    let tls = private.issue(HERE).server_config(&["h2"], Some(&private));
    let mut over_http2 = Http2Receiver::start(Some(tls)).await;
    let mut over_http1 = private.issue(HERE).receive_from(&private).await;
    let mut endpoint = json!({
        "url": over_http2.url(), "http": "2", "ca": private.pem(), "client_certificate": client.certificate_pem(),
        "client_key": client.key_pem(), "headers": {"X-Shop": "1"}, "user_agent": "Pay/1",
        "signature_headers": {"id": "X-Id"}, "keys": [{"secret": own.expose()}],
    });
    let shown = set(&first, "two", endpoint.clone()).await;
    until_known(&second, &shown).await;
    (endpoint["url"], endpoint["http"]) = (json!(over_http1.url()), json!("1.1"));
    let shown = set(&first, "one", endpoint).await;
    until_known(&second, &shown).await;
    // From now on there is nobody else who could call.
    first.stop().await;
    for is_restarted in [false, true] {
        if is_restarted {
            // Now it reads everything at its start.
            second = second.restart().await;
        }
        let answering = check_call(&mut over_http2, &own);
        let (attempt, ()) = tokio::join!(tested(&second, "two"), answering);
        assert_eq!(attempt["outcome"], "acknowledged", "{attempt}");
        assert_eq!(attempt["http"], "2", "{attempt}");
        let attempt = tested(&second, "one").await;
        assert_eq!(attempt["outcome"], "acknowledged", "{attempt}");
        assert_eq!(attempt["http"], "1.1", "{attempt}");
        assert_eq!(over_http1.call().await.client, client.leaf());
        let id = |name: &str| format!("{name}-{is_restarted}");
        for name in ["two", "one"] {
            let asked = json!({ "topic": "t", "id": id(name), "endpoint": name, "body": "x" });
            second.register(asked).await;
        }
        check_call(&mut over_http2, &own).await;
        assert_eq!(over_http1.call().await.client, client.leaf());
        for name in ["two", "one"] {
            let view = second.until_state(&id(name), "delivered").await;
            assert_eq!(view["attempts_made"], 1, "{view}");
        }
    }
    second.stop().await;
    let asked: BTreeSet<String> = proxy.asked().into_iter().collect();
    let ports = [over_http2.port(), over_http1.address.port()];
    let receivers = ports.map(|port| format!("127.0.0.1:{port}"));
    assert_eq!(asked, BTreeSet::from(receivers));
}

async fn each_change_on_one_server_is_in_the_next_call_of_another(stores: Stores) {
    let (config, dir) = with_master_key(stores);
    let (beside, beside_dir) = beside(&config);
    let first = Server::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await;
    let second = Server::open(beside, Some(first.clock().clone()), Some(beside_dir)).await;
    let answer = Reaction::Answer(200, b"OK".to_vec());
    let mut old = Merchant::scripted(vec![], answer.clone()).await;
    let mut new = Merchant::scripted(vec![], answer).await;
    let shown = set(&first, "shop", json!({ "url": old.url("/n") })).await;
    until_known(&second, &shown).await;
    let attempt = tested(&second, "shop").await;
    assert_eq!(attempt["outcome"], "wrong_answer", "{attempt}");
    assert!(old.call().await.is_signed_by(&secret()));

    // Changes it on the first server, and makes a test call with the second one.
    let path = "/v1/endpoints/shop";
    let tested_with = async |change: Value| {
        let (status, shown) = first.call(Method::PATCH, path, Some(change)).await;
        assert_eq!(status, 200, "{shown}");
        until_known(&second, &shown).await;
        let attempt = tested(&second, "shop").await;
        assert_eq!(attempt["outcome"], "acknowledged", "{attempt}");
    };
    tested_with(json!({ "ack": { "text": "OK" } })).await;
    old.call().await;
    let own = other(9);
    tested_with(json!({ "keys": [{ "secret": own.expose() }] })).await;
    let call = old.call().await;
    assert!(call.is_signed_by(&own) && !call.is_signed_by(&secret()));
    tested_with(json!({ "headers": { "X-Shop": "1" } })).await;
    assert_eq!(old.call().await.header("X-Shop"), "1");
    tested_with(json!({ "url": new.url("/n") })).await;
    new.call().await;

    // The limits are settings of the lane.
    let change = json!({ "concurrency": 3, "rate": 1 });
    let (status, shown) = first.call(Method::PATCH, path, Some(change)).await;
    assert_eq!(status, 200, "{shown}");
    let limited = async {
        let path = "/v1/lanes/endpoint%3Ashop";
        loop {
            let (_, lane) = second.call(Method::GET, path, None).await;
            if lane["concurrency"] == 3 && lane["rate"] == 1.0 {
                return;
            }
            short_pause().await;
        }
    };
    within("the lane to be limited", limited).await;
    for id in ["1", "2"] {
        let asked = json!({ "topic": "t", "id": id, "endpoint": "shop", "body": id });
        second.register(asked).await;
    }
    let (called, waiting) = match new.call().await.body.as_slice() {
        b"1" => ("1", "2"),
        _ => ("2", "1"),
    };
    second.until_state(called, "delivered").await;
    assert_eq!(second.get(waiting).await["attempts_made"], 0);
    assert!(new.arrived().is_none(), "one call per second");
    first.clock().advance(1_000);
    new.call().await;
    second.until_state(waiting, "delivered").await;
    assert!(old.arrived().is_none());
    first.stop().await;
    second.stop().await;
}
