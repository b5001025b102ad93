//! Dropping the partitions that are old enough: the steps that [`super::partitions`] describes.

use super::error::PostgresFailure;
use super::meta::{recall, recall_locked, remember};
use super::time_partition::{
    Owner, RowRange, TimePartition, at_a_quiet_moment, first_row_of, live_of,
};
use crate::journal::pruning::read_position;
use crate::journal::{JournalError, PartitionWork, PartitionedTables};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::collections::BTreeMap;

/// How many notifications are looked at in one step.
const PER_STEP: usize = 2_000;

/// Marks the partitions of which all is old enough: the live rows begin after them. Returns whether there are any.
pub(super) async fn mark(
    connection: &mut PgConnection,
    tables: PartitionedTables,
    there: &BTreeMap<TimePartition, Vec<&'static str>>,
    work: &PartitionWork,
) -> Result<bool, PostgresFailure> {
    let Some(kept_ms) = work.kept_ms else {
        return Ok(false);
    };
    let before_ms = work.now_ms.saturating_sub(kept_ms);
    let old = there.keys().take_while(|one| one.until_ms <= before_ms);
    let mut going = None;
    for partition in old {
        if !has_passed(connection, tables, partition.until_ms).await? {
            break;
        }
        going = Some(first_row_of(partition.until_ms));
    }
    let Some(going) = going else {
        return Ok(false);
    };
    let mut transaction = connection.begin().await?;
    let live = recall_locked(&mut transaction, tables.live()).await?;
    let live = RowRange::read(live.as_deref())?;
    let from = live.from.max(going);
    let live = RowRange { from, ..live };
    remember(&mut transaction, tables.live(), &live.to_string()).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Whether pruning has passed all that ended before an instant.
async fn has_passed(
    connection: &mut PgConnection,
    tables: PartitionedTables,
    before_ms: i64,
) -> Result<bool, PostgresFailure> {
    let Some(cursor) = recall(connection, tables.pruned()).await? else {
        return Ok(false);
    };
    let cursor = read_position(&cursor)?;
    let left: bool = sqlx::query_scalar(
        "SELECT EXISTS (
            SELECT 1 FROM statuses
            WHERE ended_ms IS NOT NULL AND (ended_ms, notification) > ($1, $2) AND ended_ms < $3
        )",
    )
    .bind(cursor.at_ms)
    .bind(cursor.row)
    .bind(before_ms)
    .fetch_one(connection)
    .await?;
    Ok(!left)
}

/// Does the next step of dropping a partition, of which all rows come before the live ones. Returns of how many notifications it
/// found that they need nothing of it, and whether it got on.
pub(super) async fn forget(
    connection: &mut PgConnection,
    tables: PartitionedTables,
    oldest: TimePartition,
    live_from: i64,
    owners: &[Owner],
) -> Result<(u64, bool), PostgresFailure> {
    if number(connection, tables.seen()).await? < live_from {
        return Ok((0, wait_for_others(connection, tables, live_from).await?));
    }
    let moved = RowRange::read(recall(connection, tables.moved()).await?.as_deref())?;
    if !moved.has_all(oldest, live_from) {
        return move_needed(connection, tables, oldest, live_from).await;
    }
    let mut transaction = connection.begin().await?;
    // Nobody can change it before the partition is gone.
    let live = recall_locked(&mut transaction, tables.live()).await?;
    let live = RowRange::read(live.as_deref())?;
    // Nor detach it from now on.
    let lock: Vec<String> = (tables.tables().iter().zip(owners))
        .map(|(table, Owner { schema, .. })| format!("ONLY {schema}.{}", live_of(table.name)))
        .collect();
    let lock = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", lock.join(", "));
    if live.from != live_from || !at_a_quiet_moment(&mut transaction, lock).await? {
        transaction.rollback().await?;
        return Ok((0, false));
    }
    // Not of tables that have it no more: it may have been detached to be kept.
    let there = tables.partitions(&mut transaction).await?;
    let having = there.get(&oldest).map_or(&[][..], |having| &having[..]);
    let names: Vec<String> = (tables.tables().iter().zip(owners))
        .filter(|(table, _)| having.contains(&table.name))
        .map(|(table, Owner { schema, .. })| format!("{schema}.{}", oldest.name_in(table.name)))
        .collect();
    if names.is_empty() {
        transaction.rollback().await?;
        return Ok((0, true));
    }
    let drop = format!("DROP TABLE {}", names.join(", "));
    if !at_a_quiet_moment(&mut transaction, drop).await? {
        transaction.rollback().await?;
        return Ok((0, false));
    }
    transaction.commit().await?;
    tracing::info!(
        partition = %names.join(", "),
        "a partition of old {} was dropped from the journal",
        tables.content()
    );
    Ok((0, true))
}

