//! Whether the journal can be worked with: by registering and recording, and keeping neither.
//!
//! A table that somebody has locked against writes, a trigger or a constraint that refuses, missing
//! rights, a database that is read only and a full disk show here as they show in the work itself.
//! What vacuuming, analysing and building an index concurrently lock does not stand in the way.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::record::RecordBatch;
use super::register::RegisterBatch;
use crate::journal::rehearsal::{ROOM, Rehearsal};
use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};
use std::slice::from_ref;
use std::sync::Arc;

/// Shorter than what `health` waits for a check, so that it learns why there was no answer; long
/// enough for what changes a table in passing.
const SHORT_WAIT: &str = "SET LOCAL lock_timeout = 1000";

/// See [`crate::journal::JournalMaintenance::check`].
pub(super) struct Check<'call> {
    pub(super) instance: &'call Arc<str>,
    /// Whether the write before failed: then as much is written as a large notification takes.
    pub(super) after_failure: bool,
}

#[async_trait]
impl PostgresCall for Check<'_> {
    type Reply = ();

    async fn run(&self, connection: &mut PgConnection) -> Result<(), PostgresFailure> {
        let instance = self.instance;
        let Rehearsal {
            registering,
            recording,
        } = Rehearsal::new(if self.after_failure { ROOM } else { 0 });
        let mut transaction = connection.begin().await?;
        transaction.execute(SHORT_WAIT).await?;
        // A transaction in a transaction is a savepoint.
        let mut rehearsal = transaction.begin().await?;
        let batch = from_ref(&registering);
        let registered = RegisterBatch { batch, instance }
            .run(&mut rehearsal)
            .await?;
        let batch = from_ref(&recording);
        let recorded = RecordBatch { batch, instance }.run(&mut rehearsal).await?;
        Rehearsal::judge(&registered, &recorded)?;
        rehearsal.rollback().await?;
        // Something has to be committed: a transaction that keeps nothing is not written to disk.
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES ('checks', '1')
             ON CONFLICT (name) DO UPDATE SET
                value = split_part(meta.value, ' ', 1)::BIGINT + 1",
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }
}
