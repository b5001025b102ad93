//! A Redis that loses what it held, and how instances notice.

use super::fixture::*;
use super::lane_settings::held;
use super::redis::{command, options};
use crate::support::redis::{RedisServer, connect, fresh_database};
use crate::support::within;
use redis::Value;
use ringback::clock::ManualClock;
use ringback::domain::lane_settings::{ChangeRange, LaneChange, LaneChanges, LaneSetting};
use ringback::domain::state::State;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable};
use ringback::schedule::redis::{NO_JOURNAL, Options, RedisSchedule};
use ringback::schedule::{
    ClaimQuota, Configured, Lease, LeaseRequest, LeasedOne, Registered, ScheduleError,
    SettingsReached, SettingsSource, Settled,
};
use ringback::schedule::{ScheduleLeases as _, ScheduleMaintenance as _, ScheduleReads as _};
use std::sync::Arc;

/// One Redis database with a journal's schedule in it.
pub struct Server {
    pub options: Options,
    pub clock: ManualClock,
}

impl Server {
    pub fn new() -> Self {
        Self::owned_by("journal-1")
    }

    pub fn owned_by(owner: &str) -> Self {
        Self {
            options: Options {
                owner: owner.into(),
                ..options(fresh_database(), LIMITS)
            },
            clock: ManualClock::at(START_MS),
        }
    }

    pub fn instance(&self) -> RedisSchedule {
        RedisSchedule::open(&self.options, Arc::new(self.clock.clone())).expect("a url")
    }

    /// An instance that has loaded the schedule, if that was needed.
    pub async fn ready(&self) -> RedisSchedule {
        let schedule = self.instance();
        fill(&schedule).await;
        schedule
    }

    pub async fn flush(&self) {
        command(&self.options.url, &redis::cmd("FLUSHDB")).await;
    }

    /// All keys with their content.
    pub async fn copy(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut connection = connect(&self.options.url).await;
        let keys: Vec<Vec<u8>> = (redis::cmd("KEYS").arg("*"))
            .query_async(&mut connection)
            .await
            .expect("keys");
        let mut copy = Vec::new();
        for key in keys {
            let mut dump = redis::cmd("DUMP");
            let content = dump.arg(&key).query_async(&mut connection).await;
            copy.push((key, content.expect("its content")));
        }
        copy
    }

    /// Sets the database back to what it held when it was copied.
    pub async fn set_back(&self, copy: &[(Vec<u8>, Vec<u8>)]) {
        self.flush().await;
        for (key, content) in copy {
            let mut restore = redis::cmd("RESTORE");
            command(&self.options.url, restore.arg(key).arg(0).arg(content)).await;
        }
    }

    async fn keys(&self) -> usize {
        let mut connection = connect(&self.options.url).await;
        let size: Value = redis::cmd("DBSIZE")
            .query_async(&mut connection)
            .await
            .expect("a size");
        match size {
            Value::Int(size) => usize::try_from(size).expect("small"),
            other => panic!("{other:?}"),
        }
    }
}

pub async fn look(schedule: &RedisSchedule) -> Inspection {
    schedule.inspect(false).await.expect("looked")
}

async fn fill(schedule: &RedisSchedule) {
    if let Inspection::ToLoad(_) = look(schedule).await {
        assert!(schedule.finish_loading().await.expect("heard"));
    }
    assert_eq!(look(schedule).await, Inspection::Whole);
}

pub async fn put(schedule: &RedisSchedule, id: &str) -> Result<Registered, ScheduleError> {
    schedule.register(entry("shop", id, 0)).await
}

/// Short words for what a test does with an instance.
pub trait Words {
    async fn shared_reindex(&self) -> Result<(), ScheduleError>;
    async fn pending(&self) -> u64;
    async fn claim_one(&self) -> Lease;
    async fn ask(&self, request: &LeaseRequest) -> LeasedOne;
}

impl Words for RedisSchedule {
    async fn shared_reindex(&self) -> Result<(), ScheduleError> {
        self.reindex(None, 9).await.map(drop)
    }

    async fn pending(&self) -> u64 {
        self.counts().await.expect("counted").pending
    }

    async fn claim_one(&self) -> Lease {
        let leases = self.claim(ClaimQuota::of(1)).await.expect("claimed").leases;
        leases.into_iter().next().expect("something is due")
    }

    async fn ask(&self, request: &LeaseRequest) -> LeasedOne {
        self.lease_one(request).await.expect("answered")
    }
}

