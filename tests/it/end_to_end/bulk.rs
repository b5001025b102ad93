//! Jobs of a filter: replaying dead letters and cancelling what is pending, whatever dies meanwhile.

use super::set_aside::sql;
use super::{on_journaled_stores, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;
use crate::support::ringback::{Api, Server, Stores, registration, with_ladder};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::ServeConfig;
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_journaled_stores!(
    dead_letters_are_replayed_once_and_the_same_request_is_one_job,
    what_dies_again_does_not_join,
    what_somebody_has_dealt_with_is_skipped,
    what_a_job_has_not_changed_is_listed_with_the_reason,
    what_cannot_be_read_does_not_keep_a_job_from_the_others,
    a_job_ends_when_most_of_the_first_fail_again,
    a_replay_is_paused_resumed_and_stopped,
    what_is_replayed_goes_behind_what_is_sent_anyway,
    a_replay_whose_lane_is_held_says_so,
    what_is_pending_is_cancelled_also_after_its_attempt,
    wrong_requests_for_a_filter_are_named,
);
on_stores!(@ redis_alone RedisOnly without_a_journal_there_are_no_jobs_of_a_filter);

const REPLAY: &str = "/v1/dead-letters/replay";
const CANCEL: &str = "/v1/notifications/cancel";

/// Registers so many with one attempt each, which fails. Some time passes afterwards.
async fn let_die(server: &Server, merchant: &mut Merchant, many: usize) {
    for number in 0..many {
        server
            .register(with_ladder(&format!("n{number:03}"), merchant, &[]))
            .await;
        merchant.call().await;
    }
    for number in 0..many {
        server.until_state(&format!("n{number:03}"), "dead").await;
    }
    server.clock().advance(10);
}

async fn start(api: &Api, path: &str, filter: Value, rate: f64) -> Value {
    let body = json!({ "filter": filter, "reason": "they are back", "rate": rate });
    let (status, job) = api.call(Method::POST, path, Some(body)).await;
    assert_eq!(status, 202, "{job}");
    job
}

fn id(job: &Value) -> &str {
    job["id"].as_str().expect("an id")
}

async fn order(api: &Api, job: &Value, order: &str) -> Value {
    let path = format!("/v1/jobs/{}/{order}", id(job));
    let (status, view) = api.call(Method::POST, &path, None).await;
    assert_eq!(status, 200, "{view}");
    view
}

/// Asks for a job until it is as wished. A store that is away is waited for.
async fn until(api: &Api, job: &Value, wish: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/jobs/{}", id(job));
    within("the job to stand as wished", async {
        loop {
            let (status, view) = api.call(Method::GET, &path, None).await;
            assert!(matches!(status, 200 | 503), "{status}: {view}");
            if wish(&view) {
                return view;
            }
            short_pause().await;
        }
    })
    .await
}

async fn until_ended(api: &Api, job: &Value) -> Value {
    until(api, job, |view| {
        !matches!(view["state"].as_str(), Some("running" | "paused"))
    })
    .await
}

fn counts(job: &Value) -> [u64; 4] {
    ["matched", "done", "skipped", "failed"].map(|name| job[name].as_u64().expect("a number"))
}

/// How often a notification was changed by this job.
fn changed(view: &Value, kind: &str, job: &Value) -> usize {
    let lines = view["transitions"].as_array().expect("a history");
    let by_job = |line: &&Value| {
        let detail = line["detail"].as_str().unwrap_or_default();
        line["kind"] == kind && detail == format!("job {}: they are back", id(job))
    };
    lines.iter().filter(by_job).count()
}

async fn dead_letters_are_replayed_once_and_the_same_request_is_one_job(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, 12).await;
    let filter = json!({ "topic": "t", "cause": "ladder_exhausted", "lane": merchant.url("/x") });
    let asked = json!({ "filter": filter, "dry_run": true });
    let (status, view) = server.call(Method::POST, REPLAY, Some(asked)).await;
    assert_eq!((status, &view["matched"]), (200, &json!(12)), "{view}");
    assert_eq!(view["at_least"], false);
    let sample = view["sample"].as_array().expect("a sample");
    assert_eq!((sample.len(), &sample[0]["id"]), (10, &json!("n000")));
    assert_eq!(sample[0]["cause"], "ladder_exhausted");
    assert_eq!(sample[0]["attempts"][0]["number"], 1, "the last attempt");
    let (_, jobs) = server.call(Method::GET, "/v1/jobs", None).await;
    assert_eq!(jobs, json!({ "items": [], "next_cursor": null }));

    merchant.now_does(Reaction::success());
    let job = start(&server, REPLAY, filter.clone(), 5.0).await;
    assert_eq!(
        (&job["kind"], &job["lane"]),
        (&json!("replay"), &Value::Null)
    );
    assert_eq!(job["filter"]["cause"], "ladder_exhausted");
    assert_eq!(counts(&job), [12, 0, 0, 0]);
    // Whoever got no answer asks again, perhaps in other words.
    let same = json!({ "filter": filter, "rate": 500, "reason": "again" });
    let (status, view) = server.call(Method::POST, REPLAY, Some(same)).await;
    assert_eq!((status, id(&view)), (200, id(&job)), "{view}");
    let other = json!({ "filter": { "topic": "t", "cause": "refused" } });
    let (status, other) = server.call(Method::POST, REPLAY, Some(other)).await;
    assert_eq!((status, counts(&other)), (202, [0; 4]), "{other}");
    for number in 0..12 {
        let call = merchant.call().await;
        assert_eq!(call.body, format!("id=n{number:03}").as_bytes());
    }
    let done = until_ended(&server, &job).await;
    assert_eq!(
        (counts(&done), &done["state"]),
        ([12, 12, 0, 0], &json!("done"))
    );
    for number in 0..12 {
        let view = server
            .until_state(&format!("n{number:03}"), "delivered")
            .await;
        assert_eq!(changed(&view, "replayed", &job), 1);
        assert_eq!(view["series"], 2);
    }
    let (_, log) = server.call(Method::GET, "/v1/audit-log", None).await;
    let acts = log["items"].as_array().expect("entries");
    let of_job: Vec<&Value> = acts
        .iter()
        .filter(|act| act["act"] == "job.replay")
        .collect();
    assert_eq!(of_job.len(), 2, "one for each job: {log}");
    assert_eq!(of_job[1]["subject"]["name"], job["id"]);
    assert_eq!(of_job[1]["reason"], "they are back");
    // It has ended, so the same request makes another one, which has nothing to do.
    let again = start(&server, REPLAY, filter, 5.0).await;
    assert_ne!(id(&again), id(&job));
    assert_eq!(counts(&until_ended(&server, &again).await), [0; 4]);
    assert!(merchant.arrived().is_none());
    server.stop().await;
}

