//! Replies that get lost, and calls that come late: what Redis runs after its caller has given
//! up, or twice, or for an instance that nobody has told of a loss.

use super::fixture::*;
use super::redis::{command, options};
use crate::support::proxy::{Cut, Line, Proxy};
use crate::support::redis::{RedisServer, connect, fresh_database};
use crate::support::{short_pause, within};
use redis::Value;
use ringback::clock::{Clock, ManualClock, SystemClock};
use ringback::domain::state::State;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable};
use ringback::schedule::redis::{Options, RedisSchedule, Time};
use ringback::schedule::{
    ClaimQuota, Lease, LeaseRequest, LeasedOne, PROMPT_MS, Registered, ScheduleError, Settled,
};
use ringback::schedule::{ScheduleLeases as _, ScheduleMaintenance as _, ScheduleReads as _};
use std::sync::Arc;

const CLEAR: &str = include_str!("../../../src/schedule/redis/recovery/clear.lua");
const FINISH: &str = include_str!("../../../src/schedule/redis/recovery/loading.lua");

/// A schedule of a journal in one database, and the clock of all its instances.
pub struct Scene {
    pub options: Options,
    clock: ManualClock,
}

impl Scene {
    pub fn at(url: String) -> Self {
        Self {
            options: Options {
                owner: "journal-1".into(),
                ..options(url, LIMITS)
            },
            clock: ManualClock::at(START_MS),
        }
    }

    pub fn new() -> Self {
        Self::at(fresh_database())
    }

    fn instance(&self) -> RedisSchedule {
        RedisSchedule::open(&self.options, Arc::new(self.clock.clone())).expect("a url")
    }

    /// An instance that may work with it.
    pub async fn ready(&self) -> RedisSchedule {
        let schedule = self.instance();
        if let Inspection::ToLoad(_) = schedule.inspect(false).await.expect("looked") {
            assert!(schedule.finish_loading().await.expect("heard"));
        }
        schedule
    }

    /// Calls a script as the instance that loads the schedule did, with further arguments.
    async fn call(&self, script: &str, keys: &[&str], arguments: &[&str]) -> Value {
        let mut connection = connect(&self.options.url).await;
        let mut call = redis::cmd("EVAL");
        call.arg(script).arg(keys.len());
        for key in keys {
            call.arg(format!("{{rb:0}}:{key}"));
        }
        let called = call.arg(arguments).query_async(&mut connection).await;
        called.expect("executed")
    }

    /// One string or field of what maintenance notes.
    async fn note(&self, command: &redis::Cmd) -> String {
        let mut connection = connect(&self.options.url).await;
        command.query_async(&mut connection).await.expect("a note")
    }

    async fn filler(&self) -> String {
        self.note(&redis::Cmd::get("{rb:0}:rebuild")).await
    }

    async fn generation(&self) -> String {
        self.note(&redis::Cmd::hget("{rb:0}:meta", "generation"))
            .await
    }
}

pub async fn put(schedule: &RedisSchedule, lane: &str, id: &str) {
    let registered = schedule.register(entry(lane, id, 0)).await;
    assert_eq!(registered.expect("registered"), Registered::Created);
}

async fn renewed(schedule: &RedisSchedule, lease: &Lease) -> Lease {
    let renewed = schedule.renew(lease).await.expect("answered");
    with_expiry(lease, renewed.expect("it is its own still"))
}

async fn asked(schedule: &RedisSchedule) {
    let found = schedule.inspect(true).await.expect("looked");
    assert_eq!(found, Inspection::ToLoad(LoadReason::Asked));
}

const FIXED: [&str; 11] = [
    "jobs", "lanes", "leases", "changing", "dead", "ended", "meta", "epoch", "health", "settings",
    "rebuild",
];

#[tokio::test]
async fn nothing_is_left_of_many_lanes_that_were_full() {
    let scene = Scene::at(fresh_database());
    let schedule = scene.ready().await;
    let entries: Vec<_> = (0..8_000)
        .map(|lane| entry(&format!("lane-{lane}"), &lane.to_string(), 0))
        .collect();
    schedule.restore(&entries).await.expect("restored");
    let mut leases = 0;
    while leases < entries.len() {
        leases += schedule
            .claim(ClaimQuota::of(128))
            .await
            .expect("claimed")
            .leases
            .len();
    }
    asked(&schedule).await;
    let mut connection = connect(&scene.options.url).await;
    let left: Vec<String> = (redis::cmd("KEYS").arg("{rb:0}:lea*"))
        .query_async(&mut connection)
        .await
        .expect("names");
    assert_eq!(left, [""; 0], "lanes that count leases nobody has");
}

