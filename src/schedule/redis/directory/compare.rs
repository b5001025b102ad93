//! Comparing the directory with the entries: it forgets keys that have no entry, and writes down entries that
//! it does not know.
//!
//! It works in steps of some hundred keys and rests between them. After a step that removed keys it does not
//! rest, so that it keeps up with the registrations.

use super::{Directory, DirectoryChange, DirectoryEntry, KEPT_MS};
use crate::clock::Clock as _;
use crate::domain::key::Key;
use crate::schedule::ScheduleError;
use crate::schedule::redis::bulk::{MOST_LOOKED_UP, ScannedParts, scan};
use crate::schedule::redis::partition::Partition;
use crate::schedule::redis::slot;
use bytes::Bytes;
use futures_util::future::try_join_all;
use redis::{Cmd, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Rest between two steps, and between two comparisons.
const STEP_REST: Duration = Duration::from_millis(500);
const RUN_REST: Duration = Duration::from_secs(60);

/// The task that compares; dropping it ends the task.
pub struct Comparing {
    task: JoinHandle<()>,
}

impl Comparing {
    /// Starts to compare, for ever.
    pub fn start(directory: Arc<Directory>, partitions: Arc<[Partition]>) -> Self {
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RUN_REST).await;
                match directory.compare(&partitions, STEP_REST).await {
                    Ok(()) => {}
                    Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Rebuilding)) => {
                        tracing::debug!(
                            %error,
                            "the directory in Redis that names the partition of each key cannot be compared with the \
                             entries now; trying again in a minute"
                        );
                    }
                    Err(error) => {
                        tracing::error!(
                            %error,
                            "the directory in Redis that names the partition of each key cannot be compared with the \
                             entries; trying again in a minute"
                        );
                    }
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

impl Directory {
    /// Compares everything once, with this rest between two steps.
    ///
    /// # Errors
    /// As any call; what was repaired by then stays so.
    pub async fn compare(
        &self,
        partitions: &[Partition],
        rest: Duration,
    ) -> Result<(), ScheduleError> {
        for part in partitions {
            let mut cursor = "0".to_string();
            loop {
                let (next, removed) = self.remove_unused(partitions, part, &cursor).await?;
                if removed == 0 {
                    tokio::time::sleep(rest).await;
                }
                if next == "0" {
                    break;
                }
                cursor = next;
            }
        }
        let mut cursor = None;
        loop {
            let page = scan(
                partitions,
                ScannedParts::All,
                cursor.as_deref(),
                MOST_LOOKED_UP,
            )
            .await?;
            let held = page.holdings.into_iter().map(|(entry, _)| {
                let partition = slot(entry.lane.as_str(), partitions.len());
                (entry.key, partition)
            });
            self.add_missing(partitions, held.collect()).await?;
            tokio::time::sleep(rest).await;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Reads some keys of one partition's directory and removes those without an entry. Returns the next
    /// cursor (`0`: that was all) and how many were removed.
    async fn remove_unused(
        &self,
        partitions: &[Partition],
        part: &Partition,
        cursor: &str,
    ) -> Result<(String, usize), ScheduleError> {
        let (next, texts) = read_part(part, cursor).await?;
        let mut by_partition: BTreeMap<usize, Vec<(Key, Bytes)>> = BTreeMap::new();
        for (key, text) in texts {
            let written = DirectoryEntry::parse(&text, partitions.len());
            let old_enough = part.context.clock.now_ms() - KEPT_MS;
            if let Some(written) = written.filter(|written| written.since_ms <= old_enough) {
                let listed = by_partition.entry(written.partition).or_default();
                listed.push((key, text));
            }
        }
        let mut removed = 0;
        for (number, listed) in by_partition {
            let keys = listed.iter().map(|(key, _)| key);
            let present = partitions[number].present(keys).await?;
            let unused = listed
                .into_iter()
                .zip(present)
                .filter(|(_, present)| !present);
            let changes: Vec<DirectoryChange> = unused
                .map(|((key, expected), _)| DirectoryChange {
                    key,
                    expected,
                    partition: None,
                })
                .collect();
            removed += changes.len();
            try_join_all(changes.into_iter().map(|change| self.change(change))).await?;
        }
        Ok((next, removed))
    }

    /// Writes down where these keys are, as far as the directory does not know them.
    async fn add_missing(
        &self,
        partitions: &[Partition],
        held: Vec<(Key, usize)>,
    ) -> Result<(), ScheduleError> {
        let mut by_part: BTreeMap<usize, Vec<(Key, usize)>> = BTreeMap::new();
        for (key, partition) in held {
            let part = slot(key.as_str(), partitions.len());
            by_part.entry(part).or_default().push((key, partition));
        }
        for (part, held) in by_part {
            let part = &partitions[part];
            let mut command = Cmd::new();
            command.arg("HMGET").arg(part.context.keys.directory());
            for (key, _) in &held {
                command.arg(key.as_str());
            }
            let Value::Array(texts) = part.bulk.run(&command).await? else {
                return Err(corrupt());
            };
            let missing = held.into_iter().zip(texts);
            let missing = missing.filter(|(_, text)| *text == Value::Nil);
            let changes = missing.map(|((key, partition), _)| DirectoryChange {
                key,
                expected: Bytes::new(),
                partition: Some(partition),
            });
            try_join_all(changes.map(|change| self.change(change))).await?;
        }
        Ok(())
    }
}

/// What a scan of a hash answers.
type FieldsAndValues = Vec<(Vec<u8>, Vec<u8>)>;

/// Keys of one part of the directory with what is written there, and where to go on (`0`: that was all).
async fn read_part(
    part: &Partition,
    cursor: &str,
) -> Result<(String, Vec<(Key, Bytes)>), ScheduleError> {
    let mut command = redis::cmd("HSCAN");
    command
        .arg(part.context.keys.directory())
        .arg(cursor)
        .arg("COUNT")
        .arg(MOST_LOOKED_UP);
    let reply = part.bulk.run(&command).await?;
    let (next, pairs): (String, FieldsAndValues) =
        redis::from_redis_value(reply).map_err(|_| corrupt())?;
    let read = |(key, text): (Vec<u8>, Vec<u8>)| {
        let key = Key::parse(std::str::from_utf8(&key).ok()?).ok()?;
        Some((key, Bytes::from(text)))
    };
    Ok((next, pairs.into_iter().filter_map(read).collect()))
}

fn corrupt() -> ScheduleError {
    ScheduleError::Corrupt("the directory of keys is no hash of texts".to_string())
}
