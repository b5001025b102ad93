//! The check of a journal: registers a notification, records an attempt, and rolls both back.

use super::error::SqliteFailure;
use super::writer::Writer;
use super::writes;
use crate::journal::check_sample::{CheckSample, PADDING_BYTES};
use std::slice::from_ref;
use std::sync::Arc;

/// See [`crate::journal::JournalMaintenance::check`].
pub(super) async fn check(writer: &Writer, instance: &Arc<str>) -> Result<(), SqliteFailure> {
    let mut transaction = writer.begin().await?;
    // Rows that are rolled back do not reach the disk. So the bytes that test whether the disk has room are
    // in the row of `meta` below, which is committed.
    let padding = if transaction.is_after_failure() {
        PADDING_BYTES
    } else {
        0
    };
    let CheckSample {
        registering,
        recording,
    } = CheckSample::new(0);
    let connection = transaction.connection();
    sqlx::query("SAVEPOINT sample")
        .execute(&mut *connection)
        .await?;
    let registered = writes::register(connection, instance, from_ref(&registering)).await?;
    let recorded = writes::record(connection, instance, from_ref(&recording)).await?;
    CheckSample::verify(&registered, &recorded)?;
    sqlx::query("ROLLBACK TO sample")
        .execute(&mut *connection)
        .await?;
    // The value differs each time, because SQLite does not write a page that has not changed.
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('checks', '1' || ?1)
         ON CONFLICT (name) DO UPDATE SET value = (CAST(value AS INTEGER) + 1) || ?1",
    )
    .bind(" ".repeat(padding))
    .execute(connection)
    .await?;
    // The commit also ends the savepoint.
    transaction.commit().await
}