/// Waits until no transaction is left that writes and has not seen the mark. Returns whether it was so in time.
async fn wait_for_others(
    connection: &mut PgConnection,
    tables: PartitionedTables,
    live_from: i64,
) -> Result<bool, PostgresFailure> {
    let mut transaction = connection.begin().await?;
    // Attempts first, as the statement that records locks the tables that it names.
    let names: Vec<String> = (tables.tables().iter().rev())
        .map(|table| format!("ONLY {}", table.name))
        .collect();
    let lock = format!("LOCK TABLE {} IN SHARE MODE", names.join(", "));
    let was_granted = at_a_quiet_moment(&mut transaction, lock).await?;
    transaction.rollback().await?;
    if was_granted {
        remember(connection, tables.seen(), &live_from.to_string()).await?;
    }
    Ok(was_granted)
}

/// Moves what is still needed of the next notifications before this row.
async fn move_needed(
    connection: &mut PgConnection,
    tables: PartitionedTables,
    oldest: TimePartition,
    until_row: i64,
) -> Result<(u64, bool), PostgresFailure> {
    let mut transaction = connection.begin().await?;
    // Pruning, which another server may do at this moment, waits: it must not pass or delete what is moved now.
    let Some(cursor) = recall_locked(&mut transaction, tables.pruned()).await? else {
        transaction.rollback().await?;
        return Ok((0, false));
    };
    let cursor = read_position(&cursor)?;
    let moved = recall(&mut transaction, tables.moved()).await?;
    let moved = RowRange::read(moved.as_deref())?;
    if moved.has_all(oldest, until_row) {
        transaction.rollback().await?;
        return Ok((0, true));
    }
    let first_row = first_row_of(oldest.from_ms);
    let (first_row, from_row) = match (moved.from..=moved.until).contains(&first_row) {
        true => (moved.from, moved.until),
        false => (first_row, first_row),
    };
    let range = RowRange {
        from: from_row,
        until: until_row,
    };
    let page = (tables.next_notifications(&mut transaction, range, cursor, PER_STEP)).await?;
    let needed: Vec<i64> = (page.iter())
        .filter(|(_, is_needed)| *is_needed)
        .map(|(row, _)| *row)
        .collect();
    let (to_move, is_cut) = (tables.fitting_one_step(&mut transaction, needed, range)).await?;
    let next_row = match (is_cut, to_move.last(), page.last()) {
        (true, Some(last), _) => last + 1,
        (false, _, Some((last, _))) if page.len() >= PER_STEP => last + 1,
        _ => until_row,
    };
    (tables.move_to_kept(&mut transaction, &to_move, range)).await?;
    let moved = RowRange {
        from: first_row,
        until: next_row,
    };
    remember(&mut transaction, tables.moved(), &moved.to_string()).await?;
    transaction.commit().await?;
    let not_needed = (page.iter()).filter(|(row, is_needed)| !is_needed && *row < next_row);
    Ok((not_needed.count() as u64, true))
}

/// The number that is stored under a name; 0 if there is none.
async fn number(connection: &mut PgConnection, name: &str) -> Result<i64, PostgresFailure> {
    let Some(text) = recall(connection, name).await? else {
        return Ok(0);
    };
    let read = text.parse().map_err(|_| {
        JournalError::Corrupt(format!(
            "`{text}` is not a valid number under the name {name}"
        ))
    });
    Ok(read?)
}
