//! Calls through a proxy, and what a proxy that fails does to what is due.

use super::on_stores;
use crate::support::forward_proxy::{ForwardProxy, Manner, Speaks};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::refusing_port::RefusingPort;
use crate::support::ringback::{Server, Stores, registration, with_ladder};
use crate::support::tls::Authority;
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::domain::master_key::MasterKey;
use ringback::domain::proxy_url::ProxyUrl;
use serde_json::{Value, json};
use std::time::Duration;
use zeroize::Zeroizing;

on_stores!(
    calls_go_through_a_tunnel_to_the_checked_address,
    a_failing_proxy_spends_no_attempt,
);

const SHOP: &str = "/v1/endpoints/shop-1";
const BOTH: [Speaks; 2] = [Speaks::Http, Speaks::Socks];

async fn start(stores: Stores, proxy: &str, timeout: Duration) -> Server {
    let proxy = ProxyUrl::parse(proxy).expect("a proxy");
    Server::start_as(stores, |config| {
        config.delivery.proxy = Some(proxy);
        config.delivery.timeout = timeout;
        config.master_key = Some(MasterKey::from_random(Zeroizing::new([7; 32])));
    })
    .await
}

const LONG: Duration = Duration::from_secs(10);

async fn set(server: &Server, endpoint: Value) {
    let (status, shown) = server.call(Method::PUT, SHOP, Some(endpoint)).await;
    assert!(matches!(status, 200 | 201), "{shown}");
}

async fn tested(server: &Server) -> Value {
    let path = format!("{SHOP}/test");
    server.call(Method::POST, &path, None).await.1
}

