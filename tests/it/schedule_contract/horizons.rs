//! Servers on one Redis whose horizons do not go together do not start beside each other, and one without a horizon notes
//! nothing as loaded that others may have left out.

use super::fixture::*;
use super::redis::{command, options};
use crate::support::redis::fresh_database;
use ringback::clock::ManualClock;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable as _};
use ringback::schedule::redis::{Options, RedisSchedule};
use ringback::schedule::window::{LoadedWindow, Window};
use ringback::schedule::{Limits, ScheduleError, ScheduleMaintenance as _};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long after its last claim an instance is taken to be alive, in milliseconds.
const ALIVE_MS: i64 = 30_000;
/// How long after it was last known to be at work a server may have left something out, in milliseconds.
const LEAVES_FOR_MS: i64 = 60_000;
const MINUTE_MS: i64 = 60_000;
const FOREVER: u64 = 0;

struct Scene {
    url: String,
    clock: ManualClock,
}

impl Scene {
    fn new() -> Self {
        Self {
            url: fresh_database(),
            clock: ManualClock::at(START_MS),
        }
    }

    /// What a command opens: it announces nothing.
    fn command(&self, minutes: u64) -> RedisSchedule {
        let window = match minutes {
            FOREVER => Window::WHOLE,
            minutes => Window::of(Duration::from_secs(60 * minutes)),
        };
        let options = Options {
            owner: "journal-1".into(),
            partitions: 2,
            ..options(self.url.clone(), Limits { window, ..LIMITS })
        };
        RedisSchedule::open(&options, Arc::new(self.clock.clone())).expect("a url")
    }

    fn server(&self, minutes: u64) -> RedisSchedule {
        let server = self.command(minutes);
        server.announce_horizon();
        server
    }

    async fn started(&self, minutes: u64) -> RedisSchedule {
        let server = self.server(minutes);
        start(&server).await;
        server
    }
}

async fn start(server: &RedisSchedule) {
    if let Inspection::ToLoad(reason) = server.inspect(false).await.expect("not refused") {
        assert!(matches!(reason, LoadReason::New | LoadReason::Lost));
        assert!(server.finish_loading().await.expect("heard"));
    }
}

