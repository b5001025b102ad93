//! The default signing keys.

use super::SqliteJournal;
use super::audit_log;
use super::endpoints::is_master_key;
use super::error::SqliteFailure;
use super::meta::remember;
use crate::domain::default_keys::DefaultKeys;
use crate::journal::default_keys::{DefaultKeysDecision, decide, newest};
use crate::journal::rows::Fields;
use crate::journal::{
    ChangingDefaultKeys, DEFAULT_SECRET, DefaultKeysChanged, JournalDefaultKeys, JournalError,
    PersonAct,
};
use async_trait::async_trait;
use sqlx::SqliteConnection;

#[async_trait]
impl JournalDefaultKeys for SqliteJournal {
    async fn default_keys(&self) -> Result<DefaultKeys, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(find(&mut reading).await?)
    }

    async fn change_default_keys(
        &self,
        changing: &ChangingDefaultKeys,
    ) -> Result<DefaultKeysChanged, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let connection = transaction.connection();
        let before = find(connection).await?;
        let keys = match decide(before, changing) {
            DefaultKeysDecision::Write(keys) => keys,
            DefaultKeysDecision::Answer(answer) => {
                transaction.release().await?;
                return Ok(answer);
            }
        };
        if !is_master_key(connection, changing.master_key.as_deref()).await? {
            transaction.release().await?;
            return Ok(DefaultKeysChanged::OtherMasterKey);
        }
        let by = (changing.actor.name(), &*self.instance);
        write(connection, &keys, by, changing.at_ms).await?;
        if let Some(newest) = newest(&keys) {
            remember(connection, DEFAULT_SECRET, newest).await?;
        }
        let act = PersonAct::of_default_keys(changing);
        audit_log::keep(connection, &self.instance, &act).await?;
        transaction.commit().await?;
        Ok(DefaultKeysChanged::Done {
            keys,
            existing: None,
        })
    }
}

/// All rows.
pub(super) async fn find(connection: &mut SqliteConnection) -> Result<DefaultKeys, SqliteFailure> {
    let found = sqlx::query(
        "SELECT id, kind, sealed, public_key, fingerprint, created_ms, signs_until_ms
         FROM default_keys ORDER BY place",
    )
    .fetch_all(connection)
    .await?;
    Ok(Fields::default_keys(&found)?)
}

/// Replaces all rows that can be read. Those that cannot be get places below 0, so the others have places from 0 on. `actor` and `instance` made the change.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    keys: &DefaultKeys,
    (actor, instance): (&str, &str),
    at_ms: i64,
) -> Result<(), SqliteFailure> {
    let unreadable: Vec<&str> = keys.unreadable().iter().map(|key| &*key.id).collect();
    let left = serde_json::Value::from(unreadable.clone()).to_string();
    sqlx::query("DELETE FROM default_keys WHERE id NOT IN (SELECT value FROM json_each(?1))")
        .bind(left)
        .execute(&mut *connection)
        .await?;
    for id in unreadable {
        sqlx::query(
            "UPDATE default_keys SET place = min(0, (SELECT min(place) FROM default_keys)) - 1
             WHERE id = ?1 AND place >= 0",
        )
        .bind(id)
        .execute(&mut *connection)
        .await?;
    }
    for (place, known) in (0_i64..).zip(keys.all()) {
        sqlx::query(
            "INSERT INTO default_keys (id, place, kind, sealed, public_key, fingerprint, created_ms, signs_until_ms,
                                       changed_ms, actor, instance)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .bind(known.key.id.as_str())
        .bind(place)
        .bind(known.key.kind.as_str())
        .bind(known.key.sealed.as_str())
        .bind(known.key.public_key.as_deref())
        .bind(known.fingerprint.as_str())
        .bind(known.key.created_ms)
        .bind(known.key.signs_until_ms)
        .bind(at_ms)
        .bind(actor)
        .bind(instance)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