/// Every call that changes something is refused, and the loss is reported.
pub async fn check_refused(schedule: &RedisSchedule) {
    let lost = |result: Result<(), ScheduleError>| {
        assert!(
            matches!(result, Err(ScheduleError::Rebuilding)),
            "{result:?}"
        );
    };
    lost(put(schedule, "1").await.map(drop));
    lost(schedule.claim(ClaimQuota::of(1)).await.map(drop));
    lost(schedule.lease_one(&known("1")).await.map(drop));
    lost(schedule.shared_reindex().await);
    lost(schedule.check().await);
    let entries = [entry("shop", "1", 0)];
    lost(schedule.restore(&entries).await.map(drop));
    within("the loss", schedule.wait_for_loss()).await;
}

#[tokio::test]
async fn a_flush_is_noticed_at_the_next_call() {
    let mut server = Server::new();
    server.options.partitions = 2;
    let schedule = server.ready().await;
    put(&schedule, "1").await.expect("registered");
    let lease = schedule
        .claim(ClaimQuota::of(1))
        .await
        .expect("claimed")
        .leases
        .remove(0);
    server.flush().await;
    let settled = schedule.settle(lease.clone(), end(&lease, State::Delivered, 1));
    assert!(matches!(settled.await, Err(ScheduleError::Rebuilding)));
    check_refused(&schedule).await;
    assert_eq!(look(&schedule).await, Inspection::ToLoad(LoadReason::Lost));
    within("calls to be executed", schedule.wait_until_usable()).await;
    // It can be worked with before it is full.
    assert_eq!(
        put(&schedule, "2").await.expect("registered"),
        Registered::Created
    );
    let settled = schedule.settle(lease.clone(), end(&lease, State::Delivered, 1));
    assert_eq!(settled.await.expect("answered"), Settled::Lost);
    assert!(schedule.report_loading().await.expect("heard"));
    assert!(schedule.finish_loading().await.expect("heard"));
    assert!(!schedule.finish_loading().await.expect("heard"), "once");
    assert_eq!(look(&schedule).await, Inspection::Whole);
}

#[tokio::test]
async fn an_older_copy_is_noticed_by_whoever_knows_better() {
    let server = Server::new();
    let (one, other) = (server.ready().await, server.ready().await);
    put(&one, "old").await.expect("registered");
    let copy = server.copy().await;
    put(&one, "new").await.expect("registered");
    server.set_back(&copy).await;
    // What the other did was all there; however much it does now, the first remembers.
    for _ in 0..20 {
        other.claim(ClaimQuota::of(1)).await.expect("claimed");
    }
    check_refused(&one).await;
    assert_eq!(look(&one).await, Inspection::ToLoad(LoadReason::Lost));
    // The other has to look once, and finds that it is seen to.
    check_refused(&other).await;
    assert_eq!(look(&other).await, Inspection::Loading);
    other.claim(ClaimQuota::of(1)).await.expect("claimed");
    assert_eq!(one.pending().await, 1, "what is there is kept");
    other.finish_loading().await.expect("heard");
    assert_eq!(look(&other).await, Inspection::Loading, "not its duty");
    assert!(one.finish_loading().await.expect("heard"));
    assert_eq!(look(&other).await, Inspection::Whole);
}

#[tokio::test]
async fn what_is_lost_after_another_instance_has_loaded_is_noticed_as_well() {
    let server = Server::new();
    let (one, other) = (server.ready().await, server.ready().await);
    put(&one, "1").await.expect("registered");
    // The other finds something missing, and loads: a new generation, of which the first has not heard.
    let damaged = redis::Cmd::hset("{rb:0}:meta", "state", "damaged");
    command(&server.options.url, &damaged).await;
    fill(&other).await;
    let copy = server.copy().await;
    // Whatever the first may do now is lost, and it is the only one that knows.
    let mut was_put = put(&one, "2").await;
    while was_put.is_err() {
        assert_eq!(look(&one).await, Inspection::Whole);
        was_put = put(&one, "2").await;
    }
    server.set_back(&copy).await;
    check_refused(&one).await;
    assert_eq!(look(&one).await, Inspection::ToLoad(LoadReason::Lost));
}

#[tokio::test]
async fn an_older_copy_from_before_a_rebuild_is_noticed() {
    let server = Server::new();
    let schedule = server.ready().await;
    put(&schedule, "1").await.expect("registered");
    let copy = server.copy().await;
    server.flush().await;
    check_refused(&schedule).await;
    fill(&schedule).await;
    server.set_back(&copy).await;
    check_refused(&schedule).await;
    assert_eq!(look(&schedule).await, Inspection::ToLoad(LoadReason::Lost));
}

