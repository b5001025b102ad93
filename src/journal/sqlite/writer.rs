//! The one connection that writes.
//!
//! SQLite allows only one writer at a time. With a single connection, writers wait here, in order and
//! without polling for locks. If a statement fails or the caller drops a transaction, its connection is
//! closed. SQLite then rolls the transaction back, and the next transaction opens a new connection.

use super::error::SqliteFailure;
use crate::journal::JournalError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// How long a write waits for earlier writes.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Gives the connection to one write at a time.
pub(super) struct Writer {
    options: SqliteConnectOptions,
    slot: Mutex<WriteSlot>,
}

/// The connection, for one write at a time.
struct WriteSlot {
    connection: Option<SqliteConnection>,
    closed: bool,
}

/// A transaction. Until it is committed, released or dropped, no other write begins.
pub(super) struct Transaction<'writer> {
    slot: MutexGuard<'writer, WriteSlot>,
    connection: SqliteConnection,
    after_failure: bool,
}

impl Writer {
    pub(super) fn new(options: SqliteConnectOptions, connection: SqliteConnection) -> Self {
        Self {
            options,
            slot: Mutex::new(WriteSlot {
                connection: Some(connection),
                closed: false,
            }),
        }
    }

    /// Begins a transaction that holds the write lock from the start.
    pub(super) async fn begin(&self) -> Result<Transaction<'_>, SqliteFailure> {
        let mut slot = tokio::time::timeout(LONGEST_WAIT, self.slot.lock())
            .await
            .map_err(|_| {
                JournalError::Unavailable("earlier writes to the journal take too long".to_string())
            })?;
        if slot.closed {
            return Err(JournalError::Unavailable(
                "this server has closed the journal".to_string(),
            )
            .into());
        }
        let after_failure = slot.connection.is_none();
        let mut connection = match slot.connection.take() {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        sqlx::query("BEGIN IMMEDIATE")
            .execute(&mut connection)
            .await?;
        Ok(Transaction {
            slot,
            connection,
            after_failure,
        })
    }

    /// Waits for the transaction in flight, merges the log into the file and closes the connection.
    pub(super) async fn close(&self) -> Result<(), SqliteFailure> {
        let mut slot = self.slot.lock().await;
        slot.closed = true;
        let Some(mut connection) = slot.connection.take() else {
            return Ok(());
        };
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
            .execute(&mut connection)
            .await?;
        Ok(connection.close().await?)
    }
}

impl Transaction<'_> {
    /// Whether the transaction before this one failed or was dropped.
    pub(super) fn is_after_failure(&self) -> bool {
        self.after_failure
    }

    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Commits the transaction. When this returns, its writes are on disk.
    pub(super) async fn commit(self) -> Result<(), SqliteFailure> {
        self.end("COMMIT").await
    }

    /// Rolls the transaction back.
    pub(super) async fn release(self) -> Result<(), SqliteFailure> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), SqliteFailure> {
        sqlx::query(statement).execute(&mut self.connection).await?;
        self.slot.connection = Some(self.connection);
        Ok(())
    }
}
