//! The notifications of a filter that a job concerns: pages of them, and their number; and how those that a job replayed
//! first have fared.
//!
//! A page is a range of one index, from its older end. Conditions that the index does not cover are checked row by row,
//! for a limited number of rows.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::{mean_one_endpoint, notification_of};
use super::register::ARRIVAL_BITS;
use super::search::has_few;
use super::session::HISTORY_AS_OF_NOW;
use crate::domain::job::JobId;
use crate::domain::job_filter::FilteredSelection;
use crate::domain::state::Cause;
use crate::journal::Cursor;
use crate::journal::jobs::{FilteredState, JobMatches, JobPage, JobTrial, MOST_SCANNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::{Connection as _, Postgres};

// Pending ones are sorted by their row numbers, which have the order of the registrations. Both ranges have the same four
// values, so that one function binds them.
macro_rules! dead {
    () => {
        "FROM statuses
         WHERE state = 'dead' AND (ended_ms, notification) > ($1, $2) AND ended_ms < $3
         ORDER BY ended_ms, notification"
    };
}
macro_rules! pending {
    () => {
        "FROM statuses
         WHERE state = 'scheduled' AND $1::BIGINT IS NOT NULL AND notification > $2 AND notification < $3
         ORDER BY notification"
    };
}
// In no order, of a lane that has few notifications: no index has both the lane and the state. The lane is compared as in
// `search.rs`, so that only one index fits.
macro_rules! dead_of_lane {
    () => {
        "FROM (
            SELECT s.* FROM (
                SELECT row_id FROM notifications
                WHERE (lane, row_id) >= ($6, 0::BIGINT) AND (lane, row_id) <= ($6, 9223372036854775807)
                ORDER BY lane, row_id LIMIT $4
            ) AS l
            CROSS JOIN LATERAL (SELECT * FROM statuses AS s WHERE s.notification = l.row_id OFFSET 0) AS s
         ) AS d
         WHERE state = 'dead' AND (ended_ms, notification) > ($1, $2) AND ended_ms < $3"
    };
}
/// Those of a range that pass the filter, and have not been sent again since `$9`.
macro_rules! filtered {
    ($columns:expr, dead) => {
        filtered!($columns, dead_in dead!())
    };
    ($columns:expr, dead_of_lane) => {
        filtered!($columns, dead_in dead_of_lane!())
    };
    ($columns:expr, dead_in $range:expr) => {
        filtered!(
            $columns,
            $range,
            "(s.series = 1 OR s.first_due_ms < $9 OR NOT EXISTS (
                SELECT 1 FROM transitions AS t
                WHERE t.notification = s.notification AND t.kind IN ('replayed', 'resent') AND t.at_ms >= $9
             ))"
        )
    };
    ($columns:expr, pending) => {
        filtered!(
            $columns,
            pending!(),
            "(s.series = 1 OR s.first_due_ms < $9 OR NOT EXISTS (
                SELECT 1 FROM transitions AS t
                WHERE t.notification = s.notification AND t.kind IN ('replayed', 'resent') AND t.at_ms > $9
             ))"
        )
    };
    ($columns:expr, $range:expr, $is_of_before:expr) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM (SELECT * ",
            $range,
            " LIMIT $4) AS s CROSS JOIN LATERAL ",
            notification_of!("s.notification"),
            " WHERE ($5::TEXT IS NULL OR n.topic = $5) AND ($6::TEXT IS NULL OR n.lane = $6)
                AND ($7::TEXT IS NULL OR s.cause = $7) AND ($8::TEXT IS NULL OR strpos(n.id, $8) > 0) AND ",
            $is_of_before
        )
    };
}
/// Whether the endpoint that a row names was removed and made again since its registration: the opposite of
/// [`Endpoint::is_meant_by`](crate::domain::endpoint::Endpoint::is_meant_by).
macro_rules! endpoint_made_again {
    () => {
        "EXISTS (
            SELECT 1 FROM endpoints AS e
            WHERE e.name = substr(n.lane, 10) AND n.lane LIKE 'endpoint:%' AND e.made_again_ms > n.registered_ms
         )"
    };
}
/// The numbers of [`JobMatches`] for dead letters.
macro_rules! counts_of_dead {
    () => {
        concat!(
            "count(*), count(*) FILTER (WHERE ",
            endpoint_made_again!(),
            "), count(*) FILTER (WHERE n.order_mode = 'latest' AND NOT ",
            endpoint_made_again!(),
            " AND EXISTS (
                SELECT 1 FROM notifications AS w
                WHERE w.lane = n.lane AND w.order_key = n.order_key AND w.order_number > n.order_number AND ",
            mean_one_endpoint!("w.registered_ms"),
            "))"
        )
    };
}

