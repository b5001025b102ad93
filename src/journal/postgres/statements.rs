//! The statements that write attempts, statuses and histories, each for any number of rows.

use super::error::PostgresFailure;
use super::partitioned::belongs_to_kept;
use crate::domain::priority::Priority;
use crate::domain::state::Cause;
use crate::journal::history::HistoryRow;
use crate::journal::recording_batch::{AttemptIdentity, AttemptRow};
use crate::journal::rows::StoredNotification;
use crate::journal::sql_values::{later_lane, stored_cause, superseded};
use sqlx::postgres::{PgBindIterExt as _, PgConnection};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Binds an array that has one value of each row.
macro_rules! each {
    ($rows:expr, $row:ident => $value:expr) => {
        $rows.iter().map(|$row| $value).bind_iter()
    };
}
pub(super) use each;

/// As [`each`], for values that few rows have. If no row has one, binds NULL instead of an array, which PostgreSQL would read
/// element by element. To `unnest` both are the same.
macro_rules! each_if_any {
    ($rows:expr, $row:ident => $value:expr) => {
        $rows
            .iter()
            .any(|$row| $value.is_some())
            .then(|| each!($rows, $row => $value))
    };
}
/// A column that usually has the same in all rows: the array of its values as [`each`] binds it, or `None` if they are all
/// the same; and that value, or `None` if they differ. A statement gets both and uses `COALESCE` of them, so that rows are
/// narrow.
macro_rules! array_or_value {
    ($rows:expr, $row:ident => $value:expr) => {{
        let mut values = $rows.iter().map(|$row| $value);
        let first = values.next();
        let value = first.filter(|first| values.all(|value| value == *first));
        let array = value.is_none().then(|| each!($rows, $row => $value));
        (array, value)
    }};
}
pub(super) use {array_or_value, each_if_any};