#[tokio::test]
async fn a_call_to_empty_that_comes_late_does_nothing() {
    let scene = Scene::new();
    let schedule = scene.ready().await;
    asked(&schedule).await;
    put(&schedule, "shop", "1").await;
    let lease = schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed")
        .leases
        .remove(0);
    put(&schedule, "shop", "2").await;
    let (filler, generation) = (scene.filler().await, scene.generation().await);
    let late = ["{rb:0}:", &filler, "10000", &generation, "256"];
    for _ in 0..3 {
        scene.call(CLEAR, &FIXED, &late).await;
    }
    let settled = schedule.settle(lease.clone(), again(&lease, 0)).await;
    assert_eq!(settled.expect("answered"), Settled::Done);
    let claimed = schedule
        .claim(ClaimQuota::of(9))
        .await
        .expect("claimed")
        .leases;
    assert_eq!(claimed.len(), 2, "{:?}", ids(&claimed));
}

#[tokio::test]
async fn a_call_to_finish_that_comes_late_does_nothing() {
    let scene = Scene::new();
    let schedule = scene.ready().await;
    asked(&schedule).await;
    let (filler, earlier) = (scene.filler().await, scene.generation().await);
    assert!(schedule.finish_loading().await.expect("heard"));
    asked(&schedule).await;
    let late = [filler.as_str(), "", &earlier];
    scene.call(FINISH, &["meta", "rebuild"], &late).await;
    assert!(
        schedule.report_loading().await.expect("heard"),
        "it is at it still"
    );
    assert!(schedule.finish_loading().await.expect("heard"));
}

#[tokio::test]
async fn a_full_server_can_be_done_with_filling() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let scene = Scene::at(server.url(0));
    let schedule = scene.ready().await;
    put(&schedule, "shop", "1").await;
    asked(&schedule).await;
    let mut full = redis::cmd("CONFIG");
    command(&scene.options.url, full.arg(&["SET", "maxmemory", "1"])).await;
    assert!(schedule.report_loading().await.expect("heard"));
    assert!(schedule.finish_loading().await.expect("heard"));
    assert_eq!(
        schedule.inspect(false).await.expect("looked"),
        Inspection::Whole
    );
}

#[tokio::test]
async fn an_instance_that_found_it_being_emptied_does_nothing_with_it() {
    let scene = Scene::new();
    let first = scene.ready().await;
    put(&first, "shop", "delivered since").await;
    // As another instance leaves it that was asked to empty it, and has not done so yet.
    let url = &scene.options.url;
    let mut state = redis::cmd("HSET");
    state.arg("{rb:0}:meta").arg("state").arg("clearing");
    command(url, &state).await;
    command(url, &redis::Cmd::set("{rb:0}:rebuild", "another")).await;
    let started = scene.instance();
    let refused = |result: Result<(), ScheduleError>| {
        assert!(
            matches!(result, Err(ScheduleError::Rebuilding)),
            "{result:?}"
        );
    };
    refused(started.claim(ClaimQuota::of(9)).await.map(drop));
    assert_eq!(
        started.inspect(false).await.expect("looked"),
        Inspection::Clearing
    );
    refused(started.claim(ClaimQuota::of(9)).await.map(drop));
    refused(started.register(entry("shop", "2", 0)).await.map(drop));
}

#[tokio::test]
async fn what_a_claim_gave_over_a_connection_that_broke_is_given_again() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.address());
    let scene = Scene::at(format!("redis://{}/0", proxy.address()));
    let schedule = scene.ready().await;
    for id in ["1", "2", "3"] {
        put(&schedule, "shop", id).await;
    }
    schedule.claim(ClaimQuota::of(0)).await.expect("claimed");
    proxy.cut(Cut::To(b"claim:".to_vec()), 0, 1);
    let claimed = schedule.claim(ClaimQuota::of(9)).await.expect("claimed");
    proxy.has_cut().await;
    assert_eq!(ids(&claimed.leases), ["1", "2", "3"]);
}

#[tokio::test]
async fn a_claim_repeated_gives_no_more_than_is_asked_for() {
    let redis = RedisServer::start(&[]);
    let scene = Scene::at(redis.url(0));
    let schedule = scene.ready().await;
    for id in ["1", "2", "3", "4"] {
        put(&schedule, "shop", id).await;
    }
    schedule.claim(ClaimQuota::of(0)).await.expect("claimed");
    redis.pause().await;
    let lost = schedule.claim(ClaimQuota::of(4)).await;
    assert!(
        matches!(lost, Err(ScheduleError::Unavailable(_))),
        "{lost:?}"
    );
    redis.resume();
    // Meanwhile another partition may have given some of what is asked for.
    let some = schedule
        .claim(ClaimQuota::of(3))
        .await
        .expect("claimed")
        .leases;
    assert_eq!(ids(&some), ["1", "2", "3"]);
    let lane = lane_of("shop");
    let out = schedule.lane_in_flight(&lane).await.expect("counted");
    assert_eq!(out, 3, "the others are given back");
    let rest = schedule
        .claim(ClaimQuota::of(9))
        .await
        .expect("claimed")
        .leases;
    assert_eq!(ids(&rest), ["4"]);
    assert_eq!(rest[0].entry.interrupted_ms, None);
}

