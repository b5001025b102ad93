//! The lease of a job: taking and keeping it, and the steps that are written under it.

use super::error::SqliteFailure;
use super::job_results;
use super::writes::change;
use crate::domain::job::{JobId, MOST_OPEN_JOBS};
use crate::journal::ChangeResult;
use crate::journal::job_rows::{job_columns, taken_job_columns};
use crate::journal::jobs::{
    DAMAGED_LEASE_MS, JobStep, JobStepped, LONGEST_LEASE_MS, TakenJob, advance,
};
use crate::journal::rows::Fields;
use crate::journal::sql_values::count_of;
use sqlx::sqlite::SqliteRow;
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;

/// Now, in milliseconds since 1970, by the clock of this machine.
macro_rules! now_ms {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// Whether there is a running job that no server has. A server asks for jobs all the time, and usually there is none. This
/// look-up writes nothing.
pub(super) async fn is_one_free(readers: &SqlitePool) -> Result<bool, SqliteFailure> {
    let free = sqlx::query_scalar(concat!(
        "SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_open
         WHERE ended_ms IS NULL AND state = 'running' AND leased_until_ms NOT BETWEEN 1 + ",
        now_ms!(),
        " AND ? + ",
        now_ms!(),
        ")"
    ))
    .bind(LONGEST_LEASE_MS)
    .fetch_one(readers)
    .await?;
    Ok(free)
}

/// The job of this row, which was just taken, with what waits; `None` if it cannot be read: then it is
/// left alone for [`DAMAGED_LEASE_MS`].
async fn taken(
    connection: &mut SqliteConnection,
    found: Option<SqliteRow>,
) -> Result<Option<TakenJob>, SqliteFailure> {
    let Some(row) = found else {
        return Ok(None);
    };
    let id: &str = Fields::of(&row).take()?;
    let waiting = sqlx::query(
        "SELECT place_ms, place_row, topic, id FROM job_waiting WHERE job = ? ORDER BY place_ms, place_row",
    )
    .bind(id)
    .fetch_all(&mut *connection)
    .await?;
    let taken = Fields::taken_job_or_logged(&row, &waiting);
    if taken.is_none() {
        sqlx::query(concat!(
            "UPDATE jobs SET leased_until_ms = ",
            now_ms!(),
            " + ? WHERE id = ?"
        ))
        .bind(DAMAGED_LEASE_MS)
        .bind(id)
        .execute(connection)
        .await?;
    }
    Ok(taken)
}

/// See [`crate::journal::JournalJobs::keep_job`].
pub(super) async fn keep(
    connection: &mut SqliteConnection,
    id: &JobId,
    fence: i64,
    lease_ms: i64,
) -> Result<bool, SqliteFailure> {
    let kept = sqlx::query(concat!(
        "UPDATE jobs SET leased_until_ms = ",
        now_ms!(),
        " + ? WHERE id = ? AND fence = ? AND state = 'running'"
    ))
    .bind(lease_ms)
    .bind(id.as_str())
    .bind(fence)
    .execute(connection)
    .await?;
    Ok(kept.rows_affected() == 1)
}

/// See [`crate::journal::JournalJobs::retake_job`].
pub(super) async fn retake(
    connection: &mut SqliteConnection,
    id: &JobId,
    fence: i64,
    lease_ms: i64,
) -> Result<Option<TakenJob>, SqliteFailure> {
    let found = sqlx::query(concat!(
        "UPDATE jobs SET fence = fence + 1, leased_until_ms = ",
        now_ms!(),
        " + ? WHERE id = ? AND fence = ? AND state = 'running' RETURNING ",
        taken_job_columns!()
    ))
    .bind(lease_ms)
    .bind(id.as_str())
    .bind(fence)
    .fetch_optional(&mut *connection)
    .await?;
    taken(connection, found).await
}

/// See [`crate::journal::JournalJobs::take_job`].
pub(super) async fn take(
    connection: &mut SqliteConnection,
    lease_ms: i64,
) -> Result<Option<TakenJob>, SqliteFailure> {
    for _ in 0..MOST_OPEN_JOBS {
        let found = take_next(&mut *connection, lease_ms).await?;
        let is_last = found.is_none();
        let taken = taken(&mut *connection, found).await?;
        if is_last || taken.is_some() {
            return Ok(taken);
        }
    }
    Ok(None)
}

/// The row of the next job, which is taken with this.
async fn take_next(
    connection: &mut SqliteConnection,
    lease_ms: i64,
) -> Result<Option<SqliteRow>, SqliteFailure> {
    Ok(sqlx::query(concat!(
        "UPDATE jobs SET fence = fence + 1, leased_until_ms = ",
        now_ms!(),
        " + ? WHERE id = (
            SELECT id FROM jobs INDEXED BY jobs_open
            WHERE ended_ms IS NULL AND state = 'running' AND leased_until_ms NOT BETWEEN 1 + ",
        now_ms!(),
        " AND ? + ",
        now_ms!(),
        " ORDER BY id LIMIT 1) RETURNING ",
        taken_job_columns!()
    ))
    .bind(lease_ms)
    .bind(LONGEST_LEASE_MS)
    .fetch_optional(connection)
    .await?)
}

/// See [`crate::journal::JournalJobs::step_job`]. The caller ends the transaction.
pub(super) async fn do_step(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    step: &JobStep,
) -> Result<JobStepped, SqliteFailure> {
    let found = sqlx::query(concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE id = ? AND fence = ? AND state = 'running'"
    ))
    .bind(step.id.as_str())
    .bind(step.fence)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = found else {
        return Ok(JobStepped::JobLost);
    };
    let mut job = Fields::of(&row).job()?;
    let mut results = Vec::with_capacity(step.changes.len());
    for changing in &step.changes {
        let result = change(connection, instance, changing).await?;
        if let ChangeResult::Fenced(_) = result {
            return Ok(JobStepped::NotificationLost);
        }
        results.push(result);
    }
    let account = advance(&mut job, step, &results);
    job_results::keep(&mut *connection, step, &account).await?;
    sqlx::query(concat!(
        "UPDATE jobs SET state = ?, matched = ?, done = ?, skipped = ?, failed = ?, problem = ?, ended_ms = ?,
                         place_ms = ifnull(?, place_ms), place_row = ifnull(?, place_row),
                         passed_ms = ifnull(?, passed_ms), passed_row = ifnull(?, passed_row), leased_until_ms = ",
        now_ms!(),
        " + ? WHERE id = ?"
    ))
    .bind(job.state.as_str())
    .bind(count_of(job.counts.matched))
    .bind(count_of(job.counts.done))
    .bind(count_of(job.counts.skipped))
    .bind(count_of(job.counts.failed))
    .bind(job.problem.as_deref())
    .bind(job.ended_ms)
    .bind(step.place.map(|place| place.at_ms))
    .bind(step.place.map(|place| place.row))
    .bind(step.passed.map(|passed| passed.at_ms))
    .bind(step.passed.map(|passed| passed.row))
    .bind(step.lease_ms)
    .bind(step.id.as_str())
    .execute(connection)
    .await?;
    Ok(JobStepped::Kept(results))
}
