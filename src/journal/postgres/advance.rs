//! One statement that records the usual attempts of a batch: those whose notifications still have the
//! progress that they had before the attempt.

use super::error::{PostgresFailure, UNIQUE_VIOLATION, code};
use super::load::with_pending_places;
use super::partitioned::belongs_to_kept;
use super::statements::{array_or_value, each, each_if_any, indexes_from, integer, storable};
use crate::domain::state::Cause;
use crate::journal::expected_advance::ExpectedAdvance;
use sqlx::postgres::{PgBindIterExt as _, PgConnection};
use std::sync::Arc;

/// Updates the status of each notification that still has the expected progress, and inserts its attempt.
/// Returns the indexes in the batch of these notifications. Rows are locked in the order of their numbers.
/// The columns that only changes by hand change (the number of the series, its first due time) are not written. The
/// deadline is given only where the attempt was deferred and so moves it: beside destinations in trouble many are, and
/// the long way would cost every batch a transaction more.
/// What usually is the same in all rows is given once, from $27 on: see `array_or_value`. PostgreSQL copies the rows several
/// times.
const ADVANCE: &str = concat!(
    "
    WITH given AS MATERIALIZED (
        SELECT g.*, n.row_id, n.lane, s.tuple
        FROM (
            SELECT COALESCE(u.topic_if_different, $27::TEXT) AS topic, u.*
            FROM unnest(
                $1::TEXT[], $2::TEXT[], $3::INTEGER[], $4::INTEGER[], $5::INTEGER[], $6::TEXT[],
                $7::TEXT[], $8::INTEGER[], $9::INTEGER[], $10::BIGINT[], $11::BIGINT[],
                $12::BOOLEAN[], $13::INTEGER[], $14::BIGINT[], $15::BIGINT[], $16::BIGINT[],
                $17::TEXT[], $18::INTEGER[], $19::BYTEA[], $20::TEXT[], $21::BIGINT[],
                $22::INTEGER[], $23::TEXT[], $25::BIGINT[], $26::BIGINT[]
            ) AS u (
                topic_if_different, id, series, step_before, attempts_before, state,
                cause, step, attempts, due_ms, retry_at_ms,
                clamped, number, attempt_due_ms, started_ms, duration_ms,
                outcome, status, answer, reason, at_ms,
                place, trace, first_due_before, deadline_after
            )
        ) AS g
",
    with_pending_places!("row_id, lane"),
    "    ), moved AS (
        UPDATE statuses AS s SET
            state = COALESCE(g.state, $31::TEXT),
            cause = g.cause,
            step = COALESCE(g.step, $32::INTEGER),
            attempts = COALESCE(g.attempts, $33::INTEGER),
            due_ms = g.due_ms,
            retry_at_ms = g.retry_at_ms,
            clamped = COALESCE(g.clamped, $34::BOOLEAN),
            deadline_ms = COALESCE(g.deadline_after, s.deadline_ms),
            ended_ms = CASE WHEN COALESCE(g.state, $31::TEXT) <> 'scheduled' THEN g.at_ms END,
            later_lane = CASE
                WHEN COALESCE(g.state, $31::TEXT) = 'scheduled'
                    AND LEAST(g.due_ms, g.retry_at_ms) > (g.row_id >> 21) + 10000 THEN g.lane
            END
        FROM given AS g
        WHERE s.ctid = g.tuple AND s.ended_ms IS NULL AND s.series = COALESCE(g.series, $28::INTEGER)
            AND s.step = COALESCE(g.step_before, $29::INTEGER)
            AND s.attempts = COALESCE(g.attempts_before, $30::INTEGER)
            AND s.first_due_ms = g.first_due_before
        RETURNING
            g.row_id, g.series, g.number, g.started_ms, g.outcome, g.attempt_due_ms, g.duration_ms, g.status,
            g.answer, g.reason, g.at_ms, g.trace, g.cause, g.place, s.state
    ), attempted AS (
        INSERT INTO attempts (
            notification, series, number, started_ms, outcome,
            due_ms, duration_ms, status, answer,
            reason, instance, at_ms, trace, kept
        )
        SELECT
            row_id, COALESCE(series, $28::INTEGER), COALESCE(number, $35::INTEGER), started_ms, COALESCE(outcome, $36::TEXT),
            attempt_due_ms, duration_ms, COALESCE(status, $37::INTEGER), COALESCE(answer, $38::BYTEA),
            COALESCE(reason, $39::TEXT), $24, at_ms, trace, ",
    belongs_to_kept!("row_id", "history_live"),
    "
        FROM moved
    ), parked AS (
        INSERT INTO transitions (notification, at_ms, kind, actor, instance, detail, kept)
        SELECT row_id, at_ms, 'parked', 'dispatcher', $24, cause, ",
    belongs_to_kept!("row_id", "history_live"),
    "
        FROM moved WHERE state = 'dead'
    )
    SELECT array_agg(place) FROM moved"
);

