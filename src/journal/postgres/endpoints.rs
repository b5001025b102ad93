//! The endpoints. Changes are rare, so they wait for each other: numbers then follow the order of the commits. A number
//! is never below the time of its change, so a journal that was restored from a backup gives no number again.

use super::PostgresJournal;
use super::audit_log;
use super::connections::{PostgresCall, Tries};
use super::error::PostgresFailure;
use super::lanes;
use super::meta::{recall, remember};
use super::statements::{integer, storable};
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
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

/// Other changes wait until this transaction ends. A lock of the table would also wait for VACUUM. The number is
/// any that nothing else uses.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(7201506330417)";

#[async_trait]
impl JournalEndpoints for PostgresJournal {
    async fn set_endpoint(&self, setting: &SettingEndpoint) -> Result<EndpointSet, JournalError> {
        let instance = &self.instance;
        let call = SetEndpoint { setting, instance };
        self.connections.write(&call).await
    }

    async fn remove_endpoint(&self, removing: &RemovingEndpoint) -> Result<bool, JournalError> {
        let instance = &self.instance;
        let call = RemoveEndpoint {
            removing,
            instance,
            tries: Tries::default(),
        };
        self.connections.write(&call).await
    }

    async fn endpoint(&self, name: &EndpointName) -> Result<Option<StoredEndpoint>, JournalError> {
        self.connections.read_settings(&FindEndpoint(name)).await
    }

    async fn endpoints_after(
        &self,
        number: i64,
        limit: usize,
    ) -> Result<Vec<EndpointRow>, JournalError> {
        let call = FindEndpointChanges { number, limit };
        self.connections.read_settings(&call).await
    }
}

/// See [`JournalEndpoints::set_endpoint`].
struct SetEndpoint<'call> {
    setting: &'call SettingEndpoint,
    instance: &'call Arc<str>,
}

#[async_trait]
impl PostgresCall for SetEndpoint<'_> {
    type Reply = EndpointSet;

    async fn run(&self, connection: &mut PgConnection) -> Result<EndpointSet, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        sqlx::query(LOCK).execute(&mut *transaction).await?;
        let before = find_row(&mut transaction, &self.setting.name).await?;
        let total = sqlx::query_scalar("SELECT count(*) FROM endpoints WHERE NOT removed")
            .fetch_one(&mut *transaction)
            .await?;
        let mut known = None;
        let (limits, set) = match before.map(|row| row.read).transpose() {
            Ok(before) => {
                let limits = limits_of(before.as_ref());
                known.clone_from(&before);
                (Some(limits), effect(before, total, self.setting))
            }
            // The limits of its lane are not known, so they are written in any case.
            Err(_) => {
                let row = unreadable_row(&mut transaction, &self.setting.name).await?;
                (None, effect_on_unreadable(row, self.setting))
            }
        };
        match &set {
            EndpointSet::Created(endpoint) | EndpointSet::Changed(endpoint) => {
                if !is_master_key(&mut transaction, self.setting.master_key()).await? {
                    transaction.rollback().await?;
                    return Ok(EndpointSet::OtherMasterKey);
                }
                write(
                    &mut transaction,
                    endpoint,
                    self.setting.actor.name(),
                    self.instance,
                )
                .await?;
                let SettingEndpoint {
                    name,
                    settings,
                    actor,
                    at_ms,
                    ..
                } = self.setting;
                if Some(settings.limits) != limits {
                    let order = limits_order(name, settings.limits, actor, *at_ms);
                    lanes::change(&mut transaction, &order, self.instance).await?;
                }
                let is_new = matches!(set, EndpointSet::Created(_));
                let act = PersonAct::of_setting(self.setting, known.as_ref(), endpoint, is_new);
                audit_log::keep(&mut transaction, self.instance, &act).await?;
                transaction.commit().await?;
            }
            EndpointSet::Unchanged(_)
            | EndpointSet::Conflict
            | EndpointSet::Full
            | EndpointSet::OtherMasterKey
            | EndpointSet::Unreadable => {
                transaction.rollback().await?;
            }
        }
        Ok(set)
    }
}

/// See [`JournalEndpoints::remove_endpoint`].
struct RemoveEndpoint<'call> {
    removing: &'call RemovingEndpoint,
    instance: &'call Arc<str>,
    tries: Tries,
}

