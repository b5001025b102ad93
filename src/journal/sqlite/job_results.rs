//! What the steps of jobs have not changed, and what waits for its turn.

use super::error::SqliteFailure;
use crate::domain::job::JobId;
use crate::domain::job_result::{JobReason, JobResult};
use crate::journal::job_results::{ListedUnchanged, ReasonCounts, counted, numbered, with_turn};
use crate::journal::jobs::{JobStep, MOST_FORGOTTEN, StepAccount};
use crate::journal::rows::Fields;
use crate::journal::sql_values::{count_of, limit_of};
use sqlx::{SqliteConnection, SqlitePool};

/// The jobs that have ended before `?1`, the oldest `?2` of them.
macro_rules! ended_jobs {
    () => {
        "SELECT id FROM jobs INDEXED BY jobs_ended
         WHERE ended_ms IS NOT NULL AND ended_ms < ?1 ORDER BY ended_ms LIMIT ?2"
    };
}

/// Keeps what a step has not changed, and which notifications wait from now on. It belongs to the transaction of the step.
pub(super) async fn keep(
    connection: &mut SqliteConnection,
    step: &JobStep,
    account: &StepAccount,
) -> Result<(), SqliteFailure> {
    let job = step.id.as_str();
    for place in &step.end_waiting {
        sqlx::query("DELETE FROM job_waiting WHERE job = ? AND place_ms = ? AND place_row = ?")
            .bind(job)
            .bind(place.at_ms)
            .bind(place.row)
            .execute(&mut *connection)
            .await?;
    }
    for (key, place) in &step.begin_waiting {
        sqlx::query(
            "INSERT INTO job_waiting (job, place_ms, place_row, topic, id) VALUES (?, ?, ?, ?, ?)
             ON CONFLICT DO NOTHING",
        )
        .bind(job)
        .bind(place.at_ms)
        .bind(place.row)
        .bind(key.topic())
        .bind(key.id())
        .execute(&mut *connection)
        .await?;
    }
    let mut new = counted(&account.unchanged);
    if account.ended_before > 0 {
        new.insert(JobReason::EndedBefore, account.ended_before);
    }
    if new.is_empty() {
        return Ok(());
    }
    let before = find_reasons(connection, &step.id).await?;
    for result in [JobResult::Skipped, JobResult::Failed] {
        for (number, one) in numbered(&account.unchanged, result, with_turn(&before, result)) {
            sqlx::query(
                "INSERT INTO job_unchanged (job, result, number, topic, id, reason, detail, at_ms)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            )
            .bind(job)
            .bind(result.as_str())
            .bind(count_of(number))
            .bind(one.key.topic())
            .bind(one.key.id())
            .bind(one.reason.as_str())
            .bind(Some(&*one.detail).filter(|detail| !detail.is_empty()))
            .bind(step.at_ms)
            .execute(&mut *connection)
            .await?;
        }
    }
    for (reason, many) in new {
        sqlx::query(
            "INSERT INTO job_reasons (job, result, reason, many) VALUES (?, ?, ?, ?)
             ON CONFLICT (job, result, reason) DO UPDATE SET many = many + excluded.many",
        )
        .bind(job)
        .bind(reason.result().as_str())
        .bind(reason.as_str())
        .bind(count_of(many))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// See [`crate::journal::JournalJobs::job_unchanged`].
pub(super) async fn page(
    readers: &SqlitePool,
    id: &JobId,
    result: JobResult,
    after: u64,
    limit: usize,
) -> Result<Vec<ListedUnchanged>, SqliteFailure> {
    let found = sqlx::query(
        "SELECT number, topic, id, reason, detail, at_ms FROM job_unchanged
         WHERE job = ? AND result = ? AND number > ? ORDER BY number LIMIT ?",
    )
    .bind(id.as_str())
    .bind(result.as_str())
    .bind(count_of(after))
    .bind(limit_of(limit))
    .fetch_all(readers)
    .await?;
    Ok(Fields::unchanged(&found)?)
}

/// See [`crate::journal::JournalJobs::job_reasons`].
pub(super) async fn reasons(
    readers: &SqlitePool,
    id: &JobId,
) -> Result<ReasonCounts, SqliteFailure> {
    let mut reading = readers.acquire().await?;
    find_reasons(&mut reading, id).await
}

async fn find_reasons(
    connection: &mut SqliteConnection,
    id: &JobId,
) -> Result<ReasonCounts, SqliteFailure> {
    let found = sqlx::query("SELECT reason, many FROM job_reasons WHERE job = ?")
        .bind(id.as_str())
        .fetch_all(connection)
        .await?;
    Ok(Fields::reason_counts(&found)?)
}

/// Forgets jobs that ended before an instant, the oldest ones first: at most `most`, and a limited number of rows of their
/// lists. A job goes with the last row of its lists, so what is left is forgotten the next time. Returns the number of those
/// rows.
pub(super) async fn forget_jobs(
    connection: &mut SqliteConnection,
    before_ms: i64,
    most: i64,
) -> Result<u64, SqliteFailure> {
    if most <= 0 {
        return Ok(0);
    }
    let rows = sqlx::query(concat!(
        "DELETE FROM job_unchanged WHERE (job, result, number) IN (
            SELECT job, result, number FROM job_unchanged WHERE job IN (",
        ended_jobs!(),
        ") LIMIT ?3)"
    ))
    .bind(before_ms)
    .bind(most)
    .bind(limit_of(MOST_FORGOTTEN))
    .execute(&mut *connection)
    .await?;
    // With them, SQLite deletes their numbers by reason (`ON DELETE CASCADE`).
    sqlx::query(concat!(
        "DELETE FROM jobs WHERE id IN (",
        ended_jobs!(),
        ") AND NOT EXISTS (SELECT 1 FROM job_unchanged WHERE job = jobs.id)"
    ))
    .bind(before_ms)
    .bind(most)
    .execute(connection)
    .await?;
    Ok(rows.rows_affected())
}
