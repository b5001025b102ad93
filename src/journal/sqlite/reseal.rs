//! Encrypting everything again under another master key, in one transaction. No server has the file open meanwhile.

use super::SqliteJournal;
use super::audit_log;
use super::default_keys;
use super::error::SqliteFailure;
use super::meta::{recall, remember};
use crate::domain::endpoint::Endpoint;
use crate::journal::resealing::{PAGE, ResealResult, Resealing};
use crate::journal::rows::Fields;
use crate::journal::{Actor, JournalError, MASTER_KEY, PersonAct};
use sqlx::SqliteConnection;

impl SqliteJournal {
    /// Encrypts everything again. If this process dies meanwhile, nothing is changed.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn reseal(
        &self,
        resealing: &mut dyn Resealing,
        actor: &Actor,
        at_ms: i64,
    ) -> Result<ResealResult, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let by = (actor.name(), &*self.instance);
        let result = reseal(transaction.connection(), resealing, by, at_ms).await?;
        match result {
            ResealResult::Done => {
                let act = PersonAct::of_master_key(actor, at_ms);
                audit_log::keep(transaction.connection(), &self.instance, &act).await?;
                transaction.commit().await?;
            }
            ResealResult::NothingSealed
            | ResealResult::OtherMasterKey(_)
            | ResealResult::Failed => transaction.release().await?,
        }
        Ok(result)
    }
}

async fn reseal(
    connection: &mut SqliteConnection,
    resealing: &mut dyn Resealing,
    by: (&str, &str),
    at_ms: i64,
) -> Result<ResealResult, SqliteFailure> {
    let [old, new] = resealing.fingerprints();
    match recall(connection, MASTER_KEY).await? {
        None => return Ok(ResealResult::NothingSealed),
        Some(remembered) if remembered != old && remembered != new => {
            return Ok(ResealResult::OtherMasterKey(remembered));
        }
        Some(_) => {}
    }
    let mut after = String::new();
    loop {
        let found = sqlx::query(
            "SELECT name, number, version, removed, settings, created_ms, changed_ms, keys
             FROM endpoints WHERE name > ? ORDER BY name LIMIT ?",
        )
        .bind(&after)
        .bind(PAGE)
        .fetch_all(&mut *connection)
        .await?;
        let rows = Fields::endpoints(&found)?;
        let Some(last) = rows.last() else {
            break;
        };
        after.clone_from(&last.name);
        for row in &rows {
            match &row.read {
                Ok(stored) => {
                    if let Some(again) = resealing.endpoint(&stored.endpoint) {
                        write(connection, &again, by, at_ms).await?;
                    }
                }
                Err(_) => resealing.unreadable(&row.name),
            }
        }
    }
    let keys = default_keys::find(connection).await?;
    if let Some(again) = resealing.default_keys(&keys) {
        default_keys::write(connection, &again, by, at_ms).await?;
    }
    if !resealing.succeeded() {
        return Ok(ResealResult::Failed);
    }
    remember(connection, MASTER_KEY, &new).await?;
    Ok(ResealResult::Done)
}

/// Writes what changes of an endpoint, also of one that was removed.
async fn write(
    connection: &mut SqliteConnection,
    endpoint: &Endpoint,
    (actor, instance): (&str, &str),
    at_ms: i64,
) -> Result<(), SqliteFailure> {
    sqlx::query(
        "UPDATE endpoints SET version = ?2, settings = ?3, keys = ?4, changed_ms = ?5, actor = ?6, instance = ?7,
            number = (SELECT max(max(number) + 1, ?5) FROM endpoints)
         WHERE name = ?1",
    )
    .bind(endpoint.name.as_str())
    .bind(i64::from(endpoint.version))
    .bind(endpoint.settings.to_text())
    .bind(endpoint.keys.to_text())
    .bind(at_ms)
    .bind(actor)
    .bind(instance)
    .execute(connection)
    .await?;
    Ok(())
}
