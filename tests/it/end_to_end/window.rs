//! What is due after the horizon waits in the journal alone: callers, merchants and operators see no difference.

use super::{on_journaled_stores, on_several_redis, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::proxy::Line;
use crate::support::redis::RedisServer;
use crate::support::ringback::{
    BEGIN_MS, Server, Stores, before_redis, config, registration, with_ladder,
};
use crate::support::{LONGEST_WAIT, short_pause, within};
use reqwest::Method;
use ringback::clock::ManualClock;
use ringback::config::RedisUrl;
use ringback::schedule::CLAIMED_EARLY_MS;
use serde_json::{Value, json};
use std::time::Duration;

on_journaled_stores!(
    what_waits_in_the_journal_comes_when_it_is_due,
    a_notification_whose_next_step_is_far_away_leaves_the_schedule_and_comes_back,
    what_waits_in_the_journal_is_cancelled_moved_and_called_by_hand,
    what_waits_in_the_journal_is_still_there_after_a_restart,
    it_is_registered_once,
);
on_several_redis!(
    what_waits_in_the_journal_comes_when_it_is_due,
    a_notification_whose_next_step_is_far_away_leaves_the_schedule_and_comes_back,
);

const MINUTE_MS: i64 = 60_000;
const HORIZON: Duration = Duration::from_secs(3_600);

fn delayed(id: &str, merchant: &Merchant, delay: &str) -> Value {
    let mut asked = registration(id, merchant);
    asked["delay"] = json!(delay);
    asked
}

/// A server that has what is due within an hour in its schedule.
async fn start(stores: Stores) -> Server {
    let dir = tempfile::tempdir().expect("a directory");
    let config = config(dir.path(), stores);
    assert_eq!(config.schedule.horizon, Some(HORIZON), "the default");
    Server::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await
}

/// A number of the metrics. One reading serves everybody for a second.
async fn metric(server: &Server, name: &str) -> Option<f64> {
    let url = format!("{}/metrics", server.url());
    let client = reqwest::Client::builder().no_proxy().build();
    let answer = client.expect("a client").get(url).send();
    let answer = within("the metrics", answer).await.expect("an answer");
    let text = answer.text().await.expect("a text");
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Waits until the schedule has so many entries.
async fn until_entries(server: &Server, expected: f64) {
    let name = r#"ringback_schedule_entries{state="pending"}"#;
    let mut last = None;
    let waiting = async {
        loop {
            last = metric(server, name).await;
            if last == Some(expected) {
                return;
            }
            short_pause().await;
        }
    };
    let waited = tokio::time::timeout(LONGEST_WAIT, waiting).await;
    assert!(
        waited.is_ok(),
        "{expected} entries were awaited, and there are {last:?}"
    );
}

async fn what_waits_in_the_journal_comes_when_it_is_due(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    let view = server.register(delayed("a", &merchant, "2h")).await;
    assert_eq!(view["state"], "scheduled");
    assert_eq!(view["next_attempt_at"], "2026-11-20T10:30:00.000Z");
    until_entries(&server, 0.0).await;
    let pending = metric(&server, r#"ringback_notifications{state="pending"}"#).await;
    assert_eq!(pending, Some(1.0));
    let expected = "ringback_schedule_expected_entries";
    assert_eq!(metric(&server, expected).await, Some(0.0));
    // Half of the horizon before it is due, it is loaded.
    server.clock().advance(90 * MINUTE_MS);
    until_entries(&server, 1.0).await;
    within("the journal to count it too", async {
        while metric(&server, expected).await != Some(1.0) {
            short_pause().await;
        }
    })
    .await;
    // Later, it is claimed, to begin when it is due.
    let before_ms = CLAIMED_EARLY_MS + 1;
    server
        .clock()
        .turn_to(BEGIN_MS + 120 * MINUTE_MS - before_ms);
    assert!(merchant.arrived().is_none());
    server.clock().advance(before_ms);
    assert_eq!(merchant.call().await.body, b"id=a");
    let view = server.until_state("a", "delivered").await;
    let attempt = &view["attempts"][0];
    assert_eq!(attempt["due_at"], "2026-11-20T10:30:00.000Z");
    assert_eq!(attempt["started_at"], "2026-11-20T10:30:00.000Z");
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn a_notification_whose_next_step_is_far_away_leaves_the_schedule_and_comes_back(
    stores: Stores,
) {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = start(stores).await;
    server.register(with_ladder("a", &merchant, &["6h"])).await;
    assert_eq!(merchant.call().await.attempt(), 1);
    let view = server.until_attempts("a", 1).await;
    assert_eq!(view["next_attempt_at"], "2026-11-20T14:30:00.000Z");
    until_entries(&server, 0.0).await;
    server.clock().advance(6 * 60 * MINUTE_MS);
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_state("a", "delivered").await;
    assert_eq!(
        view["attempts"][1]["started_at"],
        "2026-11-20T14:30:00.000Z"
    );
    until_entries(&server, 0.0).await;
    server.stop().await;
}

async fn what_waits_in_the_journal_is_cancelled_moved_and_called_by_hand(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    for id in ["cancelled", "called", "nearer", "farther"] {
        server.register(delayed(id, &merchant, "3h")).await;
    }
    until_entries(&server, 0.0).await;
    // Their registrations were accepted just now, and nobody waits for them to arrive: the clock stands still.
    let path = |id: &str| format!("/v1/notifications/t/{id}");
    let (status, view) = server.call(Method::DELETE, &path("cancelled"), None).await;
    assert_eq!(
        (status, &view["state"]),
        (200, &json!("cancelled")),
        "{view}"
    );
    let retry = format!("{}/retry", path("called"));
    let (status, view) = server.call(Method::POST, &retry, Some(json!({}))).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(merchant.call().await.body, b"id=called");
    server.until_state("called", "delivered").await;
    for (id, delay) in [("nearer", "5m"), ("farther", "24h")] {
        let body = json!({ "delay": delay });
        let (status, view) = server.call(Method::PATCH, &path(id), Some(body)).await;
        assert_eq!(status, 200, "{view}");
    }
    until_entries(&server, 1.0).await;
    server.clock().advance(5 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=nearer");
    // Back out of the window, from inside of it.
    server.register(delayed("out", &merchant, "10m")).await;
    until_entries(&server, 1.0).await;
    let body = json!({ "delay": "4h" });
    let (status, view) = server.call(Method::PATCH, &path("out"), Some(body)).await;
    assert_eq!(status, 200, "{view}");
    until_entries(&server, 0.0).await;
    server.clock().advance(4 * 60 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=out");
    server.clock().advance(20 * 60 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=farther");
    server.until_state("farther", "delivered").await;
    server.stop().await;
    assert!(
        merchant.arrived().is_none(),
        "what was cancelled was not called"
    );
}

async fn what_waits_in_the_journal_is_still_there_after_a_restart(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    server.register(delayed("far", &merchant, "2h")).await;
    server.register(delayed("near", &merchant, "40m")).await;
    let server = server.restart().await;
    server.clock().advance(40 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=near");
    let server = server.restart().await;
    server.clock().advance(80 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=far");
    server.until_state("far", "delivered").await;
    server.stop().await;
}

async fn it_is_registered_once(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    let asked = delayed("a", &merchant, "2h");
    let first = server.register(asked.clone()).await;
    let (status, again) = server
        .call(Method::POST, "/v1/notifications", Some(asked))
        .await;
    assert_eq!(status, 200, "{again}");
    assert_eq!(again["webhook_id"], first["webhook_id"]);
    let mut other = delayed("a", &merchant, "2h");
    other["body"] = json!("other");
    let (status, _) = server
        .call(Method::POST, "/v1/notifications", Some(other))
        .await;
    assert_eq!(status, 409);
    until_entries(&server, 0.0).await;
    server.clock().advance(120 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=a");
    server.until_state("a", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// Without Redis, what is due soon is refused, since nobody could send it in time. What waits in the journal is accepted,
/// and comes once Redis is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_refuses_only_what_is_due_soon() {
    let mut redis = RedisServer::start(&[]);
    let mut merchant = Merchant::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = config(dir.path(), Stores::Embedded);
    config.schedule.redis = Some(RedisUrl::parse(&redis.url(0)).expect("a URL"));
    let clock = ManualClock::at(BEGIN_MS);
    let server = Server::open(config, Some(clock), Some(dir)).await;
    redis.kill();
    let soon = Some(delayed("soon", &merchant, "30m"));
    let (status, view) = server.call(Method::POST, "/v1/notifications", soon).await;
    assert_eq!(status, 503, "{view}");
    let later = delayed("later", &merchant, "2h");
    let (status, view) = server
        .call(Method::POST, "/v1/notifications", Some(later.clone()))
        .await;
    assert_eq!(status, 201, "{view}");
    let (status, view) = server
        .call(Method::POST, "/v1/notifications", Some(later))
        .await;
    assert_eq!(status, 200, "{view}");
    // In a batch as well, also what is begun after one of it was refused; but not beyond a gap in a strict order.
    const MANY: usize = 400;
    let strict = |number: u32, delay: &str| {
        let mut asked = delayed(&format!("strict{number}"), &merchant, delay);
        asked["order"] = json!({ "key": "k", "number": number, "mode": "strict" });
        asked
    };
    let mut asked = vec![delayed("soon2", &merchant, "31m")];
    asked.extend([strict(1, "32m"), strict(2, "3h")]);
    asked.extend((0..MANY).map(|number| delayed(&format!("many{number}"), &merchant, "3h")));
    asked.push(delayed("soon3", &merchant, "32m"));
    // The first of these counts.
    asked.push(delayed("many0", &merchant, "3h"));
    let batch = json!({ "notifications": asked });
    let path = "/v1/notifications/batch";
    let (status, answer) = server.call(Method::POST, path, Some(batch)).await;
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().expect("results");
    let statuses: Vec<_> = results.iter().map(|one| one["status"].as_u64()).collect();
    let mut expected = vec![Some(503); 3];
    expected.extend([Some(201); MANY]);
    expected.extend([Some(503), Some(200)]);
    assert_eq!(statuses, expected);
    redis.start_again().await;
    server.clock().advance(30 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=soon");
    server.clock().advance(90 * MINUTE_MS);
    // What was refused may be kept all the same; what was not tried is not.
    let mut called = Vec::new();
    while called.last().is_none_or(|body| body != b"id=later") {
        called.push(merchant.call().await.body.to_vec());
    }
    server.until_state("later", "delivered").await;
    assert_eq!(server.get("many399").await["state"], "scheduled");
    server.stop().await;
}

on_stores!(@ beside Postgres servers_with_and_without_a_horizon_lose_nothing_to_each_other);

/// As while the setting is changed on one server after the other, and back because somebody has changed their mind.
async fn servers_with_and_without_a_horizon_lose_nothing_to_each_other(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut with = config(dir.path(), stores);
    with.schedule.horizon = None;
    let whole = Server::open(with.clone(), Some(ManualClock::at(BEGIN_MS)), Some(dir)).await;
    let clock = whole.clock().clone();
    whole.register(delayed("first", &merchant, "2h")).await;
    until_entries(&whole, 1.0).await;
    with.schedule.horizon = Some(HORIZON);
    let windowed = Server::open(with.clone(), Some(clock.clone()), None).await;
    windowed.register(delayed("left", &merchant, "2h")).await;
    // It stops before it has loaded anything. The one that is left puts everything into the schedule.
    windowed.stop().await;
    until_entries(&whole, 2.0).await;
    let windowed = Server::open(with, Some(clock.clone()), None).await;
    windowed.register(delayed("later", &merchant, "3h")).await;
    clock.turn_to(BEGIN_MS + 120 * MINUTE_MS);
    for _ in 0..2 {
        merchant.call().await;
    }
    for id in ["first", "left"] {
        whole.until_state(id, "delivered").await;
    }
    clock.turn_to(BEGIN_MS + 180 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=later");
    whole.until_state("later", "delivered").await;
    windowed.stop().await;
    whole.stop().await;
    assert!(merchant.arrived().is_none());
}

on_stores!(@ cut_off Postgres a_server_that_reaches_the_journal_alone_leaves_loading_to_the_other);

/// It has the duty, and would keep it as long as it asks for it.
async fn a_server_that_reaches_the_journal_alone_leaves_loading_to_the_other(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let direct = config(dir.path(), stores);
    let mut cut = direct.clone();
    let line = before_redis(&mut cut);
    let cut_off = Server::open(cut, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await;
    let clock = cut_off.clock().clone();
    within("what is due soon to be loaded", async {
        while metric(&cut_off, "ringback_schedule_loaded_ahead_seconds")
            .await
            .is_none()
        {
            short_pause().await;
        }
    })
    .await;
    let other = Server::open(direct, Some(clock.clone()), None).await;
    line.set(Line::Refuses).await;
    other.register(delayed("later", &merchant, "2h")).await;
    clock.turn_to(BEGIN_MS + 120 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=later");
    other.until_state("later", "delivered").await;
    line.set(Line::Passes).await;
    cut_off.stop().await;
    other.stop().await;
}
