//! The number of partitions is changed in a cluster of which a part is away or was set back.

use super::finding::{entry_in, open_numbered, whole};
use crate::schedule_contract::fixture::START_MS;
use crate::support::redis::connect;
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_node::until;
use crate::support::{short_pause, within};
use redis::Cmd;
use ringback::clock::ManualClock;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable as _};
use ringback::schedule::redis::RedisSchedule;
use ringback::schedule::{
    ClaimQuota, ScheduleError, ScheduleLeases as _, ScheduleMaintenance as _, ScheduleReads as _,
};

const BEFORE: usize = 4;
const AFTER: usize = 8;
/// How long after its last sign of life a killed server counts as one that is at work.
const ALIVE_MS: i64 = 30_000;

fn server(cluster: &RedisCluster, partitions: usize, clock: &ManualClock) -> RedisSchedule {
    let server = open_numbered(cluster.url(), partitions, clock.clone());
    server.announce_horizon();
    server
}

/// One notification for each partition of a schedule with the most of them.
async fn put_all(schedule: &RedisSchedule) -> Result<(), ScheduleError> {
    for partition in 0..AFTER {
        schedule.register(entry_in(partition, AFTER, "1")).await?;
    }
    Ok(())
}

/// The nodes of the first partition and of those that only the larger number has, and not the first.
async fn two_nodes(cluster: &RedisCluster) -> [usize; 2] {
    let first = cluster.primary_of(cluster.slot_of(0).await).await;
    let primaries = cluster.primaries().await;
    let other = primaries.iter().find(|node| **node != first);
    [first, *other.expect("another one")]
}

