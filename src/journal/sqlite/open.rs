//! Opening the journal file: makes sure that it is a journal, that no other server has it open, and that it
//! has this version's schema.

use super::error::{failed, is_no_database};
use super::held_files::{HeldFiles, create, lock, refused};
use super::writer::Writer;
use super::{SqliteJournal, Writing};
use crate::journal::{JournalError, JournalMaintenance as _};
use sqlx::migrate::{Migrate as _, MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection, SqlitePool};
use std::cmp::Ordering;
use std::fs;
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

/// All migrations, oldest first. A migration is never changed after its release.
pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");
/// Marks the file as a journal: `RNGB`, in the field that SQLite reserves for this.
pub(super) const APPLICATION_ID: i64 = 0x524e_4742;
/// Reads the journal's id.
pub(super) const IDENTITY: &str = "SELECT value FROM meta WHERE name = 'id'";
/// How long a connection waits for a lock of another connection.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of connections that read at a time.
const READERS: u32 = 4;
/// How long a call that reads waits for a free connection.
const READER_TIMEOUT: Duration = Duration::from_secs(10);

impl SqliteJournal {
    /// Opens the journal in a file. The file and its directory are created if they are missing. `instance`
    /// is the name of this process in the rows that it writes.
    ///
    /// # Errors
    /// [`JournalError::Refused`] if another server has the journal open, if the file is not a journal, was
    /// written by a newer version, or cannot be opened.
    pub async fn open(path: &Path, instance: &str) -> Result<Self, JournalError> {
        Ok(Self::open_and_migrate(path, instance).await?.0)
    }

    /// Brings the schema of a file up to date. Returns the names of the migrations that were applied.
    ///
    /// # Errors
    /// As [`SqliteJournal::open`].
    pub async fn migrate(path: &Path) -> Result<Vec<String>, JournalError> {
        let (journal, applied) = Self::open_and_migrate(path, "migrate").await?;
        journal.close().await;
        Ok(applied)
    }

    async fn open_and_migrate(
        path: &Path,
        instance: &str,
    ) -> Result<(Self, Vec<String>), JournalError> {
        let file = create(path).and_then(|()| fs::canonicalize(path));
        let file = file.map_err(|error| refused(path, &error))?;
        let lock = lock(&file)?;
        mark_as_journal(&file).await?;
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        let readers = options.clone().read_only(true);
        let options = options
            .journal_mode(SqliteJournalMode::Wal)
            // Flushes the log at every commit, so that an answered write survives a power cut.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            // The log is merged into the file after 16 MiB, so that a page that changes often is merged once
            // for many commits. After many writes at once, the log file is cut to 64 MiB.
            .pragma("wal_autocheckpoint", "4096")
            .pragma("journal_size_limit", "67108864")
            .pragma("cache_size", "-32768")
            .pragma("temp_store", "memory");
        let refuse = |error| refused(&file, &failed(error));
        let mut connection = options.connect().await.map_err(refuse)?;
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
            .fetch_one(&mut connection)
            .await
            .map_err(refuse)?;
        if mode != "wal" {
            // SQLite has kept its old mode, without an error. In that mode, readers would block the writer.
            return Err(refused(
                &file,
                &"its file system does not support a write-ahead log",
            ));
        }
        let applied = migrate(&mut connection, &file).await?;
        let id = identify(&mut connection).await.map_err(refuse)?;
        // Only this server writes to the file, so the server that had these jobs has ended.
        sqlx::query("UPDATE jobs SET leased_until_ms = 0 WHERE ended_ms IS NULL")
            .execute(&mut connection)
            .await
            .map_err(refuse)?;
        let readers = open_readers(readers).await.map_err(refuse)?;
        let journal = Self {
            id,
            instance: instance.into(),
            readers,
            writing: Some(Writing {
                writer: Writer::new(options, connection),
                files: HeldFiles::of(&file, lock).map_err(|error| refused(&file, &error))?,
            }),
        };
        Ok((journal, applied))
    }

    /// Opens the journal in a file for reading only. A server may have it open at the same time. Nothing is
    /// created or migrated, and calls that write are refused.
    ///
    /// # Errors
    /// [`JournalError::Refused`] if there is no file, if the file is not a journal, or was written by another
    /// version.
    pub async fn open_to_read(path: &Path) -> Result<Self, JournalError> {
        let file = fs::canonicalize(path).map_err(|error| refused(path, &error))?;
        let refuse = |error| refused(&file, &failed(error));
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .read_only(true)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        let connection = options.connect().await;
        let mut connection = connection.map_err(|error| unopened(&file, error))?;
        recognize(&mut connection, &file).await?;
        let id = sqlx::query_scalar(IDENTITY)
            .fetch_one(&mut connection)
            .await
            .map_err(refuse)?;
        connection.close().await.map_err(refuse)?;
        Ok(Self {
            id,
            instance: "".into(),
            readers: open_readers(options).await.map_err(refuse)?,
            writing: None,
        })
    }
}

