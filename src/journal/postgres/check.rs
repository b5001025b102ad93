//! The check of a journal: registers a notification, records an attempt, and rolls both back.
//!
//! The check fails for the same reasons as real calls: a table that is locked against writes, a trigger or
//! a constraint that refuses the write, missing rights, a read-only database, a full disk. `VACUUM`,
//! `ANALYZE` and `CREATE INDEX CONCURRENTLY` do not lock tables against writes, so the check succeeds while
//! they run.

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

/// How long the check waits for a lock. This is shorter than the time limit of [`crate::health`] for a
/// check, so that the error names the lock. It is long enough for a quick change of a table to end.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = 1000";

/// See [`crate::journal::JournalMaintenance::check`].
pub(super) struct Check<'call> {
    pub(super) instance: &'call Arc<str>,
    /// Whether the last write failed, or a connection broke since. Then the check writes as many bytes as a
    /// large notification has.
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
        // Within a transaction, `begin` makes a savepoint.
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
        // The commit must write to the disk, as that of any work. So the transaction increases a counter.
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
