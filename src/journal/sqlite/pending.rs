//! The pending notifications, in the order of their due times, with which a schedule is loaded; and what one notification
//! sends.

use super::error::SqliteFailure;
use super::load::{payload_columns, stored_columns};
use crate::domain::key::Key;
use crate::journal::rows::{Fields, Ladders};
use crate::journal::sql_values::limit_of;
use crate::journal::{BodyReading, Cursor, PageBodies, Payload, Pending};
use sqlx::sqlite::SqliteRow;
use sqlx::{SqliteConnection, SqlitePool};

/// How many pending notifications are read at a time. This and [`PAGE_BYTES`] limit the memory that a page
/// takes, even if the bodies are large.
const READ_AT_A_TIME: usize = 64;
/// A page ends when its bodies have this many bytes together.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// See [`crate::journal::JournalMaintenance::oldest_due`].
pub(super) async fn oldest_due(
    connection: &mut SqliteConnection,
) -> Result<Option<i64>, SqliteFailure> {
    let found = sqlx::query_scalar(
        "SELECT n.next_due_ms FROM notifications AS n INDEXED BY pending
         WHERE n.state = 'scheduled' AND NOT EXISTS (
            SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id
         )
         ORDER BY n.next_due_ms LIMIT 1",
    );
    Ok(found.fetch_optional(connection).await?)
}

/// See [`crate::journal::JournalMaintenance::count_due_by`].
pub(super) async fn count_due_by(
    connection: &mut SqliteConnection,
    due_ms: i64,
    most: usize,
) -> Result<u64, SqliteFailure> {
    let counted: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (
            SELECT 1 FROM notifications INDEXED BY pending WHERE state = 'scheduled' AND next_due_ms <= ? LIMIT ?
         )",
    )
    .bind(due_ms)
    .bind(limit_of(most))
    .fetch_one(connection)
    .await?;
    Ok(counted.unsigned_abs())
}

/// One notification with everything that a schedule needs. `None` if it is not pending, or is set aside.
pub(super) async fn pending(
    readers: &SqlitePool,
    key: &Key,
) -> Result<Option<Pending>, SqliteFailure> {
    let found = sqlx::query(concat!(
        "SELECT ",
        stored_columns!(),
        ", ",
        payload_columns!(),
        " FROM notifications AS n LEFT JOIN payloads AS p ON p.notification = n.row_id
          WHERE n.topic = ? AND n.id = ? AND n.state = 'scheduled'
            AND NOT EXISTS (SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id)"
    ))
    .bind(key.topic())
    .bind(key.id())
    .fetch_optional(readers)
    .await?;
    let pending = found.map(|row| Fields::of(&row).pending(&mut Ladders::default()));
    Ok(pending.transpose()?)
}

macro_rules! payload_of {
    ($($bodies:ident)?) => {
        concat!(
            "SELECT ",
            payload_columns!($($bodies)?),
            " FROM notifications AS n LEFT JOIN payloads AS p ON p.notification = n.row_id
              WHERE n.topic = ? AND n.id = ?"
        )
    };
}

/// What one notification sends, whatever its state.
pub(super) async fn payload(
    readers: &SqlitePool,
    key: &Key,
    body: BodyReading,
) -> Result<Option<Payload>, SqliteFailure> {
    let statement = match body {
        BodyReading::Read => payload_of!(),
        BodyReading::LengthOnly => payload_of!(without_bodies),
    };
    let found = sqlx::query(statement)
        .bind(key.topic())
        .bind(key.id())
        .fetch_optional(readers)
        .await?;
    let payload = found.map(|row| Fields::of(&row).payload(body));
    Ok(payload.transpose()?)
}

/// A page of pending notifications, soonest due first. It is shorter than `limit` if the bodies are large.
pub(super) async fn pending_page(
    readers: &SqlitePool,
    mut cursor: Option<Cursor>,
    until_ms: i64,
    limit: usize,
    bodies: PageBodies,
) -> Result<(Vec<Pending>, Option<Cursor>), SqliteFailure> {
    let mut reading = readers.begin().await?;
    let mut ladders = Ladders::default();
    let mut page = Vec::new();
    let (mut looked_at, mut bytes_read) = (0, 0);
    while looked_at < limit && bytes_read < PAGE_BYTES {
        let wanted = READ_AT_A_TIME.min(limit - looked_at);
        let found = next_pending(&mut reading, cursor, until_ms, wanted, bodies).await?;
        for row in &found {
            Fields::read_page_row(row, &mut cursor, |fields| {
                let pending = fields.pending_of_page(&mut ladders, bodies)?;
                bytes_read += pending.notification.body.held_len();
                page.push(pending);
                Ok(())
            })?;
        }
        looked_at += found.len();
        if found.len() < wanted {
            break;
        }
    }
    let cursor = cursor.filter(|_| looked_at > 0);
    Ok((page, cursor))
}

macro_rules! pending_where {
    ($which:literal, $bodies:ident) => {
        concat!(
            "SELECT ",
            stored_columns!(),
            ", ",
            payload_columns!($bodies),
            ", n.next_due_ms, EXISTS (
                SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id
              ) AS set_aside
              FROM notifications AS n INDEXED BY pending
              LEFT JOIN payloads AS p ON p.notification = n.row_id
              WHERE n.state = 'scheduled' AND ",
            $which,
            " ORDER BY n.next_due_ms, n.row_id LIMIT ?"
        )
    };
}
const DUE_WITH: &str = pending_where!("n.next_due_ms = ? AND n.row_id > ?", all_bodies);
const DUE_AFTER: &str = pending_where!("n.next_due_ms > ? AND n.next_due_ms <= ?", all_bodies);
const DUE_WITH_WITHOUT_BODIES: &str =
    pending_where!("n.next_due_ms = ? AND n.row_id > ?", without_bodies);
const DUE_AFTER_WITHOUT_BODIES: &str =
    pending_where!("n.next_due_ms > ? AND n.next_due_ms <= ?", without_bodies);

/// Finds the next rows after a cursor, with two searches: one for the due time of the cursor, one for later
/// due times. SQLite cannot search an index by a due time together with a row number. With one search, it
/// would read all rows with the same due time again for every page, and a million notifications may be due
/// at one midnight.
async fn next_pending(
    connection: &mut SqliteConnection,
    cursor: Option<Cursor>,
    until_ms: i64,
    wanted: usize,
    bodies: PageBodies,
) -> Result<Vec<SqliteRow>, SqliteFailure> {
    let (due_with, due_after) = match bodies {
        PageBodies::All => (DUE_WITH, DUE_AFTER),
        PageBodies::None => (DUE_WITH_WITHOUT_BODIES, DUE_AFTER_WITHOUT_BODIES),
    };
    let mut found = Vec::new();
    if let Some(cursor) = cursor {
        found = sqlx::query(due_with)
            .bind(cursor.at_ms)
            .bind(cursor.row)
            .bind(limit_of(wanted))
            .fetch_all(&mut *connection)
            .await?;
    }
    if found.len() < wanted {
        let mut later = sqlx::query(due_after)
            .bind(cursor.map_or(i64::MIN, |cursor| cursor.at_ms))
            .bind(until_ms)
            .bind(limit_of(wanted - found.len()))
            .fetch_all(connection)
            .await?;
        found.append(&mut later);
    }
    Ok(found)
}
