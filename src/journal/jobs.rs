//! Jobs: keeping them, and doing their steps.
//!
//! Several servers share the jobs of a journal. A server *takes* a job: it gets the job for a time, which it renews,
//! and the fence of the job is raised. A *step* changes notifications, counts them and moves the place of the job in
//! one transaction, which is refused if the fence has been raised since, or the job no longer runs. So a server that
//! was suspended can write nothing after another one has taken its job. After a crash, the next server goes on at the
//! place of the last step that was kept: no step is done twice, and none is left out.

use super::rows::{Fields, StoredRow, corrupt, narrowed};
use super::{Actor, ChangeResult, Changing, Cursor, JournalError};
use crate::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobOrder, JobSelection, JobState};
use crate::domain::job_filter::JobFilter;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::CallRate;
use async_trait::async_trait;
use sqlx::{ColumnIndex, Decode, Type};

/// Maximum number of pending notifications or dead letters that are read for one page of a job.
pub(super) const MOST_SCANNED: usize = 20_000;

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

    /// Takes the oldest running job that no server has, for `lease_ms`. `None` if there is none.
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

    /// Counts the notifications that a job concerns, in parts: returns the number in the part after `cursor`, and
    /// where the next part begins.
    async fn job_matches(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
    ) -> Result<(u64, Option<Cursor>), JournalError>;

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

    /// How those have fared that a job has replayed: of the changes by hand from `since_ms` on, a limited number is looked
    /// at, the oldest first.
    async fn job_trial(&self, id: &JobId, since_ms: i64) -> Result<JobTrial, JournalError>;
}

/// In which state the notifications are to which a filter is applied.
#[derive(Clone, Copy)]
pub(super) enum FilteredState {
    /// Dead letters, by their ends.
    Dead,
    /// Pending ones, by their registrations.
    Pending,
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
    /// When the last one was replayed, in milliseconds since 1970; `None` if there is none.
    pub last_ms: Option<i64>,
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
    /// As many as there may be have not ended ([`JobKind::most_open`]). Nothing was added.
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
    /// Up to which notification it has come; `None` at its beginning.
    pub place: Option<Cursor>,
}

