//! The journal in an SQLite file: for one server, and without another process to look after.
//!
//! One connection writes, one transaction a batch, flushed to disk before it is answered; a few
//! connections read beside it and never wait for it (write-ahead log). A lock file keeps a second
//! server out for as long as this value lives. Beside a server, it can be opened for reading only.

mod bulk;
mod check;
mod error;
mod examination;
mod list;
mod load;
mod maintenance;
mod meta;
mod open;
mod pending;
mod pruning;
mod reads;
mod set_aside;
mod statements;
mod writer;
mod writes;

use super::JournalError;
use sqlx::SqlitePool;
use std::fs::File;
use std::sync::Arc;
use writer::Writer;

/// A journal in an SQLite file. See [`SqliteJournal::open`].
pub struct SqliteJournal {
    id: String,
    instance: Arc<str>,
    readers: SqlitePool,
    /// `None` where it is open to be read alone.
    writing: Option<Writing>,
}

/// What only the server has.
struct Writing {
    writer: Writer,
    /// Locked while it is open.
    lock: File,
}

impl SqliteJournal {
    fn writer(&self) -> Result<&Writer, JournalError> {
        match &self.writing {
            Some(writing) => Ok(&writing.writer),
            None => Err(JournalError::Refused(
                "the journal is open to be read alone".to_string(),
            )),
        }
    }
}