#[tokio::test]
async fn a_server_that_starts_notices_what_the_last_one_knew() {
    let server = Server::new();
    let first = server.ready().await;
    let copy = server.copy().await;
    put(&first, "1").await.expect("registered");
    let counts = first.write_counts();
    drop(first);
    let second = server.instance();
    second.restore_write_counts(&counts);
    assert_eq!(look(&second).await, Inspection::Whole, "nothing is lost");
    server.set_back(&copy).await;
    let third = server.instance();
    third.restore_write_counts("no counts at all");
    assert_eq!(look(&third).await, Inspection::Whole, "it cannot know");
    let fourth = server.instance();
    fourth.restore_write_counts(&counts);
    assert_eq!(look(&fourth).await, Inspection::ToLoad(LoadReason::Lost));
    server.flush().await;
    let fifth = server.instance();
    fifth.restore_write_counts(&counts);
    assert_eq!(look(&fifth).await, Inspection::ToLoad(LoadReason::Lost));
}

#[tokio::test]
async fn instances_that_start_after_a_stop_find_it_whole_and_what_stopped_is_forgotten() {
    let server = Server::new();
    let first = server.ready().await;
    put(&first, "1").await.expect("registered");
    let counts = first.write_counts();
    first.deregister().await;
    let counters = async || {
        let mut connection = connect(&server.options.url).await;
        let asked = redis::Cmd::hkeys("{rb:0}:meta");
        let names: Vec<String> = asked.query_async(&mut connection).await.expect("answered");
        names.iter().filter(|name| name.len() == 32).count()
    };
    // Both go by what the one that stopped wrote down.
    let (second, third) = (server.instance(), server.instance());
    for one in [&second, &third] {
        one.restore_write_counts(&counts);
        assert_eq!(look(one).await, Inspection::Whole);
    }
    assert_eq!(counters().await, 3);
    let fourth = server.instance();
    fourth.restore_write_counts(&second.write_counts());
    assert_eq!(look(&fourth).await, Inspection::Whole);
    assert_eq!(counters().await, 3, "the first is forgotten");
}

#[tokio::test]
async fn one_instance_fills_and_another_goes_on_when_it_is_gone() {
    let mut server = Server::new();
    server.options.partitions = 2;
    let (one, other) = (server.ready().await, server.ready().await);
    server.flush().await;
    assert_eq!(look(&one).await, Inspection::ToLoad(LoadReason::Lost));
    assert_eq!(look(&other).await, Inspection::Loading);
    put(&other, "1").await.expect("registered");
    // As if the first had died and its time were over.
    for partition in 0..2 {
        let name = format!("{{rb:{partition}}}:rebuild");
        command(&server.options.url, redis::cmd("DEL").arg(name)).await;
    }
    assert_eq!(
        look(&other).await,
        Inspection::ToLoad(LoadReason::Unfinished)
    );
    assert_eq!(other.pending().await, 1, "kept");
    assert!(!one.report_loading().await.expect("heard"), "replaced");
    assert!(!one.finish_loading().await.expect("heard"), "replaced");
    assert!(other.finish_loading().await.expect("heard"));
    assert_eq!(look(&one).await, Inspection::Whole);
}

#[tokio::test]
async fn everything_old_is_removed_before_filling() {
    let server = Server::new();
    let schedule = server.ready().await;
    let empty = server.keys().await;
    for lane in 0..600 {
        let entry = entry(&format!("lane-{lane}"), &lane.to_string(), 0);
        schedule.register(entry).await.expect("registered");
    }
    // Lanes with nothing but leases out must be found all the same.
    for _ in 0..3 {
        schedule.claim(ClaimQuota::of(100)).await.expect("claimed");
    }
    assert_eq!(
        schedule.inspect(true).await.expect("looked"),
        Inspection::ToLoad(LoadReason::Asked)
    );
    schedule.finish_loading().await.expect("heard");
    // The note of its last claim expires by itself.
    let left = server.keys().await;
    assert!(
        left <= empty + 2,
        "{left} keys, {empty} in an empty schedule"
    );
    let counts = schedule.counts().await.expect("counted");
    assert_eq!((counts.pending, counts.in_flight), (0, 0));
}

#[tokio::test]
async fn without_a_journal_what_is_left_is_kept() {
    let server = Server::owned_by(NO_JOURNAL);
    let schedule = server.ready().await;
    put(&schedule, "old").await.expect("registered");
    let copy = server.copy().await;
    put(&schedule, "new").await.expect("registered");
    server.set_back(&copy).await;
    check_refused(&schedule).await;
    assert_eq!(look(&schedule).await, Inspection::ToLoad(LoadReason::Lost));
    assert!(schedule.finish_loading().await.expect("heard"));
    assert_eq!(look(&schedule).await, Inspection::Whole);
    let claimed = schedule.claim(ClaimQuota::of(9)).await.expect("claimed");
    assert_eq!(ids(&claimed.leases), ["old"]);
}

