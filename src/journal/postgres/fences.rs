//! Raising fences.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::{lock, mean_one_endpoint, stored_columns, with_pending_places};
use super::pending::{short_payload, short_payload_columns};
use super::statements::{integer, update_statuses};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use crate::journal::rows::{Fields, StoredNotification};
use crate::journal::{PageBodies, Pending, effect};
use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgBindIterExt as _, PgConnection};
use sqlx::query::Query;
use sqlx::{Connection as _, Postgres};
use std::collections::{HashMap, HashSet};

/// Raises the fences of those of the notifications that are pending. After Redis has lost its data, this is done before
/// each attempt, so it is one statement.
const RAISE: &str = concat!(
    "WITH wanted AS MATERIALIZED (
        SELECT n.*, s.tuple, g.times
        FROM unnest($1::TEXT[], $2::TEXT[], $3::INTEGER[]) AS g (topic, id, times)
",
    with_pending_places!("*"),
    "), raised AS (
        UPDATE statuses AS s SET fence = s.fence + n.times
        FROM wanted AS n
        WHERE s.ctid = n.tuple AND s.ended_ms IS NULL
        RETURNING ",
    stored_columns!(with_order),
    "
     )
     SELECT raised.*, a.at_ms, a.reason FROM raised
     LEFT JOIN LATERAL (
        SELECT * FROM set_aside AS a WHERE a.topic = raised.topic AND a.id = raised.id OFFSET 0
     ) AS a ON TRUE"
);

/// As [`RAISE`], with what those send that are not set aside. A worker that finds a notification in the journal alone reads both
/// before its attempt.
const RAISE_PENDINGS: &str = concat!(
    "WITH places AS MATERIALIZED (
        SELECT n.*, s.tuple, g.times
        FROM unnest($1::TEXT[], $2::TEXT[], $3::INTEGER[]) AS g (topic, id, times)
",
    with_pending_places!("*"),
    "), wanted AS MATERIALIZED (
        SELECT n.*, p.headers, p.body, p.len FROM places AS n LEFT JOIN LATERAL ",
    short_payload!(),
    " ON TRUE
     ), raised AS (
        UPDATE statuses AS s SET fence = s.fence + n.times
        FROM wanted AS n
        WHERE s.ctid = n.tuple AND s.ended_ms IS NULL
        RETURNING ",
    stored_columns!(),
    ", ",
    short_payload_columns!("n"),
    "
     )
     SELECT * FROM raised WHERE NOT EXISTS (
        SELECT 1 FROM set_aside AS a WHERE a.topic = raised.topic AND a.id = raised.id
     )"
);

/// See [`crate::journal::JournalWrites::fence`]. It may be executed twice: raising a fence once more does
/// no harm.
pub(super) struct RaiseFences<'call>(pub(super) &'call [Key]);

#[async_trait]
impl PostgresCall for RaiseFences<'_> {
    type Reply = Vec<Option<Snapshot>>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let times = times_of(self.0);
        if times.is_empty() {
            return Ok(Vec::new());
        }
        let mut known = raise(connection, &times).await?;
        let rest = times.keys().filter(|key| !known.contains_key(key));
        let rest: Vec<&Key> = rest.copied().collect();
        if rest.is_empty() {
            return Ok(effect::raise_fences(known, self.0).0);
        }
        // These are unknown, or had ended when the statement began. One may be pending again by now.
        let mut transaction = connection.begin().await?;
        let locked = lock(&mut transaction, &rest).await?;
        let locked_rows: HashSet<i64> = locked.values().map(|stored| stored.row_id).collect();
        known.extend(locked);
        let (snapshots, mut raised) = effect::raise_fences(known, self.0);
        raised.retain(|stored| locked_rows.contains(&stored.row_id));
        match raised.is_empty() {
            true => transaction.rollback().await?,
            false => {
                update_statuses(&mut transaction, &raised).await?;
                transaction.commit().await?;
            }
        }
        Ok(snapshots)
    }
}

/// See [`crate::journal::JournalWrites::fence_pendings`]. It may be executed twice, as [`RaiseFences`].
pub(super) struct FencePendings<'call>(pub(super) &'call [Key]);

#[async_trait]
impl PostgresCall for FencePendings<'_> {
    type Reply = Vec<Option<Pending>>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let times = times_of(self.0);
        if times.is_empty() {
            return Ok(Vec::new());
        }
        let found = bound(RAISE_PENDINGS, &times).fetch_all(connection).await?;
        Ok(Fields::pendings(&found, self.0, PageBodies::All)?)
    }
}

/// How often each key was given.
fn times_of(keys: &[Key]) -> HashMap<&Key, u32> {
    let mut times = HashMap::new();
    for key in keys {
        *times.entry(key).or_default() += 1;
    }
    times
}

/// A statement that raises each fence as many times as its key was given.
fn bound<'keys>(
    statement: &'static str,
    times: &'keys HashMap<&'keys Key, u32>,
) -> Query<'keys, Postgres, PgArguments> {
    sqlx::query(statement)
        .bind(times.keys().map(|key| key.topic()).bind_iter())
        .bind(times.keys().map(|key| key.id()).bind_iter())
        .bind(times.values().map(|times| integer(*times)).bind_iter())
}

/// Raises each fence as many times as its key was given. Returns those that are pending, with the fences from before.
async fn raise(
    connection: &mut PgConnection,
    times: &HashMap<&Key, u32>,
) -> Result<HashMap<Key, StoredNotification>, PostgresFailure> {
    let found = bound(RAISE, times).fetch_all(connection).await?;
    let mut raised = Fields::by_key(&found)?;
    for (key, stored) in &mut raised {
        let times = times.get(key).copied().unwrap_or_default();
        stored.snapshot.fence -= u64::from(times);
    }
    Ok(raised)
}
