//! Pruning: the statements that find and delete old data.

use super::audit_log;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::job_results;
use super::load::mean_one_endpoint;
use super::meta::{recall_locked, remember};
use super::time_partition::{TimePartition, partitions};
use crate::journal::pruning::{EndedRow, HIGHER_NUMBERS, LeftToPartitions, PruningStore, prune};
use crate::journal::sql_values::limit_of;
use crate::journal::{Cursor, PartitionedTables, Prune, Pruned};
use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use std::collections::HashSet;

/// Most bodies are dropped with their partition, so most notifications are only passed.
const PASSED_FOR_EACH: usize = 8;

/// See [`crate::journal::JournalMaintenance::prune`].
pub(super) struct PruneOldest<'call> {
    pub(super) prune: &'call Prune,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for PruneOldest<'_> {
    type Reply = Pruned;

    async fn run(&self, connection: &mut PgConnection) -> Result<Pruned, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        let pruned = prune(&mut *transaction, self.prune, self.limit).await?;
        transaction.commit().await?;
        Ok(pruned)
    }
}

#[async_trait]
impl PruningStore for PgConnection {
    type Error = PostgresFailure;

    async fn recall(&mut self, name: &str) -> Result<Option<String>, PostgresFailure> {
        recall_locked(self, name).await
    }

    async fn remember(&mut self, name: &str, value: &str) -> Result<(), PostgresFailure> {
        remember(self, name, value).await
    }

    async fn ended(
        &mut self,
        after: Cursor,
        before_ms: i64,
        limit: usize,
    ) -> Result<Vec<EndedRow>, PostgresFailure> {
        let found: Vec<(i64, i64, bool)> = sqlx::query_as(
            "SELECT ended_ms, notification, state = 'dead' FROM statuses
             WHERE ended_ms IS NOT NULL AND (ended_ms, notification) > ($1, $2) AND ended_ms < $3
             ORDER BY ended_ms, notification LIMIT $4",
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
        limit.saturating_mul(PASSED_FOR_EACH)
    }

    async fn deleted_singly(
        &mut self,
        found: &[EndedRow],
    ) -> Result<Vec<EndedRow>, PostgresFailure> {
        let there = that_are_dropped(self, PartitionedTables::Bodies, "payloads").await?;
        let has_partition = |ended: &EndedRow| there.iter().any(|one| one.has(ended.row));
        let divided: Vec<i64> = (found.iter())
            .filter(|ended| has_partition(ended))
            .map(|ended| ended.row)
            .collect();
        if divided.is_empty() {
            return Ok(found.to_vec());
        }
        let kept: Vec<i64> = sqlx::query_scalar(
            "SELECT notification FROM payloads WHERE notification = ANY($1) AND kept",
        )
        .bind(divided)
        .fetch_all(self)
        .await?;
        let kept: HashSet<i64> = kept.into_iter().collect();
        let is_single = |ended: &&EndedRow| !has_partition(ended) || kept.contains(&ended.row);
        Ok(found.iter().filter(is_single).copied().collect())
    }

    async fn still_ended(&mut self, found: &[EndedRow]) -> Result<HashSet<i64>, PostgresFailure> {
        if found.is_empty() {
            return Ok(HashSet::new());
        }
        let rows: Vec<i64> = found.iter().map(|ended| ended.row).collect();
        // If another session changes a row meanwhile, PostgreSQL waits for it and checks the condition again.
        let locked: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT notification, ended_ms FROM statuses
             WHERE notification = ANY($1) AND ended_ms IS NOT NULL
             ORDER BY notification FOR UPDATE",
        )
        .bind(rows)
        .fetch_all(self)
        .await?;
        let locked: HashSet<(i64, i64)> = locked.into_iter().collect();
        let same = |ended: &&EndedRow| locked.contains(&(ended.row, ended.ended_ms));
        Ok(found.iter().filter(same).map(|ended| ended.row).collect())
    }

    async fn dead(&mut self, before_ms: i64, limit: usize) -> Result<Vec<i64>, PostgresFailure> {
        let found = sqlx::query_scalar(
            "SELECT notification FROM statuses WHERE state = 'dead' AND ended_ms < $1
             ORDER BY ended_ms, notification LIMIT $2
             FOR UPDATE SKIP LOCKED",
        )
        .bind(before_ms)
        .bind(limit_of(limit))
        .fetch_all(self)
        .await?;
        Ok(found)
    }

