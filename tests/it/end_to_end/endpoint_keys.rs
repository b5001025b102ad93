//! Signing keys of endpoints: rotation, verified by libraries that are not ours, and what happens without the master
//! key.

use super::on_stores;
use crate::receivers::program::{node, python};
use crate::support::merchant::{Call, Merchant};
use crate::support::ringback::{BEGIN_MS, Server, Stores, secret};
use crate::support::signing::{GIVEN, master_key, with_master_key};
use crate::support::{short_pause, within};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use ringback::app::App;
use ringback::clock::ManualClock;
use ringback::config::{JournalConfig, MASTER_KEY_FILE, ServeConfig};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

on_stores!(
    a_rotation_signs_with_both_keys_until_the_overlap_ends,
    keys_can_be_replaced_and_requests_repeated,
);

const KEYS: &str = "/v1/endpoints/shop-1/keys";

async fn start(stores: Stores) -> Server {
    let (config, dir) = with_master_key(stores);
    Server::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await
}

async fn put(server: &Server, merchant: &Merchant, keys: Option<Value>) -> (u16, Value) {
    let mut endpoint =
        json!({ "url": merchant.url("/n"), "ladder": { "intervals": ["10s", "10s", "10s"] } });
    if let Some(keys) = keys {
        endpoint["keys"] = keys;
    }
    let path = "/v1/endpoints/shop-1";
    server.call(Method::PUT, path, Some(endpoint)).await
}

async fn shown(server: &Server) -> Value {
    server
        .call(Method::GET, "/v1/endpoints/shop-1", None)
        .await
        .1
}

async fn add(server: &Server, body: Value) -> (u16, Value) {
    server.call(Method::POST, KEYS, Some(body)).await
}

fn naming(id: &str) -> Value {
    json!({ "topic": "t", "id": id, "endpoint": "shop-1", "body": format!("id={id}") })
}

/// Gives a call to libraries that are not ours, in Python and in Rust, and to the programs of `docs/merchants.md`, in Python and
/// on Node.js. All agree. `key` is a secret or a public key.
async fn is_verified(call: &Call, key: &str) -> bool {
    let is_public = key.starts_with("whpk_");
    let timestamp = call.header("Webhook-Timestamp");
    let given = [
        call.header("Webhook-Id"),
        timestamp,
        call.header("Webhook-Signature"),
        key,
    ];
    let verifier = match is_public {
        true => "verify_v1a",
        false => "verify",
    };
    let mut verdicts = Vec::new();
    for (program, ending) in [(python(), "py"), (node(), "mjs")] {
        let file = format!("{verifier}.{ending}");
        let given: Vec<&str> = given.into_iter().chain([timestamp]).collect();
        let status = run_verifier(program, &file, &given, &call.body).await;
        verdicts.push(status == Some(0));
    }
    // The libraries of Standard Webhooks take texts alone.
    let is_text = std::str::from_utf8(&call.body).is_ok();
    if is_public || is_text {
        let file = "verify_with_libraries.py";
        match run_verifier(python(), file, &given, &call.body).await {
            Some(0) => verdicts.push(true),
            Some(3) => verdicts.push(false),
            status => panic!("the libraries do not run: {status:?}"),
        }
    }
    if !is_public && is_text {
        let library = standardwebhooks::Webhook::new(key).expect("a secret");
        let at_s = timestamp.parse().expect("seconds");
        let signed = library.sign(given[0], at_s, &call.body).expect("a text");
        verdicts.push(given[2].split(' ').any(|signature| signature == signed));
    }
    let agree = verdicts.iter().all(|verdict| *verdict == verdicts[0]);
    assert!(agree, "{key}: {verdicts:?}");
    verdicts[0]
}

/// The exit status of a program in `fixtures/verify` that gets this body.
async fn run_verifier(
    mut program: Command,
    file: &str,
    arguments: &[&str],
    body: &[u8],
) -> Option<i32> {
    let file = Path::new("fixtures/verify").join(file);
    let mut child = program
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("an interpreter");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(body).await.expect("written");
    drop(input);
    let ended = within("the verifier", child.wait()).await;
    ended.expect("a status").code()
}

