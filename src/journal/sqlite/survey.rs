//! What is found in a journal file that is not opened as a journal.

use super::SqliteJournal;
use super::error::failed;
use super::held_files::{lock_name, refused};
use super::open::{APPLICATION_ID, BUSY_TIMEOUT, IDENTITY, MIGRATIONS, unopened};
use crate::journal::{JournalError, JournalSurvey, JournalUsers, SurveyedSchema};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use std::fs::{self, File, TryLockError};
use std::path::Path;

impl SqliteJournal {
    /// Looks at the file of a journal. Creates and changes nothing; a file that is missing is a journal without a schema.
    ///
    /// # Errors
    /// [`JournalError::Refused`] if the file is none of a journal, or cannot be read.
    pub async fn survey(path: &Path) -> Result<JournalSurvey, JournalError> {
        let mut survey = JournalSurvey {
            database: "SQLite".to_string(),
            schema: SurveyedSchema::Missing,
            has_id: false,
            users: JournalUsers::Nobody,
            clock_ahead_ms: None,
            hazards: Vec::new(),
        };
        if !path.try_exists().map_err(|error| refused(path, &error))? {
            return Ok(survey);
        }
        let file = fs::canonicalize(path).map_err(|error| refused(path, &error))?;
        survey.users = users(&file)?;
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .read_only(true)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        let connection = options.connect().await;
        let mut connection = connection.map_err(|error| unopened(&file, error))?;
        let read = read(&mut connection, &file, &mut survey).await;
        let closed = connection.close().await;
        read?;
        closed.map_err(|error| refused(&file, &failed(error)))?;
        Ok(survey)
    }
}

async fn read(
    connection: &mut SqliteConnection,
    file: &Path,
    survey: &mut JournalSurvey,
) -> Result<(), JournalError> {
    let refuse = |error| unopened(file, error);
    let (version, mark, things): (String, i64, i64) = sqlx::query_as(
        "SELECT sqlite_version(), application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id",
    )
    .fetch_one(&mut *connection)
    .await
    .map_err(refuse)?;
    survey.database = format!("SQLite {version}");
    match (mark, things) {
        (_, 0) => return Ok(()),
        (APPLICATION_ID, _) => {}
        _ => return Err(refused(file, &"it is not a journal of Ringback")),
    }
    let applied: Vec<i64> = sqlx::query_scalar("SELECT version FROM _sqlx_migrations")
        .fetch_all(&mut *connection)
        .await
        .map_err(refuse)?;
    let known: Vec<(i64, &str)> = MIGRATIONS
        .iter()
        .map(|one| (one.version, &*one.description))
        .collect();
    survey.schema = SurveyedSchema::compare(&applied, &known);
    let id: Option<String> = sqlx::query_scalar(IDENTITY)
        .fetch_optional(connection)
        .await
        .map_err(refuse)?;
    survey.has_id = id.is_some();
    Ok(())
}

/// Whether a server has the journal open: then it holds the lock of the file beside it. The lock is tried for a moment, as
/// a shared one: a server that is started at that very moment would be refused, and can be started again.
fn users(file: &Path) -> Result<JournalUsers, JournalError> {
    let Ok(lock) = File::open(lock_name(file)) else {
        return Ok(JournalUsers::Nobody);
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(JournalUsers::Nobody),
        Err(TryLockError::WouldBlock) => Ok(JournalUsers::OneAlone),
        Err(TryLockError::Error(error)) => Err(refused(file, &error)),
    }
}
