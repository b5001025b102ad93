//! What is pending and due later, by destination.
//!
//! A row of `statuses` has its destination in `later_lane` while it is pending and due later
//! ([`LATER_MS`]), and an index has nothing else. Every statement that writes a status
//! writes that column too. Servers of a version before it do not, so what they wrote is filled in afterwards.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::statements::each;
use crate::domain::lane::Lane;
use crate::domain::later::{LATER_MS, LaneAfter, LaterCount};
use crate::journal::Cursor;
use crate::journal::sql_values::limit_of;
use async_trait::async_trait;
use sqlx::postgres::{PgBindIterExt as _, PgConnection};

// The statements here, in `advance.rs` and in `register.rs` have the number as text.
const _: () = assert!(LATER_MS == 10_000);

/// Goes from each lane to the next one, however many rows a lane has.
const LANES: &str = "
    WITH RECURSIVE found (lane, place) AS (
        (
            SELECT later_lane, 1 FROM statuses
            WHERE state = 'scheduled' AND later_lane > $1 ORDER BY later_lane LIMIT 1
        )
        UNION ALL
        SELECT next.lane, found.place + 1
        FROM found CROSS JOIN LATERAL (
            SELECT later_lane AS lane FROM statuses
            WHERE state = 'scheduled' AND later_lane > found.lane ORDER BY later_lane LIMIT 1
        ) AS next
        WHERE found.place < $2
    )
    SELECT lane FROM found";

const COUNT: &str = "
    SELECT counted.many
    FROM unnest($1::TEXT[], $2::BIGINT[]) WITH ORDINALITY AS g (lane, after_ms, place)
    CROSS JOIN LATERAL (
        SELECT count(*) AS many FROM (
            SELECT 1 FROM statuses AS s
            WHERE s.state = 'scheduled' AND s.later_lane = g.lane AND s.next_due_ms > g.after_ms LIMIT $3
        ) AS found
    ) AS counted
    ORDER BY g.place";

/// The next pending rows by their due time. The third column is the destination of one that lacks it.
const PAGE: &str = "
    SELECT
        s.next_due_ms, s.notification,
        CASE WHEN s.later_lane IS NULL AND s.next_due_ms > (s.notification >> 21) + 10000 THEN (
            SELECT n.lane FROM notifications AS n WHERE n.row_id = s.notification
        ) END
    FROM (
        SELECT notification, next_due_ms, later_lane FROM statuses
        WHERE state = 'scheduled' AND (next_due_ms, notification) > ($1, $2)
        ORDER BY next_due_ms, notification LIMIT $3
    ) AS s
    ORDER BY s.next_due_ms, s.notification";

/// A row that has changed meanwhile was written by a statement that knows of the column, or will be filled in later.
const FILL_IN: &str = "
    UPDATE statuses AS s SET later_lane = g.lane
    FROM unnest($1::BIGINT[], $2::TEXT[], $3::BIGINT[]) AS g (row_id, lane, next_due_ms)
    WHERE s.notification = g.row_id AND s.notification = ANY($1)
        AND s.state = 'scheduled' AND s.next_due_ms = g.next_due_ms";

/// See [`crate::journal::JournalReads::later_lanes`].
pub(super) struct FindLaterLanes<'call> {
    pub(super) after: Option<&'call str>,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FindLaterLanes<'_> {
    type Reply = Vec<Lane>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<Lane>, PostgresFailure> {
        let found: Vec<String> = sqlx::query_scalar(LANES)
            .bind(self.after.unwrap_or_default())
            .bind(limit_of(self.limit))
            .fetch_all(connection)
            .await?;
        Ok(found.iter().map(|name| Lane::from_name(name)).collect())
    }
}

/// See [`crate::journal::JournalReads::count_later`].
pub(super) struct CountLater<'call> {
    pub(super) lanes: &'call [LaneAfter],
    pub(super) most: usize,
}

#[async_trait]
impl PostgresCall for CountLater<'_> {
    type Reply = Vec<LaterCount>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<LaterCount>, PostgresFailure> {
        let counts: Vec<i64> = sqlx::query_scalar(COUNT)
            .bind(each!(self.lanes, one => one.lane.as_str()))
            .bind(each!(self.lanes, one => one.after_ms))
            .bind(limit_of(self.most))
            .fetch_all(connection)
            .await?;
        let counts = counts.into_iter().map(i64::unsigned_abs);
        Ok(counts.map(|many| LaterCount::of(many, self.most)).collect())
    }
}

/// See [`crate::journal::JournalMaintenance::fill_in_later`]. It may be executed twice.
pub(super) struct FillInLater {
    pub(super) cursor: Cursor,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FillInLater {
    type Reply = (u64, Option<Cursor>);

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let page: Vec<(i64, i64, Option<String>)> = sqlx::query_as(PAGE)
            .bind(self.cursor.at_ms)
            .bind(self.cursor.row)
            .bind(limit_of(self.limit))
            .fetch_all(&mut *connection)
            .await?;
        let last = page.last().filter(|_| page.len() >= self.limit);
        let next = last.map(|(at_ms, row, _)| Cursor {
            at_ms: *at_ms,
            row: *row,
        });
        let mut lacking: Vec<_> = page
            .into_iter()
            .filter_map(|(at_ms, row, lane)| Some((row, lane?, at_ms)))
            .collect();
        if lacking.is_empty() {
            return Ok((0, next));
        }
        // All calls that lock several rows do it in this order.
        lacking.sort_unstable_by_key(|(row, ..)| *row);
        let filled = sqlx::query(FILL_IN)
            .bind(each!(lacking, one => one.0))
            .bind(each!(lacking, one => one.1.as_str()))
            .bind(each!(lacking, one => one.2))
            .execute(connection)
            .await?;
        Ok((filled.rows_affected(), next))
    }
}
