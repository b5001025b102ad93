//! Jobs: sending now what is pending for a lane, whatever dies meanwhile.

use super::bulk::check_lists;
use super::{on_journaled_stores, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;
use crate::support::proxy::Line;
use crate::support::redis::connect;
use crate::support::ringback::{Api, BEGIN_MS, Server, Stores, before_redis, config, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::clock::ManualClock;
use ringback::config::ServeConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;

on_journaled_stores!(
    what_is_pending_is_sent_now_and_its_ladder_goes_on,
    a_dry_run_changes_nothing,
    a_job_is_paused_resumed_and_stopped,
    what_a_job_makes_due_waits_in_a_held_lane,
    a_job_of_an_unknown_destination_is_not_made,
    wrong_requests_about_jobs_are_named,
);
on_stores!(@ cut_off Postgres a_server_that_cannot_reach_redis_leaves_its_job_to_the_other);
on_stores!(@ redis_alone RedisOnly without_a_journal_a_release_is_answered_with_a_job_that_is_not_kept);

/// The path of a merchant's lane, with what is asked of it.
fn path(merchant: &Merchant, verb: &str) -> String {
    let origin = merchant.url("");
    let encoded: String = url::form_urlencoded::byte_serialize(origin.as_bytes()).collect();
    format!("/v1/lanes/{encoded}/{verb}")
}

/// Registers so many that are due in two hours. With a journal they wait there alone.
async fn register_later(api: &Api, merchant: &Merchant, many: usize) {
    for number in 0..many {
        let mut later = registration(&format!("n{number:03}"), merchant);
        later["delay"] = "2h".into();
        api.register(later).await;
    }
}

async fn retry(api: &Api, merchant: &Merchant, rate: f64) -> Value {
    let body = json!({ "reason": "they are back", "rate": rate });
    let path = path(merchant, "retry");
    let (status, job) = api.call(Method::POST, &path, Some(body)).await;
    assert_eq!(status, 202, "{job}");
    job
}

fn id(job: &Value) -> &str {
    job["id"].as_str().expect("an id")
}

async fn order(api: &Api, job: &Value, order: &str) -> (u16, Value) {
    let path = format!("/v1/jobs/{}/{order}", id(job));
    api.call(Method::POST, &path, None).await
}

/// Asks for a job until it is in this state. A store that is away is waited for.
async fn until(api: &Api, job: &Value, state: &str) -> Value {
    let path = format!("/v1/jobs/{}", id(job));
    within("the job to stand as wished", async {
        loop {
            let (status, view) = api.call(Method::GET, &path, None).await;
            assert!(matches!(status, 200 | 503), "{status}: {view}");
            if view["state"] == state {
                return view;
            }
            short_pause().await;
        }
    })
    .await
}

fn counts(job: &Value) -> [u64; 4] {
    ["matched", "done", "skipped", "failed"].map(|name| job[name].as_u64().expect("a number"))
}

/// How often a notification was made due by this job.
fn retried(view: &Value, job: &Value) -> usize {
    let lines = view["transitions"].as_array().expect("a history");
    let by_job = |line: &&Value| {
        let detail = line["detail"].as_str().unwrap_or_default();
        line["kind"] == "retried" && detail == format!("job {}: they are back", id(job))
    };
    lines.iter().filter(by_job).count()
}

async fn what_is_pending_is_sent_now_and_its_ladder_goes_on(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let one = |config: &mut ServeConfig| config.schedule.lane_concurrency = 1;
    let server = server.restart_as(one).await;
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    register_later(&server, &merchant, 4).await;
    // One step for each, so that the order can be seen.
    let job = retry(&server, &merchant, 5.0).await;
    assert_eq!(
        (&job["kind"], &job["state"]),
        (&json!("lane_retry"), &json!("running"))
    );
    assert_eq!((&job["rate"], &job["actor"]), (&json!(5.0), &json!("api")));
    assert_eq!(counts(&job), [4, 0, 0, 0]);
    let other = Some(json!({}));
    let (status, view) = server
        .call(Method::POST, &path(&merchant, "retry"), other)
        .await;
    assert_eq!(
        (status, &view["type"]),
        (409, &json!("urn:ringback:problem:job-runs"))
    );
    for number in 0..4 {
        let call = merchant.call().await;
        assert_eq!(call.body, format!("id=n{number:03}").as_bytes());
    }
    let done = until(&server, &job, "done").await;
    assert_eq!(counts(&done), [4, 4, 0, 0]);
    assert_eq!(done["ended_at"], "2026-11-20T08:30:00.000Z");
    let failed = server.until_attempts("n000", 1).await;
    assert_eq!(failed["state"], "scheduled");
    assert_eq!(failed["next_attempt_at"], "2026-11-20T10:30:00.000Z");
    for number in 1..4 {
        let view = server
            .until_state(&format!("n{number:03}"), "delivered")
            .await;
        assert_eq!(
            (&view["attempts_made"], retried(&view, &job)),
            (&json!(1), 1)
        );
    }
    let (_, list) = server
        .call(Method::GET, "/v1/jobs?state=done&limit=1", None)
        .await;
    assert_eq!(list, json!({ "items": [done], "next_cursor": null }));
    // Nothing matches any more but the one that failed.
    let again = retry(&server, &merchant, 500.0).await;
    assert_eq!(counts(&again), [1, 0, 0, 0]);
    until(&server, &again, "done").await;
    server.until_state("n000", "delivered").await;
    let (_, page) = server.call(Method::GET, "/v1/jobs?limit=1", None).await;
    assert_eq!(page["items"][0]["id"], again["id"], "newest first");
    assert_eq!(page["next_cursor"], again["id"]);
    server.stop().await;
}

async fn a_dry_run_changes_nothing(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::start().await;
    register_later(&server, &merchant, 12).await;
    let body = json!({ "reason": "who?", "dry_run": true });
    let path = path(&merchant, "retry");
    let (status, view) = server.call(Method::POST, &path, Some(body)).await;
    assert_eq!((status, &view["matched"]), (200, &json!(12)), "{view}");
    let sample = view["sample"].as_array().expect("a sample");
    assert_eq!((sample.len(), &sample[0]["id"]), (10, &json!("n000")));
    let (_, jobs) = server.call(Method::GET, "/v1/jobs", None).await;
    assert_eq!(jobs, json!({ "items": [], "next_cursor": null }));
    assert_eq!(server.get("n000").await["transitions"][1], Value::Null);
    assert!(merchant.arrived().is_none());
    server.stop().await;
}

async fn a_job_is_paused_resumed_and_stopped(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::start().await;
    register_later(&server, &merchant, 20).await;
    let job = retry(&server, &merchant, 2.0).await;
    merchant.call().await;
    let (status, paused) = order(&server, &job, "pause").await;
    assert_eq!((status, &paused["state"]), (200, &json!("paused")));
    let done = paused["done"].as_u64().expect("a number");
    assert!((1..20).contains(&done), "{paused}");
    assert_eq!(order(&server, &job, "pause").await.0, 200);
    // It survives a restart as it is.
    let server = server.restart().await;
    let (_, view) = server
        .call(Method::GET, &format!("/v1/jobs/{}", id(&job)), None)
        .await;
    assert_eq!(
        (&view["state"], &view["done"]),
        (&json!("paused"), &json!(done))
    );
    for _ in 1..done {
        merchant.call().await;
    }
    assert!(merchant.arrived().is_none(), "nothing is sent meanwhile");
    let (status, resumed) = order(&server, &job, "resume").await;
    assert_eq!((status, &resumed["state"]), (200, &json!("running")));
    merchant.call().await;
    let (status, stopped) = order(&server, &job, "stop").await;
    assert_eq!((status, &stopped["state"]), (200, &json!("stopped")));
    let done = stopped["done"].as_u64().expect("a number");
    for verb in ["stop", "pause", "resume"] {
        let (status, view) = order(&server, &job, verb).await;
        assert_eq!(status, 409, "{verb}: {view}");
        assert_eq!(view["type"], "urn:ringback:problem:job-ended");
    }
    let mut made_due = 0;
    for number in 0..20 {
        let view = server.get(&format!("n{number:03}")).await;
        made_due += u64::try_from(retried(&view, &job)).expect("few");
    }
    assert_eq!(made_due, done, "what was not reached is as it was");
    server.stop().await;
}

async fn what_a_job_makes_due_waits_in_a_held_lane(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::start().await;
    register_later(&server, &merchant, 3).await;
    let hold = path(&merchant, "hold");
    let reason = Some(json!({ "reason": "they move" }));
    assert_eq!(server.call(Method::POST, &hold, reason).await.0, 200);
    let warning = "the lane is held by api since 2026-11-20T08:30:00.000Z (they move), so calls begin when it is released";
    let dry_run = Some(json!({ "dry_run": true }));
    let lane_retry = path(&merchant, "retry");
    let (_, found) = server
        .call(Method::POST, &lane_retry, dry_run.clone())
        .await;
    assert_eq!(found["warning"], warning, "{found}");
    let job = retry(&server, &merchant, 500.0).await;
    assert_eq!(job["warning"], warning, "{job}");
    let done = until(&server, &job, "done").await;
    assert_eq!(counts(&done), [3, 3, 0, 0]);
    assert_eq!(done.get("warning"), None, "it is the job as it is kept");
    assert!(merchant.arrived().is_none(), "it is held");
    let release = path(&merchant, "release");
    let body = Some(json!({ "reason": "go" }));
    let (status, released) = server.call(Method::POST, &release, body).await;
    assert_eq!(status, 202, "{released}");
    assert_eq!(released["kind"], "lane_release");
    assert_eq!(
        (&released["state"], &released["reason"]),
        (&json!("done"), &json!("go"))
    );
    assert_eq!(until(&server, &released, "done").await, released);
    let (_, found) = server.call(Method::POST, &lane_retry, dry_run).await;
    assert_eq!(found.get("warning"), None, "{found}");
    for _ in 0..3 {
        merchant.call().await;
    }
    server.stop().await;
}

async fn without_a_journal_a_release_is_answered_with_a_job_that_is_not_kept(stores: Stores) {
    let server = Server::start(stores).await;
    let merchant = Merchant::start().await;
    let release = path(&merchant, "release");
    let (status, view) = server.call(Method::POST, &release, None).await;
    assert_eq!((status, &view["id"]), (202, &Value::Null), "{view}");
    assert_eq!(view["state"], "done");
    let retry = path(&merchant, "retry");
    for (method, path) in [
        (Method::POST, retry.as_str()),
        (Method::GET, "/v1/jobs"),
        (Method::GET, "/v1/jobs/0a"),
        (Method::POST, "/v1/jobs/0a/stop"),
    ] {
        let (status, view) = server.call(method, path, None).await;
        assert_eq!(status, 501, "{path}: {view}");
    }
    server.stop().await;
}

async fn a_job_of_an_unknown_destination_is_not_made(stores: Stores) {
    let server = Server::start(stores).await;
    let merchant = Merchant::start().await;
    let check = async |path: &str, lane: Option<&str>, expected: u16| {
        for dry_run in [true, false] {
            let mut asked = json!({ "dry_run": dry_run });
            if let Some(lane) = lane {
                asked["filter"] = json!({ "lane": lane });
            }
            let (status, view) = server.call(Method::POST, path, Some(asked)).await;
            let expected = match (expected, dry_run) {
                (202, true) => 200,
                (expected, _) => expected,
            };
            assert_eq!(status, expected, "{path} {lane:?}: {view}");
            if status == 404 {
                assert_eq!(view["type"], "urn:ringback:problem:missing-lane");
            }
        }
    };
    let (unknown, known) = ("https://shop.example", merchant.url(""));
    let retry = |lane: &str| {
        let lane: String = url::form_urlencoded::byte_serialize(lane.as_bytes()).collect();
        format!("/v1/lanes/{lane}/retry")
    };
    let bulk = ["/v1/dead-letters/replay", "/v1/notifications/cancel"];
    for lane in [unknown, "endpoint:shop-1", known.as_str()] {
        check(&retry(lane), None, 404).await;
        for path in bulk {
            check(path, Some(lane), 404).await;
        }
    }
    let (_, jobs) = server.call(Method::GET, "/v1/jobs", None).await;
    assert_eq!(jobs["items"], json!([]), "{jobs}");
    // What is delivered is known, and so are an endpoint and a lane that somebody holds.
    server.register(registration("1", &merchant)).await;
    server.until_state("1", "delivered").await;
    let shop = json!({ "url": merchant.url("/n") });
    let (status, _) = server
        .call(Method::PUT, "/v1/endpoints/shop-1", Some(shop))
        .await;
    assert_eq!(status, 201);
    let hold = "/v1/lanes/https%3A%2F%2Fshop.example/hold";
    assert_eq!(server.call(Method::POST, hold, None).await.0, 200);
    for lane in [unknown, "endpoint:shop-1", known.as_str()] {
        check(&retry(lane), None, 202).await;
        check(bulk[0], Some(lane), 202).await;
    }
    server.stop().await;
}

async fn wrong_requests_about_jobs_are_named(stores: Stores) {
    let server = Server::start(stores).await;
    let check = async |method: Method, path: &str, body: Option<Value>, status: u16, why: &str| {
        let (found, view) = server.call(method, path, body).await;
        assert_eq!(found, status, "{path}: {view}");
        let detail = view["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(why), "{path}: {view}");
    };
    let (get, post) = (Method::GET, Method::POST);
    let retry = "/v1/lanes/https%3A%2F%2Fshop.example/retry";
    for rate in [json!(0), json!(-1), json!(1e9), json!(0.0001)] {
        let body = Some(json!({ "rate": rate }));
        check(post.clone(), retry, body, 422, "from 0.001 to 1000").await;
    }
    let body = Some(json!({ "rate": "fast" }));
    check(post.clone(), retry, body, 422, "a number is expected").await;
    let body = Some(json!({ "when": 1 }));
    check(post.clone(), retry, body, 422, "reason, rate, dry_run").await;
    check(post.clone(), "/v1/lanes/shop/retry", None, 404, "a lane is").await;
    check(get.clone(), retry, None, 405, "").await;
    for unknown in ["0123-abc", "Zz", "%00", &"a".repeat(65)] {
        let path = format!("/v1/jobs/{unknown}");
        check(get.clone(), &path, None, 404, "no job of this id").await;
        for verb in ["pause", "resume", "stop"] {
            let path = format!("{path}/{verb}");
            check(post.clone(), &path, None, 404, "no job of this id").await;
        }
    }
    check(
        get.clone(),
        "/v1/jobs?state=lost",
        None,
        400,
        "running, paused",
    )
    .await;
    check(
        get.clone(),
        "/v1/jobs?cursor=x%20",
        None,
        400,
        "invalid cursor",
    )
    .await;
    check(get, "/v1/jobs?lane=x", None, 400, "unknown parameter").await;
    let body = Some(json!({ "why": 1 }));
    check(post, "/v1/jobs/0a/stop", body, 422, "unknown field").await;
    server.stop().await;
}

/// Overwrites an entry of Redis behind its lane, so that its lane still has it and no server can read it.
const CUT: &str = "for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.find(key, 'n001', 1, true) then
    local e = redis.call('HGET', KEYS[1], key)
    return redis.call('HSET', KEYS[1], key, string.sub(e, 1, 58 + struct.unpack('>I2', e, 57)))
  end
end
return 'missing'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_fails_alone() {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Redis).await;
    for number in 0..3 {
        let mut later = registration(&format!("n00{number}"), &merchant);
        later["delay"] = "30m".into();
        server.register(later).await;
    }
    server.clock().advance(4_000);
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let mut cutting = ::redis::cmd("EVAL");
    cutting.arg(CUT).arg(1).arg("{rb:0}:jobs");
    let cut: i64 = cutting.query_async(&mut redis).await.expect("it is there");
    assert_eq!(cut, 0, "it was there before");
    let job = retry(&server, &merchant, 500.0).await;
    let done = until(&server, &job, "done").await;
    assert_eq!(counts(&done), [3, 2, 0, 1]);
    let mut bodies = [merchant.call().await.body, merchant.call().await.body];
    bodies.sort_unstable();
    assert_eq!(bodies, [b"id=n000", b"id=n002"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_jobs_keep_no_other_back() {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Embedded).await;
    for lane in 1..=12 {
        for number in 0..2 {
            let mut slow = registration(&format!("slow-{lane}-{number}"), &merchant);
            slow["url"] = format!("http://127.0.0.1:{lane}/").into();
            slow["delay"] = "30m".into();
            server.register(slow).await;
        }
    }
    register_later(&server, &merchant, 2).await;
    server.clock().advance(4_000);
    for lane in 1..=12 {
        let path = format!("/v1/lanes/http%3A%2F%2F127.0.0.1%3A{lane}/retry");
        let body = json!({ "reason": "slowly", "rate": 0.001 });
        let (status, job) = server.call(Method::POST, &path, Some(body)).await;
        assert_eq!(status, 202, "{job}");
    }
    let quick = retry(&server, &merchant, 500.0).await;
    let done = until(&server, &quick, "done").await;
    assert_eq!(counts(&done), [2, 2, 0, 0]);
    for _ in 0..2 {
        merchant.call().await;
    }
    server.stop().await;
}

/// Kills the server that carries on a job, in the middle of it. `next` starts or gives the one that goes on.
async fn killed_in_the_middle(first: Process, next: impl AsyncFnOnce() -> Process) {
    const MANY: usize = 60;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    register_later(first.api(), &merchant, MANY).await;
    let job = retry(first.api(), &merchant, 20.0).await;
    for _ in 0..MANY / 4 {
        merchant.call().await;
    }
    first.kill().await;
    let next = next().await;
    let done = until(next.api(), &job, "done").await;
    assert_eq!(counts(&done)[0], 60, "{done}");
    assert_eq!(counts(&done)[3], 0, "{done}");
    check_lists(next.api(), &done).await;
    let mut attempts = BTreeMap::new();
    for number in 0..MANY {
        let id = format!("n{number:03}");
        let view = next.api().until(&id, |view| {
            view["attempts_made"] == 1 && view["state"] == "scheduled"
        });
        let view = view.await;
        assert_eq!(retried(&view, &job), 1, "{view}");
        *attempts
            .entry(view["attempts_made"].to_string())
            .or_insert(0) += 1;
    }
    assert_eq!(attempts, BTreeMap::from([("1".to_string(), MANY)]));
    next.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_a_job_the_other_server_finishes_it() {
    let redis = crate::support::redis::fresh_database();
    let journal = crate::support::postgres::fresh_database();
    let arguments = ["--redis", &redis, "--journal", &journal];
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    let first = Process::start(dirs[0].path(), &arguments).await;
    // Both sign with the same secret.
    let secret = std::fs::read_dir(dirs[0].path()).expect("its files");
    for file in secret.flatten().filter(|file| file.path().is_file()) {
        let copied = std::fs::copy(file.path(), dirs[1].path().join(file.file_name()));
        copied.expect("copied");
    }
    let other = Process::start(dirs[1].path(), &arguments).await;
    killed_in_the_middle(first, async move || other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_a_job_the_server_finishes_it_when_it_is_started_again() {
    for with_redis in [false, true] {
        let redis = crate::support::redis::fresh_database();
        let arguments: &[&str] = match with_redis {
            true => &["--redis", &redis],
            false => &[],
        };
        let dir = tempfile::tempdir().expect("a temporary directory");
        let first = Process::start(dir.path(), arguments).await;
        let again = async || Process::start(dir.path(), arguments).await;
        killed_in_the_middle(first, again).await;
    }
}

/// It reaches the journal, and could keep the job as long as it lives.
async fn a_server_that_cannot_reach_redis_leaves_its_job_to_the_other(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let direct = config(dir.path(), stores);
    let mut cut = direct.clone();
    let line = before_redis(&mut cut);
    let cut_off = Server::open(cut, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await;
    register_later(&cut_off, &merchant, 4).await;
    let job = retry(&cut_off, &merchant, 0.5).await;
    assert_eq!(merchant.call().await.body, b"id=n000");
    let clock = cut_off.clock().clone();
    let other = Server::open(direct, Some(clock), None).await;
    line.set(Line::Refuses).await;
    let done = until(&other, &job, "done").await;
    assert_eq!(counts(&done), [4, 4, 0, 0]);
    for number in 1..4 {
        let call = merchant.call().await;
        assert_eq!(call.body, format!("id=n{number:03}").as_bytes());
    }
    line.set(Line::Passes).await;
    cut_off.stop().await;
    other.stop().await;
    assert!(merchant.arrived().is_none());
}
