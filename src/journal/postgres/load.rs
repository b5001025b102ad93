//! Finding notifications by their keys, to read or to change them.

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

/// Whether two rows of the lane of `n` mean the same endpoint: none was made again between their registrations. That is
/// [`Endpoint::is_meant_by`](crate::domain::endpoint::Endpoint::is_meant_by) of both. `$other_ms` is the other one's
/// instant of registration. As a value of its own, it is asked for each row after all other conditions.
macro_rules! mean_one_endpoint {
    ($other_ms:literal) => {
        concat!(
            "(SELECT TRUE FROM endpoints AS e \
            WHERE e.name = substr(n.lane, 10) AND n.lane LIKE 'endpoint:%' \
              AND e.made_again_ms > LEAST(n.registered_ms, ",
            $other_ms,
            ") AND e.made_again_ms <= GREATEST(n.registered_ms, ",
            $other_ms,
            ")) IS NULL"
        )
    };
}
/// The columns that [`Fields::stored`] reads, from `notifications` as `n` and `statuses` as `s`.
macro_rules! stored_columns {
    () => {
        stored_columns!("NULL::BIGINT")
    };
    (with_order) => {
        stored_columns!(concat!(
            "CASE WHEN n.order_mode = 'strict' AND s.state = 'scheduled' THEN ( \
            SELECT w.next_due_ms FROM statuses AS w \
            WHERE w.state = 'scheduled' AND w.order_group = s.order_group \
              AND w.order_number < s.order_number AND ",
            mean_one_endpoint!("w.notification >> 21"),
            " ORDER BY w.order_number LIMIT 1 \
         ) END"
        ))
    };
    ($waits_for:expr) => {
        concat!(
            "n.row_id, n.topic, n.id, n.webhook_id, n.lane, n.url, n.ladder, n.fingerprint, \
         n.registered_ms, s.state, s.cause, s.series, s.step, s.attempts, s.first_due_ms, \
         s.deadline_ms, s.due_ms, s.retry_at_ms, s.clamped, s.ended_ms, s.fence, \
         n.priority, s.series_priority, n.order_key, n.order_number, n.order_mode, s.superseded, \
             ",
            $waits_for
        )
    };
}
/// The columns that [`Fields::pending`] reads in addition. `$payload` is the name of the table with the
/// payload.
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
/// The notification with this row number, as a table called `n`. The condition is written in this indirect
/// way, so that PostgreSQL can use only the primary key. Otherwise it might use any
/// index that contains the row number, as long as its statistics say that the table is small.
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
/// What follows the keys `g (topic, id)` in a statement that updates pending statuses by their places in the table: the
/// notification of each as `n` with these columns, the place of its status as `s.tuple`, in the order of the row numbers.
///
/// Each row is looked up by itself and updated by its `ctid`, its place in the table. Pending rows are
/// found with `ended_ms IS NULL`, which is not the condition of any index. So PostgreSQL has only this one
/// plan, even if its statistics are old. If another session updates a row meanwhile, PostgreSQL checks the
/// conditions of the update again with the new values.
macro_rules! with_pending_places {
    ($columns:literal) => {
        concat!(
            " CROSS JOIN LATERAL (SELECT ",
            $columns,
            " FROM notifications AS n WHERE n.topic = g.topic AND n.id = g.id OFFSET 0
            ) AS n
            CROSS JOIN LATERAL (
                SELECT ctid AS tuple FROM statuses AS s
                WHERE s.notification = n.row_id AND s.ended_ms IS NULL OFFSET 0
            ) AS s
            ORDER BY n.row_id "
        )
    };
}
pub(super) use {
    mean_one_endpoint, notification_of, payload_columns, stored_columns, with_pending_places,
};

// Both statements look up each key by itself, so that the plan does not depend on PostgreSQL's statistics.

const LOAD: &str = concat!(
    "SELECT ",
    stored_columns!(with_order),
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

/// Locks the rows in the order of their numbers. All calls that lock several rows use this order, so that
/// there are no deadlocks.
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
    stored_columns!(with_order),
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

/// Finds the notifications of these keys, and locks their statuses until the transaction ends.
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
