//! The default keys: the first one, rotations on several servers, and servers that do not belong together.

use super::on_journaled_stores;
use crate::support::merchant::{Call, Merchant};
use crate::support::postgres::connect;
use crate::support::process::Process;
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration, secret};
use crate::support::signing::{
    DEFAULT_KEYS, GIVEN, add, added, beside, listed, other, with_master_key,
};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::app::App;
use ringback::clock::ManualClock;
use ringback::config::JournalConfig;
use ringback::domain::signature::{SecretOrigin, SigningSecret};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::process::Command;

on_journaled_stores!(
    a_rotation_signs_with_both_until_the_overlap_ends,
    a_secret_that_the_journal_does_not_have_is_refused,
);

const KEPT: &str = "kept:default-secret";

/// What the journal remembers.
async fn remembered(database: &str) -> String {
    let query = sqlx::query_scalar("SELECT value FROM meta WHERE name = $1").bind(KEPT);
    let mut connection = connect(database).await;
    query.fetch_one(&mut connection).await.expect("remembered")
}

/// Writes what a server with this secret would have written at its start.
async fn remember(database: &str, secret: &SigningSecret) {
    let query = sqlx::query("UPDATE meta SET value = $2 WHERE name = $1");
    let mut connection = connect(database).await;
    let query = query.bind(KEPT).bind(secret.fingerprint());
    query.execute(&mut connection).await.expect("written");
}

/// Waits until `/readyz` warns of the secret, or does so no more.
async fn until_warned(server: &Server, expected: bool) {
    let warned = async {
        loop {
            let (status, ready): (u16, Value) = server.call(Method::GET, "/readyz", None).await;
            assert_eq!(status, 200, "{ready}");
            if ready["warnings"]
                .to_string()
                .contains("another default secret")
                == expected
            {
                return;
            }
            short_pause().await;
        }
    };
    within("the warning", warned).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_default_secret_than_the_others_sends_nothing() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Postgres).await;
    let JournalConfig::Postgres(url) = &server.config().journal else {
        panic!("a journal in PostgreSQL");
    };
    let database = url.expose().to_string();
    assert_eq!(remembered(&database).await, secret().fingerprint());
    remember(&database, &SigningSecret::from_random(&[9; 32])).await;
    until_warned(&server, true).await;
    server.register(registration("a", &merchant)).await;
    let is_asked_for = server.call(Method::POST, "/v1/notifications/t/a/retry", None);
    is_asked_for.await;
    assert!(merchant.arrived().is_none(), "nothing is sent");
    remember(&database, &secret()).await;
    until_warned(&server, false).await;
    merchant.call().await;
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1, "no attempt was spent: {view}");
    let server = server
        .restart_as(|config| config.delivery.signing_secret = SigningSecret::from_random(&[9; 32]))
        .await;
    let expected = SigningSecret::from_random(&[9; 32]).fingerprint();
    assert_eq!(remembered(&database).await, expected, "the others are told");
    server.stop().await;
}

/// Sends one and checks which of these secrets sign it, and which ids its attempt shows.
async fn check(
    server: &Server,
    merchant: &mut Merchant,
    id: &str,
    signers: &[(&str, &SigningSecret)],
    others: &[&SigningSecret],
) {
    server.register(registration(id, merchant)).await;
    let call = merchant.call().await;
    let signatures = call.header("Webhook-Signature").split(' ').count();
    assert_eq!(signatures, signers.len(), "{id}");
    for (_, secret) in signers {
        assert!(call.is_signed_by(secret), "{id}");
    }
    for secret in others {
        assert!(!call.is_signed_by(secret), "{id}");
    }
    let view = server.until_state(id, "delivered").await;
    let ids: Vec<&str> = signers.iter().map(|(id, _)| *id).collect();
    assert_eq!(view["attempts"][0]["key_ids"], json!(ids), "{id}");
}

