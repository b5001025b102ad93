//! How many lanes are in which state, from the order in which they are served (lua/lane_turns.lua).
//!
//! A lane that is held has no turn: its score is the last one of its class. The order has no lane without waiting or leased
//! entries.

use super::partition::Partition;
use crate::schedule::{LaneCounts, ScheduleError};
use futures_util::future::try_join_all;
use redis::Value;

/// The distance of the scores of two classes: `CLASS_US` of lua/lane_turns.lua.
const CLASS_US: i64 = 1 << 52;
/// The numbers of the classes there.
const CLASSES: [i64; 4] = [-2, -1, 0, PROBING];
/// The number of the class of the lanes that are probed.
const PROBING: i64 = 1;

/// The lanes of all partitions. All are asked at once.
pub(super) async fn of(partitions: &[Partition]) -> Result<LaneCounts, ScheduleError> {
    let asked = partitions.iter().flat_map(|partition| {
        CLASSES.map(|class| async move {
            let (from, never) = (class * CLASS_US, (class + 1) * CLASS_US - 1);
            let held = count(partition, never, never).await?;
            let others = count(partition, from, never - 1).await?;
            Ok::<_, ScheduleError>((class, held, others))
        })
    });
    let mut counts = LaneCounts::default();
    for (class, held, others) in try_join_all(asked).await? {
        counts.held += held;
        match class {
            PROBING => counts.probing += others,
            _ => counts.open += others,
        }
    }
    Ok(counts)
}

/// How many lanes have a score from one to another.
async fn count(partition: &Partition, from: i64, to: i64) -> Result<u64, ScheduleError> {
    let key = partition.context.keys.lanes();
    let mut command = redis::cmd("ZCOUNT");
    command.arg(key).arg(from).arg(to);
    match partition.reads.run(&command).await? {
        Value::Int(count) => Ok(u64::try_from(count).unwrap_or(0)),
        _ => Err(ScheduleError::Corrupt(format!("{key} has another type"))),
    }
}