/// A step of a job.
#[derive(Debug, Clone)]
pub struct JobStep {
    /// The job.
    pub id: JobId,
    /// The fence with which it was taken.
    pub fence: i64,
    /// Up to which notification it has come after the step; `None` if it stays.
    pub place: Option<Cursor>,
    /// The changes to apply. A key comes once at most.
    pub changes: Vec<Changing>,
    /// How many other notifications of the step needed nothing.
    pub skipped: u64,
    /// For how many others it could not be done.
    pub failed: u64,
    /// The end of the job, if this is its last step.
    pub end: Option<JobEnd>,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The server keeps the job for this time from now.
    pub lease_ms: i64,
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

/// Counts a step whose changes had these results, and ends the job if it is the last one.
pub(super) fn advance(job: &mut BulkJob, step: &JobStep, results: &[ChangeResult]) {
    let is_done = |result: &&ChangeResult| matches!(result, ChangeResult::Done(_));
    let done = results.iter().filter(is_done).count();
    let failed = results.iter().filter(|result| result.is_failure()).count();
    let count = |many: usize| u64::try_from(many).unwrap_or(u64::MAX);
    job.counts.done += count(done);
    job.counts.skipped += count(results.len() - done - failed) + step.skipped;
    job.counts.failed += count(failed) + step.failed;
    job.counts.matched = job.counts.matched.max(job.counts.seen());
    match &step.end {
        None => return,
        Some(JobEnd::Done) => {
            job.state = JobState::Done;
            job.counts = job.counts.complete();
        }
        Some(JobEnd::Failed(problem)) => {
            job.state = JobState::Failed;
            job.problem = Some(problem.as_str().into());
        }
    }
    job.ended_ms = Some(step.at_ms);
}

/// The columns that [`Fields::job`] reads, from `jobs`.
macro_rules! job_columns {
    () => {
        "jobs.id, jobs.kind, jobs.state, jobs.lane, jobs.failed_since_ms, jobs.matched, jobs.done, jobs.skipped, \
         jobs.failed, jobs.rate, jobs.actor, jobs.reason, jobs.problem, jobs.created_ms, jobs.ended_ms, jobs.filter"
    };
}
/// The columns that [`Fields::taken_job`] reads, from `jobs`.
macro_rules! taken_job_columns {
    () => {
        concat!(
            $crate::journal::jobs::job_columns!(),
            ", jobs.fence, jobs.place_ms, jobs.place_row"
        )
    };
}
/// The outcomes of attempts that got no answer at the transport, as they are stored.
macro_rules! unanswered {
    () => {
        "('timeout', 'connect', 'tls', 'dns', 'protocol')"
    };
}
pub(super) use {job_columns, taken_job_columns, unanswered};

impl<'row, R> Fields<'row, R>
where
    R: StoredRow,
    usize: ColumnIndex<R>,
    bool: Decode<'row, R::Database> + Type<R::Database>,
    i64: Decode<'row, R::Database> + Type<R::Database>,
    &'row str: Decode<'row, R::Database> + Type<R::Database>,
    &'row [u8]: Decode<'row, R::Database> + Type<R::Database>,
    R::Count: Decode<'row, R::Database> + Type<R::Database>,
{
    /// Reads the columns of a job.
    pub(super) fn job(&mut self) -> Result<BulkJob, JournalError> {
        let id: &str = self.take()?;
        let kind: &str = self.take()?;
        let state: &str = self.take()?;
        Ok(BulkJob {
            id: JobId::parse(id).map_err(|_| corrupt("job", &id))?,
            kind: JobKind::from_name(kind).ok_or_else(|| corrupt("kind of job", &kind))?,
            state: JobState::from_name(state).ok_or_else(|| corrupt("state of a job", &state))?,
            lane: self.take::<Option<&str>>()?.map(Lane::from_name),
            failed_since_ms: self.take()?,
            counts: JobCounts {
                matched: narrowed("count", self.take()?)?,
                done: narrowed("count", self.take()?)?,
                skipped: narrowed("count", self.take()?)?,
                failed: narrowed("count", self.take()?)?,
            },
            rate: {
                let stored = narrowed("rate", self.take()?)?;
                CallRate::from_stored(stored).ok_or_else(|| corrupt("rate", &stored))?
            },
            actor: self.take::<&str>()?.into(),
            reason: self.take::<&str>()?.into(),
            problem: self.take::<Option<&str>>()?.map(Into::into),
            created_ms: self.take()?,
            ended_ms: self.take()?,
            filter: match self.take::<Option<&str>>()? {
                Some(stored) => Some(
                    JobFilter::from_stored(stored)
                        .ok_or_else(|| corrupt("filter of a job", &stored))?,
                ),
                None => None,
            },
        })
    }

    /// Reads the columns of a job, then `fence, place_ms, place_row`.
    pub(super) fn taken_job(&mut self) -> Result<TakenJob, JournalError> {
        let job = self.job()?;
        let fence = self.take()?;
        let (at_ms, row): (Option<i64>, Option<i64>) = (self.take()?, self.take()?);
        Ok(TakenJob {
            job,
            fence,
            place: at_ms.zip(row).map(|(at_ms, row)| Cursor { at_ms, row }),
        })
    }

    /// Reads the three numbers of a trial, and its last instant.
    pub(super) fn job_trial(&mut self) -> Result<JobTrial, JournalError> {
        Ok(JobTrial {
            replayed: narrowed("count", self.take()?)?,
            delivered: narrowed("count", self.take()?)?,
            failed: narrowed("count", self.take()?)?,
            last_ms: self.take()?,
        })
    }

    /// Reads rows with the instant of a place, and `row_id, topic, id`.
    pub(super) fn job_keys(rows: &'row [R]) -> Result<Vec<(Key, Cursor)>, JournalError> {
        let read = |row| {
            let mut fields = Self::of(row);
            let place = fields.cursor()?;
            Ok((fields.key()?, place))
        };
        rows.iter().map(read).collect()
    }
}
