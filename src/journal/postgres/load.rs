//! Finding notifications by their keys, to look at or to change.

use super::error::PostgresFailure;
use crate::domain::key::Key;
use crate::journal::JournalError;
use crate::journal::rows::{Fields, StoredNotification, StoredRow};
use sqlx::postgres::{PgBindIterExt as _, PgConnection, PgRow};
use std::collections::HashMap;

impl StoredRow for PgRow {
    type Count = i32;

    fn failed(error: sqlx::Error) -> JournalError {
        PostgresFailure::from(error).into()
    }
}

/// What [`Fields::stored`] reads, of tables called `n` and `s`.
macro_rules! stored_columns {
    () => {
        "n.row_id, n.topic, n.id, n.webhook_id, n.lane, n.url, n.ladder, n.fingerprint, \
         n.registered_ms, s.state, s.cause, s.series, s.step, s.attempts, s.first_due_ms, \
         s.deadline_ms, s.due_ms, s.retry_at_ms, s.clamped, s.ended_ms, s.fence"
    };
}
/// What [`Fields::pending`] reads besides, the payload from a table of this name.
macro_rules! payload_columns {
    ($payload:literal) => {
        concat!(
            "n.ack, n.content_type, ",
            $payload,
            ".headers, ",
            $payload,
            ".body"
        )
    };
}
/// The notification of this row number, as a table called `n`. Written in this indirect
/// way so that the planner can use only the primary key: for a table that it believes to be small, it might
/// take any index that contains the number.
macro_rules! notification_of {
    ($row_id:literal) => {
        concat!(
            "(SELECT * FROM notifications WHERE row_id BETWEEN ",
            $row_id,
            " AND ",
            $row_id,
            " ORDER BY row_id LIMIT 1) AS n"
        )
    };
}
pub(super) use {notification_of, payload_columns, stored_columns};

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

/// In the order of the row numbers: all calls that lock several rows lock them in that order, so none waits
/// for another in a circle.
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

/// Finds the notifications of these keys.
pub(super) async fn load(
    connection: &mut PgConnection,
    keys: &[&Key],
) -> Result<HashMap<Key, StoredNotification>, PostgresFailure> {
    fetch(connection, LOAD, keys).await
}

/// The same, locked until the transaction ends.
pub(super) async fn lock(
    connection: &mut PgConnection,
    keys: &[&Key],
) -> Result<HashMap<Key, StoredNotification>, PostgresFailure> {
    fetch(connection, LOCK, keys).await
}

async fn fetch(
    connection: &mut PgConnection,
    statement: &'static str,
    keys: &[&Key],
) -> Result<HashMap<Key, StoredNotification>, PostgresFailure> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let found = sqlx::query(statement)
        .bind(keys.iter().map(|key| key.topic()).bind_iter())
        .bind(keys.iter().map(|key| key.id()).bind_iter())
        .fetch_all(connection)
        .await?;
    Ok(Fields::by_key(&found)?)
}
