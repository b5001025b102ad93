//! The Redis schedule under test: two instances on one server, and what only it promises.

use super::fixture::*;
use crate::support::redis::{RedisServer, connect, documented_rights, fresh_database};
use crate::support::within;
use redis::Cmd;
use ringback::clock::ManualClock;
use ringback::domain::state::State;
use ringback::redis_tls::RedisTls;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable, ScheduleStatus};
use ringback::schedule::redis::{ClaimTimes, NO_JOURNAL, Options, RedisSchedule, Time};
use ringback::schedule::{ClaimQuota, Limits, Reservation, ScheduleError, Settlement};
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What one claim brings does not depend on how fast the machine is.
const UNHURRIED: ClaimTimes = ClaimTimes {
    one_partition: Duration::from_secs(60),
    gathering: Duration::from_secs(60),
};

pub fn options(url: String, limits: Limits) -> Options {
    Options {
        url,
        partitions: 1,
        limits,
        time: Time::Clock,
        owner: NO_JOURNAL.into(),
        signing: None,
        replicas: 0,
        tls: RedisTls::default(),
        claim_times: UNHURRIED,
    }
}

pub async fn open(limits: Limits) -> Fixture {
    open_with(&options(fresh_database(), limits), Box::new(())).await
}

pub async fn open_with(options: &Options, keeps_alive: Box<dyn Any + Send>) -> Fixture {
    let clock = ManualClock::at(START_MS);
    let instance = || {
        let schedule = RedisSchedule::open(options, Arc::new(clock.clone())).expect("a url");
        Arc::new(schedule)
    };
    let (one, other) = (instance(), instance());
    for schedule in [&one, &other] {
        let found = schedule.inspect(false).await.expect("looked");
        if found == Inspection::ToLoad(LoadReason::New) {
            assert!(schedule.finish_loading().await.expect("heard"));
        } else {
            assert_eq!(found, Inspection::Whole);
        }
    }
    Fixture {
        schedule: one,
        other,
        clock,
        keeps_alive,
    }
}

/// A command from outside, as an operator would send it.
pub async fn command(url: &str, command: &Cmd) {
    let mut connection = connect(url).await;
    command.exec_async(&mut connection).await.expect("executed");
}

