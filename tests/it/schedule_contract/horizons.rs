//! Servers on one Redis whose horizons do not go together do not start beside each other.

use super::fixture::*;
use super::redis::{command, options};
use crate::support::redis::fresh_database;
use ringback::clock::ManualClock;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable as _};
use ringback::schedule::redis::{Options, RedisSchedule};
use ringback::schedule::window::Window;
use ringback::schedule::{Limits, ScheduleError};
use std::sync::Arc;
use std::time::Duration;

/// How long after its last claim an instance is taken to be alive, in milliseconds.
const ALIVE_MS: i64 = 30_000;
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
