//! Carries jobs on: takes those that no server has, and does their steps at their rate.
//!
//! A server has a job for [`LEASE_MS`], and every step renews that. If the server dies, another one takes the job
//! when that time has passed. A server that stops gives its jobs back, and so does one that cannot reach the schedule.

use super::SharedService;
use super::keeping::{KEEP_EVERY, LEASE_MS, keep};
use super::run::{JobRun, JobTurn, SHORTEST_REST, is_set_back};
use super::step::CurrentJob;
use crate::domain::job::MOST_OPEN_JOBS;
use crate::journal::TakenJob;
use crate::service::Service;
use crate::service::timeouts::with_timeout;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often a server asks for jobs that no server has.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// For how long a server that gave a job back takes none. In the meantime, every other server asks for jobs.
const AFTER_GIVING_BACK: Duration = Duration::from_secs(5);
/// Maximum number of steps that one server does at once. A job that waits for its next step keeps no other one back, so
/// there is no maximum number of jobs: at a low rate, a job has a step in many minutes.
const MOST_STEPS: usize = 8;

impl Service {
    /// Carries jobs on until the stop. Does nothing without a journal, because nothing keeps jobs then.
    pub async fn run_jobs(self: SharedService, stop: CancellationToken) {
        let Some(journal) = self.journal() else {
            return;
        };
        let mut here = JoinSet::new();
        let steps = Arc::new(Semaphore::new(MOST_STEPS));
        let mut takes_from = Instant::now();
        loop {
            while here.len() < MOST_OPEN_JOBS && Instant::now() >= takes_from {
                match with_timeout(journal.take_job(LEASE_MS)).await {
                    Ok(Some(taken)) => {
                        let steps = steps.clone();
                        here.spawn(run_job(self.clone(), taken, steps, stop.clone()));
                    }
                    Ok(None) => break,
                    Err(error) => {
                        // `health` logs the outages of the stores.
                        tracing::debug!(%error, "this server could not ask the journal for jobs; it asks again");
                        break;
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.job_wake.notified() => {}
                () = tokio::time::sleep(ASK_EVERY) => {}
                Some(ended) = here.join_next(), if !here.is_empty() => {
                    if let Ok(RunEnd::LeftToOthers) = ended {
                        takes_from = Instant::now() + AFTER_GIVING_BACK;
                    }
                }
            }
        }
        while here.join_next().await.is_some() {}
    }
}

/// How the part of a job's way ended that this server went.
enum RunEnd {
    /// The job is over here, or this server stops.
    Over,
    /// This server could not go on, and another one may.
    LeftToOthers,
}

async fn run_job(
    service: SharedService,
    taken: TakenJob,
    steps: Arc<Semaphore>,
    stop: CancellationToken,
) -> RunEnd {
    tracing::info!(job = %taken.job.id, kind = %taken.job.kind, "this server carries on a job");
    let id = taken.job.id.clone();
    let mut run = JobRun::of(service.clone(), taken);
    let end = loop {
        let Some(permit) = wait_for_permit(&service, &run.current, &steps, &stop).await else {
            break RunEnd::Over;
        };
        let done = run.step().await;
        drop(permit);
        let turn = match done {
            Ok(turn) => turn,
            Err(error) => run.after_failure(&error).await,
        };
        match turn {
            JobTurn::Over => return RunEnd::Over,
            JobTurn::LeftToOthers => break RunEnd::LeftToOthers,
            JobTurn::StepAt(at) if wait(&service, &run.current, at, &stop).await => {}
            JobTurn::StepAt(_) => break RunEnd::Over,
        }
    };
    // Another server can take the job at once.
    if let Some(journal) = service.journal() {
        let _ = with_timeout(journal.keep_job(&id, run.current.fence, 0)).await;
    }
    end
}

/// Waits until a step may be done, and keeps the job meanwhile. `None` if the job is lost or the server stops.
async fn wait_for_permit<'steps>(
    service: &SharedService,
    current: &CurrentJob,
    steps: &'steps Semaphore,
    stop: &CancellationToken,
) -> Option<SemaphorePermit<'steps>> {
    loop {
        tokio::select! {
            biased;
            permit = steps.acquire() => return permit.ok(),
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(KEEP_EVERY) => {}
        }
        if !keep(service, current).await {
            return None;
        }
    }
}

/// Waits for the next step, and keeps the job meanwhile. `false` if the job is lost or the server stops.
async fn wait(
    service: &SharedService,
    current: &CurrentJob,
    until: Instant,
    stop: &CancellationToken,
) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        tokio::select! {
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(left.min(KEEP_EVERY).max(SHORTEST_REST)) => {}
        }
        // A job that is done slowly ends before the clock shows the former time again: its next step does that.
        if Instant::now() >= until || is_set_back(service, &current.job) {
            return true;
        }
        if !keep(service, current).await {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::call_rate::CallRate;
    use crate::domain::job::JobKind;
    use crate::journal::Actor;
    use crate::schedule::Limits;
    use crate::schedule::memory::MemorySchedule;

    #[tokio::test(start_paused = true)]
    async fn a_slow_job_has_its_next_step_at_once_when_the_clock_is_set_back() {
        let clock = ManualClock::at(10_000_000);
        let schedule = Arc::new(MemorySchedule::new(
            Arc::new(clock.clone()),
            Limits::OF_TESTS,
        ));
        let service = Arc::new(Service::new(None, schedule));
        let rate = CallRate::per_second(0.001).expect("a rate");
        let job = service.new_job(JobKind::Cancel, rate, &Actor::named("anna"), "");
        let current = CurrentJob {
            job: Arc::new(job),
            fence: 1,
        };
        let (until, stop) = (
            Instant::now() + Duration::from_secs(1_000),
            CancellationToken::new(),
        );
        // Without a journal, the job is lost when it is to be kept.
        assert!(!wait(&service, &current, until, &stop).await);
        clock.set_back_to(5_000_000);
        assert!(wait(&service, &current, until, &stop).await);
    }
}
