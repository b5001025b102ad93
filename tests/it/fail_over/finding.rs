//! The schedule finds its servers again: through Sentinel, and in a cluster.

use crate::schedule_contract::fixture::{LIMITS, START_MS, end, entry, lane_of, partition_of};
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_node::until;
use crate::support::sentinels::Sentinels;
use crate::support::{short_pause, within};
use ringback::clock::ManualClock;
use ringback::domain::lane_settings::{LaneChange, LaneChanges, LaneHold, LaneSetting};
use ringback::domain::state::State;
use ringback::redis_tls::RedisTls;
use ringback::schedule::recoverable::{Inspection, Recoverable as _};
use ringback::schedule::redis::{ClaimTimes, Options, RedisSchedule, Time};
use ringback::schedule::{
    ClaimQuota, Configured, Entry, LeaseRequest, LeasedOne, Limits, Registered, ScheduleError,
    ScheduleLeases as _, ScheduleMaintenance as _, ScheduleReads as _, SettingsReached, Settled,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long after its election a primary may stay unused.
const FOUND_WITHIN: Duration = Duration::from_secs(2);
/// How many partitions the tests with a cluster have.
pub const PARTITIONS: usize = 8;

fn open(url: String, partitions: usize) -> RedisSchedule {
    open_with_replicas(url, partitions, 0)
}

fn open_with_replicas(url: String, partitions: usize, replicas: u16) -> RedisSchedule {
    let options = Options {
        replicas,
        ..options(url, partitions, LIMITS)
    };
    RedisSchedule::open(&options, Arc::new(ManualClock::at(START_MS))).expect("a URL")
}

/// In [`PARTITIONS`] parts.
pub fn open_with_limits(url: String, limits: Limits, clock: ManualClock) -> RedisSchedule {
    RedisSchedule::open(&options(url, PARTITIONS, limits), Arc::new(clock)).expect("a URL")
}

/// In so many parts.
pub fn open_numbered(url: String, partitions: usize, clock: ManualClock) -> RedisSchedule {
    RedisSchedule::open(&options(url, partitions, LIMITS), Arc::new(clock)).expect("a URL")
}

fn options(url: String, partitions: usize, limits: Limits) -> Options {
    Options {
        url,
        partitions,
        limits,
        time: Time::Clock,
        // With a journal, there is no directory of keys, which could be at another node than the lane.
        owner: "journal".into(),
        signing: None,
        replicas: 0,
        tls: RedisTls::default(),
        claim_times: ClaimTimes::default(),
    }
}

pub async fn whole(schedule: &RedisSchedule) {
    while let Inspection::ToLoad(_) = schedule.inspect(false).await.expect("looked") {
        schedule.finish_loading().await.expect("heard");
    }
}

/// An entry whose lane is in this partition.
pub fn entry_in(partition: usize, partitions: usize, id: &str) -> Entry {
    let mut lanes = (0..).map(|lane| format!("shop-{lane}"));
    let lane = lanes.find(|lane| partition_of(&lane_of(lane), partitions) == partition);
    entry(&lane.expect("some lane"), &format!("{partition}-{id}"), 0)
}

/// Registers as callers do: again until it is answered. Says how long it took.
async fn put_again(schedule: &RedisSchedule, entry: &Entry) -> Duration {
    let started = Instant::now();
    loop {
        match schedule.register(entry.clone()).await {
            Ok(_) => return started.elapsed(),
            Err(ScheduleError::Rebuilding) => whole(schedule).await,
            Err(ScheduleError::Unavailable(_)) => short_pause().await,
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_primary_of_sentinel_is_used_within_two_seconds() {
    let mut servers = Sentinels::start().await;
    let schedule = open(servers.url(), 1);
    whole(&schedule).await;
    put_again(&schedule, &entry_in(0, 1, "1")).await;
    let dead = servers.kill_primary().await;
    let new = servers.until_replaced(dead).await;
    let took = put_again(&schedule, &entry_in(0, 1, "2")).await;
    assert!(took < FOUND_WITHIN, "{took:?}");
    // The dead one comes back and takes itself for a primary, until a sentinel tells it.
    servers.start_again(dead).await;
    put_again(&schedule, &entry_in(0, 1, "3")).await;
    assert_eq!(servers.primary().await, new);
    servers.until_whole().await;
    assert_eq!(schedule.counts().await.expect("counted").pending, 3);
    // One that hangs is replaced as well, and its connections are not used for ever.
    servers.hang(new).await;
    let other = servers.until_replaced(new).await;
    assert_ne!(other, new);
    let took = put_again(&schedule, &entry_in(0, 1, "4")).await;
    assert!(took < FOUND_WITHIN, "{took:?}");
    servers.resume(new);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_primary_of_a_cluster_is_used_within_two_seconds_of_its_election() {
    let mut cluster = RedisCluster::start().await;
    let schedule = open(cluster.url(), PARTITIONS);
    whole(&schedule).await;
    let slot = cluster.slot_of(0).await;
    put_again(&schedule, &entry_in(0, PARTITIONS, "1")).await;
    cluster.until_whole().await;
    cluster.kill_primary_of(slot).await;
    let took = put_again(&schedule, &entry_in(0, PARTITIONS, "2")).await;
    println!("used {took:?} after the election was seen");
    assert!(took < FOUND_WITHIN, "{took:?}");
}

/// It may have been replaced, and what was cancelled through another server is due in it still.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_primary_gives_is_verified_while_most_sentinels_do_not_answer() {
    let mut servers = Sentinels::start().await;
    let schedule = open(servers.url(), 1);
    whole(&schedule).await;
    let number = AtomicUsize::new(0);
    let is_verified = async || {
        let number = number.fetch_add(1, Ordering::Relaxed);
        put_again(&schedule, &entry_in(0, 1, &number.to_string())).await;
        let claimed = schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
        let lease = claimed.leases.into_iter().next().expect("one is due");
        let settlement = end(&lease, State::Delivered, 1);
        let settled = schedule.settle(lease.clone(), settlement).await;
        assert_eq!(settled.expect("answered"), Settled::Done);
        assert_eq!(lease.entry.verify, lease.entry.raise_fence);
        lease.entry.verify
    };
    assert!(!is_verified().await);
    servers.end_sentinels(1);
    assert!(!is_verified().await);
    let waiting = entry("shop-by-hand", "by-hand", 60_000);
    schedule
        .register(waiting.clone())
        .await
        .expect("registered");
    let request = LeaseRequest::new(waiting.notification.key_in_lane());
    servers.end_sentinels(2);
    until("it to be doubted", async || {
        is_verified().await.then_some(())
    })
    .await;
    // What is changed here would be due as before in another primary.
    let refused = schedule.lease_one(&request).await;
    assert!(
        matches!(refused, Err(ScheduleError::Unavailable(_))),
        "{refused:?}"
    );
    let repair = LeaseRequest::for_repair(waiting.notification.key_in_lane());
    let leased = schedule.lease_one(&repair).await.expect("answered");
    assert!(matches!(leased, LeasedOne::Leased(_)), "{leased:?}");
}

#[tokio::test]
async fn an_order_of_sentinel_is_followed_while_both_servers_live() {
    let servers = Sentinels::start().await;
    let schedule = open(servers.url(), 1);
    whole(&schedule).await;
    put_again(&schedule, &entry_in(0, 1, "1")).await;
    for id in ["2", "3"] {
        servers.fail_over().await;
        let took = put_again(&schedule, &entry_in(0, 1, id)).await;
        assert!(took < FOUND_WITHIN, "{took:?}");
    }
    servers.until_whole().await;
    whole(&schedule).await;
    assert_eq!(schedule.counts().await.expect("counted").pending, 3);
}

#[tokio::test]
async fn an_unknown_name_and_wrong_kinds_of_servers_are_told() {
    let servers = Sentinels::start().await;
    let check = async |url: String, said: &str| {
        let error = open(url.clone(), 3).inspect(false).await;
        let error = error.expect_err(&url).to_string();
        assert!(error.contains(said), "{url}: {error}");
    };
    let url = servers.url();
    let (sentinels, _) = url.rsplit_once('/').expect("a name");
    check(format!("{sentinels}/other"), "names a primary `other`").await;
    let sentinel = sentinels.rsplit_once(',').expect("several").1;
    check(format!("redis://{sentinel}"), "redis+sentinel://").await;
    let node = servers.node_url(0);
    let node = node.trim_start_matches("redis://");
    let node = node.split_once('/').map_or(node, |(node, _)| node);
    check(format!("redis+cluster://{node}"), "use redis:// for it").await;
    check(format!("redis+sentinel://{node}/x"), "names a primary `x`").await;
    let cluster = RedisCluster::start_patient().await;
    check(cluster.node_url(0), "redis+cluster://").await;
}

#[tokio::test]
async fn every_partition_of_a_cluster_is_used_and_follows_its_slot() {
    let cluster = RedisCluster::start_patient().await;
    let schedule = open(cluster.url(), PARTITIONS);
    let other = open(cluster.url(), PARTITIONS);
    whole(&schedule).await;
    whole(&other).await;
    for partition in 0..PARTITIONS {
        let entry = entry_in(partition, PARTITIONS, "1");
        let put = schedule.register(entry).await.expect("registered");
        assert_eq!(put, Registered::Created);
    }
    assert_eq!(claim_all(&other).await, PARTITIONS);
    // A slot moves while it is used.
    let slot = cluster.slot_of(0).await;
    let from = cluster.primary_of(slot).await;
    let to = (from + 1) % 3;
    let moved = cluster.begin_move(slot, to).await;
    let entry = entry_in(0, PARTITIONS, "2");
    let mut putting = Box::pin(put_again(&schedule, &entry));
    for _ in 0..3 {
        moved.migrate(1).await;
        // Reads of single keys are answered by one node or the other.
        assert!(schedule.counts().await.expect("counted").in_flight >= PARTITIONS as u64 - 1);
        let soon = tokio::time::timeout(Duration::from_millis(20), &mut putting).await;
        assert!(soon.is_err(), "no script may run on a half of its keys");
    }
    moved.finish().await;
    let took = within("the registration", putting).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(cluster.primary_of(slot).await, to);
    whole(&schedule).await;
    let counts = schedule.counts().await.expect("counted");
    assert_eq!(counts.pending, PARTITIONS as u64 + 1);
    // A replica takes over.
    cluster.hand_over(slot).await;
    let took = put_again(&schedule, &entry_in(0, PARTITIONS, "3")).await;
    assert!(took < FOUND_WITHIN, "{took:?}");
}

/// How many leases all claims give until nothing is due.
async fn claim_all(schedule: &RedisSchedule) -> usize {
    let mut many = 0;
    loop {
        let claimed = schedule.claim(ClaimQuota::of(64)).await.expect("claimed");
        if claimed.leases.is_empty() {
            return many;
        }
        many += claimed.leases.len();
    }
}

#[tokio::test]
async fn partitions_of_other_nodes_go_on_while_one_is_away() {
    let cluster = RedisCluster::start_patient().await;
    let schedule = open(cluster.url(), PARTITIONS);
    whole(&schedule).await;
    let away = cluster.partitions_of(0, PARTITIONS).await;
    let here: Vec<usize> = (0..PARTITIONS)
        .filter(|number| !away.contains(number))
        .collect();
    assert!(!away.is_empty() && !here.is_empty(), "{away:?} {here:?}");
    cluster.hang(0).await;
    // The first claim notices, the next ones do not wait.
    schedule.claim(ClaimQuota::of(1)).await.expect("claimed");
    let started = Instant::now();
    for partition in &here {
        let entry = entry_in(*partition, PARTITIONS, "1");
        schedule.register(entry).await.expect("registered");
    }
    assert_eq!(claim_all(&schedule).await, here.len());
    schedule.check().await.expect("checked");
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    let refused = schedule.register(entry_in(away[0], PARTITIONS, "1")).await;
    assert!(
        matches!(refused, Err(ScheduleError::Unavailable(_))),
        "{refused:?}"
    );
    // A server that starts now uses what is there.
    let late = open(cluster.url(), PARTITIONS);
    whole(&late).await;
    let entry = entry_in(here[0], PARTITIONS, "2");
    late.register(entry).await.expect("registered");
    cluster.resume(0);
    within("the loss to be noticed", late.wait_for_loss()).await;
    whole(&late).await;
    for schedule in [&schedule, &late] {
        put_again(schedule, &entry_in(away[0], PARTITIONS, "1")).await;
    }
    within("a claim of what was away", async {
        while claim_all(&schedule).await == 0 {
            short_pause().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_registration_counts_only_when_enough_replicas_have_it() {
    let servers = Sentinels::start().await;
    let schedule = open_with_replicas(servers.url(), 1, 2);
    whole(&schedule).await;
    let put = schedule.register(entry_in(0, 1, "1")).await;
    assert_eq!(put.expect("registered"), Registered::Created);
    let replica = (servers.primary().await + 1) % 3;
    servers.hang(replica).await;
    let refused = schedule.register(entry_in(0, 1, "2")).await;
    let Err(ScheduleError::Unavailable(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("--redis-wait"), "{why}");
    // So does a hold.
    let none = SettingsReached::default();
    let refused = schedule.configure_lanes(&holding(), &none).await;
    assert!(
        matches!(refused, Err(ScheduleError::Unavailable(_))),
        "{refused:?}"
    );
    servers.resume(replica);
    servers.until_whole().await;
    // It was kept, and counts now.
    let put = schedule
        .register(entry_in(0, 1, "2"))
        .await
        .expect("registered");
    assert!(matches!(put, Registered::Existing(_)), "{put:?}");
    let held = schedule.configure_lanes(&holding(), &none).await;
    assert!(matches!(held, Ok(Configured::Obeyed)), "{held:?}");
}

/// A hold as it is given without a journal.
fn holding() -> LaneChanges {
    let hold = LaneHold {
        by: "anna".into(),
        reason: "".into(),
        since_ms: START_MS,
    };
    let change = LaneChange {
        lane: lane_of("shop-1"),
        setting: LaneSetting::Hold(Some(hold)),
        number: 0,
    };
    LaneChanges {
        changes: vec![change],
        range: None,
    }
}
