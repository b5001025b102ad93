//! The meaning of SQLite's errors. They are told apart by kind and result code, never by text.
//!
//! If the recording of an outcome fails with [`JournalError::Corrupt`], the notification is set aside. So
//! this error is only used for failures that may concern a single notification. A missing table or a wrong
//! file concerns all notifications. It is [`JournalError::Unavailable`], and callers try again until it is
//! repaired.

use crate::journal::JournalError;
use sqlx::error::DatabaseError;
use thiserror::Error;

/// The bits of the primary result code (<https://www.sqlite.org/rescode.html>). An extended code has more
/// bits above them.
const PRIMARY: i64 = 0xff;
const CORRUPT: i64 = 11;
const CONSTRAINT: i64 = 19;
const MISMATCH: i64 = 20;
const NOT_A_DATABASE: i64 = 26;

/// Why a call failed. This type exists so that `?` converts the errors of sqlx.
#[derive(Debug, Error)]
#[error(transparent)]
pub(in crate::journal) struct SqliteFailure(#[from] JournalError);

impl From<sqlx::Error> for SqliteFailure {
    fn from(error: sqlx::Error) -> Self {
        Self(failed(error))
    }
}

impl From<SqliteFailure> for JournalError {
    fn from(failure: SqliteFailure) -> Self {
        failure.0
    }
}

/// Translates an error of a statement or a connection.
pub(super) fn failed(error: sqlx::Error) -> JournalError {
    match &error {
        sqlx::Error::Database(cause) => match code(cause.as_ref()) {
            // A page is damaged, or a value does not fit the table.
            Some(CORRUPT | CONSTRAINT | MISMATCH) => JournalError::Corrupt(cause.to_string()),
            // Busy, full, read-only, out of memory, a failing disk: these may pass. A statement that does not
            // fit the schema, or a file that is no database: an administrator may repair these.
            _ => JournalError::Unavailable(cause.to_string()),
        },
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::RowNotFound => JournalError::Corrupt(error.to_string()),
        _ => JournalError::Unavailable(error.to_string()),
    }
}

/// Whether the error says that the file is not an SQLite database.
pub(super) fn is_no_database(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|cause| code(cause) == Some(NOT_A_DATABASE))
}

fn code(cause: &dyn DatabaseError) -> Option<i64> {
    let extended: i64 = cause.code()?.parse().ok()?;
    Some(extended & PRIMARY)
}
