//! Pruning: the statements that find and delete old data.

use super::audit_log;
use super::error::SqliteFailure;
use super::job_results;
use super::load::mean_one_endpoint;
use super::meta::{recall, remember};
use crate::journal::pruning::{self, EndedRow, HIGHER_NUMBERS, LeftToPartitions, PruningStore};
use crate::journal::sql_values::limit_of;
use crate::journal::{Cursor, Prune, Pruned};
use async_trait::async_trait;
use sqlx::SqliteConnection;
use std::collections::HashSet;

/// Gives at most 4 MiB of free pages back to the file system. Executed after each step that deleted
/// something.
const GIVE_PAGES_BACK: &str = "PRAGMA incremental_vacuum(1024)";

/// See [`crate::journal::JournalMaintenance::prune`].
pub(super) async fn prune(
    connection: &mut SqliteConnection,
    prune: &Prune,
    limit: usize,
) -> Result<Pruned, SqliteFailure> {
    let pruned = pruning::prune(connection, prune, limit).await?;
    if pruned.payloads + pruned.records > 0 {
        sqlx::query(GIVE_PAGES_BACK).execute(connection).await?;
    }
    Ok(pruned)
}

#[async_trait]
impl PruningStore for SqliteConnection {
    type Error = SqliteFailure;

    async fn recall(&mut self, name: &str) -> Result<Option<String>, SqliteFailure> {
        recall(self, name).await
    }

    async fn remember(&mut self, name: &str, value: &str) -> Result<(), SqliteFailure> {
        remember(self, name, value).await
    }

    async fn ended(
        &mut self,
        after: Cursor,
        before_ms: i64,
        limit: usize,
    ) -> Result<Vec<EndedRow>, SqliteFailure> {
        let found: Vec<(i64, i64, bool)> = sqlx::query_as(
            "SELECT ended_ms, row_id, state = 'dead' FROM notifications INDEXED BY ended
             WHERE ended_ms IS NOT NULL AND (ended_ms, row_id) > (?, ?) AND ended_ms < ?
             ORDER BY ended_ms, row_id LIMIT ?",
        )
        .bind(after.at_ms)
        .bind(after.row)
        .bind(before_ms)
        .bind(limit_of(limit))
        .fetch_all(self)
        .await?;
        Ok(found.into_iter().map(EndedRow::from).collect())
    }

    fn passed_at_once(&self, limit: usize) -> usize {
        limit
    }

    async fn deleted_singly(&mut self, found: &[EndedRow]) -> Result<Vec<EndedRow>, SqliteFailure> {
        Ok(found.to_vec())
    }

    /// No other connection writes during this transaction, so nothing has changed.
    async fn still_ended(&mut self, found: &[EndedRow]) -> Result<HashSet<i64>, SqliteFailure> {
        Ok(found.iter().map(|ended| ended.row).collect())
    }

    async fn dead(&mut self, before_ms: i64, limit: usize) -> Result<Vec<i64>, SqliteFailure> {
        let found = sqlx::query_scalar(
            "SELECT row_id FROM notifications INDEXED BY ended_dead
             WHERE state = 'dead' AND ended_ms < ? ORDER BY ended_ms, row_id LIMIT ?",
        )
        .bind(before_ms)
        .bind(limit_of(limit))
        .fetch_all(self)
        .await?;
        Ok(found)
    }

    async fn still_latest(&mut self, rows: &[i64]) -> Result<HashSet<i64>, SqliteFailure> {
        let here: HashSet<i64> = rows.iter().copied().collect();
        let mut latest = HashSet::new();
        for row in rows {
            let dead: Vec<i64> = sqlx::query_scalar(concat!(
                "SELECT l.row_id FROM notifications AS n
                 JOIN notifications AS l INDEXED BY ordered
                    ON l.lane = n.lane AND l.order_key = n.order_key AND l.order_number < n.order_number
                 WHERE n.row_id = ? AND n.order_mode = 'latest' AND l.order_key IS NOT NULL AND l.state = 'dead'
                    AND ",
                mean_one_endpoint!("n", "l"),
                "   AND NOT EXISTS (SELECT 1 FROM notifications AS h INDEXED BY ordered
                        WHERE h.lane = n.lane AND h.order_key = n.order_key AND h.order_key IS NOT NULL
                            AND h.order_number > n.order_number AND ",
                mean_one_endpoint!("n", "h"),
                ")"
            ))
            .bind(row)
            .fetch_all(&mut *self)
            .await?;
            if dead.iter().any(|dead| !here.contains(dead)) {
                latest.insert(*row);
            }
        }
        Ok(latest)
    }

    async fn passed_above(
        &mut self,
        rows: &[i64],
        passed: Cursor,
    ) -> Result<Vec<i64>, SqliteFailure> {
        // Most have no order, and others write nothing meanwhile.
        let ordered: Vec<i64> = sqlx::query_scalar(
            "SELECT n.row_id FROM json_each(?) AS given CROSS JOIN notifications AS n
             WHERE n.row_id = given.value AND n.order_mode = 'latest'",
        )
        .bind(serde_json::json!(rows).to_string())
        .fetch_all(&mut *self)
        .await?;
        let here: HashSet<i64> = rows.iter().copied().collect();
        let mut found = Vec::new();
        for row in ordered {
            let higher: Vec<i64> = sqlx::query_scalar(
                "SELECT row_id FROM (
                    SELECT h.row_id, h.ended_ms, h.state FROM notifications AS n
                    JOIN notifications AS h INDEXED BY ordered
                        ON h.lane = n.lane AND h.order_key = n.order_key AND h.order_number > n.order_number
                    WHERE n.row_id = ?1 AND h.order_key IS NOT NULL
                    ORDER BY h.order_number LIMIT ?4
                 )
                 WHERE ended_ms IS NOT NULL AND state <> 'dead' AND (ended_ms, row_id) <= (?2, ?3)",
            )
            .bind(row)
            .bind(passed.at_ms)
            .bind(passed.row)
            .bind(HIGHER_NUMBERS)
            .fetch_all(&mut *self)
            .await?;
            found.extend(higher.into_iter().filter(|row| !here.contains(row)));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    async fn delete_payloads(&mut self, rows: &[i64]) -> Result<u64, SqliteFailure> {
        delete(self, "DELETE FROM payloads WHERE notification = ?", rows).await
    }

    async fn delete_jobs(&mut self, before_ms: i64, limit: usize) -> Result<u64, SqliteFailure> {
        job_results::forget_jobs(self, before_ms, limit_of(limit)).await
    }

    async fn delete_acts(&mut self, before_ms: i64, limit: usize) -> Result<u64, SqliteFailure> {
        audit_log::prune(self, before_ms, limit).await
    }

    async fn delete_records(
        &mut self,
        rows: &[i64],
        _left: LeftToPartitions,
    ) -> Result<u64, SqliteFailure> {
        // SQLite deletes their payloads, attempts and transitions too (`ON DELETE CASCADE`).
        delete(self, "DELETE FROM notifications WHERE row_id = ?", rows).await
    }
}

async fn delete(
    connection: &mut SqliteConnection,
    statement: &'static str,
    rows: &[i64],
) -> Result<u64, SqliteFailure> {
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
