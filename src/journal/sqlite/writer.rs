//! The one connection that writes.
//!
//! SQLite takes one writer at a time anyhow; with a single connection writers queue here, in order
//! and without polling for locks. A transaction that is not carried to its end, because a statement
//! failed or its caller went away, gives its connection up: closing rolls back whatever state it
//! was left in, and the next transaction opens a new one.

use super::error::failed;
use crate::journal::JournalError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

/// Longest wait for those that write before.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long a commit proves that the journal can be written to.
const PROVEN: Duration = Duration::from_secs(1);
/// What a check writes after a write has failed, in bytes: as much as the largest body that is taken
/// unless set otherwise. A disk that is almost full has room for little writes and not for these.
const ROOM: usize = 256 * 1024;

pub(super) struct Writer {
    options: SqliteConnectOptions,
    slot: Mutex<Slot>,
}

struct Slot {
    connection: Option<SqliteConnection>,
    committed: Option<Instant>,
    closed: bool,
}

/// The right to write, until it is committed, released or dropped.
pub(super) struct Transaction<'writer> {
    slot: MutexGuard<'writer, Slot>,
    connection: SqliteConnection,
    /// The transaction before was not carried to its end.
    after_failure: bool,
}

impl Writer {
    pub(super) fn new(options: SqliteConnectOptions, connection: SqliteConnection) -> Self {
        Self {
            options,
            slot: Mutex::new(Slot {
                connection: Some(connection),
                committed: None,
                closed: false,
            }),
        }
    }

    /// Begins a transaction that holds the write lock from the start.
    pub(super) async fn begin(&self) -> Result<Transaction<'_>, JournalError> {
        let mut slot = tokio::time::timeout(LONGEST_WAIT, self.slot.lock())
            .await
            .map_err(|_| JournalError::Unavailable("writes take too long".to_string()))?;
        if slot.closed {
            return Err(JournalError::Unavailable("it is closed".to_string()));
        }
        let after_failure = slot.connection.is_none();
        let mut connection = match slot.connection.take() {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(failed)?,
        };
        sqlx::query("BEGIN IMMEDIATE")
            .execute(&mut connection)
            .await
            .map_err(failed)?;
        Ok(Transaction {
            slot,
            connection,
            after_failure,
        })
    }

    /// Proves that the journal can be written to. A commit of a moment ago is proof enough, so
    /// asking often costs no disk flushes.
    pub(super) async fn check(&self) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        let proven = transaction.slot.committed;
        let proven = proven.is_some_and(|committed| committed.elapsed() < PROVEN);
        if proven && !transaction.after_failure {
            return transaction.release().await;
        }
        let room = if transaction.after_failure { ROOM } else { 0 };
        // A value that differs each time: SQLite leaves a page alone that would stay the same.
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES ('checks', '1' || ?1)
             ON CONFLICT (name) DO UPDATE SET value = (CAST(value AS INTEGER) + 1) || ?1",
        )
        .bind(" ".repeat(room))
        .execute(transaction.connection())
        .await
        .map_err(failed)?;
        transaction.commit().await
    }

    /// Waits for what is under way, writes the log back into the file and closes.
    pub(super) async fn close(&self) -> Result<(), JournalError> {
        let mut slot = self.slot.lock().await;
        slot.closed = true;
        let Some(mut connection) = slot.connection.take() else {
            return Ok(());
        };
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
            .execute(&mut connection)
            .await
            .map_err(failed)?;
        connection.close().await.map_err(failed)
    }
}

impl Transaction<'_> {
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Once this has answered, what was written is on disk.
    pub(super) async fn commit(mut self) -> Result<(), JournalError> {
        sqlx::query("COMMIT")
            .execute(&mut self.connection)
            .await
            .map_err(failed)?;
        self.slot.committed = Some(Instant::now());
        self.slot.connection = Some(self.connection);
        Ok(())
    }

    /// Ends it without a write.
    pub(super) async fn release(mut self) -> Result<(), JournalError> {
        sqlx::query("ROLLBACK")
            .execute(&mut self.connection)
            .await
            .map_err(failed)?;
        self.slot.connection = Some(self.connection);
        Ok(())
    }
}
