//! Several instances share out many partitions: who claims what at once, what the others do for an owner that does not claim,
//! and what an instance finds of which no message told it.

use super::fixture::*;
use super::redis::{command, options};
use crate::support::redis::{connect, fresh_database};
use crate::support::within;
use ringback::clock::ManualClock;
use ringback::domain::lane::Lane;
use ringback::domain::lane_health::LaneReport;
use ringback::domain::state::State;
use ringback::schedule::recoverable::{Inspection, Recoverable as _};
use ringback::schedule::redis::{Options, RedisSchedule};
use ringback::schedule::skipped::SkipCause;
use ringback::schedule::{
    ClaimQuota, Claimed, Lease, ScheduleError, ScheduleLeases as _, Settlement,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// For how long something is due before an instance claims it that does not own its partition.
const GRACE_MS: i64 = 1_000;
/// For how long an instance then claims at once from that partition, and for how long after its last heartbeat an instance
/// counts as one that claims.
const CLAIMS_FOR_MS: i64 = 15_000;
/// After how long without a claim an instance says that it does not claim.
const CLAIMED_WITHIN_MS: i64 = 3_000;
/// More lanes than partitions: each of these has some.
const LANES: usize = 100;

/// A schedule over a journal, and the clock of all its instances.
struct Scene {
    options: Options,
    clock: ManualClock,
}

fn scene(partitions: usize) -> Scene {
    Scene {
        options: Options {
            partitions,
            owner: "journal".into(),
            ..options(fresh_database(), LIMITS)
        },
        clock: ManualClock::at(START_MS),
    }
}

impl Scene {
    /// Another instance, which knows nothing of the others yet.
    async fn open(&self) -> RedisSchedule {
        let schedule = RedisSchedule::open(&self.options, Arc::new(self.clock.clone()));
        let schedule = schedule.expect("a url");
        if let Inspection::ToLoad(_) = schedule.inspect(false).await.expect("looked") {
            assert!(schedule.finish_loading().await.expect("heard"));
        }
        schedule
    }

    /// Two instances that claim and know of each other.
    async fn two(&self) -> (RedisSchedule, RedisSchedule) {
        let (one, other) = (self.open().await, self.open().await);
        for schedule in [&one, &other, &one] {
            claim(schedule, 0).await;
            schedule.heartbeat().await.expect("answered");
        }
        (one, other)
    }

    fn turn_to(&self, after_ms: i64) {
        self.clock.turn_to(START_MS + after_ms);
    }

    /// Waits until an instance has heard all that was published, and forgets it. It claims from `partition`.
    async fn until_heard(&self, schedule: &RedisSchedule, partition: usize) {
        let (_, database) = self.options.url.rsplit_once('/').expect("a database");
        let channel = format!("{{rb:{partition}}}:wake:{database}");
        let mut connection = connect(&self.options.url).await;
        within("both to listen", async {
            let mut listening = redis::cmd("PUBSUB");
            listening.arg("NUMSUB").arg(&channel);
            loop {
                let (_, many): (String, usize) = listening
                    .query_async(&mut connection)
                    .await
                    .expect("answered");
                if many >= 2 {
                    return;
                }
            }
        })
        .await;
        // One after the other over one connection, so what was published before has been heard when this is.
        let publish = redis::Cmd::publish(&channel, 1);
        command(&self.options.url, &publish).await;
        within("a message", async {
            while schedule.wake().at_ms() != 1 {
                schedule.wake().moved().await;
            }
        })
        .await;
        claim(schedule, 0).await;
        schedule.wake().reset();
    }

    fn number_of(&self, lane: &Lane) -> usize {
        partition_of(lane, self.options.partitions)
    }

    /// The partitions of these leases.
    fn partitions(&self, leases: &[Lease]) -> BTreeSet<usize> {
        let lanes = leases.iter().map(|lease| &lease.entry.notification.lane);
        lanes.map(|lane| self.number_of(lane)).collect()
    }
}

async fn claim(schedule: &RedisSchedule, most: usize) -> Claimed {
    let claimed = schedule.claim(ClaimQuota::of(most)).await;
    claimed.expect("claimed")
}

/// Claims until there is nothing.
async fn claim_all(schedule: &RedisSchedule) -> Vec<Lease> {
    let mut leases = Vec::new();
    loop {
        let claimed = claim(schedule, 1_000).await;
        if claimed.leases.is_empty() {
            return leases;
        }
        leases.extend(claimed.leases);
    }
}

async fn put(schedule: &RedisSchedule, lane: &str, id: &str, due_ms: i64) {
    let registered = schedule.register(entry(lane, id, due_ms)).await;
    registered.expect("registered");
}

/// An entry in each of so many lanes, registered by one instance.
async fn put_all(schedule: &RedisSchedule, id: &str, due_ms: i64) {
    for number in 0..LANES {
        let (lane, id) = (format!("lane-{number}"), format!("{id}-{number}"));
        put(schedule, &lane, &id, due_ms).await;
    }
}

#[tokio::test]
async fn each_partition_is_claimed_at_once_by_one_of_two_instances() {
    let scene = scene(16);
    let (one, other) = scene.two().await;
    put_all(&one, "a", 0).await;
    let (by_one, by_other) = (claim_all(&one).await, claim_all(&other).await);
    assert_eq!(by_one.len() + by_other.len(), LANES);
    let (of_one, of_other) = (scene.partitions(&by_one), scene.partitions(&by_other));
    assert_eq!((of_one.len(), of_other.len()), (8, 8));
    assert!(of_one.is_disjoint(&of_other), "{of_one:?} {of_other:?}");
}

#[tokio::test]
async fn few_partitions_are_claimed_by_every_instance() {
    for (partitions, everything) in [(1, true), (7, true), (8, false)] {
        let scene = scene(partitions);
        let (one, _other) = scene.two().await;
        put_all(&one, "a", 0).await;
        let claimed = claim_all(&one).await;
        assert_eq!(claimed.len() == LANES, everything, "{partitions}");
    }
}

#[tokio::test]
async fn what_its_owner_does_not_claim_is_claimed_after_the_grace() {
    let scene = scene(16);
    let (one, other) = scene.two().await;
    put_all(&other, "a", 0).await;
    let own = claim_all(&one).await;
    assert_eq!(scene.partitions(&own).len(), 8);
    scene.turn_to(GRACE_MS - 1);
    assert_eq!(claim_all(&one).await.len(), 0);
    scene.turn_to(GRACE_MS);
    let overdue = claim_all(&one).await;
    assert_eq!(own.len() + overdue.len(), LANES);
    // From now on it claims there at once, for some time.
    put_all(&other, "b", GRACE_MS).await;
    assert_eq!(claim_all(&one).await.len(), LANES);
    scene.turn_to(GRACE_MS + CLAIMS_FOR_MS - 1);
    put_all(&other, "c", GRACE_MS + CLAIMS_FOR_MS - 1).await;
    assert_eq!(claim_all(&one).await.len(), LANES);
    scene.turn_to(GRACE_MS + CLAIMS_FOR_MS);
    put_all(&other, "d", GRACE_MS + CLAIMS_FOR_MS).await;
    assert_eq!(claim_all(&one).await.len(), own.len());
    // Its owner claims again, and nothing was claimed twice.
    assert_eq!(claim_all(&other).await.len(), overdue.len());
}

#[tokio::test]
async fn an_instance_that_stops_leaves_its_partitions_to_the_others_at_once() {
    let scene = scene(16);
    let (one, other) = scene.two().await;
    put_all(&one, "a", 0).await;
    let own = claim_all(&one).await;
    assert!(own.len() < LANES);
    // The messages of their first heartbeats do not count.
    scene
        .until_heard(&one, scene.number_of(&own[0].entry.notification.lane))
        .await;
    let _ = timeout(Duration::ZERO, one.wait_for_instances()).await;
    other.deregister().await;
    within("the message", one.wait_for_instances()).await;
    one.wake().reset();
    one.heartbeat().await.expect("answered");
    assert_eq!(one.wake().at_ms(), 0, "it claims at once");
    assert_eq!(claim_all(&one).await.len(), LANES - own.len());
}

#[tokio::test]
async fn a_killed_instance_counts_for_some_time() {
    let scene = scene(16);
    let (one, _killed) = scene.two().await;
    for (after_ms, everything) in [(CLAIMS_FOR_MS - 1, false), (CLAIMS_FOR_MS, true)] {
        scene.turn_to(after_ms);
        claim(&one, 0).await;
        one.heartbeat().await.expect("answered");
        put_all(&one, &after_ms.to_string(), after_ms).await;
        let claimed = claim_all(&one).await;
        assert_eq!(claimed.len() >= LANES, everything, "{after_ms}");
    }
}

#[tokio::test]
async fn an_instance_that_does_not_claim_owns_nothing() {
    let scene = scene(16);
    let (one, other) = scene.two().await;
    for (after_ms, everything) in [(CLAIMED_WITHIN_MS - 1, false), (CLAIMED_WITHIN_MS, true)] {
        scene.turn_to(after_ms);
        other.heartbeat().await.expect("answered");
        claim(&one, 0).await;
        one.heartbeat().await.expect("answered");
        put_all(&one, &after_ms.to_string(), after_ms).await;
        let claimed = claim_all(&one).await;
        assert_eq!(claimed.len() >= LANES, everything, "{after_ms}");
    }
    // It has a free permit again.
    claim_all(&other).await;
    for schedule in [&other, &one] {
        schedule.heartbeat().await.expect("answered");
    }
    put_all(&one, "again", CLAIMED_WITHIN_MS).await;
    let (by_one, by_other) = (claim_all(&one).await, claim_all(&other).await);
    assert_eq!(by_one.len() + by_other.len(), LANES);
    assert!(!by_one.is_empty() && !by_other.is_empty());
}

#[tokio::test]
async fn an_instance_that_knows_of_no_shares_takes_what_it_finds() {
    let scene = scene(16);
    let (one, other) = scene.two().await;
    // It sends no heartbeats, as a server of an earlier version: those tell nobody that they claim.
    let third = scene.open().await;
    put_all(&one, "a", 0).await;
    let (by_one, by_third, by_other) =
        tokio::join!(claim_all(&one), claim_all(&third), claim_all(&other));
    let all = [by_one, by_third, by_other].concat();
    let keys: BTreeSet<_> = all
        .iter()
        .map(|lease| &lease.entry.notification.key)
        .collect();
    assert_eq!((all.len(), keys.len()), (LANES, LANES));
}

/// Two lanes in one partition that this instance owns, each with a lease.
fn two_in_one_partition<'lease>(scene: &Scene, leases: &'lease [Lease]) -> [&'lease Lane; 2] {
    let mut lanes = leases.iter().map(|lease| &lease.entry.notification.lane);
    let one = lanes.next().expect("some");
    let other = lanes.find(|lane| *lane != one && scene.number_of(lane) == scene.number_of(one));
    [one, other.expect("one more there")]
}

