//! The settings of lanes: changing those of one, and reading what has changed.

use super::error::SqliteFailure;
use crate::domain::lane_settings::{LaneChanges, LaneSettings};
use crate::journal::lane_rows::{LaneRow, changes_until};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{LaneOrder, PersonAct};
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;

/// See [`crate::journal::JournalWrites::change_lane`]. Returns the number of the change, and the act that it is if a person
/// asked for it alone. A change that is a part of another act leaves that to the caller.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    order: &LaneOrder,
) -> Result<(i64, Option<PersonAct>), SqliteFailure> {
    // Never below the time: a journal that was restored from a backup gives no number a second time.
    let number: i64 = sqlx::query_scalar(
        "UPDATE lane_changes SET number = max(number + 1, ?) WHERE one = 1 RETURNING number",
    )
    .bind(order.at_ms)
    .fetch_one(&mut *connection)
    .await?;
    let before = sqlx::query(
        "SELECT lane, number, concurrency, rate, held_ms, held_by, held_reason FROM lanes WHERE lane = ?",
    )
    .bind(order.lane.as_str())
    .fetch_optional(&mut *connection)
    .await?;
    let before = match &before {
        Some(row) => Fields::of(row).lane_row()?.settings,
        None => LaneSettings::default(),
    };
    let settings = order.applied_to(&before);
    let LaneSettings { limits, hold } = &settings;
    sqlx::query(
        "INSERT INTO lanes (lane, number, concurrency, rate, held_ms, held_by, held_reason,
                            changed_ms, changed_by, reason, instance)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (lane) DO UPDATE SET
            number = excluded.number, concurrency = excluded.concurrency, rate = excluded.rate,
            held_ms = excluded.held_ms, held_by = excluded.held_by, held_reason = excluded.held_reason,
            changed_ms = excluded.changed_ms, changed_by = excluded.changed_by,
            reason = excluded.reason, instance = excluded.instance",
    )
    .bind(order.lane.as_str())
    .bind(number)
    .bind(limits.concurrency.map(|most| i64::from(most.get())))
    .bind(limits.rate.map(|rate| i64::from(rate.to_stored())))
    .bind(hold.as_ref().map(|hold| hold.since_ms))
    .bind(hold.as_ref().map(|hold| &*hold.by))
    .bind(hold.as_ref().map(|hold| &*hold.reason))
    .bind(order.at_ms)
    .bind(order.actor.shared_name())
    .bind(order.reason.as_str())
    .bind(instance.clone())
    .execute(connection)
    .await?;
    let act = PersonAct::of_lane_order(order, &before, &settings);
    Ok((number, act))
}

/// See [`crate::journal::JournalMaintenance::lane_changes`].
pub(super) async fn changes(
    readers: &SqlitePool,
    after: i64,
    limit: usize,
) -> Result<LaneChanges, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let last: i64 = sqlx::query_scalar("SELECT number FROM lane_changes WHERE one = 1")
        .fetch_one(&mut *reading)
        .await?;
    if last <= after {
        return Ok(changes_until(Vec::new(), after, last, limit));
    }
    let found = sqlx::query(
        "SELECT lane, number, concurrency, rate, held_ms, held_by, held_reason
         FROM lanes WHERE number > ? ORDER BY number LIMIT ?",
    )
    .bind(after)
    .bind(limit_of(limit))
    .fetch_all(&mut *reading)
    .await?;
    let rows = found.iter().map(|row| Fields::of(row).lane_row_or_held());
    let rows: Vec<LaneRow> = rows.collect::<Result<_, _>>()?;
    Ok(changes_until(rows, after, last, limit))
}
