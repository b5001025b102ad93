//! Whose data it is, and whether it is complete: inspecting it, emptying it, and reporting how loading
//! goes.

mod heartbeat;
mod inspect;
pub mod server_run;
pub mod write_counters;

use super::RedisSchedule;
use super::away::AwayPartitions;
use super::bulk::{self, ScannedParts};
use super::partition::Partition;
use super::script::Script;
use super::window;
use crate::domain::lane::Lane;
use crate::schedule::recoverable::{
    Inspection, LoadReason, Recoverable, Reindexed, ScheduleStatus,
};
use crate::schedule::window::LoadedWindow;
use crate::schedule::{Scanned, ScheduleError};
use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use inspect::more_severe;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use write_counters::WriteCount;

/// How long an instance may load a partition without a report until another takes over, in milliseconds.
const HOLD_MS: i64 = 10_000;
/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;
/// Maximum number of lanes removed in one step of emptying a partition.
const MOST_CLEARED: usize = 256;

/// The scripts of this module.
pub struct Scripts {
    heartbeat: Script,
    inspect: Script,
    clear: Script,
    loading: Script,
    deregister: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            heartbeat: Script::new(include_str!("heartbeat.lua")),
            inspect: Script::new(include_str!("inspect.lua")),
            clear: Script::new(include_str!("clear.lua")),
            loading: Script::new(include_str!("loading.lua")),
            deregister: Script::new(include_str!("deregister.lua")),
        }
    }
}

#[async_trait]
impl Recoverable for RedisSchedule {
    async fn inspect(&self, clear: bool) -> Result<Inspection, ScheduleError> {
        let inspected = self.partitions.iter().enumerate();
        let inspected = inspected.map(|(number, partition)| async move {
            let found = self.inspect_partition(number, partition, clear).await;
            (number, found)
        });
        let inspected: Vec<_> = inspected.collect();
        // One after the other where all are at one server, which could be slow.
        let at_once = if self.away.is_some() { AT_ONCE } else { 1 };
        let mut inspected = stream::iter(inspected).buffered(at_once);
        let (mut found, mut has_answer, mut failure) = (Inspection::Whole, false, None);
        let mut failed = Vec::new();
        while let Some((number, one)) = inspected.next().await {
            let one = match (one, &self.away) {
                // The other partitions of the cluster are used meanwhile.
                (Err(error @ ScheduleError::Unavailable(_)), Some(away)) => {
                    away.add_to_inspect(number);
                    self.partitions[number]
                        .loading
                        .store(false, Ordering::Relaxed);
                    failure = Some(error);
                    failed.push(number);
                    continue;
                }
                (one, _) => one?,
            };
            has_answer = true;
            let loading = matches!(one, Inspection::ToLoad(_));
            self.partitions[number]
                .loading
                .store(loading, Ordering::Relaxed);
            found = more_severe(found, one);
        }
        if let (false, Some(failure)) = (has_answer, failure) {
            return Err(failure);
        }
        self.has_entered.store(true, Ordering::Relaxed);
        // While another instance is emptying a partition, calls to it are still refused.
        if found != Inspection::Clearing {
            self.loss.set(false);
        }
        // A partition that has answered since it failed above: away.rs has set the loss for it, and the line before this may
        // have taken that back.
        let has_answered =
            |away: &Arc<AwayPartitions>| failed.iter().any(|number| !away.is_to_inspect(*number));
        if self.away.as_ref().is_some_and(has_answered) {
            self.loss.set(true);
        }
        Ok(found)
    }

    async fn status(&self) -> Result<ScheduleStatus, ScheduleError> {
        let mut all = ScheduleStatus::Whole;
        for partition in self.partitions.iter() {
            let keys = &partition.context.keys;
            let read = async |command: &Cmd| {
                Ok::<_, ScheduleError>(text(partition.reads.run(command).await?))
            };
            let epoch = match read(&Cmd::get(keys.epoch())).await? {
                Some(epoch) => Some(epoch),
                None => read(&Cmd::hget(keys.meta(), "owner")).await?,
            };
            let state = read(&Cmd::hget(keys.meta(), "state")).await?;
            let found = match epoch {
                None => ScheduleStatus::New,
                Some(owner) if owner != self.owner => {
                    return Err(ScheduleError::Foreign(super::foreign(&owner, &self.owner)));
                }
                Some(_) if state.as_deref() == Some("whole") => ScheduleStatus::Whole,
                Some(_) => ScheduleStatus::Loading,
            };
            all = match (all, found) {
                (ScheduleStatus::New, _) | (_, ScheduleStatus::New) => ScheduleStatus::New,
                (ScheduleStatus::Loading, _) | (_, ScheduleStatus::Loading) => {
                    ScheduleStatus::Loading
                }
                (ScheduleStatus::Whole, ScheduleStatus::Whole) => ScheduleStatus::Whole,
            };
        }
        Ok(all)
    }

