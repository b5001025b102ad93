//! The API keys.

use super::SqliteJournal;
use super::audit_log;
use super::error::SqliteFailure;
use crate::domain::api_key::KeyTopics;
use crate::journal::api_keys::{effect_of_adding, effect_of_revoking};
use crate::journal::rows::Fields;
use crate::journal::{
    AddingApiKey, ApiKeyAdded, ApiKeyRevoked, ApiKeyRow, JournalApiKeys, JournalError, PersonAct,
    RevokingApiKey,
};
use async_trait::async_trait;
use sqlx::SqliteConnection;

#[async_trait]
impl JournalApiKeys for SqliteJournal {
    async fn api_keys(&self) -> Result<Vec<ApiKeyRow>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(find(&mut reading).await?)
    }

    async fn add_api_key(&self, adding: &AddingApiKey) -> Result<ApiKeyAdded, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let connection = transaction.connection();
        let rows = find(connection).await?;
        let added = effect_of_adding(&rows, adding);
        if added != ApiKeyAdded::Added {
            transaction.release().await?;
            return Ok(added);
        }
        let record = &adding.record;
        let inserted = sqlx::query(
            "INSERT INTO api_keys (name, role, topics, digest, created_by, created_ms, expires_ms, instance)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING",
        )
        .bind(record.name.as_str())
        .bind(record.role.as_str())
        .bind(record.topics.as_ref().map(KeyTopics::to_text))
        .bind(record.digest.as_bytes())
        .bind(&*record.created_by)
        .bind(record.created_ms)
        .bind(record.expires_ms)
        .bind(&*self.instance)
        .execute(&mut *connection)
        .await
        .map_err(SqliteFailure::from)?;
        // Nothing is inserted if the call is a repetition.
        if inserted.rows_affected() == 1 {
            let act = PersonAct::of_adding_api_key(adding);
            audit_log::keep(connection, &self.instance, &act).await?;
        }
        transaction.commit().await?;
        Ok(added)
    }

    async fn revoke_api_key(
        &self,
        revoking: &RevokingApiKey,
    ) -> Result<ApiKeyRevoked, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let connection = transaction.connection();
        let rows = find(connection).await?;
        let revoked = effect_of_revoking(&rows, revoking);
        if revoked != ApiKeyRevoked::Revoked {
            transaction.release().await?;
            return Ok(revoked);
        }
        sqlx::query("DELETE FROM api_keys WHERE name = ?")
            .bind(revoking.name.as_str())
            .execute(&mut *connection)
            .await
            .map_err(SqliteFailure::from)?;
        let act = PersonAct::of_revoking_api_key(revoking);
        audit_log::keep(connection, &self.instance, &act).await?;
        transaction.commit().await?;
        Ok(revoked)
    }
}

/// All rows, by name.
async fn find(connection: &mut SqliteConnection) -> Result<Vec<ApiKeyRow>, SqliteFailure> {
    let found = sqlx::query(
        "SELECT name, role, topics, digest, created_by, created_ms, expires_ms FROM api_keys ORDER BY name",
    )
    .fetch_all(connection)
    .await?;
    Ok(Fields::api_keys(&found)?)
}
