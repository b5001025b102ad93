//! Whether the journal can be worked with: by registering and recording, and keeping neither.

use super::error::SqliteFailure;
use super::writer::Writer;
use super::writes;
use crate::journal::check_sample::{CheckSample, PADDING_BYTES};
use std::slice::from_ref;
use std::sync::Arc;

/// See [`crate::journal::JournalMaintenance::check`].
pub(super) async fn check(writer: &Writer, instance: &Arc<str>) -> Result<(), SqliteFailure> {
    let mut transaction = writer.begin().await?;
    // What is rolled back does not reach the disk, so what needs room there is written beside it.
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
    // A value that differs each time: SQLite leaves a page alone that would stay the same.
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('checks', '1' || ?1)
         ON CONFLICT (name) DO UPDATE SET value = (CAST(value AS INTEGER) + 1) || ?1",
    )
    .bind(" ".repeat(padding))
    .execute(connection)
    .await?;
    // Ends the savepoint too.
    transaction.commit().await
}
