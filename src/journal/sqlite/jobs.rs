//! Jobs: keeping and finding them, and the orders that change them.

use super::SqliteJournal;
use super::audit_log;
use super::error::SqliteFailure;
use super::filtered_pages;
use super::job_changes;
use super::job_leases;
use super::job_pages::{job_matches, job_page};
use super::job_results;
use crate::domain::job::{
    BulkJob, JobId, JobKind, JobOrder, JobSelection, JobState, MOST_JOBS_KEPT,
};
use crate::domain::job_filter::JobFilter;
use crate::domain::job_result::JobResult;
use crate::journal::job_results::{ListedUnchanged, ReasonCounts};
use crate::journal::job_rows::job_columns;
use crate::journal::jobs::{
    FEWEST_LISTED, FilteredState, JobAdded, JobMatches, JobOrdered, JobPage, JobStep, JobStepped,
    JobTrial, JournalJobs, TakenJob,
};
use crate::journal::rows::Fields;
use crate::journal::sql_values::{count_of, limit_of};
use crate::journal::{Actor, Cursor, JournalError, PersonAct};
use async_trait::async_trait;
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;

#[async_trait]
impl JournalJobs for SqliteJournal {
    async fn add_job(&self, job: &BulkJob) -> Result<JobAdded, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let added = add(transaction.connection(), &self.instance, job).await?;
        transaction.commit().await?;
        Ok(added)
    }

    async fn job_obstacle(&self, job: &BulkJob) -> Result<Option<JobAdded>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(obstacle(&mut reading, job).await?)
    }

    async fn job(&self, id: &JobId) -> Result<Option<BulkJob>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(find(&mut reading, id).await?)
    }

    async fn jobs(
        &self,
        state: Option<JobState>,
        before: Option<&JobId>,
        limit: usize,
    ) -> Result<Vec<BulkJob>, JournalError> {
        Ok(list(&self.readers, state, before, limit).await?)
    }

    async fn order_job(
        &self,
        id: &JobId,
        order: JobOrder,
        actor: &Actor,
        reason: &str,
        at_ms: i64,
    ) -> Result<JobOrdered, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let by = (actor, reason, at_ms);
        let (ordered, act) = obey(transaction.connection(), id, order, by).await?;
        if let Some(act) = act {
            audit_log::keep(transaction.connection(), &self.instance, &act).await?;
        }
        transaction.commit().await?;
        Ok(ordered)
    }

    async fn take_job(&self, lease_ms: i64) -> Result<Option<TakenJob>, JournalError> {
        if !job_leases::is_one_free(&self.readers).await? {
            return Ok(None);
        }
        let mut transaction = self.writer()?.begin().await?;
        let taken = job_leases::take(transaction.connection(), lease_ms).await?;
        transaction.commit().await?;
        Ok(taken)
    }

    async fn keep_job(&self, id: &JobId, fence: i64, lease_ms: i64) -> Result<bool, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let kept = job_leases::keep(transaction.connection(), id, fence, lease_ms).await?;
        transaction.commit().await?;
        Ok(kept)
    }

    async fn retake_job(
        &self,
        id: &JobId,
        fence: i64,
        lease_ms: i64,
    ) -> Result<Option<TakenJob>, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let taken = job_leases::retake(transaction.connection(), id, fence, lease_ms).await?;
        transaction.commit().await?;
        Ok(taken)
    }

    async fn step_job(&self, step: &JobStep) -> Result<JobStepped, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let stepped = job_leases::do_step(transaction.connection(), &self.instance, step).await?;
        match stepped {
            JobStepped::Kept(_) => transaction.commit().await?,
            JobStepped::NotificationLost | JobStepped::JobLost => transaction.release().await?,
        }
        Ok(stepped)
    }

    async fn job_page(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError> {
        let readers = &self.readers;
        let (state, selection) = match selection {
            JobSelection::OfLane(selection) => {
                return Ok(job_page(readers, selection, cursor, limit).await?);
            }
            JobSelection::Dead(selection) => (FilteredState::Dead, selection),
            JobSelection::Pending(selection) => (FilteredState::Pending, selection),
        };
        Ok(filtered_pages::page(readers, state, selection, cursor, limit).await?)
    }

    async fn job_matches(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
    ) -> Result<JobMatches, JournalError> {
        let readers = &self.readers;
        let (state, selection) = match selection {
            JobSelection::OfLane(selection) => {
                return Ok(job_matches(readers, selection, cursor).await?);
            }
            JobSelection::Dead(selection) => (FilteredState::Dead, selection),
            JobSelection::Pending(selection) => (FilteredState::Pending, selection),
        };
        Ok(filtered_pages::matches(readers, state, selection, cursor).await?)
    }

    async fn job_changes(
        &self,
        id: &JobId,
        since_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError> {
        let after = JobPage::first_after(since_ms, cursor);
        Ok(job_changes::page(&self.readers, id, after, limit).await?)
    }

    async fn job_trial(
        &self,
        id: &JobId,
        since_ms: i64,
        most: usize,
    ) -> Result<JobTrial, JournalError> {
        Ok(filtered_pages::trial(&self.readers, id, since_ms, most).await?)
    }

    async fn job_unchanged(
        &self,
        id: &JobId,
        result: JobResult,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ListedUnchanged>, JournalError> {
        Ok(job_results::page(&self.readers, id, result, after, limit).await?)
    }

    async fn job_reasons(&self, id: &JobId) -> Result<ReasonCounts, JournalError> {
        Ok(job_results::reasons(&self.readers, id).await?)
    }
}

/// See [`JournalJobs::job_obstacle`].
async fn obstacle(
    connection: &mut SqliteConnection,
    job: &BulkJob,
) -> Result<Option<JobAdded>, SqliteFailure> {
    if find(connection, &job.id).await?.is_some() {
        return Ok(Some(JobAdded::Added));
    }
    if job.ended_ms.is_some() {
        return Ok(None);
    }
    let other = sqlx::query(concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs INDEXED BY jobs_open
          WHERE ended_ms IS NULL AND (lane = ?1 OR (kind = ?2 AND filter = ?3)) LIMIT 1"
    ))
    .bind(job.lane.as_ref().map(|lane| lane.as_str()))
    .bind(job.kind.as_str())
    .bind(job.filter.as_ref().map(JobFilter::to_stored))
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(row) = other {
        let other = Fields::of(&row).job()?;
        return Ok(Some(JobAdded::refused_for(other)));
    }
    let open: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM jobs INDEXED BY jobs_open WHERE ended_ms IS NULL AND (kind = ?1) = (?2 = ?1)",
    )
    .bind(JobKind::AfterOutage.as_str())
    .bind(job.kind.as_str())
    .fetch_one(&mut *connection)
    .await?;
    let is_full = open >= limit_of(job.kind.most_open());
    Ok(is_full.then_some(JobAdded::Full))
}

