//! Maintenance as a server runs it: by itself, beside its work.

use super::stage::LEASE_MS;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;
use crate::support::redis::{connect, fresh_database};
use crate::support::ringback::{BEGIN_MS, Server, Stores, registration};
use ringback::clock::ManualClock;
use ringback::domain::key::Key;
use ringback::domain::lane::Lane;
use ringback::maintenance::REGISTRATION_MS;
use ringback::redis_tls::RedisTls;
use ringback::schedule::ScheduleLeases as _;
use ringback::schedule::recoverable::Recoverable as _;
use ringback::schedule::redis::{ClaimTimes, NO_JOURNAL, Options, RedisSchedule, Time};
use ringback::schedule::window::Window;
use ringback::schedule::{LeaseRequest, LeasedOne, Limits, ScheduleReads as _, SettingsSource};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crash_left_in_the_journal_alone_is_delivered_after_the_next_start() {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Redis).await;
    let mut asked = registration("a", &merchant);
    asked["delay"] = "30m".into();
    server.register(asked).await;
    // As if the server had died before the second write.
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let lane = Lane::parse(&merchant.url("/")).expect("a lane");
    let lane = format!("{{rb:0}}:lane:{}", lane.as_str());
    for drop in [
        redis::Cmd::hdel("{rb:0}:jobs", "t/a"),
        redis::Cmd::zrem(lane, "t/a"),
    ] {
        drop.exec_async(&mut redis).await.expect("executed");
    }
    server.clock().advance(REGISTRATION_MS + 1);
    let server = server.restart().await;
    let view = server
        .until("a", |view| {
            let history = view["transitions"].as_array().expect("a list");
            history.iter().any(|line| line["kind"] == "restored")
        })
        .await;
    assert_eq!(view["state"], "scheduled");
    server.clock().turn_to(BEGIN_MS + 30 * 60_000);
    assert_eq!(merchant.call().await.attempt(), 1);
    server.until_state("a", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_one_that_is_gone_ends_in_time_though_nothing_else_is_due() {
    let mut merchant = Merchant::start().await;
    let idle = Server::start_by_hand(Stores::RedisOnly).await;
    let clock: &ManualClock = idle.clock();
    let url = idle.config().schedule.redis.clone().expect("on Redis");
    // Another instance, of which nothing is left but its lease.
    let gone = RedisSchedule::open(
        &Options {
            url: url.expose().to_string(),
            partitions: 1,
            limits: Limits {
                lane_start: 16,
                lane_cap: 16,
                lease_ms: LEASE_MS,
                remember_ms: Some(600_000),
                settings_source: SettingsSource::Schedule,
                window: Window::WHOLE,
                early_ms: 0,
            },
            time: Time::Clock,
            owner: NO_JOURNAL.to_string(),
            signing: None,
            replicas: 0,
            tls: RedisTls::default(),
            claim_times: ClaimTimes::default(),
        },
        Arc::new(clock.clone()),
    )
    .expect("a url");
    gone.inspect(false).await.expect("looked");
    let mut asked = registration("a", &merchant);
    asked["delay"] = "1h".into();
    idle.register(asked).await;
    let key = Key::new("t", "a").expect("a key");
    let found = gone.find(&key).await.expect("answered");
    let leased = gone
        .lease_one(&LeaseRequest::new(
            found.expect("there").entry.notification.key_in_lane(),
        ))
        .await
        .expect("answered");
    assert!(matches!(leased, LeasedOne::Leased(_)), "{leased:?}");
    drop(gone);
    idle.until_state("a", "in_flight").await;
    clock.advance(LEASE_MS);
    idle.until("a", |view| view["state"] == "scheduled").await;
    clock.turn_to(BEGIN_MS + 3_600_000);
    assert_eq!(merchant.call().await.attempt(), 1);
    idle.until_state("a", "delivered").await;
    idle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_of_a_killed_server_is_made_by_an_idle_one() {
    let redis = fresh_database();
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let arguments = ["--redis", &redis, "--journal", "none", "--timeout", "3s"];
    let secret = ["--signing-secret", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"];
    let arguments = [&arguments[..], &secret].concat();
    let mut merchant = Merchant::scripted(vec![Reaction::Hang], Reaction::success()).await;
    let busy = Process::start(dirs[0].path(), &arguments).await;
    busy.api().register(registration("a", &merchant)).await;
    assert_eq!(merchant.call().await.attempt(), 1);
    // It must not notice that its attempt takes too long while the other one starts.
    busy.signal("STOP").await;
    let idle = Process::start(dirs[1].path(), &arguments).await;
    busy.kill().await;
    assert_eq!(merchant.call().await.attempt(), 1);
    idle.api().until_state("a", "delivered").await;
    idle.kill().await;
}
