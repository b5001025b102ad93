//! A schedule in several partitions: a lane lies whole in one, and without a journal a directory says in
//! which one a key is.

use super::fixture::*;
use super::redis::{command, open_with, options};
use crate::support::redis::{RedisServer, connect, fresh_database};
use futures_util::future::join;
use ringback::clock::ManualClock;
use ringback::domain::state::State;
use ringback::schedule::recoverable::Recoverable as _;
use ringback::schedule::redis::{Options, RedisSchedule};
use ringback::schedule::{
    ClaimQuota, Entry, Limits, Registered, ScheduleError, ScheduleLeases as _,
    ScheduleMaintenance as _, ScheduleReads as _,
};
use std::sync::Arc;

/// Lanes in partitions 3, 2 and 0 of four.
const LANES: [&str; 3] = ["lane-0", "lane-1", "lane-8"];

fn four(limits: Limits) -> Options {
    Options {
        partitions: 4,
        ..options(fresh_database(), limits)
    }
}

/// With a journal: whoever asks knows the lane.
fn of_journal(options: Options) -> Options {
    Options {
        owner: "journal".into(),
        ..options
    }
}

pub async fn with_a_journal(limits: Limits) -> Fixture {
    open_with(&of_journal(four(limits)), Box::new(())).await
}

/// Without one: the directory knows it.
pub async fn with_a_directory(limits: Limits) -> Fixture {
    open_with(&four(limits), Box::new(())).await
}

/// An instance of a schedule with a directory, and where it is.
struct Scene {
    schedule: RedisSchedule,
    clock: ManualClock,
    url: String,
}

async fn scene() -> Scene {
    scene_on(fresh_database()).await
}

async fn scene_on(url: String) -> Scene {
    let clock = ManualClock::at(START_MS);
    let options = Options {
        url,
        ..four(REMEMBERING)
    };
    let schedule = RedisSchedule::open(&options, Arc::new(clock.clone())).expect("a url");
    schedule.inspect(false).await.expect("looked");
    schedule.finish_loading().await.expect("heard");
    Scene {
        schedule,
        clock,
        url: options.url,
    }
}

impl Scene {
    async fn register(&self, lane: &str, id: &str) -> Result<Registered, ScheduleError> {
        self.schedule.register(entry(lane, id, 0)).await
    }

    /// A registration whose server dies, or is held up, once the directory has it.
    async fn die_before_the_entry(&self, lane: &str, id: &str) {
        let late = accepted_at(entry(lane, id, 0), START_MS - 5_001);
        refused(self.schedule.register(late).await);
    }

    /// What the directory says, over all partitions: each key and its partition.
    async fn directory(&self) -> Vec<(String, String)> {
        let mut all = directory(&self.url, 4).await;
        for (_, text) in &mut all {
            text.truncate(1);
        }
        all
    }
}

async fn directory(url: &str, partitions: usize) -> Vec<(String, String)> {
    let mut connection = connect(url).await;
    let mut all = Vec::new();
    for partition in 0..partitions {
        let name = format!("{{rb:{partition}}}:directory");
        let part = redis::Cmd::hgetall(name).query_async(&mut connection).await;
        all.extend::<Vec<(String, String)>>(part.expect("a hash"));
    }
    all.sort_unstable();
    all
}

/// It came too late, or another registration of the key may still come.
fn refused(registered: Result<Registered, ScheduleError>) {
    let refused = matches!(
        registered,
        Err(ScheduleError::Unavailable(_) | ScheduleError::BeingRegistered)
    );
    assert!(refused, "{registered:?}");
}

fn is_existing(registered: &Registered, expected: &Entry) -> bool {
    matches!(registered, Registered::Existing(found) if found.entry == *expected)
}

#[tokio::test]
async fn a_lane_lies_in_one_partition_so_its_cap_is_exact() {
    for options in [four(capped(3)), of_journal(four(capped(3)))] {
        let fixture = open_with(&options, Box::new(())).await;
        for lane in LANES {
            fixture.put_many(lane, 20, 0).await;
        }
        let mut claimed = Vec::new();
        for _ in 0..8 {
            claimed.extend(fixture.claim(100).await.leases);
        }
        assert_eq!(claimed.len(), 9);
        for lane in LANES {
            assert_eq!(fixture.lane_in_flight(lane).await, 3, "{lane}");
        }
    }
}

#[tokio::test]
async fn a_directory_is_only_kept_where_a_key_does_not_tell_its_partition() {
    let one = options(fresh_database(), REMEMBERING);
    for options in [one, of_journal(four(REMEMBERING))] {
        let fixture = open_with(&options, Box::new(())).await;
        fixture.put("lane-0", "1", 0).await;
        assert_eq!(directory(&options.url, 4).await, []);
        assert!(fixture.find("1").await.is_some());
    }
}

