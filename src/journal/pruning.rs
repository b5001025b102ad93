//! Pruning deletes old data. This file contains the limits, the result, and the steps that are the same for
//! every database.

use super::error::JournalError;
use super::list::Cursor;
use async_trait::async_trait;
use std::collections::HashSet;

/// The names under which the position of pruning is stored, for bodies and for whole notifications, and the instant before
/// which dead letters were deleted.
pub(super) const PAYLOADS_PRUNED: &str = "payloads_pruned";
pub(super) const RECORDS_PRUNED: &str = "records_pruned";
pub(super) const DEAD_PRUNED: &str = "dead_pruned";
/// Maximum number of higher numbers that [`PruningStore::passed_above`] looks at for each notification.
pub(super) const HIGHER_NUMBERS: i64 = 16;
/// How often it is asked for what is above what it found before.
const MOST_ROUNDS: usize = 16;

/// Which data may be deleted. All instants are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// Bodies and headers of notifications that were delivered or cancelled before this instant.
    pub payloads_before_ms: i64,
    /// Notifications that were delivered or cancelled before this instant, with their history, jobs that ended
    /// before it, and what people did before it.
    pub records_before_ms: i64,
    /// Notifications that became dead letters before this instant, with their history. `None` keeps dead
    /// letters for ever.
    pub dead_before_ms: Option<i64>,
}

/// What was deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of bodies with their headers.
    pub payloads: u64,
    /// Number of whole notifications, dead letters included.
    pub records: u64,
    /// Whether there may be more to delete, because the limit of a step was reached.
    pub more: bool,
}

/// Tables that are partitioned alike, in databases that have partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionedTables {
    /// `payloads`.
    Bodies,
    /// `attempts` and `transitions`. `notifications` is not partitioned, since the key of a notification is unique over all time;
    /// nor is `statuses`, of which each row is deleted with that one.
    History,
}

impl PartitionedTables {
    /// What is in the tables, in messages.
    #[must_use]
    pub const fn content(self) -> &'static str {
        match self {
            Self::Bodies => "bodies",
            Self::History => "attempts and transitions",
        }
    }
}

/// What is done about partitions, in databases that have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionWork {
    /// Of which tables.
    pub tables: PartitionedTables,
    /// The time, in milliseconds since 1970. What is registered has instants of the same clock.
    pub now_ms: i64,
    /// For how long their content is kept after a notification was delivered or cancelled, in milliseconds; `None`: for ever.
    pub kept_ms: Option<i64>,
}

/// What a deletion of whole notifications may leave in partitions that are dropped when they are old.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftToPartitions {
    /// Their bodies.
    pub(super) bodies: bool,
    /// Their attempts and transitions.
    pub(super) history: bool,
}

impl LeftToPartitions {
    /// Of what was delivered or cancelled. Nothing stays longer than the partition of its time, which must not be meant to stay
    /// for longer than the notification; and there must be a limit, or it is never dropped.
    const fn of(prune: &Prune) -> Self {
        let has_limit = prune.records_before_ms > i64::MIN;
        Self {
            bodies: has_limit && prune.payloads_before_ms >= prune.records_before_ms,
            history: has_limit,
        }
    }

    /// Of dead letters, which have a limit of their own.
    const NOTHING: Self = Self {
        bodies: false,
        history: false,
    };
}

/// The database calls of one step of pruning. Each database implements them. A step is one transaction.
#[async_trait]
pub(super) trait PruningStore: Send {
    /// The error of a statement that failed.
    type Error: From<JournalError>;

    /// The value that is stored under a name. No other step reads or changes it before the transaction ends.
    async fn recall(&mut self, name: &str) -> Result<Option<String>, Self::Error>;

    /// Stores a value under a name.
    async fn remember(&mut self, name: &str, value: &str) -> Result<(), Self::Error>;

    /// The next notifications that ended before `before_ms`, in the order of their ends: at most `limit`,
    /// after the cursor.
    async fn ended(
        &mut self,
        after: Cursor,
        before_ms: i64,
        limit: usize,
    ) -> Result<Vec<EndedRow>, Self::Error>;

    /// How many notifications a step passes at most of which it deletes at most `limit` bodies.
    fn passed_at_once(&self, limit: usize) -> usize;

    /// Of these notifications, those whose bodies must be deleted one by one: the others have none, or one that is dropped with
    /// its partition. The order stays.
    async fn deleted_singly(&mut self, found: &[EndedRow]) -> Result<Vec<EndedRow>, Self::Error>;

    /// Of these notifications, those that still have the same end. They keep it until the transaction ends.
    /// Without this, a delivered notification that is sent again meanwhile would lose its body, or be deleted.
    /// Locks are taken in the order of the row numbers.
    async fn still_ended(&mut self, found: &[EndedRow]) -> Result<HashSet<i64>, Self::Error>;