async fn add(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    job: &BulkJob,
) -> Result<JobAdded, SqliteFailure> {
    if let Some(obstacle) = obstacle(connection, job).await? {
        return Ok(obstacle);
    }
    sqlx::query(
        "INSERT INTO jobs (id, kind, state, lane, failed_since_ms, matched, done, skipped, failed, rate, actor, reason,
                           problem, created_ms, ended_ms, instance, filter)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(job.id.as_str())
    .bind(job.kind.as_str())
    .bind(job.state.as_str())
    .bind(job.lane.as_ref().map(|lane| lane.as_str()))
    .bind(job.failed_since_ms)
    .bind(count_of(job.counts.matched))
    .bind(count_of(job.counts.done))
    .bind(count_of(job.counts.skipped))
    .bind(count_of(job.counts.failed))
    .bind(i64::from(job.rate.to_stored()))
    .bind(&*job.actor)
    .bind(&*job.reason)
    .bind(job.problem.as_deref())
    .bind(job.created_ms)
    .bind(job.ended_ms)
    .bind(instance.clone())
    .bind(job.filter.as_ref().map(JobFilter::to_stored))
    .execute(&mut *connection)
    .await?;
    if let Some(act) = PersonAct::of_new_job(job) {
        audit_log::keep(connection, instance, &act).await?;
    }
    let all: i64 = sqlx::query_scalar("SELECT count(*) FROM jobs")
        .fetch_one(&mut *connection)
        .await?;
    let too_many = all.saturating_sub(limit_of(MOST_JOBS_KEPT));
    job_results::forget_jobs(connection, i64::MAX, too_many).await?;
    Ok(JobAdded::Added)
}

async fn find(
    connection: &mut SqliteConnection,
    id: &JobId,
) -> Result<Option<BulkJob>, SqliteFailure> {
    let found = sqlx::query(concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE id = ?"
    ))
    .bind(id.as_str())
    .fetch_optional(connection)
    .await?;
    let job = found.map(|row| Fields::of(&row).job());
    Ok(job.transpose()?)
}

async fn list(
    readers: &SqlitePool,
    state: Option<JobState>,
    before: Option<&JobId>,
    limit: usize,
) -> Result<Vec<BulkJob>, SqliteFailure> {
    let mut listed = Vec::new();
    let mut before = before.map(|id| id.as_str().to_owned());
    while listed.len() < limit {
        let asked = (limit - listed.len()).max(FEWEST_LISTED);
        let found = sqlx::query(concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs WHERE (?1 IS NULL OR id < ?1) AND (?2 IS NULL OR state = ?2) ORDER BY id DESC LIMIT ?3"
        ))
        .bind(before.as_deref())
        .bind(state.map(JobState::as_str))
        .bind(limit_of(asked))
        .fetch_all(readers)
        .await?;
        listed.extend(found.iter().filter_map(Fields::job_or_logged));
        // Those that cannot be read are left out, and older ones come in their place.
        let Some(last) = found.last().filter(|_| found.len() == asked) else {
            break;
        };
        before = Some(Fields::of(last).take::<&str>()?.to_owned());
    }
    listed.truncate(limit);
    Ok(listed)
}

async fn obey(
    connection: &mut SqliteConnection,
    id: &JobId,
    order: JobOrder,
    (actor, reason, at_ms): (&Actor, &str, i64),
) -> Result<(JobOrdered, Option<PersonAct>), SqliteFailure> {
    let Some(mut job) = find(connection, id).await? else {
        return Ok((JobOrdered::Missing, None));
    };
    let Some(state) = order.apply(job.state) else {
        return Ok((JobOrdered::Refused(Box::new(job)), None));
    };
    let mut act = None;
    if state != job.state {
        act = Some(PersonAct::of_job_order(&job, order, actor, at_ms).for_reason(reason));
        job.state = state;
        job.ended_ms = state.has_ended().then_some(at_ms);
        sqlx::query("UPDATE jobs SET state = ?, ended_ms = ?, leased_until_ms = 0 WHERE id = ?")
            .bind(state.as_str())
            .bind(job.ended_ms)
            .bind(id.as_str())
            .execute(connection)
            .await?;
    }
    Ok((JobOrdered::Done(Box::new(job)), act))
}
