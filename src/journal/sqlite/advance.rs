//! Records the usual attempts of a batch: those whose notifications still have the progress that they had before the
//! attempt.
//!
//! Of such a notification only the number of its row is read. sqlx copies every value that SQLite gives, and to read
//! whole notifications took longer than to write what follows from the attempts.

use super::bulk::{Bulk, Statement};
use super::error::SqliteFailure;
use super::statements::{insert_attempts, insert_history};
use crate::domain::state::Cause;
use crate::journal::expected_advance::ExpectedAdvance;
use crate::journal::history::HistoryRow;
use crate::journal::recording_batch::AttemptRow;
use crate::journal::{Actor, Recording};
use sqlx::{Row as _, SqliteConnection};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

static EXPECTED: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH given (place, topic, id, series, step, attempts, first_due_ms) AS (",
        7,
        // SQLite does not change the order of a cross join. So it searches the index once per key.
        ") SELECT given.place, n.row_id
          FROM given CROSS JOIN notifications AS n ON n.topic = given.topic AND n.id = given.id
          WHERE n.state = 'scheduled' AND n.series = given.series AND n.step = given.step
            AND n.attempts = given.attempts AND n.first_due_ms = given.first_due_ms",
    )
});

/// The columns that only changes by hand change (the number of the series, its first due time, the fence) are not
/// written.
static ADVANCE: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH moved (row_id, state, cause, step, attempts, deadline_ms, due_ms, retry_at_ms, clamped, ended_ms) AS (",
        10,
        ") UPDATE notifications SET state = moved.state, cause = moved.cause, step = moved.step,
            attempts = moved.attempts, deadline_ms = moved.deadline_ms, due_ms = moved.due_ms,
            retry_at_ms = moved.retry_at_ms, clamped = moved.clamped, ended_ms = moved.ended_ms
          FROM moved WHERE notifications.row_id = moved.row_id",
    )
});

/// A recording whose notification has the expected progress.
struct ExpectedRow<'batch> {
    row_id: i64,
    expected: ExpectedAdvance<'batch>,
}

/// Records the attempts whose notifications have the expected progress. Returns the indexes in the batch of these
/// recordings.
pub(super) async fn advance(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    batch: &[Recording],
) -> Result<Vec<usize>, SqliteFailure> {
    let found = find(connection, batch).await?;
    let attempts: Vec<AttemptRow<'_>> = found
        .iter()
        .map(|one| AttemptRow {
            notification: one.row_id,
            recording: one.expected.recording,
        })
        .collect();
    insert_attempts(connection, &attempts, instance).await?;
    ADVANCE.execute(connection, &found, bind_moved).await?;
    let lines = found.iter().filter_map(|one| {
        Some(HistoryRow {
            notification: one.row_id,
            at_ms: one.expected.recording.at_ms,
            line: one.expected.line.clone()?,
            actor: Actor::dispatcher(),
            instance: instance.clone(),
        })
    });
    insert_history(connection, &lines.collect::<Vec<_>>()).await?;
    let indexes = found.iter().map(|one| one.expected.index);
    Ok(indexes.filter_map(|index| index.try_into().ok()).collect())
}

/// Finds the recordings whose notifications have the expected progress, in the order of the rows.
async fn find<'batch>(
    connection: &mut SqliteConnection,
    batch: &'batch [Recording],
) -> Result<Vec<ExpectedRow<'batch>>, SqliteFailure> {
    let expected = ExpectedAdvance::all_of(batch);
    let rows = EXPECTED.fetch(connection, &expected, bind_expected).await?;
    let row_ids = rows
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    let row_ids = row_ids.collect::<Result<HashMap<i32, i64>, sqlx::Error>>()?;
    let found = expected.into_iter().filter_map(|expected| {
        let row_id = *row_ids.get(&expected.index)?;
        Some(ExpectedRow { row_id, expected })
    });
    let mut found: Vec<ExpectedRow<'_>> = found.collect();
    found.sort_unstable_by_key(|one| one.row_id);
    Ok(found)
}

fn bind_expected(statement: Statement, expected: &ExpectedAdvance<'_>) -> Statement {
    let (key, before) = (&expected.recording.key, &expected.recording.before);
    statement
        .bind(expected.index)
        .bind(key.topic())
        .bind(key.id())
        .bind(i64::from(before.series))
        .bind(i64::from(before.step))
        .bind(i64::from(before.attempts))
        .bind(before.first_due_ms)
}

fn bind_moved(statement: Statement, found: &ExpectedRow<'_>) -> Statement {
    let after = &found.expected.after;
    let progress = &after.progress;
    statement
        .bind(found.row_id)
        .bind(after.state.as_str())
        .bind(after.cause.map(Cause::as_str))
        .bind(i64::from(progress.step))
        .bind(i64::from(progress.attempts))
        .bind(progress.deadline_ms)
        .bind(progress.due_ms)
        .bind(progress.retry_at_ms)
        .bind(progress.clamped)
        .bind(after.ended_ms)
}
