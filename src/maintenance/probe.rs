//! Checking a store that is in trouble, until it is well again.
//!
//! Real work tells how a store is doing as long as there is some. When it stops, because callers
//! stay away from a server that is not ready, this finds out that the store is back. A store that is
//! well is left alone.

use crate::health::{CallResult, Health, Store};
use crate::journal::{self, JournalMaintenance};
use crate::schedule::{self, Schedule};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Wait between two checks of a store that is in trouble.
const AGAIN: Duration = Duration::from_millis(250);
/// How often a store that is well is looked at, without being asked: its calls may not come back.
const LOOK: Duration = Duration::from_secs(1);

/// Looks after the journal until `stop` is cancelled.
pub async fn watch_journal(
    health: Arc<Health>,
    journal: Arc<dyn JournalMaintenance>,
    stop: CancellationToken,
) {
    let check = async || journal::watched::checked(&journal.check().await);
    stop.run_until_cancelled(watch(&health, Store::Journal, check))
        .await;
}

/// Looks after the schedule until `stop` is cancelled.
pub async fn watch_schedule(
    health: Arc<Health>,
    schedule: Arc<dyn Schedule>,
    stop: CancellationToken,
) {
    let check = async || schedule::watched::checked(&schedule.check().await);
    stop.run_until_cancelled(watch(&health, Store::Schedule, check))
        .await;
}

async fn watch<Checking>(health: &Health, store: Store, check: impl Fn() -> Checking)
where
    Checking: Future<Output = CallResult>,
{
    loop {
        if health.is_troubled(store) {
            health.check(store, check()).await;
            tokio::time::sleep(AGAIN).await;
        } else {
            tokio::select! {
                () = health.troubled(store) => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        health.review();
    }
}
