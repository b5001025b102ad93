//! The rows of jobs.

use super::rows::{Fields, StoredRow, corrupt, narrowed};
use super::{Cursor, JobTrial, JournalError, TakenJob};
use crate::domain::call_rate::CallRate;
use crate::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobState};
use crate::domain::job_filter::JobFilter;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use sqlx::{ColumnIndex, Decode, Type};

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
            $crate::journal::job_rows::job_columns!(),
            ", jobs.fence, jobs.place_ms, jobs.place_row, jobs.passed_ms, jobs.passed_row"
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
    /// Reads the columns of a job. The error names the job.
    pub(super) fn job(&mut self) -> Result<BulkJob, JournalError> {
        let id: &str = self.take()?;
        self.job_after_id(id).map_err(|error| match error {
            JournalError::Corrupt(cause) => JournalError::Corrupt(format!("the job {id}: {cause}")),
            other => other,
        })
    }

    /// Reads the columns of a job that a list or the choice of the next job leaves out if it cannot be read, because it
    /// must not keep the others back.
    pub(super) fn job_or_logged(row: &'row R) -> Option<BulkJob> {
        Self::of(row).job().map_err(log_damaged).ok()
    }

    /// Reads a job that was just taken, as [`Self::taken_job`]. `None` if it cannot be read.
    pub(super) fn taken_job_or_logged(row: &'row R, waiting: &'row [R]) -> Option<TakenJob> {
        Self::of(row).taken_job(waiting).map_err(log_damaged).ok()
    }

    fn job_after_id(&mut self, id: &str) -> Result<BulkJob, JournalError> {
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

    /// Reads the columns of a job, then `fence, place_ms, place_row, passed_ms, passed_row`. `waiting` are rows with the
    /// instant of a place, and `place_row, topic, id`.
    fn taken_job(mut self, waiting: &'row [R]) -> Result<TakenJob, JournalError> {
        Ok(TakenJob {
            job: self.job()?,
            fence: self.take()?,
            place: self.place()?,
            passed: self.place()?,
            waiting: Self::job_keys(waiting)?,
        })
    }

    fn place(&mut self) -> Result<Option<Cursor>, JournalError> {
        let (at_ms, row): (Option<i64>, Option<i64>) = (self.take()?, self.take()?);
        Ok(at_ms.zip(row).map(|(at_ms, row)| Cursor { at_ms, row }))
    }

    /// Reads the five numbers of a trial, and its last instant.
    pub(super) fn job_trial(&mut self) -> Result<JobTrial, JournalError> {
        Ok(JobTrial {
            replayed: narrowed("count", self.take()?)?,
            delivered: narrowed("count", self.take()?)?,
            failed: narrowed("count", self.take()?)?,
            dead: narrowed("count", self.take()?)?,
            cancelled: narrowed("count", self.take()?)?,
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

fn log_damaged(error: JournalError) {
    tracing::error!(
        %error,
        "a job in the journal cannot be read, so it is left out; repair or delete its row in `jobs`"
    );
}
