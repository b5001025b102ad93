//! How long an entry has its content in Redis.
//!
//! With a journal and a horizon, what was registered keeps its content for some minutes, although the journal has it: a
//! journal that loses what it has accepted last, as to a primary that fails over, gets it back from here. After that, what
//! is not due soon is bare: it is in its lane alone, about 50 bytes and not a thousand, and the attempt reads the rest in the
//! journal (`delivery::bare`).
//!
//! The list `contents` of a partition has what was registered so far ahead, oldest first. It is only a reminder: what is
//! missing in it keeps its content until it is sent.

use super::RedisSchedule;
use super::partition::Partition;
use crate::schedule::ScheduleError;
use crate::schedule::window::CONTENT_NEEDED_MS;
use futures_util::stream::{self, StreamExt as _};

/// Maximum number of entries that one script looks at: a script must not block Redis for much longer than a millisecond.
const MOST_LOOKED_AT: u64 = 100;
/// Maximum number of scripts that a call runs in a partition, one after the other: other commands go in between.
const MOST_SCRIPTS: usize = 4;
/// Maximum number of partitions that are called at a time.
const AT_ONCE: usize = 4;

/// See [`crate::schedule::ScheduleMaintenance::leave_content`].
pub async fn leave(schedule: &RedisSchedule) -> Result<bool, ScheduleError> {
    let calls: Vec<_> = (schedule.partitions.iter())
        .filter(|partition| partition.context.leaves_bodies)
        .map(leave_in)
        .collect();
    // A partition that is away does not concern the others.
    let left: Vec<Result<bool, ScheduleError>> =
        stream::iter(calls).buffered(AT_ONCE).collect().await;
    let mut has_more = false;
    for of_partition in left {
        has_more |= of_partition?;
    }
    Ok(has_more)
}

/// Leaves the content of some entries of one partition. Returns whether there may be more.
async fn leave_in(partition: &Partition) -> Result<bool, ScheduleError> {
    for _ in 0..MOST_SCRIPTS {
        if run_script(partition).await? < MOST_LOOKED_AT {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns how many entries were looked at.
async fn run_script(partition: &Partition) -> Result<u64, ScheduleError> {
    let context = &partition.context;
    let mut command = context.call(&partition.leave_content);
    command
        .arg(MOST_LOOKED_AT)
        .arg(context.limits.window.content_kept_ms())
        .arg(CONTENT_NEEDED_MS);
    let mut reply = context
        .run(&partition.bulk, &partition.leave_content, &command)
        .await?;
    Ok(reply.number()?.unsigned_abs())
}
