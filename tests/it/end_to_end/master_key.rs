//! Changing the master key: with the real command, beside servers, interrupted, and again.

use super::on_journaled_stores;
use crate::cli::program::run;
use crate::support::merchant::{Call, Merchant};
use crate::support::postgres::connect;
use crate::support::ringback::{Server, Stores, config, registration, secret};
use crate::support::signing::GIVEN;
use crate::support::tls::Identity;
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::{
    JournalConfig, MASTER_KEY_FILE, NEW_MASTER_KEY_FILE, ServeConfig, read_master_key,
};
use ringback::domain::master_key::MasterKey;
use ringback::domain::signature::SigningSecret;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::Command;

on_journaled_stores!(everything_is_signed_as_before_after_a_change);

const SHOP: &str = "/v1/endpoints/shop-1";

/// A configuration whose master key is in the data directory, also where it has to be given.
fn with_master_key(stores: Stores) -> (ServeConfig, TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), stores);
    if stores == Stores::Postgres {
        config.master_key = Some(made(&dir.path().join(MASTER_KEY_FILE)));
    }
    (config, dir)
}

fn made(file: &Path) -> MasterKey {
    ringback::config::read_or_make_master_key_at(file).expect("a master key")
}

fn is_signed_by(call: &Call, secret: &str) -> bool {
    call.is_signed_by(&SigningSecret::parse(secret).expect("a secret"))
}

/// An endpoint with two keys and a client certificate, and one that was removed.
async fn set_up(server: &Server, merchant: &Merchant) {
    let client = Identity::self_signed(&["client"], |_| {});
    let endpoint = json!({
        "url": merchant.url("/n"), "keys": [{ "secret": GIVEN }],
        "client_certificate": client.certificate_pem(), "client_key": client.key_pem(),
    });
    for name in ["shop-1", "shop-2"] {
        let path = format!("/v1/endpoints/{name}");
        let set = server.call(Method::PUT, &path, Some(endpoint.clone()));
        let (status, shown) = set.await;
        assert_eq!(status, 201, "{shown}");
    }
    let added = server
        .call(Method::POST, &format!("{SHOP}/keys"), None)
        .await;
    assert_eq!(added.0, 201, "{}", added.1);
    let removed = server.call(Method::DELETE, "/v1/endpoints/shop-2", None);
    assert_eq!(removed.await.0, 204);
}

/// Sends one to the endpoint and one to a URL, and checks what signs them.
async fn check(server: &Server, merchant: &mut Merchant, stage: &str) {
    let id = format!("{stage}-endpoint");
    let naming = json!({ "topic": "t", "id": id, "endpoint": "shop-1", "body": "x" });
    server.register(naming).await;
    assert!(is_signed_by(&merchant.call().await, GIVEN), "{stage}");
    let view = server.until_state(&id, "delivered").await;
    assert_eq!(view["attempts_made"], 1, "{stage}: {view}");
    let id = format!("{stage}-default");
    server.register(registration(&id, merchant)).await;
    let call = merchant.call().await;
    assert!(is_signed_by(&call, secret().expose()), "{stage}");
    server.until_state(&id, "delivered").await;
}

/// Runs the command. `flags` come after those that name the stores.
fn change(config: &ServeConfig, flags: &[&str]) -> (i32, String, String) {
    let journal = match &config.journal {
        JournalConfig::Sqlite(path) => format!("sqlite://{}", path.display()),
        JournalConfig::Postgres(url) => url.expose().to_string(),
        JournalConfig::None => "none".to_string(),
    };
    let dir = config.data_dir.to_str().expect("UTF-8");
    let stores = [
        "master-key",
        "change",
        "--journal",
        &journal,
        "--data-dir",
        dir,
    ];
    let finished = run(Path::new("."), &[&stores[..], flags].concat(), &[]);
    assert!(!finished.stderr.contains("rbmk_") && !finished.stdout.contains("rbmk_"));
    (finished.status, finished.stdout, finished.stderr)
}

