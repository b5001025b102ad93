//! The program as its operators run it: killed, stopped gently, started again.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::postgres::PostgresServer;
use crate::support::process::Process;
use crate::support::redis::{RedisServer, documented_rights};
use crate::support::ringback::{CLUSTER_PARTITIONS, Server, Stores, registration};
use crate::support::{postgres, redis, redis_shared};
use serde_json::json;
use std::time::{Duration, Instant};

/// The kinds of store that the program is run on.
pub const KINDS: [Stores; 3] = [Stores::Embedded, Stores::Redis, Stores::Postgres];

/// Arguments for each kind of store.
pub fn arguments(stores: Stores) -> Vec<String> {
    let redis_at = |url: String| ["--redis".to_string(), url];
    let redis = || redis_at(redis::fresh_database());
    let postgres = || ["--journal".to_string(), postgres::fresh_database()];
    let none = || ["--journal", "none"].map(String::from);
    let cluster = || {
        let partitions = ["--partitions".to_string(), CLUSTER_PARTITIONS.to_string()];
        [redis_at(redis_shared::fresh_cluster()), partitions].concat()
    };
    match stores {
        Stores::Embedded => Vec::new(),
        Stores::Redis => redis().to_vec(),
        Stores::Postgres => [redis(), postgres()].concat(),
        Stores::RedisOnly => [redis(), none()].concat(),
        Stores::Sentinel => [
            redis_at(redis_shared::fresh_sentinel_database()),
            postgres(),
        ]
        .concat(),
        Stores::Cluster => [cluster(), postgres().to_vec()].concat(),
        Stores::ClusterOnly => [cluster(), none().to_vec()].concat(),
    }
}