/// Records the attempts whose notifications have the expected progress. Returns the indexes in the batch of
/// these recordings.
pub(super) async fn advance(
    connection: &mut PgConnection,
    rows: &[ExpectedAdvance<'_>],
    instance: &Arc<str>,
) -> Result<Vec<usize>, PostgresFailure> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let (topics, topic) = array_or_value!(rows, row => row.recording.key.topic());
    let (all_series, series) = array_or_value!(rows, row => integer(row.recording.before.series));
    let (steps_before, step_before) =
        array_or_value!(rows, row => integer(row.recording.before.step));
    let (attempts_before, attempt_before) =
        array_or_value!(rows, row => integer(row.recording.before.attempts));
    let (states, state) = array_or_value!(rows, row => row.after.state.as_str());
    let (steps, step) = array_or_value!(rows, row => integer(row.after.progress.step));
    let (attempts, attempt) = array_or_value!(rows, row => integer(row.after.progress.attempts));
    let (all_clamped, clamped) = array_or_value!(rows, row => row.after.progress.clamped);
    let (numbers, number) = array_or_value!(rows, row => integer(row.recording.attempt.number));
    let (outcomes, outcome) =
        array_or_value!(rows, row => row.recording.attempt.answer.outcome.as_str());
    let (statuses, status) =
        array_or_value!(rows, row => row.recording.attempt.answer.status.map(i32::from));
    let (answers, answer) =
        array_or_value!(rows, row => row.recording.attempt.answer.body.as_slice());
    let (reasons, reason) =
        array_or_value!(rows, row => storable(&row.recording.attempt.answer.reason));
    let advanced: Result<Option<Vec<i32>>, sqlx::Error> = sqlx::query_scalar(ADVANCE)
        .bind(topics)
        .bind(each!(rows, row => row.recording.key.id()))
        .bind(all_series)
        .bind(steps_before)
        .bind(attempts_before)
        .bind(states)
        .bind(each_if_any!(rows, row => row.after.cause.map(Cause::as_str)))
        .bind(steps)
        .bind(attempts)
        .bind(each!(rows, row => row.after.progress.due_ms))
        .bind(each_if_any!(rows, row => row.after.progress.retry_at_ms))
        .bind(all_clamped)
        .bind(numbers)
        .bind(each!(rows, row => row.recording.attempt.due_ms))
        .bind(each!(rows, row => row.recording.attempt.started_ms))
        .bind(each!(rows, row => row.recording.attempt.duration_ms))
        .bind(outcomes)
        .bind(statuses)
        .bind(answers)
        .bind(reasons)
        .bind(each!(rows, row => row.recording.at_ms))
        .bind(each!(rows, row => row.index))
        .bind(each!(rows, row => row.recording.attempt.trace.to_text()))
        .bind(&**instance)
        .bind(each!(rows, row => row.recording.before.first_due_ms))
        .bind(each_if_any!(rows, row => row.moved_deadline_ms()))
        .bind(topic)
        .bind(series)
        .bind(step_before)
        .bind(attempt_before)
        .bind(state)
        .bind(step)
        .bind(attempt)
        .bind(clamped)
        .bind(number)
        .bind(outcome)
        .bind(status.flatten())
        .bind(answer)
        .bind(reason)
        .fetch_one(connection)
        .await;
    match advanced {
        Ok(advanced) => Ok(indexes_from(advanced.unwrap_or_default()).collect()),
        // The journal has one of these attempts already. PostgreSQL has then executed nothing of the
        // statement, so no recording is done yet.
        Err(error) if code(&error).as_deref() == Some(UNIQUE_VIOLATION) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
