//! The journal in an SQLite file: for one server, and without another process to look after.
//!
//! One connection writes, one transaction a batch, flushed to disk before it is answered; a few
//! connections read beside it and never wait for it (write-ahead log). A lock file keeps a second
//! server out for as long as this value lives. Beside a server, it can be opened to be read alone.

mod bulk;
mod check;
mod error;
mod examine;
mod list;
mod load;
mod maintenance;
mod open;
mod read;
mod set_aside;
mod statements;
mod write;
mod writer;

use super::list::MOST_SCANNED;
use super::{
    AllSetAside, Bodies, ChangeResult, Changing, Cursor, Examined, Filter, Journal, JournalCounts,
    JournalError, Noting, Order, Page, Pending, Prune, Pruned, Rebuild, Recorded, Recording,
    RegisterResult, Registering, SettingAside, Transition,
};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use async_trait::async_trait;
use bytes::Bytes;
use error::Failure;
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

#[async_trait]
impl Journal for SqliteJournal {
    fn id(&self) -> &str {
        &self.id
    }

    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let replies = write::register(transaction.connection(), &self.instance, batch).await?;
        transaction.commit().await?;
        Ok(replies)
    }

    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let replies = write::record(transaction.connection(), &self.instance, batch).await?;
        transaction.commit().await?;
        Ok(replies)
    }

    async fn fence(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let snapshot = write::fence(transaction.connection(), key).await?;
        transaction.commit().await?;
        Ok(snapshot)
    }

    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let reply = write::change(transaction.connection(), &self.instance, &changing).await?;
        match reply {
            ChangeResult::Done(_) => transaction.commit().await?,
            ChangeResult::Refused(_) | ChangeResult::Fenced(_) | ChangeResult::Missing => {
                transaction.release().await?
            }
        }
        Ok(reply)
    }

    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        set_aside::set_aside(transaction.connection(), &self.instance, setting).await?;
        Ok(transaction.commit().await?)
    }

    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError> {
        Ok(set_aside::all(&self.readers, limit).await?)
    }

    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        Ok(read::find(&self.readers, key).await?)
    }

    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        Ok(read::snapshots(&self.readers, keys).await?)
    }

    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError> {
        Ok(read::transitions(&self.readers, key).await?)
    }

    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError> {
        Ok(read::pending(&self.readers, key).await?)
    }

    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        Ok(read::pending_page(&self.readers, cursor, limit, Bodies::Read).await?)
    }

    async fn pending_page_without_bodies(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        Ok(read::pending_page(&self.readers, cursor, limit, Bodies::Left).await?)
    }

    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(Failure::from)?;
        Ok(load::bodies(&mut reading, keys).await?)
    }

    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, JournalError> {
        Ok(list::list(&self.readers, filter, order, cursor, limit, MOST_SCANNED).await?)
    }

    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        Ok(maintenance::changes(&self.readers, from_ms, until_ms, cursor, limit).await?)
    }

    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        write::note(transaction.connection(), &self.instance, notes).await?;
        Ok(transaction.commit().await?)
    }

    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        maintenance::rebuilding(transaction.connection(), &self.instance, rebuild).await?;
        Ok(transaction.commit().await?)
    }

    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let pruned = maintenance::prune(transaction.connection(), prune, limit).await?;
        transaction.commit().await?;
        Ok(pruned)
    }

    /// Nobody else has the file open, so every duty is this instance's.
    async fn duty(&self, _name: &str, _ttl_ms: i64) -> Result<bool, JournalError> {
        Ok(true)
    }

    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(Failure::from)?;
        Ok(maintenance::recall(&mut reading, name).await?)
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        maintenance::remember(transaction.connection(), name, value).await?;
        Ok(transaction.commit().await?)
    }

    async fn counts(&self) -> Result<JournalCounts, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(Failure::from)?;
        Ok(read::counts(&mut reading).await?)
    }

    async fn examine(&self, limit: usize) -> Result<Examined, JournalError> {
        Ok(examine::examine(&self.readers, limit).await?)
    }

    async fn check(&self) -> Result<(), JournalError> {
        Ok(check::check(self.writer()?, &self.instance).await?)
    }

    async fn close(&self) {
        // Readers first: the log is written back whole only if nobody reads from it.
        self.readers.close().await;
        let Some(Writing { writer, lock }) = &self.writing else {
            return;
        };
        if let Err(error) = writer.close().await {
            // Nothing is lost: the log is read when the journal is opened next.
            tracing::warn!(%error, "the journal's log was not written back at closing");
        }
        // Fails only if the system has let go of the lock already.
        let _ = lock.unlock();
    }
}
