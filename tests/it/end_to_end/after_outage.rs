//! What an endpoint does when it answers again after an outage, and when its receiver asks for no more calls.

use super::{on_journaled_stores, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Api, Server, Stores, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use serde_json::{Value, json};

on_journaled_stores!(
    what_failed_during_an_outage_is_sent_when_it_is_over,
    a_job_of_a_probed_lane_with_nothing_to_make_due_has_it_called,
    a_job_asks_a_probed_destination_for_one_call,
    an_outage_waits_for_a_paused_job_that_is_resumed,
    an_outage_waits_for_a_paused_job_that_is_stopped,
);
on_stores!(@ postgres_shared Postgres several_servers_make_one_job_of_an_outage);
on_stores!(@ gone_embedded Embedded
    a_receiver_that_is_gone_holds_its_endpoint
    an_endpoint_decides_that_a_410_ends_a_notification
);
on_stores!(@ gone_postgres Postgres
    a_receiver_that_is_gone_holds_its_endpoint
    an_endpoint_decides_that_a_410_ends_a_notification
);
on_stores!(@ gone_redis_only RedisOnly a_receiver_that_is_gone_holds_its_endpoint);

async fn set(api: &Api, name: &str, endpoint: Value) {
    let path = format!("/v1/endpoints/{name}");
    let (status, view) = api.call(Method::PUT, &path, Some(endpoint)).await;
    assert_eq!(status, 201, "{view}");
}

/// Registers one that is sent at once, and then after ten hours.
async fn register(api: &Api, id: &str, endpoint: &str) {
    let asked = json!({
        "topic": "t", "id": id, "endpoint": endpoint, "body": format!("id={id}"),
        "ladder": { "intervals": ["10h"], "window": "20h" },
    });
    api.register(asked).await;
}

async fn lane(api: &Api, endpoint: &str) -> Value {
    let path = format!("/v1/lanes/endpoint%3A{endpoint}");
    api.call(Method::GET, &path, None).await.1
}

async fn until_state(api: &Api, endpoint: &str, state: &str) -> Value {
    within("the lane to stand as wished", async {
        loop {
            let lane = lane(api, endpoint).await;
            if lane["state"] == state {
                return lane;
            }
            short_pause().await;
        }
    })
    .await
}

/// Has three calls of an endpoint fail, so that its lane is probed.
async fn fail(api: &Api, merchant: &mut Merchant, endpoint: &str, ids: [&str; 3]) {
    merchant.now_does(Reaction::Close);
    for id in ids {
        register(api, id, endpoint).await;
        merchant.call().await;
        api.until_attempts(id, 1).await;
    }
    until_state(api, endpoint, "probing").await;
}

async fn jobs(api: &Api) -> Vec<Value> {
    let (status, page) = api.call(Method::GET, "/v1/jobs", None).await;
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().expect("a list").clone()
}

async fn what_failed_during_an_outage_is_sent_when_it_is_over(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::start().await;
    let mut plain = Merchant::start().await;
    set(&server, "plain", json!({ "url": plain.url("/") })).await;
    let settings = json!({ "url": merchant.url("/"), "after_outage_rate": 500 });
    set(&server, "shop", settings).await;
    // One that says nothing of outages leaves its notifications to their ladders.
    fail(&server, &mut plain, "plain", ["p1", "p2", "p3"]).await;
    register(&server, "p4", "plain").await;
    plain.now_does(Reaction::success());
    server.clock().advance(1_000);
    assert_eq!(plain.call().await.body, b"id=p4");
    server.until_state("p4", "delivered").await;

    for (outage, [one, two, three, probe]) in [["a", "b", "c", "d"], ["e", "f", "g", "h"]]
        .into_iter()
        .enumerate()
    {
        fail(&server, &mut merchant, "shop", [one, two, three]).await;
        register(&server, probe, "shop").await;
        merchant.now_does(Reaction::success());
        server.clock().advance(1_000);
        for id in [probe, one, two, three] {
            let call = merchant.call().await;
            if id == probe {
                assert_eq!(call.body, format!("id={id}").into_bytes());
            }
        }
        for id in [one, two, three, probe] {
            let view = server.until_state(id, "delivered").await;
            let attempts = if id == probe { 1 } else { 2 };
            assert_eq!(view["attempts_made"], attempts, "{view}");
        }
        let jobs = within("the job to be done", async {
            loop {
                let jobs = jobs(&server).await;
                if jobs.iter().all(|job| job["state"] == "done") {
                    return jobs;
                }
                short_pause().await;
            }
        })
        .await;
        assert_eq!(jobs.len(), outage + 1, "{jobs:?}");
        let job = &jobs[0];
        assert_eq!(job["kind"], "after_outage", "{job}");
        assert_eq!(job["lane"], "endpoint:shop", "{job}");
        assert_eq!(
            (&job["matched"], &job["done"]),
            (&json!(3), &json!(3)),
            "{job}"
        );
        assert_eq!(job["actor"], "maintenance", "{job}");
        let reason = job["reason"].as_str().expect("a reason");
        assert!(
            reason.starts_with("the destination answers again; "),
            "{reason}"
        );
        let view = server.get(one).await;
        let lines = view["transitions"].as_array().expect("a history");
        let retried = lines.iter().filter(|line| line["kind"] == "retried");
        assert_eq!(retried.count(), 1, "{view}");
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
    assert!(plain.arrived().is_none());
}

async fn an_outage_waits_for_a_paused_job_that_is_resumed(stores: Stores) {
    outage_during_a_paused_job(stores, "resume").await;
}

async fn an_outage_waits_for_a_paused_job_that_is_stopped(stores: Stores) {
    outage_during_a_paused_job(stores, "stop").await;
}

/// Registers one that is due in two hours: it waits in the journal alone.
async fn register_later(api: &Api, id: &str) {
    let asked = json!({
        "topic": "t", "id": id, "endpoint": "shop", "body": format!("id={id}"), "delay": "2h",
        "ladder": { "intervals": ["10h"], "window": "20h" },
    });
    api.register(asked).await;
}

/// How often a job has made a notification due.
async fn made_due(api: &Api, id: &str) -> usize {
    let view = api.get(id).await;
    let lines = view["transitions"].as_array().expect("a history");
    let by_job = |line: &&Value| {
        let detail = line["detail"].as_str().unwrap_or_default();
        line["kind"] == "retried" && detail.starts_with("job ")
    };
    lines.iter().filter(by_job).count()
}

async fn order_job(api: &Api, job: &Value, order: &str) -> Value {
    let id = job["id"].as_str().expect("an id");
    let path = format!("/v1/jobs/{id}/{order}");
    let (status, job) = api.call(Method::POST, &path, None).await;
    assert_eq!(status, 200, "{job}");
    job
}

/// An outage while a job of the lane is paused. One of the notifications, `w2`, concerns both that job and the one after
/// the outage: the paused job has not come to it, and an attempt of it by hand fails during the outage. The paused job is
/// given an order when the outage is over.
async fn outage_during_a_paused_job(stores: Stores, order: &str) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::start().await;
    let settings = json!({ "url": merchant.url("/"), "after_outage_rate": 500 });
    set(&server, "shop", settings).await;
    for id in ["w1", "w2", "w3"] {
        register_later(&server, id).await;
    }
    // One notification in a step, and the next step in a thousand seconds.
    let path = "/v1/lanes/endpoint%3Ashop/retry";
    let body = json!({ "reason": "slowly", "rate": 0.001 });
    let (status, slow) = server.call(Method::POST, path, Some(body)).await;
    assert_eq!((status, &slow["matched"]), (202, &json!(3)), "{slow}");
    assert_eq!(merchant.call().await.body, b"id=w1");
    server.until_state("w1", "delivered").await;
    let paused = order_job(&server, &slow, "pause").await;
    assert_eq!(
        (&paused["state"], &paused["done"]),
        (&json!("paused"), &json!(1))
    );
    // Whoever carried it on may look at it only after some seconds; so it has to stop.
    let server = server.restart().await;

    fail(&server, &mut merchant, "shop", ["x1", "x2", "x3"]).await;
    let retry = "/v1/notifications/t/w2/retry";
    let (status, view) = server.call(Method::POST, retry, None).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(merchant.call().await.body, b"id=w2");
    server.until_attempts("w2", 1).await;
    register(&server, "probe", "shop").await;
    merchant.now_does(Reaction::success());
    server.clock().advance(60_000);
    assert_eq!(merchant.call().await.body, b"id=probe");
    server.until_state("probe", "delivered").await;
    until_state(&server, "shop", "open").await;

    // Nothing of the outage is sent while the other job stands in the way.
    assert_eq!(jobs(&server).await.len(), 1);
    assert!(merchant.arrived().is_none());
    let mut left = vec!["x1", "x2", "x3"];
    match order {
        "resume" => {
            order_job(&server, &slow, "resume").await;
            assert_eq!(merchant.call().await.body, b"id=w2");
            server.until_state("w2", "delivered").await;
            // The next step comes in a thousand seconds.
            let stopped = order_job(&server, &slow, "stop").await;
            assert_eq!(stopped["done"], 2, "{stopped}");
        }
        _ => {
            let stopped = order_job(&server, &slow, "stop").await;
            assert_eq!(stopped["done"], 1, "{stopped}");
            left.push("w2");
        }
    }
    let after = within("the job after the outage to be done", async {
        loop {
            let jobs = jobs(&server).await;
            let mut after = jobs.into_iter().filter(|job| job["kind"] == "after_outage");
            if let Some(job) = after.next().filter(|job| job["state"] == "done") {
                return job;
            }
            short_pause().await;
        }
    })
    .await;
    let many = json!(left.len());
    assert_eq!(
        (&after["matched"], &after["done"]),
        (&many, &many),
        "{after}"
    );
    let mut called = Vec::new();
    for _ in &left {
        called.push(String::from_utf8(merchant.call().await.body).expect("text"));
    }
    called.sort_unstable();
    left.sort_unstable();
    let expected: Vec<String> = left.iter().map(|id| format!("id={id}")).collect();
    assert_eq!(called, expected);
    for id in ["x1", "x2", "x3", "w2"] {
        let view = server.until_state(id, "delivered").await;
        assert_eq!(view["attempts_made"], 2, "{view}");
        assert_eq!(made_due(&server, id).await, 1, "{view}");
    }
    // What neither job has come to is sent when it is due.
    assert_eq!(server.get("w3").await["attempts_made"], 0);
    assert_eq!(made_due(&server, "w3").await, 0);
    server.clock().advance(7_200_000);
    assert_eq!(merchant.call().await.body, b"id=w3");
    server.until_state("w3", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn several_servers_make_one_job_of_an_outage(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut others = Vec::new();
    for _ in 0..2 {
        let clock = Some(server.clock().clone());
        others.push(Server::open(server.config().clone(), clock, None).await);
    }
    let mut merchant = Merchant::start().await;
    let settings = json!({ "url": merchant.url("/"), "after_outage_rate": 500 });
    set(&server, "shop", settings).await;
    fail(&server, &mut merchant, "shop", ["a", "b", "c"]).await;
    register(&server, "d", "shop").await;
    merchant.now_does(Reaction::success());
    server.clock().advance(1_000);
    for id in ["d", "a", "b", "c"] {
        server.until_state(id, "delivered").await;
        merchant.call().await;
    }
    assert_eq!(jobs(&server).await.len(), 1);
    for other in others {
        other.stop().await;
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_job_of_a_probed_lane_with_nothing_to_make_due_has_it_called(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::start().await;
    set(&server, "shop", json!({ "url": merchant.url("/") })).await;
    merchant.now_does(Reaction::Close);
    for id in ["a", "b", "c"] {
        let mut asked = json!({ "topic": "t", "id": id, "endpoint": "shop", "body": id });
        asked["ladder"] = json!({ "intervals": [], "window": "1h" });
        server.register(asked).await;
        merchant.call().await;
        server.until_state(id, "dead").await;
    }
    register(&server, "d", "shop").await;
    until_state(&server, "shop", "probing").await;
    assert!(merchant.arrived().is_none(), "it waits for the probe");
    merchant.now_does(Reaction::success());
    let path = "/v1/lanes/endpoint%3Ashop/retry";
    let body = json!({ "reason": "a test" });
    let (status, job) = server.call(Method::POST, path, Some(body)).await;
    assert_eq!((status, &job["matched"]), (202, &json!(0)), "{job}");
    within("the job to be done", async {
        while jobs(&server).await[0]["state"] != "done" {
            short_pause().await;
        }
    })
    .await;
    // It was due already, and does not wait for the next probe.
    assert_eq!(merchant.call().await.body, b"id=d");
    server.until_state("d", "delivered").await;
    server.stop().await;
}

/// Some of what it makes due is in the schedule, and some waits in the journal alone.
async fn a_job_asks_a_probed_destination_for_one_call(stores: Stores) {
    let server = Server::start_by_hand(stores).await;
    let mut merchant = Merchant::start().await;
    let mut healthy = Merchant::start().await;
    set(&server, "shop", json!({ "url": merchant.url("/") })).await;
    set(&server, "healthy", json!({ "url": healthy.url("/") })).await;
    for id in ["later1", "later2", "later3", "later4"] {
        let mut asked = json!({ "topic": "t", "id": id, "endpoint": "shop", "body": id });
        asked["delay"] = "2h".into();
        server.register(asked).await;
    }
    fail(&server, &mut merchant, "shop", ["a", "b", "c"]).await;
    let path = "/v1/lanes/endpoint%3Ashop/retry";
    let body = json!({ "reason": "a test" });
    let (status, job) = server.call(Method::POST, path, Some(body)).await;
    assert_eq!((status, &job["matched"]), (202, &json!(7)), "{job}");
    let called = merchant.call().await.body;
    within("the job to be done", async {
        while jobs(&server).await[0]["state"] != "done" {
            short_pause().await;
        }
    })
    .await;
    // The time of the next probe counts from when this one is recorded: the clock stands until then.
    let called = called.strip_prefix(b"id=").unwrap_or(&called);
    let called = str::from_utf8(called).expect("an id");
    let attempts = if called.starts_with("later") { 1 } else { 2 };
    server.until_attempts(called, attempts).await;
    // What is due is claimed with this.
    register(&server, "other", "healthy").await;
    healthy.call().await;
    assert!(merchant.arrived().is_none());
    merchant.now_does(Reaction::success());
    server.clock().advance(60_000);
    // The others have kept the attempt that was asked for.
    for id in ["later1", "later2", "later3", "later4", "a", "b", "c"] {
        if called != id {
            merchant.call().await;
            server.until_state(id, "delivered").await;
        }
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_receiver_that_is_gone_holds_its_endpoint(stores: Stores) {
    let server = Server::start(stores).await;
    let gone = Reaction::Answer(410, Vec::new());
    let mut merchant = Merchant::scripted(vec![gone], Reaction::success()).await;
    let settings = json!({ "url": merchant.url("/"), "gone": "hold", "concurrency": 1 });
    set(&server, "shop", settings).await;
    // What another receiver answers says nothing of this one.
    let gone = Merchant::scripted(vec![], Reaction::Answer(410, Vec::new())).await;
    let mut elsewhere = registration("elsewhere", &gone);
    elsewhere["endpoint"] = json!("shop");
    server.register(elsewhere).await;
    server.until_state("elsewhere", "dead").await;
    assert_eq!(lane(&server, "shop").await["held_by"], Value::Null);
    register(&server, "a", "shop").await;
    merchant.call().await;
    let view = server.until_state("a", "dead").await;
    assert_eq!(view["cause"], "refused", "{view}");
    let held = lane(&server, "shop").await;
    assert_eq!(
        (&held["state"], &held["held_by"]),
        (&json!("held"), &json!("dispatcher"))
    );
    let expected = "the receiver answered a call with 410: it asks for no more calls";
    assert_eq!(held["held_reason"], expected, "{held}");
    register(&server, "b", "shop").await;
    assert_eq!(server.get("b").await["state"], "scheduled");
    assert!(merchant.arrived().is_none(), "it is held");
    let path = "/v1/lanes/endpoint%3Ashop/release";
    let (status, view) = server.call(Method::POST, path, None).await;
    assert_eq!(status, 202, "{view}");
    assert_eq!(merchant.call().await.body, b"id=b");
    server.until_state("b", "delivered").await;
    server.stop().await;
}

async fn an_endpoint_decides_that_a_410_ends_a_notification(stores: Stores) {
    let server = Server::start(stores).await;
    let gone = Reaction::Answer(410, Vec::new());
    let mut merchant = Merchant::scripted(vec![gone.clone(), gone], Reaction::success()).await;
    for (name, gone, state) in [
        ("as-usual", Value::Null, "scheduled"),
        ("parks", json!("park"), "dead"),
    ] {
        set(
            &server,
            name,
            json!({ "url": merchant.url("/"), "gone": gone }),
        )
        .await;
        register(&server, name, name).await;
        merchant.call().await;
        let view = server.until_attempts(name, 1).await;
        assert_eq!(view["state"], state, "{view}");
        assert_eq!(lane(&server, name).await["held_by"], Value::Null);
    }
    server.stop().await;
}