#[tokio::test]
async fn an_owner_is_woken_although_something_waits_there_that_it_cannot_serve() {
    let scene = scene(16);
    let (one, other) = scene.two().await;
    put_all(&one, "a", 0).await;
    let (by_one, leases) = (claim_all(&one).await, claim_all(&other).await);
    for lease in &leases {
        let settlement = end(lease, State::Delivered, 0);
        other
            .settle(lease.clone(), settlement)
            .await
            .expect("settled");
    }
    let [stuck, lane] = two_in_one_partition(&scene, &leases);
    let name = |lane: &Lane| {
        let host = lane.as_str().trim_start_matches("https://");
        host.trim_end_matches(".example").to_string()
    };
    assert!(other.skipped_lanes().skip(stuck, SkipCause::Key));
    put(&one, &name(stuck), "stuck", 0).await;
    scene.until_heard(&other, scene.number_of(lane)).await;
    let of_one = scene.number_of(&by_one[0].entry.notification.lane);
    scene.until_heard(&one, of_one).await;
    assert_eq!(claim_all(&other).await.len(), 0);
    other.wake().reset();
    scene.turn_to(5);
    put(&one, &name(lane), "b", 5).await;
    within("the owner to be woken", async {
        while other.wake().at_ms() > START_MS + 5 {
            other.wake().moved().await;
        }
    })
    .await;
    assert!(one.wake().at_ms() > START_MS + 5, "it does not claim there");
    assert_eq!(ids(&claim_all(&other).await), ["b"]);
}

