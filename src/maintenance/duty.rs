//! When a duty runs, and on which instance.
//!
//! A duty runs again and again, each run in steps of bounded size. A step that fails is repeated, so an
//! outage does not end a duty.
//!
//! Every instance asks the journal for each duty again and again. One instance gets the duty, and keeps it as
//! long as it asks again before `DUTY_MS` have passed. If it dies, another instance gets the duty after that
//! time. The waits are jittered, so that instances that were started together do not ask at the same time.
//!
//! An instance may reach the journal and not the schedule, or not all parts of it, while others reach both. It gives a duty
//! back that it cannot do for this reason, and does not ask for it until others have had their turn.

use super::error::MaintenanceError;
use crate::clock::{Clock, millis};
use crate::journal::{JournalError, JournalMaintenance};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// For how long an instance gets a duty, in milliseconds.
const DUTY_MS: i64 = 25_000;
/// An instance asks again for its duty after this time, which is well below `DUTY_MS`.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Wait after a step that failed.
const AGAIN: Duration = Duration::from_secs(5);
/// Wait before asking again for a duty that another instance has.
const ASK_LATER: Duration = Duration::from_secs(8);
/// After so many steps in a row that failed because of the schedule, or runs that left out parts of it, an instance gives its duty
/// back.
const MOST_FAILURES: u32 = 2;
/// Wait before asking again for a duty that was given back. In the meantime, every other instance asks for it.
const AFTER_GIVING_BACK: Duration = Duration::from_secs(15);

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<Outcome> {
    /// There is more to do.
    More,
    /// The run is over, with this outcome.
    Done(Outcome),
}

/// A duty, which runs again and again.
pub trait Duty: Send {
    /// The outcome of a run.
    type Outcome: Send;

    /// The name under which the journal gives the duty to one instance.
    const NAME: &'static str;
    /// The usual wait between two steps of a run.
    const STEP_REST: Duration;
    /// Whether the rest between two runs is over as soon as the schedule's clock has gone on by that time: the clock may
    /// have been set forward, or the machine suspended.
    const RESTS_BY_CLOCK: bool = false;

    /// Does one step of the run, or begins the next.
    fn step(
        &mut self,
        now_ms: i64,
    ) -> impl Future<Output = Result<Step<Self::Outcome>, MaintenanceError>> + Send;

    /// How long to wait before the next step of the run.
    fn step_rest(&self) -> Duration {
        Self::STEP_REST
    }

    /// Forgets its position: another instance has run the duty meanwhile.
    fn start_over(&mut self);

    /// Whether this instance could not reach a part of the schedule in the last run.
    fn lacks_parts(&self) -> bool {
        false
    }

    /// About how long to wait after a run that took `took`.
    fn rest(took: Duration) -> Duration;

    /// Logs the outcome of a run.
    fn report(outcome: Self::Outcome);
}

