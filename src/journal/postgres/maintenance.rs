//! What maintenance asks for: recent changes, duties, small values under a name, and forgetting what is
//! old.

use super::connections::Call;
use super::error::Failure;
use super::statements::storable;
use crate::domain::key::Key;
use crate::journal::rows::Fields;
use crate::journal::{Cursor, JournalError, Prune, Pruned, Rebuild, limit_of};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

const DELETE_PAYLOADS: &str = "DELETE FROM payloads WHERE notification = ANY($1)";

/// See [`crate::journal::Journal::changes`].
pub(super) struct Changes {
    pub(super) from_ms: i64,
    pub(super) until_ms: i64,
    pub(super) cursor: Option<Cursor>,
    pub(super) limit: usize,
}

#[async_trait]
impl Call for Changes {
    type Reply = (Vec<Key>, Option<Cursor>);

    async fn make(&self, connection: &mut PgConnection) -> Result<Self::Reply, Failure> {
        let after = self.cursor.unwrap_or(Cursor {
            at_ms: self.from_ms,
            row: i64::MIN,
        });
        let found = sqlx::query(
            "SELECT t.at_ms, t.row_id, n.topic, n.id
             FROM transitions AS t JOIN notifications AS n ON n.row_id = t.notification
             WHERE t.kind IN ('cancelled', 'discarded', 'replayed', 'retried')
                AND (t.at_ms, t.row_id) > ($1, $2) AND t.at_ms < $3
             ORDER BY t.at_ms, t.row_id LIMIT $4",
        )
        .bind(after.at_ms)
        .bind(after.row)
        .bind(self.until_ms)
        .bind(limit_of(self.limit))
        .fetch_all(connection)
        .await?;
        Ok(Fields::changes(&found, self.limit)?)
    }
}

/// See [`crate::journal::Journal::rebuilding`].
pub(super) struct Rebuilding<'call> {
    pub(super) rebuild: &'call Rebuild,
    pub(super) instance: &'call Arc<str>,
}

#[async_trait]
impl Call for Rebuilding<'_> {
    type Reply = ();

    async fn make(&self, connection: &mut PgConnection) -> Result<(), Failure> {
        let kept = sqlx::query(
            "INSERT INTO rebuilds (at_ms, actor, instance, reason) VALUES ($1, $2, $3, $4)",
        )
        .bind(self.rebuild.at_ms)
        .bind(&*self.rebuild.actor.0)
        .bind(&**self.instance)
        .bind(storable(&self.rebuild.reason))
        .execute(connection)
        .await;
        kept.map_err(|error| Failure::from(error).in_doubt())?;
        Ok(())
    }
}

/// See [`crate::journal::Journal::duty`].
pub(super) struct Duty<'call> {
    pub(super) name: &'call str,
    pub(super) holder: &'call str,
    pub(super) ttl_ms: i64,
}

#[async_trait]
impl Call for Duty<'_> {
    type Reply = bool;

    async fn make(&self, connection: &mut PgConnection) -> Result<bool, Failure> {
        let taken = sqlx::query(
            "WITH clock AS (
                SELECT (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT AS now_ms
             )
             INSERT INTO duties (name, holder, until_ms) SELECT $1, $2, now_ms + $3 FROM clock
             ON CONFLICT (name) DO UPDATE SET
                holder = excluded.holder, until_ms = excluded.until_ms
             WHERE duties.holder = excluded.holder
                OR duties.until_ms <= excluded.until_ms - $3",
        )
        .bind(self.name)
        .bind(self.holder)
        .bind(self.ttl_ms)
        .execute(connection)
        .await?;
        Ok(taken.rows_affected() == 1)
    }
}

/// Gives all duties of this holder back.
pub(super) struct Resign<'call>(pub(super) &'call str);

#[async_trait]
impl Call for Resign<'_> {
    type Reply = ();

    async fn make(&self, connection: &mut PgConnection) -> Result<(), Failure> {
        sqlx::query("DELETE FROM duties WHERE holder = $1")
            .bind(self.0)
            .execute(connection)
            .await?;
        Ok(())
    }
}

/// See [`crate::journal::Journal::recall`].
pub(super) struct Recall<'call>(pub(super) &'call str);

#[async_trait]
impl Call for Recall<'_> {
    type Reply = Option<String>;

    async fn make(&self, connection: &mut PgConnection) -> Result<Option<String>, Failure> {
        recall(connection, self.0).await
    }
}

