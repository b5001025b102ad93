//! Keeping the journal and the schedule in step, and both from growing for ever.
//!
//! One file per duty: [`rebuild`] notices a schedule that lost its data and fills it, [`reconcile`]
//! mends within a minute what a crash left between the stores, `sweep` compares everything in the
//! background, and `prune` forgets what is old. What they share: [`difference`] says where the
//! stores disagree, [`mend`] does something about it, [`fill`] puts in everything that is pending.
//!
//! A duty takes the time as an argument and goes in steps of bounded size; here is the loop around
//! each, which says when. A step that fails is repeated, so no outage ends a duty.

pub mod audit;
mod beat;
pub mod difference;
pub mod error;
pub mod fill;
pub mod mend;
pub mod probe;
pub mod rebuild;
pub mod reconcile;

use crate::journal::Journal;
use crate::schedule::{Schedule, ScheduleError};
use beat::{Duty, rest};
use mend::Mended;
use rebuild::Keeper;
use reconcile::{Reconciler, Step};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Rest between two windows of reconciling. With what a window leaves out because it is too young,
/// and the time until another instance takes over from a dead one, this makes less than a minute.
const RECONCILE: Duration = Duration::from_secs(8);
/// Rest between two steps of one window: 500 notifications each.
const RECONCILE_STEP: Duration = Duration::from_millis(20);

/// A duty's name, and its work until it is stopped.
pub type Work = (&'static str, Pin<Box<dyn Future<Output = ()> + Send>>);

/// All that is to be kept up.
pub struct Upkeep {
    journal: Option<Arc<dyn Journal>>,
    schedule: Arc<dyn Schedule>,
    keeper: Keeper,
}

impl Upkeep {
    /// Takes a first look at the schedule, before anything is done with it.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if it belongs to another journal, or if a store is away.
    pub async fn begin(
        journal: Option<Arc<dyn Journal>>,
        schedule: Arc<dyn Schedule>,
    ) -> Result<Self, ScheduleError> {
        let mut keeper = Keeper::new(journal.clone(), schedule.clone());
        keeper.first_look().await?;
        Ok(Self {
            journal,
            schedule,
            keeper,
        })
    }

    /// The duties of this instance, each to be run until `stop` is cancelled. They may be cut short
    /// anywhere.
    #[must_use]
    pub fn duties(self, stop: &CancellationToken) -> Vec<Work> {
        let Self {
            journal,
            schedule,
            keeper,
        } = self;
        let whole = keeper.whole();
        let mut duties: Vec<Work> = Vec::new();
        if schedule.shared().is_some() {
            duties.push(("keeper", Box::pin(keeper.run(stop.clone()))));
        }
        if let Some(journal) = journal {
            let reconciling = reconcile(journal, schedule, whole);
            duties.push(("reconciler", until(stop.clone(), reconciling)));
        }
        duties
    }
}

fn until(
    stop: CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        stop.run_until_cancelled(work).await;
    })
}

/// Completes when nothing is missing from the schedule: while it is being filled, comparing would
/// only find what is on its way.
async fn until_whole(whole: &mut watch::Receiver<bool>) {
    // Fails only when the keeper is gone, and then nothing was lost.
    let _ = whole.wait_for(|whole| *whole).await;
}

async fn reconcile(
    journal: Arc<dyn Journal>,
    schedule: Arc<dyn Schedule>,
    mut whole: watch::Receiver<bool>,
) {
    let mut duty = Duty::new("reconcile");
    let mut reconciler = Reconciler::new(journal.clone(), schedule.clone());
    loop {
        until_whole(&mut whole).await;
        let step = match duty.is_ours(journal.as_ref()).await {
            Ok(true) => reconciler.step(schedule.clock().now_ms()).await.map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        match step {
            Ok(Some(Step::More)) => tokio::time::sleep(RECONCILE_STEP).await,
            Ok(Some(Step::Done(mended))) => {
                duty.content();
                report(mended);
                rest(RECONCILE).await;
            }
            Ok(None) => {
                duty.content();
                reconciler.start_over();
                rest(RECONCILE).await;
            }
            Err(error) => {
                duty.complain(&error);
                rest(RECONCILE).await;
            }
        }
    }
}

fn report(mended: Mended) {
    let Mended {
        restored,
        moved,
        removed,
        adopted,
    } = mended;
    if !mended.is_nothing() {
        tracing::warn!(
            restored,
            moved,
            removed,
            adopted,
            "the schedule was not where the journal stands; mended"
        );
    }
}