    async fn still_latest(&mut self, rows: &[i64]) -> Result<HashSet<i64>, PostgresFailure> {
        if rows.is_empty() {
            return Ok(HashSet::new());
        }
        let found: Vec<i64> = sqlx::query_scalar(concat!(
            "SELECT n.row_id FROM notifications AS n
             WHERE n.row_id = ANY($1) AND n.order_mode = 'latest'
                AND NOT EXISTS (SELECT 1 FROM notifications AS h
                    WHERE h.lane = n.lane AND h.order_key = n.order_key AND h.order_number > n.order_number
                        AND ",
            mean_one_endpoint!("h.registered_ms"),
            "   )
                AND EXISTS (SELECT 1 FROM notifications AS l
                    JOIN statuses AS s ON s.notification = l.row_id
                    WHERE l.lane = n.lane AND l.order_key = n.order_key AND l.order_number < n.order_number
                        AND s.state = 'dead' AND l.row_id <> ALL($1) AND ",
            mean_one_endpoint!("l.registered_ms"),
            ")"
        ))
        .bind(rows)
        .fetch_all(self)
        .await?;
        Ok(found.into_iter().collect())
    }

    async fn passed_above(
        &mut self,
        rows: &[i64],
        passed: Cursor,
    ) -> Result<Vec<i64>, PostgresFailure> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        // Two statements, so that no plan reads all statuses.
        let above: Vec<i64> = sqlx::query_scalar(
            "SELECT DISTINCT h.row_id FROM notifications AS n
             CROSS JOIN LATERAL (
                SELECT row_id FROM notifications AS higher
                WHERE higher.lane = n.lane AND higher.order_key = n.order_key
                    AND higher.order_number > n.order_number
                ORDER BY higher.order_number LIMIT $2
             ) AS h
             WHERE n.row_id = ANY($1) AND n.order_mode = 'latest' AND h.row_id <> ALL($1)",
        )
        .bind(rows)
        .bind(HIGHER_NUMBERS)
        .fetch_all(&mut *self)
        .await?;
        if above.is_empty() {
            return Ok(Vec::new());
        }
        // One that is changed at this moment is left: to wait for it here would be out of the order of row numbers.
        let found = sqlx::query_scalar(
            "SELECT notification FROM statuses
             WHERE notification = ANY($1) AND ended_ms IS NOT NULL AND state <> 'dead'
                AND (ended_ms, notification) <= ($2, $3)
             ORDER BY notification FOR UPDATE SKIP LOCKED",
        )
        .bind(above)
        .bind(passed.at_ms)
        .bind(passed.row)
        .fetch_all(self)
        .await?;
        Ok(found)
    }

    async fn delete_payloads(&mut self, rows: &[i64]) -> Result<u64, PostgresFailure> {
        if rows.is_empty() {
            return Ok(0);
        }
        delete_from(self, PartitionedTables::Bodies, rows, true).await
    }

    async fn delete_jobs(&mut self, before_ms: i64, limit: usize) -> Result<u64, PostgresFailure> {
        job_results::forget_jobs(self, before_ms, limit_of(limit)).await
    }

    async fn delete_acts(&mut self, before_ms: i64, limit: usize) -> Result<u64, PostgresFailure> {
        audit_log::prune(self, before_ms, limit).await
    }

    async fn delete_records(
        &mut self,
        rows: &[i64],
        left: LeftToPartitions,
    ) -> Result<u64, PostgresFailure> {
        if rows.is_empty() {
            return Ok(0);
        }
        // Without this, if the key were registered again, the new notification would be set aside.
        let set_aside = "DELETE FROM set_aside AS a USING notifications AS n
             WHERE n.row_id = ANY($1) AND a.topic = n.topic AND a.id = n.id";
        delete(self, set_aside, rows).await?;
        delete_from(self, PartitionedTables::Bodies, rows, left.bodies).await?;
        delete_from(self, PartitionedTables::History, rows, left.history).await?;
        let statuses = "DELETE FROM statuses WHERE notification = ANY($1)";
        delete(self, statuses, rows).await?;
        let notifications = "DELETE FROM notifications WHERE row_id = ANY($1)";
        delete(self, notifications, rows).await
    }
}

/// Deletes the rows of these notifications from tables that are partitioned alike, except what is in a partition that is dropped
/// when it is old, if any is. Returns the number of rows.
async fn delete_from(
    connection: &mut PgConnection,
    tables: PartitionedTables,
    rows: &[i64],
    are_dropped: bool,
) -> Result<u64, PostgresFailure> {
    let mut deleted = 0;
    // Attempts first, as all statements that write to both.
    for table in tables.tables().iter().rev() {
        let there = match are_dropped {
            true => that_are_dropped(connection, tables, table.name).await?,
            false => Vec::new(),
        };
        let (name, mut others) = (table.name, rows.to_vec());
        others.retain(|row| !there.iter().any(|one| one.has(*row)));
        // Two statements, so that PostgreSQL looks into few partitions.
        let kept = format!("DELETE FROM {name} WHERE notification = ANY($1) AND kept");
        let kept = sqlx::query(AssertSqlSafe(kept)).bind(rows);
        deleted += kept.execute(&mut *connection).await?.rows_affected();
        let (Some(first), Some(last)) = (others.iter().min(), others.iter().max()) else {
            continue;
        };
        let (first, last) = (*first, *last);
        let single = format!(
            "DELETE FROM {name} WHERE notification = ANY($1) AND NOT kept AND notification BETWEEN $2 AND $3"
        );
        let single = sqlx::query(AssertSqlSafe(single)).bind(others).bind(first);
        let single = single.bind(last).execute(&mut *connection).await?;
        deleted += single.rows_affected();
    }
    Ok(deleted)
}

/// The partitions of a table that are dropped when they are old: none if nobody may drop them.
async fn that_are_dropped(
    connection: &mut PgConnection,
    tables: PartitionedTables,
    table: &str,
) -> Result<Vec<TimePartition>, PostgresFailure> {
    match tables.owners(connection).await? {
        Some(_) => partitions(connection, table).await,
        None => Ok(Vec::new()),
    }
}

async fn delete(
    connection: &mut PgConnection,
    statement: &'static str,
    rows: &[i64],
) -> Result<u64, PostgresFailure> {
    if rows.is_empty() {
        return Ok(0);
    }
    let deleted = sqlx::query(statement)
        .bind(rows)
        .execute(connection)
        .await?;
    Ok(deleted.rows_affected())
}
