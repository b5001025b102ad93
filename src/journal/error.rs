//! Why a journal could not do what was asked.

use thiserror::Error;

/// Why the journal could not do what was asked. Nothing of the call was kept, or it is not known.
#[derive(Debug, Clone, Error)]
pub enum JournalError {
    /// It cannot be reached, is too slow, full or refuses; worth trying again.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
    /// It holds something that this version cannot read, or it refuses what is to be written of this
    /// notification and would refuse it again.
    #[error("the journal cannot read or keep this: {0}")]
    Corrupt(String),
    /// It is in use by another server, or cannot be opened at all.
    #[error("{0}")]
    Refused(String),
}
