//! Why a call to a journal failed.

use thiserror::Error;

/// Why a call to a journal failed. A write that failed may still have been executed, completely or in part.
#[derive(Debug, Clone, Error)]
pub enum JournalError {
    /// The journal cannot be reached, is too slow or full, or refuses calls for now. A later try may succeed.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
    /// The journal holds data that this version cannot read, or it refuses to store data of this notification
    /// and would refuse it again.
    #[error("the journal cannot read or store this data: {0}")]
    Corrupt(String),
    /// The journal is in use by another server, cannot be opened, or is open for reading only.
    #[error("{0}")]
    Refused(String),
}

impl JournalError {
    /// Whether a later try may succeed although nobody repairs anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Corrupt(_) | Self::Refused(_) => false,
        }
    }
}
