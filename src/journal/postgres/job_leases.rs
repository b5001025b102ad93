//! The lease of a job: taking and keeping it, and the steps that are written under it.

use super::change::change_all;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::job_results;
use super::statements::storable;
use crate::domain::job::{JobId, MOST_OPEN_JOBS};
use crate::journal::ChangeResult;
use crate::journal::job_rows::{job_columns, taken_job_columns};
use crate::journal::jobs::{
    DAMAGED_LEASE_MS, JobStep, JobStepped, LONGEST_LEASE_MS, TakenJob, advance,
};
use crate::journal::rows::Fields;
use crate::journal::sql_values::count_of;
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgRow};
use std::sync::Arc;

/// Now, in milliseconds since 1970, by the clock of the server.
macro_rules! now_ms {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT"
    };
}

/// See [`crate::journal::JournalJobs::take_job`]. It may be executed twice: the job that the first one took is free
/// again when that lease expires.
pub(super) struct TakeJob {
    pub(super) lease_ms: i64,
}

#[async_trait]
impl PostgresCall for TakeJob {
    type Reply = Option<TakenJob>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        for _ in 0..MOST_OPEN_JOBS {
            let found = take_next(&mut transaction, self.lease_ms).await?;
            let is_last = found.is_none();
            let taken = taken(&mut transaction, found).await?;
            if is_last || taken.is_some() {
                transaction.commit().await?;
                return Ok(taken);
            }
        }
        transaction.commit().await?;
        Ok(None)
    }
}

/// The row of the next job that no server has, which is taken with this.
async fn take_next(
    connection: &mut PgConnection,
    lease_ms: i64,
) -> Result<Option<PgRow>, PostgresFailure> {
    Ok(sqlx::query(concat!(
        "WITH free AS MATERIALIZED (
                SELECT id FROM jobs
                WHERE ended_ms IS NULL AND state = 'running' AND leased_until_ms NOT BETWEEN 1 + ",
        now_ms!(),
        " AND $2 + ",
        now_ms!(),
        "   ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
             )
             UPDATE jobs SET fence = fence + 1, leased_until_ms = $1 + ",
        now_ms!(),
        " FROM free WHERE jobs.id = free.id RETURNING ",
        taken_job_columns!()
    ))
    .bind(lease_ms)
    .bind(LONGEST_LEASE_MS)
    .fetch_optional(connection)
    .await?)
}

/// The job of this row, which was just taken, with what waits; `None` if it cannot be read: then it is
/// left alone for [`DAMAGED_LEASE_MS`]. Its fence was raised, so nothing of it changes meanwhile.
async fn taken(
    connection: &mut PgConnection,
    found: Option<PgRow>,
) -> Result<Option<TakenJob>, PostgresFailure> {
    let Some(row) = found else {
        return Ok(None);
    };
    let id: &str = Fields::of(&row).take()?;
    let waiting = sqlx::query(
        "SELECT place_ms, place_row, topic, id FROM job_waiting WHERE job = $1 ORDER BY place_ms, place_row",
    )
    .bind(id)
    .fetch_all(&mut *connection)
    .await?;
    let taken = Fields::taken_job_or_logged(&row, &waiting);
    if taken.is_none() {
        sqlx::query(concat!(
            "UPDATE jobs SET leased_until_ms = ",
            now_ms!(),
            " + $1 WHERE id = $2"
        ))
        .bind(DAMAGED_LEASE_MS)
        .bind(id)
        .execute(connection)
        .await?;
    }
    Ok(taken)
}

/// See [`crate::journal::JournalJobs::keep_job`].
pub(super) struct KeepJob<'call> {
    pub(super) id: &'call JobId,
    pub(super) fence: i64,
    pub(super) lease_ms: i64,
}