#[tokio::test]
async fn a_full_server_refuses_what_is_new_and_drains() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let url = server.url(0);
    let memory = async |limit: &str| {
        let mut set = redis::cmd("CONFIG");
        command(&url, set.arg(&["SET", "maxmemory", limit])).await;
    };
    let fixture = open_with(&options(url.clone(), LIMITS), Box::new(server)).await;
    for number in 0..20 {
        fixture.put("shop", &format!("{number:02}"), 0).await;
    }
    let in_flight = fixture.claim_all(5).await;
    memory("1").await;
    let refused = fixture.schedule.register(entry("shop", "new", 0)).await;
    assert!(
        matches!(refused, Err(ScheduleError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(fixture.find("new").await.is_none());
    fixture
        .done(&in_flight[0], end(&in_flight[0], State::Delivered, 1))
        .await;
    fixture.done(&in_flight[1], again(&in_flight[1], 5)).await;
    fixture.done(&in_flight[2], Settlement::Release).await;
    let by_hand = fixture.lease_by_hand("19").await;
    let settlement = end(&by_hand, State::Cancelled, 1);
    fixture.done(&by_hand, settlement).await;
    // Leases that have run out are returned all the same, and everything is claimed.
    fixture.turn_to(LEASE_MS);
    let claimed: BTreeSet<_> = ids(&fixture.claim_all(18).await).into_iter().collect();
    assert_eq!(claimed.len(), 18);
    assert_eq!(fixture.lane_in_flight("shop").await, 18);
    memory("0").await;
    fixture.register(entry("shop", "new", 0)).await;
    assert_eq!(fixture.claim_ids(9).await, ["new"]);
}

#[tokio::test]
async fn a_server_that_forgot_its_scripts_gets_them_again() {
    // Its own: a server forgets the scripts of all its databases, and twice within one call is too much for another test.
    let server = RedisServer::start(&[]);
    let url = server.url(0);
    let fixture = open_with(&options(url.clone(), LIMITS), Box::new(())).await;
    fixture.put("shop", "1", 0).await;
    let mut flush = redis::cmd("SCRIPT");
    command(&url, flush.arg("FLUSH")).await;
    let lease = fixture.claim_one().await;
    command(&url, &flush).await;
    fixture.done(&lease, Settlement::Release).await;
}

#[tokio::test]
async fn several_partitions_are_one_schedule() {
    let options = Options {
        partitions: 4,
        ..options(fresh_database(), REMEMBERING)
    };
    let fixture = open_with(&options, Box::new(())).await;
    for number in 0..40 {
        fixture
            .put(&format!("lane-{}", number % 3), &format!("{number:02}"), 0)
            .await;
    }
    assert_eq!(fixture.counts().await.pending, 40);
    let leases = fixture.claim_all(40).await;
    let flags = fixture
        .schedule
        .in_flight(&[place_in("lane-1", "07"), place("none")])
        .await
        .expect("answered");
    assert_eq!(flags, [true, false]);
    assert_eq!(fixture.lane_in_flight("lane-0").await, 14);
    for (number, lease) in leases.iter().enumerate() {
        let ended_ms = i64::try_from(number / 2).expect("small");
        fixture.done(lease, end(lease, State::Dead, ended_ms)).await;
    }
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = fixture
            .schedule
            .dead(cursor.as_deref(), 7)
            .await
            .expect("a page");
        seen.extend(
            page.entries
                .into_iter()
                .map(|entry| (entry.ended_ms, entry)),
        );
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 40);
    assert!(
        seen.is_sorted_by(|one, other| one.0 >= other.0),
        "newest first"
    );
    let next = fixture
        .schedule
        .claim(ClaimQuota::of(9))
        .await
        .expect("answered")
        .next_due_ms;
    assert_eq!(next, None);
}

#[tokio::test]
async fn a_schedule_of_another_owner_is_refused() {
    let url = fresh_database();
    let clock = ManualClock::at(START_MS);
    let look = async |owner: &str, partitions| {
        let options = Options {
            owner: owner.into(),
            partitions,
            ..options(url.clone(), LIMITS)
        };
        let schedule = RedisSchedule::open(&options, Arc::new(clock.clone())).expect("a url");
        schedule.inspect(false).await
    };
    let found = look("journal-1", 1).await.expect("it is empty");
    assert_eq!(found, Inspection::ToLoad(LoadReason::New));
    for (owner, partitions, why) in [
        ("journal-2", 1, "belongs to journal journal-1"),
        (NO_JOURNAL, 1, "belongs to journal journal-1"),
        ("journal-1", 2, "has 1 partitions"),
    ] {
        let refused = look(owner, partitions)
            .await
            .expect_err("it is not its own");
        assert!(matches!(refused, ScheduleError::Foreign(_)), "{refused:?}");
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

#[tokio::test]
async fn a_check_fails_where_a_key_was_overwritten() {
    let url = fresh_database();
    let fixture = open_with(&options(url.clone(), REMEMBERING), Box::new(())).await;
    for name in [
        "jobs", "lanes", "leases", "changing", "dead", "ended", "settings", "meta",
    ] {
        fixture.schedule.check().await.expect("it works");
        let key = format!("{{rb:0}}:{name}");
        command(&url, redis::cmd("SET").arg(&key).arg("x")).await;
        assert!(fixture.schedule.check().await.is_err(), "{key}");
        command(&url, redis::cmd("DEL").arg(&key)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_rights_suffice() {
    let server = RedisServer::start_for(
        &documented_rights(),
        &["--appendonly", "yes", "--appendfsync", "always"],
    );
    let url = server.user_url(0);
    let options = Options {
        owner: "journal-1".into(),
        ..options(url, REMEMBERING)
    };
    let fixture = open_with(&options, Box::new(())).await;
    fixture.put_many("shop", 6, 0).await;
    let rate = super::lane_settings::limited(None, Some(100.0));
    fixture.configure("shop", rate).await;
    let lane = fixture.schedule.lane(&lane_of("shop")).await;
    lane.expect("answered");
    let selection = ringback::schedule::lane_status::LaneSelection::All;
    for cursor in [None, Some("0-lanes-0-")] {
        let page = fixture.schedule.lanes(selection, cursor, 5).await;
        page.expect("a page");
    }
    let reached = fixture.schedule.settings_reached(None).await;
    reached.expect("answered");
    fixture.retry("shop-0005").await;
    let dead = fixture.lease_by_hand("shop-0004").await;
    fixture.done(&dead, end(&dead, State::Dead, 1)).await;
    fixture.replay("shop-0004", 7).await;
    let reserved = fixture.reserve("none").await;
    fixture
        .end_reservation(&reserved, Reservation::Recheck)
        .await;
    let leases = fixture.claim_all(3).await;
    fixture.done(&leases[0], again(&leases[0], 5)).await;
    fixture
        .done(&leases[1], end(&leases[1], State::Delivered, 1))
        .await;
    let schedule = &fixture.schedule;
    schedule.renew(&leases[2]).await.expect("renewed");
    schedule.check().await.expect("it works");
    schedule.in_flight(&[place("1")]).await.expect("answered");
    schedule.dead(None, 5).await.expect("a page");
    schedule.scan(None, 5).await.expect("a page");
    schedule.holds(&[place("1")]).await.expect("answered");
    fixture.counts().await;
    fixture.find("shop-0005").await;
    fixture.turn_to(2 * REMEMBER_MS);
    fixture.claim(1).await;
    let shared = schedule.recoverable().expect("it outlives us");
    let asked = shared.inspect(true).await.expect("looked");
    assert_eq!(asked, Inspection::ToLoad(LoadReason::Asked));
    let entries = [entry("shop", "1", 0)];
    schedule.restore(&entries).await.expect("restored");
    shared.reindex(None, 5).await.expect("reindexed");
    assert!(shared.report_loading().await.expect("heard"));
    assert!(shared.finish_loading().await.expect("heard"));
    assert_eq!(
        shared.status().await.expect("answered"),
        ScheduleStatus::Whole
    );
    // What is written down once Redis was restarted is within them too.
    let _server = server.restart(async {}).await;
    schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
    within("the restart", shared.wait_for_loss()).await;
    let found = shared.inspect(false).await.expect("looked");
    assert_eq!(found, Inspection::ToLoad(LoadReason::Restarted));
    assert!(shared.finish_loading().await.expect("heard"));
    shared.deregister().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_cannot_be_written_down_is_found_all_the_same() {
    let mut rights = documented_rights();
    rights.retain(|right| right != "+eval");
    let server = RedisServer::start_for(&rights, &["--appendonly", "yes"]);
    let url = server.user_url(0);
    let options = Options {
        owner: "journal-1".into(),
        ..options(url, LIMITS)
    };
    let fixture = open_with(&options, Box::new(())).await;
    let shared = fixture.schedule.recoverable().expect("it outlives us");
    let _server = server.restart(async {}).await;
    fixture.claim(1).await;
    within("the restart", shared.wait_for_loss()).await;
    let found = shared.inspect(false).await.expect("looked");
    assert_eq!(found, Inspection::ToLoad(LoadReason::Restarted));
}
