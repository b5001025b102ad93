//! TLS that fails: every case has an outcome, and a reason that support staff can pass on to the merchant.
//!
//! The server is the real program, because the authorities that it trusts come from its environment. What a merchant's
//! certificate can be is tested on every kind of store that keeps attempts, everything else with the embedded ones.

use super::on_journaled_stores;
use super::process::arguments;
use crate::support::process::Process;
use crate::support::ringback::Stores;
use crate::support::tls::{Authority, Greeting, Identity};
use rcgen::{BasicConstraints, IsCa, date_time_ymd};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

on_journaled_stores!(a_certificate_that_is_wrong_is_described);

const NOT_TRUSTED: &str = "the certificate is signed by an authority that is not trusted: it is self-signed, of a \
    private authority, or sent without its intermediate certificates";
const ONE: &str = "the receiver's certificate, or one in its chain,";

/// One attempt at a URL, as the API shows it.
async fn attempt_at(server: &Process, id: &str, url: &str) -> Value {
    let asked = json!({
        "topic": "t", "id": id, "url": url, "body": "x", "ladder": { "intervals": [] },
    });
    server.api().register(asked).await;
    let ended = |view: &Value| view["ended_at"] != Value::Null;
    let view = server.api().until(id, ended).await;
    view["attempts"][0].clone()
}

fn local(address: SocketAddr) -> String {
    format!("https://127.0.0.1:{}/notify", address.port())
}

/// Checks one failure of TLS. The address is in the trace of each.
async fn check(server: &Process, id: &str, address: SocketAddr, reason: &str) {
    let attempt = attempt_at(server, id, &local(address)).await;
    assert_eq!(attempt["outcome"], "tls", "{id}: {attempt}");
    assert_eq!(attempt["reason"], reason, "{id}");
    assert_eq!(attempt["address"], address.to_string(), "{id}: {attempt}");
    assert_eq!(attempt["connection"], "new", "{id}: {attempt}");
}

async fn start(authority: &Authority, dir: &Path, timeout: &str) -> Process {
    start_on(Stores::Embedded, authority, dir, timeout).await
}

async fn start_on(stores: Stores, authority: &Authority, dir: &Path, timeout: &str) -> Process {
    let roots = authority.write(dir);
    let arguments = arguments(stores);
    let arguments = arguments.iter().map(String::as_str);
    let arguments: Vec<&str> = arguments.chain(["--timeout", timeout]).collect();
    Process::start_trusting(&roots, dir, &arguments).await
}

