//! Outages that have ended, in Redis. `settle.lua` notes them.

use super::partition::Partition;
use super::reply::ScriptReply;
use super::{RedisSchedule, slot};
use crate::domain::lane::Lane;
use crate::domain::outage::EndedOutage;
use crate::schedule::ScheduleError;
use futures_util::stream::{self, StreamExt as _};

/// Maximum number of outages that a partition returns, and of those that it forgets in one script.
const MOST: usize = 64;
/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;

/// See [`crate::schedule::ScheduleMaintenance::ended_outages`].
pub async fn ended(
    schedule: &RedisSchedule,
    handled: &[EndedOutage],
) -> Result<Vec<EndedOutage>, ScheduleError> {
    let partitions = &schedule.partitions;
    let mut calls = Vec::new();
    for (number, partition) in partitions.iter().enumerate() {
        let own = |outage: &&EndedOutage| slot(outage.lane.as_str(), partitions.len()) == number;
        calls.push(of_partition(
            partition,
            handled.iter().filter(own).collect(),
        ));
    }
    let found: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    let (mut all, mut has_answer, mut failure) = (Vec::new(), false, None);
    for found in found {
        match found {
            Ok(found) => {
                has_answer = true;
                all.extend(found);
            }
            // Its outages are returned when it answers again.
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if !has_answer => Err(error),
        Some(_) | None => Ok(all),
    }
}

async fn of_partition(
    partition: &Partition,
    handled: Vec<&EndedOutage>,
) -> Result<Vec<EndedOutage>, ScheduleError> {
    let mut rest = &handled[..];
    loop {
        let (part, later) = rest.split_at(rest.len().min(MOST));
        rest = later;
        let context = &partition.context;
        let mut command = context.call(&partition.outages);
        command.arg(MOST);
        for outage in part {
            command.arg(outage.lane.as_str()).arg(text_of(outage));
        }
        let (connection, script) = (&partition.reads, &partition.outages);
        let reply = match part.is_empty() {
            true => {
                let mut reply = context.read(connection, script, &command).await?;
                reply.number()?; // nothing was written
                reply
            }
            false => context.run(connection, script, &command).await?,
        };
        if rest.is_empty() {
            return outages_of(reply);
        }
    }
}

fn text_of(outage: &EndedOutage) -> String {
    format!("{} {}", outage.from_ms, outage.until_ms)
}

/// The outages of a reply. What cannot be read is left out.
fn outages_of(mut reply: ScriptReply) -> Result<Vec<EndedOutage>, ScheduleError> {
    let mut found = Vec::new();
    while !reply.is_empty() {
        let (lane, text) = (reply.text()?, reply.text()?);
        let times = text.split_once(' ');
        let times = times.and_then(|(from, until)| from.parse().ok().zip(until.parse().ok()));
        if let Some((from_ms, until_ms)) = times {
            let lane = Lane::from_name(&lane);
            found.push(EndedOutage {
                lane,
                from_ms,
                until_ms,
            });
        }
    }
    Ok(found)
}
