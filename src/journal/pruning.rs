//! Pruning: what may be forgotten, what was, and the steps of it that are the same for every database.

use super::error::JournalError;
use super::list::Cursor;
use async_trait::async_trait;

/// What may be forgotten. All instants are milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// The bodies and headers of what was delivered or cancelled before.
    pub payloads_before_ms: i64,
    /// All of what was delivered or cancelled before: the notification with its history.
    pub records_before_ms: i64,
    /// All of the dead letters parked before; `None` keeps them for ever.
    pub dead_before_ms: Option<i64>,
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Bodies with their headers.
    pub payloads: u64,
    /// Whole notifications, dead letters included.
    pub records: u64,
    /// Whether there may be more to forget: not all that is old enough was looked at.
    pub more: bool,
}

/// What each database does for a step of pruning, within one transaction.
#[async_trait]
pub(super) trait PruningStore: Send {
    /// Why a statement failed.
    type Error: From<JournalError>;

    /// What is kept under a name.
    async fn recall(&mut self, name: &str) -> Result<Option<String>, Self::Error>;

    /// Keeps a value under a name.
    async fn remember(&mut self, name: &str, value: &str) -> Result<(), Self::Error>;

    /// The next notifications that ended before an instant, in the order of their ends, after a cursor.
    async fn ended(
        &mut self,
        after: Cursor,
        before_ms: i64,
        limit: usize,
    ) -> Result<Vec<EndedRow>, Self::Error>;

    /// The row numbers of dead letters that were parked before an instant. None of them is replayed
    /// before the transaction ends.
    async fn dead(&mut self, before_ms: i64, limit: usize) -> Result<Vec<i64>, Self::Error>;

    /// Deletes the bodies and headers of these notifications. Gives how many it deleted.
    async fn delete_payloads(&mut self, rows: &[i64]) -> Result<u64, Self::Error>;

    /// Deletes these notifications with all that belongs to them. Gives how many it deleted.
    async fn delete_records(&mut self, rows: &[i64]) -> Result<u64, Self::Error>;
}

/// A notification that has ended.
pub(super) struct EndedRow {
    pub(super) ended_ms: i64,
    pub(super) row: i64,
    pub(super) is_dead: bool,
}

impl From<(i64, i64, bool)> for EndedRow {
    fn from((ended_ms, row, is_dead): (i64, i64, bool)) -> Self {
        Self {
            ended_ms,
            row,
            is_dead,
        }
    }
}

/// Forgets at most `limit` bodies and `limit` whole notifications, oldest first.
pub(super) async fn prune<S: PruningStore + ?Sized>(
    store: &mut S,
    prune: &Prune,
    limit: usize,
) -> Result<Pruned, S::Error> {
    let before_ms = prune.payloads_before_ms;
    let (payloads, more_payloads) = ended(store, "payloads_pruned", before_ms, limit).await?;
    let payloads = store.delete_payloads(&payloads).await?;
    let before_ms = prune.records_before_ms;
    let (mut records, more_records) = ended(store, "records_pruned", before_ms, limit).await?;
    if let Some(before_ms) = prune.dead_before_ms {
        let left = limit.saturating_sub(records.len());
        records.append(&mut store.dead(before_ms, left).await?);
    }
    let more = more_payloads || more_records || records.len() >= limit;
    // All calls that lock several rows lock them in the order of their numbers.
    records.sort_unstable();
    let records = store.delete_records(&records).await?;
    Ok(Pruned {
        payloads,
        records,
        more,
    })
}

/// The next of those that were delivered or cancelled before an instant, and whether there may be more
/// of them. Continues after the position that is stored under `name`: what ends later sorts behind it, so
/// nothing is read twice. So does a dead letter that is discarded later, since that sets its end again.
async fn ended<S: PruningStore + ?Sized>(
    store: &mut S,
    name: &str,
    before_ms: i64,
    limit: usize,
) -> Result<(Vec<i64>, bool), S::Error> {
    let after = match store.recall(name).await? {
        None => Cursor {
            at_ms: i64::MIN,
            row: i64::MIN,
        },
        Some(text) => read_cursor(&text)
            .ok_or_else(|| JournalError::Corrupt(format!("`{text}` is no position")))?,
    };
    let found = store.ended(after, before_ms, limit).await?;
    if let Some(EndedRow { ended_ms, row, .. }) = found.last() {
        store.remember(name, &format!("{ended_ms}/{row}")).await?;
    }
    let more = found.len() >= limit;
    let rows = found.into_iter().filter(|ended| !ended.is_dead);
    Ok((rows.map(|ended| ended.row).collect(), more))
}

fn read_cursor(text: &str) -> Option<Cursor> {
    let (at_ms, row) = text.split_once('/')?;
    Some(Cursor {
        at_ms: at_ms.parse().ok()?,
        row: row.parse().ok()?,
    })
}