#[async_trait]
impl PostgresCall for RemoveEndpoint<'_> {
    type Reply = bool;

    async fn run(&self, connection: &mut PgConnection) -> Result<bool, PostgresFailure> {
        let is_repeated = self.tries.begin();
        let act = PersonAct::of_removing(self.removing);
        let mut transaction = connection.begin().await?;
        sqlx::query(LOCK).execute(&mut *transaction).await?;
        if is_repeated && audit_log::has(&mut transaction, self.instance, &act).await? {
            transaction.rollback().await?;
            return Ok(true);
        }
        let before = find(&mut transaction, &self.removing.name)
            .await
            .ok()
            .flatten();
        let limits = limits_of(before.as_ref());
        let removed = sqlx::query(
            "UPDATE endpoints SET removed = TRUE, changed_ms = $2::BIGINT, actor = $3, instance = $4,
                number = (SELECT greatest(max(number) + 1, $2) FROM endpoints)
             WHERE name = $1 AND NOT removed",
        )
        .bind(self.removing.name.as_str())
        .bind(self.removing.at_ms)
        .bind(storable(self.removing.actor.name()))
        .bind(&**self.instance)
        .execute(&mut *transaction)
        .await?;
        let RemovingEndpoint { name, actor, at_ms } = self.removing;
        if removed.rows_affected() == 1 && limits != LaneLimits::default() {
            let order = limits_order(name, LaneLimits::default(), actor, *at_ms);
            lanes::change(&mut transaction, &order, self.instance).await?;
        }
        if removed.rows_affected() == 1 {
            audit_log::keep(&mut transaction, self.instance, &act).await?;
        }
        transaction.commit().await?;
        Ok(removed.rows_affected() == 1)
    }
}

/// See [`JournalEndpoints::endpoint`].
struct FindEndpoint<'call>(&'call EndpointName);

#[async_trait]
impl PostgresCall for FindEndpoint<'_> {
    type Reply = Option<StoredEndpoint>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        find(connection, self.0).await
    }
}

/// See [`JournalEndpoints::endpoints_after`].
struct FindEndpointChanges {
    number: i64,
    limit: usize,
}

#[async_trait]
impl PostgresCall for FindEndpointChanges {
    type Reply = Vec<EndpointRow>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let found = sqlx::query(
            "SELECT name, number, version, removed, settings, created_ms, changed_ms, keys
             FROM endpoints WHERE number > $1 ORDER BY number LIMIT $2",
        )
        .bind(self.number)
        .bind(limit_of(self.limit))
        .fetch_all(connection)
        .await?;
        Ok(Fields::endpoints(&found)?)
    }
}

/// Whether what a request contains was encrypted with the master key of this journal. The first request decides it. The
/// table is locked, so two servers do not both find that theirs are the first.
pub(super) async fn is_master_key(
    connection: &mut PgConnection,
    given: Option<&str>,
) -> Result<bool, PostgresFailure> {
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

async fn find(
    connection: &mut PgConnection,
    name: &EndpointName,
) -> Result<Option<StoredEndpoint>, PostgresFailure> {
    let unreadable = |why| JournalError::Corrupt(format!("the endpoint {name}: {why}"));
    let row = find_row(connection, name).await?;
    let read = row.map(|row| row.read.map_err(unreadable));
    Ok(read.transpose()?)
}

/// What can be read of an endpoint whose settings or keys cannot be.
async fn unreadable_row(
    connection: &mut PgConnection,
    name: &EndpointName,
) -> Result<UnreadableRow, PostgresFailure> {
    let (version, is_removed, created_ms, changed_ms): (i32, bool, i64, i64) = sqlx::query_as(
        "SELECT version, removed, created_ms, changed_ms FROM endpoints WHERE name = $1",
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
    connection: &mut PgConnection,
    name: &EndpointName,
) -> Result<Option<EndpointRow>, PostgresFailure> {
    let found = sqlx::query(
        "SELECT name, number, version, removed, settings, created_ms, changed_ms, keys
         FROM endpoints WHERE name = $1",
    )
    .bind(name.as_str())
    .fetch_all(connection)
    .await?;
    Ok(Fields::endpoints(&found)?.pop())
}

async fn write(
    connection: &mut PgConnection,
    endpoint: &Endpoint,
    actor: &str,
    instance: &str,
) -> Result<(), PostgresFailure> {
    sqlx::query(
        "INSERT INTO endpoints
            (name, number, version, removed, settings, created_ms, changed_ms, actor, instance, keys)
         SELECT $1, greatest(max(number) + 1, $5::BIGINT), $2::INTEGER, FALSE, $3, $4::BIGINT, $5::BIGINT, $6, $7, $8
         FROM endpoints
         ON CONFLICT (name) DO UPDATE SET
            number = excluded.number, version = excluded.version, removed = FALSE,
            settings = excluded.settings, keys = excluded.keys, created_ms = excluded.created_ms,
            changed_ms = excluded.changed_ms, actor = excluded.actor, instance = excluded.instance",
    )
    .bind(endpoint.name.as_str())
    .bind(integer(endpoint.version))
    .bind(endpoint.settings.to_text())
    .bind(endpoint.created_ms)
    .bind(endpoint.changed_ms)
    .bind(storable(actor))
    .bind(instance)
    .bind(endpoint.keys.to_text())
    .execute(connection)
    .await?;
    Ok(())
}
