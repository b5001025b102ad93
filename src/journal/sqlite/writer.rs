//! The one connection that writes.
//!
//! SQLite takes one writer at a time anyhow; with a single connection writers queue here, in order
//! and without polling for locks. A transaction that is not carried to its end, because a statement
//! failed or its caller went away, gives its connection up: closing rolls back whatever state it
//! was left in, and the next transaction opens a new one.

use super::error::SqliteFailure;
use crate::journal::JournalError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// How long a write waits for those before it.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Gives out the connection to one write at a time.
pub(super) struct Writer {
    options: SqliteConnectOptions,
    slot: Mutex<WriteSlot>,
}

/// What one write at a time holds.
struct WriteSlot {
    connection: Option<SqliteConnection>,
    closed: bool,
}

/// The right to write, until it is committed, released or dropped.
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
            .map_err(|_| JournalError::Unavailable("writes take too long".to_string()))?;
        if slot.closed {
            return Err(JournalError::Unavailable("it is closed".to_string()).into());
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

    /// Waits for what is in flight, writes the log back into the file and closes.
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
    /// Whether the transaction before was not carried to its end.
    pub(super) fn is_after_failure(&self) -> bool {
        self.after_failure
    }

    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Once this has answered, what was written is on disk.
    pub(super) async fn commit(self) -> Result<(), SqliteFailure> {
        self.end("COMMIT").await
    }

    /// Ends it without a write.
    pub(super) async fn release(self) -> Result<(), SqliteFailure> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), SqliteFailure> {
        sqlx::query(statement).execute(&mut self.connection).await?;
        self.slot.connection = Some(self.connection);
        Ok(())
    }
}