#[async_trait]
impl PostgresCall for KeepJob<'_> {
    type Reply = bool;

    async fn run(&self, connection: &mut PgConnection) -> Result<bool, PostgresFailure> {
        let kept = sqlx::query(concat!(
            "UPDATE jobs SET leased_until_ms = $1 + ",
            now_ms!(),
            " WHERE id = $2 AND fence = $3 AND state = 'running'"
        ))
        .bind(self.lease_ms)
        .bind(self.id.as_str())
        .bind(self.fence)
        .execute(connection)
        .await?;
        Ok(kept.rows_affected() == 1)
    }
}

/// See [`crate::journal::JournalJobs::retake_job`]. It waits for a step that is being written, because that has locked
/// the row. If it is executed twice, the second one finds the job taken, and the job is free again when the lease
/// expires.
pub(super) struct RetakeJob<'call> {
    pub(super) id: &'call JobId,
    pub(super) fence: i64,
    pub(super) lease_ms: i64,
}

#[async_trait]
impl PostgresCall for RetakeJob<'_> {
    type Reply = Option<TakenJob>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        let found = sqlx::query(concat!(
            "UPDATE jobs SET fence = fence + 1, leased_until_ms = $1 + ",
            now_ms!(),
            " WHERE id = $2 AND fence = $3 AND state = 'running' RETURNING ",
            taken_job_columns!()
        ))
        .bind(self.lease_ms)
        .bind(self.id.as_str())
        .bind(self.fence)
        .fetch_optional(&mut *transaction)
        .await?;
        let taken = taken(&mut transaction, found).await?;
        transaction.commit().await?;
        Ok(taken)
    }
}

/// See [`crate::journal::JournalJobs::step_job`]. It is not repeated after its commit was sent.
pub(super) struct DoStep<'call> {
    pub(super) step: &'call JobStep,
    pub(super) instance: &'call Arc<str>,
}

#[async_trait]
impl PostgresCall for DoStep<'_> {
    type Reply = JobStepped;

    async fn run(&self, connection: &mut PgConnection) -> Result<JobStepped, PostgresFailure> {
        let Self { step, instance } = self;
        let mut transaction = connection.begin().await?;
        let found = sqlx::query(concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs WHERE id = $1 AND fence = $2 AND state = 'running' FOR UPDATE"
        ))
        .bind(step.id.as_str())
        .bind(step.fence)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(mut job) = found.map(|row| Fields::of(&row).job()).transpose()? else {
            transaction.rollback().await?;
            return Ok(JobStepped::JobLost);
        };
        let results = change_all(&mut transaction, &step.changes, instance).await?;
        let is_lost = |result: &ChangeResult| matches!(result, ChangeResult::Fenced(_));
        if results.iter().any(is_lost) {
            transaction.rollback().await?;
            return Ok(JobStepped::NotificationLost);
        }
        let account = advance(&mut job, step, &results);
        job_results::keep(&mut transaction, step, &account).await?;
        sqlx::query(concat!(
            "UPDATE jobs SET state = $1, matched = $2, done = $3, skipped = $4, failed = $5, problem = $6,
                             ended_ms = $7, place_ms = coalesce($8, place_ms),
                             place_row = coalesce($9, place_row), passed_ms = coalesce($10, passed_ms),
                             passed_row = coalesce($11, passed_row), leased_until_ms = $12 + ",
            now_ms!(),
            " WHERE id = $13"
        ))
        .bind(job.state.as_str())
        .bind(count_of(job.counts.matched))
        .bind(count_of(job.counts.done))
        .bind(count_of(job.counts.skipped))
        .bind(count_of(job.counts.failed))
        .bind(job.problem.as_deref().map(storable))
        .bind(job.ended_ms)
        .bind(step.place.map(|place| place.at_ms))
        .bind(step.place.map(|place| place.row))
        .bind(step.passed.map(|passed| passed.at_ms))
        .bind(step.passed.map(|passed| passed.row))
        .bind(step.lease_ms)
        .bind(step.id.as_str())
        .execute(&mut *transaction)
        .await?;
        let committed = transaction.commit().await;
        committed.map_err(|error| PostgresFailure::from(error).in_doubt())?;
        Ok(JobStepped::Kept(results))
    }
}
