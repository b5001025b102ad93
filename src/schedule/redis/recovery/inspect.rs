//! Inspecting a partition: whose data it is, and whether it is complete.

use super::owner::foreign;
use super::write_counters::WriteCount;
use super::{ALIVE_MS, HOLD_MS};
use crate::domain::duration::display_ms;
use crate::schedule::ScheduleError;
use crate::schedule::recoverable::{Inspection, LoadReason};
use crate::schedule::redis::RedisSchedule;
use crate::schedule::redis::partition::Partition;
use crate::schedule::redis::recovery::resizing::Replacing;
use crate::schedule::redis::reply::ScriptReply;
use redis::Cmd;
use std::sync::atomic::Ordering;

const SIGNED_OTHERWISE: &str = "the servers that share this Redis schedule sign with another secret, \
    and merchants would reject some of the signatures; start with the same --signing-secret, or \
    stop the others first to change it (a killed server counts as running for 30 s)";

/// Of the findings in two partitions, the one that decides what is done about both.
pub(super) fn more_severe(one: Inspection, other: Inspection) -> Inspection {
    let severity = |found: &Inspection| match found {
        Inspection::Whole => 0,
        Inspection::Loading => 1,
        Inspection::Clearing => 2,
        Inspection::ToLoad(_) => 3,
        Inspection::Unowned => 4,
        Inspection::Replaced => 5,
    };
    if severity(&other) > severity(&one) {
        other
    } else {
        one
    }
}

impl RedisSchedule {
    /// Inspects a partition. `is_first_here`: whether the first one, which decides how many there are, was in reach just now.
    pub(super) async fn inspect_partition(
        &self,
        number: usize,
        clear: bool,
        is_first_here: bool,
    ) -> Result<Inspection, ScheduleError> {
        let partition = &self.partitions[number];
        // Connects first: then it is known which run of the server answers.
        partition.reads.ready().await?;
        if number == 0 {
            self.prepare_first().await?;
        } else if !is_first_here {
            self.may_use_without_first(number).await?;
        }
        let asking = self.ask_partition(number, partition, clear, 0);
        let (mut reply, mut verdict) = asking.await?;
        let mut is_replaced = false;
        if verdict == "foreign" {
            let owner = reply.text()?;
            let generation = instant(&mut reply)?;
            match self.replace(number, (&owner, generation)).await? {
                Replacing::Done => is_replaced = true,
                Replacing::NotAllowed => {
                    return Err(ScheduleError::Foreign(foreign(&owner, &self.owner)));
                }
                Replacing::ByOthers => return Ok(Inspection::Replaced),
            }
            let asking = self.ask_partition(number, partition, clear, generation);
            (reply, verdict) = asking.await?;
        }
        let found = match verdict.as_str() {
            "lost" if is_replaced => Inspection::ToLoad(LoadReason::Resized),
            "whole" => Inspection::Whole,
            "theirs" => Inspection::Loading,
            "resume" => Inspection::ToLoad(LoadReason::Unfinished),
            "new" => Inspection::ToLoad(LoadReason::New),
            "lost" => Inspection::ToLoad(LoadReason::Lost),
            "restarted" => Inspection::ToLoad(LoadReason::Restarted),
            "damaged" => Inspection::ToLoad(LoadReason::Damaged),
            "clear" => Inspection::ToLoad(LoadReason::Asked),
            "wait" => return Ok(Inspection::Clearing),
            "unowned" => return Ok(Inspection::Unowned),
            "horizon" => {
                let theirs_ms = instant(&mut reply)?;
                return Err(ScheduleError::Foreign(self.other_horizon(theirs_ms)));
            }
            "signing" => return Err(ScheduleError::Foreign(SIGNED_OTHERWISE.to_string())),
            "foreign" => {
                let owner = reply.text()?;
                return Err(ScheduleError::Foreign(foreign(&owner, &self.owner)));
            }
            other => {
                return Err(ScheduleError::Corrupt(format!(
                    "unknown answer `{other}` of inspect.lua"
                )));
            }
        };
        let writes = &partition.context.writes;
        writes.enter(instant(&mut reply)?, instant(&mut reply)?);
        match found {
            Inspection::ToLoad(LoadReason::Asked) => self.clear(partition).await,
            found => Ok(found),
        }
    }

