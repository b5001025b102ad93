//! A server that starts with another number of partitions than the schedule has.
//!
//! The number decides which partition has a lane, so nothing can stay where it is. With a journal, the server empties all
//! partitions and loads its own, if no other server is at work. Each partition is replaced by one script (`inspect.lua`),
//! which looks for other servers itself, so of two servers with different numbers that start at once, no more than one goes on.
//! A server with the earlier number that only hung finds another owner when it goes on, and is refused.

use super::inspect::Emptying;
use super::owner::{running, same_data};
use crate::schedule::ScheduleError;
use crate::schedule::recoverable::{Inspection, Recoverable as _};
use crate::schedule::redis::partition::Partition;
use crate::schedule::redis::{Options, RedisSchedule};
use redis::Cmd;
use std::sync::atomic::Ordering;

/// Maximum number of partitions of a schedule.
const MOST_PARTITIONS: usize = 256;

impl RedisSchedule {
    /// Whether a partition of this schedule may replace one with another number of them: by a server that has a journal to load
    /// from, at its first look. One that has worked with it already is the one that was replaced.
    pub(super) fn may_resize(&self, partition: &Partition) -> bool {
        self.has_journal
            && self.serves.load(Ordering::Relaxed)
            && !partition.context.writes.count().knows()
    }

    /// If the schedule has another number of partitions, empties those that this one will not have. `true` if it has another
    /// number. If this is broken off, the next server that starts does it again, because the first partition is replaced last.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if another server is at work.
    pub(super) async fn empty_surplus(&self) -> Result<bool, ScheduleError> {
        let first = &self.partitions[0];
        if !self.may_resize(first) {
            return Ok(false);
        }
        let found = match self.found_owner(first).await {
            Ok(found) => found,
            // The other partitions of a cluster are used meanwhile.
            Err(ScheduleError::Unavailable(_)) if self.away.is_some() => None,
            Err(error) => return Err(error),
        };
        let Some(found) = found else {
            return Ok(false);
        };
        let many: usize = match found.strip_prefix(same_data(&self.owner)).map(str::parse) {
            Some(Ok(many)) if many != self.partitions.len() && many <= MOST_PARTITIONS => many,
            Some(_) | None => return Ok(false),
        };
        // Before anything is entered: a server that is refused must not count as one at work.
        self.check_that_none_works(first, &found).await?;
        if many > self.partitions.len() {
            let options = Options {
                partitions: many,
                ..self.options.clone()
            };
            let earlier = Self::open(&options, self.clock.clone())?;
            earlier.announce_horizon();
            earlier.take_ownership();
            for number in (self.partitions.len()..many).rev() {
                let removing = earlier.remove(number).await;
                removing.map_err(|error| match error {
                    ScheduleError::Foreign(_) => {
                        ScheduleError::Foreign(running(&found, &self.owner))
                    }
                    error => error,
                })?;
            }
        }
        Ok(true)
    }

    /// Refuses to replace data with this owner while another server is at work in this partition. Changes nothing.
    async fn check_that_none_works(
        &self,
        partition: &Partition,
        found: &str,
    ) -> Result<(), ScheduleError> {
        partition.reads.ready().await?;
        let run = partition.context.server.run().name().await;
        let command = self.inspect_command(0, partition, Emptying::Look, &run);
        let asking = partition.reads.run_script(&self.scripts.inspect, &command);
        match asking.await?.text()?.as_str() {
            "alone" => Ok(()),
            _ => Err(ScheduleError::Foreign(running(found, &self.owner))),
        }
    }

    /// Empties a partition if no other server is at work, and removes all that it has.
    async fn remove(&self, number: usize) -> Result<(), ScheduleError> {
        let partition = &self.partitions[number];
        let emptied = self.inspect_partition(number, partition, Emptying::AskedAlone);
        match emptied.await? {
            Inspection::ToLoad(_) => {}
            Inspection::Whole
            | Inspection::Loading
            | Inspection::Clearing
            | Inspection::Unowned => {
                return Err(ScheduleError::Unavailable(
                    "another server empties the partitions of the schedule".to_string(),
                ));
            }
        }
        let keys = &partition.context.keys;
        let mut unlink = Cmd::new();
        unlink.arg("UNLINK").arg(keys.fixed());
        unlink.arg(keys.rebuild()).arg(keys.contents());
        partition.reads.run(&unlink).await?;
        Ok(())
    }

    /// The owner of the data in a partition.
    async fn found_owner(&self, partition: &Partition) -> Result<Option<String>, ScheduleError> {
        let keys = &partition.context.keys;
        let epoch = partition.reads.run(&Cmd::get(keys.epoch())).await?;
        if let Some(epoch) = super::text(epoch) {
            return Ok(Some(epoch));
        }
        let owner = Cmd::hget(keys.meta(), "owner");
        Ok(super::text(partition.reads.run(&owner).await?))
    }
}