async fn a_rotation_signs_with_both_until_the_overlap_ends(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let (config, dir) = with_master_key(stores);
    let clock = Some(ManualClock::at(BEGIN_MS));
    let server = Server::open(config, clock, Some(dir)).await;
    let keys = listed(&server).await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    let first = &keys[0];
    let (old, given) = (secret(), SigningSecret::parse(GIVEN).expect("a secret"));
    let before = [(first.as_str(), &old)];
    check(&server, &mut merchant, "before", &before, &[&given]).await;

    let (status, new) = add(&server, json!({ "secret": GIVEN, "overlap": "1h" })).await;
    assert_eq!(status, 201, "{new}");
    assert!(!new.to_string().contains("C2FV"), "{new}");
    let second = new["id"].as_str().expect("an id").to_string();
    let (status, same) = add(&server, json!({ "secret": GIVEN })).await;
    assert_eq!((status, &same["id"]), (200, &new["id"]), "{same}");
    let both = [(second.as_str(), &given), (first.as_str(), &old)];
    check(&server, &mut merchant, "both", &both, &[]).await;
    let own = json!({ "secret": old.expose() });
    let (status, problem) = add(&server, own).await;
    assert_eq!(status, 409, "{problem}");
    assert!(!problem.to_string().contains(old.expose()), "{problem}");

    // It is still given the secret that it was started with first.
    let server = server.restart().await;
    check(&server, &mut merchant, "again", &both, &[]).await;
    server.clock().advance(3_600_000);
    let after = [(second.as_str(), &given)];
    check(&server, &mut merchant, "after", &after, &[&old]).await;

    let (third, made) = added(&server, "1h").await;
    assert_eq!(listed(&server).await, [third.as_str(), second.as_str()]);
    for (id, expected) in [(&third, 409), (&second, 204), (&second, 404), (first, 404)] {
        let path = format!("{DEFAULT_KEYS}/{id}");
        let (status, problem) = server.call(Method::DELETE, &path, None).await;
        assert_eq!(status, expected, "{problem}");
    }
    let path = format!("{DEFAULT_KEYS}/{third}");
    let (status, shown) = server.call(Method::GET, &path, None).await;
    assert_eq!((status, &shown["id"]), (200, &json!(third)));
    assert!(shown.get("secret").is_none(), "{shown}");
    let server = server.restart().await;
    let last = [(third.as_str(), &made)];
    check(&server, &mut merchant, "last", &last, &[&old, &given]).await;
    server.stop().await;
}

