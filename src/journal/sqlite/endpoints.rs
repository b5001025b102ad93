//! The endpoints. One connection writes, so the numbers of changes follow the order of the commits. A number is
//! never below the time of its change, so a journal that was restored from a backup gives no number again.

use super::SqliteJournal;
use super::audit_log;
use super::error::SqliteFailure;
use super::lanes;
use super::meta::{recall, remember};
use crate::domain::endpoint::{Endpoint, EndpointName};
use crate::domain::lane_settings::LaneLimits;
use crate::journal::endpoints::{
    MasterKeyCheck, effect, effect_on_unreadable, limits_of, limits_order, new_master_key,
};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{
    EndpointRow, EndpointSet, JournalEndpoints, JournalError, MASTER_KEY, PersonAct,
    RemovingEndpoint, SettingEndpoint, StoredEndpoint, UnreadableRow,
};
use async_trait::async_trait;
use sqlx::{SqliteConnection, SqlitePool};

#[async_trait]
impl JournalEndpoints for SqliteJournal {
    async fn set_endpoint(&self, setting: &SettingEndpoint) -> Result<EndpointSet, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let before = find_row(transaction.connection(), &setting.name).await?;
        let total = count(transaction.connection()).await?;
        let mut known = None;
        let (limits, set) = match before.map(|row| row.read).transpose() {
            Ok(before) => {
                let limits = limits_of(before.as_ref());
                known.clone_from(&before);
                (Some(limits), effect(before, total, setting))
            }
            // The limits of its lane are not known, so they are written in any case.
            Err(_) => {
                let row = unreadable_row(transaction.connection(), &setting.name).await?;
                (None, effect_on_unreadable(row, setting))
            }
        };
        match &set {
            EndpointSet::Created(endpoint) | EndpointSet::Changed(endpoint) => {
                let connection = transaction.connection();
                if !is_master_key(connection, setting.master_key()).await? {
                    transaction.release().await?;
                    return Ok(EndpointSet::OtherMasterKey);
                }
                write(connection, endpoint, setting.actor.name(), &self.instance).await?;
                if Some(setting.settings.limits) != limits {
                    let SettingEndpoint {
                        name,
                        settings,
                        actor,
                        at_ms,
                        ..
                    } = setting;
                    let order = limits_order(name, settings.limits, actor, *at_ms);
                    lanes::change(transaction.connection(), &self.instance, &order).await?;
                }
                let is_new = matches!(set, EndpointSet::Created(_));
                let act = PersonAct::of_setting(setting, known.as_ref(), endpoint, is_new);
                audit_log::keep(transaction.connection(), &self.instance, &act).await?;
                transaction.commit().await?;
            }
            EndpointSet::Unchanged(_)
            | EndpointSet::Conflict
            | EndpointSet::Full
            | EndpointSet::OtherMasterKey
            | EndpointSet::Unreadable => {
                transaction.release().await?;
            }
        }
        Ok(set)
    }

    async fn remove_endpoint(&self, removing: &RemovingEndpoint) -> Result<bool, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let before = find(transaction.connection(), &removing.name)
            .await
            .ok()
            .flatten();
        let removed = remove(transaction.connection(), removing, &self.instance).await?;
        if removed && limits_of(before.as_ref()) != LaneLimits::default() {
            let RemovingEndpoint { name, actor, at_ms } = removing;
            let order = limits_order(name, LaneLimits::default(), actor, *at_ms);
            lanes::change(transaction.connection(), &self.instance, &order).await?;
        }
        if removed {
            let act = PersonAct::of_removing(removing);
            audit_log::keep(transaction.connection(), &self.instance, &act).await?;
        }
        transaction.commit().await?;
        Ok(removed)
    }

    async fn endpoint(&self, name: &EndpointName) -> Result<Option<StoredEndpoint>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(find(&mut reading, name).await?)
    }

    async fn endpoints_after(
        &self,
        number: i64,
        limit: usize,
    ) -> Result<Vec<EndpointRow>, JournalError> {
        Ok(after(&self.readers, number, limit).await?)
    }
}

/// Whether what a request contains was encrypted with the master key of this journal. The first request decides it.
pub(super) async fn is_master_key(
    connection: &mut SqliteConnection,
    given: Option<&str>,
) -> Result<bool, SqliteFailure> {
    let Some(given) = given else {
        return Ok(true);
    };
    let remembered = recall(connection, MASTER_KEY).await?;
    match new_master_key(remembered.as_deref(), given) {
        MasterKeyCheck::First => remember(connection, MASTER_KEY, given).await?,
        MasterKeyCheck::Same => {}
        MasterKeyCheck::Other => return Ok(false),
    }
    Ok(true)
}

