//! Finding notifications and bodies by their keys.

use super::bulk::{Bulk, Statement};
use super::error::{SqliteFailure, failed};
use crate::domain::attempt::Attempt;
use crate::domain::key::Key;
use crate::journal::rows::{Fields, StoredNotification, StoredRow};
use crate::journal::{FoundStanding, JournalError, PageBodies, Pending};
use bytes::Bytes;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use std::collections::HashMap;
use std::sync::LazyLock;

impl StoredRow for SqliteRow {
    type Count = i64;

    fn failed(error: sqlx::Error) -> JournalError {
        failed(error)
    }
}

/// Whether two rows of one lane mean the same endpoint: none was made again between their registrations. That is
/// [`Endpoint::is_meant_by`](crate::domain::endpoint::Endpoint::is_meant_by) of both.
macro_rules! mean_one_endpoint {
    ($one:literal, $other:literal) => {
        concat!(
            "(SELECT TRUE FROM endpoints AS e \
            WHERE e.name = substr(",
            $one,
            ".lane, 10) AND substr(",
            $one,
            ".lane, 1, 9) = 'endpoint:' AND e.made_again_ms > min(",
            $one,
            ".registered_ms, ",
            $other,
            ".registered_ms) AND e.made_again_ms <= max(",
            $one,
            ".registered_ms, ",
            $other,
            ".registered_ms)) IS NULL"
        )
    };
}
/// The columns that [`Fields::stored`] reads, from `notifications` as `n`.
macro_rules! stored_columns {
    () => {
        stored_columns!("NULL")
    };
    (with_order) => {
        stored_columns!(concat!(
            "CASE WHEN n.order_mode = 'strict' AND n.state = 'scheduled' THEN ( \
            SELECT w.next_due_ms FROM notifications AS w INDEXED BY ordered_pending \
            WHERE w.lane = n.lane AND w.order_key = n.order_key AND w.order_key IS NOT NULL \
              AND w.order_number < n.order_number AND w.state = 'scheduled' AND ",
            mean_one_endpoint!("n", "w"),
            " ORDER BY w.order_number LIMIT 1 \
         ) END"
        ))
    };
    ($waits_for:expr) => {
        concat!(
            "n.row_id, n.topic, n.id, n.webhook_id, n.lane, n.url, n.ladder, n.fingerprint, \
         n.registered_ms, n.state, n.cause, n.series, n.step, n.attempts, n.first_due_ms, \
         n.deadline_ms, n.due_ms, n.retry_at_ms, n.clamped, n.ended_ms, n.fence, \
         n.priority, n.series_priority, n.order_key, n.order_number, n.order_mode, n.superseded, \
             ",
            $waits_for
        )
    };
}
/// The columns that [`Fields::pending`] reads in addition, from `notifications` as `n` and `payloads` as
/// `p`. SQLite knows the length of a body without reading the body.
macro_rules! payload_columns {
    () => {
        "n.ack, n.content_type, p.headers, p.body"
    };
    (without_bodies) => {
        "n.ack, n.content_type, p.headers, length(p.body)"
    };
    // The length is [`crate::journal::SHORT_BODY`].
    (short_bodies) => {
        "n.ack, n.content_type, p.headers, CASE WHEN length(p.body) <= 4096 THEN p.body END, length(p.body)"
    };
    (all_bodies) => {
        "n.ack, n.content_type, p.headers, p.body, length(p.body)"
    };
}
pub(super) use {mean_one_endpoint, payload_columns, stored_columns};

static LOAD: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH wanted (topic, id) AS (",
        2,
        concat!(
            ") SELECT ",
            stored_columns!(with_order),
            ", a.at_ms, a.reason",
            // SQLite does not change the order of a cross join. So it searches the index once per key.
            " FROM wanted CROSS JOIN notifications AS n
              ON n.topic = wanted.topic AND n.id = wanted.id
              LEFT JOIN set_aside AS a ON a.topic = n.topic AND a.id = n.id"
        ),
    )
});

