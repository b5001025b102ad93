//! Keeping the journal and the schedule in step, and both from growing for ever.
//!
//! One file per duty: [`recovery`] notices a schedule that lost its data and loads it, [`reconcile`]
//! repairs within a minute what a crash left between the stores, [`sweep`] compares everything in the
//! background, and [`prune`] forgets what is old. [`audit`] only looks. What they share: [`scan`] goes
//! through everything, [`difference`] says where the stores disagree, [`repair`] does something about
//! it, [`recovery::load`] puts in everything that is pending.
//!
//! A duty takes the time as an argument; [`duty`] says when it runs, and on which instance.

pub mod audit;
pub mod difference;
pub mod duty;
pub mod error;
pub mod probe;
pub mod prune;
pub mod reconcile;
pub mod recovery;
pub mod repair;
pub mod scan;
pub mod sweep;

use crate::journal::Journal;
use crate::schedule::{Schedule, ScheduleError};
use duty::run;
use prune::{Pruner, Retention};
use reconcile::Reconciler;
use recovery::Recovery;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use sweep::Sweep;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// For how long after it was accepted a registration may be on its way from the journal to the schedule,
/// in milliseconds: longer than any call to either takes until it is given up. What is younger is not
/// compared.
pub const REGISTRATION_MS: i64 = 12_000;

/// A duty's name, and the future that runs it until the server stops.
pub type DutyTask = (&'static str, Pin<Box<dyn Future<Output = ()> + Send>>);

/// The duties of one server.
pub struct Maintenance {
    journal: Option<Arc<dyn Journal>>,
    schedule: Arc<dyn Schedule>,
    retention: Retention,
    recovery: Recovery,
}

impl Maintenance {
    /// Takes a first look at the schedule, before anything is done with it.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if it belongs to another journal, or if a store is away.
    pub async fn begin(
        journal: Option<Arc<dyn Journal>>,
        schedule: Arc<dyn Schedule>,
        retention: Retention,
    ) -> Result<Self, ScheduleError> {
        let mut recovery = Recovery::new(journal.clone(), schedule.clone());
        recovery.inspect_first().await?;
        Ok(Self {
            journal,
            schedule,
            retention,
            recovery,
        })
    }

    /// The duties of this instance, each to be run until `stop` is cancelled. They may be cut short
    /// anywhere.
    #[must_use]
    pub fn duties(self, stop: &CancellationToken) -> Vec<DutyTask> {
        let Self {
            journal,
            schedule,
            retention,
            recovery,
        } = self;
        let whole = recovery.whole();
        let mut duties: Vec<DutyTask> = Vec::new();
        if schedule.recoverable().is_some() {
            duties.push(("recovery", Box::pin(recovery.run(stop.clone()))));
        }
        if let Some(journal) = journal {
            // While the schedule is being loaded, comparing would only find what is on its way.
            let clock = schedule.clock();
            let duty = Reconciler::new(journal.clone(), schedule.clone());
            let work = run(duty, journal.clone(), clock.clone(), whole.clone());
            duties.push(("reconciler", until(stop.clone(), work)));
            let duty = Sweep::new(journal.clone(), schedule);
            let work = run(duty, journal.clone(), clock.clone(), whole);
            duties.push(("sweep", until(stop.clone(), work)));
            let (_, always) = watch::channel(true);
            let duty = Pruner::new(journal.clone(), retention);
            let work = run(duty, journal, clock, always);
            duties.push(("pruner", until(stop.clone(), work)));
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
