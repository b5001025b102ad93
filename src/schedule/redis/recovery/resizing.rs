//! A server with another number of partitions than the schedule has.
//!
//! The number decides which partition has a lane, so nothing can stay where it is. With a journal, a server removes what was
//! made for the other number, unless a server with that number is at work or one of its attempts is in flight, and loads its own
//! partitions. Each step is one script (`replace.lua`), which looks for that itself.
//!
//! **The first partition decides** which number the schedule has. It is inspected before the others and replaced last. So:
//!
//! * Nobody works with a number before the first partition has it, so of servers with different numbers that start at once, the one
//!   whose number it has in the end goes on. While the first one is out of reach, a server that starts uses only those that
//!   have its number.
//! * What is broken off is done again by the next server that starts, whichever number it has.
//! * A partition in which a server meets another number later, such as one that a fail-over has set back, is replaced alone if the
//!   first one still has the number of that server.
//! * A server that hung meanwhile finds another number in the first partition, and ends. If the data there is older than what the
//!   server knows, all of it was set back, and is replaced again.
//!
//! A server at work that comes upon a partition that was emptied finds a loss of data, and loads it again: so whatever it does
//! between two steps, nothing is lost, and its claims make the next step refuse.

use super::owner::{at_work, foreign, same_data};
use super::{ALIVE_MS, AT_ONCE, MOST_CLEARED, text};
use crate::schedule::ScheduleError;
use crate::schedule::redis::RedisSchedule;
use crate::schedule::redis::connection::{COMMAND_TIMEOUT, Connection};
use crate::schedule::redis::context::PartitionKeys;
use crate::schedule::redis::recovery::server_run::ServerRun;
use crate::schedule::redis::recovery::write_counters::Loss;
use futures_util::stream::{self, StreamExt as _};
use redis::{Cmd, Value};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum number of partitions of a schedule.
const MOST_PARTITIONS: usize = 256;
/// How long it may take to find out which of all possible partitions have data.
const LONGEST_LOOK: Duration = Duration::from_secs(3);
/// How long it may take to look at all of them when a server starts, before it changes their number.
const LONGEST_FIRST_LOOK: Duration = Duration::from_secs(20);
/// Wait before it is looked again whether all partitions are in reach.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Which data a step removes, as `replace.lua` has it.
#[derive(Clone, Copy)]
enum Removed {
    /// None; it only looks.
    Nothing,
    /// That of another number of partitions.
    OfOtherNumbers,
    /// That of any number, if nobody is at work with it. What has this number already may be left from long ago.
    OfAnyNumber,
}

/// What became of data of another number of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replacing {
    /// It was removed.
    Done,
    /// This schedule may not remove it.
    NotAllowed,
    /// It has replaced the data of this schedule.
    ByOthers,
}

impl Removed {
    fn as_text(self) -> &'static str {
        match self {
            Self::Nothing => "look",
            Self::OfOtherNumbers => "other",
            Self::OfAnyNumber => "any",
        }
    }
}

impl RedisSchedule {
    /// Whether this schedule may replace the data of another number of partitions: that of a server with a journal to load from.
    fn may_resize(&self) -> bool {
        self.has_journal && self.serves.load(Ordering::Relaxed)
    }

    /// Before a server enters the first partition without data: removes what other partitions have of another number. It is
    /// left of a schedule whose first partition was lost.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if a server with another number is at work.
    pub(super) async fn prepare_first(&self) -> Result<(), ScheduleError> {
        if !self.may_resize() || self.has_entered_first() || self.owner_of(0).await?.is_some() {
            return Ok(());
        }
        let filled = self.filled_others().await?;
        for removed in [Removed::Nothing, Removed::OfOtherNumbers] {
            for number in filled.iter().rev() {
                self.remove(*number, removed).await?;
            }
        }
        Ok(())
    }

