//! Jobs: keeping them, and doing their steps.
//!
//! Several servers share the jobs of a journal. A server *takes* a job: it gets the job for a time, which it renews,
//! and the fence of the job is raised. A *step* changes notifications, counts them and moves the place of the job in
//! one transaction, which is refused if the fence has been raised since, or the job no longer runs. So a server that
//! was suspended can write nothing after another one has taken its job. After a crash, the next server goes on at the
//! place of the last step that was kept: no step is done twice, and none is left out.

use super::job_results::{JobUnchanged, ListedUnchanged, ReasonCounts};
use super::{Actor, ChangeResult, Changing, Cursor, JournalError};
use crate::domain::job::{BulkJob, JobId, JobOrder, JobSelection, JobState};
use crate::domain::job_result::{JobReason, JobResult};
use crate::domain::key::Key;
use async_trait::async_trait;

/// Maximum number of pending notifications or dead letters that are read for one page of a job.
pub(super) const MOST_SCANNED: usize = 20_000;
/// How long a job that cannot be read is left alone before it is tried again, in milliseconds.
pub(super) const DAMAGED_LEASE_MS: i64 = 60_000;
/// No server has a job for longer, in milliseconds. If a lease ends later, the clock was set back since it was given, and the job
/// is free.
pub(super) const LONGEST_LEASE_MS: i64 = DAMAGED_LEASE_MS;
/// Minimum number of jobs that are read for a part of a list, of which some may have to be left out.
pub(super) const FEWEST_LISTED: usize = 50;
/// Maximum number of rows of the lists of jobs that one transaction deletes. With SQLite, everything else waits for it.
pub(super) const MOST_FORGOTTEN: usize = 1_000;

/// The part of a [`super::Journal`] that keeps jobs.
#[async_trait]
pub trait JournalJobs: Send + Sync + 'static {
    /// Adds a job. It can be repeated. If there are more than [`crate::domain::job::MOST_JOBS_KEPT`], forgets those that
    /// ended first.
    async fn add_job(&self, job: &BulkJob) -> Result<JobAdded, JournalError>;

    /// What [`JournalJobs::add_job`] would answer instead of adding this job: that it is kept already, or why it is
    /// refused. `None` if it would be added. It reads few rows, by index.
    async fn job_obstacle(&self, job: &BulkJob) -> Result<Option<JobAdded>, JournalError>;

    /// One job.
    async fn job(&self, id: &JobId) -> Result<Option<BulkJob>, JournalError>;

    /// Jobs, newest first: those that were made before the job `before`, at most `limit`.
    async fn jobs(
        &self,
        state: Option<JobState>,
        before: Option<&JobId>,
        limit: usize,
    ) -> Result<Vec<BulkJob>, JournalError>;

    /// Changes the state of a job as a person asks, `actor`, for a reason, which may be empty. `at_ms` is the time of the
    /// request, in milliseconds since 1970.
    async fn order_job(
        &self,
        id: &JobId,
        order: JobOrder,
        actor: &Actor,
        reason: &str,
        at_ms: i64,
    ) -> Result<JobOrdered, JournalError>;

    /// Takes the oldest running job that no server has, for `lease_ms`. `None` if there is none. One that cannot be read is
    /// logged and left out; it is tried again a minute later.
    async fn take_job(&self, lease_ms: i64) -> Result<Option<TakenJob>, JournalError>;

    /// Keeps a job that was taken with this fence for `lease_ms` from now; with 0, gives it back. `false` if it does
    /// not run any more, or another server has taken it.
    async fn keep_job(&self, id: &JobId, fence: i64, lease_ms: i64) -> Result<bool, JournalError>;

    /// Takes a job once more that was taken with this fence, for `lease_ms`. After that, a step with the old fence is
    /// refused, also one that was sent before and whose reply was lost. `None` as for [`JournalJobs::keep_job`].
    async fn retake_job(
        &self,
        id: &JobId,
        fence: i64,
        lease_ms: i64,
    ) -> Result<Option<TakenJob>, JournalError>;

    /// Does a step of a job: all of it or nothing.
    async fn step_job(&self, step: &JobStep) -> Result<JobStepped, JournalError>;

    /// The keys of notifications that a job concerns, oldest registration first, of dead letters the one that died first:
    /// at most `limit`, after `cursor`. A page may be short, or even empty, although there are more; it has a cursor then.
    async fn job_page(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError>;

    /// Counts the notifications that a job concerns, in parts: returns the numbers in the part after `cursor`.
    async fn job_matches(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
    ) -> Result<JobMatches, JournalError>;

    /// The notifications that a job has changed, in the order in which it has, from `since_ms` on: at most `limit`, after
    /// `cursor`. For a page, a limited number of changes by hand is looked at, so it may be short, or even empty, although
    /// there are more; it has a cursor then.
    async fn job_changes(
        &self,
        id: &JobId,
        since_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError>;

    /// How those have fared that a job has replayed: of the changes by hand from `since_ms` on, at most `most` and a limited
    /// number are looked at, the oldest first.
    async fn job_trial(
        &self,
        id: &JobId,
        since_ms: i64,
        most: usize,
    ) -> Result<JobTrial, JournalError>;

    /// The notifications that a job has skipped or could not change, in the order of their turns: at most `limit`, those
    /// behind the number `after`. At most [`crate::domain::job_result::MOST_LISTED`] of each result are kept.
    async fn job_unchanged(
        &self,
        id: &JobId,
        result: JobResult,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ListedUnchanged>, JournalError>;

    /// How many notifications a job has not changed, by reason. Servers of the version before counted without reasons, so
    /// it may be less than the counts of the job say.
    async fn job_reasons(&self, id: &JobId) -> Result<ReasonCounts, JournalError>;
}

/// In which state the notifications are to which a filter is applied.
#[derive(Clone, Copy)]
pub(super) enum FilteredState {
    /// Dead letters, by their ends.
    Dead,
    /// Pending ones, by their registrations.
    Pending,
}

/// How many notifications a job concerns, in a part of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobMatches {
    /// All of the part.
    pub many: u64,
    /// Of these, the dead letters whose endpoint was removed and made again since they were registered.
    pub endpoint_made_again: u64,
    /// Of the others, the dead letters in whose order a higher number was registered, so that only that one counts.
    pub superseded: u64,
    /// Where the next part begins; `None` if there is none.
    pub next: Option<Cursor>,
}

impl JobMatches {
    /// The numbers that a statement has counted: all, those whose endpoint was made again, those that are superseded.
    pub(super) fn of(
        (many, made_again, superseded): (i64, i64, i64),
        next: Option<Cursor>,
    ) -> Self {
        Self {
            many: many.unsigned_abs(),
            endpoint_made_again: made_again.unsigned_abs(),
            superseded: superseded.unsigned_abs(),
            next,
        }
    }
}

/// How the notifications that a job has replayed have fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobTrial {
    /// How many it has replayed.
    pub replayed: u64,
    /// How many of them are delivered.
    pub delivered: u64,
    /// For how many of them an attempt has failed since, without a delivery.
    pub failed: u64,
    /// How many of them are dead letters again.
    pub dead: u64,
    /// How many of them are cancelled.
    pub cancelled: u64,
    /// When the last one was replayed, in milliseconds since 1970; `None` if there is none.
    pub last_ms: Option<i64>,
}

