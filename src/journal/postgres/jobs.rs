//! Jobs: keeping and finding them, and the orders that change them.

use super::PostgresJournal;
use super::audit_log;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::filtered_pages::{CountFiltered, FindFilteredPage, FindTrial};
use super::job_changes::FindJobChanges;
use super::job_leases::{DoStep, KeepJob, RetakeJob, TakeJob};
use super::job_orders::ObeyOrder;
use super::job_pages::{CountMatches, FindJobPage};
use super::job_results::{self, CountReasons, ListUnchanged};
use super::statements::storable;
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
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

#[async_trait]
impl JournalJobs for PostgresJournal {
    async fn add_job(&self, job: &BulkJob) -> Result<JobAdded, JournalError> {
        let instance = &self.instance;
        self.connections.write(&AddJob { job, instance }).await
    }

    async fn job_obstacle(&self, job: &BulkJob) -> Result<Option<JobAdded>, JournalError> {
        self.connections.read(&FindObstacle(job)).await
    }

    async fn job(&self, id: &JobId) -> Result<Option<BulkJob>, JournalError> {
        self.connections.read(&FindJob(id)).await
    }

    async fn jobs(
        &self,
        state: Option<JobState>,
        before: Option<&JobId>,
        limit: usize,
    ) -> Result<Vec<BulkJob>, JournalError> {
        let call = ListJobs {
            state,
            before,
            limit,
        };
        self.connections.read(&call).await
    }

    async fn order_job(
        &self,
        id: &JobId,
        order: JobOrder,
        actor: &Actor,
        reason: &str,
        at_ms: i64,
    ) -> Result<JobOrdered, JournalError> {
        let call = ObeyOrder {
            id,
            order,
            actor,
            reason,
            at_ms,
            instance: &self.instance,
        };
        self.connections.write(&call).await
    }

    async fn take_job(&self, lease_ms: i64) -> Result<Option<TakenJob>, JournalError> {
        self.connections.write(&TakeJob { lease_ms }).await
    }

    async fn keep_job(&self, id: &JobId, fence: i64, lease_ms: i64) -> Result<bool, JournalError> {
        let call = KeepJob {
            id,
            fence,
            lease_ms,
        };
        self.connections.write(&call).await
    }

    async fn retake_job(
        &self,
        id: &JobId,
        fence: i64,
        lease_ms: i64,
    ) -> Result<Option<TakenJob>, JournalError> {
        let call = RetakeJob {
            id,
            fence,
            lease_ms,
        };
        self.connections.write(&call).await
    }

    async fn step_job(&self, step: &JobStep) -> Result<JobStepped, JournalError> {
        let instance = &self.instance;
        self.connections.write(&DoStep { step, instance }).await
    }

    async fn job_page(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError> {
        let (state, selection) = match selection {
            JobSelection::OfLane(selection) => {
                let call = FindJobPage {
                    selection,
                    cursor,
                    limit,
                };
                return self.connections.read(&call).await;
            }
            JobSelection::Dead(selection) => (FilteredState::Dead, selection),
            JobSelection::Pending(selection) => (FilteredState::Pending, selection),
        };
        let call = FindFilteredPage {
            state,
            selection,
            cursor,
            limit,
        };
        self.connections.read(&call).await
    }

    async fn job_matches(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
    ) -> Result<JobMatches, JournalError> {
        let (state, selection) = match selection {
            JobSelection::OfLane(selection) => {
                let call = CountMatches { selection, cursor };
                return self.connections.read(&call).await;
            }
            JobSelection::Dead(selection) => (FilteredState::Dead, selection),
            JobSelection::Pending(selection) => (FilteredState::Pending, selection),
        };
        let call = CountFiltered {
            state,
            selection,
            cursor,
        };
        self.connections.read(&call).await
    }

    async fn job_changes(
        &self,
        id: &JobId,
        since_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError> {
        let after = JobPage::first_after(since_ms, cursor);
        self.connections
            .read(&FindJobChanges { id, after, limit })
            .await
    }

    async fn job_trial(
        &self,
        id: &JobId,
        since_ms: i64,
        most: usize,
    ) -> Result<JobTrial, JournalError> {
        let call = FindTrial { id, since_ms, most };
        self.connections.read(&call).await
    }

    async fn job_unchanged(
        &self,
        id: &JobId,
        result: JobResult,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ListedUnchanged>, JournalError> {
        let call = ListUnchanged {
            id,
            result,
            after,
            limit,
        };
        self.connections.read(&call).await
    }

    async fn job_reasons(&self, id: &JobId) -> Result<ReasonCounts, JournalError> {
        self.connections.read(&CountReasons(id)).await
    }
}

/// See [`JournalJobs::add_job`]. It may be executed twice: the second time finds the job.
struct AddJob<'call> {
    job: &'call BulkJob,
    instance: &'call Arc<str>,
}

#[async_trait]
impl PostgresCall for AddJob<'_> {
    type Reply = JobAdded;

    async fn run(&self, connection: &mut PgConnection) -> Result<JobAdded, PostgresFailure> {
        let Self { job, instance } = self;
        if let Some(obstacle) = obstacle(connection, job).await? {
            return Ok(obstacle);
        }
        let mut transaction = connection.begin().await?;
        // If servers add a job of a lane or of a filter at the same time, the unique index lets one of them pass.
        let inserted = sqlx::query(
            "INSERT INTO jobs (id, kind, state, lane, failed_since_ms, matched, done, skipped, failed, rate, actor,
                               reason, problem, created_ms, ended_ms, instance, filter)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
             ON CONFLICT DO NOTHING",
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
        .bind(storable(&job.reason))
        .bind(job.problem.as_deref().map(storable))
        .bind(job.created_ms)
        .bind(job.ended_ms)
        .bind(&***instance)
        .bind(job.filter.as_ref().map(JobFilter::to_stored))
        .execute(&mut *transaction)
        .await?;
        if inserted.rows_affected() == 1
            && let Some(act) = PersonAct::of_new_job(job)
        {
            audit_log::keep(&mut transaction, instance, &act).await?;
        }
        match find_kept(&mut transaction, job).await? {
            Some(JobAdded::Added) => {}
            Some(other) => {
                transaction.rollback().await?;
                return Ok(other);
            }
            None => {
                let ended = "another job of the lane or the filter has just ended".to_string();
                return Err(PostgresFailure::Conflict(ended));
            }
        }
        let all: i64 = sqlx::query_scalar("SELECT count(*) FROM jobs")
            .fetch_one(&mut *transaction)
            .await?;
        let too_many = all.saturating_sub(limit_of(MOST_JOBS_KEPT));
        job_results::forget_jobs(&mut transaction, i64::MAX, too_many).await?;
        transaction.commit().await?;
        Ok(JobAdded::Added)
    }
}

/// See [`JournalJobs::job_obstacle`].
struct FindObstacle<'call>(&'call BulkJob);

