//! Private authorities and client certificates of endpoints.

use super::on_stores;
use crate::support::ringback::{Server, Stores, config};
use crate::support::tls::{Authority, Identity, SecureMerchant};
use crate::support::{short_pause, within};
use rcgen::{KeyPair, date_time_ymd};
use reqwest::Method;
use ringback::config::ServeConfig;
use ringback::domain::master_key::MasterKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;
use zeroize::Zeroizing;

on_stores!(
    a_private_authority_and_a_client_certificate_are_used_and_changed,
    connections_with_one_certificate_are_not_used_with_another,
    what_does_not_belong_together_is_refused,
);

const SHOP: &str = "/v1/endpoints/shop-1";
const HERE: &[&str] = &["127.0.0.1"];
const NOT_TRUSTED: &str = "the certificate is signed by an authority that is not trusted: it is self-signed, of a \
    private authority, or sent without its intermediate certificates";
const NOT_OWN: &str = "the certificate is not signed by one of the endpoint's own authorities, the only ones that it \
    trusts, or it is sent without its intermediate certificates";

fn with_master_key(stores: Stores) -> (ServeConfig, TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), stores);
    config.master_key = Some(MasterKey::from_random(Zeroizing::new([7; 32])));
    (config, dir)
}

async fn start(stores: Stores) -> Server {
    let (config, dir) = with_master_key(stores);
    Server::open(config, None, Some(dir)).await
}

async fn set(server: &Server, path: &str, endpoint: Value) -> Value {
    let (status, shown) = server.call(Method::PUT, path, Some(endpoint)).await;
    assert!(matches!(status, 200 | 201), "{shown}");
    assert!(!shown.to_string().contains("PRIVATE"), "{shown}");
    shown
}

async fn patch(server: &Server, patch: Value) -> Value {
    let (status, shown) = server.call(Method::PATCH, SHOP, Some(patch)).await;
    assert_eq!(status, 200, "{shown}");
    assert!(!shown.to_string().contains("PRIVATE"), "{shown}");
    shown
}

/// One test call.
async fn tested(server: &Server, path: &str) -> Value {
    let path = format!("{path}/test");
    server.call(Method::POST, &path, None).await.1
}

async fn check_fails(server: &Server, reason: &str) {
    let attempt = tested(server, SHOP).await;
    assert_eq!(attempt["outcome"], "tls", "{attempt}");
    assert_eq!(attempt["reason"], reason, "{attempt}");
}

async fn check_reaches(server: &Server, merchant: &mut SecureMerchant, client: &Identity) {
    let attempt = tested(server, SHOP).await;
    assert_eq!(attempt["outcome"], "acknowledged", "{attempt}");
    assert_eq!(merchant.call().await.client, client.leaf());
}

async fn a_private_authority_and_a_client_certificate_are_used_and_changed(stores: Stores) {
    let (private, other) = (Authority::new("Private"), Authority::new("Other"));
    let mut merchant = private.issue(HERE).receive_from(&private).await;
    let server = start(stores).await;
    set(&server, SHOP, json!({ "url": merchant.url() })).await;
    check_fails(&server, NOT_TRUSTED).await;
    let shown = patch(&server, json!({ "ca": private.pem() })).await;
    assert!(shown["ca_expires_at"].is_string(), "{shown}");
    check_fails(&server, "the receiver asks for a client certificate").await;

    let intermediate = private.intermediate("Clients");
    let client = intermediate.issue(&["client"]).with(&intermediate);
    let certificate = json!({
        "client_certificate": client.certificate_pem(), "client_key": client.key_pem(),
    });
    let shown = patch(&server, certificate.clone()).await;
    assert!(
        shown["client_certificate_expires_at"].is_string(),
        "{shown}"
    );
    check_reaches(&server, &mut merchant, &client).await;
    let naming = json!({ "topic": "t", "id": "a", "endpoint": "shop-1", "body": "x" });
    server.register(naming).await;
    server.until_state("a", "delivered").await;
    assert_eq!(merchant.call().await.client, client.leaf());
    // The same request again is no change, although a key is never encrypted in the same way twice.
    let again = patch(&server, certificate).await;
    assert_eq!(again["version"], shown["version"]);

    patch(&server, json!({ "ca": other.pem() })).await;
    check_fails(&server, NOT_OWN).await;
    let both = other.pem() + &private.pem();
    patch(&server, json!({ "ca": both })).await;
    check_reaches(&server, &mut merchant, &client).await;
    let stranger = other.issue(&["client"]);
    patch(
        &server,
        json!({ "client_certificate": stranger.certificate_pem(), "client_key": stranger.key_pem() }),
    )
    .await;
    let reason =
        "the receiver does not trust the authority of the client certificate (alert UnknownCA)";
    check_fails(&server, reason).await;

    let server = server.restart().await;
    check_fails(&server, reason).await;
    let shown = patch(&server, json!({ "client_certificate": null })).await;
    assert_eq!(shown["client_certificate"], Value::Null);
    check_fails(&server, "the receiver asks for a client certificate").await;
    let shown = patch(&server, json!({ "ca": null })).await;
    assert_eq!(shown["ca"], Value::Null);
    check_fails(&server, NOT_TRUSTED).await;
    server.stop().await;
}