static STANDINGS: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH wanted (topic, id) AS (",
        2,
        ") SELECT n.topic, n.id, n.lane, n.state, n.series, n.step, n.attempts, n.first_due_ms, n.deadline_ms,
            n.due_ms, n.retry_at_ms, n.clamped,
            EXISTS (SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id)
          FROM wanted CROSS JOIN notifications AS n ON n.topic = wanted.topic AND n.id = wanted.id",
    )
});

static BODIES: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH wanted (topic, id) AS (",
        2,
        ") SELECT n.topic, n.id, p.body
          FROM wanted
          CROSS JOIN notifications AS n ON n.topic = wanted.topic AND n.id = wanted.id
          CROSS JOIN payloads AS p ON p.notification = n.row_id",
    )
});

macro_rules! pendings {
    ($payload_columns:expr) => {
        LazyLock::new(|| {
            Bulk::new(
                "WITH wanted (topic, id) AS (",
                2,
                concat!(
                    ") SELECT ",
                    stored_columns!(),
                    ", ",
                    $payload_columns,
                    " FROM wanted
                      CROSS JOIN notifications AS n ON n.topic = wanted.topic AND n.id = wanted.id
                      LEFT JOIN payloads AS p ON p.notification = n.row_id
                      WHERE n.state = 'scheduled' AND NOT EXISTS (
                        SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id
                      )"
                ),
            )
        })
    };
}

static PENDINGS: LazyLock<Bulk> = pendings!(payload_columns!(without_bodies));
static PENDINGS_WITH_BODIES: LazyLock<Bulk> = pendings!(payload_columns!(short_bodies));

static LAST_ATTEMPTS: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH wanted (topic, id) AS (",
        2,
        ") SELECT n.topic, n.id, a.series, a.number, a.due_ms, a.started_ms, a.duration_ms, a.outcome, a.status,
            x'', a.reason, ''
          FROM wanted
          CROSS JOIN notifications AS n ON n.topic = wanted.topic AND n.id = wanted.id
          CROSS JOIN attempts AS a
            ON a.row_id = (SELECT max(row_id) FROM attempts WHERE notification = n.row_id)",
    )
});

/// Finds the last attempts of these keys, in the order of the keys.
pub(super) async fn last_attempts(
    connection: &mut SqliteConnection,
    keys: &[Key],
) -> Result<Vec<Option<Attempt>>, SqliteFailure> {
    let rows = LAST_ATTEMPTS.fetch(connection, keys, bind).await?;
    Ok(Fields::attempts_by_key(&rows, keys)?)
}

/// Finds the bodies of these keys, in the order of the keys.
pub(super) async fn bodies(
    connection: &mut SqliteConnection,
    keys: &[Key],
) -> Result<Vec<Option<Bytes>>, SqliteFailure> {
    let rows = BODIES.fetch(connection, keys, bind).await?;
    Ok(Fields::bodies(&rows, keys)?)
}

/// Finds of these notifications what a schedule must agree with.
pub(super) async fn standings(
    connection: &mut SqliteConnection,
    keys: &[Key],
) -> Result<Vec<FoundStanding>, SqliteFailure> {
    let rows = STANDINGS.fetch(connection, keys, bind).await?;
    Ok(Fields::standings(&rows, keys)?)
}

/// Finds these notifications, as far as they are pending and not set aside, without their bodies, or with those that are short.
pub(super) async fn pendings(
    connection: &mut SqliteConnection,
    keys: &[Key],
    bodies: PageBodies,
) -> Result<Vec<Option<Pending>>, SqliteFailure> {
    let statement = match bodies {
        PageBodies::All => &PENDINGS_WITH_BODIES,
        PageBodies::None => &PENDINGS,
    };
    let rows = statement.fetch(connection, keys, bind).await?;
    Ok(Fields::pendings(&rows, keys, bodies)?)
}

/// Finds the notifications of these keys.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    keys: &[&Key],
) -> Result<HashMap<Key, StoredNotification>, SqliteFailure> {
    let bind = |statement, key: &&Key| bind(statement, key);
    let rows = LOAD.fetch(connection, keys, bind).await?;
    Ok(Fields::by_key(&rows)?)
}

fn bind(statement: Statement, key: &Key) -> Statement {
    statement.bind(key.topic()).bind(key.id())
}