async fn calls_go_through_a_tunnel_to_the_checked_address(stores: Stores) {
    for speaks in BOTH {
        for credentials in [None, Some("ann:p@ss:1")] {
            // What the proxy asks for has nothing to do with the stores.
            if credentials.is_none() && stores != Stores::Embedded {
                continue;
            }
            let proxy = ForwardProxy::start(speaks, credentials).await;
            let url = proxy.url(credentials.map(|_| "ann:p%40ss%3A1"));
            let server = start(stores, &url, LONG).await;
            let mut merchant = Merchant::start().await;
            server.register(registration("a", &merchant)).await;
            let view = server.until_state("a", "delivered").await;
            let call = merchant.call().await;
            let port = merchant.port();
            assert_eq!(call.header("Host"), format!("127.0.0.1:{port}"));
            assert!(
                call.request_line.starts_with("POST /"),
                "end to end: {call:?}"
            );
            let address = format!("127.0.0.1:{port}");
            if stores != Stores::RedisOnly {
                assert_eq!(view["attempts"][0]["address"], address, "{view}");
            }
            assert_eq!(proxy.asked(), [address]);
            server.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_the_receiver_whose_name_stays_here() {
    for speaks in BOTH {
        let proxy = ForwardProxy::start(speaks, None).await;
        let server = start(Stores::Embedded, &proxy.url(None), LONG).await;
        let private = Authority::new("Private");
        let mut merchant = private.issue(&["localhost"]).receive_from(&private).await;
        let client = private.issue(&["client"]);
        let port = merchant.address.port();
        let endpoint = json!({
            "url": format!("https://localhost:{port}/notify"), "ca": private.pem(),
            "client_certificate": client.certificate_pem(), "client_key": client.key_pem(),
        });
        set(&server, endpoint).await;
        let attempt = tested(&server).await;
        assert_eq!(attempt["outcome"], "acknowledged", "{attempt}");
        assert_eq!(attempt["tls"], "1.3", "{attempt}");
        assert_eq!(merchant.call().await.client, client.leaf());
        let asked = proxy.asked();
        let last = asked.last().expect("asked");
        assert_eq!(
            *last,
            format!("127.0.0.1:{port}"),
            "no name is given to the proxy"
        );
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_filter_holds_before_the_proxy_is_asked() {
    let proxy = ForwardProxy::start(Speaks::Http, None).await;
    let server = start(Stores::Embedded, &proxy.url(None), LONG).await;
    for url in [
        "https://10.1.2.3/n",
        "https://169.254.169.254/n",
        "http://192.0.2.1/n",
    ] {
        set(&server, json!({ "url": url })).await;
        let attempt = tested(&server).await;
        assert_eq!(attempt["outcome"], "blocked", "{attempt}");
    }
    assert_eq!(proxy.asked(), [""; 0]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_the_proxy_cannot_reach_has_failed() {
    for speaks in BOTH {
        let proxy = ForwardProxy::start(speaks, None).await;
        let server = start(Stores::Embedded, &proxy.url(None), LONG).await;
        let refusing = RefusingPort::take();
        let address = refusing.address();
        let mut asked = json!({
            "topic": "t", "id": "a", "url": format!("http://{address}/n"), "body": "x",
            "ladder": { "intervals": [] },
        });
        server.register(asked.clone()).await;
        let view = server.until_state("a", "dead").await;
        let attempt = &view["attempts"][0];
        assert_eq!(attempt["outcome"], "connect", "{attempt}");
        let reason = attempt["reason"].as_str().expect("a reason");
        assert!(
            reason.starts_with("no connection through the proxy: it "),
            "{reason}"
        );
        assert!(reason.contains(&address.to_string()), "{reason}");
        let forbidden: &[u8] = match speaks {
            Speaks::Http => b"HTTP/1.1 403 Forbidden\r\n\r\n",
            Speaks::Socks => &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
        };
        proxy.now_does(Manner::Answer(forbidden));
        asked["id"] = json!("b");
        server.register(asked).await;
        let view = server.until_state("b", "dead").await;
        let reason = view["attempts"][0]["reason"].as_str().expect("a reason");
        assert!(
            reason.contains("does not allow connections to this address and port"),
            "{reason}"
        );
        server.stop().await;
    }
}

async fn a_failing_proxy_spends_no_attempt(stores: Stores) {
    let proxy = ForwardProxy::start(Speaks::Http, None).await;
    proxy.now_does(Manner::Close);
    let server = start(stores, &proxy.url(None), LONG).await;
    let mut merchant = Merchant::start().await;
    set(&server, json!({ "url": merchant.url("/n") })).await;
    let attempt = tested(&server).await;
    assert_eq!(attempt["outcome"], "connect", "{attempt}");
    let reason = "the proxy closed the connection before it answered";
    assert_eq!(attempt["reason"], reason, "{attempt}");
    for id in ["a", "b"] {
        server.register(with_ladder(id, &merchant, &[])).await;
    }
    // The next test calls do not reach the proxy for a moment, and say the same.
    for _ in 0..5 {
        assert_eq!(tested(&server).await["reason"], reason);
    }
    let (_, page) = server.call(Method::GET, "/v1/lanes", None).await;
    for lane in page["items"].as_array().expect("a list") {
        assert_eq!(lane["state"], "open", "the receiver has not failed: {lane}");
    }
    assert!(merchant.arrived().is_none());
    proxy.now_does(Manner::Connect);
    for id in ["a", "b"] {
        let view = server.until_state(id, "delivered").await;
        assert_eq!(view["attempts_made"], 1, "{view}");
        if stores != Stores::RedisOnly {
            assert_eq!(view["attempts"][0]["deferred_by"], "proxy", "{view}");
        }
        merchant.call().await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_the_proxy_is_said_without_its_password() {
    let check = async |proxy: &str, timeout: Duration, expected: &str| {
        let server = start(Stores::Embedded, proxy, timeout).await;
        let merchant = Merchant::start().await;
        set(&server, json!({ "url": merchant.url("/n") })).await;
        let attempt = within("an attempt", tested(&server)).await;
        assert_eq!(attempt["outcome"], "connect", "{attempt}");
        let reason = attempt["reason"].as_str().expect("a reason");
        assert!(reason.contains(expected), "{reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
        server.stop().await;
    };
    let refusing = RefusingPort::take();
    let away = format!("http://ann:hunter2@{}", refusing.address());
    check(&away, LONG, "the proxy cannot be reached: ").await;
    check(
        "socks5://nowhere.invalid:1080",
        LONG,
        "the proxy cannot be resolved: ",
    )
    .await;
    for speaks in BOTH {
        let strict = ForwardProxy::start(speaks, Some("ann:right")).await;
        let wrong = strict.url(Some("ann:hunter2"));
        check(
            &wrong,
            LONG,
            "does not accept the user name and the password",
        )
        .await;
        let none = strict.url(None);
        check(
            &none,
            LONG,
            "asks for a user name and a password, and --proxy has none",
        )
        .await;
        let other = match speaks {
            Speaks::Http => ForwardProxy::start(Speaks::Http, None).await,
            Speaks::Socks => ForwardProxy::start(Speaks::Socks, None).await,
        };
        other.now_does(Manner::Close);
        check(
            &other.url(None),
            LONG,
            "closed the connection before it answered",
        )
        .await;
    }
    let strange = ForwardProxy::start(Speaks::Http, None).await;
    strange.now_does(Manner::Answer(b"SSH-2.0-x\r\n\r\n"));
    check(&strange.url(None), LONG, "did not answer with HTTP/1.1").await;
    let silent = ForwardProxy::start(Speaks::Socks, None).await;
    silent.now_does(Manner::Hang);
    check(
        &silent.url(None),
        Duration::from_millis(500),
        "did not answer in time",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_come_through_the_tunnel_too_early_are_no_failure_of_the_proxy() {
    let proxy = ForwardProxy::start(Speaks::Http, None).await;
    let server = start(Stores::Embedded, &proxy.url(None), LONG).await;
    let mut merchant = Merchant::start().await;
    set(&server, json!({ "url": merchant.url("/n") })).await;
    proxy.now_does(Manner::Answer(b"HTTP/1.1 200 OK\r\n\r\nmore"));
    let attempt = tested(&server).await;
    assert_eq!(attempt["outcome"], "protocol", "{attempt}");
    let reason = attempt["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("something was sent by the receiver"),
        "{reason}"
    );
    proxy.now_does(Manner::Connect);
    // Nobody has to wait.
    assert_eq!(tested(&server).await["outcome"], "acknowledged");
    merchant.call().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_own_time_ends_says_nothing_about_the_proxy() {
    let proxy = ForwardProxy::start(Speaks::Socks, None).await;
    let server = start(Stores::Embedded, &proxy.url(None), LONG).await;
    let mut merchant = Merchant::start().await;
    let mut endpoint = json!({ "url": merchant.url("/n"), "timeout": "200ms" });
    set(&server, endpoint.clone()).await;
    proxy.now_does(Manner::Hang);
    let attempt = tested(&server).await;
    assert_eq!(attempt["outcome"], "timeout", "{attempt}");
    proxy.now_does(Manner::Connect);
    endpoint["timeout"] = Value::Null;
    set(&server, endpoint).await;
    assert_eq!(tested(&server).await["outcome"], "acknowledged");
    merchant.call().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_closes_instead_of_an_answer_says_that_the_receiver_failed() {
    for speaks in BOTH {
        let proxy = ForwardProxy::start(speaks, None).await;
        proxy.now_does(Manner::ConnectOrClose);
        let server = start(Stores::Embedded, &proxy.url(None), LONG).await;
        // No connection is kept, so each call asks the proxy.
        let closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\nsuccess";
        let closing = Reaction::RawThenClose(closing.to_vec());
        let merchant = Merchant::scripted(vec![], closing).await;
        server.register(registration("first", &merchant)).await;
        server.until_state("first", "delivered").await;
        let refusing = RefusingPort::take();
        let address = refusing.address().to_string();
        let asked = json!({
            "topic": "t", "id": "a", "url": format!("http://{address}/n"), "body": "x",
            "ladder": { "intervals": [] },
        });
        server.register(asked).await;
        let was_asked = async {
            while !proxy.asked().contains(&address) {
                short_pause().await;
            }
        };
        within("the proxy to be asked", was_asked).await;
        // Others are called meanwhile, at once: the proxy works.
        server.register(registration("second", &merchant)).await;
        let view = server.until_state("second", "delivered").await;
        assert_eq!(view["attempts_made"], 1, "{view}");
        let view = server.until_state("a", "dead").await;
        let attempt = &view["attempts"][0];
        assert_eq!(attempt["outcome"], "connect", "{attempt}");
        let reason = attempt["reason"].as_str().expect("a reason");
        let expected = "closed the connection when it was asked for";
        assert!(reason.contains(expected), "{reason}");
        server.stop().await;
    }
}
