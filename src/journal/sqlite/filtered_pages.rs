//! The notifications of a filter that a job concerns: pages of them, and their number; and how those that a job replayed
//! first have fared.
//!
//! A page is a range of one index, from its older end. Conditions that the index does not cover are checked row by row,
//! for a limited number of rows.

use super::error::SqliteFailure;
use super::job_pages::BEGINNING;
use super::load::mean_one_endpoint;
use crate::domain::job::JobId;
use crate::domain::job_filter::FilteredSelection;
use crate::domain::state::Cause;
use crate::journal::Cursor;
use crate::journal::jobs::{FilteredState, JobMatches, JobPage, JobTrial, MOST_SCANNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

macro_rules! dead {
    () => {
        "FROM notifications INDEXED BY ended_dead
         WHERE state = 'dead' AND (ended_ms, row_id) > (?1, ?2) AND ended_ms < ?3
         ORDER BY ended_ms, row_id"
    };
}
macro_rules! dead_of_lane {
    () => {
        "FROM notifications INDEXED BY dead_of_lane
         WHERE state = 'dead' AND lane = ?6 AND (ended_ms, row_id) > (?1, ?2) AND ended_ms < ?3
         ORDER BY ended_ms, row_id"
    };
}
macro_rules! pending {
    () => {
        "FROM notifications INDEXED BY registered_scheduled
         WHERE state = 'scheduled' AND (registered_ms, row_id) > (?1, ?2) AND registered_ms < ?3
         ORDER BY registered_ms, row_id"
    };
}
/// Those of a range that pass the filter, and have not been sent again since `?9`.
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
            "(n.series = 1 OR n.first_due_ms < ?9 OR NOT EXISTS (
                SELECT 1 FROM transitions AS t
                WHERE t.notification = n.row_id AND t.kind IN ('replayed', 'resent') AND t.at_ms >= ?9
             ))"
        )
    };
    ($columns:expr, pending) => {
        filtered!(
            $columns,
            pending!(),
            "(n.series = 1 OR n.first_due_ms < ?9 OR NOT EXISTS (
                SELECT 1 FROM transitions AS t
                WHERE t.notification = n.row_id AND t.kind IN ('replayed', 'resent') AND t.at_ms > ?9
             ))"
        )
    };
    ($columns:expr, $range:expr, $is_of_before:expr) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM (SELECT * ",
            $range,
            " LIMIT ?4) AS n
              WHERE (?5 IS NULL OR n.topic = ?5) AND (?6 IS NULL OR n.lane = ?6) AND (?7 IS NULL OR n.cause = ?7)
                AND (?8 IS NULL OR instr(n.id, ?8) > 0) AND ",
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
            WHERE e.name = substr(n.lane, 10) AND substr(n.lane, 1, 9) = 'endpoint:' AND e.made_again_ms > n.registered_ms
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
                SELECT 1 FROM notifications AS w INDEXED BY ordered
                WHERE w.lane = n.lane AND w.order_key = n.order_key AND w.order_key IS NOT NULL
                    AND w.order_number > n.order_number AND ",
            mean_one_endpoint!("n", "w"),
            "))"
        )
    };
}