/// Sends JSON, a form and bytes that are not UTF-8. Checks who verifies the calls, in which order they were signed,
/// and which ids the attempt shows. `signers` are ids with the secret or the public key.
async fn check_calls(
    server: &Server,
    merchant: &mut Merchant,
    stage: &str,
    signers: &[(&str, &str)],
    others: &[&str],
) {
    let bytes = STANDARD.encode([0xff, 0x00, 0xfe, b'.']);
    let bodies = [
        json!({ "body": { "order": 1, "name": "商户" } }),
        json!({ "body": "out_trade_no=1&total=8.88", "content_type": "application/x-www-form-urlencoded" }),
        json!({ "body_base64": bytes, "content_type": "application/octet-stream" }),
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        let id = format!("{stage}-{number}");
        let mut asked = naming(&id);
        let members = asked.as_object_mut().expect("an object");
        members.remove("body");
        members.extend(body.as_object().expect("an object").clone());
        server.register(asked).await;
        let call = merchant.call().await;
        let signatures: Vec<&str> = call.header("Webhook-Signature").split(' ').collect();
        assert_eq!(signatures.len(), signers.len(), "{stage}: {signatures:?}");
        for (position, (_, key)) in signers.iter().enumerate() {
            let mut alone = call.clone();
            for (name, value) in &mut alone.headers {
                if name.eq_ignore_ascii_case("webhook-signature") {
                    *value = signatures[position].to_string();
                }
            }
            assert!(is_verified(&alone, key).await, "{stage}: {position} alone");
            if number == 0 {
                assert!(is_verified(&call, key).await, "{stage}: among all");
                let mut forged = call.clone();
                forged.body.push(b' ');
                assert!(!is_verified(&forged, key).await, "{stage}: forged");
            }
        }
        for key in others.iter().filter(|_| number == 0) {
            assert!(!is_verified(&call, key).await, "{stage}: signs no more");
        }
        let view = server.until_state(&id, "delivered").await;
        // Without a journal attempts are not kept.
        if !matches!(server.config().journal, JournalConfig::None) {
            let ids: Vec<&str> = signers.iter().map(|(id, _)| *id).collect();
            assert_eq!(view["attempts"][0]["key_ids"], json!(ids), "{stage}");
        }
    }
}

async fn a_rotation_signs_with_both_keys_until_the_overlap_ends(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    let default = secret().expose().to_string();
    put(&server, &merchant, None).await;
    let (_, list) = server.call(Method::GET, "/v1/default-keys", None).await;
    let default_id = list["items"][0]["id"].as_str().expect("an id").to_string();
    let old = [(default_id.as_str(), default.as_str())];
    check_calls(&server, &mut merchant, "default", &old, &[GIVEN]).await;

    let (status, added) = add(&server, json!({ "secret": GIVEN, "overlap": "1h" })).await;
    assert_eq!(status, 201, "{added}");
    assert_eq!(added["kind"], "symmetric");
    assert!(added.get("secret").is_none(), "a given one is not shown");
    let first = added["id"].as_str().expect("an id").to_string();
    let both = [(first.as_str(), GIVEN), (&default_id, &default)];
    check_calls(&server, &mut merchant, "both", &both, &[]).await;

    server.clock().advance(3_600_000);
    let (status, added) = add(&server, json!({ "kind": "ed25519", "overlap": "2h" })).await;
    assert_eq!(status, 201, "{added}");
    assert!(
        added["secret"]
            .as_str()
            .expect("made here")
            .starts_with("whsk_")
    );
    let public = added["public_key"]
        .as_str()
        .expect("a public key")
        .to_string();
    let second = added["id"].as_str().expect("an id").to_string();
    let both = [(second.as_str(), public.as_str()), (&first, GIVEN)];
    check_calls(&server, &mut merchant, "kinds", &both, &[&default]).await;
    // What was decided survives a restart.
    let server = server.restart().await;
    server.clock().advance(7_200_000);
    let view = shown(&server).await;
    assert_eq!(view["keys"][0]["signs_until"], Value::Null);
    assert_eq!(view["keys"][1]["signs_until"], "2026-11-20T11:30:00.000Z");
    assert_eq!(view["keys"][0]["public_key"], public);
    assert!(view["keys"][0].get("secret").is_none());
    let new = [(second.as_str(), public.as_str())];
    check_calls(&server, &mut merchant, "new", &new, &[GIVEN, &default]).await;
    let path = format!("{KEYS}/{second}");
    let (status, problem) = server.call(Method::DELETE, &path, None).await;
    assert_eq!(status, 409, "{problem}");
    assert_eq!(problem["type"], "urn:ringback:problem:signing-key");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("then the default keys sign"), "{problem}");
    let (_, attempt) = server
        .call(Method::POST, "/v1/endpoints/shop-1/test", None)
        .await;
    assert_eq!(attempt["key_ids"], json!([second]), "{attempt}");
    server.stop().await;
}