    /// Whether this instance may use a partition while the first one, which decides, is out of reach: if it was at work before,
    /// or one with its number is or was at work there. The epoch says less: it is written before the first partition has this
    /// number.
    ///
    /// # Errors
    /// [`ScheduleError::Unavailable`] if it may not.
    pub(super) async fn may_use_without_first(&self, number: usize) -> Result<(), ScheduleError> {
        if self.has_entered_first() {
            return Ok(());
        }
        let partition = &self.partitions[number];
        let owner = Cmd::hget(partition.context.keys.meta(), "owner");
        if text(partition.reads.run(&owner).await?).as_deref() == Some(self.owner.as_str()) {
            return Ok(());
        }
        if let Some(away) = &self.away {
            away.wait_for_first(number);
        }
        Err(ScheduleError::Unavailable(
            "the first partition of the schedule, which decides how many there are, is out of reach".to_string(),
        ))
    }

    /// Replaces what was made for another number of partitions, if this is allowed. `found`: the owner and the generation of the
    /// data.
    ///
    /// # Errors
    /// [`ScheduleError::Foreign`] if a server with another number is at work.
    pub(super) async fn replace(
        &self,
        number: usize,
        (found, generation): (&str, i64),
    ) -> Result<Replacing, ScheduleError> {
        if !self.may_resize() || !found.starts_with(same_data(&self.owner)) {
            return Ok(Replacing::NotAllowed);
        }
        if number > 0 {
            let first = self.owner_of(0).await?;
            if first.as_deref() == Some(self.owner.as_str()) {
                match self.remove(number, Removed::OfOtherNumbers).await {
                    Err(ScheduleError::Foreign(said)) if self.has_entered_first() => {
                        return Err(set_back(said).await);
                    }
                    removed => removed?,
                }
                return Ok(Replacing::Done);
            }
            if first.as_deref() == Some(found) {
                return Err(not_all_in_reach());
            }
            return Ok(Replacing::NotAllowed);
        }
        let known = self.partitions[0].context.writes.count().generation;
        if known > 0 && generation >= known {
            return Ok(Replacing::ByOthers);
        }
        let longest = match known {
            0 => LONGEST_FIRST_LOOK,
            _ => LONGEST_LOOK,
        };
        match self.check_that_none_works(longest).await {
            Err(ScheduleError::Foreign(said)) if known > 0 => return Err(set_back(said).await),
            // It has worked with other partitions while the first one was out of reach.
            Err(ScheduleError::Foreign(_)) if self.has_entered.load(Ordering::Relaxed) => {
                return Ok(Replacing::ByOthers);
            }
            checked => checked?,
        }
        for number in (0..MOST_PARTITIONS).rev() {
            self.remove(number, Removed::OfAnyNumber).await?;
        }
        Ok(Replacing::Done)
    }

    /// Refuses to replace anything while a server with another number is at work, whichever partition says so, or while not all
    /// partitions are in reach. Removes nothing.
    async fn check_that_none_works(&self, longest: Duration) -> Result<(), ScheduleError> {
        let looks: Vec<_> = (0..MOST_PARTITIONS)
            .map(|number| async move {
                let look = self.remove(number, Removed::Nothing);
                match tokio::time::timeout(LONGEST_LOOK, look).await {
                    Ok(Err(ScheduleError::Unavailable(_))) | Err(_) => Ok(0),
                    Ok(looked) => looked.map(|()| 1),
                }
            })
            .collect();
        let looks = stream::iter(looks).buffer_unordered(AT_ONCE);
        let mut looks = pin!(looks.take_until(tokio::time::sleep(longest)));
        // All of them, also if one says so: each look also notes if the clock was set back.
        let (mut in_reach, mut at_work) = (0, Ok(()));
        while let Some(look) = looks.next().await {
            match look {
                Ok(one) => in_reach += one,
                Err(error) => at_work = Err(error),
            }
        }
        at_work?;
        if in_reach == MOST_PARTITIONS {
            return Ok(());
        }
        // The first partition answers, so it would be inspected again at once.
        tokio::time::sleep(LOOK_AGAIN).await;
        Err(not_all_in_reach())
    }

    fn has_entered_first(&self) -> bool {
        self.partitions[0].context.writes.count().knows()
    }

