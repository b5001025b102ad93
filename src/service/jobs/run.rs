//! The part of a job's way that one server goes: reads which notifications come next, does the steps at the rate of the job,
//! and says when the next one is due.

mod set_back;

use super::keeping::{KEEP_EVERY, LEASE_MS, keep};
use super::queue::JobQueue;
use super::reasons::detail_of;
use super::step::{CurrentJob, StepDone};
use super::trial::{self, Verdict};
use super::{SharedService, selection_of};
use crate::domain::job::{BulkJob, JobKind, JobSelection};
use crate::domain::job_result::JobReason;
use crate::domain::key::Key;
use crate::journal::{
    Cursor, JobEnd, JobPage, JobStep, JobUnchanged, Journal, JournalError, TakenJob,
};
use crate::service::timeouts::{with_long_timeout, with_timeout};
use crate::service::{Service, ServiceError};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) use set_back::is_set_back;

/// Maximum number of notifications of a step.
const MOST_IN_STEP: usize = 100;
/// How many keys are read from the journal at once.
const PAGE: usize = 1_000;
/// A step has the notifications of this part of a second.
const STEPS_PER_SECOND: f64 = 5.0;
/// After so many failed steps in a row, other than for a store that is away, the next ones have one notification each.
const FAILURES_OF_MANY: u32 = 3;
/// After so many, the job fails.
const MOST_FAILURES: u32 = 6;
/// After so many failed steps in a row for a schedule that is away, another server may have the job: it may reach the schedule.
const FAILURES_OF_SCHEDULE: u32 = 3;
/// Wait after a step that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Shortest wait between two steps, also if nothing had to be done in the first one.
pub(super) const SHORTEST_REST: Duration = Duration::from_millis(5);

/// Whether this server goes on with a job.
pub(super) enum JobTurn {
    /// The next step is due at this instant.
    StepAt(Instant),
    /// The job has ended, or another server has it, or it is paused.
    Over,
    /// This server cannot reach the schedule now, and lets another one have the job.
    LeftToOthers,
}

/// The part of a job's way that this server goes.
pub(super) struct JobRun {
    service: SharedService,
    pub(super) current: CurrentJob,
    selection: Option<JobSelection>,
    queue: JobQueue,
    /// Whether the queue goes on where the job stands. It does not after a step that may have been kept or not.
    is_place_known: bool,
    /// Whether the first ones that were replayed have shown that the job may go on.
    is_tried: bool,
    /// Since when this server has the job without a step.
    kept_at: Instant,
    /// Whether the destination was asked for a call now.
    has_called: bool,
    /// Maximum number of notifications of the next step. One after a step that cannot be written, so that the
    /// notification that cannot be written fails alone. Half as many after a step for which a store was not there in
    /// time, and twice as many again after one that was kept.
    most: usize,
    /// How many steps in a row have failed, other than for a store that is away.
    failures: u32,
    /// How many steps have failed since the last one that was kept, because the schedule was away.
    failures_of_schedule: u32,
}

impl JobRun {
    pub(super) fn of(service: SharedService, taken: TakenJob) -> Self {
        let TakenJob {
            job,
            fence,
            place,
            passed,
            waiting,
        } = taken;
        Self {
            service,
            // Without a selection there is nothing to do, and the first step is the last one.
            selection: selection_of(&job),
            queue: JobQueue::resumed(place, passed, waiting, Instant::now()),
            is_place_known: true,
            is_tried: false,
            kept_at: Instant::now(),
            // A replay asks for no call before the next probe: it goes behind what is sent anyway.
            has_called: place.is_some() || job.kind == JobKind::Replay,
            most: step_size(&job),
            failures: 0,
            failures_of_schedule: 0,
            current: CurrentJob {
                job: Arc::new(job),
                fence,
            },
        }
    }