impl JobTrial {
    /// How many of them are pending.
    #[must_use]
    pub fn pending(&self) -> u64 {
        let ended = self.delivered + self.dead + self.cancelled;
        self.replayed.saturating_sub(ended)
    }
}

/// The result of adding a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobAdded {
    /// It is kept.
    Added,
    /// Another job of its lane has not ended. Nothing was added.
    LaneTaken(Box<BulkJob>),
    /// This job of the same kind and with the same filter has not ended. Nothing was added.
    Same(Box<BulkJob>),
    /// As many as there may be have not ended ([`most_open`](crate::domain::job::JobKind::most_open)). Nothing was added.
    Full,
}

/// The result of an order to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOrdered {
    /// The job after the order.
    Done(Box<BulkJob>),
    /// The job has ended, so it takes no orders.
    Refused(Box<BulkJob>),
    /// There is no such job.
    Missing,
}

/// A job that this server has for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenJob {
    /// The job.
    pub job: BulkJob,
    /// Identifies the taking: the next one has a higher fence.
    pub fence: i64,
    /// Up to which notification it has come with all of them; `None` at its beginning.
    pub place: Option<Cursor>,
    /// Up to which notification it has come with all except those that wait. `None` at its beginning, and if only servers
    /// of the version before have carried it on.
    pub passed: Option<Cursor>,
    /// The notifications that wait for the end of an attempt, each with its place, in order. All others up to `passed` had
    /// their turn, and were counted.
    pub waiting: Vec<(Key, Cursor)>,
}