    /// The row numbers of notifications that became dead letters before `before_ms`. None of them can be
    /// replayed before the transaction ends.
    async fn dead(&mut self, before_ms: i64, limit: usize) -> Result<Vec<i64>, Self::Error>;

    /// Of these notifications, those with the highest number of an order in which only the latest counts, while a dead
    /// letter with a lower number is not among these. If such a one were forgotten, the dead letter could be replayed.
    async fn still_latest(&mut self, rows: &[i64]) -> Result<HashSet<i64>, Self::Error>;

    /// Of the orders of these notifications in which only the latest counts: what ended before `passed`, is not among these and no
    /// dead letter, and has one of the next [`HIGHER_NUMBERS`] numbers above one of them. It keeps its end until the transaction
    /// ends. What another session changes at this moment is left out.
    async fn passed_above(&mut self, rows: &[i64], passed: Cursor)
    -> Result<Vec<i64>, Self::Error>;

    /// Deletes the bodies and headers of these notifications. Returns the number of deleted rows.
    async fn delete_payloads(&mut self, rows: &[i64]) -> Result<u64, Self::Error>;

    /// Deletes jobs that ended before `before_ms`, at most `limit`, and a limited number of rows of their lists first.
    /// Returns the number of those rows.
    async fn delete_jobs(&mut self, before_ms: i64, limit: usize) -> Result<u64, Self::Error>;

    /// Deletes entries of the audit log that are older than `before_ms`, at most `limit`. Returns their number.
    async fn delete_acts(&mut self, before_ms: i64, limit: usize) -> Result<u64, Self::Error>;

    /// Deletes these notifications with their history and bodies, except what is left to partitions. Returns the number of
    /// notifications.
    async fn delete_records(
        &mut self,
        rows: &[i64],
        left: LeftToPartitions,
    ) -> Result<u64, Self::Error>;
}

/// A notification that has ended.
#[derive(Clone, Copy)]
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

/// Deletes old data, oldest first: at most `limit` bodies and `limit` whole notifications, and what was kept because of these.
pub(super) async fn prune<S: PruningStore + ?Sized>(
    store: &mut S,
    prune: &Prune,
    limit: usize,
) -> Result<Pruned, S::Error> {
    let (payloads, more_payloads) = bodies(store, prune.payloads_before_ms, limit).await?;
    let (records, more_records) = records(store, prune.records_before_ms, limit).await?;
    let both: Vec<EndedRow> = payloads.iter().chain(&records).copied().collect();
    let still = store.still_ended(&both).await?;
    let rows = |found: Vec<EndedRow>| {
        let rows = found.into_iter().map(|ended| ended.row);
        rows.filter(|row| still.contains(row)).collect()
    };
    let (payloads, mut records): (Vec<i64>, Vec<i64>) = (rows(payloads), rows(records));
    let payloads = store.delete_payloads(&payloads).await?;
    let of_jobs = store.delete_jobs(prune.records_before_ms, limit).await?;
    let acts = store.delete_acts(prune.records_before_ms, limit).await?;
    let more_acts = usize::try_from(acts).is_ok_and(|acts| acts >= limit);
    let mut dead = Vec::new();
    if let Some(before_ms) = prune.dead_before_ms {
        let left = limit.saturating_sub(records.len());
        dead = store.dead(before_ms, left).await?;
        if !dead.is_empty() {
            note_dead_pruned(store, before_ms).await?;
        }
    }
    let latest = store.still_latest(&[&records[..], &dead].concat()).await?;
    // All calls that lock several rows use the order of the row numbers, so that there are no deadlocks. Here they are locked already.
    for rows in [&mut records, &mut dead] {
        rows.retain(|row| !latest.contains(row));
    }
    let kept = kept_as_latest(store, prune, &[&records[..], &dead].concat()).await?;
    records.extend(kept);
    for rows in [&mut records, &mut dead] {
        rows.sort_unstable();
    }
    let many = records.len() + dead.len();
    let more = more_payloads || more_records || more_acts || of_jobs > 0 || many >= limit;
    let left = LeftToPartitions::of(prune);
    let records = store.delete_records(&records, left).await?
        + store
            .delete_records(&dead, LeftToPartitions::NOTHING)
            .await?;
    Ok(Pruned {
        payloads,
        records,
        more,
    })
}

/// What [`PruningStore::still_latest`] has kept until now for dead letters of which the last ones are among these notifications, which
/// are to be deleted. Only this looks at what pruning has passed. A limit that was made longer meanwhile keeps it.
async fn kept_as_latest<S: PruningStore + ?Sized>(
    store: &mut S,
    prune: &Prune,
    rows: &[i64],
) -> Result<Vec<i64>, S::Error> {
    let passed = position(store, RECORDS_PRUNED).await?;
    let limit = Cursor {
        at_ms: prune.records_before_ms,
        row: i64::MIN,
    };
    let passed = match (passed.at_ms, passed.row) < (limit.at_ms, limit.row) {
        true => passed,
        false => limit,
    };
    let (mut going, mut kept) = (rows.to_vec(), Vec::new());
    for _ in 0..MOST_ROUNDS {
        let mut found = store.passed_above(&going, passed).await?;
        if found.is_empty() {
            break;
        }
        let latest = store.still_latest(&[&going[..], &found].concat()).await?;
        found.retain(|row| !latest.contains(row));
        if found.is_empty() {
            break;
        }
        going.extend(&found);
        kept.extend(found);
    }
    Ok(kept)
}