#[tokio::test]
async fn what_no_message_told_is_found_in_many_partitions() {
    const PARTITIONS: usize = 256;
    let scene = scene(PARTITIONS);
    let before = scene.open().await;
    put_all(&before, "a", 0).await;
    let late = scene.open().await;
    let leases = claim_all(&late).await;
    assert_eq!(leases.len(), LANES);
    // The expiry of a lease, wherever it is.
    let next_ms = claim(&scene.open().await, 0).await.next_due_ms;
    assert_eq!(next_ms, Some(START_MS + LEASE_MS));
    for mut lease in leases {
        lease.report = Some(LaneReport::Answered(1));
        let settlement = again(&lease, 9_000);
        late.settle(lease, settlement).await.expect("settled");
    }
    // Lanes of two classes in one partition: those that have answered, and those that have not.
    let number = |lane: &str| partition_of(&lane_of(lane), PARTITIONS);
    let new = (0..).map(|number| format!("new-{number}"));
    let known = number("lane-0");
    let new = new
        .into_iter()
        .find(|lane| number(lane) == known)
        .expect("some");
    put(&before, &new, "new", 5_000).await;
    let next_ms = claim(&scene.open().await, 0).await.next_due_ms;
    assert_eq!(next_ms, Some(START_MS + 5_000));
    scene.turn_to(8_999);
    assert_eq!(ids(&claim_all(&scene.open().await).await), ["new"]);
    scene.turn_to(9_000);
    assert_eq!(claim_all(&scene.open().await).await.len(), LANES);
}

