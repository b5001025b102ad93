//! The notifications of a lane that a job concerns: pages of them, and their number.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::notification_of;
use super::register::ARRIVAL_BITS;
use super::session::HISTORY_AS_OF_NOW;
use crate::domain::job::PendingOfLane;
use crate::journal::Cursor;
use crate::journal::job_rows::unanswered;
use crate::journal::jobs::{JobMatches, JobPage, MOST_SCANNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// The pending notifications that a page reads, oldest registration first: their row numbers have this order.
macro_rules! pending {
    () => {
        "FROM statuses WHERE state = 'scheduled' AND notification > $1 AND notification < $2 ORDER BY notification"
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
            " LIMIT $3) AS s CROSS JOIN LATERAL ",
            notification_of!("s.notification"),
            " WHERE n.lane = $4 AND s.next_due_ms > $5
                AND NOT EXISTS (SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id)
                AND ($6::BIGINT IS NULL OR coalesce((
                    SELECT t.started_ms >= $6 AND t.outcome IN ",
            unanswered!(),
            "       FROM attempts AS t WHERE t.notification = s.notification
                    ORDER BY t.notification DESC, t.series DESC, t.number DESC, t.started_ms DESC, t.outcome DESC
                    LIMIT 1
                ), FALSE)) "
        )
    };
}

/// See [`crate::journal::JournalJobs::job_page`].
pub(super) struct FindJobPage<'call> {
    pub(super) selection: &'call PendingOfLane,
    pub(super) cursor: Option<Cursor>,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FindJobPage<'_> {
    type Reply = JobPage;

    async fn run(&self, connection: &mut PgConnection) -> Result<JobPage, PostgresFailure> {
        let Self {
            selection, limit, ..
        } = self;
        let after = self.cursor.map_or(i64::MIN, |cursor| cursor.row);
        let mut reading = connection.begin_with(HISTORY_AS_OF_NOW).await?;
        let found = sqlx::query(concat!(
            concerned!("n.registered_ms, n.row_id, n.topic, n.id"),
            "ORDER BY s.notification LIMIT $7"
        ))
        .bind(after)
        .bind(end_of(selection))
        .bind(limit_of(MOST_SCANNED))
        .bind(selection.lane.as_str())
        .bind(selection.due_after_ms)
        .bind(selection.failed_since_ms)
        .bind(limit_of(*limit))
        .fetch_all(&mut *reading)
        .await?;
        let found = Fields::job_keys(&found)?;
        let scan_end = scan_end(&mut reading, selection, after).await?;
        reading.rollback().await?;
        Ok(JobPage::of(found, *limit, scan_end))
    }
}

/// See [`crate::journal::JournalJobs::job_matches`].
pub(super) struct CountMatches<'call> {
    pub(super) selection: &'call PendingOfLane,
    pub(super) cursor: Option<Cursor>,
}

#[async_trait]
impl PostgresCall for CountMatches<'_> {
    type Reply = JobMatches;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let selection = self.selection;
        let after = self.cursor.map_or(i64::MIN, |cursor| cursor.row);
        let mut reading = connection.begin_with(HISTORY_AS_OF_NOW).await?;
        let many: i64 = sqlx::query_scalar(concerned!("count(*)"))
            .bind(after)
            .bind(end_of(selection))
            .bind(limit_of(MOST_SCANNED))
            .bind(selection.lane.as_str())
            .bind(selection.due_after_ms)
            .bind(selection.failed_since_ms)
            .fetch_one(&mut *reading)
            .await?;
        let scan_end = scan_end(&mut reading, selection, after).await?;
        reading.rollback().await?;
        Ok(JobMatches::of((many, 0, 0), scan_end))
    }
}

/// The row number that follows on those of the selection.
fn end_of(selection: &PendingOfLane) -> i64 {
    let after_ms = selection.registered_until_ms.saturating_add(1);
    after_ms.saturating_mul(1 << ARRIVAL_BITS)
}

/// The last row that may be read for a page; `None` if there are no more.
async fn scan_end(
    connection: &mut PgConnection,
    selection: &PendingOfLane,
    after: i64,
) -> Result<Option<Cursor>, PostgresFailure> {
    let found: Option<i64> = sqlx::query_scalar(concat!(
        "SELECT notification ",
        pending!(),
        " LIMIT 1 OFFSET $3"
    ))
    .bind(after)
    .bind(end_of(selection))
    .bind(limit_of(MOST_SCANNED - 1))
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|row| Cursor {
        at_ms: row >> ARRIVAL_BITS,
        row,
    }))
}
