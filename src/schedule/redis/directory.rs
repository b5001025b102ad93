//! Which partition has a key's lane, if there are several partitions and no journal.
//!
//! With a journal, a server reads the lane of a notification there. Without one, only the key is known,
//! and a key must not be registered twice, in two lanes. So the hash `directory`, in the partition that the
//! key's own name decides, says which partition has its entry, and since when.
//!
//! It is written before the entry. Dying in between leaves a key in it that has no entry. A new
//! registration of the key for the same partition then continues. One for another partition takes the key
//! over, but only when the first registration can no longer arrive ([`ARRIVAL_MS`], checked by
//! `register.lua`).
//!
//! Entries are forgotten in their own partition, whose scripts cannot change another one. So every server
//! compares the directory with the entries, slowly and for ever: it removes keys that have no entry, and
//! writes down entries that are not in the directory.

use super::bulk::{MOST_LOOKED_UP, scan};
use super::connection::{COMMAND_TIMEOUT, Connection, Connector};
use super::context::Context;
use super::partition::Partition;
use super::reply::Item;
use super::script::Script;
use super::{NO_JOURNAL, Options, slot};
use crate::batch::{BatchLimits, Batcher};
use crate::clock::Clock as _;
use crate::domain::key::Key;
use crate::schedule::{FoundEntry, ScheduleError};
use futures_util::future::try_join_all;
use redis::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long after it was accepted a registration may arrive in its lane's partition, in milliseconds.
pub const ARRIVAL_MS: i64 = 5_000;
/// For how long a key without an entry is reserved for the registration that wrote it, in milliseconds. Much
/// longer than [`ARRIVAL_MS`], since the clocks of several Redis servers differ.
const KEPT_MS: i64 = 30_000;
/// Maximum number of tries if another registration or a comparison changes the key meanwhile.
const MOST_TRIES: usize = 5;
/// Rest between two steps of the comparison, and between two comparisons.
const STEP_REST: Duration = Duration::from_millis(500);
const RUN_REST: Duration = Duration::from_secs(60);

