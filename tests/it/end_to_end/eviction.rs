//! A Redis that is too small and may evict any key (`allkeys-random`), under load: servers that start
//! meanwhile are let in, and once it is large enough everything accepted is delivered.

use crate::support::merchant::Merchant;
use crate::support::postgres;
use crate::support::process::Process;
use crate::support::redis::{RedisServer, connect};
use crate::support::ringback::{Api, Stores, config};
use redis::aio::MultiplexedConnection;
use reqwest::Method;
use ringback::app::App;
use ringback::config::{RedisUrl, ServeConfig};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::process::Command;

/// How much Redis may take beyond what it takes when it is empty.
const ROOM_BYTES: u64 = 1_000_000;
/// Keys that have to be evicted: some of each kind.
const EVICTED: u64 = 60;
/// Notifications of one request, and requests after which something must have been evicted.
const BATCH: usize = 100;
const MOST_BATCHES: usize = 300;
/// Destinations; each has keys of its own in Redis.
const DESTINATIONS: usize = 6;
/// How long it may take until everything is delivered. The reconciler has a minute.
const LONGEST: Duration = Duration::from_secs(180);

/// Wait before the journal is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// One number of what Redis says of itself.
async fn said(redis: &mut MultiplexedConnection, section: &str, name: &str) -> u64 {
    let mut info = redis::cmd("INFO");
    let info: String = (info.arg(section).query_async(redis).await).expect("answered");
    let prefix = format!("{name}:");
    let line = info.lines().find_map(|line| line.strip_prefix(&prefix));
    line.expect(name).trim().parse().expect("a number")
}

async fn set_most_memory(redis: &mut MultiplexedConnection, bytes: u64) {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg(bytes);
    set.exec_async(redis).await.expect("set");
}

/// Registers a batch, again until all of it is accepted.
async fn register(api: &Api, first: usize, merchants: &[Merchant]) {
    let mut left: Vec<Value> = (first..first + BATCH)
        .map(|number| {
            let merchant = &merchants[number % merchants.len()];
            json!({
                "topic": "t",
                "id": format!("n{number}"),
                "url": merchant.url("/notify"),
                "body": format!("id=n{number}&{}", "x".repeat(2_000)),
                // They wait in Redis, so it is full soon, however slow the machine is.
                "delay": format!("{}ms", 10_000 + number % 10 * 100),
                // The first attempt is acknowledged. No delivery hides behind a second one.
                "ladder": { "intervals": [] },
            })
        })
        .collect();
    let asking = async {
        while !left.is_empty() {
            let body = json!({ "notifications": left });
            let path = "/v1/notifications/batch";
            let (status, answer) = api.call(Method::POST, path, Some(body)).await;
            if status == 200 {
                let results = answer["results"].as_array().expect("results").clone();
                let asked = std::mem::take(&mut left).into_iter();
                for (asked, result) in asked.zip(results) {
                    match result["status"].as_u64() {
                        Some(200 | 201) => {}
                        Some(503) => left.push(asked),
                        _ => panic!("{result}"),
                    }
                }
            } else {
                assert_eq!(status, 503, "{answer}");
            }
            crate::support::short_pause().await;
        }
    };
    crate::support::within("a batch to be accepted", asking).await;
}

/// Whether a server of another journal is let in.
async fn is_stranger_let_in(redis: &str) -> bool {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut foreign: ServeConfig = config(dir.path(), Stores::Redis);
    foreign.schedule.redis = Some(RedisUrl::parse(redis).expect("a URL"));
    match App::start(foreign).await {
        Err(_) => false,
        Ok(app) => {
            app.stop().await;
            true
        }
    }
}

/// Awaits that nothing is pending in the journal. Lists would not do: a page of them is empty while what it
/// would hold changes from one state to the other.
async fn until_delivered(journal: &str) {
    let mut journal = postgres::connect(journal).await;
    let waiting = async {
        loop {
            let pending = "SELECT count(*) FROM statuses WHERE state = 'scheduled'";
            let pending: i64 =
                (sqlx::query_scalar(pending).fetch_one(&mut journal).await).expect("counted");
            if pending == 0 {
                return;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    };
    let ended = tokio::time::timeout(LONGEST, waiting).await;
    ended.expect("everything accepted to be delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_while_redis_evicts_is_delivered() {
    let redis = RedisServer::start(&["--maxmemory-policy", "allkeys-random"]);
    let url = redis.url(0);
    let mut beside = connect(&url).await;
    let journal = postgres::fresh_database();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let start = async |name: &str| {
        let mut arguments = vec!["--timeout", "10s", "--signing-secret", secret];
        arguments.extend(["--redis", &url, "--journal", &journal]);
        let mut server = Process::start(&dir.path().join(name), &arguments).await;
        server.take_log(|_| {});
        server
    };
    let mut merchants = Vec::new();
    for _ in 0..DESTINATIONS {
        merchants.push(Merchant::start().await);
    }
    let first = start("first").await;
    let room = said(&mut beside, "memory", "used_memory").await + ROOM_BYTES;
    set_most_memory(&mut beside, room).await;

    let mut second: Option<Process> = None;
    let mut accepted = 0;
    loop {
        let server = second.as_ref().filter(|_| accepted % (2 * BATCH) == 0);
        register(server.unwrap_or(&first).api(), accepted, &merchants).await;
        accepted += BATCH;
        let evicted = said(&mut beside, "stats", "evicted_keys").await;
        if evicted > 0 && second.is_none() {
            // It is not refused its own schedule, whatever is left of it.
            second = Some(start("second").await);
        }
        if evicted >= EVICTED {
            break;
        }
        assert!(
            accepted < MOST_BATCHES * BATCH,
            "{evicted} keys were evicted"
        );
    }
    set_most_memory(&mut beside, 0).await;
    let third = start("third").await;
    assert!(
        !is_stranger_let_in(&url).await,
        "it belongs to another journal"
    );

    until_delivered(&journal).await;
    let path = "/v1/notifications?topic=t&state=dead&limit=5";
    let (_, dead) = third.api().call(Method::GET, path, None).await;
    assert_eq!(dead["items"], json!([]), "an attempt failed");
    let mut calls: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for merchant in &mut merchants {
        while let Some(call) = merchant.arrived() {
            *calls.entry(call.body).or_default() += 1;
        }
    }
    assert_eq!(calls.len(), accepted, "each that was accepted was called");
    let again: usize = calls.values().map(|many| many - 1).sum();
    println!("{accepted} accepted, {again} called again");
    let mut audit = Command::new(env!("CARGO_BIN_EXE_ringback"));
    audit.args(["audit", "--deep", "--journal", &journal, "--redis", &url]);
    let output = audit.output().await.expect("the program");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let sum =
        format!("registered {accepted} = delivered {accepted} + dead 0 + cancelled 0 + pending 0");
    assert!(text.contains(&sum), "{text}");
}
