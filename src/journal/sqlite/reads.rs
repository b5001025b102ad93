//! Look-ups of notifications by their keys. Lists are in a file of their own.

use super::SqliteJournal;
use super::error::SqliteFailure;
use super::later;
use super::list;
use super::load;
use super::pending;
use crate::domain::attempt::Attempt;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::later::{LaneAfter, LaterCount};
use crate::domain::snapshot::Snapshot;
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{
    BodyReading, Cursor, Filter, FoundStanding, JournalError, JournalReads, MOST_ATTEMPTS_SHOWN,
    MOST_TRANSITIONS_SHOWN, Order, PageBodies, Payload, Pending, SnapshotPage, Transition, history,
};
use async_trait::async_trait;
use bytes::Bytes;
use sqlx::SqlitePool;

#[async_trait]
impl JournalReads for SqliteJournal {
    fn id(&self) -> &str {
        &self.id
    }

    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        Ok(find(&self.readers, key).await?)
    }

    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        Ok(snapshots(&self.readers, keys).await?)
    }

    async fn standings(&self, keys: &[Key]) -> Result<Vec<FoundStanding>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(load::standings(&mut reading, keys).await?)
    }

    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError> {
        Ok(transitions(&self.readers, key).await?)
    }

    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError> {
        Ok(pending::pending(&self.readers, key).await?)
    }

    async fn pendings(&self, keys: &[Key]) -> Result<Vec<Option<Pending>>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(load::pendings(&mut reading, keys, PageBodies::None).await?)
    }

    async fn pendings_with_bodies(
        &self,
        keys: &[Key],
    ) -> Result<Vec<Option<Pending>>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(load::pendings(&mut reading, keys, PageBodies::All).await?)
    }

    async fn payload(&self, key: &Key, body: BodyReading) -> Result<Option<Payload>, JournalError> {
        Ok(pending::payload(&self.readers, key, body).await?)
    }

    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(load::bodies(&mut reading, keys).await?)
    }

    async fn last_attempts(&self, keys: &[Key]) -> Result<Vec<Option<Attempt>>, JournalError> {
        let mut reading = self.readers.acquire().await.map_err(SqliteFailure::from)?;
        Ok(load::last_attempts(&mut reading, keys).await?)
    }

    async fn later_lanes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Lane>, JournalError> {
        Ok(later::lanes(&self.readers, after, limit).await?)
    }

    async fn count_later(
        &self,
        lanes: &[LaneAfter],
        most: usize,
    ) -> Result<Vec<LaterCount>, JournalError> {
        Ok(later::count(&self.readers, lanes, most).await?)
    }

    async fn list_scanned(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
        most_scanned: usize,
    ) -> Result<SnapshotPage, JournalError> {
        Ok(list::list(&self.readers, filter, order, cursor, limit, most_scanned).await?)
    }
}

/// One notification with its attempts, all as of the same instant.
pub(super) async fn find(
    readers: &SqlitePool,
    key: &Key,
) -> Result<Option<Snapshot>, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let mut known = load::load(&mut reading, &[key]).await?;
    let Some(stored) = known.remove(key) else {
        return Ok(None);
    };
    let attempts = sqlx::query(
        "SELECT series, number, due_ms, started_ms, duration_ms, outcome, status, answer, reason,
            trace
         FROM (SELECT * FROM attempts WHERE notification = ? ORDER BY row_id DESC LIMIT ?)
         ORDER BY row_id",
    )
    .bind(stored.row_id)
    .bind(limit_of(MOST_ATTEMPTS_SHOWN))
    .fetch_all(&mut *reading)
    .await?;
    Ok(Some(Snapshot {
        attempts: attempts
            .iter()
            .map(|row| Fields::of(row).attempt())
            .collect::<Result<_, _>>()?,
        ..stored.snapshot
    }))
}

/// The notifications of these keys, in the order of the keys.
pub(super) async fn snapshots(
    readers: &SqlitePool,
    keys: &[Key],
) -> Result<Vec<Option<Snapshot>>, SqliteFailure> {
    let mut reading = readers.acquire().await?;
    let wanted: Vec<&Key> = keys.iter().collect();
    let known = load::load(&mut reading, &wanted).await?;
    let stands = |key| known.get(key).map(|stored| stored.snapshot.clone());
    Ok(keys.iter().map(stands).collect())
}

pub(super) async fn transitions(
    readers: &SqlitePool,
    key: &Key,
) -> Result<Vec<Transition>, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let own = sqlx::query(
        "SELECT kind, at_ms, actor, instance, detail
         FROM (SELECT * FROM transitions
               WHERE notification = (SELECT row_id FROM notifications WHERE topic = ? AND id = ?)
               ORDER BY row_id DESC LIMIT ?)
         ORDER BY row_id",
    )
    .bind(key.topic())
    .bind(key.id())
    .bind(limit_of(MOST_TRANSITIONS_SHOWN))
    .fetch_all(&mut *reading)
    .await?;
    let own = Fields::transitions(&own)?;
    let Some(first) = own.first() else {
        return Ok(own);
    };
    let rebuilds = sqlx::query(
        "SELECT 'restored', at_ms, actor, instance, reason
         FROM (SELECT * FROM rebuilds WHERE at_ms >= ? ORDER BY at_ms DESC, row_id DESC LIMIT ?)
         ORDER BY at_ms, row_id",
    )
    .bind(first.at_ms)
    .bind(limit_of(MOST_TRANSITIONS_SHOWN))
    .fetch_all(&mut *reading)
    .await?;
    let rebuilds = Fields::transitions(&rebuilds)?;
    Ok(history::with_rebuilds(own, rebuilds))
}