const CHANGES: BatchLimits = BatchLimits {
    requests: 128,
    bytes: 1024 * 1024,
    queue: 4_096,
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

/// The task that compares the directory with the entries; dropping it ends the task.
pub struct Comparing {
    task: JoinHandle<()>,
}

/// Writes a key's partition down, if the directory still has the text that was read.
struct DirectoryChange {
    key: Key,
    /// The text that was read; empty for none.
    expected: String,
    /// The partition that has the lane; `None` to remove the key.
    partition: Option<usize>,
}

/// The result of a [`DirectoryChange`].
enum DirectoryReply {
    Done,
    /// The directory has this text instead.
    Differs(String),
}

/// What the directory says of a key.
struct DirectoryEntry {
    partition: usize,
    since_ms: i64,
}

impl Directory {
    /// Prepares the directory of these partitions; connects at the first call.
    pub fn open(connector: &Connector, partitions: &[Partition]) -> Self {
        let part = |partition: &Partition| {
            let context = partition.context.clone();
            let connection = connector.connect(COMMAND_TIMEOUT);
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

    /// Writes down that a key is about to be registered in this partition; or returns the entry that is
    /// registered already.
    ///
    /// # Errors
    /// [`ScheduleError::Unavailable`] also while another registration of the key, for another lane, may be
    /// on its way.
    pub async fn enter(
        &self,
        partitions: &[Partition],
        key: &Key,
        partition: usize,
    ) -> Result<Option<FoundEntry>, ScheduleError> {
        let mut expected = String::new();
        for _ in 0..MOST_TRIES {
            let change = DirectoryChange {
                key: key.clone(),
                expected,
                partition: Some(partition),
            };
            let here = match self.change(change).await? {
                DirectoryReply::Done => return Ok(None),
                DirectoryReply::Differs(here) => here,
            };
            if let Some(place) = DirectoryEntry::parse(&here, partitions.len()) {
                let there = &partitions[place.partition];
                if let Some(found) = there.find(key).await? {
                    return Ok(Some(found));
                }
                let now_ms = there.context.clock.now_ms();
                if place.partition != partition && now_ms < place.since_ms + KEPT_MS {
                    break;
                }
            }
            expected = here;
        }
        Err(ScheduleError::Unavailable(
            "the same key was registered a moment ago for another destination, and that registration may \
             still arrive"
                .to_string(),
        ))
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
        let text = match partition.reads.run(&command).await? {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => return Ok(None),
        };
        Ok(DirectoryEntry::parse(&text, partitions.len()).map(|place| place.partition))
    }

    async fn change(&self, change: DirectoryChange) -> Result<DirectoryReply, ScheduleError> {
        let part = &self.parts[slot(change.key.as_str(), self.parts.len())];
        let written = part.call(change).await;
        written.unwrap_or_else(|lost| Err(ScheduleError::Unavailable(lost.to_string())))
    }

    /// Compares everything once, with this rest between two steps.
    ///
    /// # Errors
    /// As any call; what was repaired by then stays repaired.
    pub async fn compare(
        &self,
        partitions: &[Partition],
        rest: Duration,
    ) -> Result<(), ScheduleError> {
        let mut cursor = None;
        loop {
            let page = scan(partitions, cursor.as_deref(), MOST_LOOKED_UP).await?;
            let changes = page.holdings.into_iter().map(|(entry, _)| {
                self.change(DirectoryChange {
                    expected: String::new(),
                    partition: Some(slot(entry.lane.as_str(), partitions.len())),
                    key: entry.key,
                })
            });
            try_join_all(changes).await?;
            tokio::time::sleep(rest).await;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        for partition in partitions {
            let mut cursor = "0".to_string();
            loop {
                cursor = self.remove_unused(partitions, partition, &cursor).await?;
                tokio::time::sleep(rest).await;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads a section of one part and removes its keys without an entry; returns the next cursor.
    async fn remove_unused(
        &self,
        partitions: &[Partition],
        part: &Partition,
        cursor: &str,
    ) -> Result<String, ScheduleError> {
        let (next, section) = section(part, cursor).await?;
        let mut by_partition: BTreeMap<usize, Vec<(Key, String)>> = BTreeMap::new();
        for (key, text) in section {
            let Some(place) = DirectoryEntry::parse(&text, partitions.len()) else {
                continue;
            };
            if part.context.clock.now_ms() >= place.since_ms + KEPT_MS {
                by_partition
                    .entry(place.partition)
                    .or_default()
                    .push((key, text));
            }
        }
        for (number, listed) in by_partition {
            let present = partitions[number]
                .present(listed.iter().map(|(key, _)| key))
                .await?;
            for ((key, expected), present) in listed.into_iter().zip(present) {
                if !present {
                    let change = DirectoryChange {
                        key,
                        expected,
                        partition: None,
                    };
                    self.change(change).await?;
                }
            }
        }
        Ok(next)
    }
}

impl Comparing {
    /// Starts to compare the directory with the entries, slowly and for ever.
    pub fn start(directory: Arc<Directory>, partitions: Arc<[Partition]>) -> Self {
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RUN_REST).await;
                if let Err(error) = directory.compare(&partitions, STEP_REST).await {
                    tracing::debug!(%error, "the directory cannot be compared with the entries");
                }
            }
        });
        Self { task }
    }
}

impl Drop for Comparing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl DirectoryEntry {
    /// Reads what `directory.lua` wrote; `None` if it is something else.
    fn parse(text: &str, partitions: usize) -> Option<Self> {
        let (partition, since_ms) = text.split_once(' ')?;
        let place = Self {
            partition: partition.parse().ok()?,
            since_ms: since_ms.parse().ok()?,
        };
        (place.partition < partitions).then_some(place)
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
            .arg(&change.expected)
            .arg(partition.unwrap_or_default());
    }
    let mut reply = context.run(connection, script, &command).await?;
    let mut written = Vec::with_capacity(batch.len());
    for _ in batch {
        written.push(Ok(match reply.item()? {
            Item::Number(_) => DirectoryReply::Done,
            Item::Bytes(here) => {
                DirectoryReply::Differs(String::from_utf8_lossy(&here).into_owned())
            }
        }));
    }
    Ok(written)
}

/// Reads a section of one part of the directory: the next cursor (`0`: that was all), and keys with texts.
async fn section(
    part: &Partition,
    cursor: &str,
) -> Result<(String, Vec<(Key, String)>), ScheduleError> {
    let corrupt = || ScheduleError::Corrupt("the directory is not a hash of texts".to_string());
    let mut command = redis::cmd("HSCAN");
    command
        .arg(part.context.keys.directory())
        .arg(cursor)
        .arg("COUNT")
        .arg(MOST_LOOKED_UP);
    let reply = part.bulk.run(&command).await?;
    let (next, pairs): (String, Vec<(String, String)>) =
        redis::from_redis_value(reply).map_err(|_| corrupt())?;
    let read = |(key, text): (String, String)| Key::parse(&key).ok().map(|key| (key, text));
    Ok((next, pairs.into_iter().filter_map(read).collect()))
}
