//! An instance that starts with another number of partitions than the schedule has.

use super::fixture::*;
use super::redis::{command, options};
use crate::support::proxy::{Line, Proxy};
use crate::support::redis::{RedisServer, connect, fresh_database};
use ringback::clock::ManualClock;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable as _};
use ringback::schedule::redis::{NO_JOURNAL, Options, RedisSchedule};
use ringback::schedule::{ClaimQuota, ScheduleError, ScheduleLeases as _, ScheduleReads as _};
use std::collections::BTreeSet;
use std::future::Future;
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

    /// The same one over a line of its own.
    fn over(&self, line: &str) -> Self {
        Self {
            url: line.into(),
            clock: self.clock.clone(),
            owner: self.owner,
        }
    }

    /// The partitions of which Redis has more than the owner.
    async fn partitions(&self) -> BTreeSet<usize> {
        let mut redis = connect(&self.url).await;
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg("*")
            .query_async(&mut redis)
            .await
            .expect("answered");
        let keys = keys.iter().filter(|key| !key.ends_with(":epoch"));
        let number = |key: &String| key.strip_prefix("{rb:")?.split_once('}')?.0.parse().ok();
        keys.filter_map(number).collect()
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
        // The attempt may be in flight.
        scene.clock.turn_to(START_MS + LEASE_MS - 1);
        refused(&scene.server(after), "another server uses it").await;
        scene.clock.turn_to(START_MS + LEASE_MS + 1);
        let new = scene.started(after, LoadReason::Resized).await;
        assert_eq!(new.counts().await.expect("counted").pending, 0, "{before}");
        let used = scene.partitions().await;
        assert!(used.iter().all(|number| *number < after), "{used:?}");
        put_all(&new, "new").await;
        assert_eq!(claim_all(&new).await, LANES, "{before} to {after}");
        // And back.
        new.deregister().await;
        scene.clock.turn_to(START_MS + 2 * LEASE_MS + 2);
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
                matches!(inspected, Ok(Inspection::Replaced)),
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

/// What it knew before is lost in every partition, also in those that are new: what may be in flight counts.
#[tokio::test]
async fn every_partition_counts_as_lost_after_the_number_was_changed() {
    let scene = Scene::new();
    let old = scene.started(2, LoadReason::New).await;
    put_all(&old, "old").await;
    old.deregister().await;
    let _new = scene.started(8, LoadReason::Resized).await;
    for number in 0..8 {
        let lost = redis::Cmd::hexists(format!("{{rb:{number}}}:meta"), "lost");
        let lost: bool = lost
            .query_async(&mut connect(&scene.url).await)
            .await
            .expect("answered");
        assert!(lost, "{number}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_keeps_no_number_for_ever() {
    let scene = Scene::new();
    scene.clock.turn_to(START_MS + 100 * ALIVE_MS);
    let killed = scene.started(4, LoadReason::New).await;
    put_all(&killed, "old").await;
    assert_eq!(claim_all(&killed).await, LANES);
    drop(killed);
    scene.clock.set_back_to(START_MS);
    refused(&scene.server(2), "another server uses it").await;
    scene.clock.turn_to(START_MS + ALIVE_MS - 1);
    refused(&scene.server(2), "another server uses it").await;
    scene.clock.turn_to(START_MS + ALIVE_MS);
    let new = scene.started(2, LoadReason::Resized).await;
    put_all(&new, "new").await;
    assert_eq!(claim_all(&new).await, LANES);
}

#[tokio::test]
async fn a_full_redis_is_emptied_for_another_number() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let scene = Scene::new().over(&server.url(0));
    for (before, after) in [(1, 4), (4, 1)] {
        command(&scene.url, &redis::cmd("FLUSHDB")).await;
        let old = scene.started(before, LoadReason::New).await;
        put_all(&old, "old").await;
        old.deregister().await;
        let full = |bytes: usize| {
            let mut full = redis::cmd("CONFIG");
            full.arg("SET").arg("maxmemory").arg(bytes);
            full
        };
        command(&scene.url, &full(1)).await;
        let new = scene.server(after);
        let found = new.inspect(false).await.expect("not refused");
        assert_eq!(found, Inspection::ToLoad(LoadReason::Resized), "{before}");
        command(&scene.url, &full(0)).await;
        put_all(&new, "new").await;
        assert!(new.finish_loading().await.expect("heard"));
        assert_eq!(claim_all(&new).await, LANES);
    }
}

/// Another number, and what the disturbed server is started with.
const DISTURBED: [(usize, usize); 2] = [(3, 1), (1, 3)];

/// A server that is started with another number, over a line that holds back one of its calls.
struct Disturbed {
    scene: Scene,
    old: RedisSchedule,
    line: Proxy,
    server: RedisSchedule,
}

impl Disturbed {
    /// The server of before counts as one that has ended.
    async fn new(before: usize, after: usize) -> Self {
        let scene = Scene::new();
        let old = scene.started(before, LoadReason::New).await;
        put_all(&old, "old").await;
        scene.clock.turn_to(START_MS + ALIVE_MS);
        let (line, url) = Proxy::before(&scene.url);
        let server = scene.over(&url).server(after);
        Self {
            scene,
            old,
            line,
            server,
        }
    }

    /// Before which calls it is held: all but most of those that look at partitions that there are not. These are sent
    /// together, so another time there may be one or two fewer, and then nothing is held before the last ones.
    async fn calls(before: usize, after: usize) -> Vec<usize> {
        let undisturbed = Self::new(before, after).await;
        undisturbed.server.inspect(false).await.expect("allowed");
        let many = undisturbed.line.requests();
        assert!(many > 256 + 20, "{many}");
        let is_of_others = |number: &usize| {
            (8..many - 266).contains(number) || (many - 258..many - 26).contains(number)
        };
        (0..many)
            .filter(|number| !is_of_others(number) || number % 61 == 0)
            .collect()
    }

    /// Lets it go on when this was done before one of its calls. Returns what came of both; `None` if it has fewer calls.
    async fn held_while<T>(
        &self,
        number: usize,
        done: impl Future<Output = T>,
    ) -> Option<(Result<Inspection, ScheduleError>, T)> {
        self.line.hold_from(number);
        let inspecting = self.server.inspect(false);
        tokio::pin!(inspecting);
        tokio::select! {
            () = self.line.holds() => {}
            _ = &mut inspecting => {
                assert!(self.line.requests() <= number);
                return None;
            }
        }
        let meanwhile = done.await;
        let (found, ()) = tokio::join!(inspecting, self.line.set(Line::Passes));
        Some((found, meanwhile))
    }
}

/// Makes the schedule whole for a server, as if from a journal, and says that it is at work.
async fn goes_on(server: &RedisSchedule) -> Result<(), ScheduleError> {
    for _ in 0..5 {
        match server.inspect(false).await? {
            Inspection::Replaced => {
                return Err(ScheduleError::Foreign("it was replaced".to_string()));
            }
            Inspection::Whole => return server.heartbeat().await,
            Inspection::ToLoad(_) => {
                put_all(server, "old").await;
                let mut cursor = None;
                loop {
                    let part = server.reindex(cursor.as_deref(), 1_000).await?;
                    let Some(next) = part.next else { break };
                    cursor = Some(next);
                }
                server.finish_loading().await?;
            }
            // Another one loads it.
            Inspection::Loading => return server.heartbeat().await,
            found => panic!("{found:?}"),
        }
    }
    panic!("it is never whole")
}

async fn has_all(server: &RedisSchedule, at: &str) {
    goes_on(server).await.expect("at work");
    let pending = server.counts().await.expect("counted").pending;
    assert_eq!(pending, LANES as u64, "{at}");
}

/// Of two servers with different numbers, one has gone on, and the other is refused, now and later.
async fn one_has_gone_on(
    (one, one_goes_on): (&RedisSchedule, bool),
    (other, other_goes_on): (&RedisSchedule, bool),
    at: &str,
) {
    assert_ne!(one_goes_on, other_goes_on, "{at}");
    let (going, refused) = if one_goes_on {
        (one, other)
    } else {
        (other, one)
    };
    has_all(going, at).await;
    for _ in 0..2 {
        let found = refused.inspect(false).await;
        assert!(
            matches!(
                found,
                Ok(Inspection::Replaced) | Err(ScheduleError::Foreign(_))
            ),
            "{at}: {found:?}"
        );
    }
    has_all(going, at).await;
    assert_eq!(claim_all(going).await, LANES, "{at}");
}

#[tokio::test]
async fn one_that_is_killed_before_any_call_leaves_what_the_next_one_completes() {
    for (before, after) in DISTURBED {
        for number in Disturbed::calls(before, after).await {
            for next in [after, before, 2] {
                let at = format!("{before} to {after}, then {next}, killed at {number}");
                let Disturbed {
                    scene,
                    line,
                    server,
                    ..
                } = Disturbed::new(before, after).await;
                line.hold_from(number);
                let is_held = tokio::select! {
                    () = line.holds() => true,
                    _ = server.inspect(false) => false,
                };
                if !is_held {
                    assert!(line.requests() <= number, "{at}");
                    continue;
                }
                drop((server, line));
                scene.clock.turn_to(START_MS + 2 * ALIVE_MS);
                // The lock of one that loads runs out by the clock of Redis.
                for number in 0..3 {
                    let unlink = redis::Cmd::unlink(format!("{{rb:{number}}}:rebuild"));
                    command(&scene.url, &unlink).await;
                }
                let next = scene.server(next);
                has_all(&next, &at).await;
                assert_eq!(claim_all(&next).await, LANES, "{at}");
            }
        }
    }
}

#[tokio::test]
async fn one_whose_reply_to_any_call_is_lost_asks_again_or_is_started_again() {
    for (before, after) in DISTURBED {
        for number in Disturbed::calls(before, after).await {
            let at = format!("{before} to {after}, no reply to {number}");
            let disturbed = Disturbed::new(before, after).await;
            disturbed.line.cut_at(number);
            match goes_on(&disturbed.server).await {
                Ok(()) => {}
                Err(ScheduleError::Unavailable(_)) => {
                    goes_on(&disturbed.server).await.expect("asks again")
                }
                Err(error) => panic!("{at}: {error:?}"),
            }
            has_all(&disturbed.server, &at).await;
            assert_eq!(claim_all(&disturbed.server).await, LANES, "{at}");
        }
    }
}

#[tokio::test]
async fn one_that_hung_and_goes_on_between_two_calls_is_at_work_or_is_refused() {
    for (before, after) in DISTURBED {
        for number in Disturbed::calls(before, after).await {
            let at = format!("{before} to {after}, at {number}");
            let disturbed = Disturbed::new(before, after).await;
            let old = &disturbed.old;
            let goes_on = async {
                old.heartbeat().await.expect("answered");
                for number in 0..LANES {
                    let (lane, id) = (format!("lane-{number}"), format!("old-{number}"));
                    match old.register(entry(&lane, &id, 0)).await {
                        Ok(_) => {}
                        Err(ScheduleError::Rebuilding) => return goes_on(old).await.is_ok(),
                        Err(error) => panic!("{error:?}"),
                    }
                }
                true
            };
            let Some((found, old_goes_on)) = disturbed.held_while(number, goes_on).await else {
                continue;
            };
            let goes_on = matches!(&found, Ok(found) if *found != Inspection::Replaced);
            let server = (&disturbed.server, goes_on);
            one_has_gone_on((old, old_goes_on), server, &at).await;
        }
    }
}

#[tokio::test]
async fn one_with_any_number_that_starts_between_two_calls_goes_on_alone() {
    for (before, after) in DISTURBED {
        for number in Disturbed::calls(before, after).await {
            for other in [before, 2] {
                let at = format!("{before} to {after}, {other} starts at {number}");
                let disturbed = Disturbed::new(before, after).await;
                let other = disturbed.scene.server(other);
                let starts = async { goes_on(&other).await.is_ok() };
                let Some((found, is_started)) = disturbed.held_while(number, starts).await else {
                    continue;
                };
                let goes_on = matches!(&found, Ok(found) if *found != Inspection::Replaced);
                let server = (&disturbed.server, goes_on);
                one_has_gone_on((&other, is_started), server, &at).await;
            }
        }
    }
}

#[tokio::test]
async fn one_with_the_same_number_that_starts_between_two_calls_goes_on_beside_it() {
    for (before, after) in DISTURBED {
        for number in Disturbed::calls(before, after).await {
            let at = format!("{before} to {after}, at {number}");
            let disturbed = Disturbed::new(before, after).await;
            let other = disturbed.scene.server(after);
            let starts = async { goes_on(&other).await };
            let Some((found, started)) = disturbed.held_while(number, starts).await else {
                continue;
            };
            started.expect("allowed");
            found.expect("allowed");
            // Nothing was removed of what the other one has put in, if it had to.
            let pending = other.counts().await.expect("counted").pending;
            let is_loaded = other.inspect(false).await.expect("looked") == Inspection::Whole;
            assert!(!is_loaded || pending == LANES as u64, "{at}: {pending}");
            goes_on(&disturbed.server).await.expect("allowed");
            for server in [&other, &disturbed.server] {
                has_all(server, &at).await;
            }
            assert_eq!(claim_all(&other).await, LANES, "{at}");
        }
    }
}
