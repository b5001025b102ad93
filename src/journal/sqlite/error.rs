//! What SQLite's failures mean to a caller. Told apart by kind and result code, never by text.
//!
//! A notification whose outcome is refused as [`JournalError::Corrupt`] is set aside. So that is returned only
//! for a failure that may be this notification's alone. A missing table or a wrong file concerns all: that
//! is [`JournalError::Unavailable`], and callers wait until it is repaired.

use crate::journal::JournalError;
use sqlx::error::DatabaseError;
use thiserror::Error;

/// Primary result codes, <https://www.sqlite.org/rescode.html>; the extended ones add upper bits.
const PRIMARY: i64 = 0xff;
const CORRUPT: i64 = 11;
const CONSTRAINT: i64 = 19;
const MISMATCH: i64 = 20;
const NOT_A_DATABASE: i64 = 26;

/// Why a call failed, as its caller is told. A type of its own, so that `?` translates what sqlx says.
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

/// Translates a failure of a statement or a connection.
pub(super) fn failed(error: sqlx::Error) -> JournalError {
    match &error {
        sqlx::Error::Database(cause) => match code(cause.as_ref()) {
            // A page is damaged, or a row is not what this version wrote.
            Some(CORRUPT | CONSTRAINT | MISMATCH) => JournalError::Corrupt(cause.to_string()),
            // Busy, full, read-only, out of memory, failing disk: may pass. A statement that does not
            // fit the schema, or no database at all: may be repaired from outside.
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

/// Whether the file is something else than an SQLite database.
pub(super) fn is_no_database(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|cause| code(cause) == Some(NOT_A_DATABASE))
}

fn code(cause: &dyn DatabaseError) -> Option<i64> {
    let extended: i64 = cause.code()?.parse().ok()?;
    Some(extended & PRIMARY)
}
