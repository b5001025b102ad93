//! What maintenance asks for: recent changes, small values under a name, and forgetting what is old.

use super::error::Failure;
use crate::domain::key::Key;
use crate::journal::rows::Fields;
use crate::journal::{Cursor, JournalError, Prune, Pruned, Rebuild, limit_of};
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;

/// Gives at most 4 MiB of free pages back to the file system after a step of pruning.
const GIVE_PAGES_BACK: &str = "PRAGMA incremental_vacuum(1024)";

/// A page of changes by hand; short or empty, and without a cursor, at the end.
pub(super) async fn changes(
    readers: &SqlitePool,
    from_ms: i64,
    until_ms: i64,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<Key>, Option<Cursor>), Failure> {
    let after = cursor.unwrap_or(Cursor {
        at_ms: from_ms,
        row: i64::MIN,
    });
    let found = sqlx::query(
        "SELECT t.at_ms, t.row_id, n.topic, n.id
         FROM transitions AS t INDEXED BY changed
         JOIN notifications AS n ON n.row_id = t.notification
         WHERE t.kind IN ('cancelled', 'discarded', 'replayed', 'retried')
           AND t.at_ms >= ?1 AND (t.at_ms > ?1 OR t.row_id > ?2) AND t.at_ms < ?3
         ORDER BY t.at_ms, t.row_id LIMIT ?4",
    )
    .bind(after.at_ms)
    .bind(after.row)
    .bind(until_ms)
    .bind(limit_of(limit))
    .fetch_all(readers)
    .await?;
    Ok(Fields::changes(&found, limit)?)
}

/// Writes a rebuild down.
pub(super) async fn rebuilding(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    rebuild: &Rebuild,
) -> Result<(), Failure> {
    sqlx::query("INSERT INTO rebuilds (at_ms, actor, instance, reason) VALUES (?, ?, ?, ?)")
        .bind(rebuild.at_ms)
        .bind(rebuild.actor.0.clone())
        .bind(instance.clone())
        .bind(rebuild.reason.as_str())
        .execute(connection)
        .await?;
    Ok(())
}

/// Forgets a bounded number of the oldest.
pub(super) async fn prune(
    connection: &mut SqliteConnection,
    prune: &Prune,
    limit: usize,
) -> Result<Pruned, Failure> {
    let (before_ms, place) = (prune.payloads_before_ms, "payloads_pruned");
    let (payloads, more_payloads) = ended(connection, place, before_ms, limit).await?;
    let payloads = delete(
        connection,
        "DELETE FROM payloads WHERE notification = ?",
        &payloads,
    )
    .await?;
    let (before_ms, place) = (prune.records_before_ms, "records_pruned");
    let (mut records, more_records) = ended(connection, place, before_ms, limit).await?;
    if let Some(before_ms) = prune.dead_before_ms {
        let left = limit.saturating_sub(records.len());
        records.append(&mut dead(connection, before_ms, left).await?);
    }
    let more = more_payloads || more_records || records.len() >= limit;
    // Its payload, attempts and transitions go with it.
    let records = delete(
        connection,
        "DELETE FROM notifications WHERE row_id = ?",
        &records,
    )
    .await?;
    if payloads + records > 0 {
        sqlx::query(GIVE_PAGES_BACK).execute(connection).await?;
    }
    Ok(Pruned {
        payloads,
        records,
        more,
    })
}

/// The next of those that were delivered or cancelled before an instant, and whether there may be more
/// of them. Goes on from the place
/// that it got to the last time: what ends later has a later instant, so nothing is looked at
/// twice. That holds of the dead in between as well: one that is discarded ends anew.
async fn ended(
    connection: &mut SqliteConnection,
    place: &str,
    before_ms: i64,
    limit: usize,
) -> Result<(Vec<i64>, bool), Failure> {
    let (at_ms, row) = match recall(connection, place).await? {
        None => (i64::MIN, i64::MIN),
        Some(text) => read_place(&text)
            .ok_or_else(|| JournalError::Corrupt(format!("`{text}` is no place")))?,
    };
    let found: Vec<(i64, i64, bool)> = sqlx::query_as(
        "SELECT ended_ms, row_id, state = 'dead' FROM notifications INDEXED BY ended
         WHERE ended_ms IS NOT NULL AND (ended_ms, row_id) > (?, ?) AND ended_ms < ?
         ORDER BY ended_ms, row_id LIMIT ?",
    )
    .bind(at_ms)
    .bind(row)
    .bind(before_ms)
    .bind(limit_of(limit))
    .fetch_all(&mut *connection)
    .await?;
    if let Some((at_ms, row, _)) = found.last() {
        remember(connection, place, &format!("{at_ms}/{row}")).await?;
    }
    let more = found.len() >= limit;
    let rows = found.into_iter().filter(|(_, _, dead)| !dead);
    Ok((rows.map(|(_, row, _)| row).collect(), more))
}

fn read_place(text: &str) -> Option<(i64, i64)> {
    let (at_ms, row) = text.split_once('/')?;
    Some((at_ms.parse().ok()?, row.parse().ok()?))
}

async fn dead(
    connection: &mut SqliteConnection,
    before_ms: i64,
    limit: usize,
) -> Result<Vec<i64>, Failure> {
    let found = sqlx::query_scalar(
        "SELECT row_id FROM notifications INDEXED BY ended_dead
         WHERE state = 'dead' AND ended_ms < ? ORDER BY ended_ms, row_id LIMIT ?",
    )
    .bind(before_ms)
    .bind(limit_of(limit))
    .fetch_all(connection)
    .await?;
    Ok(found)
}

async fn delete(
    connection: &mut SqliteConnection,
    statement: &'static str,
    rows: &[i64],
) -> Result<u64, Failure> {
    let mut deleted = 0;
    for row in rows {
        deleted += sqlx::query(statement)
            .bind(row)
            .execute(&mut *connection)
            .await?
            .rows_affected();
    }
    Ok(deleted)
}

/// What is kept under a name.
pub(super) async fn recall(
    connection: &mut SqliteConnection,
    name: &str,
) -> Result<Option<String>, Failure> {
    let value = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'kept:' || ?")
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(value)
}

/// Keeps a value under a name.
pub(super) async fn remember(
    connection: &mut SqliteConnection,
    name: &str,
    value: &str,
) -> Result<(), Failure> {
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('kept:' || ?, ?)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(connection)
    .await?;
    Ok(())
}