#[async_trait]
impl PostgresCall for FindObstacle<'_> {
    type Reply = Option<JobAdded>;

    async fn run(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Option<JobAdded>, PostgresFailure> {
        obstacle(connection, self.0).await
    }
}

async fn obstacle(
    connection: &mut PgConnection,
    job: &BulkJob,
) -> Result<Option<JobAdded>, PostgresFailure> {
    let found = find_kept(connection, job).await?;
    if found.is_some() || job.ended_ms.is_some() {
        return Ok(found);
    }
    let open: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM jobs WHERE ended_ms IS NULL AND (kind = $1) = ($2 = $1)",
    )
    .bind(JobKind::AfterOutage.as_str())
    .bind(job.kind.as_str())
    .fetch_one(connection)
    .await?;
    let is_full = open >= limit_of(job.kind.most_open());
    Ok(is_full.then_some(JobAdded::Full))
}

/// Whether the job is kept already, or another job of its lane or with its filter has not ended; `None` if neither.
async fn find_kept(
    connection: &mut PgConnection,
    job: &BulkJob,
) -> Result<Option<JobAdded>, PostgresFailure> {
    let found = sqlx::query(concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE id = $1 OR (lane = $2 AND ended_ms IS NULL)
            OR (kind = $3 AND filter = $4 AND ended_ms IS NULL)
          ORDER BY (id = $1) DESC LIMIT 1"
    ))
    .bind(job.id.as_str())
    .bind(job.lane.as_ref().map(|lane| lane.as_str()))
    .bind(job.kind.as_str())
    .bind(job.filter.as_ref().map(JobFilter::to_stored))
    .fetch_optional(connection)
    .await?;
    let found = found.map(|row| Fields::of(&row).job()).transpose()?;
    Ok(match found {
        Some(kept) if kept.id == job.id => Some(JobAdded::Added),
        Some(other) if job.ended_ms.is_none() => Some(JobAdded::refused_for(other)),
        Some(_) | None => None,
    })
}

struct FindJob<'call>(&'call JobId);

#[async_trait]
impl PostgresCall for FindJob<'_> {
    type Reply = Option<BulkJob>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Option<BulkJob>, PostgresFailure> {
        let found = sqlx::query(concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs WHERE id = $1"
        ))
        .bind(self.0.as_str())
        .fetch_optional(connection)
        .await?;
        Ok(found.map(|row| Fields::of(&row).job()).transpose()?)
    }
}

struct ListJobs<'call> {
    state: Option<JobState>,
    before: Option<&'call JobId>,
    limit: usize,
}

#[async_trait]
impl PostgresCall for ListJobs<'_> {
    type Reply = Vec<BulkJob>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<BulkJob>, PostgresFailure> {
        let mut listed = Vec::new();
        let mut before = self.before.map(|id| id.as_str().to_owned());
        while listed.len() < self.limit {
            let asked = (self.limit - listed.len()).max(FEWEST_LISTED);
            let found = sqlx::query(concat!(
                "SELECT ",
                job_columns!(),
                " FROM jobs WHERE ($1::TEXT IS NULL OR id < $1) AND ($2::TEXT IS NULL OR state = $2)
                  ORDER BY id DESC LIMIT $3"
            ))
            .bind(before.as_deref())
            .bind(self.state.map(JobState::as_str))
            .bind(limit_of(asked))
            .fetch_all(&mut *connection)
            .await?;
            listed.extend(found.iter().filter_map(Fields::job_or_logged));
            // Those that cannot be read are left out, and older ones come in their place.
            let Some(last) = found.last().filter(|_| found.len() == asked) else {
                break;
            };
            before = Some(Fields::of(last).take::<&str>()?.to_owned());
        }
        listed.truncate(self.limit);
        Ok(listed)
    }
}
