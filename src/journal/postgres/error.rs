//! What PostgreSQL's failures mean. Told apart by kind and SQLSTATE, never by text.
//!
//! Codes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>; the first two characters
//! are the class.
//!
//! A notification whose outcome is refused as [`JournalError::Corrupt`] is set aside. So that is returned only
//! for a failure that may be this notification's alone. A missing table or column concerns all: that is
//! [`JournalError::Unavailable`], and callers wait until it is repaired.

use crate::journal::JournalError;

/// What a wait for a lock ends with after `lock_timeout`.
pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";
/// A key that is there already.
pub(super) const UNIQUE_VIOLATION: &str = "23505";

/// Why a call was not answered, as far as it matters for what to do next.
#[derive(Debug)]
pub(in crate::journal) enum PostgresFailure {
    /// The connection broke or the server is going away. Whether the call was executed is not
    /// known, and other connections are likely to be broken too.
    Lost(String),
    /// Somebody else was quicker: a deadlock, or a key that was taken a moment ago. Nothing of the
    /// call was kept; the next try sees what the other one did.
    Conflict(String),
    /// Nothing that trying again at once could help.
    Final(JournalError),
}

impl PostgresFailure {
    /// As it is, for a call that must not be executed twice: it may have been.
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
        // Connection exceptions; the administrator or a crash ends the session, or the server is
        // starting up or shutting down.
        ("08", _) | (_, "57P01" | "57P02" | "57P03" | "57P05") => PostgresFailure::Lost(cause),
        // Serialisation, deadlock, a unique key that another session has just taken.
        (_, "40001" | "40P01" | UNIQUE_VIOLATION) => PostgresFailure::Conflict(cause),
        // A session that was sitting in a transaction, or one that the server broke off.
        (_, "25P03" | "25P04") => PostgresFailure::Lost(cause),
        // The content is not what this version wrote: wrong data, a violated constraint, a damaged
        // page.
        ("22" | "23", _) | (_, "XX001" | "XX002") => {
            PostgresFailure::Final(JournalError::Corrupt(cause))
        }
        // Read-only (25006), too many connections (53300), disk full (53100), out of memory, a
        // time-out for a lock or a statement (55P03, 57014), no permission, wrong password, an unknown
        // table or column (42P01, 42703): may pass, or be repaired from outside.
        _ => PostgresFailure::Final(JournalError::Unavailable(cause)),
    }
}

/// The SQLSTATE of a failure, if the server gave one.
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