    fn take_ownership(&self) {
        self.ownership_taken.store(true, Ordering::Relaxed);
    }

    async fn reindex(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Reindexed, ScheduleError> {
        bulk::reindex(&self.partitions, cursor, limit).await
    }

    fn is_loading(&self, lane: &Lane) -> bool {
        self.partition(lane).loading.load(Ordering::Relaxed)
    }

    fn is_some_out_of_reach(&self) -> bool {
        let Some(away) = &self.away else {
            return false;
        };
        let mut parts = self.partitions.iter().enumerate();
        parts.any(|(number, part)| part.loading.load(Ordering::Relaxed) && away.has(number))
    }

    async fn set_loaded_until_of_loading(&self, loaded: LoadedWindow) -> Result<(), ScheduleError> {
        let loading = |partition: &&Partition| partition.loading.load(Ordering::Relaxed);
        window::set_loaded_until(self.partitions.iter().filter(loading), loaded).await?;
        Ok(())
    }

    async fn scan_loading(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Scanned, ScheduleError> {
        bulk::scan(&self.partitions, ScannedParts::Loading, cursor, limit).await
    }

    async fn report_loading(&self) -> Result<bool, ScheduleError> {
        self.report(HOLD_MS.to_string()).await
    }

    async fn finish_loading(&self) -> Result<bool, ScheduleError> {
        self.report(String::new()).await
    }

    async fn wait_for_loss(&self) {
        self.loss.until(true).await;
    }

    async fn wait_until_usable(&self) {
        self.loss.until(false).await;
    }

    fn write_counts(&self) -> String {
        let counts: Vec<WriteCount> = (self.partitions.iter())
            .map(|partition| partition.context.writes.count())
            .collect();
        write_counters::to_text(&counts)
    }

    fn restore_write_counts(&self, write_counts: &str) {
        let counts = write_counters::from_text(write_counts);
        let mut recalled = self
            .recalled
            .lock()
            .unwrap_or_else(|held| held.into_inner());
        // If their number differs from that of the partitions, they are of another schedule.
        *recalled = counts
            .filter(|counts| counts.len() == self.partitions.len())
            .unwrap_or_default();
    }

    async fn heartbeat(&self) -> Result<(), ScheduleError> {
        self.send_heartbeat().await
    }

    async fn wait_for_instances(&self) {
        self.instances.changed().await;
    }

    async fn deregister(&self) {
        self.send_deregistration().await;
    }
}

impl RedisSchedule {
    async fn clear(&self, partition: &Partition) -> Result<Inspection, ScheduleError> {
        let (keys, writes) = (&partition.context.keys, &partition.context.writes);
        loop {
            let mut command = self.scripts.clear.call();
            let absent = keys.absent();
            command.arg(keys.fixed().len() + 1 + usize::from(absent.is_some()));
            for key in keys.fixed() {
                command.arg(key);
            }
            command.arg(keys.rebuild());
            if let Some(absent) = absent {
                command.arg(absent);
            }
            command
                .arg(keys.prefix())
                .arg(writes.instance())
                .arg(HOLD_MS);
            command.arg(writes.count().generation).arg(MOST_CLEARED);
            let mut reply = partition
                .reads
                .run_script(&self.scripts.clear, &command)
                .await?;
            match reply.text()?.as_str() {
                "more" => {}
                "done" => return Ok(Inspection::ToLoad(LoadReason::Asked)),
                _ => return Ok(Inspection::Clearing),
            }
        }
    }

    /// Reports in every partition that this instance loads that loading continues, or is done if `hold_ms` is
    /// empty.
    async fn report(&self, hold_ms: String) -> Result<bool, ScheduleError> {
        let (mut accepted, mut failure) = (true, None);
        let loading = |partition: &&Partition| partition.loading.load(Ordering::Relaxed);
        for partition in self.partitions.iter().filter(loading) {
            let (keys, writes) = (&partition.context.keys, &partition.context.writes);
            let mut command: Cmd = self.scripts.loading.call();
            command.arg(2).arg(keys.meta()).arg(keys.rebuild());
            command.arg(writes.instance()).arg(&hold_ms);
            command.arg(writes.count().generation);
            let reported = partition
                .reads
                .run_script(&self.scripts.loading, &command)
                .await;
            match reported {
                Ok(mut reply) => accepted &= reply.number()? == 1,
                // The others are told nevertheless: without reports, other instances would take over.
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if accepted => Err(error),
            Some(_) | None => Ok(accepted),
        }
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}