async fn what_dies_again_does_not_join(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, 5).await;
    // The clock stands still, so what dies again has died at the instant at which the job was made.
    let job = start(&server, REPLAY, json!({}), 500.0).await;
    let done = until_ended(&server, &job).await;
    assert_eq!(
        (counts(&done), &done["state"]),
        ([5, 5, 0, 0], &json!("done"))
    );
    for number in 0..5 {
        let id = format!("n{number:03}");
        server.until_attempts(&id, 2).await;
        let view = server.until_state(&id, "dead").await;
        assert_eq!(changed(&view, "replayed", &job), 1, "{view}");
    }
    server.clock().advance(10);
    let next = start(&server, REPLAY, json!({}), 500.0).await;
    assert_eq!(counts(&next), [5, 0, 0, 0], "they are dead again");
    until_ended(&server, &next).await;
    server.stop().await;
}

async fn what_somebody_has_dealt_with_is_skipped(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, 5).await;
    merchant.now_does(Reaction::success());
    let job = start(&server, REPLAY, json!({}), 0.001).await;
    until(&server, &job, |view| view["done"] == 1).await;
    order(&server, &job, "pause").await;
    let path = "/v1/dead-letters/t/n003";
    let (status, view) = server
        .call(Method::POST, &format!("{path}/replay"), None)
        .await;
    assert_eq!(status, 200, "{view}");
    server.until_state("n003", "delivered").await;
    let (status, view) = server
        .call(Method::DELETE, "/v1/dead-letters/t/n004", None)
        .await;
    assert_eq!(status, 200, "{view}");
    // The rest goes on after a restart. At the rate of the job, the next one would come in a quarter of an hour.
    let server = server.restart().await;
    order(&server, &job, "resume").await;
    until(&server, &job, |view| view["done"] == 2).await;
    order(&server, &job, "pause").await;
    let server = server.restart().await;
    order(&server, &job, "resume").await;
    let done = until_ended(&server, &job).await;
    assert_eq!(
        (counts(&done), &done["state"]),
        ([5, 3, 2, 0], &json!("done"))
    );
    // The job has not met them.
    let skipped = listed(&server, &job, "result=skipped").await;
    let reasons = json!([{ "result": "skipped", "reason": "ended_before", "count": 2 }]);
    assert_eq!(skipped["reasons"], reasons);
    assert_eq!(
        (&skipped["items"], &skipped["unlisted"]),
        (&json!([]), &json!(2))
    );
    for (id, by_job) in [
        ("n000", 1),
        ("n001", 1),
        ("n002", 1),
        ("n003", 0),
        ("n004", 0),
    ] {
        let view = server.get(id).await;
        assert_eq!(changed(&view, "replayed", &job), by_job, "{view}");
    }
    assert_eq!(server.get("n004").await["state"], "cancelled");
    server.stop().await;
}