    /// Asks what a partition has. Returns the rest of the reply, and its first word. `replaced`: the generation of what was
    /// replaced there, so that the next one is a later one; 0 for none.
    async fn ask_partition(
        &self,
        number: usize,
        partition: &Partition,
        clear: bool,
        replaced: i64,
    ) -> Result<(ScriptReply, String), ScheduleError> {
        let run = partition.context.server.run().name().await;
        let mut count = self.count(number, partition);
        count.generation = count.generation.max(replaced);
        let command = self.inspect_command(partition, &count, clear, &run);
        let asking = partition.reads.run_script(&self.scripts.inspect, &command);
        let mut reply = asking.await?;
        let verdict = reply.text()?;
        Ok((reply, verdict))
    }

    /// The command that inspects a partition.
    fn inspect_command(
        &self,
        partition: &Partition,
        count: &WriteCount,
        clear: bool,
        run: &str,
    ) -> Cmd {
        let context = &partition.context;
        let (keys, writes) = (&context.keys, &context.writes);
        let mode = match (clear, self.has_journal) {
            (true, true) => "clear",
            (false, true) => "load",
            (_, false) => "keep",
        };
        let may_take_over = !self.has_journal
            || writes.count().knows()
            || self.ownership_taken.load(Ordering::Relaxed);
        let mut command = self.scripts.inspect.call();
        command
            .arg(5)
            .arg(keys.epoch())
            .arg(keys.meta())
            .arg(keys.rebuild())
            .arg(keys.jobs())
            .arg(keys.lanes());
        context.add_now(&mut command);
        command.arg(&self.owner).arg(writes.instance());
        command
            .arg(count.generation)
            .arg(&count.instance)
            .arg(count.seen);
        command.arg(HOLD_MS).arg(mode).arg(run);
        let signing = self.signing.lock().unwrap_or_else(|held| held.into_inner());
        command.arg(signing.as_deref().unwrap_or_default());
        command.arg(ALIVE_MS).arg(i32::from(may_take_over));
        match self.serves.load(Ordering::Relaxed) {
            true => command.arg(self.limits.window.horizon_ms().unwrap_or(0)),
            false => command.arg(""),
        };
        let starts = !self.has_entered.load(Ordering::Relaxed);
        command.arg(i32::from(starts));
        command
    }

    /// Why a server with this horizon may not start beside one with another.
    fn other_horizon(&self, theirs_ms: i64) -> String {
        let in_words = |horizon_ms: i64| match horizon_ms {
            0 => "forever".to_string(),
            horizon_ms => display_ms(horizon_ms),
        };
        let (theirs, own) = (
            in_words(theirs_ms),
            in_words(self.limits.window.horizon_ms().unwrap_or(0)),
        );
        format!(
            "a server that shares this Redis schedule runs with --horizon {theirs}, and this one has --horizon {own}: beside \
             each other they would send some notifications late; start with the same, or with one that is more than half and \
             less than twice of it, or stop the others first (a killed server counts as running for 30 s)"
        )
    }

    /// The write count of a partition that is known to this instance, or else to an earlier one.
    fn count(&self, number: usize, partition: &Partition) -> WriteCount {
        let own = partition.context.writes.count();
        if own.knows() {
            return own;
        }
        let recalled = self
            .recalled
            .lock()
            .unwrap_or_else(|held| held.into_inner());
        recalled.get(number).cloned().unwrap_or(own)
    }
}

/// A number that comes as text: a number of Lua would be rounded.
fn instant(reply: &mut ScriptReply) -> Result<i64, ScheduleError> {
    let text = reply.text()?;
    text.parse()
        .map_err(|_| ScheduleError::Corrupt(format!("`{text}` is not a write count")))
}
