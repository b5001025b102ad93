//! Small values that are stored under a name, such as the position that pruning has reached.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use async_trait::async_trait;
use sqlx::postgres::PgConnection;

/// See [`crate::journal::JournalMaintenance::recall`].
pub(super) struct RecallValue<'call>(pub(super) &'call str);

#[async_trait]
impl PostgresCall for RecallValue<'_> {
    type Reply = Option<String>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Option<String>, PostgresFailure> {
        recall(connection, self.0).await
    }
}

/// See [`crate::journal::JournalMaintenance::remember`].
pub(super) struct RememberValue<'call> {
    pub(super) name: &'call str,
    pub(super) value: &'call str,
}

#[async_trait]
impl PostgresCall for RememberValue<'_> {
    type Reply = ();

    async fn run(&self, connection: &mut PgConnection) -> Result<(), PostgresFailure> {
        remember(connection, self.name, self.value).await
    }
}

/// The value that is stored under a name.
pub(super) async fn recall(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<String>, PostgresFailure> {
    let value = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'kept:' || $1")
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(value)
}

/// The value that is stored under a name, which nobody else can lock or change before the transaction ends.
pub(super) async fn recall_locked(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<String>, PostgresFailure> {
    let value = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'kept:' || $1 FOR UPDATE")
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(value)
}

/// Stores a value under a name.
pub(super) async fn remember(
    connection: &mut PgConnection,
    name: &str,
    value: &str,
) -> Result<(), PostgresFailure> {
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('kept:' || $1, $2)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(connection)
    .await?;
    Ok(())
}