/// Otherwise the dispatcher would claim without a pause for as long as something waits there.
#[tokio::test]
async fn what_an_instance_skips_does_not_wake_it() {
    let scene = scene(256);
    let (schedule, other) = scene.two().await;
    let far = |name: &String| scene.number_of(&lane_of(name)) > 100;
    let lanes = (0..).map(|number| format!("stuck-{number}"));
    for lane in lanes.filter(far).take(10) {
        put(&other, &lane, &lane, 0).await;
        schedule
            .skipped_lanes()
            .skip(&lane_of(&lane), SkipCause::Key);
        other.skipped_lanes().skip(&lane_of(&lane), SkipCause::Key);
    }
    put_all(&other, "a", 0).await;
    let own = claim_all(&schedule).await;
    assert_eq!(own.len() + claim_all(&other).await.len(), LANES);
    let partition = scene.number_of(&own[0].entry.notification.lane);
    scene.until_heard(&schedule, partition).await;
    // Some of them are in partitions of the other instance, which are taken over now.
    scene.turn_to(GRACE_MS);
    for _ in 0..3 {
        let claimed = claim(&schedule, 100).await;
        assert!(claimed.leases.is_empty());
        assert_eq!(claimed.next_due_ms, Some(START_MS + LEASE_MS));
        assert_eq!(schedule.wake().at_ms(), i64::MAX);
    }
}

#[tokio::test]
async fn a_partition_of_many_that_lost_its_data_is_noticed_while_nothing_is_due() {
    for (lost, is_told) in [("{rb:200}:meta", true), ("{rb:200}:none", false)] {
        let scene = scene(256);
        let schedule = scene.open().await;
        claim(&schedule, 1).await;
        command(&scene.options.url, &redis::Cmd::del(lost)).await;
        let claimed = schedule.claim(ClaimQuota::of(1)).await;
        let is_refused = matches!(claimed, Err(ScheduleError::Rebuilding));
        assert_eq!(is_refused, is_told, "{lost}: {claimed:?}");
    }
}

#[tokio::test]
async fn what_waits_in_many_partitions_is_claimed_in_turn() {
    let scene = scene(256);
    let schedule = scene.open().await;
    for id in ["a", "b", "c", "d", "e"] {
        put_all(&schedule, id, 0).await;
    }
    let mut lanes = vec![0; 256];
    (0..LANES).for_each(|lane| lanes[scene.number_of(&lane_of(&format!("lane-{lane}")))] += 1);
    let used = lanes.iter().filter(|lanes| **lanes > 0).count();
    let most_in_one = *lanes.iter().max().expect("some");
    // Far fewer at a time than there are partitions with something due. In turn, each of these has given a lease to each of
    // its lanes after so many. If claims always began with the same one, it would have given all before the last gives any.
    let (mut seen, mut given) = (BTreeSet::new(), 0);
    let most = used * most_in_one + 8;
    assert!(most < 4 * LANES, "{most}");
    while seen.len() < LANES {
        let leases = claim(&schedule, 8).await.leases;
        assert!(!leases.is_empty());
        for lease in leases {
            given += 1;
            seen.insert(lease.entry.notification.lane.clone());
            let settled = schedule.settle(lease, Settlement::Defer(START_MS + 60_000));
            settled.await.expect("settled");
        }
        assert!(given <= most, "{} lanes with {given} leases", seen.len());
    }
}

/// As docs/operations.md says: the servers are stopped, Redis is emptied, and they start with another number.
#[tokio::test]
async fn an_instance_that_hung_while_the_number_of_partitions_was_changed_is_refused() {
    for (before, after) in [(16, 4), (4, 16)] {
        let old = scene(before);
        let new = Scene {
            options: Options {
                partitions: after,
                ..old.options.clone()
            },
            clock: old.clock.clone(),
        };
        let hung = old.open().await;
        put_all(&hung, "a", 0).await;
        command(&old.options.url, &redis::cmd("FLUSHDB")).await;
        let schedule = new.open().await;
        put_all(&schedule, "b", 0).await;
        // It goes on, twice: also after it has inspected.
        for _ in 0..2 {
            for number in 0..LANES {
                let late = entry(&format!("lane-{number}"), &format!("late-{number}"), 0);
                let refused = hung.register(late).await;
                assert!(
                    matches!(refused, Err(ScheduleError::Rebuilding)),
                    "{refused:?}"
                );
            }
            let claimed = hung.claim(ClaimQuota::of(1)).await;
            assert!(
                matches!(claimed, Err(ScheduleError::Rebuilding)),
                "{claimed:?}"
            );
            let inspected = hung.inspect(false).await;
            assert!(
                matches!(inspected, Err(ScheduleError::Foreign(_))),
                "{inspected:?}"
            );
        }
        assert_eq!(claim_all(&schedule).await.len(), LANES);
    }
}
