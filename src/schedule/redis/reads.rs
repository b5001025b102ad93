//! The calls that only read. A call about certain entries goes to the partitions of their lanes.

use super::bulk::holding;
use super::by_partition;
use super::partition::Partition;
use super::reply::Item;
use super::{RedisSchedule, dead, lane_counts, lane_pages, pending_count};
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::schedule::lane_status::{LanePage, LaneSelection, LaneStatus};
use crate::schedule::{
    DeadPage, FoundEntry, Holding, LaneCounts, ScheduleCounts, ScheduleError, ScheduleReads,
};
use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use redis::Value;

/// Maximum number of partitions that are checked at a time.
const AT_ONCE: usize = 16;
/// Maximum number of entries that one script compares. It takes about a millisecond, for which attempts that are due wait.
const MOST_COMPARED: usize = 100;

#[async_trait]
impl ScheduleReads for RedisSchedule {
    async fn find(&self, key: &Key) -> Result<Option<FoundEntry>, ScheduleError> {
        if let Some(directory) = &self.directory
            && let Ok(Some(number)) = directory.find(&self.partitions, key).await
            && let Some(found) = self.partitions[number].find(key).await?
        {
            return Ok(Some(found));
        }
        // The directory may have lost the key, or be set back to an older copy, or be out of reach.
        let finding: Vec<_> = self
            .partitions
            .iter()
            .map(|partition| partition.find(key))
            .collect();
        let mut finding = stream::iter(finding).buffered(AT_ONCE);
        let mut failure = None;
        while let Some(found) = finding.next().await {
            match found {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) if self.away.is_some() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    async fn holds(&self, entries: &[KeyInLane]) -> Result<Vec<Option<Holding>>, ScheduleError> {
        let mut found = vec![None; entries.len()];
        let lanes = entries.iter().map(|entry| &entry.lane);
        let places = by_partition(lanes, self.partitions.len());
        for (partition, places) in self.partitions.iter().zip(places) {
            for places in places.chunks(MOST_COMPARED) {
                let context = &partition.context;
                let mut command = context.call(&partition.holds);
                for place in places {
                    let KeyInLane { key, lane } = &entries[*place];
                    command.arg(key.as_str()).arg(lane.as_str());
                }
                // A single one is asked for by a caller, who does not wait behind bulk work.
                let connection = match entries.len() {
                    1 => &partition.reads,
                    _ => &partition.bulk,
                };
                let mut reply = context.read(connection, &partition.holds, &command).await?;
                for place in places {
                    if let Item::Bytes(header) = reply.item()? {
                        let key = entries[*place].key.as_str();
                        found[*place] = holding(key, &header, &mut reply)?;
                    }
                }
            }
        }
        Ok(found)
    }

    async fn in_flight(&self, entries: &[KeyInLane]) -> Result<Vec<bool>, ScheduleError> {
        let mut flags = vec![false; entries.len()];
        let lanes = entries.iter().map(|entry| &entry.lane);
        let places = by_partition(lanes, self.partitions.len());
        for (partition, places) in self.partitions.iter().zip(places) {
            if places.is_empty() {
                continue;
            }
            let keys = places.iter().map(|place| entries[*place].key.as_str());
            let keys: Vec<&str> = keys.collect();
            for (place, flag) in places.iter().zip(partition.in_flight(&keys).await?) {
                flags[*place] = flag;
            }
        }
        Ok(flags)
    }

    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError> {
        dead::page(&self.partitions, cursor, limit).await
    }

    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError> {
        let parts: Vec<_> = self.partitions.iter().map(counts_of).collect();
        let mut parts = stream::iter(parts).buffered(AT_ONCE);
        let mut counts = ScheduleCounts::default();
        while let Some(part) = parts.next().await {
            let part = part?;
            counts.pending += part.pending;
            counts.in_flight += part.in_flight;
            counts.dead += part.dead;
        }
        Ok(counts)
    }

    async fn lane_counts(&self) -> Result<LaneCounts, ScheduleError> {
        lane_counts::of(&self.partitions).await
    }

    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError> {
        let partition = self.partition(lane);
        let leased = partition.context.keys.leased(lane);
        let size = redis::cmd("ZCARD").arg(&leased).take();
        match partition.reads.run(&size).await? {
            Value::Int(many) => Ok(usize::try_from(many).unwrap_or(0)),
            _ => Err(ScheduleError::Corrupt(format!("{leased} has another type"))),
        }
    }

    async fn lane(&self, lane: &Lane) -> Result<LaneStatus, ScheduleError> {
        lane_pages::one(self, lane).await
    }

    async fn lanes(
        &self,
        selection: LaneSelection,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<LanePage, ScheduleError> {
        lane_pages::page(self, selection, cursor, limit).await
    }

    async fn check(&self) -> Result<(), ScheduleError> {
        if self.away.is_none() {
            for partition in self.partitions.iter() {
                partition.check().await?;
            }
            return Ok(());
        }
        // A cluster works if any of its partitions does.
        let checks: Vec<_> = self.partitions.iter().map(Partition::check).collect();
        let mut checks = stream::iter(checks).buffer_unordered(AT_ONCE);
        let mut failure = None;
        while let Some(checked) = checks.next().await {
            match checked {
                Ok(()) => return Ok(()),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The numbers of one partition.
async fn counts_of(partition: &Partition) -> Result<ScheduleCounts, ScheduleError> {
    let keys = &partition.context.keys;
    let size = async |command: &str, key: &str| match partition
        .reads
        .run(redis::cmd(command).arg(key))
        .await?
    {
        Value::Int(size) => Ok(u64::try_from(size).unwrap_or(0)),
        _ => Err(ScheduleError::Corrupt(format!("{key} has another type"))),
    };
    let dead = size("ZCARD", keys.dead()).await?;
    let ended = size("ZCARD", keys.ended()).await?;
    let in_flight = size("ZCARD", keys.leases()).await?;
    let pending = match partition.context.has_journal {
        true => pending_count::of(partition).await?,
        false => {
            let jobs = size("HLEN", keys.jobs()).await?;
            jobs.saturating_sub(dead + ended)
        }
    };
    Ok(ScheduleCounts {
        pending,
        in_flight,
        dead,
    })
}
