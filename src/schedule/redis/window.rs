//! Up to which due time the partitions were loaded from the journal ([`crate::schedule::window`]).
//!
//! Each partition keeps the instant with its other data. So a partition that loses its data, or is set back to an older
//! copy, loses the instant too.

use super::RedisSchedule;
use super::partition::Partition;
use crate::schedule::ScheduleError;
use crate::schedule::window::{LoadedWindow, Window};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use redis::{Cmd, Value};
use std::collections::BTreeSet;

/// Maximum number of partitions that are asked at a time.
const AT_ONCE: usize = 16;

/// A server with a horizon has begun to leave notifications to the journal, and nobody has noted how far anything was loaded.
const NOT_KNOWN_MS: i64 = 0;

/// For how long after it was last known to be at work a server with a horizon may have left something out, in milliseconds:
/// the time of twelve heartbeats.
const LEAVES_FOR_MS: i64 = 60_000;

/// See [`crate::schedule::ScheduleMaintenance::loaded_until`].
pub async fn loaded_until(
    schedule: &RedisSchedule,
    left_out: &BTreeSet<usize>,
) -> Result<Option<i64>, ScheduleError> {
    let partitions = schedule.partitions.iter().enumerate();
    let calls: Vec<_> = partitions
        .filter(|(number, _)| !left_out.contains(number))
        .map(|(_, partition)| read(partition))
        .collect();
    if calls.is_empty() {
        return Err(ScheduleError::Unavailable(
            "no part of it is in reach".to_string(),
        ));
    }
    let noted: Vec<Option<i64>> = stream::iter(calls).buffered(AT_ONCE).try_collect().await?;
    // Servers with a horizon note it. Without one, a partition of which nothing is noted holds everything.
    let is_whole = schedule.limits.window == Window::WHOLE;
    let instants = noted.into_iter().map(|noted_ms| match noted_ms {
        None if is_whole => Some(i64::MAX),
        noted_ms => noted_ms.filter(|noted_ms| *noted_ms != NOT_KNOWN_MS),
    });
    // `None` if it is missing in any.
    let instants: Option<Vec<i64>> = instants.collect();
    Ok(instants.and_then(|instants| instants.into_iter().min()))
}

/// See [`crate::schedule::ScheduleMaintenance::set_loaded_until`]; for these partitions.
pub async fn set_loaded_until(
    partitions: impl Iterator<Item = &Partition>,
    loaded: LoadedWindow,
) -> Result<i64, ScheduleError> {
    let calls: Vec<_> = partitions
        .map(|partition| write(partition, loaded))
        .collect();
    let noted: Vec<i64> = stream::iter(calls).buffered(AT_ONCE).try_collect().await?;
    Ok(noted.into_iter().min().unwrap_or(loaded.until_ms))
}

async fn read(partition: &Partition) -> Result<Option<i64>, ScheduleError> {
    let command = Cmd::hget(partition.context.keys.meta(), "loaded_until");
    let Value::BulkString(text) = partition.reads.run(&command).await? else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&text).ok();
    Ok(text.and_then(|text| text.parse().ok()))
}

async fn write(partition: &Partition, loaded: LoadedWindow) -> Result<i64, ScheduleError> {
    let context = &partition.context;
    let mut command = context.call(&partition.loaded_until);
    command.arg(loaded.until_ms);
    // One with a horizon reads half of it ahead, and what others leave out is due later than that.
    match context.limits.window == Window::WHOLE {
        true => command.arg(loaded.began_ms),
        false => command.arg(""),
    };
    command.arg(LEAVES_FOR_MS);
    let script = &partition.loaded_until;
    let mut reply = context.run(&partition.reads, script, &command).await?;
    let noted_ms = reply.text()?;
    noted_ms
        .parse()
        .map_err(|_| ScheduleError::Corrupt(format!("`{noted_ms}` is not an instant")))
}
