//! The notifications of a lane that a job concerns: pages of them, and their number.

use super::error::SqliteFailure;
use crate::domain::job::PendingOfLane;
use crate::journal::Cursor;
use crate::journal::job_rows::unanswered;
use crate::journal::jobs::{JobMatches, JobPage, MOST_SCANNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use sqlx::{SqliteConnection, SqlitePool};

/// The place before all notifications.
pub(super) const BEGINNING: Cursor = Cursor {
    at_ms: i64::MIN,
    row: i64::MIN,
};

/// The pending notifications that a page reads, oldest registration first.
macro_rules! pending {
    () => {
        "FROM notifications INDEXED BY registered_scheduled
         WHERE state = 'scheduled' AND (registered_ms, row_id) > (?1, ?2) AND registered_ms <= ?3
         ORDER BY registered_ms, row_id"
    };
}

/// Those of them that a job concerns.
macro_rules! concerned {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM (SELECT * ",
            pending!(),
            " LIMIT ?4) AS n
              WHERE n.lane = ?5 AND n.next_due_ms > ?6
                AND NOT EXISTS (SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id)
                AND (?7 IS NULL OR ifnull((
                    SELECT t.started_ms >= ?7 AND t.outcome IN ",
            unanswered!(),
            "       FROM attempts AS t WHERE t.notification = n.row_id ORDER BY t.row_id DESC LIMIT 1
                ), FALSE)) "
        )
    };
}

/// See [`crate::journal::JournalJobs::job_page`].
pub(super) async fn job_page(
    readers: &SqlitePool,
    selection: &PendingOfLane,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<JobPage, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let after = cursor.unwrap_or(BEGINNING);
    let found = sqlx::query(concat!(
        concerned!("n.registered_ms, n.row_id, n.topic, n.id"),
        "ORDER BY n.registered_ms, n.row_id LIMIT ?8"
    ))
    .bind(after.at_ms)
    .bind(after.row)
    .bind(selection.registered_until_ms)
    .bind(limit_of(MOST_SCANNED))
    .bind(selection.lane.as_str())
    .bind(selection.due_after_ms)
    .bind(selection.failed_since_ms)
    .bind(limit_of(limit))
    .fetch_all(&mut *reading)
    .await?;
    let found = Fields::job_keys(&found)?;
    let scan_end = scan_end(&mut reading, selection, after).await?;
    Ok(JobPage::of(found, limit, scan_end))
}

/// See [`crate::journal::JournalJobs::job_matches`].
pub(super) async fn job_matches(
    readers: &SqlitePool,
    selection: &PendingOfLane,
    cursor: Option<Cursor>,
) -> Result<JobMatches, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let after = cursor.unwrap_or(BEGINNING);
    let many: i64 = sqlx::query_scalar(concerned!("count(*)"))
        .bind(after.at_ms)
        .bind(after.row)
        .bind(selection.registered_until_ms)
        .bind(limit_of(MOST_SCANNED))
        .bind(selection.lane.as_str())
        .bind(selection.due_after_ms)
        .bind(selection.failed_since_ms)
        .fetch_one(&mut *reading)
        .await?;
    let scan_end = scan_end(&mut reading, selection, after).await?;
    Ok(JobMatches::of((many, 0, 0), scan_end))
}

/// The last row that may be read for a page; `None` if there are no more.
async fn scan_end(
    connection: &mut SqliteConnection,
    selection: &PendingOfLane,
    after: Cursor,
) -> Result<Option<Cursor>, SqliteFailure> {
    let found: Option<(i64, i64)> = sqlx::query_as(concat!(
        "SELECT registered_ms, row_id ",
        pending!(),
        " LIMIT 1 OFFSET ?4"
    ))
    .bind(after.at_ms)
    .bind(after.row)
    .bind(selection.registered_until_ms)
    .bind(limit_of(MOST_SCANNED - 1))
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(at_ms, row)| Cursor { at_ms, row }))
}
