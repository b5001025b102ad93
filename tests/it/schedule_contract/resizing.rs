//! An instance that starts with another number of partitions than the schedule has.

use super::fixture::*;
use super::redis::{command, options};
use crate::support::redis::{connect, fresh_database};
use ringback::clock::ManualClock;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable as _};
use ringback::schedule::redis::{NO_JOURNAL, Options, RedisSchedule};
use ringback::schedule::{ClaimQuota, ScheduleError, ScheduleLeases as _, ScheduleReads as _};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long after its last sign of life a killed instance counts as one that is at work.
const ALIVE_MS: i64 = 30_000;
/// More lanes than partitions: each of these has some.
const LANES: usize = 60;

struct Scene {
    url: String,
    clock: ManualClock,
    owner: &'static str,
}

impl Scene {
    fn new() -> Self {
        Self {
            url: fresh_database(),
            clock: ManualClock::at(START_MS),
            owner: "journal-1",
        }
    }

    /// A schedule that a command opens: it announces nothing.
    fn command(&self, partitions: usize) -> RedisSchedule {
        let options = Options {
            owner: self.owner.into(),
            partitions,
            ..options(self.url.clone(), LIMITS)
        };
        RedisSchedule::open(&options, Arc::new(self.clock.clone())).expect("a url")
    }

    fn server(&self, partitions: usize) -> RedisSchedule {
        let server = self.command(partitions);
        server.announce_horizon();
        server
    }

    async fn started(&self, partitions: usize, reason: LoadReason) -> RedisSchedule {
        let server = self.server(partitions);
        let found = server.inspect(false).await.expect("not refused");
        assert_eq!(found, Inspection::ToLoad(reason), "{partitions}");
        assert!(server.finish_loading().await.expect("heard"));
        assert_eq!(
            server.inspect(false).await.expect("looked"),
            Inspection::Whole
        );
        server
    }

    /// The partitions of which Redis has a key.
    async fn partitions(&self) -> BTreeSet<usize> {
        let mut redis = connect(&self.url).await;
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg("*")
            .query_async(&mut redis)
            .await
            .expect("answered");
        let number = |key: &String| key.strip_prefix("{rb:")?.split_once('}')?.0.parse().ok();
        keys.iter().filter_map(number).collect()
    }
}

async fn put_all(schedule: &RedisSchedule, id: &str) {
    for number in 0..LANES {
        let (lane, id) = (format!("lane-{number}"), format!("{id}-{number}"));
        let registered = schedule.register(entry(&lane, &id, 0)).await;
        registered.expect("registered");
    }
}

async fn claim_all(schedule: &RedisSchedule) -> usize {
    let mut many = 0;
    loop {
        let claimed = schedule
            .claim(ClaimQuota::of(1_000))
            .await
            .expect("claimed");
        if claimed.leases.is_empty() {
            return many;
        }
        many += claimed.leases.len();
    }
}

async fn refused(schedule: &RedisSchedule, why: &str) {
    match schedule.inspect(false).await {
        Err(ScheduleError::Foreign(text)) => assert!(text.contains(why), "{text}"),
        other => panic!("{other:?}"),
    }
}

const NUMBERS: [(usize, usize); 6] = [(1, 4), (4, 1), (16, 4), (4, 16), (3, 2), (2, 256)];

#[tokio::test]
async fn an_instance_that_starts_with_another_number_while_none_is_at_work_empties_the_schedule() {
    for (before, after) in NUMBERS {
        let scene = Scene::new();
        let old = scene.started(before, LoadReason::New).await;
        put_all(&old, "old").await;
        // Some wait, one is leased, and something is known of lanes.
        let claimed = old.claim(ClaimQuota::of(1)).await.expect("claimed");
        assert_eq!(claimed.leases.len(), 1);
        old.deregister().await;
        let new = scene.started(after, LoadReason::Resized).await;
        assert_eq!(new.counts().await.expect("counted").pending, 0, "{before}");
        let used = scene.partitions().await;
        assert!(used.iter().all(|number| *number < after), "{used:?}");
        put_all(&new, "new").await;
        assert_eq!(claim_all(&new).await, LANES, "{before} to {after}");
        // And back.
        new.deregister().await;
        let back = scene.started(before, LoadReason::Resized).await;
        put_all(&back, "back").await;
        assert_eq!(claim_all(&back).await, LANES, "{after} to {before}");
        // Another one with the same number changes nothing.
        let other = scene.server(before);
        assert_eq!(
            other.inspect(false).await.expect("looked"),
            Inspection::Whole
        );
    }
}

