//! Whether the journal can be worked with: by registering and recording, and keeping neither.
//!
//! A table that is locked against writes, a trigger or a constraint that refuses, missing
//! rights, a database that is read only and a full disk show here as they show in the work itself.
//! What vacuuming, analysing and building an index concurrently lock does not stand in the way.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::record::RecordAttempts;
use super::register::RegisterNotifications;
use crate::journal::check_sample::{CheckSample, PADDING_BYTES};
use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};
use std::slice::from_ref;
use std::sync::Arc;

/// Shorter than what `health` waits for a check, so that it learns why there was no answer; long
/// enough for what changes a table in passing.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = 1000";

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
        let CheckSample {
            registering,
            recording,
        } = CheckSample::new(if self.after_failure { PADDING_BYTES } else { 0 });
        let mut transaction = connection.begin().await?;
        transaction.execute(LOCK_TIMEOUT).await?;
        // A transaction in a transaction is a savepoint.
        let mut savepoint = transaction.begin().await?;
        let batch = from_ref(&registering);
        let registered = RegisterNotifications { batch, instance }
            .run(&mut savepoint)
            .await?;
        let batch = from_ref(&recording);
        let recorded = RecordAttempts { batch, instance }
            .run(&mut savepoint)
            .await?;
        CheckSample::verify(&registered, &recorded)?;
        savepoint.rollback().await?;
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
