//! Loading a schedule from more than one page of the journal, with a store that fails half-way.

use super::stage::Stage;
use crate::support::postgres::{connect, run};
use crate::support::redis::RedisServer;
use crate::support::within;
use ringback::maintenance::error::MaintenanceError;
use ringback::maintenance::recovery::load::{Loaded, Loader};
use ringback::schedule::Restored;

/// More than is read ahead, and a page that is not full.
const MANY: i64 = 10_500;
const EVERYTHING: Loaded = Loaded {
    read: 10_500,
    restored: Restored {
        missing: 10_500,
        moved: 0,
    },
};

/// Steps until the end or a failure.
async fn go_on(loader: &mut Loader<'_>) -> Result<(), MaintenanceError> {
    while loader.step().await? {}
    Ok(())
}

async fn pending(stage: &Stage) -> u64 {
    stage.schedule.counts().await.expect("counted").pending
}

#[tokio::test]
async fn a_journal_that_fails_half_way_is_gone_on_with() {
    let stage = Stage::postgres().await;
    stage.journal_many(MANY).await;
    let mut loader = Loader::new(stage.journal.clone(), stage.schedule.as_ref(), true);
    assert!(loader.step().await.expect("put in"));
    let mut beside = connect(stage.postgres.as_deref().expect("on PostgreSQL")).await;
    run(&mut beside, "ALTER TABLE payloads RENAME TO away").await;
    let failed = go_on(&mut loader).await;
    assert!(
        matches!(failed, Err(MaintenanceError::Journal(_))),
        "{failed:?}"
    );
    let so_far = loader.done().read;
    assert!((250..10_500).contains(&so_far), "{so_far}");
    assert_eq!(pending(&stage).await, so_far);
    run(&mut beside, "ALTER TABLE away RENAME TO payloads").await;
    go_on(&mut loader).await.expect("put in");
    assert_eq!(loader.done(), EVERYTHING, "nothing left out, nothing twice");
    assert_eq!(pending(&stage).await, EVERYTHING.read);
    for _ in 0..2 {
        assert!(!loader.step().await.expect("nothing"), "it is the end");
    }
    assert_eq!(loader.done(), EVERYTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_fails_half_way_is_gone_on_with() {
    // With "everysec", a Redis whose last flush is slow puts writes off, and would come back without what it has answered.
    let mut server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let stage = Stage::redis_at(server.url(0)).await;
    stage.journal_many(MANY).await;
    let mut loader = Loader::new(stage.journal.clone(), stage.schedule.as_ref(), true);
    assert!(loader.step().await.expect("put in"));
    server.kill();
    let failed = go_on(&mut loader).await;
    assert!(
        matches!(failed, Err(MaintenanceError::Schedule(_))),
        "{failed:?}"
    );
    let so_far = loader.done().read;
    server.start_again().await;
    let done = within("Redis to be back", async {
        while let Err(error) = go_on(&mut loader).await {
            assert!(error.may_pass(), "{error}");
        }
    });
    done.await;
    assert!(so_far < EVERYTHING.read);
    assert_eq!(loader.done().read, EVERYTHING.read);
    assert_eq!(pending(&stage).await, EVERYTHING.read);
}

#[tokio::test]
async fn a_step_that_was_dropped_is_made_again() {
    let stage = Stage::redis().await;
    stage.journal_many(MANY).await;
    let mut loader = Loader::new(stage.journal.clone(), stage.schedule.as_ref(), true);
    let (mut turns, mut dropped) = (0, 0);
    let everything = async {
        loop {
            // Dropped a little later each time, until one gets through.
            tokio::select! {
                biased;
                more = loader.step() => {
                    if !more.expect("put in") {
                        return;
                    }
                    turns = 0;
                }
                () = yields(turns) => {
                    turns = 2 * turns + 1;
                    dropped += 1;
                }
            }
        }
    };
    within("everything to be put in", everything).await;
    assert!(dropped > 5, "{dropped} were dropped");
    assert_eq!(loader.done().read, EVERYTHING.read);
    assert_eq!(pending(&stage).await, EVERYTHING.read);
}

async fn yields(many: usize) {
    for _ in 0..many {
        tokio::task::yield_now().await;
    }
}
