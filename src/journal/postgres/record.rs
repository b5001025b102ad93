//! Keeping a batch of attempts and applying their decisions.
//!
//! Nearly every notification still stands where its attempt began. So the usual batch is one
//! statement that takes that for granted: it moves what stands there, keeps the attempts of what it
//! moved, and says what that was. Whatever it did not move, and what does not move anything, goes the
//! careful way: lock, look, decide, write.
//!
//! A batch may so be executed in two transactions. If the second one fails, the call fails
//! although a part of it was kept; repeated, that part is found to be kept already.

use super::connections::PostgresCall;
use super::error::{PostgresFailure, UNIQUE_VIOLATION, code};
use super::load::lock;
use super::statements::{
    insert_attempts, insert_history, integer, kept_attempts, storable, update_statuses,
};
use crate::domain::key::Key;
use crate::domain::state::{Cause, State};
use crate::journal::effect::{self, Effect, Status};
use crate::journal::recording_batch::{AttemptRow, BatchWrites, RecordingBatch};
use crate::journal::{Recorded, Recording};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::{PgBindIterExt as _, PgConnection};
use std::collections::HashSet;
use std::sync::Arc;

/// What a series keeps over all its attempts (its number, its first due time, its deadline) is not
/// written again. Rows are locked in the order of their numbers. Gives the places in the batch of
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
    ), told AS (
        INSERT INTO transitions (notification, at_ms, kind, actor, instance, detail)
        SELECT row_id, at_ms, 'parked', 'dispatcher', $23, cause FROM moved WHERE state = 'dead'
    )
    SELECT array_agg(place) FROM moved";

/// See [`crate::journal::JournalWrites::record`].
pub(super) struct RecordBatch<'batch> {
    pub(super) batch: &'batch [Recording],
    pub(super) instance: &'batch Arc<str>,
}

/// A recording that goes by the one statement, with how the notification stands afterwards.
struct Advance {
    place: usize,
    after: Status,
}

#[async_trait]
impl PostgresCall for RecordBatch<'_> {
    type Reply = Vec<Recorded>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<Recorded>, PostgresFailure> {
        let mut replies = vec![None; self.batch.len()];
        for place in self.advance(connection, &self.easy()).await? {
            if let Some(reply) = replies.get_mut(place) {
                *reply = Some(Recorded::Applied);
            }
        }
        let left: Vec<usize> = (0..self.batch.len())
            .filter(|place| replies[*place].is_none())
            .collect();
        if !left.is_empty() {
            for (place, reply) in self.with_care(connection, &left).await? {
                replies[place] = Some(reply);
            }
        }
        let replies = replies.into_iter().flatten().collect();
        Ok(replies)
    }
}

impl RecordBatch<'_> {
    /// Which recordings move a notification that stands where they began. Of several for one
    /// notification only the first: the others depend on it.
    fn easy(&self) -> Vec<Advance> {
        let mut seen = HashSet::with_capacity(self.batch.len());
        let mut easy = Vec::with_capacity(self.batch.len());
        for (place, recording) in self.batch.iter().enumerate() {
            if !seen.insert(&recording.key) {
                continue;
            }
            let before = &recording.before;
            let mut after = Status::scheduled(*before);
            let effect = effect::advance(&mut after, recording);
            let same_series = after.progress.series == before.series
                && after.progress.first_due_ms == before.first_due_ms
                && after.progress.deadline_ms == before.deadline_ms
                && recording.attempt.series == before.series;
            let told = match (&effect, after.state) {
                (Effect::Moved(_), State::Scheduled | State::Delivered | State::Dead) => true,
                (Effect::Moved(_), State::Cancelled) | (Effect::Unmoved | Effect::Stale, _) => {
                    false
                }
            };
            if told && same_series {
                easy.push(Advance { place, after });
            }
        }
        easy
    }

    /// Gives the places of what was moved.
    async fn advance(
        &self,
        connection: &mut PgConnection,
        easy: &[Advance],
    ) -> Result<Vec<usize>, PostgresFailure> {
        if easy.is_empty() {
            return Ok(Vec::new());
        }
        macro_rules! each {
            ($one:ident => $value:expr) => {
                easy.iter()
                    .map(|advance| {
                        let $one = &self.batch[advance.place];
                        $value
                    })
                    .bind_iter()
            };
        }
        macro_rules! after {
            ($after:ident => $value:expr) => {
                easy.iter()
                    .map(|advance| {
                        let $after = &advance.after;
                        $value
                    })
                    .bind_iter()
            };
        }
        let advanced: Result<Option<Vec<i32>>, sqlx::Error> = sqlx::query_scalar(ADVANCE)
            .bind(each!(one => one.key.topic()))
            .bind(each!(one => one.key.id()))
            .bind(each!(one => integer(one.before.series)))
            .bind(each!(one => integer(one.before.step)))
            .bind(each!(one => integer(one.before.attempts)))
            .bind(after!(after => after.state.as_str()))
            .bind(after!(after => after.cause.map(Cause::as_str)))
            .bind(after!(after => integer(after.progress.step)))
            .bind(after!(after => integer(after.progress.attempts)))
            .bind(after!(after => after.progress.due_ms))
            .bind(after!(after => after.progress.retry_at_ms))
            .bind(after!(after => after.progress.clamped))
            .bind(each!(one => integer(one.attempt.number)))
            .bind(each!(one => one.attempt.due_ms))
            .bind(each!(one => one.attempt.started_ms))
            .bind(each!(one => one.attempt.duration_ms))
            .bind(each!(one => one.attempt.answer.outcome.as_str()))
            .bind(each!(one => one.attempt.answer.status.map(i32::from)))
            .bind(each!(one => one.attempt.answer.body.as_slice()))
            .bind(each!(one => storable(&one.attempt.answer.reason)))
            .bind(each!(one => one.at_ms))
            .bind(easy.iter().map(|advance| place(advance.place)).bind_iter())
            .bind(&**self.instance)
            .fetch_one(connection)
            .await;
        match advanced {
            Ok(places) => {
                let places = places.unwrap_or_default().into_iter();
                Ok(places
                    .filter_map(|place| usize::try_from(place).ok())
                    .collect())
            }
            // An attempt that is here already, of a notification that it did not move on.
            Err(error) if code(&error).as_deref() == Some(UNIQUE_VIOLATION) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Applies these one after the other, on what they are about as it really stands.
    async fn with_care(
        &self,
        connection: &mut PgConnection,
        places: &[usize],
    ) -> Result<Vec<(usize, Recorded)>, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        let keys: Vec<&Key> = places.iter().map(|place| &self.batch[*place].key).collect();
        let known = lock(&mut transaction, &keys).await?;
        let mut recordings = RecordingBatch::of(known, self.instance);
        let rows: Vec<AttemptRow<'_>> = places
            .iter()
            .filter_map(|place| recordings.attempt(&self.batch[*place]))
            .collect();
        recordings.are_kept(kept_attempts(&mut transaction, &rows).await?);
        let replies = places
            .iter()
            .map(|place| (*place, recordings.apply(&self.batch[*place])))
            .collect();
        let BatchWrites {
            attempts,
            moved,
            mut history,
        } = recordings.outcomes();
        // This line follows from the attempt.
        history.retain(|row| row.line.kind != "delivered");
        insert_attempts(&mut transaction, &attempts, self.instance).await?;
        update_statuses(&mut transaction, &moved).await?;
        insert_history(&mut transaction, &history).await?;
        transaction.commit().await?;
        Ok(replies)
    }
}

fn place(place: usize) -> i32 {
    i32::try_from(place).unwrap_or(i32::MAX)
}
