//! The calls that maintenance makes to the journal. Recent changes and rebuilds are in this file; the other
//! calls are in files of their own.

use super::audit_log;
use super::check;
use super::day;
use super::error::SqliteFailure;
use super::examination;
use super::lanes;
use super::meta;
use super::pending;
use super::places;
use super::pruning;
use super::set_aside;
use super::writes;
use super::{SqliteJournal, Writing};
use crate::domain::key::Key;
use crate::domain::lane_settings::LaneChanges;
use crate::journal::PageBodies;
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{
    AllSetAside, Cursor, DayReading, DaySelection, Examined, JournalCounts, JournalError,
    JournalMaintenance, Noting, PartitionWork, Pending, PersonAct, PlacesPage, Prune, Pruned,
    Rebuild,
};
use async_trait::async_trait;
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;

#[async_trait]
impl JournalMaintenance for SqliteJournal {
    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError> {
        Ok(set_aside::all(&self.readers, limit).await?)
    }

    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
        bodies: PageBodies,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        Ok(pending::pending_page(&self.readers, cursor, until_ms, limit, bodies).await?)
    }

    async fn places_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
    ) -> Result<PlacesPage, JournalError> {
        Ok(places::page(&self.readers, cursor, until_ms, limit).await?)
    }

    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        Ok(changes(&self.readers, from_ms, until_ms, cursor, limit).await?)
    }

    async fn lane_changes(&self, after: i64, limit: usize) -> Result<LaneChanges, JournalError> {
        Ok(lanes::changes(&self.readers, after, limit).await?)
    }

    /// Nothing: the index follows from the rows, whoever writes them.
    async fn fill_in_later(
        &self,
        _cursor: Cursor,
        _limit: usize,
    ) -> Result<(u64, Option<Cursor>), JournalError> {
        Ok((0, None))
    }

    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        writes::note(transaction.connection(), &self.instance, notes).await?;
        Ok(transaction.commit().await?)
    }

    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        rebuilding(transaction.connection(), &self.instance, rebuild).await?;
        let act = PersonAct::of_rebuild(rebuild);
        audit_log::keep(transaction.connection(), &self.instance, &act).await?;
        Ok(transaction.commit().await?)
    }

    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let pruned = pruning::prune(transaction.connection(), prune, limit).await?;
        transaction.commit().await?;
        Ok(pruned)
    }

    /// Nothing: the file has no partitions.
    async fn tend_partitions(&self, _work: &PartitionWork) -> Result<Pruned, JournalError> {
        Ok(Pruned::default())
    }

    /// Always `true`: no other instance writes to the file, so this one has all duties.
    async fn duty(&self, _name: &str, _ttl_ms: i64) -> Result<bool, JournalError> {
        Ok(true)
    }

    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(meta::recall(&mut reading, name).await?)
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        meta::remember(transaction.connection(), name, value).await?;
        Ok(transaction.commit().await?)
    }

    async fn counts(&self) -> Result<JournalCounts, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(examination::counts(&mut reading).await?)
    }

    async fn oldest_due(&self) -> Result<Option<i64>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(pending::oldest_due(&mut reading).await?)
    }

    async fn count_due_by(&self, due_ms: i64, most: usize) -> Result<u64, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(pending::count_due_by(&mut reading, due_ms, most).await?)
    }

    async fn examine(&self, limit: usize) -> Result<Examined, JournalError> {
        Ok(examination::examine(&self.readers, limit).await?)
    }

    async fn read_day(
        &self,
        selection: &DaySelection,
    ) -> Result<Box<dyn DayReading>, JournalError> {
        Ok(day::read_day(&self.readers, selection).await?)
    }

    async fn check(&self) -> Result<(), JournalError> {
        Ok(check::check(self.writer()?, &self.instance).await?)
    }

    async fn keep_holding(&self) -> Result<(), JournalError> {
        match &self.writing {
            Some(writing) => writing.files.check(),
            None => Ok(()),
        }
    }

    async fn close(&self) {
        // The readers are closed first: SQLite merges the whole log only if no connection reads from it.
        self.readers.close().await;
        let Some(Writing { writer, files }) = &self.writing else {
            return;
        };
        if let Err(error) = writer.close().await {
            // No data is lost: SQLite reads the log when the journal is opened again.
            tracing::warn!(
                %error,
                "closing the journal file failed, so SQLite's write-ahead log may not be merged into it; no data is \
                 lost, because SQLite reads the log at the next start"
            );
        }
        files.unlock();
    }
}

/// See [`crate::journal::JournalMaintenance::changes`].
pub(super) async fn changes(
    readers: &SqlitePool,
    from_ms: i64,
    until_ms: i64,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<Key>, Option<Cursor>), SqliteFailure> {
    let after = cursor.unwrap_or(Cursor {
        at_ms: from_ms,
        row: i64::MIN,
    });
    let found = sqlx::query(
        "SELECT t.at_ms, t.row_id, n.topic, n.id
         FROM transitions AS t INDEXED BY changed_by_hand
         JOIN notifications AS n ON n.row_id = t.notification
         WHERE t.kind IN ('cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled')
           AND t.at_ms >= ?1 AND (t.at_ms > ?1 OR t.row_id > ?2) AND t.at_ms < ?3
         ORDER BY t.at_ms, t.row_id LIMIT ?4",
    )
    .bind(after.at_ms)
    .bind(after.row)
    .bind(until_ms)
    .bind(limit_of(limit))
    .fetch_all(readers)
    .await?;
    Ok(Fields::changes(&found, limit)?)
}

/// Records a rebuild of the schedule.
pub(super) async fn rebuilding(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    rebuild: &Rebuild,
) -> Result<(), SqliteFailure> {
    sqlx::query("INSERT INTO rebuilds (at_ms, actor, instance, reason) VALUES (?, ?, ?, ?)")
        .bind(rebuild.at_ms)
        .bind(rebuild.actor.shared_name())
        .bind(instance.clone())
        .bind(rebuild.reason.as_str())
        .execute(connection)
        .await?;
    Ok(())
}