async fn connections_with_one_certificate_are_not_used_with_another(stores: Stores) {
    let private = Authority::new("Private");
    let mut merchant = private.issue(HERE).receive_from(&private).await;
    let server = start(stores).await;
    let paths = ["/v1/endpoints/a", "/v1/endpoints/b"];
    let mut clients = Vec::new();
    for path in paths {
        let client = private.issue(&["client"]);
        let endpoint = json!({
            "url": merchant.url(), "ca": private.pem(), "client_certificate": client.certificate_pem(),
            "client_key": client.key_pem(),
        });
        set(&server, path, endpoint).await;
        clients.push(client.leaf());
    }
    let mut seen: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let mut check = async |round: usize, clients: &[Vec<u8>]| {
        let attempt = tested(&server, paths[round % 2]).await;
        assert_eq!(attempt["outcome"], "acknowledged", "{attempt}");
        let call = merchant.call().await;
        assert_eq!(call.client, clients[round % 2]);
        let before = seen.insert(call.connection, call.client.clone());
        assert!(before.is_none_or(|before| before == call.client));
        attempt["connection"] == "kept"
    };
    // After 50 ms, connections are used again.
    let reused = async {
        let (mut reused, mut round) = ([0, 0], 0);
        while reused.iter().any(|times| *times < 3) {
            reused[round % 2] += usize::from(check(round, &clients).await);
            round += 1;
        }
    };
    within("connections are used again", reused).await;
    // The next call has the new certificate, although a connection with the old one is idle.
    let renewed = private.issue(&["client"]);
    let body =
        json!({ "client_certificate": renewed.certificate_pem(), "client_key": renewed.key_pem() });
    let (status, _) = server.call(Method::PATCH, paths[0], Some(body)).await;
    assert_eq!(status, 200);
    clients[0] = renewed.leaf();
    for round in 0..4 {
        check(round, &clients).await;
    }
    server.stop().await;
}

async fn what_does_not_belong_together_is_refused(stores: Stores) {
    let server = start(stores).await;
    let private = Authority::new("Private");
    let (client, other) = (private.issue(&["client"]), private.issue(&["client"]));
    let (certificate, key) = (client.certificate_pem(), client.key_pem());
    let year = |year| {
        move |params: &mut rcgen::CertificateParams| {
            params.not_after = date_time_ymd(year, 1, 2);
        }
    };
    let expired = Identity::self_signed(&["old"], year(2020));
    let refused = async |method: Method, mut body: Value, field: &str, why: &str| {
        if method == Method::PUT {
            body["url"] = json!("https://shop.example/n");
        }
        let (status, problem) = server.call(method, SHOP, Some(body)).await;
        assert_eq!(status, 422, "{problem}");
        assert_eq!(problem["errors"][0]["pointer"], field, "{problem}");
        let detail = problem["errors"][0]["detail"].as_str().expect("a text");
        assert!(detail.contains(why), "{detail}");
        let shown = problem.to_string();
        assert!(!shown.contains(&key[30..60]), "{shown}");
    };
    let put = [
        (
            json!({ "client_certificate": certificate }),
            "/client_key",
            "is missing",
        ),
        (
            json!({ "client_key": key }),
            "/client_certificate",
            "is missing",
        ),
        (
            json!({ "client_certificate": certificate, "client_key": other.key_pem() }),
            "/client_key",
            "does not belong",
        ),
        (
            json!({ "client_certificate": certificate, "client_key": "hunter2" }),
            "/client_key",
            "one private key",
        ),
        (
            json!({ "client_certificate": certificate.clone() + &key, "client_key": key }),
            "/client_certificate",
            "contains a private key",
        ),
        (
            json!({ "client_certificate": expired.certificate_pem(), "client_key": expired.key_pem() }),
            "/client_certificate",
            "expired on 2020-01-02",
        ),
        (
            json!({ "ca": expired.certificate_pem() }),
            "/ca",
            "have expired, the last on 2020",
        ),
        (json!({ "ca": "hunter2" }), "/ca", "BEGIN CERTIFICATE"),
        (
            json!({ "ca": "x".repeat(17_000) }),
            "/ca",
            "at most 16384 bytes",
        ),
        (json!({ "ca": [] }), "/ca", "a string is expected"),
    ];
    for (body, field, why) in put {
        refused(Method::PUT, body, field, why).await;
    }
    let whole = json!({
        "url": "https://shop.example/n", "ca": expired.certificate_pem() + &private.pem(),
        "client_certificate": certificate, "client_key": key,
    });
    let first = set(&server, SHOP, whole.clone()).await;
    assert_eq!(set(&server, SHOP, whole).await["version"], first["version"]);
    // What is shown can be set: the key stays, since it belongs to the certificate.
    let shown = json!({
        "url": first["url"], "ca": first["ca"], "client_certificate": first["client_certificate"],
    });
    let again = set(&server, SHOP, shown).await;
    assert_eq!(again["version"], first["version"]);
    let change = [
        (
            json!({ "client_key": null }),
            "/client_key",
            "needs its key",
        ),
        (
            json!({ "client_certificate": other.certificate_pem() }),
            "/client_key",
            "give its key",
        ),
        (
            json!({ "client_key": other.key_pem() }),
            "/client_key",
            "does not belong",
        ),
    ];
    for (body, field, why) in change {
        refused(Method::PATCH, body, field, why).await;
    }
    let renewed = client.renewed_by(&private, &["client"]);
    let shown = patch(
        &server,
        json!({ "client_certificate": renewed, "timeout": "5s" }),
    )
    .await;
    assert_ne!(shown["client_certificate"], first["client_certificate"]);
    assert_eq!(shown["ca"], first["ca"]);
    let removed = patch(
        &server,
        json!({ "client_certificate": null, "client_key": null }),
    )
    .await;
    assert_eq!(removed["client_certificate"], Value::Null);
    server.stop().await;
}

