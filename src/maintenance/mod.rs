//! Keeping the journal and the schedule in agreement, and the journal from growing for ever.
//!
//! One file per duty: [`recovery`] notices a schedule that lost its data and loads it, [`reconcile`]
//! repairs within a minute what a crash left between the stores, [`sweep`] compares everything in the
//! background, [`window`] loads what is due soon (`who_loads` says on which servers, `leaving` makes room after that), and
//! [`prune`] forgets what is old. [`later_lanes`] completes an index after an upgrade. `lane_settings` brings changed
//! settings of lanes. `in_use` keeps the lock of the journal. [`activity`] writes the
//! counters for plots over time. [`audit`] only reads. They share these parts: [`scan`]
//! reads everything, [`difference`] finds where the stores disagree, [`repair`] repairs that, and
//! [`recovery::load`] puts everything that is pending and due soon into a schedule.
//!
//! The verbs:
//!
//! | verb | what is done |
//! |---|---|
//! | inspect | a server finds out whether Redis still holds everything |
//! | load | what is pending in the journal and missing in the schedule is put in |
//! | rebuild | what people call that whole work: inspect, load, remove what has ended |
//! | reindex | entries that Redis holds, but in no lane, are put back into their lanes |
//! | reconcile, sweep | differences are looked for: among what is new, among everything |
//! | repair | one difference is removed; a missing entry is *restored* |
//!
//! A duty takes the time as an argument; [`duty`] says when it runs, and on which instance.

pub mod activity;
pub mod audit;
pub mod difference;
pub mod duty;
pub mod error;
mod in_use;
mod lane_settings;
pub mod later_lanes;
mod leaving;
pub mod probe;
pub mod prune;
pub mod reconcile;
pub mod recovery;
pub mod repair;
pub mod scan;
pub mod sweep;
mod who_loads;
pub mod window;

use crate::journal::Journal;
use crate::schedule::{Schedule, ScheduleError};
use crate::settings_sync::{SettingsSyncError, bring_settings};
use crate::telemetry::metrics::Metrics;
use duty::run;
use later_lanes::LaterLanes;
use prune::{Pruner, Retention};
use reconcile::Reconciler;
use recovery::Recovery;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use sweep::Sweep;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// For how long after it was accepted a registration may be on its way from the journal to the schedule, in
/// milliseconds: longer than the timeouts of its calls to both stores. Younger notifications are not compared.
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
    /// Inspects the schedule for the first time, before it is used.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if it belongs to another journal; other errors if a store is unavailable.
    pub async fn begin(
        journal: Option<Arc<dyn Journal>>,
        schedule: Arc<dyn Schedule>,
        retention: Retention,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ScheduleError> {
        let mut recovery = Recovery::new(journal.clone(), schedule.clone(), metrics);
        recovery.inspect_first().await?;
        if let Some(journal) = &journal {
            bring_first(journal.as_ref(), schedule.as_ref()).await?;
        }
        Ok(Self {
            journal,
            schedule,
            retention,
            recovery,
        })
    }

    /// The duties of this instance. Each runs until `stop` is cancelled, and may be stopped at any point.
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
            let work = lane_settings::follow(journal.clone(), schedule.clone());
            duties.push(("lane settings", until(stop.clone(), work)));
            let work = in_use::keep(journal.clone());
            duties.push(("lock of the journal", until(stop.clone(), work)));
            // While the schedule is being loaded, a comparison would only find what is not loaded yet.
            let clock = schedule.clock();
            let duty = Reconciler::new(journal.clone(), schedule.clone());
            let work = run(duty, journal.clone(), clock.clone(), whole.clone());
            duties.push(("reconciler", until(stop.clone(), work)));
            let stores = (journal.clone(), schedule.clone());
            let work = who_loads::load(stores, clock.clone(), whole.clone());
            duties.push(("window loader", until(stop.clone(), work)));
            let duty = Sweep::new(journal.clone(), schedule);
            let work = run(duty, journal.clone(), clock.clone(), whole);
            duties.push(("sweep", until(stop.clone(), work)));
            let (_, always) = watch::channel(true);
            let duty = LaterLanes::new(journal.clone());
            let work = run(duty, journal.clone(), clock.clone(), always.clone());
            duties.push(("index of what is due later", until(stop.clone(), work)));
            let duty = Pruner::new(journal.clone(), retention);
            let work = run(duty, journal, clock, always);
            duties.push(("pruner", until(stop.clone(), work)));
        }
        duties
    }
}

/// Brings the settings of lanes before the first claim. A schedule in Redis may be emptied by another server now, or
/// be out of reach for a moment. Then nothing is claimed until the duty has brought them.
async fn bring_first(journal: &dyn Journal, schedule: &dyn Schedule) -> Result<(), ScheduleError> {
    match bring_settings(journal, schedule, None).await {
        Err(_) if schedule.recoverable().is_some() => Ok(()),
        Err(SettingsSyncError::Schedule(error)) => Err(error),
        Err(SettingsSyncError::Journal(error)) => {
            Err(ScheduleError::Unavailable(error.to_string()))
        }
        Ok(()) => Ok(()),
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