/// A step of a job.
#[derive(Debug, Clone)]
pub struct JobStep {
    /// The job.
    pub id: JobId,
    /// The fence with which it was taken.
    pub fence: i64,
    /// Up to which notification it has come after the step with all of them; `None` if it stays.
    pub place: Option<Cursor>,
    /// See [`TakenJob::passed`]; `None` if it stays.
    pub passed: Option<Cursor>,
    /// The notifications that begin to wait, each with its place.
    pub begin_waiting: Vec<(Key, Cursor)>,
    /// The places of those that wait no longer.
    pub end_waiting: Vec<Cursor>,
    /// The changes to apply. A key comes once at most.
    pub changes: Vec<Changing>,
    /// The other notifications of the step.
    pub unchanged: Vec<JobUnchanged>,
    /// The end of the job, if this is its last step.
    pub end: Option<JobEnd>,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The server keeps the job for this time from now.
    pub lease_ms: i64,
}

impl JobStep {
    /// What the step has not changed: what its server has found before, and what the journal has refused by these results.
    #[must_use]
    pub fn unchanged_with(&self, results: &[ChangeResult]) -> Vec<JobUnchanged> {
        let refused = self.changes.iter().zip(results);
        let refused = refused.filter_map(|(change, result)| {
            let reason = JobReason::of_change(result)?;
            Some(JobUnchanged::new(change.lease.key().clone(), reason))
        });
        self.unchanged.iter().cloned().chain(refused).collect()
    }
}

/// How a job ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    /// Everything was seen.
    Done,
    /// It cannot go on, for this reason.
    Failed(String),
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobStepped {
    /// The step was kept. Contains the results of its changes, in order.
    Kept(Vec<ChangeResult>),
    /// The lease of a notification was lost ([`ChangeResult::Fenced`]). Nothing was changed.
    NotificationLost,
    /// The job no longer runs, or another server has taken it. Nothing was changed.
    JobLost,
}

/// A page of the notifications that a job concerns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobPage {
    /// Their keys, each with its place.
    pub found: Vec<(Key, Cursor)>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

impl JobPage {
    /// The place after which the changes from an instant on begin, or those after a cursor.
    pub(super) fn first_after(since_ms: i64, cursor: Option<Cursor>) -> Cursor {
        let beginning = Cursor {
            at_ms: since_ms.saturating_sub(1),
            row: i64::MAX,
        };
        cursor
            .filter(|cursor| cursor.at_ms >= since_ms)
            .unwrap_or(beginning)
    }

    /// The page of these rows, of which at most `limit` were read. `scan_end` is the last row that may have been read;
    /// `None` if there were no more.
    pub(super) fn of(found: Vec<(Key, Cursor)>, limit: usize, scan_end: Option<Cursor>) -> Self {
        let is_full = found.len() >= limit;
        let last = found.last().map(|(_, place)| *place);
        Self {
            next: if is_full { last.or(scan_end) } else { scan_end },
            found,
        }
    }
}

impl JobAdded {
    /// Why a job is not added, if this other one has not ended.
    pub(super) fn refused_for(other: BulkJob) -> Self {
        match other.filter {
            Some(_) => Self::Same(Box::new(other)),
            None => Self::LaneTaken(Box::new(other)),
        }
    }
}

/// What a step adds to the lists of its job.
pub(super) struct StepAccount {
    /// What was not changed.
    pub(super) unchanged: Vec<JobUnchanged>,
    /// How many are skipped because the job ends without having met them.
    pub(super) ended_before: u64,
}

/// Counts a step whose changes had these results, and ends the job if it is the last one.
pub(super) fn advance(job: &mut BulkJob, step: &JobStep, results: &[ChangeResult]) -> StepAccount {
    let count = |many: usize| u64::try_from(many).unwrap_or(u64::MAX);
    let is_done = |result: &&ChangeResult| JobReason::of_change(result).is_none();
    let unchanged = step.unchanged_with(results);
    let of_result = |result| {
        let found = unchanged.iter().filter(|one| one.reason.result() == result);
        count(found.count())
    };
    job.counts.done += count(results.iter().filter(is_done).count());
    job.counts.skipped += of_result(JobResult::Skipped);
    job.counts.failed += of_result(JobResult::Failed);
    job.counts.matched = job.counts.matched.max(job.counts.seen());
    let skipped = job.counts.skipped;
    match &step.end {
        None => {}
        Some(JobEnd::Done) => {
            job.state = JobState::Done;
            job.counts = job.counts.complete();
        }
        Some(JobEnd::Failed(problem)) => {
            job.state = JobState::Failed;
            job.problem = Some(problem.as_str().into());
        }
    }
    if step.end.is_some() {
        job.ended_ms = Some(step.at_ms);
    }
    StepAccount {
        ended_before: job.counts.skipped - skipped,
        unchanged,
    }
}