#[tokio::test]
async fn a_key_is_registered_once_whatever_its_lane() {
    let scene = scene().await;
    let first = entry("lane-0", "1", 0);
    let registered = scene.register("lane-0", "1").await.expect("registered");
    assert_eq!(registered, Registered::Created);
    for lane in LANES {
        let again = scene.register(lane, "1").await.expect("answered");
        assert!(is_existing(&again, &first), "{lane}: {again:?}");
    }
    assert_eq!(scene.schedule.counts().await.expect("counted").pending, 1);
    let found = scene.schedule.find(&key("1")).await.expect("answered");
    assert_eq!(found.expect("there").entry, first);
    assert_eq!(
        scene.schedule.find(&key("2")).await.expect("answered"),
        None
    );
}

#[tokio::test]
async fn of_concurrent_registrations_for_two_lanes_one_creates() {
    let scene = scene().await;
    for number in 0..40 {
        let id = number.to_string();
        let both = join(scene.register("lane-0", &id), scene.register("lane-1", &id)).await;
        let created = |one: &Result<Registered, _>| matches!(one, Ok(Registered::Created));
        let created = [&both.0, &both.1].map(created);
        assert_ne!(created[0], created[1], "{both:?}");
        let existing = |one: &Result<Registered, _>| matches!(one, Ok(Registered::Existing(_)));
        assert!([&both.0, &both.1].map(existing).contains(&true), "{both:?}");
        assert_eq!(
            scene.schedule.counts().await.expect("counted").pending,
            number + 1
        );
    }
}

#[tokio::test]
async fn a_registration_that_died_before_its_entry_keeps_its_key_for_a_while() {
    let scene = scene().await;
    scene.die_before_the_entry("lane-0", "1").await;
    assert_eq!(scene.directory().await, [("paid/1".into(), "3".into())]);
    // The same again goes on at once.
    scene.die_before_the_entry("lane-0", "2").await;
    let again = scene.register("lane-0", "2").await.expect("registered");
    assert_eq!(again, Registered::Created);
    // For another lane it waits until the first can no longer arrive.
    scene.clock.turn_to(START_MS + 29_999);
    refused(scene.register("lane-1", "1").await);
    scene.clock.turn_to(START_MS + 30_000);
    let other = scene.register("lane-1", "1").await.expect("registered");
    assert_eq!(other, Registered::Created);
    // What comes now of the first changes nothing.
    let late = accepted_at(entry("lane-0", "1", 0), START_MS - 5_001);
    let late = scene.schedule.register(late).await.expect("answered");
    assert!(is_existing(&late, &entry("lane-1", "1", 0)), "{late:?}");
    assert_eq!(scene.schedule.counts().await.expect("counted").pending, 2);
}

#[tokio::test]
async fn a_registration_arrives_within_its_time_and_not_after() {
    let scene = scene().await;
    for (age_ms, arrives) in [(5_000, true), (5_001, false)] {
        let entry = accepted_at(entry("lane-0", &age_ms.to_string(), 0), START_MS - age_ms);
        let registered = scene.schedule.register(entry).await;
        assert_eq!(registered.is_ok(), arrives, "{registered:?}");
    }
}

#[tokio::test]
async fn comparing_forgets_keys_without_an_entry_and_finds_those_that_are_lost() {
    let scene = scene().await;
    for (lane, id) in LANES.iter().zip(["1", "2", "3"]) {
        scene.register(lane, id).await.expect("registered");
    }
    scene.die_before_the_entry("lane-0", "gone").await;
    let all = ["1", "2", "3"].into_iter().zip(["3", "2", "0"]);
    let all = all.map(|(id, partition)| (format!("paid/{id}"), partition.to_string()));
    let all: Vec<(String, String)> = all.collect();
    let with_gone = [&all[..], &[("paid/gone".into(), "3".into())]].concat();
    let compare = async || {
        let compared = scene.schedule.compare_directory().await;
        compared.expect("compared");
        scene.directory().await
    };
    // It may still be on its way.
    assert_eq!(compare().await, with_gone);
    scene.clock.turn_to(START_MS + 30_000);
    assert_eq!(compare().await, all);
    // Redis has lost a part of it: it is still found, and written down again.
    for partition in 0..4 {
        let mut lose = redis::cmd("DEL");
        lose.arg(format!("{{rb:{partition}}}:directory"));
        command(&scene.url, &lose).await;
    }
    for id in ["1", "2", "3"] {
        let found = scene.schedule.find(&key(id)).await.expect("answered");
        assert!(found.is_some(), "{id}");
    }
    assert_eq!(compare().await, all);
    // What is remembered keeps its key; once it is forgotten, its key is free.
    for lease in scene
        .schedule
        .claim(ClaimQuota::of(9))
        .await
        .expect("claimed")
        .leases
    {
        let settlement = end(&lease, State::Delivered, 30_000);
        scene
            .schedule
            .settle(lease, settlement)
            .await
            .expect("settled");
    }
    scene.clock.turn_to(START_MS + 60_000);
    assert_eq!(compare().await, all);
    scene.clock.turn_to(START_MS + 30_000 + REMEMBER_MS);
    scene
        .schedule
        .claim(ClaimQuota::of(9))
        .await
        .expect("claimed");
    assert_eq!(compare().await, []);
}

