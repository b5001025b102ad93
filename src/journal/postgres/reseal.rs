//! Encrypting everything again under another master key, in one transaction. Servers may be running: their changes of
//! endpoints and default keys wait meanwhile, or fail with a time-out and can be repeated.

use super::PostgresJournal;
use super::audit_log;
use super::default_keys;
use super::endpoints::LOCK;
use super::error::PostgresFailure;
use super::meta::{recall, remember};
use super::session::connect;
use super::statements::{integer, storable};
use crate::domain::endpoint::Endpoint;
use crate::journal::resealing::{PAGE, ResealResult, Resealing};
use crate::journal::rows::Fields;
use crate::journal::{Actor, JournalError, MASTER_KEY, PersonAct};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

impl PostgresJournal {
    /// Encrypts everything again. If this process dies meanwhile, nothing is changed.
    ///
    /// # Errors
    /// If the journal fails, or if another change takes too long.
    pub async fn reseal(
        &self,
        resealing: &mut dyn Resealing,
        actor: &Actor,
        at_ms: i64,
    ) -> Result<ResealResult, JournalError> {
        // A connection of its own: calls have time limits.
        let mut connection = connect(self.connections.options()).await?;
        let result = reseal(&mut connection, resealing, (actor, &self.instance), at_ms).await;
        let _ = connection.close().await;
        Ok(result?)
    }
}

async fn reseal(
    connection: &mut PgConnection,
    resealing: &mut dyn Resealing,
    (actor, instance): (&Actor, &str),
    at_ms: i64,
) -> Result<ResealResult, PostgresFailure> {
    let by = (actor.name(), instance);
    let mut transaction = connection.begin().await?;
    sqlx::query(LOCK).execute(&mut *transaction).await?;
    let [old, new] = resealing.fingerprints();
    match recall(&mut transaction, MASTER_KEY).await? {
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
             FROM endpoints WHERE name > $1 ORDER BY name LIMIT $2",
        )
        .bind(&after)
        .bind(PAGE)
        .fetch_all(&mut *transaction)
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
                        write(&mut transaction, &again, by, at_ms).await?;
                    }
                }
                Err(_) => resealing.unreadable(&row.name),
            }
        }
    }
    let keys = default_keys::find(&mut transaction).await?;
    if let Some(again) = resealing.default_keys(&keys) {
        default_keys::write(&mut transaction, &again, by, at_ms).await?;
    }
    if !resealing.succeeded() {
        return Ok(ResealResult::Failed);
    }
    remember(&mut transaction, MASTER_KEY, &new).await?;
    let act = PersonAct::of_master_key(actor, at_ms);
    audit_log::keep(&mut transaction, instance, &act).await?;
    transaction.commit().await?;
    Ok(ResealResult::Done)
}

/// Writes what changes of an endpoint, also of one that was removed.
async fn write(
    connection: &mut PgConnection,
    endpoint: &Endpoint,
    (actor, instance): (&str, &str),
    at_ms: i64,
) -> Result<(), PostgresFailure> {
    sqlx::query(
        "UPDATE endpoints SET version = $2::INTEGER, settings = $3, keys = $4, changed_ms = $5::BIGINT, actor = $6,
            instance = $7, number = (SELECT greatest(max(number) + 1, $5) FROM endpoints)
         WHERE name = $1",
    )
    .bind(endpoint.name.as_str())
    .bind(integer(endpoint.version))
    .bind(endpoint.settings.to_text())
    .bind(endpoint.keys.to_text())
    .bind(at_ms)
    .bind(storable(actor))
    .bind(instance)
    .execute(connection)
    .await?;
    Ok(())
}
