//! The API keys.

use super::PostgresJournal;
use super::audit_log;
use super::connections::{PostgresCall, Tries};
use super::error::PostgresFailure;
use crate::domain::api_key::KeyTopics;
use crate::journal::api_keys::{effect_of_adding, effect_of_revoking};
use crate::journal::rows::Fields;
use crate::journal::{
    AddingApiKey, ApiKeyAdded, ApiKeyRevoked, ApiKeyRow, JournalApiKeys, JournalError, PersonAct,
    RevokingApiKey,
};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// Other changes wait until this transaction ends. The number is any that nothing else uses.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7201506330418)";

#[async_trait]
impl JournalApiKeys for PostgresJournal {
    async fn api_keys(&self) -> Result<Vec<ApiKeyRow>, JournalError> {
        self.connections.read(&FindApiKeys).await
    }

    async fn add_api_key(&self, adding: &AddingApiKey) -> Result<ApiKeyAdded, JournalError> {
        let instance = &self.instance;
        let call = AddApiKey { adding, instance };
        self.connections.write(&call).await
    }

    async fn revoke_api_key(
        &self,
        revoking: &RevokingApiKey,
    ) -> Result<ApiKeyRevoked, JournalError> {
        let instance = &self.instance;
        let call = RevokeApiKey {
            revoking,
            instance,
            tries: Tries::default(),
        };
        self.connections.write(&call).await
    }
}

/// See [`JournalApiKeys::api_keys`].
struct FindApiKeys;

#[async_trait]
impl PostgresCall for FindApiKeys {
    type Reply = Vec<ApiKeyRow>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<ApiKeyRow>, PostgresFailure> {
        find(connection).await
    }
}

/// See [`JournalApiKeys::add_api_key`].
struct AddApiKey<'call> {
    adding: &'call AddingApiKey,
    instance: &'call str,
}

#[async_trait]
impl PostgresCall for AddApiKey<'_> {
    type Reply = ApiKeyAdded;

    async fn run(&self, connection: &mut PgConnection) -> Result<ApiKeyAdded, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        sqlx::query(LOCK).execute(&mut *transaction).await?;
        let rows = find(&mut transaction).await?;
        let added = effect_of_adding(&rows, self.adding);
        if added != ApiKeyAdded::Added {
            transaction.rollback().await?;
            return Ok(added);
        }
        let record = &self.adding.record;
        let inserted = sqlx::query(
            "INSERT INTO api_keys (name, role, topics, digest, created_by, created_ms, expires_ms, instance)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO NOTHING",
        )
        .bind(record.name.as_str())
        .bind(record.role.as_str())
        .bind(record.topics.as_ref().map(KeyTopics::to_text))
        .bind(record.digest.as_bytes())
        .bind(&*record.created_by)
        .bind(record.created_ms)
        .bind(record.expires_ms)
        .bind(self.instance)
        .execute(&mut *transaction)
        .await?;
        // Nothing is inserted if the call is a repetition.
        if inserted.rows_affected() == 1 {
            let act = PersonAct::of_adding_api_key(self.adding);
            audit_log::keep(&mut transaction, self.instance, &act).await?;
        }
        transaction.commit().await?;
        Ok(added)
    }
}

/// See [`JournalApiKeys::revoke_api_key`].
struct RevokeApiKey<'call> {
    revoking: &'call RevokingApiKey,
    instance: &'call str,
    tries: Tries,
}

#[async_trait]
impl PostgresCall for RevokeApiKey<'_> {
    type Reply = ApiKeyRevoked;

    async fn run(&self, connection: &mut PgConnection) -> Result<ApiKeyRevoked, PostgresFailure> {
        let is_repeated = self.tries.begin();
        let act = PersonAct::of_revoking_api_key(self.revoking);
        let mut transaction = connection.begin().await?;
        sqlx::query(LOCK).execute(&mut *transaction).await?;
        if is_repeated && audit_log::has(&mut transaction, self.instance, &act).await? {
            transaction.rollback().await?;
            return Ok(ApiKeyRevoked::Revoked);
        }
        let rows = find(&mut transaction).await?;
        let revoked = effect_of_revoking(&rows, self.revoking);
        if revoked != ApiKeyRevoked::Revoked {
            transaction.rollback().await?;
            return Ok(revoked);
        }
        sqlx::query("DELETE FROM api_keys WHERE name = $1")
            .bind(self.revoking.name.as_str())
            .execute(&mut *transaction)
            .await?;
        audit_log::keep(&mut transaction, self.instance, &act).await?;
        transaction.commit().await?;
        Ok(revoked)
    }
}

/// All rows, by name.
async fn find(connection: &mut PgConnection) -> Result<Vec<ApiKeyRow>, PostgresFailure> {
    let found = sqlx::query(
        "SELECT name, role, topics, digest, created_by, created_ms, expires_ms FROM api_keys ORDER BY name",
    )
    .fetch_all(connection)
    .await?;
    Ok(Fields::api_keys(&found)?)
}
