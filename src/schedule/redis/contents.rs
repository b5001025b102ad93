//! How long an entry has its content in Redis.
//!
//! With a journal and a horizon, what was registered keeps its content for some minutes, although the journal has it: a
//! journal that loses what it has accepted last, as when a primary fails, gets it back from here. Also if its first attempt
//! has failed meanwhile, since such a journal has lost that with it. After that, the journal is asked whether it has it
//! still. If it has, and it is not due soon, it is bare from then on: it is in its lane alone, about 50 bytes and not a
//! thousand, and the attempt reads the rest in the journal (`delivery::bare`). What fails later is bare at once.
//!
//! The list `contents` of a partition has what waits for so long, with the instant since when it does, oldest first. It is
//! only a reminder: what is missing in it keeps its content until it is sent. So the list may have a bound, a million.

use super::RedisSchedule;
use super::partition::Partition;
use crate::clock::Clock as _;
use crate::domain::key::Key;
use crate::schedule::window::CONTENT_NEEDED_MS;
use crate::schedule::{ContentToLeave, ScheduleError};
use futures_util::stream::{self, StreamExt as _};
use redis::Value;

/// Maximum number of entries that one script looks at: a script must not block Redis for much longer than a millisecond.
const MOST_LOOKED_AT: usize = 100;
/// How far ahead of the clock an entry of the list may be, in milliseconds: beyond that, the clock was set back since.
const AHEAD_MS: i64 = 60_000;
/// Maximum number of partitions that are called at a time.
const AT_ONCE: usize = 4;

/// See [`crate::schedule::ScheduleMaintenance::content_to_leave`].
pub async fn to_leave(schedule: &RedisSchedule) -> Result<Vec<ContentToLeave>, ScheduleError> {
    let calls: Vec<_> = (schedule.partitions.iter().enumerate())
        .filter(|(_, partition)| partition.context.leaves_bodies)
        .map(|(number, partition)| to_leave_in(number, partition))
        .collect();
    let read: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    // A partition that is away does not concern the others.
    let (read, failed): (Vec<_>, Vec<_>) = read.into_iter().partition(Result::is_ok);
    match failed.into_iter().next() {
        Some(error) if read.is_empty() => error.map(|some| vec![some]),
        _ => Ok(read
            .into_iter()
            .flatten()
            .filter(|some| some.reminders > 0)
            .collect()),
    }
}

async fn to_leave_in(
    number: usize,
    partition: &Partition,
) -> Result<ContentToLeave, ScheduleError> {
    let mut command = redis::cmd("LRANGE");
    let most = MOST_LOOKED_AT - 1;
    command
        .arg(partition.context.keys.contents())
        .arg(0)
        .arg(most);
    let mut to_leave = ContentToLeave {
        partition: number,
        reminders: 0,
        has_more: false,
        keys: Vec::new(),
    };
    let Value::Array(items) = partition.reads.run(&command).await? else {
        return Ok(to_leave);
    };
    let now_ms = partition.context.clock.now_ms();
    let last_ms = now_ms - partition.context.limits.window.content_kept_ms();
    for item in &items {
        let reminder = read_reminder(item);
        match reminder {
            Some((at_ms, _)) if at_ms > last_ms && at_ms < now_ms + AHEAD_MS => break,
            Some((at_ms, key)) if at_ms <= last_ms => to_leave.keys.push(key),
            // It keeps its content.
            Some(_) | None => {}
        }
        to_leave.reminders += 1;
    }
    to_leave.has_more = to_leave.reminders == MOST_LOOKED_AT;
    to_leave.keys.sort_unstable();
    to_leave.keys.dedup();
    Ok(to_leave)
}

/// Since when an entry waits, in milliseconds since 1970, and its key; `None` if that cannot be read.
fn read_reminder(item: &Value) -> Option<(i64, Key)> {
    let Value::BulkString(text) = item else {
        return None;
    };
    let (at_ms, key) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((at_ms.parse().ok()?, Key::parse(key).ok()?))
}

/// See [`crate::schedule::ScheduleMaintenance::leave_content`].
pub async fn leave(
    schedule: &RedisSchedule,
    content: &ContentToLeave,
) -> Result<(), ScheduleError> {
    let partition = &schedule.partitions[content.partition];
    let context = &partition.context;
    let mut command = context.call(&partition.leave_content);
    command.arg(content.reminders).arg(CONTENT_NEEDED_MS);
    for key in &content.keys {
        command.arg(key.as_str());
    }
    context
        .run(&partition.bulk, &partition.leave_content, &command)
        .await?;
    Ok(())
}
