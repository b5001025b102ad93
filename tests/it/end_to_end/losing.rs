//! A Redis that loses its data under a running server.

use crate::journal_contract::samples;
use crate::support::held::held;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::{connect, fresh_database};
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration};
use crate::support::{short_pause, within};
use ringback::clock::ManualClock;
use ringback::domain::key::Key;
use ringback::domain::notification::{Registration, Start};
use ringback::journal::recorder::Recorder;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Actor, Journal};
use ringback::maintenance::recovery::load::load;
use ringback::redis_tls::RedisTls;
use ringback::schedule::redis::{ClaimTimes, Options, RedisSchedule, Time};
use ringback::schedule::window::Window;
use ringback::schedule::{ClaimQuota, Limits, Schedule, SettingsSource};
use ringback::service::{Service, ServiceError};
use std::sync::Arc;

/// Empties the server's Redis behind its back.
async fn flush(server: &Server) {
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let flush = redis::cmd("FLUSHDB").exec_async(&mut redis).await;
    flush.expect("flushed");
}

/// Awaits that so many notifications are in the server's Redis.
async fn until_held(server: &Server, many: usize) {
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    within("Redis to be loaded", async {
        loop {
            if held(&mut redis).await == many {
                return;
            }
            short_pause().await;
        }
    })
    .await;
}

/// The kinds of the lines of a notification's history.
async fn history(server: &Server, id: &str) -> Vec<String> {
    let view = server.get(id).await;
    let lines = view["transitions"].as_array().expect("a history").iter();
    lines
        .map(|line| line["kind"].as_str().expect("a kind").to_string())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_redis_is_filled_again_and_registrations_are_accepted_meanwhile() {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Redis).await;
    let delayed = async |id: &str| {
        let mut asked = registration(id, &merchant);
        asked["delay"] = "30m".into();
        server.register(asked).await;
    };
    delayed("a").await;
    delayed("b").await;
    flush(&server).await;
    server.clock().advance(1);
    // The first call after the flush.
    delayed("c").await;
    until_held(&server, 3).await;
    assert_eq!(history(&server, "a").await, ["registered", "restored"]);
    server.clock().advance(30 * 60_000);
    let mut bodies = Vec::new();
    for _ in 0..3 {
        bodies.push(merchant.call().await.body);
    }
    bodies.sort_unstable();
    assert_eq!(bodies, [b"id=a", b"id=b", b"id=c"]);
    for id in ["a", "b", "c"] {
        server.until_state(id, "delivered").await;
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_flight_when_redis_is_flushed_is_made_once() {
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let mut other = Merchant::start().await;
    let server = Server::start(Stores::Redis).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    flush(&server).await;
    // The dispatcher's slow poll notices, the recovery fills it, and the same server claims it anew.
    until_held(&server, 1).await;
    server.register(registration("b", &other)).await;
    assert_eq!(other.call().await.body, b"id=b");
    merchant.release();
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1);
    server.until_state("b", "delivered").await;
    until_held(&server, 0).await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_journal_a_flushed_redis_goes_on_empty() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::RedisOnly).await;
    let mut lost = registration("lost", &merchant);
    lost["delay"] = "30m".into();
    server.register(lost.clone()).await;
    flush(&server).await;
    server.register(registration("new", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=new");
    // What callers register again is new.
    server.register(lost).await;
    server.stop().await;
}

/// A service beside a dispatcher of which nothing is seen here: it may be anywhere.
#[tokio::test]
async fn what_was_due_when_redis_was_flushed_is_not_cancelled_while_it_may_be_in_flight() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = ManualClock::at(BEGIN_MS);
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let journal: Arc<dyn Journal> = Arc::new(journal.expect("a journal"));
    let url = fresh_database();
    let options = Options {
        url: url.clone(),
        partitions: 1,
        limits: Limits {
            lane_start: 16,
            lane_cap: 16,
            lease_ms: 15_000,
            remember_ms: None,
            settings_source: SettingsSource::Schedule,
            window: Window::WHOLE,
            early_ms: 0,
        },
        time: Time::Clock,
        owner: journal.id().to_string(),
        signing: None,
        replicas: 0,
        tls: RedisTls::default(),
        claim_times: ClaimTimes::default(),
    };
    let schedule = RedisSchedule::open(&options, Arc::new(clock.clone())).expect("a URL");
    let schedule: Arc<dyn Schedule> = Arc::new(schedule);
    let recoverable = schedule.recoverable().expect("it outlives us");
    recoverable.inspect(false).await.expect("looked");
    recoverable.finish_loading().await.expect("heard");
    let recorder = Arc::new(Recorder::start(journal.clone()));
    let service = Arc::new(Service::new(Some(recorder), schedule.clone()));
    for (id, start) in [("due", Start::After(0)), ("later", Start::After(1_800_000))] {
        let asked = Registration {
            start,
            ..samples::registration(Key::new("t", id).expect("a key"))
        };
        let actor = Actor::named("test");
        service.register(asked, actor).await.expect("registered");
    }
    let claimed = schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
    assert_eq!(claimed.leases.len(), 1, "an attempt is in flight");
    clock.advance(1_000);
    let mut redis = connect(&url).await;
    let flush = redis::cmd("FLUSHDB").exec_async(&mut redis).await;
    flush.expect("flushed");
    schedule.check().await.expect_err("it is noticed");
    recoverable.inspect(false).await.expect("looked");
    load(journal.clone(), schedule.as_ref())
        .await
        .expect("loaded");
    recoverable.finish_loading().await.expect("heard");
    let cancel = async |id| {
        let key = Key::new("t", id).expect("a key");
        service.cancel(&key, Actor::named("test")).await
    };
    let refused = cancel("due").await;
    assert!(
        matches!(refused, Err(ServiceError::Refused { .. })),
        "{refused:?}"
    );
    cancel("later").await.expect("it was not due");
    clock.advance(15_000);
    cancel("due").await.expect("whatever was in flight is over");
}
