//! A journal whose calls tell [`crate::health`] how it is doing. Changes nothing of what is asked
//! and answered.

use super::{
    AllSetAside, ChangeResult, Changing, Cursor, Examined, Filter, Journal, JournalCounts,
    JournalError, Noting, Order, Page, Pending, Prune, Pruned, Rebuild, Recorded, Recording,
    RegisterResult, Registering, SettingAside, Transition,
};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use crate::health::{Ended, Health, Store, Work};
use async_trait::async_trait;
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;

/// A journal under watch.
pub struct WatchedJournal {
    journal: Arc<dyn Journal>,
    health: Arc<Health>,
}

impl WatchedJournal {
    /// Watches a journal.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, health: Arc<Health>) -> Self {
        Self { journal, health }
    }

    async fn watch<T>(
        &self,
        work: Work,
        calling: impl Future<Output = Result<T, JournalError>>,
    ) -> Result<T, JournalError> {
        let call = self.health.begin(Store::Journal, work);
        let result = calling.await;
        call.ended(match &result {
            Ok(_) => Ended::Answered,
            // It may be this one notification that is damaged, or a table that all need.
            Err(JournalError::Corrupt(_) | JournalError::Refused(_)) => Ended::Unreadable,
            Err(JournalError::Unavailable(cause)) => Ended::Failed(cause.clone()),
        });
        result
    }
}

/// What a check of a journal says. Whatever is wrong with it, it cannot be worked with.
#[must_use]
pub fn checked(result: &Result<(), JournalError>) -> Ended {
    match result {
        Ok(()) => Ended::Answered,
        Err(
            JournalError::Unavailable(cause)
            | JournalError::Corrupt(cause)
            | JournalError::Refused(cause),
        ) => Ended::Failed(cause.clone()),
    }
}

#[async_trait]
impl Journal for WatchedJournal {
    fn id(&self) -> &str {
        self.journal.id()
    }

    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError> {
        self.watch(Work::Accept, self.journal.register(batch)).await
    }

    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError> {
        self.watch(Work::Settle, self.journal.record(batch)).await
    }

    async fn fence(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        self.watch(Work::Settle, self.journal.fence(key)).await
    }

    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError> {
        self.watch(Work::Accept, self.journal.change(changing))
            .await
    }

    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError> {
        self.watch(Work::Settle, self.journal.set_aside(setting))
            .await
    }

    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError> {
        self.watch(Work::Browse, self.journal.all_set_aside(limit))
            .await
    }

    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        self.watch(Work::Read, self.journal.find(key)).await
    }

    // A call about nothing may be answered without the store, and so says nothing of it.

    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        if keys.is_empty() {
            return self.journal.snapshots(keys).await;
        }
        self.watch(Work::Read, self.journal.snapshots(keys)).await
    }

    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError> {
        self.watch(Work::Browse, self.journal.transitions(key))
            .await
    }

    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError> {
        self.watch(Work::Read, self.journal.pending(key)).await
    }

    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        self.watch(Work::Browse, self.journal.pending_page(cursor, limit))
            .await
    }

    async fn pending_page_without_bodies(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        let reading = self.journal.pending_page_without_bodies(cursor, limit);
        self.watch(Work::Browse, reading).await
    }

    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError> {
        self.watch(Work::Read, self.journal.bodies(keys)).await
    }

    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, JournalError> {
        let listing = self.journal.list(filter, order, cursor, limit);
        self.watch(Work::Browse, listing).await
    }

    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        let changes = self.journal.changes(from_ms, until_ms, cursor, limit);
        self.watch(Work::Browse, changes).await
    }

    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError> {
        if notes.is_empty() {
            return self.journal.note(notes).await;
        }
        self.watch(Work::Browse, self.journal.note(notes)).await
    }

    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError> {
        self.watch(Work::Browse, self.journal.rebuilding(rebuild))
            .await
    }

    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError> {
        self.watch(Work::Browse, self.journal.prune(prune, limit))
            .await
    }

    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError> {
        self.watch(Work::Browse, self.journal.duty(name, ttl_ms))
            .await
    }

    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError> {
        self.watch(Work::Browse, self.journal.recall(name)).await
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError> {
        self.watch(Work::Browse, self.journal.remember(name, value))
            .await
    }

    async fn counts(&self) -> Result<JournalCounts, JournalError> {
        self.watch(Work::Browse, self.journal.counts()).await
    }

    /// Takes as long as it must, so how long tells nothing.
    async fn examine(&self, limit: usize) -> Result<Examined, JournalError> {
        self.journal.examine(limit).await
    }

    async fn check(&self) -> Result<(), JournalError> {
        self.journal.check().await
    }

    async fn close(&self) {
        self.journal.close().await;
    }
}
