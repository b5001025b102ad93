//! The orders to jobs.

use super::audit_log;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use crate::domain::job::{JobId, JobOrder};
use crate::journal::job_rows::job_columns;
use crate::journal::jobs::JobOrdered;
use crate::journal::rows::Fields;
use crate::journal::{Actor, PersonAct};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// See [`crate::journal::JournalJobs::order_job`]. An order that ends the job is not repeated after its commit was sent: the second
/// try would be refused.
pub(super) struct ObeyOrder<'call> {
    pub(super) id: &'call JobId,
    pub(super) order: JobOrder,
    pub(super) actor: &'call Actor,
    pub(super) reason: &'call str,
    pub(super) at_ms: i64,
    pub(super) instance: &'call str,
}

#[async_trait]
impl PostgresCall for ObeyOrder<'_> {
    type Reply = JobOrdered;

    async fn run(&self, connection: &mut PgConnection) -> Result<JobOrdered, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        let found = sqlx::query(concat!(
            "SELECT ",
            job_columns!(),
            " FROM jobs WHERE id = $1 FOR UPDATE"
        ))
        .bind(self.id.as_str())
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(mut job) = found.map(|row| Fields::of(&row).job()).transpose()? else {
            transaction.rollback().await?;
            return Ok(JobOrdered::Missing);
        };
        let Some(state) = self.order.apply(job.state) else {
            transaction.rollback().await?;
            return Ok(JobOrdered::Refused(Box::new(job)));
        };
        if state != job.state {
            let act = PersonAct::of_job_order(&job, self.order, self.actor, self.at_ms)
                .for_reason(self.reason);
            audit_log::keep(&mut transaction, self.instance, &act).await?;
            job.state = state;
            job.ended_ms = state.has_ended().then_some(self.at_ms);
            sqlx::query(
                "UPDATE jobs SET state = $1, ended_ms = $2, leased_until_ms = 0 WHERE id = $3",
            )
            .bind(state.as_str())
            .bind(job.ended_ms)
            .bind(self.id.as_str())
            .execute(&mut *transaction)
            .await?;
        }
        let committed = transaction.commit().await;
        committed.map_err(|error| PostgresFailure::from(error).in_doubt())?;
        Ok(JobOrdered::Done(Box::new(job)))
    }
}
