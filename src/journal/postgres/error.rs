//! The meaning of PostgreSQL's errors. They are told apart by kind and SQLSTATE, never by text.
//!
//! Codes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>. The first two characters are the
//! class.
//!
//! If the recording of an outcome fails with [`JournalError::Corrupt`], the notification is set aside. So
//! this error is only used for failures that may concern a single notification. A missing table or column
//! concerns all notifications. It is [`JournalError::Unavailable`], and callers try again until it is
//! repaired.

use crate::journal::JournalError;

/// The SQLSTATE of a statement that waited for a lock longer than `lock_timeout`.
pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";
/// The SQLSTATE of a row that violates a constraint, also that of a partition.
pub(super) const CHECK_VIOLATION: &str = "23514";
/// The SQLSTATE of a table that exists already.
pub(super) const DUPLICATE_TABLE: &str = "42P07";
/// The SQLSTATE of a table that cannot be made as it is described, such as a partition that overlaps with another one.
pub(super) const INVALID_OBJECT_DEFINITION: &str = "42P17";
/// The SQLSTATE of a statement that took longer than `statement_timeout`.
pub(super) const QUERY_CANCELED: &str = "57014";
/// The SQLSTATE of an insertion whose key exists already.
pub(super) const UNIQUE_VIOLATION: &str = "23505";

/// Why a call failed. The variant tells whether the call can be made again.
#[derive(Debug)]
pub(in crate::journal) enum PostgresFailure {
    /// The connection broke, or the server is starting up or shutting down. It is not known whether the
    /// call was executed. Other connections are probably broken too.
    Lost(String),
    /// A conflict with another session: a deadlock, or a key that the other session has just inserted.
    /// Nothing of the transaction was kept. The next try sees the rows of the other session.
    Conflict(String),
    /// A failure for which another try at once is of no use.
    Final(JournalError),
}

impl PostgresFailure {
    /// Prevents a second try after the connection was lost. For a call that may have been executed, and
    /// must not be executed twice.
    pub(super) fn in_doubt(self) -> Self {
        match self {
            Self::Lost(cause) => Self::Final(JournalError::Unavailable(cause)),
            Self::Conflict(_) | Self::Final(_) => self,
        }
    }
}

impl From<JournalError> for PostgresFailure {
    fn from(error: JournalError) -> Self {
        Self::Final(error)
    }
}

impl From<PostgresFailure> for JournalError {
    fn from(failure: PostgresFailure) -> Self {
        match failure {
            PostgresFailure::Lost(cause) | PostgresFailure::Conflict(cause) => {
                Self::Unavailable(cause)
            }
            PostgresFailure::Final(error) => error,
        }
    }
}

impl From<sqlx::Error> for PostgresFailure {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(cause) => {
                let code = cause.code().unwrap_or_default();
                of_code(&code, format!("{} (SQLSTATE {code})", cause.message()))
            }
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => {
                Self::Lost(error.to_string())
            }
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::Encode(_)
            | sqlx::Error::RowNotFound
            | sqlx::Error::TypeNotFound { .. } => {
                Self::Final(JournalError::Corrupt(error.to_string()))
            }
            _ => Self::Final(JournalError::Unavailable(error.to_string())),
        }
    }
}

fn of_code(code: &str, cause: String) -> PostgresFailure {
    match (code.get(..2).unwrap_or_default(), code) {
        // Connection exceptions. The administrator or a crash ended the session, or the server is starting up
        // or shutting down.
        ("08", _) | (_, "57P01" | "57P02" | "57P03" | "57P05") => PostgresFailure::Lost(cause),
        // A serialisation failure, a deadlock, a unique key that another session has just inserted.
        (_, "40001" | "40P01" | UNIQUE_VIOLATION) => PostgresFailure::Conflict(cause),
        // The server ended the session, because its transaction was idle or took too long.
        (_, "25P03" | "25P04") => PostgresFailure::Lost(cause),
        // Data that does not fit: a wrong value, a violated constraint, a damaged page.
        ("22" | "23", _) | (_, "XX001" | "XX002") => {
            PostgresFailure::Final(JournalError::Corrupt(cause))
        }
        // Read-only (25006), too many connections (53300), disk full (53100), out of memory, a time-out for
        // a lock or a statement (55P03, 57014), no permission, wrong password, an unknown table or column
        // (42P01, 42703). These may pass, or an administrator may repair them.
        _ => PostgresFailure::Final(JournalError::Unavailable(cause)),
    }
}

/// The SQLSTATE of an error, if the server gave one.
pub(super) fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_says_what_can_be_done() {
        fn check(codes: &[&str], expected: &str) {
            for code in codes {
                let failure = of_code(code, String::new());
                let found = match failure {
                    PostgresFailure::Lost(_) => "lost",
                    PostgresFailure::Conflict(_) => "conflict",
                    PostgresFailure::Final(JournalError::Unavailable(_)) => "unavailable",
                    PostgresFailure::Final(JournalError::Corrupt(_)) => "corrupt",
                    PostgresFailure::Final(JournalError::Refused(_)) => "refused",
                };
                assert_eq!(found, expected, "{code}");
            }
        }
        check(&["08006", "08003", "57P01", "57P02", "57P03"], "lost");
        check(&["40001", "40P01", "23505"], "conflict");
        check(&["25006", "53100", "53200", "53300"], "unavailable");
        check(
            &["55P03", "57014", "42501", "28P01", "58030"],
            "unavailable",
        );
        check(&["42P01", "42703", "0A000"], "unavailable");
        check(&["22001", "22021", "23514", "23502"], "corrupt");
        check(&["XX001", "XX002"], "corrupt");
    }
}