/// See [`crate::journal::JournalJobs::job_page`].
pub(super) struct FindFilteredPage<'call> {
    pub(super) state: FilteredState,
    pub(super) selection: &'call FilteredSelection,
    pub(super) cursor: Option<Cursor>,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FindFilteredPage<'_> {
    type Reply = JobPage;

    async fn run(&self, connection: &mut PgConnection) -> Result<JobPage, PostgresFailure> {
        let Self {
            state,
            selection,
            cursor,
            limit,
        } = self;
        let range = Range::of(*state, selection, *cursor);
        let mut reading = connection.begin_with(HISTORY_AS_OF_NOW).await?;
        let of_few = is_of_few(&mut reading, *state, selection).await?;
        let sql = match state {
            FilteredState::Dead if of_few => concat!(
                filtered!("s.ended_ms, n.row_id, n.topic, n.id", dead_of_lane),
                " ORDER BY s.ended_ms, s.notification LIMIT $10"
            ),
            FilteredState::Dead => concat!(
                filtered!("s.ended_ms, n.row_id, n.topic, n.id", dead),
                " ORDER BY s.ended_ms, s.notification LIMIT $10"
            ),
            FilteredState::Pending => concat!(
                filtered!("n.registered_ms, n.row_id, n.topic, n.id", pending),
                " ORDER BY s.notification LIMIT $10"
            ),
        };
        let found = bound(sql, selection, range)
            .bind(limit_of(*limit))
            .fetch_all(&mut *reading)
            .await?;
        let found = Fields::job_keys(&found)?;
        let scan_end = match of_few {
            true => None,
            false => scan_end(&mut reading, *state, range).await?,
        };
        reading.rollback().await?;
        Ok(JobPage::of(found, *limit, scan_end))
    }
}

/// See [`crate::journal::JournalJobs::job_matches`].
pub(super) struct CountFiltered<'call> {
    pub(super) state: FilteredState,
    pub(super) selection: &'call FilteredSelection,
    pub(super) cursor: Option<Cursor>,
}

#[async_trait]
impl PostgresCall for CountFiltered<'_> {
    type Reply = JobMatches;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let Self {
            state, selection, ..
        } = self;
        let range = Range::of(*state, selection, self.cursor);
        let mut reading = connection.begin_with(HISTORY_AS_OF_NOW).await?;
        let of_few = is_of_few(&mut reading, *state, selection).await?;
        let sql = match state {
            FilteredState::Dead if of_few => filtered!(counts_of_dead!(), dead_of_lane),
            FilteredState::Dead => filtered!(counts_of_dead!(), dead),
            FilteredState::Pending => filtered!("count(*), 0::BIGINT, 0::BIGINT", pending),
        };
        let row = bound(sql, selection, range)
            .fetch_one(&mut *reading)
            .await?;
        let mut fields = Fields::of(&row);
        let counts = (fields.take()?, fields.take()?, fields.take()?);
        let scan_end = match of_few {
            true => None,
            false => scan_end(&mut reading, *state, range).await?,
        };
        reading.rollback().await?;
        Ok(JobMatches::of(counts, scan_end))
    }
}

/// See [`crate::journal::JournalJobs::job_trial`].
pub(super) struct FindTrial<'call> {
    pub(super) id: &'call JobId,
    pub(super) since_ms: i64,
    pub(super) most: usize,
}