/// Opens the connections that read.
async fn open_readers(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(READER_TIMEOUT)
        .test_before_acquire(false)
        .connect_with(options)
        .await
}

/// Makes sure that the file is a journal of this version.
async fn recognize(connection: &mut SqliteConnection, file: &Path) -> Result<(), JournalError> {
    let refuse = |error| unopened(file, error);
    let mark: i64 = sqlx::query_scalar("SELECT application_id FROM pragma_application_id")
        .fetch_one(&mut *connection)
        .await
        .map_err(refuse)?;
    if mark != APPLICATION_ID {
        return Err(refused(file, &"it is not a journal of Ringback"));
    }
    let applied: i64 = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await
        .map_err(refuse)?;
    let known = MIGRATIONS.iter().map(|migration| migration.version).max();
    match known.map(|known| applied.cmp(&known)) {
        None | Some(Ordering::Equal) => Ok(()),
        Some(Ordering::Less) => Err(refused(
            file,
            &"it was written by an older version of Ringback; start a server of this version on it first",
        )),
        Some(Ordering::Greater) => Err(newer(file, applied)),
    }
}

/// Translates the error of reading a file that may not be a journal.
pub(super) fn unopened(file: &Path, error: sqlx::Error) -> JournalError {
    if is_no_database(&error) {
        return refused(file, &"it is not an SQLite database");
    }
    refused(file, &failed(error))
}

fn newer(file: &Path, version: i64) -> JournalError {
    refused(
        file,
        &format!("it was written by a newer version of Ringback (schema {version})"),
    )
}

/// Marks an empty file as a journal. Refuses a file of another program, before anything in it is changed.
async fn mark_as_journal(file: &Path) -> Result<(), JournalError> {
    let refuse = |error| unopened(file, error);
    let mut connection = SqliteConnectOptions::new()
        .filename(file)
        .busy_timeout(BUSY_TIMEOUT)
        // This has an effect only in an empty file. Pruning can then give free pages back to the file system,
        // a few at a time.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .disable_statement_logging()
        .connect()
        .await
        .map_err(refuse)?;
    let (mark, things): (i64, i64) = sqlx::query_as(
        "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id",
    )
    .fetch_one(&mut connection)
    .await
    .map_err(refuse)?;
    match (mark, things) {
        (APPLICATION_ID, _) => {}
        (0, 0) => {
            sqlx::query(AssertSqlSafe(format!(
                "PRAGMA application_id = {APPLICATION_ID}"
            )))
            .execute(&mut connection)
            .await
            .map_err(refuse)?;
        }
        _ => {
            return Err(refused(
                file,
                &"it is an SQLite database of another program",
            ));
        }
    }
    connection.close().await.map_err(refuse)
}

/// Brings the schema up to date. Returns the names of the migrations that were applied.
async fn migrate(
    connection: &mut SqliteConnection,
    file: &Path,
) -> Result<Vec<String>, JournalError> {
    let table = &MIGRATIONS.table_name;
    let refuse = |error| refused(file, &error);
    connection
        .ensure_migrations_table(table)
        .await
        .map_err(|error| refuse(error.to_string()))?;
    let before = connection
        .list_applied_migrations(table)
        .await
        .map_err(|error| refuse(error.to_string()))?;
    // Not `run`: with it, the compiler cannot find out that this future is `Send`.
    MIGRATIONS
        .run_direct(None, connection, false)
        .await
        .map_err(|error| match error {
            MigrateError::VersionMissing(version) => newer(file, version),
            MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) => {
                refused(file, &failed(cause))
            }
            _ => refused(file, &error),
        })?;
    let is_new = |version| before.iter().all(|one| one.version != version);
    let applied = MIGRATIONS.iter().filter(|one| is_new(one.version));
    Ok(applied
        .map(|one| format!("{:04} {}", one.version, one.description))
        .collect())
}

/// Reads the journal's id. A new journal gets one first.
async fn identify(connection: &mut SqliteConnection) -> Result<String, sqlx::Error> {
    sqlx::query("INSERT INTO meta (name, value) VALUES ('id', ?) ON CONFLICT DO NOTHING")
        .bind(Uuid::now_v7().to_string())
        .execute(&mut *connection)
        .await?;
    sqlx::query_scalar(IDENTITY).fetch_one(connection).await
}