/// Waits until a server has this version of the endpoint.
async fn until_version(server: &Server, version: u64) {
    let known = async {
        loop {
            let (_, page) = server.call(Method::GET, "/v1/endpoints", None).await;
            if page["items"][0]["version"] == version {
                return;
            }
            short_pause().await;
        }
    };
    within("the other server knows the change", known).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_holds_on_all_servers_and_a_server_without_the_master_key_waits() {
    let private = Authority::new("Private");
    let mut merchant = private.issue(HERE).receive_from(&private).await;
    let (config, dir) = with_master_key(Stores::Postgres);
    let mut keyless = config.clone();
    keyless.master_key = None;
    // It starts before there is anything that it could not open.
    let keyless = Server::open(keyless, None, Some(dir)).await;
    let first = Server::open(config, None, None).await;
    let second = Server::open(first.config().clone(), None, None).await;
    set(
        &first,
        SHOP,
        json!({ "url": merchant.url(), "ca": private.pem() }),
    )
    .await;
    let client = private.issue(&["client"]);
    let certificate = json!({
        "client_certificate": client.certificate_pem(), "client_key": client.key_pem(),
    });
    let (status, problem) = keyless
        .call(Method::PATCH, SHOP, Some(certificate.clone()))
        .await;
    assert_eq!(status, 409, "{problem}");
    patch(&first, certificate).await;
    until_version(&second, 2).await;
    until_version(&keyless, 2).await;
    check_reaches(&second, &mut merchant, &client).await;
    let attempt = tested(&keyless, SHOP).await;
    assert_eq!(attempt["outcome"], "blocked", "{attempt}");
    let config = first.config().clone();
    first.stop().await;
    second.stop().await;
    let naming = json!({ "topic": "t", "id": "a", "endpoint": "shop-1", "body": "x" });
    keyless.register(naming).await;
    let first = Server::open(config, None, None).await;
    let view = first.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1, "no attempt was spent: {view}");
    assert_eq!(merchant.call().await.client, client.leaf());
    assert_eq!(merchant.arrived(), None);
    keyless.stop().await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_all_common_forms_are_taken() {
    let private = Authority::new("Private");
    let mut merchant = private.issue(HERE).receive_from(&private).await;
    let server = start(Stores::Embedded).await;
    for algorithm in [&rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let client = private.issue_for(key, &["client"]);
        let endpoint = json!({
            "url": merchant.url(), "ca": private.pem(), "client_certificate": client.certificate_pem(),
            "client_key": client.key_pem(),
        });
        set(&server, SHOP, endpoint).await;
        check_reaches(&server, &mut merchant, &client).await;
    }
    server.stop().await;
}
