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
use super::context::Context;
use super::partition::Partition;
use crate::schedule::ScheduleError;
use futures_util::stream::{self, StreamExt as _};

/// How long before it is due it can still be left to the journal, in milliseconds.
const DUE_SOON_MS: i64 = 60_000;
/// Maximum number of entries that one script looks at: a script must not block Redis for much longer than a millisecond.
const MOST_LOOKED_AT: u64 = 200;
/// Maximum number of partitions that are called at a time.
const AT_ONCE: usize = 4;

/// How long before it is due a notification must be registered to be left to the journal some time, in milliseconds; `None` if
/// nothing is.
pub fn registered_ahead_ms(context: &Context) -> Option<i64> {
    let kept_ms = context.limits.window.content_kept_ms();
    context.leaves_bodies.then_some(kept_ms + DUE_SOON_MS)
}

/// See [`crate::schedule::ScheduleMaintenance::leave_content`].
pub async fn leave(schedule: &RedisSchedule) -> Result<bool, ScheduleError> {
    let calls: Vec<_> = (schedule.partitions.iter())
        .filter(|partition| partition.context.leaves_bodies)
        .map(leave_in)
        .collect();
    // A partition that is away does not concern the others.
    let looked_at: Vec<Result<u64, ScheduleError>> =
        stream::iter(calls).buffered(AT_ONCE).collect().await;
    let mut has_more = false;
    for looked_at in looked_at {
        has_more |= looked_at? == MOST_LOOKED_AT;
    }
    Ok(has_more)
}

/// Leaves the content of some entries of one partition. Returns how many were looked at.
async fn leave_in(partition: &Partition) -> Result<u64, ScheduleError> {
    let context = &partition.context;
    let mut command = context.call(&partition.leave_content);
    command
        .arg(MOST_LOOKED_AT)
        .arg(context.limits.window.content_kept_ms())
        .arg(DUE_SOON_MS);
    let mut reply = context
        .run(&partition.bulk, &partition.leave_content, &command)
        .await?;
    Ok(reply.number()?.unsigned_abs())
}
