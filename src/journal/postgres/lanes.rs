//! The settings of lanes: changing those of one, and reading what has changed.

use super::audit_log;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::statements::storable;
use crate::domain::lane_settings::{LaneChanges, LaneSettings};
use crate::journal::lane_rows::{LaneRow, changes_until};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{LaneOrder, PersonAct};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

/// See [`crate::journal::JournalWrites::change_lane`]. It may be executed twice: the second time gives the same
/// change a later number, and finds nothing to change, so it makes no second entry of the audit log.
pub(super) struct ChangeLane<'call> {
    pub(super) order: &'call LaneOrder,
    pub(super) instance: &'call Arc<str>,
}

#[async_trait]
impl PostgresCall for ChangeLane<'_> {
    type Reply = i64;

    async fn run(&self, connection: &mut PgConnection) -> Result<i64, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        let (number, act) = change(&mut transaction, self.order, self.instance).await?;
        if let Some(act) = act {
            audit_log::keep(&mut transaction, self.instance, &act).await?;
        }
        transaction.commit().await?;
        Ok(number)
    }
}

/// Makes the change within a transaction. Returns its number, and the act that it is if a person asked for it alone. A
/// change that is a part of another act leaves that to the caller.
pub(super) async fn change(
    connection: &mut PgConnection,
    order: &LaneOrder,
    instance: &Arc<str>,
) -> Result<(i64, Option<PersonAct>), PostgresFailure> {
    // Locks the row, so no other change of a lane is made until the commit. Never below the time: a journal that
    // was restored from a backup gives no number a second time.
    let number: i64 = sqlx::query_scalar(
        "UPDATE lane_changes SET number = greatest(number + 1, $1) WHERE one RETURNING number",
    )
    .bind(order.at_ms)
    .fetch_one(&mut *connection)
    .await?;
    let before = sqlx::query(
        "SELECT lane, number, concurrency, rate, held_ms, held_by, held_reason FROM lanes WHERE lane = $1",
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
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
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
    .bind(hold.as_ref().map(|hold| storable(&hold.by)))
    .bind(hold.as_ref().map(|hold| storable(&hold.reason)))
    .bind(order.at_ms)
    .bind(order.actor.name())
    .bind(storable(&order.reason))
    .bind(&**instance)
    .execute(connection)
    .await?;
    let act = PersonAct::of_lane_order(order, &before, &settings);
    Ok((number, act))
}

/// See [`crate::journal::JournalMaintenance::lane_changes`].
pub(super) struct FindLaneChanges {
    pub(super) after: i64,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FindLaneChanges {
    type Reply = LaneChanges;

    async fn run(&self, connection: &mut PgConnection) -> Result<LaneChanges, PostgresFailure> {
        let Self { after, limit } = *self;
        // The number is read first: all changes up to it were committed then, so the rows read next have them.
        let last: i64 = sqlx::query_scalar("SELECT number FROM lane_changes WHERE one")
            .fetch_one(&mut *connection)
            .await?;
        if last <= after {
            return Ok(changes_until(Vec::new(), after, last, limit));
        }
        let found = sqlx::query(
            "SELECT lane, number, concurrency, rate, held_ms, held_by, held_reason
             FROM lanes WHERE number > $1 ORDER BY number LIMIT $2",
        )
        .bind(after)
        .bind(limit_of(limit))
        .fetch_all(connection)
        .await?;
        let rows = found.iter().map(|row| Fields::of(row).lane_row_or_held());
        let rows: Vec<LaneRow> = rows.collect::<Result<_, _>>()?;
        Ok(changes_until(rows, after, last, limit))
    }
}