async fn after(
    readers: &SqlitePool,
    number: i64,
    limit: usize,
) -> Result<Vec<EndpointRow>, SqliteFailure> {
    let found = sqlx::query(
        "SELECT name, number, version, removed, settings, created_ms, changed_ms, keys
         FROM endpoints WHERE number > ? ORDER BY number LIMIT ?",
    )
    .bind(number)
    .bind(limit_of(limit))
    .fetch_all(readers)
    .await?;
    Ok(Fields::endpoints(&found)?)
}

async fn count(connection: &mut SqliteConnection) -> Result<i64, SqliteFailure> {
    let total = sqlx::query_scalar("SELECT count(*) FROM endpoints WHERE NOT removed")
        .fetch_one(connection)
        .await?;
    Ok(total)
}

async fn find(
    connection: &mut SqliteConnection,
    name: &EndpointName,
) -> Result<Option<StoredEndpoint>, SqliteFailure> {
    let unreadable = |why| JournalError::Corrupt(format!("the endpoint {name}: {why}"));
    let row = find_row(connection, name).await?;
    let read = row.map(|row| row.read.map_err(unreadable));
    Ok(read.transpose()?)
}

/// What can be read of an endpoint whose settings or keys cannot be.
async fn unreadable_row(
    connection: &mut SqliteConnection,
    name: &EndpointName,
) -> Result<UnreadableRow, SqliteFailure> {
    let (version, is_removed, created_ms, changed_ms): (i64, bool, i64, i64) = sqlx::query_as(
        "SELECT version, removed, created_ms, changed_ms FROM endpoints WHERE name = ?",
    )
    .bind(name.as_str())
    .fetch_one(connection)
    .await?;
    Ok(UnreadableRow {
        version: u32::try_from(version).unwrap_or_default(),
        is_removed,
        created_ms: Some(created_ms),
        changed_ms: Some(changed_ms),
    })
}

async fn find_row(
    connection: &mut SqliteConnection,
    name: &EndpointName,
) -> Result<Option<EndpointRow>, SqliteFailure> {
    let found = sqlx::query(
        "SELECT name, number, version, removed, settings, created_ms, changed_ms, keys
         FROM endpoints WHERE name = ?",
    )
    .bind(name.as_str())
    .fetch_all(connection)
    .await?;
    Ok(Fields::endpoints(&found)?.pop())
}

async fn write(
    connection: &mut SqliteConnection,
    endpoint: &Endpoint,
    actor: &str,
    instance: &str,
) -> Result<(), SqliteFailure> {
    // SQLite needs a WHERE here: otherwise it reads `ON` as the condition of a join.
    sqlx::query(
        "INSERT INTO endpoints
            (name, number, version, removed, settings, created_ms, changed_ms, actor, instance, keys)
         SELECT ?1, max(ifnull(max(number), 0) + 1, ?5), ?2, FALSE, ?3, ?4, ?5, ?6, ?7, ?8
         FROM endpoints WHERE TRUE
         ON CONFLICT (name) DO UPDATE SET
            number = excluded.number, version = excluded.version, removed = FALSE,
            settings = excluded.settings, keys = excluded.keys, created_ms = excluded.created_ms,
            changed_ms = excluded.changed_ms, actor = excluded.actor, instance = excluded.instance",
    )
    .bind(endpoint.name.as_str())
    .bind(i64::from(endpoint.version))
    .bind(endpoint.settings.to_text())
    .bind(endpoint.created_ms)
    .bind(endpoint.changed_ms)
    .bind(actor)
    .bind(instance)
    .bind(endpoint.keys.to_text())
    .execute(connection)
    .await?;
    Ok(())
}

async fn remove(
    connection: &mut SqliteConnection,
    removing: &RemovingEndpoint,
    instance: &str,
) -> Result<bool, SqliteFailure> {
    let removed = sqlx::query(
        "UPDATE endpoints SET removed = TRUE, changed_ms = ?2, actor = ?3, instance = ?4,
            number = (SELECT max(max(number) + 1, ?2) FROM endpoints)
         WHERE name = ?1 AND NOT removed",
    )
    .bind(removing.name.as_str())
    .bind(removing.at_ms)
    .bind(removing.actor.shared_name())
    .bind(instance)
    .execute(connection)
    .await?;
    Ok(removed.rows_affected() == 1)
}