/// The next notifications that were delivered or cancelled before `before_ms` and whose bodies are to be deleted, at most
/// `limit`; and whether there may be more of them.
async fn bodies<S: PruningStore + ?Sized>(
    store: &mut S,
    before_ms: i64,
    limit: usize,
) -> Result<(Vec<EndedRow>, bool), S::Error> {
    let after = position(store, PAYLOADS_PRUNED).await?;
    let at_once = store.passed_at_once(limit);
    let mut found = store.ended(after, before_ms, limit).await?;
    let mut singly = store.deleted_singly(&found).await?;
    singly.retain(|ended| !ended.is_dead);
    // Where most are dropped with their partition, more of them are passed.
    if singly.len() <= limit / 2
        && found.len() >= limit
        && let Some(last) = found.last().copied()
    {
        let after = Cursor {
            at_ms: last.ended_ms,
            row: last.row,
        };
        let further = store
            .ended(after, before_ms, at_once.saturating_sub(limit))
            .await?;
        singly.extend(
            (store.deleted_singly(&further).await?.into_iter()).filter(|ended| !ended.is_dead),
        );
        found.extend(further);
    }
    // What comes after the last one that this step deletes is passed by the next step.
    let last = match singly.get(limit.wrapping_sub(1)) {
        Some(last) if singly.len() > limit => Some(last),
        _ => found.last(),
    };
    pass(store, PAYLOADS_PRUNED, last).await?;
    let more = singly.len() > limit || found.len() >= limit;
    Ok((singly.into_iter().take(limit).collect(), more))
}

/// The next notifications that were delivered or cancelled before `before_ms`, and whether there may be more of them.
async fn records<S: PruningStore + ?Sized>(
    store: &mut S,
    before_ms: i64,
    limit: usize,
) -> Result<(Vec<EndedRow>, bool), S::Error> {
    let after = position(store, RECORDS_PRUNED).await?;
    let found = store.ended(after, before_ms, limit).await?;
    pass(store, RECORDS_PRUNED, found.last()).await?;
    let more = found.len() >= limit;
    let found = found.into_iter().filter(|ended| !ended.is_dead);
    Ok((found.collect(), more))
}

/// The position that is stored under `name`. Each step continues after it, so no row is read twice. A notification that ends
/// later comes after that position, so none is missed. This is also true for a dead letter that is discarded later, and for
/// a delivered notification that is sent again: each ends anew. An outcome that could not be written for hours has the
/// instant at which it is written ([`super::Recording::at_ms`]).
async fn position<S: PruningStore + ?Sized>(store: &mut S, name: &str) -> Result<Cursor, S::Error> {
    let Some(text) = store.recall(name).await? else {
        return Ok(Cursor {
            at_ms: i64::MIN,
            row: i64::MIN,
        });
    };
    Ok(read_position(&text)?)
}

/// Stores the position after `last`.
async fn pass<S: PruningStore + ?Sized>(
    store: &mut S,
    name: &str,
    last: Option<&EndedRow>,
) -> Result<(), S::Error> {
    let Some(EndedRow { ended_ms, row, .. }) = last else {
        return Ok(());
    };
    store.remember(name, &format!("{ended_ms}/{row}")).await
}

/// Stores that dead letters from before `before_ms` are deleted, so that whoever reads that time knows that it is not whole.
/// A setting may have been higher before, so the instant never goes back.
async fn note_dead_pruned<S: PruningStore + ?Sized>(
    store: &mut S,
    before_ms: i64,
) -> Result<(), S::Error> {
    let noted = store.recall(DEAD_PRUNED).await?;
    let noted_ms = noted.and_then(|text| text.parse::<i64>().ok());
    if noted_ms.is_none_or(|noted_ms| noted_ms < before_ms) {
        store.remember(DEAD_PRUNED, &before_ms.to_string()).await?;
    }
    Ok(())
}

/// Reads the position of pruning.
pub(super) fn read_position(text: &str) -> Result<Cursor, JournalError> {
    let read = || {
        let (at_ms, row) = text.split_once('/')?;
        Some(Cursor {
            at_ms: at_ms.parse().ok()?,
            row: row.parse().ok()?,
        })
    };
    read().ok_or_else(|| {
        JournalError::Corrupt(format!("`{text}` is not a valid position of pruning"))
    })
}