async fn a_replay_whose_lane_is_held_says_so(stores: Stores) {
    fn check(answer: &Value, is_told: bool) {
        let warning = answer.get("warning").map(|warning| {
            let warning = warning.as_str().expect("a text");
            let rest = warning.strip_prefix("the lane is held by api since 2026-11-20T08:30:");
            let rest = rest.and_then(|rest| rest.split_once('Z')).expect(warning);
            rest.1
        });
        let expected = is_told.then_some(" (they move), so calls begin when it is released");
        assert_eq!(warning, expected, "{answer}");
    }
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, 2).await;
    merchant.now_does(Reaction::success());
    let lane: String = url::form_urlencoded::byte_serialize(merchant.url("").as_bytes()).collect();
    let change_lane = async |verb: &str| {
        let body = Some(json!({ "reason": "they move" }));
        let path = format!("/v1/lanes/{lane}/{verb}");
        server.call(Method::POST, &path, body).await.0
    };
    let plan = async |path: &str, filter: &Value| {
        let body = json!({ "filter": filter, "dry_run": true });
        let (status, plan) = server.call(Method::POST, path, Some(body)).await;
        assert_eq!(status, 200, "{plan}");
        plan
    };
    let filter = json!({ "lane": merchant.url("/x") });
    check(&plan(REPLAY, &filter).await, false);
    assert_eq!(change_lane("hold").await, 200);
    check(&plan(REPLAY, &filter).await, true);
    // A cancellation makes no calls. Without a lane in the filter, nothing is looked up.
    check(&plan(CANCEL, &filter).await, false);
    check(&plan(REPLAY, &json!({ "topic": "t" })).await, false);
    let job = start(&server, REPLAY, filter.clone(), 0.001).await;
    check(&job, true);
    let same = json!({ "filter": filter });
    let (status, same) = server.call(Method::POST, REPLAY, Some(same)).await;
    assert_eq!((status, id(&same)), (200, id(&job)), "{same}");
    check(&same, true);
    // The job as it is kept says nothing of it.
    check(&until(&server, &job, |view| view["done"] == 1).await, false);
    assert!(merchant.arrived().is_none(), "it is held");
    check(&order(&server, &job, "stop").await, false);
    assert_eq!(change_lane("release").await, 202);
    server.until_state("n000", "delivered").await;
    check(&plan(REPLAY, &filter).await, false);
    server.stop().await;
}

/// The answer to a request for the notifications of a job.
async fn listed(api: &Api, job: &Value, query: &str) -> Value {
    let path = format!("/v1/jobs/{}/notifications?{query}", id(job));
    let (status, list) = api.call(Method::GET, &path, None).await;
    assert_eq!(status, 200, "{list}");
    list
}

/// The ids of a list.
fn ids(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list").iter();
    items
        .map(|item| item["id"].as_str().expect("an id"))
        .collect()
}

/// The lists of a job have as many notifications as its numbers say, and none twice.
pub async fn check_lists(api: &Api, job: &Value) {
    let mut all = BTreeSet::new();
    for result in ["done", "skipped", "failed"] {
        let (mut many, mut cursor) = (0, String::new());
        let unlisted = loop {
            let query = format!("result={result}&limit=7&cursor={cursor}");
            let list = listed(api, job, &query).await;
            for one in ids(&list) {
                assert!(all.insert(one.to_string()), "{one} is listed twice");
                many += 1;
            }
            match list["next_cursor"].as_str() {
                Some(next) => cursor = next.to_string(),
                None => break list["unlisted"].as_u64().expect("a number"),
            }
        };
        assert_eq!(json!(many + unlisted), job[result], "{result}: {job}");
    }
}