async fn everything_is_signed_as_before_after_a_change(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let (config, dir) = with_master_key(stores);
    let server = Server::open(config.clone(), None, None).await;
    set_up(&server, &merchant).await;
    check(&server, &mut merchant, "before").await;
    server.stop().await;
    let old = read_master_key(dir.path())
        .expect("readable")
        .expect("there");
    let (present, new) = (dir.path().join(MASTER_KEY_FILE), dir.path().join("new"));
    let [present, new] = [&present, &new].map(|path| path.to_str().expect("UTF-8"));
    let flags = match stores {
        Stores::Postgres => vec!["--master-key-file", present, "--new-master-key-file", new],
        _ => Vec::new(),
    };
    let (status, out, errors) = change(&config, &flags);
    assert_eq!((status, &*errors), (0, ""), "{out}");
    let counted = "encrypted again: 1 default keys, 3 signing keys of endpoints, 2 keys of client certificates\n";
    assert!(out.starts_with(counted), "{out}");
    let mut config = config;
    if stores == Stores::Postgres {
        config.master_key = Some(made(Path::new(new)));
        // The same again changes nothing, and says it in JSON too.
        let (status, out, errors) = change(&config, &[&flags[..], &["--json"]].concat());
        assert_eq!((status, &*errors), (0, ""), "{out}");
        let said: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(
            (&said["already"], &said["default_keys"]),
            (&json!(6), &json!(0)),
            "{said}"
        );
        assert_eq!(
            said["unopened"],
            json!({ "total": 0, "named": [] }),
            "{said}"
        );
        assert_eq!(said["file"], *new, "{said}");
        let (status, out, _) = change(&config, &flags);
        assert_eq!(status, 0, "{out}");
        assert!(out.contains("with the new master key before: 6\n"), "{out}");
    } else {
        let now = read_master_key(dir.path())
            .expect("readable")
            .expect("there");
        assert_ne!(now.fingerprint(), old.fingerprint());
        assert!(!dir.path().join(NEW_MASTER_KEY_FILE).exists());
    }
    let server = Server::open(config, None, Some(dir)).await;
    check(&server, &mut merchant, "after").await;
    // The endpoint that was removed can be used again as it was.
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_beside_a_server_with_sqlite_is_refused_and_wrong_keys_change_nothing() {
    let mut merchant = Merchant::start().await;
    let (config, dir) = with_master_key(Stores::Embedded);
    let server = Server::open(config.clone(), None, None).await;
    set_up(&server, &merchant).await;
    let (status, _, errors) = change(&config, &[]);
    assert_eq!(status, 1);
    assert!(errors.contains("in use by another server"), "{errors}");
    server.stop().await;
    let other = dir.path().join("other");
    made(&other);
    let other = other.to_str().expect("UTF-8");
    let new = dir.path().join("new");
    let new = new.to_str().expect("UTF-8");
    for (flags, expected_status, expected) in [
        (
            vec!["--master-key-file", other, "--new-master-key-file", new],
            1,
            "neither the present one",
        ),
        (
            vec!["--master-key-file", other],
            2,
            "--new-master-key-file: name",
        ),
        (
            vec!["--master-key-file", other, "--new-master-key-file", other],
            2,
            "this is the present master key",
        ),
    ] {
        let (status, _, errors) = change(&config, &flags);
        assert_eq!(status, expected_status, "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    let server = Server::open(config, None, None).await;
    check(&server, &mut merchant, "unchanged").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_died_before_the_file_was_replaced_is_completed_by_the_server() {
    let mut merchant = Merchant::start().await;
    let (config, dir) = with_master_key(Stores::Embedded);
    let server = Server::open(config.clone(), None, None).await;
    set_up(&server, &merchant).await;
    server.stop().await;
    let old = read_master_key(dir.path())
        .expect("readable")
        .expect("there");
    // What is there if it dies right after its transaction: the present master key still has its name.
    let [present, new] = [MASTER_KEY_FILE, NEW_MASTER_KEY_FILE].map(|name| dir.path().join(name));
    let [present, new_file] = [&present, &new].map(|path| path.to_str().expect("UTF-8"));
    let flags = [
        "--master-key-file",
        present,
        "--new-master-key-file",
        new_file,
    ];
    let (status, _, errors) = change(&config, &flags);
    assert_eq!(status, 0, "{errors}");
    let kept = read_master_key(dir.path())
        .expect("readable")
        .expect("there");
    assert_eq!(kept.fingerprint(), old.fingerprint());
    assert!(new.exists());
    let server = Server::open(config.clone(), None, None).await;
    check(&server, &mut merchant, "completed").await;
    server.stop().await;
    assert!(!new.exists());
    let kept = read_master_key(dir.path())
        .expect("readable")
        .expect("there");
    assert_ne!(kept.fingerprint(), old.fingerprint());
    let names = std::fs::read_dir(dir.path()).expect("readable");
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert_eq!(
        names.filter(|name| name.starts_with("master-key")).count(),
        2,
        "the present one and the old one"
    );
    Server::open(config, None, None).await.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_killed_half_way_changes_nothing_and_can_be_made_again() {
    let mut merchant = Merchant::start().await;
    let (config, dir) = with_master_key(Stores::Postgres);
    let JournalConfig::Postgres(url) = &config.journal else {
        panic!("a journal in PostgreSQL");
    };
    let database = url.expose().to_string();
    let server = Server::open(config.clone(), None, None).await;
    set_up(&server, &merchant).await;
    // The rows of the endpoints are resealed, then it waits for those of the default keys, which this locks.
    let mut locking = connect(&database).await;
    for lock in ["BEGIN", "SELECT id FROM default_keys FOR UPDATE"] {
        sqlx::query(lock)
            .execute(&mut locking)
            .await
            .expect("locked");
    }
    let [present, new] = [MASTER_KEY_FILE, "new"].map(|name| dir.path().join(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringback"))
        .args(["master-key", "change", "--journal", &database])
        .arg("--master-key-file")
        .arg(&present)
        .arg("--new-master-key-file")
        .arg(&new)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the program");
    let mut watching = connect(&database).await;
    let waiting = async {
        loop {
            let waits = sqlx::query_scalar::<_, i64>(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                 AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM default_keys%'",
            );
            if waits.fetch_one(&mut watching).await.expect("read") > 0 {
                return;
            }
            short_pause().await;
        }
    };
    within("the command to be half-way", waiting).await;
    command.kill().await.expect("it is ours to kill");
    sqlx::query("ROLLBACK")
        .execute(&mut locking)
        .await
        .expect("unlocked");
    // The old master key opens everything.
    check(&server, &mut merchant, "killed").await;
    let server = server.restart().await;
    check(&server, &mut merchant, "restarted").await;
    server.stop().await;
    let [present, new_file] = [&present, &new].map(|path| path.to_str().expect("UTF-8"));
    let flags = [
        "--master-key-file",
        present,
        "--new-master-key-file",
        new_file,
    ];
    let (status, out, errors) = change(&config, &flags);
    assert_eq!(status, 0, "{errors}");
    assert!(
        out.contains("encrypted with the new master key before: 0\n"),
        "{out}"
    );
    let mut config = config;
    config.master_key = Some(made(&new));
    let server = Server::open(config, None, Some(dir)).await;
    check(&server, &mut merchant, "after").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_with_both_master_keys_go_on_and_one_with_the_old_one_leaves_it_to_them() {
    let mut merchant = Merchant::start().await;
    let (mut config, dir) = with_master_key(Stores::Postgres);
    let new = dir.path().join("new");
    let old_only = Server::open(config.clone(), None, None).await;
    config.other_master_key = Some(made(&new));
    let both = Server::open(config.clone(), None, None).await;
    set_up(&both, &merchant).await;
    check(&old_only, &mut merchant, "before").await;
    let present = dir.path().join(MASTER_KEY_FILE);
    let [present, new_file] = [&present, &new].map(|path| path.to_str().expect("UTF-8"));
    let flags = [
        "--master-key-file",
        present,
        "--new-master-key-file",
        new_file,
    ];
    let (status, _, errors) = change(&config, &flags);
    assert_eq!(status, 0, "{errors}");
    // The one with the old master key alone learns of it, and leaves the endpoint to the other one.
    let warned = async {
        for number in 0.. {
            let naming = json!({ "topic": "t", "id": format!("n{number}"), "endpoint": "shop-1", "body": "x" });
            old_only.register(naming).await;
            assert!(is_signed_by(&merchant.call().await, GIVEN), "{number}");
            let (status, ready) = old_only.call(Method::GET, "/readyz", None).await;
            assert_eq!(status, 200, "{ready}");
            let warnings = ready["warnings"].to_string();
            assert!(!warnings.contains("shop-1"), "{warnings}");
            if warnings.contains("a signing key of 1 endpoints") {
                assert!(warnings.contains("master key"), "{warnings}");
                return;
            }
        }
    };
    within("the warning", warned).await;
    check(&old_only, &mut merchant, "changed").await;
    old_only.stop().await;
    let (status, problem) = both.call(Method::POST, &format!("{SHOP}/keys"), None).await;
    assert_eq!(status, 409, "it still encrypts with the old one: {problem}");
    let both = both.restart().await;
    check(&both, &mut merchant, "restarted").await;
    let (status, problem) = both.call(Method::POST, &format!("{SHOP}/keys"), None).await;
    assert_eq!(status, 201, "{problem}");
    both.stop().await;
    config.master_key = config.other_master_key.take();
    let server = Server::open(config, None, Some(dir)).await;
    check(&server, &mut merchant, "after").await;
    server.stop().await;
}
