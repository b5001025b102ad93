//! A day is exported while a server registers and sends on it.

use super::on_journaled_stores;
use crate::cli::program::{Finished, run};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::postgres::{PostgresServer, connect};
use crate::support::redis_node::until;
use crate::support::ringback::{Api, Server, Stores, config, registration, with_ladder};
use reqwest::Method;
use ringback::clock::ManualClock;
use ringback::config::{JournalConfig, PostgresUrl};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tokio_util::sync::CancellationToken;

on_journaled_stores!(
    every_file_of_a_day_adds_up_while_a_server_registers,
    the_file_of_an_endpoint_says_how_each_of_its_notifications_ended,
);

/// 2025-06-10T12:00:00Z: on a day that is over, whatever the clock of this machine shows.
const NOON_MS: i64 = 1_749_556_800_000;

/// A server that takes the present for noon of that day.
async fn server(stores: Stores) -> Server {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = config(dir.path(), stores);
    Server::open(config, Some(ManualClock::at(NOON_MS)), Some(dir)).await
}

/// Exports the day beside the server.
fn export(server: &Server, further: &[&str]) -> Finished {
    let journal = match &server.config().journal {
        JournalConfig::Sqlite(path) => format!("sqlite://{}", path.display()),
        JournalConfig::Postgres(url) => url.expose().to_string(),
        JournalConfig::None => panic!("there is a journal"),
    };
    let day = ["export", "--day", "2025-06-10", "--journal", &journal];
    let arguments = [&day[..], further].concat();
    tokio::task::block_in_place(|| run(Path::new("."), &arguments, &[]))
}

/// The lines of a file in JSON, and the totals. Its totals must add up, and be those of the lines.
fn read(file: &Finished) -> (Vec<Value>, Value) {
    assert_eq!(file.status, 0, "{}", file.stderr);
    let mut lines: Vec<Value> = (file.stdout.lines())
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let totals = lines.pop().expect("the totals");
    assert_eq!(totals["kind"], "totals");
    let mut counts = BTreeMap::new();
    for line in &lines {
        let state = line["state"].as_str().expect("a state");
        *counts.entry(state).or_insert(0) += 1;
    }
    for state in ["delivered", "dead", "cancelled", "pending"] {
        let counted = counts.get(state).copied().unwrap_or(0);
        assert_eq!(totals[state], counted, "{state}");
        assert_eq!(totals["journal"][state], counted, "{state}");
    }
    assert_eq!(totals["registered"], lines.len());
    assert_eq!(totals["adds_up"], true);
    (lines, totals)
}

async fn every_file_of_a_day_adds_up_while_a_server_registers(stores: Stores) {
    let merchant = Merchant::start().await;
    let server = server(stores).await;
    let stop = CancellationToken::new();
    let mut callers = Vec::new();
    for caller in 0..4 {
        let (api, stop) = (Api::clone(&server), stop.clone());
        let given = registration("", &merchant);
        callers.push(tokio::spawn(async move {
            let mut many = 0;
            while !stop.is_cancelled() {
                let mut given = given.clone();
                given["id"] = json!(format!("{caller}-{many}"));
                api.register(given).await;
                many += 1;
            }
            many
        }));
    }
    let mut before = 0;
    for _ in 0..3 {
        let (lines, _) = read(&export(&server, &["--format", "json-lines"]));
        assert!(lines.len() >= before);
        before = lines.len();
        let csv = export(&server, &[]);
        assert_eq!(csv.status, 0, "{}", csv.stderr);
        let lines = csv.stdout.lines().count() - 1;
        assert!(
            csv.stderr.contains(&format!(": registered {lines} = ")),
            "{}",
            csv.stderr
        );
        assert!(lines >= before);
        before = lines;
    }
    stop.cancel();
    let mut registered = 0;
    for caller in callers {
        registered += caller.await.expect("registered");
    }
    let (lines, _) = read(&export(&server, &["--format", "json-lines"]));
    assert_eq!(lines.len(), registered);
    server.stop().await;
}

