//! Which partition has a key's lane, if there are several partitions and no journal.
//!
//! With a journal, a server reads the lane of a notification there. Without one, only the key is known,
//! and a key must not be registered twice, in two lanes. So the hash `directory`, in the partition that the
//! key's own name decides, says which partition has its entry, and since when.
//!
//! The directory is written before the entry. If the process dies in between, the directory has a key that
//! has no entry. A new registration of the key for the same partition then puts its entry in. A registration
//! for another partition takes the key over, but only when the first registration can no longer arrive
//! ([`DIRECTORY_ARRIVAL_MS`], checked by `register.lua`).
//!
//! The script that forgets an entry cannot remove its key from the directory, because the key may be in
//! another partition. So every server compares the directory with the entries, slowly and for ever
//! ([`compare`]).
//!
//! If a directory is lost, for example by a policy that evicts, the comparison writes it again. Until then, a
//! key that is registered again for another lane is taken for a new one.

pub mod compare;

use super::connection::Connection;
use super::context::Context;
use super::partition::Partition;
use super::reply::Item;
use super::script::Script;
use super::{NO_JOURNAL, Options, slot};
use crate::batch::{BatchLimits, Batcher};
use crate::clock::Clock as _;
use crate::domain::key::Key;
use crate::schedule::{FoundEntry, ScheduleError};
use bytes::Bytes;
use redis::Value;
use std::sync::Arc;
use std::time::Duration;

/// How long after it was accepted a registration may arrive in its lane's partition, in milliseconds.
pub const DIRECTORY_ARRIVAL_MS: i64 = 5_000;
/// For how long a key without an entry is reserved for the registration that wrote it, in milliseconds. Much
/// longer than [`DIRECTORY_ARRIVAL_MS`], since the clocks of several Redis servers differ.
const KEPT_MS: i64 = 30_000;
/// Maximum number of tries to enter a key, and the wait while another registration of it may be on its way.
const MAX_TRIES: usize = 10;
const TRY_AGAIN: Duration = Duration::from_millis(30);

const CHANGES: BatchLimits = BatchLimits {
    requests: 128,
    bytes: 1024 * 1024,
    queue: 4_096,
    spacing: Duration::ZERO,
};

/// Whether these options need a directory.
pub fn is_needed(options: &Options) -> bool {
    options.partitions > 1 && options.owner == NO_JOURNAL
}

/// The directory of all keys.
pub struct Directory {
    /// For each partition, the batcher that writes to its part of the directory.
    parts: Vec<Batcher<DirectoryChange, Result<DirectoryReply, ScheduleError>>>,
}

/// Writes a key's partition down, if the directory still has the text that was read.
struct DirectoryChange {
    key: Key,
    /// The text that was read; empty for none.
    expected: Bytes,
    /// The partition that has the lane; `None` to remove the key.
    partition: Option<usize>,
}

/// The result of a [`DirectoryChange`].
enum DirectoryReply {
    Done,
    /// The directory has this text instead.
    Differs(Bytes),
}

/// What the directory says of a key.
struct DirectoryEntry {
    partition: usize,
    since_ms: i64,
}

impl Directory {
    /// Prepares the directory of these partitions; connects at the first call.
    pub fn open(partitions: &[Partition]) -> Self {
        let part = |partition: &Partition| {
            let context = partition.context.clone();
            let connection = partition.directory.clone();
            let script = Arc::new(Script::with_common(include_str!("lua/directory.lua")));
            let weigh = |change: &DirectoryChange| change.key.as_str().len() + 64;
            Batcher::start(CHANGES, weigh, move |batch| {
                let (context, connection, script) =
                    (context.clone(), connection.clone(), script.clone());
                async move {
                    let many = batch.len();
                    let written = write(&context, &connection, &script, batch).await;
                    written.unwrap_or_else(|error| (0..many).map(|_| Err(error.clone())).collect())
                }
            })
        };
        Self {
            parts: partitions.iter().map(part).collect(),
        }
    }

    /// Writes down that a key is about to be registered in this partition; or returns the entry that the key
    /// has in another partition.
    ///
    /// # Errors
    /// [`ScheduleError::BeingRegistered`] while another registration of the key, for another lane, may be
    /// on its way.
    pub async fn enter(
        &self,
        partitions: &[Partition],
        key: &Key,
        partition: usize,
    ) -> Result<Option<FoundEntry>, ScheduleError> {
        let mut expected = Bytes::new();
        for _ in 0..MAX_TRIES {
            let change = DirectoryChange {
                key: key.clone(),
                expected: expected.clone(),
                partition: Some(partition),
            };
            expected = match self.change(change).await? {
                DirectoryReply::Done => return Ok(None),
                DirectoryReply::Differs(here) => here,
            };
            let written = DirectoryEntry::parse(&expected, partitions.len());
            // If the directory names this partition already, the next try writes the new time, and then
            // `register.lua` finds the entry if there is one.
            let Some(written) = written.filter(|written| written.partition != partition) else {
                continue;
            };
            let there = &partitions[written.partition];
            // A key is seldom in another partition, and the future of this call is 6 KB.
            if let Some(found) = Box::pin(there.find(key)).await? {
                return Ok(Some(found));
            }
            let may_arrive = there.context.clock.now_ms() < written.since_ms + KEPT_MS;
            if may_arrive || Box::pin(there.present([key].into_iter())).await? == [true] {
                // The stored text differs from the empty text, so the next try only reads.
                expected = Bytes::new();
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
        Err(ScheduleError::BeingRegistered)
    }

    /// Which partition has a key's entry.
    ///
    /// # Errors
    /// As any call.
    pub async fn find(
        &self,
        partitions: &[Partition],
        key: &Key,
    ) -> Result<Option<usize>, ScheduleError> {
        let partition = &partitions[slot(key.as_str(), partitions.len())];
        let command = redis::Cmd::hget(partition.context.keys.directory(), key.as_str());
        let Value::BulkString(text) = partition.reads.run(&command).await? else {
            return Ok(None);
        };
        Ok(DirectoryEntry::parse(&text, partitions.len()).map(|written| written.partition))
    }

    async fn change(&self, change: DirectoryChange) -> Result<DirectoryReply, ScheduleError> {
        let part = &self.parts[slot(change.key.as_str(), self.parts.len())];
        let written = part.call(change).await;
        written.unwrap_or_else(|lost| Err(ScheduleError::Unavailable(lost.to_string())))
    }
}

impl DirectoryEntry {
    /// Reads what `directory.lua` wrote; `None` if it is something else.
    fn parse(text: &[u8], partitions: usize) -> Option<Self> {
        let (partition, since_ms) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        let written = Self {
            partition: partition.parse().ok()?,
            since_ms: since_ms.parse().ok()?,
        };
        (written.partition < partitions).then_some(written)
    }
}

/// Runs one batch.
async fn write(
    context: &Context,
    connection: &Connection,
    script: &Script,
    batch: Vec<DirectoryChange>,
) -> Result<Vec<Result<DirectoryReply, ScheduleError>>, ScheduleError> {
    let mut command = context.call(script);
    for change in &batch {
        let partition = change.partition.map(|number| number.to_string());
        command
            .arg(change.key.as_str())
            .arg(&change.expected[..])
            .arg(partition.unwrap_or_default());
    }
    let mut reply = context.run(connection, script, &command).await?;
    let mut written = Vec::with_capacity(batch.len());
    for _ in batch {
        written.push(Ok(match reply.item()? {
            Item::Number(_) => DirectoryReply::Done,
            Item::Bytes(here) => DirectoryReply::Differs(here),
        }));
    }
    Ok(written)
}
