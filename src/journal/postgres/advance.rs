//! Moving on, by one statement, the notifications of a batch that still stand where their attempts
//! began.

use super::error::{PostgresFailure, UNIQUE_VIOLATION, code};
use super::statements::{each, indexes_from, integer, storable};
use crate::domain::state::{Cause, State};
use crate::journal::Recording;
use crate::journal::effect::{self, Effect, Status};
use sqlx::postgres::{PgBindIterExt as _, PgConnection};
use std::collections::HashSet;
use std::sync::Arc;

/// What a series keeps over all its attempts (its number, its first due time, its deadline) is not
/// written again. Rows are locked in the order of their numbers. Gives the indexes in the batch of
/// what was moved.
///
/// The rows to move are looked up one by one and moved by their place in the table. That they are
/// scheduled is not said in the words of an index. So there is no other plan than that, whatever the
/// planner believes of the table. Another session may move a row in between; then the conditions are
/// asked again of what it has become.
const ADVANCE: &str = "
    WITH given AS MATERIALIZED (
        SELECT g.*, n.row_id, s.tuple
        FROM unnest(
            $1::TEXT[], $2::TEXT[], $3::INTEGER[], $4::INTEGER[], $5::INTEGER[], $6::TEXT[],
            $7::TEXT[], $8::INTEGER[], $9::INTEGER[], $10::BIGINT[], $11::BIGINT[],
            $12::BOOLEAN[], $13::INTEGER[], $14::BIGINT[], $15::BIGINT[], $16::BIGINT[],
            $17::TEXT[], $18::INTEGER[], $19::BYTEA[], $20::TEXT[], $21::BIGINT[],
            $22::INTEGER[]
        ) AS g (
            topic, id, series, step_before, attempts_before, state,
            cause, step, attempts, due_ms, retry_at_ms,
            clamped, number, attempt_due_ms, started_ms, duration_ms,
            outcome, status, answer, reason, at_ms,
            place
        )
        CROSS JOIN LATERAL (
            SELECT row_id FROM notifications AS n
            WHERE n.topic = g.topic AND n.id = g.id OFFSET 0
        ) AS n
        CROSS JOIN LATERAL (
            SELECT ctid AS tuple FROM statuses AS s
            WHERE s.notification = n.row_id AND s.ended_ms IS NULL OFFSET 0
        ) AS s
        ORDER BY n.row_id
    ), moved AS (
        UPDATE statuses AS s SET
            state = g.state,
            cause = g.cause,
            step = g.step,
            attempts = g.attempts,
            due_ms = g.due_ms,
            retry_at_ms = g.retry_at_ms,
            clamped = g.clamped,
            ended_ms = CASE WHEN g.state <> 'scheduled' THEN g.at_ms END
        FROM given AS g
        WHERE s.ctid = g.tuple AND s.ended_ms IS NULL AND s.series = g.series
            AND s.step = g.step_before AND s.attempts = g.attempts_before
        RETURNING g.*
    ), kept AS (
        INSERT INTO attempts (
            notification, series, number, started_ms, outcome, due_ms, duration_ms, status, answer,
            reason, instance, at_ms
        )
        SELECT
            row_id, series, number, started_ms, outcome, attempt_due_ms, duration_ms, status, answer,
            reason, $23, at_ms
        FROM moved
    ), parked AS (
        INSERT INTO transitions (notification, at_ms, kind, actor, instance, detail)
        SELECT row_id, at_ms, 'parked', 'dispatcher', $23, cause FROM moved WHERE state = 'dead'
    )
    SELECT array_agg(place) FROM moved";

/// A recording whose notification is expected to stand where the attempt began.
pub(super) struct ExpectedAdvance<'batch> {
    /// Its index in the batch.
    index: i32,
    recording: &'batch Recording,
    /// How the notification stands afterwards.
    after: Status,
}

impl<'batch> ExpectedAdvance<'batch> {
    /// Which recordings of a batch move a notification that stands where they began. Of several for
    /// one notification only the first: the others depend on it.
    pub(super) fn all_of(batch: &'batch [Recording]) -> Vec<Self> {
        let mut seen = HashSet::with_capacity(batch.len());
        let firsts = (0..)
            .zip(batch)
            .filter(|(_, recording)| seen.insert(&recording.key));
        firsts
            .filter_map(|(index, recording)| Self::of(index, recording))
            .collect()
    }

    fn of(index: i32, recording: &'batch Recording) -> Option<Self> {
        let before = &recording.before;
        let mut after = Status::scheduled(*before);
        let effect = effect::advance(&mut after, recording);
        let is_same_series = after.progress.series == before.series
            && after.progress.first_due_ms == before.first_due_ms
            && after.progress.deadline_ms == before.deadline_ms
            && recording.attempt.series == before.series;
        let is_in_statement = match (&effect, after.state) {
            (Effect::Advanced(_), State::Scheduled | State::Delivered | State::Dead) => true,
            (Effect::Advanced(_), State::Cancelled) | (Effect::Unchanged | Effect::Stale, _) => {
                false
            }
        };
        (is_same_series && is_in_statement).then_some(Self {
            index,
            recording,
            after,
        })
    }
}

/// Moves on those that do stand where they are expected, and keeps their attempts. Gives the indexes in
/// the batch of what was moved.
pub(super) async fn advance(
    connection: &mut PgConnection,
    rows: &[ExpectedAdvance<'_>],
    instance: &Arc<str>,
) -> Result<Vec<usize>, PostgresFailure> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let advanced: Result<Option<Vec<i32>>, sqlx::Error> = sqlx::query_scalar(ADVANCE)
        .bind(each!(rows, row => row.recording.key.topic()))
        .bind(each!(rows, row => row.recording.key.id()))
        .bind(each!(rows, row => integer(row.recording.before.series)))
        .bind(each!(rows, row => integer(row.recording.before.step)))
        .bind(each!(rows, row => integer(row.recording.before.attempts)))
        .bind(each!(rows, row => row.after.state.as_str()))
        .bind(each!(rows, row => row.after.cause.map(Cause::as_str)))
        .bind(each!(rows, row => integer(row.after.progress.step)))
        .bind(each!(rows, row => integer(row.after.progress.attempts)))
        .bind(each!(rows, row => row.after.progress.due_ms))
        .bind(each!(rows, row => row.after.progress.retry_at_ms))
        .bind(each!(rows, row => row.after.progress.clamped))
        .bind(each!(rows, row => integer(row.recording.attempt.number)))
        .bind(each!(rows, row => row.recording.attempt.due_ms))
        .bind(each!(rows, row => row.recording.attempt.started_ms))
        .bind(each!(rows, row => row.recording.attempt.duration_ms))
        .bind(each!(rows, row => row.recording.attempt.answer.outcome.as_str()))
        .bind(each!(rows, row => row.recording.attempt.answer.status.map(i32::from)))
        .bind(each!(rows, row => row.recording.attempt.answer.body.as_slice()))
        .bind(each!(rows, row => storable(&row.recording.attempt.answer.reason)))
        .bind(each!(rows, row => row.recording.at_ms))
        .bind(each!(rows, row => row.index))
        .bind(&**instance)
        .fetch_one(connection)
        .await;
    match advanced {
        Ok(advanced) => Ok(indexes_from(advanced.unwrap_or_default()).collect()),
        // An attempt that is here already, of a notification that it did not move on.
        Err(error) if code(&error).as_deref() == Some(UNIQUE_VIOLATION) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