/// Inspects until it is answered, and puts in what is missing, as from a journal.
async fn recovered(schedule: &RedisSchedule) {
    let recovering = async {
        loop {
            let found = schedule.inspect(false).await;
            let done = match &found {
                Ok(Inspection::ToLoad(_)) => match put_all(schedule).await {
                    Ok(()) => schedule.finish_loading().await.map(|_| false),
                    Err(error) => Err(error),
                },
                Ok(Inspection::Whole) if schedule.out_of_reach().is_empty() => Ok(true),
                Ok(_) => Ok(false),
                Err(ScheduleError::Unavailable(_) | ScheduleError::Rebuilding) => Ok(false),
                Err(error) => panic!("{error:?}"),
            };
            match done {
                Ok(true) => return,
                Ok(false) | Err(ScheduleError::Unavailable(_) | ScheduleError::Rebuilding) => {
                    short_pause().await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    within("the schedule to be whole", recovering).await;
}

async fn claim_all(schedule: &RedisSchedule) -> usize {
    let claimed = schedule.claim(ClaimQuota::of(100)).await.expect("answered");
    claimed.leases.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_works_nowhere_while_one_that_is_at_work_may_be_out_of_reach() {
    let cluster = RedisCluster::start_patient().await;
    for node in two_nodes(&cluster).await {
        cluster.flush().await;
        let clock = ManualClock::at(START_MS);
        // All that the one at work has is in the first partition.
        let old = server(&cluster, 1, &clock);
        whole(&old).await;
        put_all(&old).await.expect("put in");
        cluster.hang(node).await;
        let new = server(&cluster, AFTER, &clock);
        for _ in 0..2 {
            let found = new.inspect(false).await;
            assert!(
                matches!(
                    found,
                    Err(ScheduleError::Unavailable(_) | ScheduleError::Foreign(_))
                ),
                "{found:?}"
            );
        }
        cluster.resume(node);
        until("the new one to be refused", async || {
            let found = new.inspect(false).await;
            matches!(found, Err(ScheduleError::Foreign(_))).then_some(())
        })
        .await;
        assert_eq!(old.inspect(false).await.expect("looked"), Inspection::Whole);
        assert_eq!(claim_all(&old).await, AFTER);
        for partition in 1..AFTER {
            let slot = cluster.slot_of(partition).await;
            let url = cluster.node_url(cluster.primary_of(slot).await);
            let epoch = Cmd::exists(format!("{{rb:{partition}}}:epoch"));
            let there: bool =
                (epoch.query_async(&mut connect(&url).await).await).expect("answered");
            assert!(!there, "{partition}");
        }
    }
}

/// What a server that was broken off has left says nothing while the first partition cannot be asked.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_is_not_used_while_the_first_partition_is_away() {
    let cluster = RedisCluster::start_patient().await;
    let [first, _] = two_nodes(&cluster).await;
    let clock = ManualClock::at(START_MS);
    let old = server(&cluster, 1, &clock);
    whole(&old).await;
    put_all(&old).await.expect("put in");
    let of_first = cluster.partitions_of(first, AFTER).await;
    let mut others = Vec::new();
    for partition in (1..AFTER).filter(|partition| !of_first.contains(partition)) {
        let slot = cluster.slot_of(partition).await;
        let url = cluster.node_url(cluster.primary_of(slot).await);
        let epoch = Cmd::set(
            format!("{{rb:{partition}}}:epoch"),
            format!("journal/{AFTER}"),
        );
        let set = epoch.exec_async(&mut connect(&url).await).await;
        set.expect("written");
        others.push((partition, url));
    }
    cluster.hang(first).await;
    let new = server(&cluster, AFTER, &clock);
    let found = new.inspect(false).await;
    assert!(
        matches!(found, Err(ScheduleError::Unavailable(_))),
        "{found:?}"
    );
    for (partition, url) in others {
        let meta = Cmd::exists(format!("{{rb:{partition}}}:meta"));
        let there: bool = (meta.query_async(&mut connect(&url).await).await).expect("answered");
        assert!(!there, "{partition}");
    }
    cluster.resume(first);
    until("the new one to be refused", async || {
        let found = new.inspect(false).await;
        matches!(found, Err(ScheduleError::Foreign(_))).then_some(())
    })
    .await;
    assert_eq!(claim_all(&old).await, AFTER);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_is_changed_when_all_partitions_are_in_reach_again() {
    let cluster = RedisCluster::start_patient().await;
    for node in two_nodes(&cluster).await {
        cluster.flush().await;
        let clock = ManualClock::at(START_MS);
        let old = server(&cluster, BEFORE, &clock);
        whole(&old).await;
        put_all(&old).await.expect("put in");
        old.deregister().await;
        cluster.hang(node).await;
        let new = server(&cluster, AFTER, &clock);
        let found = new.inspect(false).await;
        assert!(
            matches!(found, Err(ScheduleError::Unavailable(_))),
            "{found:?}"
        );
        cluster.resume(node);
        let found = until("the number to be changed", async || {
            match new.inspect(false).await {
                Err(ScheduleError::Unavailable(_)) => None,
                found => Some(found.expect("allowed")),
            }
        });
        assert_eq!(found.await, Inspection::ToLoad(LoadReason::Resized));
        put_all(&new).await.expect("put in");
        recovered(&new).await;
        assert_eq!(claim_all(&new).await, AFTER);
    }
}

/// The replica that takes over has not heard of the change, nor that the former server has stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_set_back_to_the_former_number_is_loaded_again() {
    for place in 0..2 {
        let mut cluster = RedisCluster::start().await;
        let node = two_nodes(&cluster).await[place];
        let clock = ManualClock::at(START_MS);
        let old = server(&cluster, BEFORE, &clock);
        whole(&old).await;
        put_all(&old).await.expect("put in");
        cluster.until_whole().await;
        let replicas = cluster.cut_replication(node).await;
        old.deregister().await;
        drop(old);
        let new = server(&cluster, AFTER, &clock);
        recovered(&new).await;
        let slots = cluster.partitions_of(node, AFTER).await;
        let slot = cluster.slot_of(slots[0]).await;
        cluster.kill(node);
        for replica in replicas {
            cluster.resume(replica);
        }
        cluster.until_primary_is_other(slot, node).await;
        until("the loss to be noticed", async || {
            let put = put_all(&new).await;
            matches!(put, Err(ScheduleError::Rebuilding)).then_some(())
        })
        .await;
        // The former one seems to be at work there for as long as one that was killed. The other parts go on.
        for _ in 0..2 {
            let found = new.inspect(false).await;
            assert!(found.is_ok(), "{found:?}");
        }
        assert!(put_all(&new).await.is_err());
        clock.turn_to(START_MS + ALIVE_MS);
        recovered(&new).await;
        let pending = new.counts().await.expect("counted").pending;
        assert_eq!(pending, AFTER as u64);
        assert_eq!(claim_all(&new).await, AFTER);
    }
}