async fn a_certificate_that_is_wrong_is_described(stores: Stores) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new("Trusted Authority");
    let intermediate = authority.intermediate("Intermediate Authority");
    let server = start_on(stores, &authority, dir.path(), "60s").await;
    let here = &["127.0.0.1"][..];
    for (id, good) in [
        ("good", authority.issue(here)),
        ("chain", intermediate.issue(here).with(&intermediate)),
    ] {
        let attempt = attempt_at(&server, id, &local(good.serve().await)).await;
        assert_eq!(attempt["outcome"], "acknowledged", "{id}: {attempt}");
        assert_eq!(attempt["tls"], "1.3", "{id}: {attempt}");
    }
    let expired = authority.issue_as(here, |params| params.not_after = date_time_ymd(2020, 1, 2));
    let future = authority.issue_as(here, |params| params.not_before = date_time_ymd(4000, 1, 2));
    let as_authority = Identity::self_signed(here, |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let many = [
        "a.example",
        "b.example",
        "c.example",
        "d.example",
        "192.0.2.1",
    ];
    let cases = [
        (
            "name",
            authority.issue(&["other.example"]),
            "the certificate is for other.example, not for 127.0.0.1".to_string(),
        ),
        (
            "names",
            authority.issue(&many),
            "the certificate is for a.example, b.example, c.example and 2 more, not for 127.0.0.1"
                .to_string(),
        ),
        (
            "no-name",
            authority.issue(&[]),
            "the certificate names no host, so it is not for 127.0.0.1".to_string(),
        ),
        ("expired", expired, format!("{ONE} expired on 2020-01-02")),
        (
            "future",
            future,
            format!("{ONE} is not valid before 4000-01-02"),
        ),
        (
            "self-signed",
            Identity::self_signed(here, |_| {}),
            NOT_TRUSTED.to_string(),
        ),
        (
            "unknown",
            Authority::new("Private Authority").issue(here),
            NOT_TRUSTED.to_string(),
        ),
        (
            "no-chain",
            intermediate.issue(here),
            NOT_TRUSTED.to_string(),
        ),
        (
            "authority",
            as_authority,
            "the certificate cannot be used for a server (CaUsedAsEndEntity); self-signed certificates often cannot"
                .to_string(),
        ),
    ];
    for (id, identity, reason) in cases {
        check(&server, id, identity.serve().await, &reason).await;
    }
    let client = authority.issue(here).serve_to_clients_of(&authority).await;
    let reason = "the receiver asks for a client certificate";
    check(&server, "client", client, reason).await;
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_of_the_url_is_what_the_certificate_must_name() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new("Trusted Authority");
    let server = start(&authority, dir.path(), "60s").await;
    let answer = ["first_byte_ms", "body_ms"];
    for (name, outcome, reason, answers) in [
        ("localhost", "acknowledged", Value::Null, true),
        (
            "other.example",
            "tls",
            json!("the certificate is for other.example, not for localhost"),
            false,
        ),
    ] {
        let port = authority.issue(&[name]).serve().await.port();
        let url = format!("https://localhost:{port}/notify");
        let attempt = attempt_at(&server, name, &url).await;
        assert_eq!(attempt["outcome"], outcome, "{attempt}");
        assert_eq!(attempt["reason"], reason, "{attempt}");
        // The host is a name, so it was resolved.
        let phases = &attempt["phases"];
        for phase in ["dns_ms", "connect_ms", "tls_ms"] {
            assert!(phases[phase].is_f64(), "{phase}: {attempt}");
        }
        for phase in answer {
            assert_eq!(phases[phase].is_f64(), answers, "{phase}: {attempt}");
        }
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_speak_our_tls_is_described() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(&Authority::new("Trusted Authority"), dir.path(), "60s").await;
    let alert = |code: u8| Greeting::Bytes(vec![21, 3, 1, 0, 2, 2, code]);
    // A record of TLS 1.1 with a ServerHello: version, random, no session, a cipher suite, no compression.
    let mut hello = vec![22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 47, 0]);
    let plain = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec();
    let no_tls = "the receiver did not answer with TLS; perhaps plain http or another protocol is spoken on this port";
    for (id, greeting, reason) in [
        (
            "version-alert",
            alert(70),
            "the receiver refused TLS 1.2 and 1.3; it probably speaks only older versions",
        ),
        (
            "handshake-alert",
            alert(40),
            "the receiver refused the TLS handshake: it accepts none of the versions and ciphers that were \
             offered, or needs a client certificate",
        ),
        (
            "name-alert",
            alert(112),
            "the receiver does not know the host name for TLS (alert UnrecognisedName)",
        ),
        (
            "other-alert",
            alert(80),
            "the receiver broke off TLS with the alert InternalError",
        ),
        (
            "tls-1.1",
            Greeting::Bytes(hello),
            "the receiver speaks only versions of TLS that are older than 1.2",
        ),
        ("plain", Greeting::Bytes(plain), no_tls),
        ("ssh", Greeting::Bytes(b"SSH-2.0-x\r\n".to_vec()), no_tls),
        (
            "close",
            Greeting::Close,
            "the receiver closed the connection during the TLS handshake",
        ),
        (
            "reset",
            Greeting::Reset,
            "the receiver reset the connection during the TLS handshake",
        ),
    ] {
        check(&server, id, greeting.serve().await, reason).await;
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_never_ends_is_cut_off_by_the_limit() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(&Authority::new("Trusted Authority"), dir.path(), "2s").await;
    let address = Greeting::Hang.serve().await;
    let attempt = attempt_at(&server, "hang", &local(address)).await;
    assert_eq!(attempt["outcome"], "timeout", "{attempt}");
    let reason = "no complete answer within 2s; the time ran out while the TLS handshake was made";
    assert_eq!(attempt["reason"], reason, "{attempt}");
    assert!(attempt["phases"]["tls_ms"].is_f64(), "{attempt}");
    assert_eq!(attempt["phases"]["first_byte_ms"], Value::Null, "{attempt}");
    server.kill().await;
}