async fn keys_can_be_replaced_and_requests_repeated(stores: Stores) {
    let merchant = Merchant::start().await;
    let server = start(stores).await;
    let (status, _) = add(&server, json!({})).await;
    assert_eq!(status, 404, "there is no endpoint");
    let given = Some(json!([{ "secret": GIVEN }]));
    let (status, made) = put(&server, &merchant, given.clone()).await;
    assert_eq!((status, &made["version"]), (201, &json!(1)), "{made}");
    assert!(!made.to_string().contains("C2FV"), "{made}");
    let (_, same) = put(&server, &merchant, given).await;
    assert_eq!(
        (&same["version"], &same["keys"]),
        (&json!(1), &made["keys"])
    );
    let (_, same) = put(&server, &merchant, None).await;
    assert_eq!(same, made, "left out: the keys stay");
    // The same secret again is no other key.
    let (status, same) = add(&server, json!({ "secret": GIVEN })).await;
    assert_eq!((status, &same["id"]), (200, &made["keys"][0]["id"]));
    let (status, added) = add(&server, json!({ "overlap": "1h" })).await;
    assert_eq!(status, 201);
    let (status, problem) = add(&server, json!({ "secret": GIVEN })).await;
    assert_eq!(status, 409, "it only signs along: {problem}");
    assert!(!problem.to_string().contains("C2FV"), "{problem}");
    let id = added["id"].as_str().expect("an id");
    let path = format!("{KEYS}/{id}");
    let (status, alone) = server.call(Method::GET, &path, None).await;
    assert_eq!((status, &alone["id"]), (200, &added["id"]));
    assert!(alone.get("secret").is_none(), "{alone}");
    let first = made["keys"][0]["id"].as_str().expect("an id");
    for (id, expected) in [(id, 409), ("key_0", 404), (first, 204), (first, 404)] {
        let path = format!("{KEYS}/{id}");
        let (status, problem) = server.call(Method::DELETE, &path, None).await;
        assert_eq!(status, expected, "{problem}");
    }
    let (status, problem) = add(&server, json!({ "secret": "whsec_x", "overlap": "31d" })).await;
    assert_eq!(status, 422);
    assert_eq!(
        problem["errors"].as_array().map(Vec::len),
        Some(2),
        "{problem}"
    );
    for number in 1..10 {
        let (status, added) = add(&server, json!({})).await;
        assert_eq!(status, 201, "{number}: {added}");
    }
    let (status, problem) = add(&server, json!({})).await;
    assert_eq!(status, 409, "{problem}");
    let (_, list) = server.call(Method::GET, "/v1/endpoints", None).await;
    let listed = &list["items"][0]["keys"];
    assert_eq!(listed.as_array().map(Vec::len), Some(10));
    let path = "/v1/endpoints/shop-1";
    let null = Some(json!({ "keys": null }));
    let (status, problem) = server.call(Method::PATCH, path, null).await;
    assert_eq!(status, 422, "{problem}");
    let patch = Some(json!({ "keys": [] }));
    let (_, patched) = server.call(Method::PATCH, path, patch).await;
    assert_eq!(patched["keys"], json!([]), "{patched}");
    let wrong = json!({ "url": merchant.url("/n"), "ladder": GIVEN, "ack": GIVEN, GIVEN: 1 });
    let (status, problem) = server.call(Method::PUT, path, Some(wrong)).await;
    assert_eq!(status, 422);
    assert!(!problem.to_string().contains("C2FV"), "{problem}");
    let (status, _) = server.call(Method::DELETE, path, None).await;
    assert_eq!(status, 204);
    let (status, problem) = server
        .call(Method::DELETE, &format!("{KEYS}/{first}"), None)
        .await;
    assert_eq!(status, 404, "the endpoint was removed: {problem}");
    server.stop().await;
}

/// A server beside another one, with a directory of its own.
async fn beside(first: &Server, change: impl FnOnce(&mut ServeConfig)) -> (Server, TempDir) {
    let mut config = first.config().clone();
    let dir = tempfile::tempdir().expect("a temporary directory");
    config.data_dir = dir.path().to_path_buf();
    change(&mut config);
    (Server::open(config, None, None).await, dir)
}