    /// The partitions after the first that may have data, of all that there could be, as far as they are in reach.
    async fn filled_others(&self) -> Result<Vec<usize>, ScheduleError> {
        let numbers: Vec<usize> = (1..MOST_PARTITIONS).collect();
        if self.away.is_none() {
            // All are at one server.
            return Ok(match self.have_data(&numbers).await? {
                true => numbers,
                false => Vec::new(),
            });
        }
        let looks: Vec<_> = (numbers.chunks(1))
            .map(|number| async move {
                let is_filled = self.have_data(number).await;
                is_filled.unwrap_or_default().then_some(number[0])
            })
            .collect();
        let looks = stream::iter(looks).buffer_unordered(AT_ONCE);
        let looked = looks.take_until(tokio::time::sleep(LONGEST_LOOK));
        let mut filled: Vec<usize> = looked.filter_map(async |number| number).collect().await;
        filled.sort_unstable();
        Ok(filled)
    }

    /// Whether any of these partitions, all of them at one server, has data.
    async fn have_data(&self, numbers: &[usize]) -> Result<bool, ScheduleError> {
        let mut exist = redis::cmd("EXISTS");
        for number in numbers {
            let (keys, _) = self.place_of(*number);
            exist.arg(keys.epoch()).arg(keys.meta());
        }
        let (_, connection) = self.place_of(numbers[0]);
        Ok(connection.run(&exist).await? != Value::Int(0))
    }

    /// Removes data of a partition, which this schedule may not have.
    async fn remove(&self, number: usize, removed: Removed) -> Result<(), ScheduleError> {
        let (keys, connection) = self.place_of(number);
        let is_used = number < self.partitions.len();
        loop {
            let mut command = self.scripts.replace.call();
            let absent = keys.absent();
            command.arg(keys.fixed().len() + 1 + usize::from(absent.is_some()));
            command.arg(keys.fixed()).arg(keys.rebuild()).arg(absent);
            self.partitions[0].context.add_now(&mut command);
            command.arg(keys.prefix()).arg(&self.owner);
            command.arg(same_data(&self.owner)).arg(ALIVE_MS);
            command.arg(MOST_CLEARED).arg(removed.as_text());
            let running = connection.run_script(&self.scripts.replace, &command);
            let mut reply = running.await?;
            match reply.text()?.as_str() {
                "more" => {}
                "alive" => {
                    let found = reply.text()?;
                    let said = at_work((&found, &reply.text()?), &self.owner);
                    return Err(ScheduleError::Foreign(said));
                }
                // One that is not used may belong to whom it will.
                "foreign" if is_used => {
                    let said = foreign(&reply.text()?, &self.owner);
                    return Err(ScheduleError::Foreign(said));
                }
                _ => return Ok(()),
            }
        }
    }

    /// The keys of a partition, which this schedule may not have, and a connection to its server.
    fn place_of(&self, number: usize) -> (PartitionKeys, Connection) {
        let first = &self.partitions[0];
        let connector = first.context.server.connector();
        let keys = PartitionKeys::of(number, connector, first.context.writes.instance());
        let connection = match self.partitions.get(number) {
            Some(partition) => partition.reads.clone(),
            None if self.away.is_none() => first.reads.clone(),
            None => {
                let run = ServerRun::new(Vec::new(), || None, Arc::new(Loss::default()));
                let server = connector.partition(number, Arc::new(run));
                server.connect(COMMAND_TIMEOUT)
            }
        };
        (keys, connection)
    }

    /// The owner of the data in a partition of this schedule.
    async fn owner_of(&self, number: usize) -> Result<Option<String>, ScheduleError> {
        let partition = &self.partitions[number];
        let keys = &partition.context.keys;
        let epoch = partition.reads.run(&Cmd::get(keys.epoch())).await?;
        if let Some(epoch) = text(epoch) {
            return Ok(Some(epoch));
        }
        let owner = Cmd::hget(keys.meta(), "owner");
        Ok(text(partition.reads.run(&owner).await?))
    }
}

/// What a server at work is told of data that was set back to another number: those of then seem to be at work for a while. The
/// partition answers, so it would be inspected again at once.
async fn set_back(said: String) -> ScheduleError {
    tokio::time::sleep(LOOK_AGAIN).await;
    ScheduleError::Unavailable(said)
}

fn not_all_in_reach() -> ScheduleError {
    ScheduleError::Unavailable(
        "the number of partitions can be changed only while all partitions of the schedule are in reach"
            .to_string(),
    )
}