/// Which of these attempts the journal has already.
pub(super) async fn kept_attempts(
    connection: &mut PgConnection,
    rows: &[AttemptRow<'_>],
) -> Result<HashSet<AttemptIdentity>, PostgresFailure> {
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let numbers = 0..i32::try_from(rows.len()).unwrap_or(i32::MAX);
    let found: Vec<i32> = sqlx::query_scalar(
        "SELECT g.place
         FROM unnest(
            $1::BIGINT[], $2::INTEGER[], $3::INTEGER[], $4::BIGINT[], $5::TEXT[], $6::INTEGER[]
         ) AS g (notification, series, number, started_ms, outcome, place)
         WHERE (
            SELECT TRUE FROM attempts AS a
            WHERE a.notification = g.notification AND a.series = g.series
                AND a.number = g.number AND a.started_ms = g.started_ms AND a.outcome = g.outcome
            LIMIT 1
         )",
    )
    .bind(each!(rows, row => row.notification))
    .bind(each!(rows, row => integer(row.recording.attempt.series)))
    .bind(each!(rows, row => integer(row.recording.attempt.number)))
    .bind(each!(rows, row => row.recording.attempt.started_ms))
    .bind(each!(rows, row => row.recording.attempt.answer.outcome.as_str()))
    .bind(numbers.bind_iter())
    .fetch_all(connection)
    .await?;
    let kept = indexes_from(found).filter_map(|index| rows.get(index));
    Ok(kept.map(AttemptRow::identity).collect())
}

/// Adds attempts.
pub(super) async fn insert_attempts(
    connection: &mut PgConnection,
    rows: &[AttemptRow<'_>],
    instance: &Arc<str>,
) -> Result<(), PostgresFailure> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        concat!(
        "INSERT INTO attempts (
            notification, series, number, started_ms, outcome, due_ms, duration_ms, status, answer,
            reason, at_ms, trace, instance, kept
         )
         SELECT g.*, $13, ",
        belongs_to_kept!("g.notification", "history_live"),
        " FROM unnest(
            $1::BIGINT[], $2::INTEGER[], $3::INTEGER[], $4::BIGINT[], $5::TEXT[], $6::BIGINT[],
            $7::BIGINT[], $8::INTEGER[], $9::BYTEA[], $10::TEXT[], $11::BIGINT[],
            $12::TEXT[]
         ) AS g (notification, series, number, started_ms, outcome, due_ms, duration_ms, status, answer, reason, at_ms, trace)",
    ))
    .bind(each!(rows, row => row.notification))
    .bind(each!(rows, row => integer(row.recording.attempt.series)))
    .bind(each!(rows, row => integer(row.recording.attempt.number)))
    .bind(each!(rows, row => row.recording.attempt.started_ms))
    .bind(each!(rows, row => row.recording.attempt.answer.outcome.as_str()))
    .bind(each!(rows, row => row.recording.attempt.due_ms))
    .bind(each!(rows, row => row.recording.attempt.duration_ms))
    .bind(each!(rows, row => row.recording.attempt.answer.status.map(i32::from)))
    .bind(each!(rows, row => row.recording.attempt.answer.body.as_slice()))
    .bind(each!(rows, row => storable(&row.recording.attempt.answer.reason)))
    .bind(each!(rows, row => row.recording.at_ms))
    .bind(each!(rows, row => row.recording.attempt.trace.to_text()))
    .bind(&**instance)
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes the statuses of these notifications.
pub(super) async fn update_statuses(
    connection: &mut PgConnection,
    rows: &[StoredNotification],
) -> Result<(), PostgresFailure> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "UPDATE statuses AS s SET
            state = g.state,
            cause = g.cause,
            series = g.series,
            step = g.step,
            attempts = g.attempts,
            first_due_ms = g.first_due_ms,
            deadline_ms = g.deadline_ms,
            due_ms = g.due_ms,
            retry_at_ms = g.retry_at_ms,
            clamped = g.clamped,
            ended_ms = g.ended_ms,
            fence = g.fence,
            superseded = g.superseded,
            series_priority = g.series_priority,
            later_lane = g.later_lane
         FROM unnest(
            $1::BIGINT[], $2::TEXT[], $3::TEXT[], $4::INTEGER[], $5::INTEGER[], $6::INTEGER[],
            $7::BIGINT[], $8::BIGINT[], $9::BIGINT[], $10::BIGINT[], $11::BOOLEAN[], $12::BIGINT[],
            $13::BIGINT[], $14::BOOLEAN[], $15::TEXT[], $16::TEXT[]
         ) AS g (
            row_id, state, cause, series, step, attempts, first_due_ms, deadline_ms, due_ms,
            retry_at_ms, clamped, ended_ms, fence, superseded, series_priority, later_lane
         )
         WHERE s.notification = g.row_id AND s.notification = ANY($1)",
    )
    .bind(each!(rows, row => row.row_id))
    .bind(each!(rows, row => row.snapshot.state.as_str()))
    .bind(each!(rows, row => stored_cause(&row.snapshot).map(Cause::as_str)))
    .bind(each!(rows, row => integer(row.snapshot.progress.series)))
    .bind(each!(rows, row => integer(row.snapshot.progress.step)))
    .bind(each!(rows, row => integer(row.snapshot.progress.attempts)))
    .bind(each!(rows, row => row.snapshot.progress.first_due_ms))
    .bind(each!(rows, row => row.snapshot.progress.deadline_ms))
    .bind(each!(rows, row => row.snapshot.progress.due_ms))
    .bind(each!(rows, row => row.snapshot.progress.retry_at_ms))
    .bind(each!(rows, row => row.snapshot.progress.clamped))
    .bind(each!(rows, row => row.snapshot.ended_ms))
    .bind(each!(rows, row => i64::try_from(row.snapshot.fence).unwrap_or(i64::MAX)))
    .bind(each!(rows, row => superseded(&row.snapshot)))
    .bind(each!(rows, row => row.series_priority.map(Priority::as_str)))
    .bind(each!(rows, row => later_lane(&row.snapshot)))
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds lines of history.
pub(super) async fn insert_history(
    connection: &mut PgConnection,
    rows: &[HistoryRow],
) -> Result<(), PostgresFailure> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(concat!(
        "INSERT INTO transitions (notification, at_ms, kind, actor, detail, instance, kept)
         SELECT g.*, ",
        belongs_to_kept!("g.notification", "history_live"),
        " FROM unnest(
            $1::BIGINT[], $2::BIGINT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::TEXT[]
         ) AS g (notification, at_ms, kind, actor, detail, instance)",
    ))
    .bind(each!(rows, row => row.notification))
    .bind(each!(rows, row => row.at_ms))
    .bind(each!(rows, row => row.line.kind))
    .bind(each!(rows, row => row.actor.name()))
    .bind(each!(rows, row => storable(&row.line.detail)))
    .bind(each!(rows, row => &*row.instance))
    .execute(connection)
    .await?;
    Ok(())
}

/// A text in the form that PostgreSQL can store. PostgreSQL refuses texts with the character zero, so this
/// character is replaced by `\0`. Otherwise such a character in an error text would make the recording of an
/// attempt fail.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\\0").into()
    } else {
        text.into()
    }
}

/// A count in the integer type of the tables.
pub(super) fn integer(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The indexes in a batch that a statement has returned.
pub(super) fn indexes_from(given: Vec<i32>) -> impl Iterator<Item = usize> {
    let given = given.into_iter();
    given.filter_map(|index| usize::try_from(index).ok())
}
