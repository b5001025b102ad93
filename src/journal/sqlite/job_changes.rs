//! The notifications that a job has changed, found by their histories.

use super::error::SqliteFailure;
use crate::domain::job::JobId;
use crate::journal::Cursor;
use crate::journal::jobs::{JobPage, MOST_SCANNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use sqlx::SqlitePool;

/// The changes by hand after a place, in the order of their index.
macro_rules! by_hand {
    () => {
        "FROM transitions INDEXED BY changed_by_hand
         WHERE kind IN ('cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled')
            AND (at_ms, row_id) > (?1, ?2)
         ORDER BY at_ms, row_id"
    };
}

/// See [`crate::journal::JournalJobs::job_changes`].
pub(super) async fn page(
    readers: &SqlitePool,
    id: &JobId,
    after: Cursor,
    limit: usize,
) -> Result<JobPage, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let found = sqlx::query(concat!(
        "SELECT t.at_ms, t.row_id, n.topic, n.id
         FROM (SELECT * ",
        by_hand!(),
        " LIMIT ?3) AS t
         CROSS JOIN notifications AS n ON n.row_id = t.notification
         WHERE t.detail = ?4 OR instr(t.detail, ?4 || ':') = 1
         ORDER BY t.at_ms, t.row_id LIMIT ?5"
    ))
    .bind(after.at_ms)
    .bind(after.row)
    .bind(limit_of(MOST_SCANNED))
    .bind(id.in_history())
    .bind(limit_of(limit))
    .fetch_all(&mut *reading)
    .await?;
    let found = Fields::job_keys(&found)?;
    if found.len() >= limit {
        return Ok(JobPage::of(found, limit, None));
    }
    let scan_end = sqlx::query(concat!(
        "SELECT at_ms, row_id ",
        by_hand!(),
        " LIMIT 1 OFFSET ?3"
    ))
    .bind(after.at_ms)
    .bind(after.row)
    .bind(limit_of(MOST_SCANNED - 1))
    .fetch_optional(&mut *reading)
    .await?;
    let scan_end = scan_end.map(|row| Fields::of(&row).cursor()).transpose()?;
    Ok(JobPage::of(found, limit, scan_end))
}
