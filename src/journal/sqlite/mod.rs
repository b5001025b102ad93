//! The journal in an SQLite file: for one server, without a database server.
//!
//! One connection writes, with one transaction per batch, which is flushed to disk before the batch is
//! answered. A few other connections read, and never wait for the writer (write-ahead log). A lock file
//! prevents a second server from opening the journal while this value exists. Other processes can open it
//! for reading only.

mod activity;
mod advance;
mod api_keys;
mod audit_log;
mod bulk;
mod check;
mod day;
mod default_keys;
mod endpoints;
mod error;
mod examination;
mod filtered_pages;
mod held_files;
mod job_changes;
mod job_leases;
mod job_pages;
mod job_results;
mod jobs;
mod lanes;
mod later;
mod list;
mod load;
mod maintenance;
mod meta;
mod open;
mod order;
mod pending;
mod places;
mod pruning;
mod reads;
mod reseal;
mod search;
mod set_aside;
mod statements;
mod survey;
mod writer;
mod writes;

use super::JournalError;
use held_files::HeldFiles;
use sqlx::SqlitePool;
use std::sync::Arc;
use writer::Writer;

/// A journal in an SQLite file. See [`SqliteJournal::open`].
pub struct SqliteJournal {
    id: String,
    instance: Arc<str>,
    readers: SqlitePool,
    /// `None` if the journal is open for reading only.
    writing: Option<Writing>,
}

/// The parts that only a journal that is open for writing has.
struct Writing {
    writer: Writer,
    /// The journal and its lock file, which is locked while the journal is open.
    files: HeldFiles,
}

impl SqliteJournal {
    fn writer(&self) -> Result<&Writer, JournalError> {
        match &self.writing {
            Some(writing) => Ok(&writing.writer),
            None => Err(JournalError::Refused(
                "the journal is open for reading only".to_string(),
            )),
        }
    }
}