async fn what_a_job_has_not_changed_is_listed_with_the_reason(stores: Stores) {
    const SHOP: &str = "/v1/endpoints/shop-1";
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let endpoint = json!({ "url": merchant.url("/n"), "ladder": { "intervals": [] } });
    let put = async || {
        let (status, view) = server.call(Method::PUT, SHOP, Some(endpoint.clone())).await;
        assert_eq!(status, 201, "{view}");
    };
    put().await;
    server
        .register(json!({ "topic": "t", "id": "named", "endpoint": "shop-1", "body": "a=1" }))
        .await;
    merchant.call().await;
    server.until_state("named", "dead").await;
    let_die(&server, &mut merchant, 3).await;
    // Its endpoint is made again, and may belong to somebody else.
    assert_eq!(server.call(Method::DELETE, SHOP, None).await.0, 204);
    put().await;
    merchant.now_does(Reaction::success());
    // The plan says before what the job says afterwards.
    let reason = json!([{ "result": "failed", "reason": "endpoint_made_again", "count": 1 }]);
    let asked = json!({ "filter": {}, "dry_run": true });
    let (status, plan) = server.call(Method::POST, REPLAY, Some(asked)).await;
    assert_eq!((status, &plan["matched"]), (200, &json!(4)), "{plan}");
    assert_eq!(plan["reasons"], reason, "{plan}");
    let job = start(&server, REPLAY, json!({}), 500.0).await;
    let done = until_ended(&server, &job).await;
    assert_eq!(counts(&done), [4, 3, 0, 1], "{done}");
    for number in 0..3 {
        server
            .until_state(&format!("n{number:03}"), "delivered")
            .await;
    }
    // The same after a restart.
    let server = server.restart().await;
    let failed = listed(&server, &job, "result=failed").await;
    assert_eq!(ids(&failed), ["named"], "{failed}");
    let item = &failed["items"][0];
    assert_eq!(
        (
            &item["topic"],
            &item["result"],
            &item["reason"],
            &item["detail"]
        ),
        (
            &json!("t"),
            &json!("failed"),
            &json!("endpoint_made_again"),
            &Value::Null
        )
    );
    assert_eq!(item["notification"]["state"], "dead");
    assert_eq!(
        item["notification"]["last_attempt"]["outcome"],
        "wrong_answer"
    );
    assert_eq!(failed["reasons"], reason);
    assert_eq!(
        (&failed["unlisted"], &failed["replayed"]),
        (&json!(0), &Value::Null)
    );
    let skipped = listed(&server, &job, "result=skipped").await;
    assert_eq!(
        (&skipped["items"], &skipped["reasons"]),
        (&json!([]), &reason)
    );
    // What is done is shown as it is by now.
    let first = listed(&server, &job, "limit=2").await;
    let now = json!({ "counted": 3, "delivered": 3, "dead": 0, "cancelled": 0, "pending": 0 });
    assert_eq!(first["replayed"], now);
    let next = first["next_cursor"].as_str().expect("there is more");
    let next = listed(&server, &job, &format!("result=done&cursor={next}")).await;
    assert_eq!(next["replayed"], Value::Null);
    let mut all = [ids(&first), ids(&next)].concat();
    all.sort_unstable();
    assert_eq!(all, ["n000", "n001", "n002"]);
    for item in first["items"].as_array().expect("a list") {
        assert_eq!(item["notification"]["state"], "delivered", "{item}");
        assert_eq!(item["reason"], Value::Null);
    }
    for wrong in ["result=x", "cursor=x", "limit=0", "state=done"] {
        let path = format!("/v1/jobs/{}/notifications?{wrong}", id(&job));
        assert_eq!(
            server.call(Method::GET, &path, None).await.0,
            400,
            "{wrong}"
        );
    }
    let (status, _) = server
        .call(Method::GET, "/v1/jobs/0a/notifications", None)
        .await;
    assert_eq!(status, 404);
    server.stop().await;
}

async fn a_job_ends_when_most_of_the_first_fail_again(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, 25).await;
    let job = start(&server, REPLAY, json!({}), 1_000.0).await;
    let ended = until_ended(&server, &job).await;
    assert_eq!(ended["state"], "failed", "{ended}");
    assert_eq!(counts(&ended), [25, 20, 0, 0]);
    let problem = ended["problem"].as_str().expect("a problem");
    assert!(
        problem.starts_with("of the first 20 notifications, "),
        "{problem}"
    );
    let mut replayed = 0;
    for number in 0..25 {
        let id = format!("n{number:03}");
        let attempts = if number < 20 { 2 } else { 1 };
        server.until_attempts(&id, attempts).await;
        let view = server.until_state(&id, "dead").await;
        replayed += changed(&view, "replayed", &job);
    }
    assert_eq!(replayed, 20);
    // Now they are back: the next job goes on after its trial.
    server.clock().advance(10);
    merchant.now_does(Reaction::success());
    let next = start(&server, REPLAY, json!({}), 1_000.0).await;
    let done = until_ended(&server, &next).await;
    assert_eq!(
        (counts(&done), &done["state"]),
        ([25, 25, 0, 0], &json!("done"))
    );
    for number in 0..25 {
        server
            .until_state(&format!("n{number:03}"), "delivered")
            .await;
    }
    server.stop().await;
}

