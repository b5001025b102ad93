//! Whose data it is, and whether it is all there: looking, emptying, and having it filled.

use super::RedisSchedule;
use super::connection::Script;
use super::marks::{self, Witness};
use super::partition::Partition;
use super::reply::Reply;
use crate::clock::Clock;
use crate::schedule::ScheduleError;
use crate::schedule::shared::{Found, Peeked, Reason, Shared};
use async_trait::async_trait;
use redis::{Cmd, Value};

/// How long an instance may fill a partition without a sign of life until another takes over, in
/// milliseconds.
const HOLD_MS: i64 = 10_000;
/// Most lanes removed in one step of emptying a partition.
const MOST_CLEARED: usize = 256;

/// The scripts for this.
pub struct Scripts {
    begin: Script,
    clear: Script,
    finish: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            begin: Script::new(include_str!("lua/begin.lua")),
            clear: Script::new(include_str!("lua/clear.lua")),
            finish: Script::new(include_str!("lua/finish.lua")),
        }
    }
}

#[async_trait]
impl Shared for RedisSchedule {
    async fn look(&self, asked: bool) -> Result<Found, ScheduleError> {
        let mut found = Found::Whole;
        for (number, partition) in self.partitions.iter().enumerate() {
            found = graver(found, self.look_at(number, partition, asked).await?);
        }
        // Where another instance is emptying a partition, its calls are still refused.
        if found != Found::Clearing {
            self.loss.set(false);
        }
        Ok(found)
    }

    async fn peek(&self) -> Result<Peeked, ScheduleError> {
        let mut all = Peeked::Whole;
        for partition in &self.partitions {
            let keys = &partition.context.keys;
            let epoch = partition.reads.run(&Cmd::get(keys.epoch())).await?;
            let state = Cmd::hget(keys.marks(), "state");
            let state = text(partition.reads.run(&state).await?);
            let found = match text(epoch) {
                None => Peeked::New,
                Some(owner) if owner != self.owner => {
                    return Err(ScheduleError::Foreign(super::foreign(&owner, &self.owner)));
                }
                Some(_) => match state.as_deref() {
                    Some("clearing" | "filling") => Peeked::Filling,
                    // An earlier version kept none.
                    Some(_) | None => Peeked::Whole,
                },
            };
            all = match (all, found) {
                (Peeked::New, _) | (_, Peeked::New) => Peeked::New,
                (Peeked::Filling, _) | (_, Peeked::Filling) => Peeked::Filling,
                (Peeked::Whole, Peeked::Whole) => Peeked::Whole,
            };
        }
        Ok(all)
    }

    async fn proceed(&self) -> Result<bool, ScheduleError> {
        self.say(HOLD_MS.to_string()).await
    }

    async fn finish(&self) -> Result<bool, ScheduleError> {
        self.say(String::new()).await
    }

    async fn lost(&self) {
        self.loss.until(true).await;
    }

    async fn regained(&self) {
        self.loss.until(false).await;
    }

    fn lost_ms(&self) -> Option<i64> {
        let partitions = self.partitions.iter();
        partitions
            .filter_map(|partition| partition.context.marks.lost_ms())
            .max()
    }

    fn mark(&self) -> String {
        let witnesses: Vec<Witness> = (self.partitions.iter())
            .map(|partition| partition.context.marks.witness())
            .collect();
        marks::to_text(&witnesses)
    }

    fn recall(&self, mark: &str) {
        let witnesses = marks::from_text(mark);
        let mut recalled = self
            .recalled
            .lock()
            .unwrap_or_else(|held| held.into_inner());
        // As many as there are partitions, or it is of another time.
        *recalled = witnesses
            .filter(|witnesses| witnesses.len() == self.partitions.len())
            .unwrap_or_default();
    }
}

/// Of what was found in two partitions, what is to be done about both.
fn graver(one: Found, other: Found) -> Found {
    let gravity = |found: &Found| match found {
        Found::Whole => 0,
        Found::Bereft => 1,
        Found::Filling => 2,
        Found::Clearing => 3,
        Found::ToFill(_) => 4,
    };
    if gravity(&other) > gravity(&one) {
        other
    } else {
        one
    }
}

