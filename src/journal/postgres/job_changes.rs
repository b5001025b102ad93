//! The notifications that a job has changed, found by their histories.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::session::HISTORY_AS_OF_NOW;
use crate::domain::job::JobId;
use crate::journal::Cursor;
use crate::journal::jobs::{JobPage, MOST_SCANNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// The changes by hand after a place, in the order of their index.
macro_rules! by_hand {
    () => {
        "FROM transitions
         WHERE kind IN ('cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled')
            AND (at_ms, row_id) > ($1, $2)
         ORDER BY at_ms, row_id"
    };
}

/// See [`crate::journal::JournalJobs::job_changes`].
pub(super) struct FindJobChanges<'call> {
    pub(super) id: &'call JobId,
    pub(super) after: Cursor,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FindJobChanges<'_> {
    type Reply = JobPage;

    async fn run(&self, connection: &mut PgConnection) -> Result<JobPage, PostgresFailure> {
        let mut reading = connection.begin_with(HISTORY_AS_OF_NOW).await?;
        let found = sqlx::query(concat!(
            "SELECT t.at_ms, t.row_id, n.topic, n.id
             FROM (SELECT * ",
            by_hand!(),
            " LIMIT $3) AS t
             CROSS JOIN LATERAL (
                SELECT topic, id FROM notifications WHERE row_id = t.notification OFFSET 0
             ) AS n
             WHERE t.detail = $4 OR strpos(t.detail, $4 || ':') = 1
             ORDER BY t.at_ms, t.row_id LIMIT $5"
        ))
        .bind(self.after.at_ms)
        .bind(self.after.row)
        .bind(limit_of(MOST_SCANNED))
        .bind(self.id.in_history())
        .bind(limit_of(self.limit))
        .fetch_all(&mut *reading)
        .await?;
        let found = Fields::job_keys(&found)?;
        if found.len() >= self.limit {
            reading.rollback().await?;
            return Ok(JobPage::of(found, self.limit, None));
        }
        let scan_end = sqlx::query(concat!(
            "SELECT at_ms, row_id ",
            by_hand!(),
            " LIMIT 1 OFFSET $3"
        ))
        .bind(self.after.at_ms)
        .bind(self.after.row)
        .bind(limit_of(MOST_SCANNED - 1))
        .fetch_optional(&mut *reading)
        .await?;
        reading.rollback().await?;
        let scan_end = scan_end.map(|row| Fields::of(&row).cursor()).transpose()?;
        Ok(JobPage::of(found, self.limit, scan_end))
    }
}
