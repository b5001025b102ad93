//! Checking a store that is in trouble, until it works again.
//!
//! Normally the results of real calls show the health of a store. A server that is not ready gets no
//! requests, so its calls stop. Then these checks find that the store works again. A healthy store is not
//! checked here.

use crate::health::{CallResult, Health, Store};
use crate::journal::{self, JournalMaintenance};
use crate::schedule::{self, Schedule};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Wait between two checks of a store that is in trouble.
const AGAIN: Duration = Duration::from_millis(250);
/// How often the health of a store that is not in trouble is reviewed, without a call to it: its calls may
/// be hanging.
const REVIEW: Duration = Duration::from_secs(1);

/// Checks the journal while it is in trouble, until `stop` is cancelled.
pub async fn watch_journal(
    health: Arc<Health>,
    journal: Arc<dyn JournalMaintenance>,
    stop: CancellationToken,
) {
    let check = async || journal::watched::checked(&journal.check().await);
    stop.run_until_cancelled(watch(&health, Store::Journal, check))
        .await;
}

/// Checks the schedule while it is in trouble, until `stop` is cancelled.
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
                () = tokio::time::sleep(REVIEW) => {}
            }
        }
        health.review();
    }
}
