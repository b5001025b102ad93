//! Each class of failure, as it is recorded and shown. Where nothing is recorded (Redis alone), the
//! cause of the dead letter is all that there is to see.

use super::on_journaled_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::refusing_port::RefusingPort;
use crate::support::ringback::{SHORT, Server, Stores, registration};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

on_journaled_stores!(
    what_merchants_do_is_told_apart,
    a_merchant_that_hangs_is_cut_off_by_the_limit,
    an_answer_that_drips_is_cut_off_by_the_limit,
    what_keeps_a_call_from_being_made_is_told_apart,
    a_certificate_that_nobody_vouches_for_is_refused,
);

/// A limit that no call runs into which is answered or refused, however slow the machine is.
const GENEROUS: Duration = Duration::from_secs(60);

/// One attempt at a URL; the attempt as the API shows it, and the notification.
async fn attempt_at(server: &Server, id: &str, url: &str) -> (Value, Value) {
    server
        .register(json!({
            "topic": "t", "id": id, "url": url, "body": "x", "ladder": { "intervals": [] },
        }))
        .await;
    let view = server.until_state(id, "dead").await;
    (view["attempts"][0].clone(), view)
}

/// A server whose calls may take so long.
async fn server(stores: Stores, timeout: Duration) -> Server {
    Server::start_as(stores, |config| config.delivery.timeout = timeout).await
}

async fn what_merchants_do_is_told_apart(stores: Stores) {
    let server = server(stores, GENEROUS).await;
    let page = b"<html>login</html>".to_vec();
    let bom = "\u{feff}success".as_bytes().to_vec();
    let redirect = b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n".to_vec();
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsucc".to_vec();
    let half_head = b"HTTP/1.1 200 OK\r\nContent-".to_vec();
    let not_chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec();
    let cases: Vec<(&str, Reaction, &str, Value, &str)> = vec![
        (
            "fail",
            Reaction::fail(),
            "wrong_answer",
            json!(200),
            "the body is `fail`",
        ),
        (
            "page",
            Reaction::Answer(200, page),
            "wrong_answer",
            json!(200),
            "`<html>login</html>`",
        ),
        (
            "bom",
            Reaction::Answer(200, bom),
            "wrong_answer",
            json!(200),
            "\\u{feff}success",
        ),
        (
            "empty",
            Reaction::Answer(200, vec![]),
            "wrong_answer",
            json!(200),
            "an empty body",
        ),
        (
            "500",
            Reaction::Answer(500, b"oops".to_vec()),
            "http_status",
            json!(500),
            "500",
        ),
        (
            "403",
            Reaction::Answer(403, b"success".to_vec()),
            "http_status",
            json!(403),
            "403",
        ),
        (
            "redirect",
            Reaction::Raw(redirect),
            "http_status",
            json!(302),
            "not followed",
        ),
        (
            "endless",
            Reaction::Endless,
            "wrong_answer",
            json!(200),
            "more than 65536 bytes",
        ),
        (
            "close",
            Reaction::Close,
            "protocol",
            json!(null),
            "closed before",
        ),
        (
            "reset",
            Reaction::Reset,
            "protocol",
            json!(null),
            "the connection",
        ),
        (
            "garbage",
            Reaction::RawThenClose(b"SSH-2.0-x\r\n".to_vec()),
            "protocol",
            json!(null),
            "not HTTP",
        ),
        (
            "half",
            Reaction::RawThenClose(half),
            "protocol",
            json!(200),
            "closed before",
        ),
        (
            "half-head",
            Reaction::RawThenClose(half_head),
            "protocol",
            json!(null),
            "closed before",
        ),
        (
            "no-chunk",
            Reaction::RawThenClose(not_chunked),
            "protocol",
            json!(200),
            "not HTTP",
        ),
    ];
    for (id, reaction, outcome, status, reason) in cases {
        let merchant = Merchant::scripted(vec![], reaction).await;
        let (attempt, _) = attempt_at(&server, id, &merchant.url("/notify")).await;
        assert_eq!(attempt["outcome"], outcome, "{id}: {attempt}");
        assert_eq!(attempt["status"], status, "{id}: {attempt}");
        let shown = attempt["reason"].as_str().expect("a reason");
        assert!(shown.contains(reason), "{id}: {shown}");
    }
    server.stop().await;
}

async fn a_merchant_that_hangs_is_cut_off_by_the_limit(stores: Stores) {
    let server = server(stores, SHORT).await;
    let merchant = Merchant::scripted(vec![], Reaction::Hang).await;
    let (attempt, _) = attempt_at(&server, "hang", &merchant.url("/notify")).await;
    assert_eq!(attempt["outcome"], "timeout", "{attempt}");
    assert_eq!(attempt["status"], json!(null), "{attempt}");
    let reason = attempt["reason"].as_str().expect("a reason");
    assert!(reason.contains("within 2s"), "{reason}");
    assert!(reason.ends_with("while the answer was awaited"), "{reason}");
    let address = format!("127.0.0.1:{}", merchant.port());
    assert_eq!(attempt["address"], address, "{attempt}");
    assert_eq!(attempt["connection"], "new", "{attempt}");
    assert_eq!(attempt["tls"], Value::Null, "{attempt}");
    let phases = &attempt["phases"];
    assert!(phases["connect_ms"].is_f64(), "{attempt}");
    assert!(phases["first_byte_ms"].is_f64(), "{attempt}");
    for not_reached in ["dns_ms", "tls_ms", "body_ms"] {
        assert_eq!(phases[not_reached], Value::Null, "{attempt}");
    }
    server.stop().await;
}

