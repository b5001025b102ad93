//! A job over many dead letters, with two servers that are killed in turn while it runs: each is replayed once, and none
//! is forgotten.
//!
//! The short form is part of `make test`. `make replay` runs the long form; its size comes from
//! `RINGBACK_REPLAY_NOTIFICATIONS`.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::postgres;
use crate::support::process::Process;
use crate::support::redis;
use crate::support::ringback::{Api, with_ladder};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The short form.
const NOTIFICATIONS: usize = 600;
/// How many are registered at once.
const BATCH: usize = 500;
/// Beyond this the run counts as stuck.
const LONGEST: Duration = Duration::from_secs(3_600);
/// How often it is asked how far the job is. The servers and the test share the processors.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// How long the job takes at least, if nothing is killed, in seconds; as long as its rate allows that.
const SECONDS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_dead_letter_is_replayed_once_although_servers_are_killed() {
    let many = match std::env::var("RINGBACK_REPLAY_NOTIFICATIONS") {
        Ok(many) => many.parse().expect("a number"),
        Err(_) => NOTIFICATIONS,
    };
    let (redis, journal) = (redis::fresh_database(), postgres::fresh_database());
    let arguments = ["--redis", &redis, "--journal", &journal];
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    let first = start(dirs[0].path(), &arguments).await;
    share_secret(&dirs);
    let second = start(dirs[1].path(), &arguments).await;
    let mut connection = postgres::connect(&journal).await;
    let merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    register(first.api(), &merchant, many).await;
    until_so_many(
        &mut connection,
        "SELECT count(*) FROM statuses WHERE state = 'dead'",
        many,
    )
    .await;
    merchant.now_does(Reaction::success());

    let begun = Instant::now();
    let rate = (many / SECONDS).clamp(1, 1_000);
    let body = json!({ "filter": { "topic": "t" }, "reason": "they are back", "rate": rate });
    let asked = first
        .api()
        .call(Method::POST, "/v1/dead-letters/replay", Some(body));
    let (status, job) = asked.await;
    assert_eq!((status, &job["matched"]), (202, &json!(many)), "{job}");
    // Half-way one server dies, and comes back; then the other one.
    until(second.api(), &job, many / 3).await;
    first.kill().await;
    until(second.api(), &job, many / 2).await;
    let first = start(dirs[0].path(), &arguments).await;
    until(first.api(), &job, 2 * many / 3).await;
    second.kill().await;
    let done = until(first.api(), &job, many).await;
    let took = begun.elapsed();
    let counts = ["matched", "done", "skipped", "failed"].map(|name| done[name].clone());
    assert_eq!(counts, [json!(many), json!(many), json!(0), json!(0)]);
    until_ended(first.api(), &job).await;

    until_so_many(
        &mut connection,
        "SELECT count(*) FROM statuses WHERE state = 'delivered'",
        many,
    )
    .await;
    let delivered = begun.elapsed();
    let id = job["id"].as_str().expect("an id");
    let by_job =
        format!("FROM transitions WHERE kind = 'replayed' AND detail = 'job {id}: they are back'");
    for counted in ["count(*)", "count(DISTINCT notification)"] {
        let replayed = count(&mut connection, &format!("SELECT {counted} {by_job}")).await;
        assert_eq!(replayed, many, "{counted}");
    }
    // Nothing was skipped and nothing has failed, and the lists say so.
    for table in ["job_unchanged", "job_reasons", "job_waiting"] {
        let listed = format!("SELECT count(*) FROM {table}");
        assert_eq!(count(&mut connection, &listed).await, 0, "{table}");
    }
    let series = "SELECT count(*) FROM statuses WHERE series = 2";
    assert_eq!(count(&mut connection, series).await, many);
    println!(
        "{many} dead letters at {rate} per second: the job was done after {took:.1?}, all delivered after {delivered:.1?}"
    );
    first.kill().await;
}

/// Both servers sign with the same secret.
fn share_secret(dirs: &[TempDir; 2]) {
    let files = std::fs::read_dir(dirs[0].path()).expect("its files");
    for file in files.flatten().filter(|file| file.path().is_file()) {
        let copied = std::fs::copy(file.path(), dirs[1].path().join(file.file_name()));
        copied.expect("copied");
    }
}

/// Starts a server. Its log is read, so that it never waits for room.
async fn start(dir: &Path, arguments: &[&str]) -> Process {
    let mut server = Process::start(dir, arguments).await;
    server.take_log(|_| {});
    server
}

async fn register(api: &Api, merchant: &Merchant, many: usize) {
    for begin in (0..many).step_by(BATCH) {
        let items: Vec<Value> = (begin..many.min(begin + BATCH))
            .map(|number| with_ladder(&format!("n{number}"), merchant, &[]))
            .collect();
        let body = json!({ "notifications": items });
        let asked = api.call(Method::POST, "/v1/notifications/batch", Some(body));
        let (status, answer) = asked.await;
        assert_eq!(status, 200, "{answer}");
        let results = answer["results"].as_array().expect("results");
        assert!(results.iter().all(|one| one["status"] == 201), "{answer}");
    }
}

/// Waits until the job has done so many. A server that cannot answer for the moment is asked again.
async fn until(api: &Api, job: &Value, done: usize) -> Value {
    wait_for(api, job, |view| view["done"].as_u64() >= Some(done as u64)).await
}

async fn until_ended(api: &Api, job: &Value) -> Value {
    wait_for(api, job, |view| view["state"] == "done").await
}

async fn wait_for(api: &Api, job: &Value, wish: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/jobs/{}", job["id"].as_str().expect("an id"));
    let begun = Instant::now();
    loop {
        let (status, view) = api.call(Method::GET, &path, None).await;
        if status == 200 && wish(&view) {
            return view;
        }
        assert!(view["state"] != "failed", "{view}");
        assert!(begun.elapsed() < LONGEST, "it is stuck: {view}");
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn count(connection: &mut PgConnection, sql: &str) -> usize {
    let counting = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql.to_string()));
    let many = counting.fetch_one(connection).await.expect("counted");
    usize::try_from(many).expect("a count")
}

async fn until_so_many(connection: &mut PgConnection, sql: &str, many: usize) {
    let begun = Instant::now();
    while count(connection, sql).await < many {
        assert!(begun.elapsed() < LONGEST, "it is stuck: {sql}");
        tokio::time::sleep(ASK_AGAIN).await;
    }
}
