//! Carries jobs on: takes those that no server has, and does their steps at their rate.
//!
//! A server has a job for [`LEASE_MS`], and every step renews that. If the server dies, another one takes the job
//! when that time has passed. A server that stops gives its jobs back.

use super::step::{CurrentJob, StepDone};
use super::{SharedService, selection_of};
use crate::domain::job::{BulkJob, JobSelection, MOST_OPEN_JOBS};
use crate::domain::key::Key;
use crate::journal::{Cursor, JobEnd, JobStep, Journal, JournalError, TakenJob};
use crate::service::timeouts::{with_long_timeout, with_timeout};
use crate::service::{Service, ServiceError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// For how long a server has a job, in milliseconds.
const LEASE_MS: i64 = 10_000;
/// A job that waits between two steps is kept this often.
const KEEP_EVERY: Duration = Duration::from_secs(3);
/// How often a server asks for jobs that no server has.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// Maximum number of steps that one server does at once. A job that waits for its next step keeps no other one back, so
/// there is no maximum number of jobs: at a low rate, a job has a step in many minutes.
const MOST_STEPS: usize = 8;
/// Maximum number of notifications of a step.
const MOST_IN_STEP: usize = 100;
/// How many keys are read from the journal at once.
const PAGE: usize = 1_000;
/// A step has the notifications of this part of a second.
const STEPS_PER_SECOND: f64 = 5.0;
/// Wait after a step that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// After so many failed steps in a row, other than for a store that is away, the next ones have one notification each.
const FAILURES_OF_MANY: u32 = 3;
/// After so many, the job fails.
const MOST_FAILURES: u32 = 6;
/// Shortest wait between two steps, also if nothing had to be done in the first one.
const SHORTEST_REST: Duration = Duration::from_millis(5);

impl Service {
    /// Carries jobs on until the stop. Does nothing without a journal, because nothing keeps jobs then.
    pub async fn run_jobs(self: SharedService, stop: CancellationToken) {
        let Some(journal) = self.journal() else {
            return;
        };
        let mut here = JoinSet::new();
        let steps = Arc::new(Semaphore::new(MOST_STEPS));
        loop {
            while here.len() < MOST_OPEN_JOBS {
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
                Some(_) = here.join_next(), if !here.is_empty() => {}
            }
        }
        while here.join_next().await.is_some() {}
    }
}

/// Whether this server goes on with a job.
enum JobTurn {
    /// The next step is due at this instant.
    StepAt(Instant),
    /// The job has ended, or another server has it, or it is paused.
    Over,
}

/// The part of a job's way that this server goes.
struct JobRun {
    service: SharedService,
    current: CurrentJob,
    selection: Option<JobSelection>,
    /// Keys that were read and not yet done, each with its place.
    ahead: VecDeque<(Key, Cursor)>,
    /// Where the next page begins; `None` at the beginning.
    read_to: Option<Cursor>,
    /// Whether all pages were read.
    is_read: bool,
    /// Whether `read_to` is where the job stands. It is not after a step that may have been kept or not.
    is_place_known: bool,
    /// Whether the destination was asked for a call now.
    has_called: bool,
    /// Maximum number of notifications of the next step. One after a step that cannot be written, so that the
    /// notification that cannot be written fails alone.
    most: usize,
    /// How many steps in a row have failed, other than for a store that is away.
    failures: u32,
}

async fn run_job(
    service: SharedService,
    taken: TakenJob,
    steps: Arc<Semaphore>,
    stop: CancellationToken,
) {
    let TakenJob { job, fence, place } = taken;
    tracing::info!(job = %job.id, kind = %job.kind, "this server carries on a job");
    let (id, most) = (job.id.clone(), step_size(&job));
    // Without a selection there is nothing to do, and the first step is the last one.
    let selection = selection_of(&job);
    let current = CurrentJob {
        job,
        fence,
        lease_ms: LEASE_MS,
    };
    let mut run = JobRun {
        service: service.clone(),
        is_read: selection.is_none(),
        selection,
        current,
        ahead: VecDeque::new(),
        read_to: place,
        is_place_known: true,
        has_called: place.is_some(),
        most,
        failures: 0,
    };
    loop {
        let Some(permit) = wait_for_permit(&service, &run.current, &steps, &stop).await else {
            break;
        };
        let done = run.step().await;
        drop(permit);
        let next = match done {
            Ok(JobTurn::Over) => return,
            Ok(JobTurn::StepAt(at)) => at,
            Err(error) => match run.after_failure(&error).await {
                JobTurn::Over => return,
                JobTurn::StepAt(at) => at,
            },
        };
        if !wait(&service, &run.current, next, &stop).await {
            break;
        }
    }
    // The server stops: another one can take the job at once.
    if let Some(journal) = service.journal() {
        let _ = with_timeout(journal.keep_job(&id, run.current.fence, 0)).await;
    }
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

/// Keeps a job. `false` if it is lost.
async fn keep(service: &SharedService, current: &CurrentJob) -> bool {
    let Some(journal) = service.journal() else {
        return false;
    };
    let keeping = journal.keep_job(&current.job.id, current.fence, LEASE_MS);
    !matches!(with_timeout(keeping).await, Ok(false))
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
        if Instant::now() >= until {
            return true;
        }
        if !keep(service, current).await {
            return false;
        }
    }
}

impl JobRun {
    /// Does the next step.
    async fn step(&mut self) -> Result<JobTurn, ServiceError> {
        let started = Instant::now();
        if !self.is_place_known && !self.find_place().await? {
            return Ok(JobTurn::Over);
        }
        self.read_ahead().await?;
        let many = self.most.min(self.ahead.len());
        let (keys, places): (Vec<Key>, Vec<Cursor>) = self.ahead.iter().take(many).cloned().unzip();
        let is_last = self.is_read && many == self.ahead.len();
        let end = is_last.then_some(JobEnd::Done);
        // Places that were read and have nothing of the job are passed too.
        let place = places.last().copied().or(self.read_to);
        let call_now = !self.has_called;
        let doing = (self.service).do_job_step(&self.current, keys, place, end, call_now);
        match doing.await {
            Ok(StepDone::Kept {
                changed,
                skipped,
                failed,
            }) => {
                self.ahead.drain(..many);
                self.has_called |= changed > 0;
                self.most = step_size(&self.current.job);
                self.failures = 0;
                self.service.metrics.job_step(changed, skipped, failed);
                if is_last {
                    tracing::info!(job = %self.current.job.id, "a job is done");
                    return Ok(JobTurn::Over);
                }
                let rest = rest_after(&self.current.job, changed).max(SHORTEST_REST);
                Ok(JobTurn::StepAt(started + rest))
            }
            Ok(StepDone::Again) => {
                self.is_place_known = false;
                Ok(JobTurn::StepAt(started + AGAIN))
            }
            Ok(StepDone::Lost) => Ok(JobTurn::Over),
            Err(ServiceError::Journal(JournalError::Corrupt(problem))) => {
                self.after_corrupt(many, problem).await
            }
            Err(error) => Err(error),
        }
    }

    /// A step failed, and may have been kept nevertheless. It is repeated. If that never succeeds, and not because a store
    /// is away, the job ends: whoever looks at it sees why.
    async fn after_failure(&mut self, error: &ServiceError) -> JobTurn {
        let id = &self.current.job.id;
        self.is_place_known = false;
        let again = JobTurn::StepAt(Instant::now() + AGAIN);
        if error.may_pass() {
            tracing::debug!(job = %id, %error, "a step of a job failed; it is tried again");
            return again;
        }
        self.failures += 1;
        if self.failures < MOST_FAILURES {
            if self.failures == 1 {
                tracing::warn!(job = %id, %error, "a step of a job failed; it is tried again a few times");
            }
            if self.failures >= FAILURES_OF_MANY {
                self.most = 1;
            }
            return again;
        }
        let step = JobStep {
            id: id.clone(),
            fence: self.current.fence,
            place: None,
            changes: Vec::new(),
            skipped: 0,
            failed: 0,
            end: Some(JobEnd::Failed(error.to_string())),
            at_ms: self.service.clock.now_ms(),
            lease_ms: LEASE_MS,
        };
        let Ok(journal) = journal_of(&self.service) else {
            return JobTurn::Over;
        };
        match with_timeout(journal.step_job(&step)).await {
            Ok(_) => {
                tracing::error!(job = %id, %error, "a job has failed, because its steps failed again and again");
                JobTurn::Over
            }
            // The journal cannot write this either, so the job stays as it is.
            Err(_) => again,
        }
    }

    /// A step cannot be written. If it had several notifications, the next steps have one each. The one that cannot be
    /// written is counted as failed, and the job goes on behind it.
    async fn after_corrupt(
        &mut self,
        many: usize,
        problem: String,
    ) -> Result<JobTurn, ServiceError> {
        if many > 1 {
            self.most = 1;
            return Ok(JobTurn::StepAt(Instant::now()));
        }
        let journal = journal_of(&self.service)?;
        let alone = self.ahead.front().cloned();
        let end = match (&alone, self.is_read && self.ahead.len() <= 1) {
            (None, _) => Some(JobEnd::Failed(problem.clone())),
            (Some(_), true) => Some(JobEnd::Done),
            (Some(_), false) => None,
        };
        let is_over = end.is_some();
        let step = JobStep {
            id: self.current.job.id.clone(),
            fence: self.current.fence,
            place: alone.as_ref().map(|(_, place)| *place),
            changes: Vec::new(),
            skipped: 0,
            failed: u64::from(alone.is_some()),
            end,
            at_ms: self.service.clock.now_ms(),
            lease_ms: LEASE_MS,
        };
        tracing::error!(job = %step.id, problem, "the journal cannot write a step of a job; the job goes on without it");
        with_timeout(journal.step_job(&step)).await?;
        self.ahead.pop_front();
        Ok(match is_over {
            true => JobTurn::Over,
            false => JobTurn::StepAt(Instant::now()),
        })
    }

    /// Reads the next page, if everything that was read is done.
    async fn read_ahead(&mut self) -> Result<(), ServiceError> {
        if self.is_read || !self.ahead.is_empty() {
            return Ok(());
        }
        let Some(selection) = &self.selection else {
            self.is_read = true;
            return Ok(());
        };
        let journal = journal_of(&self.service)?;
        let reading = journal.job_page(selection, self.read_to, PAGE);
        let page = with_long_timeout(reading).await?;
        self.ahead = page.found.into();
        self.is_read = page.next.is_none();
        self.read_to = page.next.or(self.read_to);
        Ok(())
    }

    /// Reads where the job stands, after a step of which it is not known whether it was kept. That step is refused from
    /// now on if it was not. `false` if this server does not have the job any more.
    async fn find_place(&mut self) -> Result<bool, ServiceError> {
        let journal = journal_of(&self.service)?;
        let (id, fence) = (&self.current.job.id, self.current.fence);
        let retaking = journal.retake_job(id, fence, LEASE_MS);
        let Some(taken) = with_timeout(retaking).await? else {
            return Ok(false);
        };
        self.current.fence = taken.fence;
        self.ahead.clear();
        self.is_read = false;
        self.read_to = taken.place;
        self.is_place_known = true;
        Ok(true)
    }
}

/// The journal, which keeps the jobs.
fn journal_of(service: &Service) -> Result<&dyn Journal, ServiceError> {
    service.journal().ok_or(super::NO_JOBS)
}

/// How many notifications a step of a job has at most.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is between 0 and a few thousand"
)]
fn step_size(job: &BulkJob) -> usize {
    let many = job.rate.calls_per_second() / STEPS_PER_SECOND;
    (many as usize).clamp(1, MOST_IN_STEP)
}

/// How long the job rests after the begin of a step that changed so many.
fn rest_after(job: &BulkJob, changed: usize) -> Duration {
    let interval_us = u64::try_from(job.rate.interval_us()).unwrap_or(0);
    let many = u64::try_from(changed).unwrap_or(u64::MAX);
    Duration::from_micros(interval_us.saturating_mul(many))
}
