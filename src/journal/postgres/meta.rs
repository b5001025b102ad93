//! Small values under a name: where maintenance has got to.

use super::connections::Call;
use super::error::Failure;
use async_trait::async_trait;
use sqlx::postgres::PgConnection;

/// See [`crate::journal::JournalMaintenance::recall`].
pub(super) struct Recall<'call>(pub(super) &'call str);

#[async_trait]
impl Call for Recall<'_> {
    type Reply = Option<String>;

    async fn make(&self, connection: &mut PgConnection) -> Result<Option<String>, Failure> {
        recall(connection, self.0).await
    }
}

/// See [`crate::journal::JournalMaintenance::remember`].
pub(super) struct Remember<'call> {
    pub(super) name: &'call str,
    pub(super) value: &'call str,
}

#[async_trait]
impl Call for Remember<'_> {
    type Reply = ();

    async fn make(&self, connection: &mut PgConnection) -> Result<(), Failure> {
        remember(connection, self.name, self.value).await
    }
}

/// What is kept under a name.
pub(super) async fn recall(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<String>, Failure> {
    let value = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'kept:' || $1")
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(value)
}

/// Keeps a value under a name.
pub(super) async fn remember(
    connection: &mut PgConnection,
    name: &str,
    value: &str,
) -> Result<(), Failure> {
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