#[async_trait]
impl PostgresCall for FindTrial<'_> {
    type Reply = JobTrial;

    async fn run(&self, connection: &mut PgConnection) -> Result<JobTrial, PostgresFailure> {
        let row = sqlx::query(
            "SELECT count(*), count(*) FILTER (WHERE s.state = 'delivered'),
                count(*) FILTER (WHERE s.state <> 'delivered' AND EXISTS (
                    SELECT 1 FROM attempts AS a
                    WHERE a.notification = s.notification AND a.series = s.series AND a.outcome <> 'interrupted'
                )),
                count(*) FILTER (WHERE s.state = 'dead'), count(*) FILTER (WHERE s.state = 'cancelled'), max(t.at_ms)
             FROM (
                SELECT * FROM transitions
                WHERE kind IN ('cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled')
                    AND at_ms >= $1
                ORDER BY at_ms, row_id LIMIT $2
             ) AS t
             CROSS JOIN LATERAL (SELECT * FROM statuses WHERE notification = t.notification OFFSET 0) AS s
             WHERE t.kind = 'replayed' AND (t.detail = $3 OR strpos(t.detail, $3 || ':') = 1)",
        )
        .bind(self.since_ms)
        .bind(limit_of(self.most.min(MOST_SCANNED)))
        .bind(self.id.in_history())
        .fetch_one(connection)
        .await?;
        Ok(Fields::of(&row).job_trial()?)
    }
}

/// A range of an index, as the statements have it: after the first two values, and before the third.
#[derive(Clone, Copy)]
struct Range {
    after: Cursor,
    end: i64,
}

impl Range {
    fn of(state: FilteredState, selection: &FilteredSelection, cursor: Option<Cursor>) -> Self {
        let (from_ms, end_ms) = selection.span();
        let first_row = |at_ms: i64| at_ms.saturating_mul(1 << ARRIVAL_BITS);
        let (beginning, end) = match state {
            FilteredState::Dead => (
                Cursor {
                    at_ms: from_ms,
                    row: i64::MIN,
                },
                end_ms,
            ),
            FilteredState::Pending => (
                Cursor {
                    at_ms: from_ms,
                    row: first_row(from_ms).saturating_sub(1),
                },
                first_row(end_ms),
            ),
        };
        let place = |cursor: Cursor| match state {
            FilteredState::Dead => (cursor.at_ms, cursor.row),
            FilteredState::Pending => (0, cursor.row),
        };
        let after = cursor.filter(|cursor| place(*cursor) > place(beginning));
        Self {
            after: after.unwrap_or(beginning),
            end,
        }
    }
}

/// Binds the values of a range and a filter: `$1` to `$9`.
fn bound(
    sql: &'static str,
    selection: &FilteredSelection,
    range: Range,
) -> Query<'static, Postgres, PgArguments> {
    let filter = &selection.filter;
    sqlx::query(sql)
        .bind(range.after.at_ms)
        .bind(range.after.row)
        .bind(range.end)
        .bind(limit_of(MOST_SCANNED))
        .bind(filter.topic.clone())
        .bind(filter.lane.clone())
        .bind(filter.cause.map(Cause::as_str))
        .bind(filter.id_contains.clone())
        .bind(selection.until_ms)
}

/// Whether these are dead letters of a lane that has few notifications, so that they are looked for among them.
async fn is_of_few(
    reading: &mut PgConnection,
    state: FilteredState,
    selection: &FilteredSelection,
) -> Result<bool, PostgresFailure> {
    match (state, &selection.filter.lane) {
        (FilteredState::Dead, Some(lane)) => has_few(reading, lane).await,
        (FilteredState::Dead, None) | (FilteredState::Pending, _) => Ok(false),
    }
}

/// The last row that may be read for a page; `None` if there are no more.
async fn scan_end(
    connection: &mut PgConnection,
    state: FilteredState,
    range: Range,
) -> Result<Option<Cursor>, PostgresFailure> {
    let sql = match state {
        FilteredState::Dead => concat!(
            "SELECT ended_ms, notification ",
            dead!(),
            " LIMIT 1 OFFSET $4"
        ),
        // 21 is the number of bits of an arrival number.
        FilteredState::Pending => concat!(
            "SELECT notification >> 21, notification ",
            pending!(),
            " LIMIT 1 OFFSET $4"
        ),
    };
    let found: Option<(i64, i64)> = sqlx::query_as(sql)
        .bind(range.after.at_ms)
        .bind(range.after.row)
        .bind(range.end)
        .bind(limit_of(MOST_SCANNED - 1))
        .fetch_optional(connection)
        .await?;
    Ok(found.map(|(at_ms, row)| Cursor { at_ms, row }))
}
