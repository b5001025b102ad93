//! Small values that are stored under a name, such as the position that pruning has reached.

use super::error::SqliteFailure;
use sqlx::SqliteConnection;

/// The value that is stored under a name.
pub(super) async fn recall(
    connection: &mut SqliteConnection,
    name: &str,
) -> Result<Option<String>, SqliteFailure> {
    let value = sqlx::query_scalar("SELECT value FROM meta WHERE name = 'kept:' || ?")
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(value)
}

/// Stores a value under a name.
pub(super) async fn remember(
    connection: &mut SqliteConnection,
    name: &str,
    value: &str,
) -> Result<(), SqliteFailure> {
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('kept:' || ?, ?)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(connection)
    .await?;
    Ok(())
}
