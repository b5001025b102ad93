//! The notifications that are set aside: adding one, releasing one, listing them.

use super::error::SqliteFailure;
use crate::domain::key::Key;
use crate::journal::rows::{Fields, Released};
use crate::journal::sql_values::limit_of;
use crate::journal::{AllSetAside, SettingAside};
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;

/// Selects the notifications that are set aside and pending. Those that have ended since are left out.
macro_rules! pending_set_aside {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM set_aside AS a CROSS JOIN notifications AS n
              ON n.topic = a.topic AND n.id = a.id AND n.state = 'scheduled' ",
            $rest
        )
    };
}

/// See [`crate::journal::JournalWrites::set_aside`].
pub(super) async fn set_aside(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    setting: &SettingAside,
) -> Result<(), SqliteFailure> {
    sqlx::query(
        "INSERT INTO set_aside (topic, id, at_ms, reason, instance) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (topic, id) DO NOTHING",
    )
    .bind(setting.key.topic())
    .bind(setting.key.id())
    .bind(setting.at_ms)
    .bind(setting.reason.as_str())
    .bind(instance.clone())
    .execute(connection)
    .await?;
    Ok(())
}

/// Releases a notification. Returns the data of its row in `set_aside`; `None` if there was no row.
pub(super) async fn release(
    connection: &mut SqliteConnection,
    key: &Key,
) -> Result<Option<Released>, SqliteFailure> {
    let found = sqlx::query(
        "DELETE FROM set_aside WHERE topic = ? AND id = ? RETURNING at_ms, reason, instance",
    )
    .bind(key.topic())
    .bind(key.id())
    .fetch_optional(connection)
    .await?;
    let released = found.map(|row| Fields::of(&row).released());
    Ok(released.transpose()?)
}

/// See [`crate::journal::JournalMaintenance::all_set_aside`].
pub(super) async fn all(readers: &SqlitePool, limit: usize) -> Result<AllSetAside, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let total: i64 = sqlx::query_scalar(pending_set_aside!("count(*)", ""))
        .fetch_one(&mut *reading)
        .await?;
    let found = sqlx::query(pending_set_aside!(
        "a.topic, a.id, a.at_ms, a.reason",
        "ORDER BY a.at_ms, a.topic, a.id LIMIT ?"
    ))
    .bind(limit_of(limit))
    .fetch_all(&mut *reading)
    .await?;
    Ok(Fields::all_set_aside(total, &found)?)
}
