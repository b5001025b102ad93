//! When a duty runs, and on which instance.
//!
//! A duty runs again and again, each run in steps of bounded size. A step that fails is repeated, so no
//! outage ends a duty.
//!
//! Every instance keeps asking the journal for each duty; the one that gets it runs it for as long
//! as it asks again in time. If that instance dies, another takes over `DUTY_MS` later. The waits are
//! jittered, so that instances which were started together do not ask together.

use super::error::MaintenanceError;
use crate::clock::Clock;
use crate::journal::{JournalError, JournalMaintenance};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// For how long a duty is taken on, in milliseconds.
const DUTY_MS: i64 = 25_000;
/// A duty is kept by asking again after this time; well below `DUTY_MS`.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Wait after a step that failed.
const AGAIN: Duration = Duration::from_secs(5);
/// Wait before asking again for a duty that another instance has.
const ASK_LATER: Duration = Duration::from_secs(8);

/// What one step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<Outcome> {
    /// There is more to do.
    More,
    /// The run is over, with this outcome.
    Done(Outcome),
}

/// A duty, which runs again and again.
pub trait Duty: Send {
    /// What a run comes to.
    type Outcome: Send;

    /// Under which name the instances share it out.
    const NAME: &'static str;
    /// Wait between two steps of a run.
    const STEP_REST: Duration;

    /// Does one step of the run, or begins the next.
    fn step(
        &mut self,
        now_ms: i64,
    ) -> impl Future<Output = Result<Step<Self::Outcome>, MaintenanceError>> + Send;

    /// Forgets where it was: another instance has run it meanwhile.
    fn start_over(&mut self);

    /// Wait, about, after a run that took so long.
    fn rest(took: Duration) -> Duration;

    /// Says in the log what a run came to.
    fn report(outcome: Self::Outcome);
}

/// Runs a duty for ever, as far as it is this instance's, and only while `healthy` says that it can run
/// at all.
pub(super) async fn run<D: Duty>(
    mut duty: D,
    journal: Arc<dyn JournalMaintenance>,
    clock: Arc<dyn Clock>,
    mut healthy: watch::Receiver<bool>,
) {
    let mut held = HeldDuty::new(D::NAME);
    let mut begun: Option<Instant> = None;
    loop {
        // Fails only when nobody is left to say so.
        let _ = healthy.wait_for(|healthy| *healthy).await;
        match held.is_ours(journal.as_ref()).await {
            Ok(true) => {}
            Ok(false) => {
                held.note_success();
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
            Ok(Step::More) => tokio::time::sleep(D::STEP_REST).await,
            Ok(Step::Done(outcome)) => {
                held.note_success();
                D::report(outcome);
                begun = None;
                rest(D::rest(started.elapsed())).await;
            }
            Err(error) => {
                held.note_failure(&error);
                rest(AGAIN).await;
            }
        }
    }
}

/// One duty of this instance.
struct HeldDuty {
    name: &'static str,
    confirmed_at: Option<Instant>,
    /// Whether the log was told that it cannot run.
    logged: bool,
}

impl HeldDuty {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            confirmed_at: None,
            logged: false,
        }
    }

    /// Whether the duty is this instance's at the moment.
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

    /// Says in the log that the duty could not run; once, until it could.
    fn note_failure(&mut self, error: &MaintenanceError) {
        let duty = self.name;
        match (self.logged, error.may_pass()) {
            // The stores' own outages are told elsewhere.
            (false, true) | (true, _) => tracing::debug!(%error, duty, "maintenance waits"),
            (false, false) => {
                tracing::error!(%error, duty, "maintenance cannot go on; trying again")
            }
        }
        self.logged |= !error.may_pass();
    }

    /// It could run.
    fn note_success(&mut self) {
        self.logged = false;
    }
}

/// Waits for this long, a fifth more or less.
async fn rest(about: Duration) {
    tokio::time::sleep(jittered(about)).await;
}

fn jittered(about: Duration) -> Duration {
    // Keyed anew each time, so the hash of nothing is chance enough.
    let chance = RandomState::new().hash_one(()) % 401;
    about * (800 + u32::try_from(chance).unwrap_or(0)) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_differ_and_stay_near() {
        let rests: Vec<_> = (0..100)
            .map(|_| jittered(Duration::from_secs(10)))
            .collect();
        let (shortest, longest) = (rests.iter().min(), rests.iter().max());
        assert!(shortest >= Some(&Duration::from_secs(8)), "{rests:?}");
        assert!(longest <= Some(&Duration::from_secs(12)), "{rests:?}");
        assert_ne!(shortest, longest);
    }
}