/// Runs a duty for ever, whenever this instance has it and `healthy` is true.
pub(super) async fn run<D: Duty>(
    mut duty: D,
    journal: Arc<dyn JournalMaintenance>,
    clock: Arc<dyn Clock>,
    mut healthy: watch::Receiver<bool>,
) {
    let mut held = HeldDuty::new(D::NAME);
    let mut begun: Option<Instant> = None;
    loop {
        if held.failed_steps.max(held.lacking_runs) >= MOST_FAILURES {
            held.give_back(journal.as_ref()).await;
            duty.start_over();
            begun = None;
            rest(AFTER_GIVING_BACK).await;
        }
        // Fails only if the sender was dropped; then the duty runs.
        let _ = healthy.wait_for(|healthy| *healthy).await;
        match held.is_ours(journal.as_ref()).await {
            Ok(true) => {}
            Ok(false) => {
                held.note_success();
                (held.failed_steps, held.lacking_runs) = (0, 0);
                duty.start_over();
                begun = None;
                rest(ASK_LATER).await;
                continue;
            }
            Err(error) => {
                held.note_failure(&error.into());
                rest(AGAIN).await;
                continue;
            }
        }
        let started = *begun.get_or_insert_with(Instant::now);
        match duty.step(clock.now_ms()).await {
            Ok(Step::More) => {
                held.failed_steps = 0;
                tokio::time::sleep(duty.step_rest()).await;
            }
            Ok(Step::Done(outcome)) => {
                held.note_success();
                held.failed_steps = 0;
                held.lacking_runs = match duty.lacks_parts() {
                    true => held.lacking_runs + 1,
                    false => 0,
                };
                D::report(outcome);
                begun = None;
                let about = jittered(D::rest(started.elapsed()));
                let until_ms = clock.now_ms().saturating_add(millis(about));
                tokio::select! {
                    () = tokio::time::sleep(about) => {}
                    () = clock.sleep_until(until_ms), if D::RESTS_BY_CLOCK => {}
                }
            }
            Err(error) => {
                held.note_failure(&error);
                if let MaintenanceError::Schedule(_) = error {
                    held.failed_steps += 1;
                }
                rest(AGAIN).await;
            }
        }
    }
}

/// One duty of this instance.
struct HeldDuty {
    name: &'static str,
    confirmed_at: Option<Instant>,
    /// Whether it was logged that the duty cannot run.
    logged: bool,
    /// How many steps in a row have failed because of the schedule.
    failed_steps: u32,
    /// How many runs in a row have left out parts of the schedule.
    lacking_runs: u32,
}

impl HeldDuty {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            confirmed_at: None,
            logged: false,
            failed_steps: 0,
            lacking_runs: 0,
        }
    }

    /// Whether this instance has the duty now.
    async fn is_ours(&mut self, journal: &dyn JournalMaintenance) -> Result<bool, JournalError> {
        if self
            .confirmed_at
            .is_some_and(|confirmed_at| confirmed_at.elapsed() < ASK_AGAIN)
        {
            return Ok(true);
        }
        let asked = Instant::now();
        let ours = journal.duty(self.name, DUTY_MS).await?;
        self.confirmed_at = ours.then_some(asked);
        Ok(ours)
    }

    /// Lets another instance have the duty. If that fails, another one gets it when this one has not asked for it for some time.
    async fn give_back(&mut self, journal: &dyn JournalMaintenance) {
        let duty = self.name;
        tracing::debug!(
            duty,
            "this server cannot do the maintenance duty `{duty}` now, and leaves it to the others"
        );
        (self.failed_steps, self.lacking_runs) = (0, 0);
        if self.confirmed_at.take().is_some() {
            let _ = journal.duty(duty, 0).await;
        }
    }

    /// Logs that the duty could not run. An error that does not pass is logged once, until a run
    /// ends or another instance has the duty.
    fn note_failure(&mut self, error: &MaintenanceError) {
        let duty = self.name;
        match (self.logged, error.may_pass()) {
            // `health` logs the outages of the stores.
            (false, true) | (true, _) => {
                tracing::debug!(%error, duty, "the maintenance duty `{duty}` failed; it is tried again in a few seconds")
            }
            (false, false) => {
                tracing::error!(%error, duty, "the maintenance duty `{duty}` failed; it is tried again in a few seconds")
            }
        }
        self.logged |= !error.may_pass();
    }

    /// Notes that a run has ended, or that another instance has the duty. The next error is logged again.
    fn note_success(&mut self) {
        self.logged = false;
    }
}

/// Waits for this time, up to a fifth longer or shorter.
async fn rest(about: Duration) {
    tokio::time::sleep(jittered(about)).await;
}

fn jittered(about: Duration) -> Duration {
    // Each `RandomState` has new random keys, so the hash of an empty value is random.
    let chance = RandomState::new().hash_one(()) % 401;
    about * (800 + u32::try_from(chance).unwrap_or(0)) / 1_000
}

#[cfg(test)]
mod tests;
