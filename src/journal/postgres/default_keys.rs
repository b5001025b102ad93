//! The default signing keys. Their changes wait for those of endpoints too: either may decide the master key.

use super::PostgresJournal;
use super::audit_log;
use super::connections::{PostgresCall, Tries};
use super::endpoints::{LOCK, is_master_key};
use super::error::PostgresFailure;
use super::meta::remember;
use super::statements::storable;
use crate::domain::default_keys::DefaultKeys;
use crate::journal::default_keys::{DefaultKeysDecision, decide, newest};
use crate::journal::rows::Fields;
use crate::journal::{
    ChangingDefaultKeys, DEFAULT_SECRET, DefaultKeysChanged, JournalDefaultKeys, JournalError,
    PersonAct,
};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

#[async_trait]
impl JournalDefaultKeys for PostgresJournal {
    async fn default_keys(&self) -> Result<DefaultKeys, JournalError> {
        self.connections.read(&FindDefaultKeys).await
    }

    async fn change_default_keys(
        &self,
        changing: &ChangingDefaultKeys,
    ) -> Result<DefaultKeysChanged, JournalError> {
        let instance = &self.instance;
        let call = ChangeDefaultKeys {
            changing,
            instance,
            tries: Tries::default(),
        };
        self.connections.write(&call).await
    }
}

/// See [`JournalDefaultKeys::default_keys`].
struct FindDefaultKeys;

#[async_trait]
impl PostgresCall for FindDefaultKeys {
    type Reply = DefaultKeys;

    async fn run(&self, connection: &mut PgConnection) -> Result<DefaultKeys, PostgresFailure> {
        find(connection).await
    }
}

/// See [`JournalDefaultKeys::change_default_keys`].
struct ChangeDefaultKeys<'call> {
    changing: &'call ChangingDefaultKeys,
    instance: &'call Arc<str>,
    tries: Tries,
}

#[async_trait]
impl PostgresCall for ChangeDefaultKeys<'_> {
    type Reply = DefaultKeysChanged;

    async fn run(
        &self,
        connection: &mut PgConnection,
    ) -> Result<DefaultKeysChanged, PostgresFailure> {
        let is_repeated = self.tries.begin();
        let act = PersonAct::of_default_keys(self.changing);
        let mut transaction = connection.begin().await?;
        sqlx::query(LOCK).execute(&mut *transaction).await?;
        let before = find(&mut transaction).await?;
        if is_repeated && audit_log::has(&mut transaction, self.instance, &act).await? {
            transaction.rollback().await?;
            return Ok(DefaultKeysChanged::Done {
                keys: before,
                existing: None,
            });
        }
        let keys = match decide(before, self.changing) {
            DefaultKeysDecision::Write(keys) => keys,
            DefaultKeysDecision::Answer(answer) => {
                transaction.rollback().await?;
                return Ok(answer);
            }
        };
        if !is_master_key(&mut transaction, self.changing.master_key.as_deref()).await? {
            transaction.rollback().await?;
            return Ok(DefaultKeysChanged::OtherMasterKey);
        }
        let by = (self.changing.actor.name(), &**self.instance);
        write(&mut transaction, &keys, by, self.changing.at_ms).await?;
        if let Some(newest) = newest(&keys) {
            remember(&mut transaction, DEFAULT_SECRET, newest).await?;
        }
        audit_log::keep(&mut transaction, self.instance, &act).await?;
        transaction.commit().await?;
        Ok(DefaultKeysChanged::Done {
            keys,
            existing: None,
        })
    }
}

/// All rows.
pub(super) async fn find(connection: &mut PgConnection) -> Result<DefaultKeys, PostgresFailure> {
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
    connection: &mut PgConnection,
    keys: &DefaultKeys,
    (actor, instance): (&str, &str),
    at_ms: i64,
) -> Result<(), PostgresFailure> {
    let unreadable: Vec<&str> = keys.unreadable().iter().map(|key| &*key.id).collect();
    sqlx::query("DELETE FROM default_keys WHERE id <> ALL ($1)")
        .bind(&unreadable)
        .execute(&mut *connection)
        .await?;
    for id in unreadable {
        sqlx::query(
            "UPDATE default_keys SET place = least(0, (SELECT min(place) FROM default_keys)) - 1
             WHERE id = $1 AND place >= 0",
        )
        .bind(id)
        .execute(&mut *connection)
        .await?;
    }
    for (place, known) in (0_i64..).zip(keys.all()) {
        sqlx::query(
            "INSERT INTO default_keys (id, place, kind, sealed, public_key, fingerprint, created_ms, signs_until_ms,
                                       changed_ms, actor, instance)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
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
        .bind(storable(actor))
        .bind(instance)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