async fn the_file_of_an_endpoint_says_how_each_of_its_notifications_ended(stores: Stores) {
    let merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let server = server(stores).await;
    let url = merchant.url("/notify?token=secret");
    let (status, _) = server
        .call(
            Method::PUT,
            "/v1/endpoints/shop-1",
            Some(json!({ "url": url })),
        )
        .await;
    assert_eq!(status, 201);
    let named = |id: &str, further: Value| {
        let mut given = with_ladder(id, &merchant, &[]);
        let members = given.as_object_mut().expect("an object");
        members.remove("url");
        members.insert("endpoint".to_string(), json!("shop-1"));
        members.extend(further.as_object().expect("an object").clone());
        given
    };
    server.register(named("dead", json!({}))).await;
    server.until_state("dead", "dead").await;
    server.register(named("discarded", json!({}))).await;
    server.until_state("discarded", "dead").await;
    let discard = "/v1/dead-letters/t/discarded";
    let (status, _) = server.call(Method::DELETE, discard, None).await;
    assert!(matches!(status, 200 | 204), "{status}");
    server
        .register(named("cancelled", json!({ "delay": "30m" })))
        .await;
    let cancel = "/v1/notifications/t/cancelled";
    let (status, _) = server.call(Method::DELETE, cancel, None).await;
    assert!(matches!(status, 200 | 204), "{status}");
    server
        .register(named("pending", json!({ "delay": "30m", "url": url })))
        .await;
    let elsewhere = with_ladder("elsewhere", &merchant, &[]);
    server.register(elsewhere).await;
    server.until_state("elsewhere", "dead").await;
    merchant.now_does(Reaction::success());
    server.register(named("delivered", json!({}))).await;
    server.until_state("delivered", "delivered").await;

    let flags = [
        "--format",
        "json-lines",
        "--endpoint",
        "shop-1",
        "--topic",
        "t",
    ];
    let (lines, totals) = read(&export(&server, &flags));
    assert_eq!(
        (&totals["endpoint"], &totals["topic"]),
        (&json!("shop-1"), &json!("t"))
    );
    assert_eq!(totals["discarded"], 1);
    let shown: Vec<_> = (lines.iter())
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or_default();
            (
                text("id"),
                text("state"),
                text("last_outcome"),
                line["discarded"] == true,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("dead", "dead", "wrong_answer", false),
            ("discarded", "cancelled", "wrong_answer", true),
            ("cancelled", "cancelled", "", false),
            ("pending", "pending", "", false),
            ("delivered", "delivered", "acknowledged", false),
        ]
    );
    assert!(lines.iter().all(|line| line["endpoint"] == "shop-1"));
    assert_eq!(lines[0]["url"], Value::Null);
    assert_eq!(lines[3]["url"], merchant.url("/notify"));
    let ended_at = lines[4]["ended_at"].as_str().expect("a time");
    assert!(ended_at.starts_with("2025-06-10T12:0"), "{ended_at}");
    let (all, _) = read(&export(&server, &["--format", "json-lines"]));
    assert_eq!(all.len(), 6);
    assert!(!export(&server, &[]).stdout.contains("secret"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_exports_what_it_is_known_to_have() {
    let mut merchant = Merchant::start().await;
    // A vacuum would be a change of its own.
    let mut primary = PostgresServer::start(&["autovacuum=off"]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), Stores::Embedded);
    let url = primary.fresh_database();
    let journal = PostgresUrl::parse(&url);
    config.journal = JournalConfig::Postgres(journal.expect("a PostgreSQL URL"));
    let server = Server::open(config.clone(), Some(ManualClock::at(NOON_MS)), Some(dir)).await;
    server.register(registration("first", &merchant)).await;
    merchant.call().await;
    server.until_state("first", "delivered").await;
    let dir = server.stop_and_keep().await;

    let standby = primary.start_standby().await;
    let (_, database) = url.rsplit_once('/').expect("its name");
    let copy = standby.url(database);
    let of = |journal: &str, further: &[&str]| {
        let day = ["export", "--day", "2025-06-10", "--journal", journal];
        let arguments = [&day[..], &["--format", "json-lines"], further].concat();
        tokio::task::block_in_place(|| run(Path::new("."), &arguments, &[]))
    };
    let unknown = "a standby that has taken over no change since its start";
    let refused = of(&copy, &[]);
    assert_eq!(refused.status, 1, "{}", refused.stdout);
    assert!(refused.stderr.contains(unknown), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
    let (lines, totals) = read(&of(&copy, &["--allow-incomplete"]));
    assert_eq!((lines.len(), &totals["whole"]), (1, &json!(false)));
    let lacks = totals["lacks"].as_str().expect("a sentence");
    assert!(lacks.contains(unknown), "{lacks}");

    let server = Server::open(config, Some(ManualClock::at(NOON_MS)), dir).await;
    server.register(registration("second", &merchant)).await;
    merchant.call().await;
    server.until_state("second", "delivered").await;
    server.stop().await;
    let mut connection = connect(&primary.url(database)).await;
    let written: String = sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text")
        .fetch_one(&mut connection)
        .await
        .expect("answered");
    until("the standby to have it", async || {
        let has: bool = sqlx::query_scalar("SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn")
            .bind(&written)
            .fetch_one(&mut connect(&copy).await)
            .await
            .expect("answered");
        has.then_some(())
    })
    .await;
    let (lines, totals) = read(&of(&copy, &[]));
    assert_eq!((lines.len(), &totals["whole"]), (2, &json!(true)));
    let (same, whole) = read(&of(&url, &[]));
    assert_eq!(lines, same);
    let as_of = |totals: &Value| totals["as_of"].as_str().expect("an instant").to_string();
    assert!(as_of(&totals) <= as_of(&whole), "{totals} {whole}");
}