async fn a_replay_is_paused_resumed_and_stopped(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, 10).await;
    merchant.now_does(Reaction::success());
    let job = start(&server, REPLAY, json!({}), 2.0).await;
    merchant.call().await;
    let paused = order(&server, &job, "pause").await;
    let done = paused["done"].as_u64().expect("a number");
    assert!((1..10).contains(&done), "{paused}");
    let asked = json!({ "filter": {} });
    let (status, view) = server.call(Method::POST, REPLAY, Some(asked)).await;
    assert_eq!((status, &view["state"]), (200, &json!("paused")), "{view}");
    order(&server, &job, "resume").await;
    until(&server, &job, |view| view["done"].as_u64() > Some(done)).await;
    let stopped = order(&server, &job, "stop").await;
    let done = stopped["done"].as_u64().expect("a number");
    let mut replayed = 0;
    for number in 0..10 {
        let view = server.get(&format!("n{number:03}")).await;
        replayed += changed(&view, "replayed", &job) as u64;
    }
    assert_eq!(replayed, done, "what was not reached is as it was");
    server.stop().await;
}

async fn what_is_replayed_goes_behind_what_is_sent_anyway(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let one = |config: &mut ServeConfig| config.schedule.lane_concurrency = 1;
    let server = server.restart_as(one).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, 3).await;
    merchant.now_does(Reaction::success());
    let lane: String = url::form_urlencoded::byte_serialize(merchant.url("").as_bytes()).collect();
    let path = |verb: &str| format!("/v1/lanes/{lane}/{verb}");
    let (status, view) = server.call(Method::POST, &path("hold"), None).await;
    assert_eq!(status, 200, "{view}");
    let job = start(&server, REPLAY, json!({}), 500.0).await;
    assert_eq!(counts(&until_ended(&server, &job).await), [3, 3, 0, 0]);
    assert_eq!(server.get("n000").await["priority"], "low");
    assert!(
        merchant.arrived().is_none(),
        "a job does not release a lane"
    );
    server.clock().advance(10);
    server.register(registration("live", &merchant)).await;
    let (status, view) = server.call(Method::POST, &path("release"), None).await;
    assert_eq!(status, 202, "{view}");
    for id in ["live", "n000", "n001", "n002"] {
        assert_eq!(merchant.call().await.body, format!("id={id}").as_bytes());
    }
    server.stop().await;
}