impl RedisSchedule {
    async fn look_at(
        &self,
        number: usize,
        partition: &Partition,
        asked: bool,
    ) -> Result<Found, ScheduleError> {
        let (keys, marks) = (&partition.context.keys, &partition.context.marks);
        let witness = self.witness(number, partition);
        let mode = match (asked, self.journaled) {
            (true, true) => "force",
            (false, true) => "fill",
            (_, false) => "keep",
        };
        let mut command = self.scripts.begin.call();
        command
            .arg(3)
            .arg(keys.epoch())
            .arg(keys.marks())
            .arg(keys.rebuild());
        command.arg(&self.owner).arg(marks.instance());
        command
            .arg(witness.generation)
            .arg(&witness.instance)
            .arg(witness.seen);
        command.arg(HOLD_MS).arg(mode);
        let mut reply = partition
            .reads
            .run_script(&self.scripts.begin, &command)
            .await?;
        let verdict = reply.text()?;
        match verdict.as_str() {
            "whole" => enter(partition, &mut reply, Found::Whole),
            // Nothing was there before, so nothing is lost.
            "new" if !self.journaled => enter(partition, &mut reply, Found::Whole),
            "kept" => enter(partition, &mut reply, Found::Bereft),
            "theirs" => enter(partition, &mut reply, Found::Filling),
            "resume" => enter(partition, &mut reply, Found::ToFill(Reason::Unfinished)),
            "wait" => Ok(Found::Clearing),
            "new" => self.clear(partition, Reason::New).await,
            "lost" if asked => self.clear(partition, Reason::Asked).await,
            "lost" => self.clear(partition, Reason::Lost).await,
            "foreign" => Err(ScheduleError::Foreign(super::foreign(
                &reply.text()?,
                &self.owner,
            ))),
            other => Err(ScheduleError::Corrupt(format!("a verdict of `{other}`"))),
        }
    }

    /// What is known of a partition: by this instance, or by one before it.
    fn witness(&self, number: usize, partition: &Partition) -> Witness {
        let own = partition.context.marks.witness();
        if own.knows() {
            return own;
        }
        let recalled = self
            .recalled
            .lock()
            .unwrap_or_else(|held| held.into_inner());
        recalled.get(number).cloned().unwrap_or(own)
    }

    async fn clear(&self, partition: &Partition, reason: Reason) -> Result<Found, ScheduleError> {
        let (keys, marks) = (&partition.context.keys, &partition.context.marks);
        loop {
            let mut command = self.scripts.clear.call();
            command.arg(keys.fixed().len() + 1);
            for key in keys.fixed() {
                command.arg(key);
            }
            command.arg(keys.rebuild());
            command.arg(keys.lane_prefix()).arg(marks.instance());
            command.arg(HOLD_MS).arg(marks.seen()).arg(MOST_CLEARED);
            let mut reply = partition
                .reads
                .run_script(&self.scripts.clear, &command)
                .await?;
            match reply.text()?.as_str() {
                "more" => {}
                "done" => return enter(partition, &mut reply, Found::ToFill(reason)),
                _ => return Ok(Found::Clearing),
            }
        }
    }

    /// Says in every partition that this instance fills how it is getting on.
    async fn say(&self, hold_ms: String) -> Result<bool, ScheduleError> {
        let mut heard = false;
        for partition in &self.partitions {
            let (keys, marks) = (&partition.context.keys, &partition.context.marks);
            let mut command: Cmd = self.scripts.finish.call();
            command.arg(2).arg(keys.marks()).arg(keys.rebuild());
            command.arg(marks.instance()).arg(&hold_ms);
            command.arg(marks.witness().generation);
            let mut reply = partition
                .reads
                .run_script(&self.scripts.finish, &command)
                .await?;
            heard |= reply.number()? == 1;
        }
        Ok(heard)
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn enter(partition: &Partition, reply: &mut Reply, found: Found) -> Result<Found, ScheduleError> {
    let (generation, mark) = (instant(reply)?, instant(reply)?);
    partition.context.marks.enter(generation, mark);
    let ago_ms = Some(instant(reply)?).filter(|ago_ms| *ago_ms >= 0);
    if let Some(ago_ms) = ago_ms {
        let now_ms = partition.context.clock.now_ms();
        partition.context.marks.lost_at(now_ms - ago_ms);
    }
    Ok(found)
}

/// A number that comes as text: Lua's own would be rounded on its way.
fn instant(reply: &mut Reply) -> Result<i64, ScheduleError> {
    let text = reply.text()?;
    text.parse()
        .map_err(|_| ScheduleError::Corrupt(format!("`{text}` is no mark")))
}
