//! How many entries are pending, by the sizes of the lanes: an entry that waits may be in its lane alone.

use super::partition::Partition;
use crate::schedule::ScheduleError;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use redis::Value;

/// About how many lanes are looked at in one step: that takes a script less than a millisecond.
const LANES_AT_ONCE: usize = 250;
/// Maximum number of commands that wait for a reply at a time.
const COMMANDS_AT_ONCE: usize = 64;

/// The pending entries of a partition.
pub(super) async fn of(partition: &Partition) -> Result<u64, ScheduleError> {
    match by_script(partition).await {
        // A node of a cluster refuses scripts while the slot is on its way to another node, but not single commands.
        Err(ScheduleError::Unavailable(_)) if partition.context.keys.absent().is_some() => {
            by_commands(partition).await
        }
        counted => counted,
    }
}

async fn by_script(partition: &Partition) -> Result<u64, ScheduleError> {
    let context = &partition.context;
    let (mut many, mut cursor) = (0, "0".to_string());
    loop {
        let mut command = context.call(&partition.pending);
        command.arg(&cursor).arg(LANES_AT_ONCE);
        let reading = context.read(&partition.reads, &partition.pending, &command);
        let mut reply = reading.await?;
        cursor = reply.text()?;
        many += reply.number()?.unsigned_abs();
        if cursor == "0" {
            return Ok(many);
        }
    }
}

/// Without those that were put in under the lease of their key, and wait for its end.
async fn by_commands(partition: &Partition) -> Result<u64, ScheduleError> {
    let keys = &partition.context.keys;
    let (mut many, mut cursor) = (0, "0".to_string());
    loop {
        let mut scan = redis::cmd("ZSCAN");
        scan.arg(keys.lanes()).arg(&cursor);
        scan.arg("COUNT").arg(LANES_AT_ONCE);
        let (next, lanes) = page(partition.reads.run(&scan).await?).ok_or_else(|| {
            ScheduleError::Corrupt(format!("{} is not a sorted set of lanes", keys.lanes()))
        })?;
        let counted = lanes.iter().flat_map(|lane| {
            let prefix = keys.prefix();
            let sets = [
                format!("{prefix}lane:{lane}"),
                format!("{prefix}leased:{lane}"),
            ];
            sets.map(|set| async move {
                match partition.reads.run(redis::cmd("ZCARD").arg(&set)).await? {
                    Value::Int(size) => Ok(size.unsigned_abs()),
                    _ => Err(ScheduleError::Corrupt(format!("{set} has another type"))),
                }
            })
        });
        let counted: Vec<_> = counted.collect();
        let adding = stream::iter(counted).buffer_unordered(COMMANDS_AT_ONCE);
        many += adding
            .try_fold(0, |sum, size| async move { Ok(sum + size) })
            .await?;
        cursor = next;
        if cursor == "0" {
            return Ok(many);
        }
    }
}

/// The next cursor and the members in a reply to ZSCAN.
fn page(reply: Value) -> Option<(String, Vec<String>)> {
    let (cursor, found): (String, Vec<(String, f64)>) = redis::from_redis_value(reply).ok()?;
    Some((cursor, found.into_iter().map(|(lane, _)| lane).collect()))
}