async fn an_answer_that_drips_is_cut_off_by_the_limit(stores: Stores) {
    let server = server(stores, SHORT).await;
    // A head that promises a body which never comes in full.
    let drip = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsuc".to_vec();
    let merchant = Merchant::scripted(vec![], Reaction::Raw(drip)).await;
    let (attempt, _) = attempt_at(&server, "drip", &merchant.url("/notify")).await;
    assert_eq!(attempt["outcome"], "timeout", "{attempt}");
    let reason = attempt["reason"].as_str().expect("a reason");
    assert!(
        reason.ends_with("while the body of the answer was read"),
        "{reason}"
    );
    assert!(attempt["phases"]["body_ms"].is_f64(), "{attempt}");
    server.stop().await;
}

async fn what_keeps_a_call_from_being_made_is_told_apart(stores: Stores) {
    let server = server(stores, GENEROUS).await;
    let merchant = Merchant::start().await;
    let refusing = RefusingPort::take();
    let closed = refusing.address();
    let cases = [
        (
            "connect",
            format!("http://{closed}/"),
            "connect",
            "ladder_exhausted",
        ),
        (
            "tls",
            format!("https://{}/", speaks_no_tls().await),
            "tls",
            "ladder_exhausted",
        ),
        (
            "dns",
            "http://no-such-host.invalid/".to_string(),
            "dns",
            "ladder_exhausted",
        ),
        (
            "private",
            "http://10.0.0.1/".to_string(),
            "blocked",
            "blocked",
        ),
        (
            "metadata",
            "http://169.254.169.254/latest/".to_string(),
            "blocked",
            "blocked",
        ),
        (
            "v6-loopback",
            format!("http://[::1]:{}/", merchant.port()),
            "blocked",
            "blocked",
        ),
        (
            "mapped",
            "https://[::ffff:10.0.0.1]/".to_string(),
            "blocked",
            "blocked",
        ),
        ("odd", "http://0xa000001/".to_string(), "blocked", "blocked"),
        ("plain", "http://1.1.1.1/".to_string(), "blocked", "blocked"),
    ];
    for (id, url, outcome, cause) in cases {
        let (attempt, view) = attempt_at(&server, id, &url).await;
        assert_eq!(attempt["outcome"], outcome, "{id}: {attempt}");
        assert_eq!(view["cause"], cause, "{id}: {view}");
        assert!(attempt["reason"].is_string(), "{id}: {attempt}");
        if id == "connect" {
            let reason = "no connection: it was refused; no server listens on this port, or a firewall refuses calls";
            assert_eq!(attempt["reason"], reason, "{attempt}");
            assert_eq!(attempt["address"], closed.to_string(), "{attempt}");
            assert_eq!(attempt["connection"], Value::Null, "{attempt}");
            assert!(attempt["phases"]["connect_ms"].is_f64(), "{attempt}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_name_that_refuses_the_address_that_was_tried_is_recorded() {
    let server = server(Stores::Embedded, GENEROUS).await;
    let refusing = RefusingPort::take();
    let closed = refusing.address();
    let url = format!("http://localhost:{}/", closed.port());
    let (attempt, _) = attempt_at(&server, "refused", &url).await;
    assert_eq!(attempt["outcome"], "connect", "{attempt}");
    assert_eq!(attempt["address"], closed.to_string(), "{attempt}");
    assert_eq!(attempt["connection"], Value::Null, "{attempt}");
    server.stop().await;
}

/// A server that greets in plain text, as a port of another service would.
async fn speaks_no_tls() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
        }
    });
    address
}

async fn a_certificate_that_nobody_vouches_for_is_refused(stores: Stores) {
    let server = server(stores, GENEROUS).await;
    let url = format!("https://localhost:{}/", self_signed().await.port());
    let (attempt, _) = attempt_at(&server, "self-signed", &url).await;
    assert_eq!(attempt["outcome"], "tls", "{attempt}");
    let reason = attempt["reason"].as_str().expect("a reason");
    assert!(reason.contains("certificate"), "{reason}");
    server.stop().await;
}

/// A server with a certificate of its own making.
async fn self_signed() -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).expect("made");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    crate::support::install_tls();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .expect("a certificate and its key");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The handshake fails, which is what is tested.
            let _ = acceptor.accept(stream).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_inside_is_blocked_when_it_is_dialled() {
    let server = Server::start_as(Stores::Embedded, |config| {
        config.delivery.allow_destinations.clear();
    })
    .await;
    let mut merchant = Merchant::start().await;
    let url = format!("http://localhost:{}/", merchant.port());
    let (attempt, view) = attempt_at(&server, "name", &url).await;
    assert_eq!(
        (&attempt["outcome"], &view["cause"]),
        (&json!("blocked"), &json!("blocked"))
    );
    assert!(merchant.arrived().is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merchant_that_hangs_holds_nobody_else_up() {
    let mut hanging = Merchant::scripted(vec![], Reaction::Hang).await;
    let mut healthy = Merchant::start().await;
    let server = Server::start(Stores::Embedded).await;
    for number in 0..100 {
        server
            .register(registration(&format!("hang-{number}"), &hanging))
            .await;
    }
    // Its lane is full: as many calls as a lane may have that has not answered yet.
    for _ in 0..server.config().schedule.lane_start {
        hanging.call().await;
    }
    for number in 0..20 {
        server
            .register(registration(&format!("well-{number}"), &healthy))
            .await;
        healthy.call().await;
    }
    assert!(hanging.arrived().is_none());
}
