//! What the steps of jobs have not changed, and what waits for its turn.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::statements::storable;
use crate::domain::job::JobId;
use crate::domain::job_result::{JobReason, JobResult};
use crate::journal::job_results::{ListedUnchanged, ReasonCounts, counted, numbered, with_turn};
use crate::journal::jobs::{JobStep, MOST_FORGOTTEN, StepAccount};
use crate::journal::rows::Fields;
use crate::journal::sql_values::{count_of, limit_of};
use async_trait::async_trait;
use sqlx::postgres::PgConnection;

/// The jobs that have ended before `$1`, the oldest `$2` of them.
macro_rules! ended_jobs {
    () => {
        "SELECT id FROM jobs WHERE ended_ms IS NOT NULL AND ended_ms < $1 ORDER BY ended_ms LIMIT $2"
    };
}

/// Keeps what a step has not changed, and which notifications wait from now on. It belongs to the transaction of the step,
/// which has locked the row of the job.
pub(super) async fn keep(
    connection: &mut PgConnection,
    step: &JobStep,
    account: &StepAccount,
) -> Result<(), PostgresFailure> {
    keep_waiting(connection, step).await?;
    let mut new = counted(&account.unchanged);
    if account.ended_before > 0 {
        new.insert(JobReason::EndedBefore, account.ended_before);
    }
    if new.is_empty() {
        return Ok(());
    }
    let before = find_reasons(connection, &step.id).await?;
    for result in [JobResult::Skipped, JobResult::Failed] {
        let listed = numbered(&account.unchanged, result, with_turn(&before, result));
        if listed.is_empty() {
            continue;
        }
        let (mut numbers, mut topics, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let (mut reasons, mut details) = (Vec::new(), Vec::new());
        for (number, one) in listed {
            numbers.push(count_of(number));
            topics.push(one.key.topic());
            ids.push(one.key.id());
            reasons.push(one.reason.as_str());
            details.push(storable(&one.detail).into_owned());
        }
        sqlx::query(
            "INSERT INTO job_unchanged (job, result, number, topic, id, reason, detail, at_ms)
             SELECT $1, $2, number, topic, id, reason, nullif(detail, ''), $3
             FROM unnest($4::BIGINT[], $5::TEXT[], $6::TEXT[], $7::TEXT[], $8::TEXT[])
                AS g (number, topic, id, reason, detail)",
        )
        .bind(step.id.as_str())
        .bind(result.as_str())
        .bind(step.at_ms)
        .bind(numbers)
        .bind(topics)
        .bind(ids)
        .bind(reasons)
        .bind(details)
        .execute(&mut *connection)
        .await?;
    }
    let of = |value: fn(&JobReason) -> &'static str| new.keys().map(value).collect::<Vec<_>>();
    sqlx::query(
        "INSERT INTO job_reasons (job, result, reason, many)
         SELECT $1, result, reason, many FROM unnest($2::TEXT[], $3::TEXT[], $4::BIGINT[]) AS g (result, reason, many)
         ON CONFLICT (job, result, reason) DO UPDATE SET many = job_reasons.many + excluded.many",
    )
    .bind(step.id.as_str())
    .bind(of(|reason| reason.result().as_str()))
    .bind(of(|reason| reason.as_str()))
    .bind(new.values().map(|many| count_of(*many)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn keep_waiting(
    connection: &mut PgConnection,
    step: &JobStep,
) -> Result<(), PostgresFailure> {
    if !step.end_waiting.is_empty() {
        let places = &step.end_waiting;
        sqlx::query(
            "DELETE FROM job_waiting AS w USING unnest($2::BIGINT[], $3::BIGINT[]) AS g (at_ms, row)
             WHERE w.job = $1 AND w.place_ms = g.at_ms AND w.place_row = g.row",
        )
        .bind(step.id.as_str())
        .bind(places.iter().map(|place| place.at_ms).collect::<Vec<_>>())
        .bind(places.iter().map(|place| place.row).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?;
    }
    let new = &step.begin_waiting;
    if new.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO job_waiting (job, place_ms, place_row, topic, id)
         SELECT $1, * FROM unnest($2::BIGINT[], $3::BIGINT[], $4::TEXT[], $5::TEXT[])
         ON CONFLICT DO NOTHING",
    )
    .bind(step.id.as_str())
    .bind(new.iter().map(|(_, place)| place.at_ms).collect::<Vec<_>>())
    .bind(new.iter().map(|(_, place)| place.row).collect::<Vec<_>>())
    .bind(new.iter().map(|(key, _)| key.topic()).collect::<Vec<_>>())
    .bind(new.iter().map(|(key, _)| key.id()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// See [`crate::journal::JournalJobs::job_unchanged`].
pub(super) struct ListUnchanged<'call> {
    pub(super) id: &'call JobId,
    pub(super) result: JobResult,
    pub(super) after: u64,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for ListUnchanged<'_> {
    type Reply = Vec<ListedUnchanged>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let found = sqlx::query(
            "SELECT number, topic, id, reason, detail, at_ms FROM job_unchanged
             WHERE job = $1 AND result = $2 AND number > $3 ORDER BY number LIMIT $4",
        )
        .bind(self.id.as_str())
        .bind(self.result.as_str())
        .bind(count_of(self.after))
        .bind(limit_of(self.limit))
        .fetch_all(connection)
        .await?;
        Ok(Fields::unchanged(&found)?)
    }
}

/// See [`crate::journal::JournalJobs::job_reasons`].
pub(super) struct CountReasons<'call>(pub(super) &'call JobId);

#[async_trait]
impl PostgresCall for CountReasons<'_> {
    type Reply = ReasonCounts;

    async fn run(&self, connection: &mut PgConnection) -> Result<ReasonCounts, PostgresFailure> {
        find_reasons(connection, self.0).await
    }
}

async fn find_reasons(
    connection: &mut PgConnection,
    id: &JobId,
) -> Result<ReasonCounts, PostgresFailure> {
    let found = sqlx::query("SELECT reason, many FROM job_reasons WHERE job = $1")
        .bind(id.as_str())
        .fetch_all(connection)
        .await?;
    Ok(Fields::reason_counts(&found)?)
}

/// Forgets jobs that ended before an instant, the oldest ones first: at most `most`, and a limited number of rows of their
/// lists. A job goes with the last row of its lists, so what is left is forgotten the next time. Returns the number of those
/// rows.
pub(super) async fn forget_jobs(
    connection: &mut PgConnection,
    before_ms: i64,
    most: i64,
) -> Result<u64, PostgresFailure> {
    if most <= 0 {
        return Ok(0);
    }
    // What another server forgets at the same time is left to it.
    let rows = sqlx::query(concat!(
        "DELETE FROM job_unchanged WHERE (job, result, number) IN (
            SELECT job, result, number FROM job_unchanged WHERE job IN (",
        ended_jobs!(),
        ") ORDER BY job, result, number LIMIT $3 FOR UPDATE SKIP LOCKED)"
    ))
    .bind(before_ms)
    .bind(most)
    .bind(limit_of(MOST_FORGOTTEN))
    .execute(&mut *connection)
    .await?;
    // With them, PostgreSQL deletes their numbers by reason (`ON DELETE CASCADE`).
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