#[tokio::test]
async fn beside_an_instance_at_work_another_number_is_refused_and_changes_nothing() {
    for (before, after) in NUMBERS {
        let scene = Scene::new();
        let old = scene.started(before, LoadReason::New).await;
        put_all(&old, "old").await;
        let new = scene.server(after);
        // Killed, it counts as at work for a while.
        for after_ms in [0, ALIVE_MS - 1] {
            scene.clock.turn_to(START_MS + after_ms);
            refused(&new, "another server uses it").await;
            refused(&new, &format!("--partitions {before}, or stop all others")).await;
        }
        let used = scene.partitions().await;
        assert!(used.iter().all(|number| *number < before), "{used:?}");
        assert_eq!(old.inspect(false).await.expect("looked"), Inspection::Whole);
        assert_eq!(old.counts().await.expect("counted").pending, LANES as u64);
        assert_eq!(claim_all(&old).await, LANES);
    }
}

#[tokio::test]
async fn an_instance_that_hung_while_another_number_took_over_is_refused() {
    for (before, after) in NUMBERS {
        let scene = Scene::new();
        let hung = scene.started(before, LoadReason::New).await;
        put_all(&hung, "old").await;
        scene.clock.turn_to(START_MS + ALIVE_MS);
        let new = scene.started(after, LoadReason::Resized).await;
        put_all(&new, "new").await;
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
        // Started again, it is refused for another reason.
        refused(&scene.server(before), "another server uses it").await;
        assert_eq!(claim_all(&new).await, LANES, "{before} to {after}");
    }
}

#[tokio::test]
async fn of_two_instances_with_different_numbers_that_start_at_once_at_most_one_goes_on() {
    for (one, two) in [(1, 4), (4, 16), (16, 2)] {
        let scene = Scene::new();
        let old = scene.started(8, LoadReason::New).await;
        old.deregister().await;
        let (first, second) = (scene.server(one), scene.server(two));
        let (first_found, second_found) = tokio::join!(first.inspect(false), second.inspect(false));
        let gone_on = [&first_found, &second_found];
        let gone_on = gone_on.iter().filter(|found| found.is_ok()).count();
        assert!(gone_on <= 1, "{first_found:?} {second_found:?}");
        // Whichever it was, one that starts when both have ended makes it whole.
        first.deregister().await;
        second.deregister().await;
        scene.clock.turn_to(START_MS + ALIVE_MS);
        let third = scene.server(5);
        let found = third.inspect(false).await.expect("not refused");
        assert!(matches!(found, Inspection::ToLoad(_)), "{found:?}");
        assert!(third.finish_loading().await.expect("heard"));
        put_all(&third, "third").await;
        assert_eq!(claim_all(&third).await, LANES);
    }
}

#[tokio::test]
async fn what_was_begun_and_broken_off_is_done_by_the_next_one() {
    // The keys that a partition of the earlier number loses last, and how far the one that was killed had come.
    for (before, after) in [(4, 2), (2, 4)] {
        for replaced in 0..before.min(after) {
            let scene = Scene::new();
            let old = scene.started(before, LoadReason::New).await;
            put_all(&old, "old").await;
            old.deregister().await;
            // Partitions are replaced from the last one on; the killed one has not come to the first ones.
            let killed = scene.server(after);
            killed.inspect(false).await.expect("not refused");
            for number in 0..=replaced {
                let owner = format!("journal-1/{before}");
                let epoch = redis::Cmd::set(format!("{{rb:{number}}}:epoch"), &owner);
                command(&scene.url, &epoch).await;
                let meta = redis::Cmd::hset(format!("{{rb:{number}}}:meta"), "owner", &owner);
                command(&scene.url, &meta).await;
            }
            for number in 0..after {
                // It expires by the clock of Redis.
                command(
                    &scene.url,
                    &redis::Cmd::unlink(format!("{{rb:{number}}}:rebuild")),
                )
                .await;
            }
            scene.clock.turn_to(START_MS + ALIVE_MS);
            let next = scene.started(after, LoadReason::Resized).await;
            let used = scene.partitions().await;
            assert!(used.iter().all(|number| *number < after), "{used:?}");
            put_all(&next, "next").await;
            assert_eq!(claim_all(&next).await, LANES);
        }
    }
}

#[tokio::test]
async fn only_a_server_with_the_same_journal_replaces_the_data_of_another_number() {
    let scene = Scene::new();
    let old = scene.started(4, LoadReason::New).await;
    put_all(&old, "old").await;
    old.deregister().await;
    // A command that looks.
    refused(&scene.command(2), "start it with --partitions 4").await;
    for owner in ["journal-2", NO_JOURNAL] {
        let other = Scene {
            url: scene.url.clone(),
            clock: scene.clock.clone(),
            owner,
        };
        refused(&other.server(2), "belongs to journal journal-1").await;
    }
    let back = scene.server(4);
    assert_eq!(
        back.inspect(false).await.expect("looked"),
        Inspection::Whole
    );
    assert_eq!(claim_all(&back).await, LANES);
    // Without a journal, Redis has the only record.
    let scene = Scene {
        owner: NO_JOURNAL,
        ..Scene::new()
    };
    let old = scene.server(4);
    old.inspect(false).await.expect("not refused");
    old.deregister().await;
    refused(&scene.server(2), "start it with --partitions 4").await;
}
