//! Passes on the calls of maintenance.

use super::{JournalCall, JournalDecorator, unless_empty};
use crate::domain::key::Key;
use crate::domain::lane_settings::LaneChanges;
use crate::journal::{
    AllSetAside, Cursor, DayReading, DaySelection, Examined, JournalCounts, JournalError,
    JournalMaintenance, Noting, PageBodies, PartitionWork, Pending, PlacesPage, Prune, Pruned,
    Rebuild,
};
use async_trait::async_trait;

#[async_trait]
impl<Decorator: JournalDecorator> JournalMaintenance for Decorator {
    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError> {
        let calling = self.inner().all_set_aside(limit);
        self.around(JournalCall::AllSetAside, calling).await
    }

    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
        bodies: PageBodies,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        let calling = self.inner().pending_page(cursor, until_ms, limit, bodies);
        self.around(JournalCall::PendingPage, calling).await
    }

    async fn places_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
    ) -> Result<PlacesPage, JournalError> {
        let calling = self.inner().places_page(cursor, until_ms, limit);
        self.around(JournalCall::PlacesPage, calling).await
    }

    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        let calling = self.inner().changes(from_ms, until_ms, cursor, limit);
        self.around(JournalCall::Changes, calling).await
    }

    async fn lane_changes(&self, after: i64, limit: usize) -> Result<LaneChanges, JournalError> {
        let calling = self.inner().lane_changes(after, limit);
        self.around(JournalCall::LaneChanges, calling).await
    }

    async fn fill_in_later(
        &self,
        cursor: Cursor,
        limit: usize,
    ) -> Result<(u64, Option<Cursor>), JournalError> {
        let calling = self.inner().fill_in_later(cursor, limit);
        self.around(JournalCall::FillInLater, calling).await
    }

    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError> {
        unless_empty!(self, Note, note, notes)
    }

    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError> {
        let calling = self.inner().rebuilding(rebuild);
        self.around(JournalCall::Rebuilding, calling).await
    }

    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError> {
        let calling = self.inner().prune(prune, limit);
        self.around(JournalCall::Prune, calling).await
    }

    async fn tend_partitions(&self, work: &PartitionWork) -> Result<Pruned, JournalError> {
        let calling = self.inner().tend_partitions(work);
        self.around(JournalCall::TendPartitions, calling).await
    }

    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError> {
        JournalDecorator::duty(self, name, ttl_ms).await
    }

    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError> {
        let calling = self.inner().recall(name);
        self.around(JournalCall::Recall, calling).await
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError> {
        let calling = self.inner().remember(name, value);
        self.around(JournalCall::Remember, calling).await
    }

    async fn counts(&self) -> Result<JournalCounts, JournalError> {
        let calling = self.inner().counts();
        self.around(JournalCall::Counts, calling).await
    }

    async fn oldest_due(&self) -> Result<Option<i64>, JournalError> {
        let calling = self.inner().oldest_due();
        self.around(JournalCall::OldestDue, calling).await
    }

    async fn count_due_by(&self, due_ms: i64, most: usize) -> Result<u64, JournalError> {
        let calling = self.inner().count_due_by(due_ms, most);
        self.around(JournalCall::CountDueBy, calling).await
    }

    async fn examine(&self, limit: usize) -> Result<Examined, JournalError> {
        let calling = self.inner().examine(limit);
        self.around(JournalCall::Examine, calling).await
    }

    async fn read_day(
        &self,
        selection: &DaySelection,
    ) -> Result<Box<dyn DayReading>, JournalError> {
        let calling = self.inner().read_day(selection);
        self.around(JournalCall::ReadDay, calling).await
    }

    async fn check(&self) -> Result<(), JournalError> {
        let calling = self.inner().check();
        self.around(JournalCall::Check, calling).await
    }

    /// Not a call of its own: it says nothing about the connections that all other calls use.
    async fn keep_holding(&self) -> Result<(), JournalError> {
        self.inner().keep_holding().await
    }

    async fn close(&self) {
        self.inner().close().await;
    }
}
