//! Whose data it is, and whether it is complete: inspecting it, emptying it, and reporting how loading
//! goes.

mod heartbeat;
mod inspect;
mod owner;
mod resizing;
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
pub use owner::{foreign, number_in, same_data};
use redis::{Cmd, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use write_counters::WriteCount;

/// How long an instance may load a partition without a report until another takes over, in milliseconds.
const HOLD_MS: i64 = 10_000;
/// How long after its last claim or heartbeat an instance counts as alive, in milliseconds. It claims every
/// second, unless it has as many attempts in flight as it may have.
const ALIVE_MS: i64 = 30_000;
/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;
/// Maximum number of lanes removed in one step of emptying a partition.
const MOST_CLEARED: usize = 256;

/// The scripts of this module.
pub struct Scripts {
    heartbeat: Script,
    inspect: Script,
    clear: Script,
    replace: Script,
    loading: Script,
    deregister: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            heartbeat: Script::new(include_str!("heartbeat.lua")),
            inspect: Script::new(include_str!("inspect.lua")),
            clear: Script::new(include_str!("clear.lua")),
            replace: Script::new(include_str!("replace.lua")),
            loading: Script::new(include_str!("loading.lua")),
            deregister: Script::new(include_str!("deregister.lua")),
        }
    }
}

#[async_trait]
impl Recoverable for RedisSchedule {
    async fn inspect(&self, clear: bool) -> Result<Inspection, ScheduleError> {
        let inspect = |number, is_first_here| async move {
            let inspecting = self.inspect_partition(number, clear, is_first_here);
            (number, inspecting.await)
        };
        let mut inspected = Inspected::default();
        let has_entered = self.has_entered.load(Ordering::Relaxed);
        let is_first_away = self.away.as_ref().is_some_and(|away| away.has(0));
        // Nothing is changed in the others before the first one has said that this number of partitions is right (resizing.rs).
        // Only one that is at work already does not wait for it.
        let mut is_first_here = false;
        let mut others = 0..self.partitions.len();
        if !(has_entered && is_first_away) {
            is_first_here = self.take_in(&mut inspected, inspect(0, true).await).await?;
            if inspected.found == Inspection::Replaced {
                return Ok(Inspection::Replaced);
            }
            others = 1..self.partitions.len();
        }
        let others: Vec<_> = others
            .map(|number| inspect(number, is_first_here))
            .collect();
        // One after the other where all are at one server, which could be slow.
        let at_once = if self.away.is_some() { AT_ONCE } else { 1 };
        let mut others = stream::iter(others).buffered(at_once);
        while let Some(one) = others.next().await {
            self.take_in(&mut inspected, one).await?;
        }
        if let (false, Some(failure)) = (inspected.has_answer, inspected.failure) {
            return Err(failure);
        }
        self.has_entered.store(true, Ordering::Relaxed);
        // While another instance is emptying a partition, calls to it are still refused.
        if inspected.found != Inspection::Clearing {
            self.loss.set(false);
        }
        // A partition that has answered since it failed above: away.rs has set the loss for it, and the line before this may
        // have taken that back.
        let mut failed = inspected.failed.iter();
        let has_answered =
            |away: &Arc<AwayPartitions>| failed.any(|number| !away.is_to_inspect(*number));
        if self.away.as_ref().is_some_and(has_answered) {
            self.loss.set(true);
        }
        Ok(inspected.found)
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
                    return Err(ScheduleError::Foreign(foreign(&owner, &self.owner)));
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

/// What the inspection of some partitions has found.
struct Inspected {
    found: Inspection,
    /// Whether any of them has answered.
    has_answer: bool,
    /// Those that have not.
    failed: Vec<usize>,
    failure: Option<ScheduleError>,
}

impl Default for Inspected {
    fn default() -> Self {
        Self {
            found: Inspection::Whole,
            has_answer: false,
            failed: Vec::new(),
            failure: None,
        }
    }
}

impl RedisSchedule {
    /// Takes in what the inspection of one partition has found; `false` if it is out of reach while others may not be.
    async fn take_in(
        &self,
        inspected: &mut Inspected,
        (number, one): (usize, Result<Inspection, ScheduleError>),
    ) -> Result<bool, ScheduleError> {
        let loading = &self.partitions[number].loading;
        match (one, &self.away) {
            (Ok(one), _) => {
                inspected.has_answer = true;
                loading.store(matches!(one, Inspection::ToLoad(_)), Ordering::Relaxed);
                inspected.found = more_severe(inspected.found, one);
                Ok(true)
            }
            // The other partitions of the cluster are used meanwhile.
            (Err(error @ ScheduleError::Unavailable(_)), Some(away)) => {
                away.add_to_inspect(number);
                loading.store(false, Ordering::Relaxed);
                inspected.failure = Some(error);
                inspected.failed.push(number);
                Ok(false)
            }
            (Err(error), _) => {
                if !self.has_entered.load(Ordering::Relaxed) {
                    // One that is refused at its start is not at work.
                    self.send_deregistration().await;
                }
                Err(error)
            }
        }
    }

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
