//! Reading one notification, and the pending ones in the order in which they fall due.

use super::error::Failure;
use super::load::{self, payload_columns, stored_columns};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use crate::journal::rows::{Fields, Ladders};
use crate::journal::{
    Bodies, Cursor, JournalCounts, JournalError, MOST_ATTEMPTS_SHOWN, MOST_TRANSITIONS_SHOWN,
    Pending, Transition, history, limit_of,
};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection, SqlitePool};

/// Pending notifications read at a time. With [`PAGE_BYTES`] it bounds what a page takes up,
/// whatever the size of the bodies.
const STRETCH: usize = 64;
/// A page of pending notifications ends once their bodies come to this much.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// One notification with its attempts, both as of the same instant.
pub(super) async fn find(readers: &SqlitePool, key: &Key) -> Result<Option<Snapshot>, Failure> {
    let mut reading = readers.begin().await?;
    let mut known = load::load(&mut reading, &[key]).await?;
    let Some(stored) = known.remove(key) else {
        return Ok(None);
    };
    let attempts = sqlx::query(
        "SELECT series, number, due_ms, started_ms, duration_ms, outcome, status, answer, reason
         FROM (SELECT * FROM attempts WHERE notification = ? ORDER BY row_id DESC LIMIT ?)
         ORDER BY row_id",
    )
    .bind(stored.row_id)
    .bind(limit_of(MOST_ATTEMPTS_SHOWN))
    .fetch_all(&mut *reading)
    .await?;
    Ok(Some(Snapshot {
        attempts: attempts
            .iter()
            .map(|row| Fields::of(row).attempt())
            .collect::<Result<_, _>>()?,
        ..stored.snapshot
    }))
}

/// How these stand, in order.
pub(super) async fn snapshots(
    readers: &SqlitePool,
    keys: &[Key],
) -> Result<Vec<Option<Snapshot>>, Failure> {
    let mut reading = readers.acquire().await?;
    let wanted: Vec<&Key> = keys.iter().collect();
    let known = load::load(&mut reading, &wanted).await?;
    let stands = |key| known.get(key).map(|stored| stored.snapshot.clone());
    Ok(keys.iter().map(stands).collect())
}

pub(super) async fn transitions(
    readers: &SqlitePool,
    key: &Key,
) -> Result<Vec<Transition>, Failure> {
    let mut reading = readers.begin().await?;
    let own = sqlx::query(
        "SELECT kind, at_ms, actor, instance, detail
         FROM (SELECT * FROM transitions
               WHERE notification = (SELECT row_id FROM notifications WHERE topic = ? AND id = ?)
               ORDER BY row_id DESC LIMIT ?)
         ORDER BY row_id",
    )
    .bind(key.topic())
    .bind(key.id())
    .bind(limit_of(MOST_TRANSITIONS_SHOWN))
    .fetch_all(&mut *reading)
    .await?;
    let own = Fields::transitions(&own)?;
    let Some(first) = own.first() else {
        return Ok(own);
    };
    let rebuilds = sqlx::query(
        "SELECT 'restored', at_ms, actor, instance, reason
         FROM (SELECT * FROM rebuilds WHERE at_ms >= ? ORDER BY row_id DESC LIMIT ?)
         ORDER BY row_id",
    )
    .bind(first.at_ms)
    .bind(limit_of(MOST_TRANSITIONS_SHOWN))
    .fetch_all(&mut *reading)
    .await?;
    let rebuilds = Fields::transitions(&rebuilds)?;
    Ok(history::with_rebuilds(own, rebuilds))
}

pub(super) async fn pending(readers: &SqlitePool, key: &Key) -> Result<Option<Pending>, Failure> {
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
    let pending = found.map(|row| Fields::of(&row).pending(&mut Ladders::default(), Bodies::Read));
    Ok(pending.transpose()?)
}

/// A page of pending notifications, soonest due first; shorter than `limit` if they are large.
pub(super) async fn pending_page(
    readers: &SqlitePool,
    mut cursor: Option<Cursor>,
    limit: usize,
    bodies: Bodies,
) -> Result<(Vec<Pending>, Option<Cursor>), Failure> {
    let mut reading = readers.begin().await?;
    let mut ladders = Ladders::default();
    let mut page = Vec::new();
    let (mut looked_at, mut bytes) = (0, 0);
    while looked_at < limit && bytes < PAGE_BYTES {
        let wanted = STRETCH.min(limit - looked_at);
        let found = pending_stretch(&mut reading, cursor, wanted, bodies).await?;
        for row in &found {
            cursor = Some(Cursor {
                at_ms: row.try_get("next_due_ms")?,
                row: row.try_get("row_id")?,
            });
            // Not even read: it may be what cannot be read.
            if row.try_get("set_aside")? {
                continue;
            }
            let pending = Fields::of(row).pending(&mut ladders, bodies)?;
            bytes += pending.notification.body.held_len();
            page.push(pending);
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
    ($which:literal $(, $bodies:ident)?) => {
        concat!(
            "SELECT ",
            stored_columns!(),
            ", ",
            payload_columns!($($bodies)?),
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
const DUE_WITH: &str = pending_where!("n.next_due_ms = ? AND n.row_id > ?");
const DUE_AFTER: &str = pending_where!("n.next_due_ms > ?");
const DUE_WITH_LEFT: &str = pending_where!("n.next_due_ms = ? AND n.row_id > ?", without_bodies);
const DUE_AFTER_LEFT: &str = pending_where!("n.next_due_ms > ?", without_bodies);

/// Two searches: SQLite does not search an index by a pair whose second part is the row number, and
/// would read through all that are due at the same instant again on every page. A million
/// notifications may well be due at one midnight.
async fn pending_stretch(
    connection: &mut SqliteConnection,
    cursor: Option<Cursor>,
    wanted: usize,
    bodies: Bodies,
) -> Result<Vec<SqliteRow>, Failure> {
    let (due_with, due_after) = match bodies {
        Bodies::Read => (DUE_WITH, DUE_AFTER),
        Bodies::Left => (DUE_WITH_LEFT, DUE_AFTER_LEFT),
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
            .bind(limit_of(wanted - found.len()))
            .fetch_all(connection)
            .await?;
        found.append(&mut later);
    }
    Ok(found)
}

pub(super) async fn counts(connection: &mut SqliteConnection) -> Result<JournalCounts, Failure> {
    let found = sqlx::query("SELECT name, many FROM counts")
        .fetch_all(connection)
        .await?;
    let mut counts = JournalCounts::default();
    for row in &found {
        let mut fields = Fields::of(row);
        let (name, many): (&str, i64) = (fields.take()?, fields.take()?);
        let many =
            u64::try_from(many).map_err(|_| JournalError::Corrupt(format!("a count of {many}")))?;
        match name {
            "registered" => counts.registered = many,
            "scheduled" => counts.scheduled = many,
            "delivered" => counts.delivered = many,
            "dead" => counts.dead = many,
            "cancelled" => counts.cancelled = many,
            _ => return Err(JournalError::Corrupt(format!("a count of `{name}`")).into()),
        }
    }
    Ok(counts)
}