#[tokio::test]
async fn another_owner_that_moved_in_is_named() {
    let server = Server::new();
    let schedule = server.ready().await;
    server.flush().await;
    let stranger = Server {
        options: Options {
            owner: "journal-2".into(),
            ..server.options.clone()
        },
        clock: server.clock.clone(),
    };
    stranger.ready().await;
    check_refused(&schedule).await;
    let refused = schedule.inspect(false).await;
    assert!(
        matches!(refused, Err(ScheduleError::Foreign(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_is_given_again() {
    let redis = RedisServer::start(&[]);
    let server = Server {
        options: Options {
            url: redis.url(0),
            ..Server::new().options
        },
        clock: ManualClock::at(START_MS),
    };
    let schedule = server.ready().await;
    // A server that does not know the script yet would only say so.
    schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
    for id in ["1", "2", "3", "4"] {
        put(&schedule, id).await.expect("registered");
    }
    // What a stopped server was sent lies there until it goes on, and is executed then.
    redis.pause().await;
    let lost = schedule.claim(ClaimQuota::of(9)).await;
    assert!(
        matches!(lost, Err(ScheduleError::Unavailable(_))),
        "{lost:?}"
    );
    redis.resume();
    let again = within("a claim to be answered", async {
        loop {
            // On a busy machine, this one may be lost as well.
            if let Ok(claimed) = schedule.claim(ClaimQuota::of(9)).await {
                return claimed;
            }
        }
    })
    .await;
    assert_eq!(again.leases.len(), 4, "{:?}", ids(&again.leases));
    let one = schedule.ask(&LeaseRequest::new(place("1"))).await;
    assert!(matches!(one, LeasedOne::InFlight), "{one:?}");
    let next = schedule.claim(ClaimQuota::of(9)).await.expect("claimed");
    assert!(next.leases.is_empty(), "the next claim is another");
}

/// A server that starts, and knows of nothing, takes an empty Redis for a new one.
#[tokio::test]
async fn a_total_loss_is_told_though_a_server_that_starts_has_looked_first() {
    for owner in ["journal-1", NO_JOURNAL] {
        let server = Server::owned_by(owner);
        let (one, other) = (server.ready().await, server.ready().await);
        put(&one, "1").await.expect("registered");
        server.flush().await;
        let new = server.ready().await;
        put(&new, "2").await.expect("registered");
        check_refused(&one).await;
        let lost = Inspection::ToLoad(LoadReason::Lost);
        assert_eq!(look(&one).await, lost, "{owner}");
        assert!(one.finish_loading().await.expect("heard"));
        // Once.
        for instance in [&one, &other, &new] {
            assert_eq!(look(instance).await, Inspection::Whole, "{owner}");
        }
        assert_eq!(one.pending().await, 1, "{owner}");
    }
}

/// Redis is set back to before a hold that was confirmed. That it has all changes up to the one before says nothing.
#[tokio::test]
async fn a_hold_is_obeyed_after_redis_was_set_back_to_before_it() {
    let mut server = Server::new();
    server.options.limits.settings_source = SettingsSource::Journal;
    let schedule = server.ready().await;
    let bring = async |until: i64, changes: Vec<LaneChange>, reached: &SettingsReached| {
        let after = reached.number.unwrap_or(0);
        let range = Some(ChangeRange {
            after,
            until,
            is_last: true,
        });
        let changes = LaneChanges { changes, range };
        let configured = schedule.configure_lanes(&changes, reached).await;
        assert!(
            matches!(configured, Ok(Configured::Obeyed)),
            "{configured:?}"
        );
    };
    let reached = async || schedule.settings_reached(None).await.expect("answered");
    bring(3, vec![], &reached().await).await;
    put(&schedule, "1").await.expect("registered");
    let copy = server.copy().await;
    let hold = || LaneChange {
        lane: lane_of("shop"),
        setting: held(),
        number: 4,
    };
    let before = reached().await;
    assert_eq!((before.number, before.is_confirmed), (Some(3), true));
    bring(4, vec![hold()], &before).await;
    server.set_back(&copy).await;
    check_refused(&schedule).await;
    assert_eq!(look(&schedule).await, Inspection::ToLoad(LoadReason::Lost));

    let claimed = async || {
        schedule
            .claim(ClaimQuota::of(9))
            .await
            .expect("claimed")
            .leases
    };
    assert_eq!(ids(&claimed().await), [""; 0]);
    // What was read in the journal before it was set back may be without the hold.
    bring(3, vec![], &before).await;
    assert_eq!(ids(&claimed().await), [""; 0]);
    let now = reached().await;
    assert_eq!((now.number, now.is_confirmed), (Some(3), false));
    bring(4, vec![hold()], &now).await;
    assert!(reached().await.is_confirmed);
    assert_eq!(ids(&claimed().await), [""; 0]);
    let release = LaneChange {
        setting: LaneSetting::Hold(None),
        number: 5,
        ..hold()
    };
    bring(5, vec![release], &reached().await).await;
    assert_eq!(ids(&claimed().await), ["1"]);
}