async fn refused(server: &RedisSchedule, text: &str) {
    match server.inspect(false).await {
        Err(ScheduleError::Foreign(why)) => assert!(why.contains(text), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn horizons_less_than_twice_each_other_go_together() {
    for (there, here, goes) in [
        (60, 60, true),
        (60, 119, true),
        (119, 60, true),
        (60, 120, false),
        (120, 60, false),
        // Servers that leave nothing out may still be there when the first one with a horizon starts.
        (FOREVER, 60, true),
        (FOREVER, FOREVER, true),
        // The other way round, one that starts would note that everything is in the schedule.
        (60, FOREVER, false),
    ] {
        let scene = Scene::new();
        let _there = scene.started(there).await;
        let server = scene.server(here);
        match goes {
            true => start(&server).await,
            false => refused(&server, "--horizon").await,
        }
    }
}

#[tokio::test]
async fn what_is_refused_says_both_horizons() {
    let scene = Scene::new();
    let _there = scene.started(60).await;
    refused(
        &scene.server(150),
        "--horizon 1h, and this one has --horizon 2h30m",
    )
    .await;
    refused(&scene.server(FOREVER), "--horizon forever").await;
}

#[tokio::test]
async fn servers_that_have_stopped_do_not_count() {
    let scene = Scene::new();
    let stopped = scene.started(60).await;
    stopped.deregister().await;
    let killed = scene.started(150).await;
    scene.clock.advance(ALIVE_MS - 1);
    refused(&scene.server(60), "--horizon 2h30m").await;
    scene.clock.advance(1);
    let server = scene.started(60).await;
    drop((killed, server));
}

#[tokio::test]
async fn commands_are_not_refused_and_do_not_count() {
    let scene = Scene::new();
    start(&scene.command(600)).await;
    let _server = scene.started(60).await;
    start(&scene.command(600)).await;
    start(&scene.command(FOREVER)).await;
}

/// A server at work is never refused for that.
#[tokio::test]
async fn a_loss_of_data_refuses_nobody_who_is_at_work() {
    let scene = Scene::new();
    let whole = scene.started(FOREVER).await;
    let windowed = scene.started(60).await;
    command(&scene.url, &::redis::cmd("FLUSHDB")).await;
    start(&windowed).await;
    start(&whole).await;
    // Both are known again.
    refused(&scene.server(FOREVER), "--horizon 1h").await;
    refused(&scene.server(150), "--horizon 1h").await;
}

async fn loaded_until(server: &RedisSchedule) -> Option<i64> {
    let noted = server.loaded_until(&BTreeSet::new()).await;
    noted.expect("read")
}

/// Notes that everything was loaded; says up to which due time that was noted.
async fn note_everything(server: &RedisSchedule, began_ms: i64) -> i64 {
    let loaded = LoadedWindow {
        began_ms,
        until_ms: i64::MAX,
    };
    let noted = server.set_loaded_until(loaded, &BTreeSet::new()).await;
    let noted_ms = noted.expect("noted");
    assert_eq!(loaded_until(server).await, Some(noted_ms));
    noted_ms
}

#[tokio::test]
async fn what_may_have_been_left_out_is_not_noted_as_loaded() {
    let scene = Scene::new();
    let whole = scene.started(FOREVER).await;
    assert_eq!(note_everything(&whole, START_MS).await, i64::MAX);
    let windowed = scene.started(60).await;
    let half_ms = 30 * MINUTE_MS;
    assert_eq!(loaded_until(&whole).await, Some(START_MS + half_ms));
    for began_ms in [START_MS - 1, START_MS, START_MS + LEAVES_FOR_MS] {
        let noted = note_everything(&whole, began_ms).await;
        assert_eq!(noted, began_ms + half_ms);
    }
    let later_ms = START_MS + LEAVES_FOR_MS + 1;
    assert_eq!(note_everything(&whole, later_ms).await, i64::MAX);
    // By its heartbeat it may leave something out again. Once it has stopped, that is not forgotten.
    scene.clock.advance(MINUTE_MS);
    windowed.heartbeat().await.expect("heard");
    windowed.deregister().await;
    let noted = note_everything(&whole, later_ms).await;
    assert_eq!(noted, later_ms + half_ms);
    // Heartbeats of those without a horizon say nothing of that.
    scene.clock.advance(MINUTE_MS);
    whole.heartbeat().await.expect("heard");
    let later_ms = START_MS + MINUTE_MS + LEAVES_FOR_MS + 1;
    assert_eq!(note_everything(&whole, later_ms).await, i64::MAX);
}

/// What a server with a horizon notes is less than what others leave out, if their horizons go together.
#[tokio::test]
async fn what_a_server_with_a_horizon_has_loaded_is_noted_as_it_is() {
    let scene = Scene::new();
    let _one = scene.started(60).await;
    let other = scene.started(119).await;
    let loaded = LoadedWindow {
        began_ms: START_MS,
        until_ms: START_MS + 119 * MINUTE_MS / 2,
    };
    let noted = other.set_loaded_until(loaded, &BTreeSet::new()).await;
    assert_eq!(noted.expect("noted"), loaded.until_ms);
    assert_eq!(loaded_until(&other).await, Some(loaded.until_ms));
}

/// Those who load go on from there, and do not read what is due now: some of it may be on its way from the journal.
#[tokio::test]
async fn everything_is_here_when_the_first_server_with_a_horizon_starts() {
    let scene = Scene::new();
    let whole = scene.started(FOREVER).await;
    // Nobody has noted anything.
    assert_eq!(loaded_until(&whole).await, Some(i64::MAX));
    let windowed = scene.started(60).await;
    for server in [&whole, &windowed] {
        let noted = loaded_until(server).await;
        assert_eq!(noted, Some(START_MS + 30 * MINUTE_MS));
    }
}

/// Until the recovery notes what it has loaded, nobody loads the window beside it.
#[tokio::test]
async fn what_is_here_is_not_known_while_everything_is_loaded() {
    let scene = Scene::new();
    let whole = scene.server(FOREVER);
    let found = whole.inspect(false).await.expect("not refused");
    assert_eq!(found, Inspection::ToLoad(LoadReason::New));
    let windowed = scene.server(60);
    let found = windowed.inspect(false).await.expect("not refused");
    assert_eq!(found, Inspection::Loading);
    for server in [&whole, &windowed] {
        assert_eq!(loaded_until(server).await, None);
    }
}