#[tokio::test]
async fn a_directory_that_was_overwritten_is_noticed_and_texts_of_others_are_replaced() {
    let scene = scene().await;
    let set = |partition: usize, text: &[u8]| {
        redis::Cmd::hset(format!("{{rb:{partition}}}:directory"), "paid/1", text)
    };
    // The key belongs to partition 1.
    let texts: [&[u8]; 6] = [b"", b"x", b"9 1800000000000", b"2 x", b"-1 1", b"\xff 1"];
    for text in texts {
        command(&scene.url, &set(1, text)).await;
        assert_eq!(
            scene.schedule.find(&key("1")).await.expect("answered"),
            None
        );
    }
    scene.schedule.compare_directory().await.expect("compared");
    scene.register("lane-0", "1").await.expect("registered");
    assert_eq!(scene.directory().await, [("paid/1".into(), "3".into())]);
    scene.schedule.check().await.expect("well");
    let name = "{rb:2}:directory";
    command(&scene.url, &redis::Cmd::set(name, "x")).await;
    scene.schedule.check().await.expect_err("overwritten");
}

#[tokio::test]
async fn a_directory_that_says_another_partition_hides_nothing() {
    let scene = scene().await;
    scene.register("lane-0", "1").await.expect("registered");
    // The key belongs to partition 1, and its lane to partition 3.
    let stale = format!("2 {START_MS}");
    let set = redis::Cmd::hset("{rb:1}:directory", "paid/1", stale);
    command(&scene.url, &set).await;
    let found = scene.schedule.find(&key("1")).await.expect("answered");
    assert!(found.is_some());
    scene.clock.turn_to(START_MS + 30_000);
    scene.schedule.compare_directory().await.expect("compared");
    assert_eq!(scene.directory().await, [("paid/1".into(), "3".into())]);
}

#[tokio::test]
async fn an_entry_that_was_cut_short_is_replaced_by_registering_again() {
    let scene = scene().await;
    scene.register("lane-0", "1").await.expect("registered");
    command(
        &scene.url,
        &redis::Cmd::hset("{rb:3}:jobs", "paid/1", "cut"),
    )
    .await;
    let again = scene.register("lane-0", "1").await.expect("answered");
    assert_eq!(again, Registered::Created);
    let found = scene.schedule.find(&key("1")).await.expect("answered");
    assert_eq!(found.expect("there").entry, entry("lane-0", "1", 0));
}

#[tokio::test]
async fn a_key_whose_entry_is_lost_and_leased_is_not_given_to_another_lane() {
    let scene = scene().await;
    scene.register("lane-0", "1").await.expect("registered");
    scene
        .schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed");
    command(&scene.url, &redis::Cmd::del("{rb:3}:jobs")).await;
    scene.clock.turn_to(START_MS + 30_000 - 1 + LEASE_MS);
    refused(scene.register("lane-1", "1").await);
}

#[tokio::test]
async fn a_full_server_has_its_directory_shortened() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let scene = scene_on(server.url(0)).await;
    scene.die_before_the_entry("lane-0", "1").await;
    let mut limit = redis::cmd("CONFIG");
    command(&scene.url, limit.arg(&["SET", "maxmemory", "1"])).await;
    refused(scene.register("lane-0", "2").await);
    scene.clock.turn_to(START_MS + 30_000);
    scene.schedule.compare_directory().await.expect("compared");
    assert_eq!(scene.directory().await, []);
}

#[tokio::test]
async fn an_entry_whose_lane_is_no_text_holds_up_no_scan() {
    let scene = scene().await;
    for (lane, id) in LANES.iter().zip(["1", "2", "3"]) {
        scene.register(lane, id).await.expect("registered");
    }
    let mut connection = connect(&scene.url).await;
    let get = redis::Cmd::hget("{rb:3}:jobs", "paid/1");
    let mut envelope: Vec<u8> = get.query_async(&mut connection).await.expect("there");
    let lane = envelope.windows(5).position(|part| part == b"https");
    envelope[lane.expect("its lane")] = 0xff;
    let set = redis::Cmd::hset("{rb:3}:jobs", "paid/1", envelope);
    command(&scene.url, &set).await;
    let (mut seen, mut cursor): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let page = scene.schedule.scan(cursor.as_deref(), 9).await;
        let page = page.expect("a page");
        let ids = page.holdings.iter().map(|(entry, _)| entry.key.id());
        seen.extend(ids.map(str::to_string));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, ["2", "3"]);
}