pub async fn start(dir: &std::path::Path, arguments: &[String]) -> Process {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Process::start(dir, &arguments).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_at_start_what_it_runs_on_and_no_password() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &[]).await;
    let ready = server.ready();
    assert_eq!(ready["version"], env!("CARGO_PKG_VERSION"));
    let journal = ready["journal"].as_str().expect("a text");
    let file = dir.path().to_str().expect("UTF-8");
    assert!(
        journal.starts_with(&format!("sqlite://{file}/")),
        "{journal}"
    );
    assert_eq!(
        (&ready["schedule"], &ready["needs_api_key"]),
        (&json!("memory"), &json!(false))
    );
    server.kill().await;

    let redis_server = RedisServer::start_for(&documented_rights(), &[]);
    let redis = redis_server.user_url(0);
    let mut journal = url::Url::parse(&postgres::fresh_database()).expect("a URL");
    // The test's server asks for none.
    let password = journal.password().unwrap_or("hunter2").to_string();
    journal.set_password(Some(&password)).expect("has a host");
    let stores = [
        "--redis",
        &redis,
        "--journal",
        journal.as_str(),
        "--api-key",
        "operators-own-key",
    ];
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &stores).await;
    let ready = server.ready();
    assert_eq!(ready["needs_api_key"], true);
    let shown = |name: &str| ready[name].as_str().expect("a text").to_string();
    assert!(
        shown("schedule").contains(&redis_server.address()),
        "{ready}"
    );
    let (place, database) = (journal.host_str().expect("a host"), journal.path());
    assert!(
        shown("journal").starts_with(&format!("postgres://{place}:")),
        "{ready}"
    );
    assert!(shown("journal").ends_with(database), "{ready}");
    let text = ready.to_string();
    for secret in ["PASSWORD", &password, "operators-own-key"] {
        assert!(!text.contains(secret), "{text}");
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_writes_no_core_file_which_would_have_its_keys() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Process::start(dir.path(), &[]).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id()));
    let limits = limits.expect("the limits of the process");
    let mut lines = limits.lines();
    let core = lines.find_map(|line| line.strip_prefix("Max core file size"));
    let values: Vec<&str> = core.expect("a limit").split_whitespace().collect();
    assert_eq!(values, ["0", "0", "bytes"]);
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_started_again_nothing_accepted_is_missing() {
    for stores in KINDS {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let arguments = arguments(stores);
        let mut merchant = Merchant::start().await;
        let server = start(dir.path(), &arguments).await;
        // Answered registrations, and the kill right behind the last answer.
        let began = Instant::now();
        for number in 0..200 {
            let mut asked = registration(&format!("n{number}"), &merchant);
            asked["delay"] = json!("2s");
            server.api().register(asked).await;
        }
        server.kill().await;
        // On a busy machine it takes longer. Then a call may have been in flight at the kill, and is repeated.
        let none_was_due = began.elapsed() < Duration::from_secs(2);
        let server = start(dir.path(), &arguments).await;
        for number in 0..200 {
            server
                .api()
                .until_state(&format!("n{number}"), "delivered")
                .await;
        }
        let mut calls = Vec::new();
        for _ in 0..200 {
            calls.push(merchant.call().await.body);
        }
        while let Some(call) = merchant.arrived() {
            calls.push(call.body);
        }
        let ids: std::collections::BTreeSet<_> = calls.iter().collect();
        assert_eq!(ids.len(), 200);
        assert!(!none_was_due || calls.len() == 200, "{} calls", calls.len());
        server.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_during_an_attempt_it_is_made_again_under_the_same_number() {
    for stores in KINDS {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut arguments = arguments(stores);
        // A short limit makes short leases, and so a short wait for their return. The server is killed before it ends.
        arguments.extend(["--timeout", "3s"].map(String::from));
        let mut merchant = Merchant::scripted(vec![Reaction::Hang], Reaction::success()).await;
        let server = start(dir.path(), &arguments).await;
        server.api().register(registration("a", &merchant)).await;
        assert_eq!(merchant.call().await.attempt(), 1);
        server.kill().await;
        let server = start(dir.path(), &arguments).await;
        assert_eq!(merchant.call().await.attempt(), 1);
        let view = server.api().until_state("a", "delivered").await;
        assert_eq!(view["attempts_made"], 1);
        if stores != Stores::Embedded {
            // Its lease was found expired, so support staff learn of the first call too.
            assert_eq!(view["attempts"][0]["outcome"], "interrupted");
            assert_eq!(view["attempts"][1]["outcome"], "acknowledged");
        }
        server.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gentle_stop_lets_the_attempt_in_flight_end() {
    for stores in KINDS {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let arguments = arguments(stores);
        let held = Reaction::Held(Box::new(Reaction::success()));
        let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
        let mut server = start(dir.path(), &arguments).await;
        server.api().register(registration("a", &merchant)).await;
        merchant.call().await;
        server.signal("TERM").await;
        server.logged("waiting for the attempts in flight").await;
        merchant.release();
        assert!(server.ended().await.success());
        let server = start(dir.path(), &arguments).await;
        assert_eq!(server.api().get("a").await["state"], "delivered");
        assert!(merchant.arrived().is_none());
        server.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_closes_stops_it_gently() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let mut server = Process::start_with_terminal(dir.path(), &[]).await;
    server.api().register(registration("a", &merchant)).await;
    merchant.call().await;
    server.signal("HUP").await;
    let lines = server.logged("waiting for the attempts in flight").await;
    assert!(lines.iter().any(|line| line["signal"] == "SIGHUP"));
    // Sent once more, as by a shell that hears of it too, it is not the second signal that ends at
    // once.
    server.signal("HUP").await;
    merchant.release();
    assert!(server.ended().await.success());
    let server = start(dir.path(), &[]).await;
    assert_eq!(server.api().get("a").await["state"], "delivered");
    assert!(merchant.arrived().is_none());
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_reads_any_more_costs_no_work() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let other = Merchant::start().await;
    let mut server = Process::start_with_terminal(dir.path(), &["--log", "debug"]).await;
    server.api().register(registration("a", &merchant)).await;
    merchant.call().await;
    server.close_log();
    server.api().register(registration("b", &other)).await;
    server.api().until_state("b", "delivered").await;
    server.signal("HUP").await;
    merchant.release();
    assert!(server.ended().await.success());
    let server = start(dir.path(), &[]).await;
    assert_eq!(server.api().get("a").await["state"], "delivered");
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_to_outlive_its_terminal_does() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut merchant = Merchant::start().await;
    let mut server = Process::start_without_hang_up(dir.path(), &[]).await;
    server.signal("HUP").await;
    server.api().register(registration("a", &merchant)).await;
    merchant.call().await;
    server.api().until_state("a", "delivered").await;
    server.signal("TERM").await;
    let lines = server.logged("stopping").await;
    assert_eq!(lines.last().expect("the line itself")["signal"], "SIGTERM");
    assert!(server.ended().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_takes_too_long_interrupts_and_gives_the_lease_back() {
    for stores in KINDS {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut arguments = arguments(stores);
        arguments.extend(["--drain-timeout", "100ms"].map(String::from));
        let mut merchant = Merchant::scripted(vec![Reaction::Hang], Reaction::success()).await;
        let server = start(dir.path(), &arguments).await;
        server.api().register(registration("a", &merchant)).await;
        merchant.call().await;
        server.signal("TERM").await;
        assert!(server.ended().await.success());
        // The lease was given back: no waiting until it expires.
        let server = start(dir.path(), &arguments).await;
        assert_eq!(merchant.call().await.attempt(), 1);
        let view = server.api().until_state("a", "delivered").await;
        assert_eq!(view["attempts"][0]["outcome"], "interrupted");
        server.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_a_journal_that_stands_still() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut journal = PostgresServer::start(&[]);
    let mut arguments = arguments(Stores::Redis);
    arguments.extend(["--journal".to_string(), journal.fresh_database()]);
    arguments.extend(["--drain-timeout", "100ms"].map(String::from));
    let mut merchant = Merchant::scripted(vec![Reaction::Hang], Reaction::success()).await;
    let mut server = start(dir.path(), &arguments).await;
    server.api().register(registration("a", &merchant)).await;
    merchant.call().await;
    journal.pause();
    server.signal("TERM").await;
    let lines = server.logged("takes too long to stop").await;
    let last = lines.last().expect("the line itself");
    assert_eq!(last["level"], "WARN");
    assert!(server.ended().await.success());
    journal.resume();
    // What was left is taken up again.
    let server = start(dir.path(), &arguments).await;
    server.api().until_state("a", "delivered").await;
    server.kill().await;
}

/// What it goes on to accept would be in no file when it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_ends_if_the_file_of_its_journal_is_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let merchant = Merchant::start().await;
    let mut server = start(dir.path(), &[]).await;
    server.api().register(registration("a", &merchant)).await;
    server.api().until_state("a", "delivered").await;
    let journal = dir.path().join("journal.db");
    std::fs::rename(&journal, dir.path().join("elsewhere.db")).expect("moved");
    let lines = server.logged("or its file was replaced").await;
    let last = lines.last().expect("the line itself");
    assert_eq!(last["level"], "ERROR");
    let error = last["error"].as_str().expect("a text");
    assert!(error.contains("it was moved or removed"), "{error}");
    assert!(!server.ended().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_at_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut merchant = Merchant::scripted(vec![], Reaction::Hang).await;
    let mut server = start(dir.path(), &[]).await;
    server.api().register(registration("a", &merchant)).await;
    merchant.call().await;
    server.signal("TERM").await;
    server.logged("waiting for the attempts in flight").await;
    server.signal("TERM").await;
    assert!(!server.ended().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_that_has_arrived_counts_although_the_server_stops() {
    // The status acknowledges, and the body never ends.
    let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart".to_vec();
    let mut merchant = Merchant::scripted(vec![], Reaction::Raw(begun)).await;
    let server = Server::start_as(Stores::Embedded, |config| {
        config.delivery.drain_timeout = Duration::from_millis(500);
    })
    .await;
    let mut asked = registration("a", &merchant);
    asked["ack"] = json!({ "status": "2xx" });
    server.register(asked).await;
    merchant.call().await;
    let server = server.restart().await;
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1, "{view}");
    assert!(merchant.arrived().is_none());
    server.stop().await;
}