/// Waits until a server knows so many keys from its own reading.
async fn until_known(server: &Server, count: usize) {
    let known = async {
        loop {
            let (_, page) = server.call(Method::GET, "/v1/endpoints", None).await;
            if page["items"][0]["keys"].as_array().map(Vec::len) == Some(count) {
                return;
            }
            short_pause().await;
        }
    };
    within("the other server to know the keys", known).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_on_one_server_holds_on_the_other() {
    let mut merchant = Merchant::start().await;
    let (config, dir) = with_master_key(Stores::Postgres);
    let first = Server::open(config, None, Some(dir)).await;
    let (second, _dir) = beside(&first, |_| {}).await;
    put(&first, &merchant, Some(json!([{ "secret": GIVEN }]))).await;
    until_known(&second, 1).await;
    let (_, added) = add(&first, json!({ "kind": "ed25519" })).await;
    until_known(&second, 2).await;
    first.stop().await;
    second.register(naming("a")).await;
    let call = merchant.call().await;
    let public = added["public_key"].as_str().expect("a public key");
    assert!(is_verified(&call, public).await);
    assert!(is_verified(&call, GIVEN).await);
    second.until_state("a", "delivered").await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_master_key_nothing_is_sent_until_a_server_has_it() {
    let mut merchant = Merchant::start().await;
    let (mut config, dir) = with_master_key(Stores::Postgres);
    let given = config.master_key.take();
    // It starts before there is anything that it could not open.
    let second = Server::open(config, None, Some(dir)).await;
    let (first, _dir) = beside(&second, |config| config.master_key = given).await;
    let mut third = first.config().clone();
    third.master_key = master_key(8);
    let error = App::start(third).await.err().expect("another master key");
    let error = format!("{error:#}");
    assert!(error.contains("fingerprint"), "{error}");
    put(&first, &merchant, None).await;
    let (status, problem) = add(&second, json!({})).await;
    assert_eq!(status, 409, "{problem}");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("--master-key"), "{detail}");
    let (status, _) = add(&first, json!({ "secret": GIVEN, "overlap": "0s" })).await;
    assert_eq!(status, 201);
    until_known(&second, 1).await;
    let with_key = first.config().clone();
    first.stop().await;
    second.register(naming("a")).await;
    let warned = async {
        loop {
            let (status, ready) = second.call(Method::GET, "/readyz", None).await;
            assert_eq!(status, 200, "{ready}");
            // The route needs no key, so it does not name the endpoint.
            assert!(!ready.to_string().contains("shop-1"), "{ready}");
            if (ready["warnings"].to_string()).contains("a signing key of 1 endpoints") {
                return;
            }
            short_pause().await;
        }
    };
    within("the warning", warned).await;
    let url = format!("{}/metrics", second.url());
    let text = reqwest::get(url).await.expect("answered").text().await;
    let text = text.expect("a text");
    assert!(text.contains("ringback_unusable_endpoints 1"), "{text}");
    assert!(merchant.arrived().is_none(), "nothing is sent unsigned");
    let (_, attempt) = second
        .call(Method::POST, "/v1/endpoints/shop-1/test", None)
        .await;
    assert_eq!(attempt["outcome"], "blocked", "{attempt}");
    // It would not start again, and says why in one line.
    let own = second.config().clone();
    let error = App::start(own).await.err().expect("no master key");
    let error = format!("{error:#}");
    assert!(
        error.contains("no master key") && !error.contains('\n'),
        "{error}"
    );
    // It says why "a" waits as soon as that is noticeable; a shorter time would not be in the record of the attempt either.
    let overdue = async {
        loop {
            let view = second.get("a").await;
            if let Some(because) = view["waiting_because"].as_str() {
                return because.to_owned();
            }
            short_pause().await;
        }
    };
    let because = within("the reason why it waits", overdue).await;
    assert!(because.contains("key"), "{because}");
    let able = Server::open(with_key, None, None).await;
    let call = merchant.call().await;
    assert!(is_verified(&call, GIVEN).await);
    let view = able.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1, "no attempt was spent: {view}");
    // The other server put it off, and this one says so.
    assert_eq!(view["attempts"][0]["deferred_by"], "keys", "{view}");
    second.stop().await;
    able.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_its_master_key_does_not_start() {
    let merchant = Merchant::start().await;
    let (config, dir) = with_master_key(Stores::Embedded);
    let server = Server::open(config.clone(), None, None).await;
    let file = dir.path().join(MASTER_KEY_FILE);
    put(&server, &merchant, None).await;
    let (status, _) = add(&server, json!({})).await;
    assert_eq!(status, 201);
    let mode = std::fs::metadata(&file).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.stop().await;
    let refused = async |config: ServeConfig, expected: &str| {
        let error = App::start(config).await.err().expect(expected);
        let error = format!("{error:#}");
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    };
    let mut other = config.clone();
    other.master_key = master_key(9);
    refused(other, "fingerprint").await;
    let kept = std::fs::read(&file).expect("there");
    std::fs::remove_file(&file).expect("removed");
    refused(config.clone(), "there is no file").await;
    assert!(!file.exists(), "no other one is made");
    std::fs::write(&file, kept).expect("written");
    Server::open(config, None, None).await.stop().await;
}