    /// Does the next step.
    pub(super) async fn step(&mut self) -> Result<JobTurn, ServiceError> {
        let started = Instant::now();
        if !self.is_place_known && !self.find_place().await? {
            return Ok(JobTurn::Over);
        }
        self.read_ahead().await?;
        let mut most = self.most;
        if let Some(left) = trial::left_before(&self.current.job).filter(|_| !self.is_tried) {
            if left == 0 && !self.queue.is_over() {
                return self.go_on_after_trial().await;
            }
            most = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        let turns = self.queue.take(most, started);
        if let (true, Some(again_at)) = (turns.is_empty(), self.queue.again_at()) {
            let at = match self.queue.page_to_read() {
                Some(_) => started + SHORTEST_REST,
                None => again_at,
            };
            return Ok(self.rest_until(at).await);
        }
        // From here on, the queue is right only if the step is kept.
        self.is_place_known = false;
        let many = turns.len();
        let keys: Vec<Key> = turns.iter().map(|turn| turn.key.clone()).collect();
        let preparing = (self.service).prepare_job_step(&self.current.job, keys.clone());
        let mut prepared = preparing.await?;
        // The replies to the leases have said what time it is for the schedule, also if another server knew it before.
        if !prepared.leased.is_empty() && is_set_back(&self.service, &self.current.job) {
            return self.end_set_back(prepared.leased).await;
        }
        // An attempt may begin just before each look, but not for ever.
        let longest =
            2 * Duration::from_millis(self.service.schedule.limits().lease_ms.unsigned_abs());
        let in_flight = std::mem::take(&mut prepared.in_flight);
        let mut waiting = (self.queue).put_back(turns, &in_flight, longest, Instant::now());
        let is_left = in_flight.len() > waiting.too_long.len();
        let too_long = std::mem::take(&mut waiting.too_long).into_iter();
        let too_long = too_long.map(|key| JobUnchanged::new(key, JobReason::StillInFlight));
        prepared.unchanged.extend(too_long);
        let is_last = self.queue.is_over();
        let step = JobStep {
            place: self.queue.place(),
            passed: self.queue.passed(),
            begin_waiting: waiting.begin,
            end_waiting: waiting.end,
            unchanged: std::mem::take(&mut prepared.unchanged),
            ..self.empty_step(is_last.then_some(JobEnd::Done))
        };
        // If the journal cannot write it, the only one of the step has failed, unless it waits.
        let alone = keys.first().filter(|_| many == 1 && !is_left);
        let alone = alone.map(|key| (key.clone(), step.end_waiting.clone()));
        let call_now = !self.has_called;
        let doing = (self.service).do_job_step(&self.current, prepared.leased, step, call_now);
        match doing.await {
            Ok(StepDone::Kept {
                changed,
                skipped,
                failed,
            }) => {
                self.is_place_known = true;
                self.kept_at = Instant::now();
                self.has_called |= changed > 0;
                self.most = (self.most * 2).min(step_size(&self.current.job));
                (self.failures, self.failures_of_schedule) = (0, 0);
                let job = Arc::make_mut(&mut self.current.job);
                job.counts.done += u64::try_from(changed).unwrap_or(u64::MAX);
                self.service.metrics.job_step(changed, skipped, failed);
                if is_last {
                    let job = &self.current.job;
                    if let (JobKind::LaneRetry, Some(lane), false) =
                        (job.kind, &job.lane, self.has_called)
                    {
                        // Everything is due already.
                        self.service.call_lane_now(lane).await;
                    }
                    tracing::info!(job = %self.current.job.id, "a job is done");
                    return Ok(JobTurn::Over);
                }
                let rest = rest_after(&self.current.job, changed).max(SHORTEST_REST);
                Ok(JobTurn::StepAt(started + rest))
            }
            Ok(StepDone::Again) => Ok(JobTurn::StepAt(started + AGAIN)),
            Ok(StepDone::Lost) => Ok(JobTurn::Over),
            Err(ServiceError::Journal(JournalError::Corrupt(problem))) => {
                self.after_corrupt(many, alone, problem).await
            }
            Err(error) => Err(error),
        }
    }

    /// Looks at the first ones that were replayed, and ends the job if most of them failed again.
    async fn go_on_after_trial(&mut self) -> Result<JobTurn, ServiceError> {
        let journal = journal_of(&self.service)?;
        match trial::look(&self.service, journal, &self.current.job).await? {
            Verdict::Wait => Ok(self.rest_until(Instant::now() + trial::ASK_AGAIN).await),
            Verdict::GoOn => {
                self.is_tried = true;
                Ok(JobTurn::StepAt(Instant::now()))
            }
            Verdict::End(problem) => {
                tracing::warn!(job = %self.current.job.id, problem, "a job has ended after its trial");
                let step = self.empty_step(Some(JobEnd::Failed(problem)));
                with_timeout(journal.step_job(&step)).await?;
                Ok(JobTurn::Over)
            }
        }
    }

    /// A turn in which nothing is written. The job is kept meanwhile.
    async fn rest_until(&mut self, at: Instant) -> JobTurn {
        if self.kept_at.elapsed() >= KEEP_EVERY {
            if !keep(&self.service, &self.current).await {
                return JobTurn::Over;
            }
            self.kept_at = Instant::now();
        }
        JobTurn::StepAt(at)
    }

    /// A step without a notification, which ends the job if it is to end.
    fn empty_step(&self, end: Option<JobEnd>) -> JobStep {
        let job = &self.current.job;
        JobStep {
            id: job.id.clone(),
            fence: self.current.fence,
            place: None,
            passed: None,
            begin_waiting: Vec::new(),
            end_waiting: Vec::new(),
            changes: Vec::new(),
            unchanged: Vec::new(),
            end,
            // A series of the job does not begin before the job: so it is told from those that the job has to replay, also
            // if the clock of this server is behind.
            at_ms: self.service.clock.now_ms().max(job.created_ms),
            lease_ms: LEASE_MS,
        }
    }

    /// A step failed, and may have been kept nevertheless. It is repeated. If that never succeeds, and not because a store
    /// is away, the job ends: whoever looks at it sees why.
    pub(super) async fn after_failure(&mut self, error: &ServiceError) -> JobTurn {
        let id = &self.current.job.id;
        self.is_place_known = false;
        let again = JobTurn::StepAt(Instant::now() + AGAIN);
        if error.may_pass() {
            // A step that takes longer than a call may would never be kept, however often it is repeated. So the smallest step
            // is tried before the job is given back.
            let was_smallest = self.most == 1;
            self.most = (self.most / 2).max(1);
            tracing::debug!(job = %id, %error, "a step of a job failed; it is tried again");
            self.failures_of_schedule += u32::from(matches!(error, ServiceError::Schedule(_)));
            return match was_smallest && self.failures_of_schedule >= FAILURES_OF_SCHEDULE {
                true => JobTurn::LeftToOthers,
                false => again,
            };
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
        let step = self.empty_step(Some(JobEnd::Failed(error.to_string())));
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
    /// written is counted as failed, and the job goes on behind it. `alone` is that one, with what ends for it.
    async fn after_corrupt(
        &mut self,
        many: usize,
        alone: Option<(Key, Vec<Cursor>)>,
        problem: String,
    ) -> Result<JobTurn, ServiceError> {
        if many > 1 {
            self.most = 1;
            return Ok(JobTurn::StepAt(Instant::now()));
        }
        let journal = journal_of(&self.service)?;
        let end = match (&alone, self.queue.is_over()) {
            (None, _) => Some(JobEnd::Failed(problem.clone())),
            (Some(_), true) => Some(JobEnd::Done),
            (Some(_), false) => None,
        };
        let is_over = end.is_some();
        let mut step = self.empty_step(end);
        step.place = self.queue.place();
        step.passed = self.queue.passed();
        if let Some((key, end_waiting)) = alone {
            step.end_waiting = end_waiting;
            step.unchanged = vec![JobUnchanged {
                detail: detail_of(&problem),
                ..JobUnchanged::new(key, JobReason::NotWritten)
            }];
        }
        tracing::error!(job = %step.id, problem, "the journal cannot write a step of a job; the job goes on without it");
        with_timeout(journal.step_job(&step)).await?;
        self.is_place_known = true;
        Ok(match is_over {
            true => JobTurn::Over,
            false => JobTurn::StepAt(Instant::now()),
        })
    }

    /// Reads the next page, if everything that was read is done.
    async fn read_ahead(&mut self) -> Result<(), ServiceError> {
        let Some(from) = self.queue.page_to_read() else {
            return Ok(());
        };
        let page = match &self.selection {
            Some(selection) => {
                let journal = journal_of(&self.service)?;
                with_long_timeout(journal.job_page(selection, from, PAGE)).await?
            }
            None => JobPage::default(),
        };
        self.queue.add_page(page);
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
        let TakenJob {
            job,
            place,
            passed,
            waiting,
            fence: _,
        } = taken;
        self.current.job = Arc::new(job);
        self.queue = JobQueue::resumed(place, passed, waiting, Instant::now());
        self.is_place_known = true;
        self.kept_at = Instant::now();
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

#[cfg(test)]
mod tests;