#[tokio::test]
async fn a_claim_repeated_passes_over_what_was_lost_meanwhile() {
    let redis = RedisServer::start(&[]);
    let scene = Scene::at(redis.url(0));
    let schedule = scene.ready().await;
    for id in ["1", "2", "3"] {
        put(&schedule, "shop", id).await;
    }
    schedule.claim(ClaimQuota::of(0)).await.expect("claimed");
    redis.pause().await;
    let lost = schedule.claim(ClaimQuota::of(3)).await;
    assert!(
        matches!(lost, Err(ScheduleError::Unavailable(_))),
        "{lost:?}"
    );
    redis.resume();
    let lane = lane_of("shop");
    let executed = async {
        while schedule.lane_in_flight(&lane).await.expect("counted") < 3 {
            short_pause().await;
        }
    };
    within("the claim", executed).await;
    let envelope = redis::Cmd::hdel("{rb:0}:jobs", key("2").as_str());
    command(&scene.options.url, &envelope).await;
    let again = schedule
        .claim(ClaimQuota::of(3))
        .await
        .expect("claimed")
        .leases;
    assert_eq!(ids(&again), ["1", "3"]);
}

#[tokio::test]
async fn a_registration_that_redis_carries_out_late_has_the_journal_asked() {
    let redis = RedisServer::start(&[]);
    let mut scene = Scene::at(redis.url(0));
    scene.options.time = Time::Server;
    let clock = Arc::new(SystemClock);
    let schedule = RedisSchedule::open(&scene.options, clock.clone()).expect("a url");
    schedule.inspect(false).await.expect("looked");
    let in_time = || accepted_at(entry("shop", "in time", 0), clock.now_ms() + 60_000);
    schedule.register(in_time()).await.expect("registered");
    redis.pause().await;
    // In time still when it is sent, and not any more when its caller gives up.
    let almost_late = accepted_at(entry("shop", "late", 0), clock.now_ms() - PROMPT_MS + 1_000);
    let late = schedule.register(almost_late).await;
    assert!(
        matches!(late, Err(ScheduleError::Unavailable(_))),
        "{late:?}"
    );
    redis.resume();
    // It has been executed by the time that the next one has.
    put(&schedule, "shop", "next").await;
    for (id, verify) in [("in time", false), ("late", true), ("next", false)] {
        let found = schedule.find(&key(id)).await.expect("answered");
        assert_eq!(found.expect("it is there").entry.verify, verify, "{id}");
    }
}

#[tokio::test]
async fn a_renewal_whose_reply_was_lost_can_be_repeated() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.address());
    let scene = Scene::at(format!("redis://{}/0", proxy.address()));
    let schedule = scene.ready().await;
    put(&schedule, "shop", "1").await;
    let lease = schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed")
        .leases
        .remove(0);
    // The server knows the script from now on.
    let lease = renewed(&schedule, &lease).await;
    scene.clock.turn_to(START_MS + LEASE_MS - 2_000);
    let expiry = lease.expiry().to_string();
    proxy.cut(Cut::To(expiry.into_bytes()), 0, 1);
    let lease = renewed(&schedule, &lease).await;
    proxy.has_cut().await;
    scene.clock.turn_to(START_MS + LEASE_MS);
    let one = schedule.lease_one(&LeaseRequest::new(place("1"))).await;
    assert!(matches!(one, Ok(LeasedOne::InFlight)), "{one:?}");
    let settled = schedule.settle(lease.clone(), again(&lease, 0)).await;
    assert_eq!(settled.expect("answered"), Settled::Done);
}

#[tokio::test]
async fn a_registration_sent_again_when_its_entry_is_forgotten_has_the_journal_asked() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.address());
    let scene = Scene::at(format!("redis://{}/0", proxy.address()));
    let beside = Scene {
        clock: scene.clock.clone(),
        ..Scene::at(server.url(0))
    };
    let (schedule, other) = (scene.ready().await, beside.ready().await);
    let deliver = async || {
        // Also what was registered after all when it had been given up.
        for lease in other
            .claim(ClaimQuota::of(9))
            .await
            .expect("claimed")
            .leases
        {
            let settled = other.settle(lease.clone(), end(&lease, State::Delivered, 1));
            assert_eq!(settled.await.expect("answered"), Settled::Done);
        }
    };
    // The server knows the script from now on.
    put(&schedule, "shop", "first").await;
    deliver().await;
    for number in 0..10 {
        let id = format!("again-{number}");
        proxy.cut_and_hold(Cut::To(id.clone().into_bytes()));
        let (registered, ()) = tokio::join!(schedule.register(entry("shop", &id, 0)), async {
            proxy.has_cut().await;
            deliver().await;
            proxy.set(Line::Passes).await;
        });
        match registered {
            Ok(registered) => assert_eq!(registered, Registered::Created),
            // This machine was too slow, and the connection was given up while it was held.
            Err(ScheduleError::Unavailable(_)) => continue,
            Err(error) => panic!("{error}"),
        }
        let found = schedule.find(&key(&id)).await.expect("answered");
        assert!(found.expect("it is new again").entry.verify);
        return;
    }
    panic!("no registration was sent again in time");
}