/// See [`crate::journal::Journal::remember`].
pub(super) struct Remember<'call> {
    pub(super) name: &'call str,
    pub(super) value: &'call str,
}

#[async_trait]
impl Call for Remember<'_> {
    type Reply = ();

    async fn make(&self, connection: &mut PgConnection) -> Result<(), Failure> {
        remember(connection, self.name, self.value).await
    }
}

/// See [`crate::journal::Journal::prune`].
pub(super) struct Pruning<'call> {
    pub(super) prune: &'call Prune,
    pub(super) limit: usize,
}

#[async_trait]
impl Call for Pruning<'_> {
    type Reply = Pruned;

    async fn make(&self, connection: &mut PgConnection) -> Result<Pruned, Failure> {
        let Self { prune, limit } = self;
        let mut transaction = connection.begin().await?;
        let (before_ms, place) = (prune.payloads_before_ms, "payloads_pruned");
        let (payloads, more_payloads) = ended(&mut transaction, place, before_ms, *limit).await?;
        let payloads = delete(&mut transaction, DELETE_PAYLOADS, &payloads).await?;
        let (before_ms, place) = (prune.records_before_ms, "records_pruned");
        let (mut records, more_records) = ended(&mut transaction, place, before_ms, *limit).await?;
        if let Some(before_ms) = prune.dead_before_ms {
            let left = limit.saturating_sub(records.len());
            records.append(&mut dead(&mut transaction, before_ms, left).await?);
        }
        let more = more_payloads || more_records || records.len() >= *limit;
        let records = delete_records(&mut transaction, records).await?;
        transaction.commit().await?;
        Ok(Pruned {
            payloads,
            records,
            more,
        })
    }
}

/// The next of those that were delivered or cancelled before an instant. Goes on from the place
/// that it got to the last time: what ends later has a later instant, so nothing is looked at
/// twice. That holds of the dead in between as well: one that is discarded ends anew.
async fn ended(
    connection: &mut PgConnection,
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
        "SELECT ended_ms, notification, state = 'dead' FROM statuses
         WHERE ended_ms IS NOT NULL AND (ended_ms, notification) > ($1, $2) AND ended_ms < $3
         ORDER BY ended_ms, notification LIMIT $4",
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

/// Locked, so that none of them is replayed meanwhile.
async fn dead(
    connection: &mut PgConnection,
    before_ms: i64,
    limit: usize,
) -> Result<Vec<i64>, Failure> {
    let found = sqlx::query_scalar(
        "SELECT notification FROM statuses WHERE state = 'dead' AND ended_ms < $1
         ORDER BY ended_ms, notification LIMIT $2
         FOR UPDATE SKIP LOCKED",
    )
    .bind(before_ms)
    .bind(limit_of(limit))
    .fetch_all(connection)
    .await?;
    Ok(found)
}

/// A notification with all that belongs to it.
async fn delete_records(connection: &mut PgConnection, mut rows: Vec<i64>) -> Result<u64, Failure> {
    rows.sort_unstable();
    for statement in [
        DELETE_PAYLOADS,
        // A key that is registered again must not begin set aside.
        "DELETE FROM set_aside AS a USING notifications AS n
         WHERE n.row_id = ANY($1) AND a.topic = n.topic AND a.id = n.id",
        "DELETE FROM attempts WHERE notification = ANY($1)",
        "DELETE FROM transitions WHERE notification = ANY($1)",
        "DELETE FROM statuses WHERE notification = ANY($1)",
    ] {
        delete(connection, statement, &rows).await?;
    }
    let statement = "DELETE FROM notifications WHERE row_id = ANY($1)";
    delete(connection, statement, &rows).await
}

async fn delete(
    connection: &mut PgConnection,
    statement: &'static str,
    rows: &[i64],
) -> Result<u64, Failure> {
    if rows.is_empty() {
        return Ok(0);
    }
    let deleted = sqlx::query(statement)
        .bind(rows)
        .execute(connection)
        .await?;
    Ok(deleted.rows_affected())
}

async fn recall(connection: &mut PgConnection, name: &str) -> Result<Option<String>, Failure> {
    let value = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'kept:' || $1")
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(value)
}

async fn remember(connection: &mut PgConnection, name: &str, value: &str) -> Result<(), Failure> {
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('kept:' || $1, $2)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(connection)
    .await?;
    Ok(())
}