/// See [`crate::journal::JournalJobs::job_page`].
pub(super) async fn page(
    readers: &SqlitePool,
    state: FilteredState,
    selection: &FilteredSelection,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<JobPage, SqliteFailure> {
    let sql = match state {
        FilteredState::Dead if selection.filter.lane.is_some() => concat!(
            filtered!("n.ended_ms, n.row_id, n.topic, n.id", dead_of_lane),
            " ORDER BY n.ended_ms, n.row_id LIMIT ?10"
        ),
        FilteredState::Dead => concat!(
            filtered!("n.ended_ms, n.row_id, n.topic, n.id", dead),
            " ORDER BY n.ended_ms, n.row_id LIMIT ?10"
        ),
        FilteredState::Pending => concat!(
            filtered!("n.registered_ms, n.row_id, n.topic, n.id", pending),
            " ORDER BY n.registered_ms, n.row_id LIMIT ?10"
        ),
    };
    let mut reading = readers.begin().await?;
    let after = first_after(selection, cursor);
    let found = bound(sql, selection, after)
        .bind(limit_of(limit))
        .fetch_all(&mut *reading)
        .await?;
    let found = Fields::job_keys(&found)?;
    let scan_end = scan_end(&mut reading, state, selection, after).await?;
    Ok(JobPage::of(found, limit, scan_end))
}

/// See [`crate::journal::JournalJobs::job_matches`].
pub(super) async fn matches(
    readers: &SqlitePool,
    state: FilteredState,
    selection: &FilteredSelection,
    cursor: Option<Cursor>,
) -> Result<JobMatches, SqliteFailure> {
    let sql = match state {
        FilteredState::Dead if selection.filter.lane.is_some() => {
            filtered!(counts_of_dead!(), dead_of_lane)
        }
        FilteredState::Dead => filtered!(counts_of_dead!(), dead),
        FilteredState::Pending => filtered!("count(*), 0, 0", pending),
    };
    let mut reading = readers.begin().await?;
    let after = first_after(selection, cursor);
    let row = bound(sql, selection, after)
        .fetch_one(&mut *reading)
        .await?;
    let mut fields = Fields::of(&row);
    let counts = (fields.take()?, fields.take()?, fields.take()?);
    let scan_end = scan_end(&mut reading, state, selection, after).await?;
    Ok(JobMatches::of(counts, scan_end))
}

/// See [`crate::journal::JournalJobs::job_trial`].
pub(super) async fn trial(
    readers: &SqlitePool,
    id: &JobId,
    since_ms: i64,
    most: usize,
) -> Result<JobTrial, SqliteFailure> {
    let row = sqlx::query(
        "SELECT count(*), count(*) FILTER (WHERE n.state = 'delivered'),
            count(*) FILTER (WHERE n.state <> 'delivered' AND EXISTS (
                SELECT 1 FROM attempts AS a
                WHERE a.notification = n.row_id AND a.series = n.series AND a.outcome <> 'interrupted'
            )),
            count(*) FILTER (WHERE n.state = 'dead'), count(*) FILTER (WHERE n.state = 'cancelled'), max(t.at_ms)
         FROM (
            SELECT * FROM transitions INDEXED BY changed_by_hand
            WHERE kind IN ('cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled') AND at_ms >= ?1
            ORDER BY at_ms LIMIT ?2
         ) AS t
         CROSS JOIN notifications AS n ON n.row_id = t.notification
         WHERE t.kind = 'replayed' AND (t.detail = ?3 OR instr(t.detail, ?3 || ':') = 1)",
    )
    .bind(since_ms)
    .bind(limit_of(most.min(MOST_SCANNED)))
    .bind(id.in_history())
    .fetch_one(readers)
    .await?;
    Ok(Fields::of(&row).job_trial()?)
}

/// The place after which a page begins.
fn first_after(selection: &FilteredSelection, cursor: Option<Cursor>) -> Cursor {
    let beginning = Cursor {
        at_ms: selection.span().0,
        ..BEGINNING
    };
    cursor
        .filter(|cursor| (cursor.at_ms, cursor.row) > (beginning.at_ms, beginning.row))
        .unwrap_or(beginning)
}

/// Binds the values of a range and a filter: `?1` to `?9`.
fn bound(
    sql: &'static str,
    selection: &FilteredSelection,
    after: Cursor,
) -> Query<'static, Sqlite, SqliteArguments> {
    let filter = &selection.filter;
    sqlx::query(sql)
        .bind(after.at_ms)
        .bind(after.row)
        .bind(selection.span().1)
        .bind(limit_of(MOST_SCANNED))
        .bind(filter.topic.clone())
        .bind(filter.lane.clone())
        .bind(filter.cause.map(Cause::as_str))
        .bind(filter.id_contains.clone())
        .bind(selection.until_ms)
}

/// The last row that may be read for a page; `None` if there are no more.
async fn scan_end(
    connection: &mut SqliteConnection,
    state: FilteredState,
    selection: &FilteredSelection,
    after: Cursor,
) -> Result<Option<Cursor>, SqliteFailure> {
    let lane = match state {
        FilteredState::Dead => selection.filter.lane.as_ref(),
        FilteredState::Pending => None,
    };
    let sql = match (state, lane) {
        (FilteredState::Dead, Some(_)) => concat!(
            "SELECT ended_ms, row_id ",
            dead_of_lane!(),
            " LIMIT 1 OFFSET ?4"
        ),
        (FilteredState::Dead, None) => {
            concat!("SELECT ended_ms, row_id ", dead!(), " LIMIT 1 OFFSET ?4")
        }
        (FilteredState::Pending, _) => concat!(
            "SELECT registered_ms, row_id ",
            pending!(),
            " LIMIT 1 OFFSET ?4"
        ),
    };
    let mut finding = sqlx::query_as(sql)
        .bind(after.at_ms)
        .bind(after.row)
        .bind(selection.span().1)
        .bind(limit_of(MOST_SCANNED - 1));
    if let Some(lane) = lane {
        finding = finding.bind(None::<&str>).bind(lane.as_str());
    }
    let found: Option<(i64, i64)> = finding.fetch_optional(connection).await?;
    Ok(found.map(|(at_ms, row)| Cursor { at_ms, row }))
}
