//! Whether the journal can be worked with: by registering and recording, and keeping neither.

use super::error::SqliteFailure;
use super::writer::Writer;
use super::writes;
use crate::journal::rehearsal::{ROOM, Rehearsal};
use std::slice::from_ref;
use std::sync::Arc;

/// See [`crate::journal::JournalMaintenance::check`].
pub(super) async fn check(writer: &Writer, instance: &Arc<str>) -> Result<(), SqliteFailure> {
    let mut transaction = writer.begin().await?;
    // What is rolled back does not reach the disk, so what needs room there is written beside it.
    let room = if transaction.is_after_failure() {
        ROOM
    } else {
        0
    };
    let Rehearsal {
        registering,
        recording,
    } = Rehearsal::new(0);
    let connection = transaction.connection();
    sqlx::query("SAVEPOINT rehearsal")
        .execute(&mut *connection)
        .await?;
    let registered = writes::register(connection, instance, from_ref(&registering)).await?;
    let recorded = writes::record(connection, instance, from_ref(&recording)).await?;
    Rehearsal::judge(&registered, &recorded)?;
    sqlx::query("ROLLBACK TO rehearsal")
        .execute(&mut *connection)
        .await?;
    // A value that differs each time: SQLite leaves a page alone that would stay the same.
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('checks', '1' || ?1)
         ON CONFLICT (name) DO UPDATE SET value = (CAST(value AS INTEGER) + 1) || ?1",
    )
    .bind(" ".repeat(room))
    .execute(connection)
    .await?;
    // Ends the savepoint too.
    transaction.commit().await
}
