//! The notifications that are set aside: adding one, releasing one, listing them.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::statements::storable;
use crate::domain::key::Key;
use crate::journal::rows::{Fields, Released};
use crate::journal::sql_values::limit_of;
use crate::journal::{AllSetAside, SettingAside};
use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

/// Selects the notifications that are set aside and pending. Those that have ended since are left out.
macro_rules! pending_set_aside {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM set_aside AS a
              CROSS JOIN LATERAL (
                SELECT row_id FROM notifications AS n
                WHERE n.topic = a.topic AND n.id = a.id OFFSET 0
              ) AS n
              CROSS JOIN LATERAL (
                SELECT 1 FROM statuses AS s
                WHERE s.notification = n.row_id AND s.state = 'scheduled' OFFSET 0
              ) AS s ",
            $rest
        )
    };
}

/// See [`crate::journal::JournalWrites::set_aside`]. It may be executed twice: the second time changes
/// nothing.
pub(super) struct SetOneAside<'call> {
    pub(super) setting: &'call SettingAside,
    pub(super) instance: &'call Arc<str>,
}

#[async_trait]
impl PostgresCall for SetOneAside<'_> {
    type Reply = ();

    async fn run(&self, connection: &mut PgConnection) -> Result<(), PostgresFailure> {
        let Self { setting, instance } = self;
        sqlx::query(
            "INSERT INTO set_aside (topic, id, at_ms, reason, instance)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (topic, id) DO NOTHING",
        )
        .bind(setting.key.topic())
        .bind(setting.key.id())
        .bind(setting.at_ms)
        .bind(storable(&setting.reason))
        .bind(&***instance)
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// Releases a notification. Returns the data of its row in `set_aside`; `None` if there was no row.
pub(super) async fn release(
    connection: &mut PgConnection,
    key: &Key,
) -> Result<Option<Released>, PostgresFailure> {
    let found = sqlx::query(
        "DELETE FROM set_aside WHERE topic = $1 AND id = $2 RETURNING at_ms, reason, instance",
    )
    .bind(key.topic())
    .bind(key.id())
    .fetch_optional(connection)
    .await?;
    let released = found.map(|row| Fields::of(&row).released());
    Ok(released.transpose()?)
}

/// See [`crate::journal::JournalMaintenance::all_set_aside`].
pub(super) struct FindSetAside {
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FindSetAside {
    type Reply = AllSetAside;

    async fn run(&self, connection: &mut PgConnection) -> Result<AllSetAside, PostgresFailure> {
        let total: i64 = sqlx::query_scalar(pending_set_aside!("count(*)", ""))
            .fetch_one(&mut *connection)
            .await?;
        let found = sqlx::query(pending_set_aside!(
            "a.topic, a.id, a.at_ms, a.reason",
            "ORDER BY a.at_ms, a.topic, a.id LIMIT $1"
        ))
        .bind(limit_of(self.limit))
        .fetch_all(connection)
        .await?;
        Ok(Fields::all_set_aside(total, &found)?)
    }
}