async fn what_is_pending_is_cancelled_also_after_its_attempt(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let held = Reaction::Held(Box::new(Reaction::fail()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    server
        .register(registration("shop-in-flight", &merchant))
        .await;
    merchant.call().await;
    for id in ["shop-1", "shop-2", "other"] {
        let mut later = registration(id, &merchant);
        later["delay"] = "1h".into();
        server.register(later).await;
    }
    server.clock().advance(10);
    let filter = json!({ "id_contains": "shop-", "lane": merchant.url("") });
    let asked = json!({ "filter": filter, "dry_run": true });
    let (status, view) = server.call(Method::POST, CANCEL, Some(asked)).await;
    assert_eq!((status, &view["matched"]), (200, &json!(3)), "{view}");
    let job = start(&server, CANCEL, filter, 500.0).await;
    let waiting = until(&server, &job, |view| view["done"] == 2).await;
    assert_eq!(
        (counts(&waiting), &waiting["state"]),
        ([3, 2, 0, 0], &json!("running")),
        "an attempt is in flight"
    );
    merchant.release();
    let done = until_ended(&server, &job).await;
    assert_eq!(
        (counts(&done), &done["state"]),
        ([3, 3, 0, 0], &json!("done"))
    );
    for id in ["shop-in-flight", "shop-1", "shop-2"] {
        let view = server.get(id).await;
        assert_eq!(view["state"], "cancelled", "{view}");
        assert_eq!(changed(&view, "cancelled", &job), 1, "{view}");
    }
    assert_eq!(server.get("other").await["state"], "scheduled");
    server.stop().await;
}

async fn wrong_requests_for_a_filter_are_named(stores: Stores) {
    let server = Server::start(stores).await;
    let check = async |path: &str, body: Option<Value>, why: &str| {
        let (found, view) = server.call(Method::POST, path, body).await;
        assert_eq!(found, 422, "{path}: {view}");
        let detail = view["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(why), "{path}: {view}");
    };
    for path in [REPLAY, CANCEL] {
        check(path, None, "/filter: this field is missing").await;
        check(path, Some(json!({})), "/filter: this field is missing").await;
        let null = json!({ "filter": { "topic": null } });
        check(path, Some(null), "every field of the filter is null").await;
        let wrong = json!({ "filter": { "state": "dead" } });
        check(path, Some(wrong), "/filter/state: unknown field").await;
        let wrong = json!({ "filter": {}, "rate": 0 });
        check(path, Some(wrong), "from 0.001 to 1000").await;
    }
    let wrong = json!({ "filter": { "cause": "refused" } });
    check(CANCEL, Some(wrong), "/filter/cause: unknown field").await;
    server.stop().await;
}

async fn what_cannot_be_read_does_not_keep_a_job_from_the_others(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    let_die(&server, &mut merchant, 3).await;
    for id in ["later-1", "later-2"] {
        let mut later = registration(id, &merchant);
        later["delay"] = "1h".into();
        server.register(later).await;
    }
    let damage = "UPDATE notifications SET ladder = 'rope' WHERE id IN ('n001', 'later-1')";
    sql(&server.config().journal, damage).await;
    merchant.now_does(Reaction::success());
    for (path, part, many) in [(REPLAY, "n", 3), (CANCEL, "later", 2)] {
        let filter = json!({ "id_contains": part });
        let asked = json!({ "filter": filter, "dry_run": true });
        let (status, view) = server.call(Method::POST, path, Some(asked)).await;
        assert_eq!((status, &view["matched"]), (200, &json!(many)), "{view}");
        let sample = view["sample"].as_array().expect("a sample");
        assert_eq!(sample.len() as u64, many - 1, "{view}");
        let job = start(&server, path, filter, 500.0).await;
        let done = until_ended(&server, &job).await;
        let done = counts(&done);
        assert_eq!((done[0], done[1]), (many, many - 1), "{done:?}");
    }
    server.stop().await;
}

async fn without_a_journal_there_are_no_jobs_of_a_filter(stores: Stores) {
    let server = Server::start(stores).await;
    for path in [REPLAY, CANCEL] {
        for dry_run in [false, true] {
            let body = json!({ "filter": {}, "dry_run": dry_run });
            let (status, view) = server.call(Method::POST, path, Some(body)).await;
            assert_eq!(status, 501, "{path}: {view}");
        }
    }
    server.stop().await;
}

/// Kills the server that carries on a replay, in the middle of it. `next` starts or gives the one that goes on.
async fn killed_in_the_middle(first: Process, next: impl AsyncFnOnce() -> Process) {
    const MANY: usize = 60;
    let mut merchant = Merchant::scripted(vec![], Reaction::fail()).await;
    for number in 0..MANY {
        let id = format!("n{number:03}");
        let letter = with_ladder(&id, &merchant, &[]);
        first.api().register(letter).await;
        merchant.call().await;
        first.api().until_state(&id, "dead").await;
    }
    merchant.now_does(Reaction::success());
    let job = start(first.api(), REPLAY, json!({ "topic": "t" }), 20.0).await;
    for _ in 0..MANY / 2 {
        merchant.call().await;
    }
    first.kill().await;
    let next = next().await;
    let done = until_ended(next.api(), &job).await;
    assert_eq!(
        (counts(&done), &done["state"]),
        ([60, 60, 0, 0], &json!("done"))
    );
    check_lists(next.api(), &done).await;
    for number in 0..MANY {
        let view = next
            .api()
            .until_state(&format!("n{number:03}"), "delivered")
            .await;
        assert_eq!(
            (changed(&view, "replayed", &job), &view["series"]),
            (1, &json!(2))
        );
    }
    next.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_of_a_replay_the_other_server_finishes_it() {
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
async fn killed_in_the_middle_of_a_replay_the_server_finishes_it_when_it_is_started_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let first = Process::start(dir.path(), &[]).await;
    killed_in_the_middle(first, async || Process::start(dir.path(), &[]).await).await;
}