async fn a_secret_that_the_journal_does_not_have_is_refused(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let (config, dir) = with_master_key(stores);
    let server = Server::open(config.clone(), None, Some(dir)).await;
    let keys = listed(&server).await;
    let stopped = server.restart_as(|config| {
        // The one in the data directory is not used, and no error.
        config.delivery.signing_secret = other(43);
        config.delivery.secret_origin = SecretOrigin::Kept;
    });
    let server = stopped.await;
    assert_eq!(listed(&server).await, keys);
    check(
        &server,
        &mut merchant,
        "kept",
        &[(&keys[0], &secret())],
        &[&other(43)],
    )
    .await;
    let mut given = server.config().clone();
    given.delivery.secret_origin = SecretOrigin::Given;
    let dir = server.stop_and_keep().await;
    let error = App::start(given).await.err().expect("it is refused");
    let error = format!("{error:#}");
    assert!(error.starts_with("--signing-secret: "), "{error}");
    assert!(
        error.contains("default-key add") && !error.contains('\n'),
        "{error}"
    );
    assert!(!error.contains(other(43).expose()), "{error}");
    Server::open(config, None, dir).await.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_at_once_sign_alike() {
    check_that_three_started_at_once_sign_alike(Stores::Postgres).await;
}

/// Each has a secret of its own in its data directory, and finds no default key when it starts.
pub async fn check_that_three_started_at_once_sign_alike(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let (config, _dir) = with_master_key(stores);
    let starting = [50, 51, 52].map(|byte| {
        let (mut own, dir) = beside(&config);
        own.delivery.signing_secret = other(byte);
        own.delivery.secret_origin = SecretOrigin::Kept;
        Server::open(own, None, Some(dir))
    });
    let servers = futures_util::future::join_all(starting).await;
    let keys = listed(&servers[0]).await;
    assert_eq!(keys.len(), 1);
    let mut signer = None;
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(listed(server).await, keys);
        server
            .register(registration(&number.to_string(), &merchant))
            .await;
        let call = merchant.call().await;
        let by = (50..53).find(|byte| call.is_signed_by(&other(*byte)));
        assert!(by.is_some(), "by one of theirs");
        assert_eq!(*signer.get_or_insert(by), by, "always the same");
    }
    for server in servers {
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_default_key_rotates_two_servers_sign_what_verifies() {
    const EACH: usize = 40;
    let mut merchant = Merchant::start().await;
    let (config, dir) = with_master_key(Stores::Postgres);
    let one = Server::open(config.clone(), None, Some(dir)).await;
    let (other, other_dir) = beside(&config);
    let two = Server::open(other, None, Some(other_dir)).await;
    let first = listed(&one).await.remove(0);
    let send = async |round: &str, merchant: &Merchant| {
        for number in 0..EACH {
            let asked = registration(&format!("{round}-{number}"), merchant);
            let server = if number % 2 == 0 { &one } else { &two };
            server.register(asked).await;
            if number == EACH / 2 && round.starts_with("rotate") {
                added(server, "1h").await;
            }
        }
    };
    let is_by_two = |call: &Call| call.header("User-Agent") == "the-other";
    let mut senders = [0, 0];
    for round in 0..4 {
        send(&format!("rotate-{round}"), &merchant).await;
        for _ in 0..EACH {
            let call = merchant.call().await;
            senders[usize::from(is_by_two(&call))] += 1;
            assert!(call.is_signed_by(&secret()), "during the overlap: {round}");
        }
    }
    assert!(senders.iter().all(|sent| *sent > 0), "{senders:?}");
    // Both learn of the last one. Then the first is removed, and a receiver that has changed over accepts every call.
    let (_, newest) = added(&two, "1h").await;
    let mut knows = [false, false];
    for round in 0.. {
        send(&format!("learn-{round}"), &merchant).await;
        for _ in 0..EACH {
            let call = merchant.call().await;
            knows[usize::from(is_by_two(&call))] |= call.is_signed_by(&newest);
        }
        if knows == [true, true] {
            break;
        }
    }
    let path = format!("{DEFAULT_KEYS}/{first}");
    let (status, problem) = one.call(Method::DELETE, &path, None).await;
    assert_eq!(status, 204, "{problem}");
    send("removed", &merchant).await;
    for _ in 0..EACH {
        assert!(merchant.call().await.is_signed_by(&newest));
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_the_master_key_signs_with_the_only_key_until_another_one_is_added() {
    let mut merchant = Merchant::start().await;
    // An older journal: no default key in it, since no server has a master key.
    let (mut config, dir) = with_master_key(Stores::Postgres);
    let master = config.master_key.take();
    let without = Server::open(config, None, Some(dir)).await;
    assert_eq!(listed(&without).await, [""; 0]);
    check(
        &without,
        &mut merchant,
        "older",
        &[("default", &secret())],
        &[],
    )
    .await;
    let (status, problem) = add(&without, json!({})).await;
    assert_eq!(status, 409, "{problem}");
    let (mut other, _other_dir) = beside(without.config());
    other.master_key = master;
    let with = Server::open(other, None, None).await;
    let keys = listed(&with).await;
    with.register(registration("a", &merchant)).await;
    assert!(merchant.call().await.is_signed_by(&secret()));
    with.until_state("a", "delivered").await;
    let config = with.config().clone();
    with.stop().await;
    // This one has learnt of the key in the meantime, and has its secret.
    without.register(registration("b", &merchant)).await;
    assert!(merchant.call().await.is_signed_by(&secret()));
    without.until_state("b", "delivered").await;

    let with = Server::open(config, None, None).await;
    let (status, added) = add(&with, json!({ "secret": GIVEN, "overlap": "0s" })).await;
    assert_eq!(status, 201, "{added}");
    let warned = async {
        loop {
            let (_, ready) = without.call(Method::GET, "/readyz", None).await;
            if ready["warnings"]
                .to_string()
                .contains("cannot open the default key")
            {
                return;
            }
            short_pause().await;
        }
    };
    within("the warning", warned).await;
    let given = SigningSecret::parse(GIVEN).expect("a secret");
    for number in 0..20 {
        let asked = registration(&format!("n{number}"), &merchant);
        without.register(asked).await;
        let call = merchant.call().await;
        assert!(call.is_signed_by(&given), "{number}");
        assert!(!call.is_signed_by(&secret()), "{number}");
    }
    assert_ne!(listed(&with).await, keys);
    with.stop().await;
    without.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_ends_with_status_2_and_says_what_is_to_be_done() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &[]).await;
    server.signal("TERM").await;
    assert!(server.ended().await.success());
    let run = Command::new(env!("CARGO_BIN_EXE_ringback"))
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--log",
            "off",
            "--data-dir",
        ])
        .arg(dir.path())
        .args(["--signing-secret", GIVEN])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let output = within("the program to end", run).await.expect("an output");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(
        lines[0].starts_with("ringback: --signing-secret: "),
        "{text}"
    );
    assert!(!text.contains("C2FV"), "{text}");
    // The one that it made goes on.
    let server = Process::start(dir.path(), &[]).await;
    server.kill().await;
}
