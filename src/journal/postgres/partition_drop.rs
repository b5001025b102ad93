//! Dropping the partitions of bodies that are old enough: the steps that [`super::partitions`] describes.

use super::error::PostgresFailure;
use super::meta::{recall, recall_locked, remember};
use super::payload_partition::{
    LIVE, Owner, PayloadPartition, RowRange, at_a_quiet_moment, first_row_of,
};
use crate::journal::pruning::{PAYLOADS_PRUNED, read_position};
use crate::journal::sql_values::limit_of;
use crate::journal::{JournalError, PartitionWork};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// How many notifications are looked at in one step, and how many bytes of bodies are moved, or one body.
const PER_STEP: usize = 2_000;
const BYTES_PER_STEP: i64 = 16 << 20;

/// Before which row all transactions have seen that bodies are going.
const SEEN: &str = "payloads_seen";
/// From which row until which one what is needed was moved.
const MOVED: &str = "payloads_moved";

/// Marks the partitions of which all is old enough: the live rows begin after them. Returns whether there are any.
pub(super) async fn mark(
    connection: &mut PgConnection,
    there: &[PayloadPartition],
    work: &PartitionWork,
) -> Result<bool, PostgresFailure> {
    let Some(kept_ms) = work.payloads_kept_ms else {
        return Ok(false);
    };
    let before_ms = work.now_ms.saturating_sub(kept_ms);
    let old = there.iter().take_while(|one| one.until_ms <= before_ms);
    let mut going = None;
    for partition in old {
        if !has_passed(connection, partition.until_ms).await? {
            break;
        }
        going = Some(first_row_of(partition.until_ms));
    }
    let Some(going) = going else {
        return Ok(false);
    };
    let mut transaction = connection.begin().await?;
    let live = RowRange::read(recall_locked(&mut transaction, LIVE).await?.as_deref())?;
    let from = live.from.max(going);
    let live = RowRange { from, ..live };
    remember(&mut transaction, LIVE, &live.to_string()).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Whether pruning has passed all that ended before an instant.
async fn has_passed(
    connection: &mut PgConnection,
    before_ms: i64,
) -> Result<bool, PostgresFailure> {
    let Some(cursor) = recall(connection, PAYLOADS_PRUNED).await? else {
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

/// Does the next step of dropping a partition, of which all rows come before the live ones. Returns how many bodies it found that
/// are not needed, and whether it got on.
pub(super) async fn forget(
    connection: &mut PgConnection,
    oldest: PayloadPartition,
    live_from: i64,
    Owner { schema, .. }: &Owner,
) -> Result<(u64, bool), PostgresFailure> {
    if number(connection, SEEN).await? < live_from {
        return Ok((0, wait_for_others(connection, live_from).await?));
    }
    let moved = RowRange::read(recall(connection, MOVED).await?.as_deref())?;
    if !moved.has_all(oldest, live_from) {
        return move_needed(connection, oldest, live_from).await;
    }
    let mut transaction = connection.begin().await?;
    // Nobody can change it before the partition is gone.
    let live = RowRange::read(recall_locked(&mut transaction, LIVE).await?.as_deref())?;
    let drop = format!("DROP TABLE IF EXISTS {schema}.{oldest}");
    if live.from != live_from || !at_a_quiet_moment(&mut transaction, drop).await? {
        transaction.rollback().await?;
        return Ok((0, false));
    }
    transaction.commit().await?;
    tracing::info!(partition = %oldest, "a partition of old bodies was dropped from the journal");
    Ok((0, true))
}

/// Waits until no transaction is left that writes and has not seen the mark. Returns whether it was so in time.
async fn wait_for_others(
    connection: &mut PgConnection,
    live_from: i64,
) -> Result<bool, PostgresFailure> {
    let mut transaction = connection.begin().await?;
    let lock = "LOCK TABLE ONLY payloads IN SHARE MODE".into();
    let was_granted = at_a_quiet_moment(&mut transaction, lock).await?;
    transaction.rollback().await?;
    if was_granted {
        remember(connection, SEEN, &live_from.to_string()).await?;
    }
    Ok(was_granted)
}

/// Moves the bodies that are still needed, of the next notifications before this row.
async fn move_needed(
    connection: &mut PgConnection,
    oldest: PayloadPartition,
    until_row: i64,
) -> Result<(u64, bool), PostgresFailure> {
    let mut transaction = connection.begin().await?;
    // Pruning, which another server may do at this moment, waits: it must not pass what is moved now.
    let Some(cursor) = recall_locked(&mut transaction, PAYLOADS_PRUNED).await? else {
        transaction.rollback().await?;
        return Ok((0, false));
    };
    let cursor = read_position(&cursor)?;
    let moved = RowRange::read(recall(&mut transaction, MOVED).await?.as_deref())?;
    if moved.has_all(oldest, until_row) {
        transaction.rollback().await?;
        return Ok((0, true));
    }
    let first_row = first_row_of(oldest.from_ms);
    let (first_row, from_row) = match (moved.from..=moved.until).contains(&first_row) {
        true => (moved.from, moved.until),
        false => (first_row, first_row),
    };
    let page: Vec<(i64, bool)> = sqlx::query_as(
        "SELECT notification, COALESCE(
            state = 'dead' OR (ended_ms, notification) > ($3, $4), TRUE
         )
         FROM statuses WHERE notification >= $1 AND notification < $2
         ORDER BY notification LIMIT $5",
    )
    .bind(from_row)
    .bind(until_row)
    .bind(cursor.at_ms)
    .bind(cursor.row)
    .bind(limit_of(PER_STEP))
    .fetch_all(&mut *transaction)
    .await?;
    let needed: Vec<i64> = (page.iter())
        .filter(|(_, is_needed)| *is_needed)
        .map(|(row, _)| *row)
        .collect();
    let (to_move, is_cut) = that_fit(&mut transaction, needed, from_row, until_row).await?;
    let next_row = match (is_cut, to_move.last(), page.last()) {
        (true, Some(last), _) => last + 1,
        (false, _, Some((last, _))) if page.len() >= PER_STEP => last + 1,
        _ => until_row,
    };
    sqlx::query(
        "UPDATE payloads SET kept = TRUE
         WHERE notification = ANY($1) AND NOT kept AND notification >= $2 AND notification < $3",
    )
    .bind(to_move)
    .bind(from_row)
    .bind(until_row)
    .execute(&mut *transaction)
    .await?;
    let moved = RowRange {
        from: first_row,
        until: next_row,
    };
    remember(&mut transaction, MOVED, &moved.to_string()).await?;
    transaction.commit().await?;
    let not_needed = (page.iter()).filter(|(row, is_needed)| !is_needed && *row < next_row);
    Ok((not_needed.count() as u64, true))
}

/// Of these bodies, in the order of their rows, those that are moved in one step; and whether these are not all.
async fn that_fit(
    connection: &mut PgConnection,
    needed: Vec<i64>,
    from_row: i64,
    until_row: i64,
) -> Result<(Vec<i64>, bool), PostgresFailure> {
    if needed.is_empty() {
        return Ok((needed, false));
    }
    let mut sizes: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT notification, octet_length(body)::BIGINT FROM payloads
         WHERE notification = ANY($1) AND NOT kept AND notification >= $2 AND notification < $3",
    )
    .bind(needed)
    .bind(from_row)
    .bind(until_row)
    .fetch_all(connection)
    .await?;
    sizes.sort_unstable();
    let mut bytes = 0;
    let fit = sizes.iter().take_while(|(_, size)| {
        let is_first = bytes == 0;
        bytes += size.max(&1);
        is_first || bytes <= BYTES_PER_STEP
    });
    let fit: Vec<i64> = fit.map(|(row, _)| *row).collect();
    let is_cut = fit.len() < sizes.len();
    Ok((fit, is_cut))
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
