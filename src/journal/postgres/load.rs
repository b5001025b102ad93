//! Finding notifications by their keys, to look at or to change.

use super::error::Failure;
use super::rows::{Fields, Reader, Stored, stored_columns};
use crate::domain::key::Key;
use sqlx::postgres::{PgBindIterExt as _, PgConnection};
use std::collections::HashMap;

// Each is looked up by itself: what the planner believes of the tables must not matter.

const LOAD: &str = concat!(
    "SELECT ",
    stored_columns!(),
    ", a.at_ms, a.reason",
    " FROM unnest($1::TEXT[], $2::TEXT[]) AS g (topic, id)
     CROSS JOIN LATERAL (
        SELECT * FROM notifications AS n WHERE n.topic = g.topic AND n.id = g.id OFFSET 0
     ) AS n
     CROSS JOIN LATERAL (
        SELECT * FROM statuses AS s WHERE s.notification = n.row_id OFFSET 0
     ) AS s
     LEFT JOIN LATERAL (
        SELECT * FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id OFFSET 0
     ) AS a ON TRUE"
);

/// In the order of the row numbers: whoever locks several rows locks them in that order.
const LOCK: &str = concat!(
    "WITH wanted AS MATERIALIZED (
        SELECT n.*
        FROM unnest($1::TEXT[], $2::TEXT[]) AS g (topic, id)
        CROSS JOIN LATERAL (
            SELECT * FROM notifications AS n WHERE n.topic = g.topic AND n.id = g.id OFFSET 0
        ) AS n
        ORDER BY n.row_id
     )
     SELECT ",
    stored_columns!(),
    ", a.at_ms, a.reason",
    " FROM wanted AS n
     CROSS JOIN LATERAL (
        SELECT * FROM statuses AS s WHERE s.notification = n.row_id FOR UPDATE
     ) AS s
     LEFT JOIN LATERAL (
        SELECT * FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id OFFSET 0
     ) AS a ON TRUE"
);

/// Finds the notifications of these keys, in no particular order.
pub(super) async fn load(
    connection: &mut PgConnection,
    keys: &[&Key],
) -> Result<Vec<Stored>, Failure> {
    fetch(connection, LOAD, keys).await
}

/// The same, and nobody else changes them until the transaction ends.
pub(super) async fn lock(
    connection: &mut PgConnection,
    keys: &[&Key],
) -> Result<HashMap<Key, Stored>, Failure> {
    let locked = fetch(connection, LOCK, keys).await?.into_iter();
    Ok(locked
        .map(|stored| (stored.snapshot.key.clone(), stored))
        .collect())
}

async fn fetch(
    connection: &mut PgConnection,
    statement: &'static str,
    keys: &[&Key],
) -> Result<Vec<Stored>, Failure> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let found = sqlx::query(statement)
        .bind(keys.iter().map(|key| key.topic()).bind_iter())
        .bind(keys.iter().map(|key| key.id()).bind_iter())
        .fetch_all(connection)
        .await?;
    let mut reader = Reader::default();
    found
        .iter()
        .map(|row| {
            let mut fields = Fields::of(row);
            let mut stored = reader.stored(&mut fields)?;
            stored.snapshot.set_aside = fields.set_aside(stored.snapshot.state)?;
            Ok(stored)
        })
        .collect()
}
