//! How many lanes are in which state, from the order in which they are served (lua/lanes.lua).
//!
//! A lane that is held has no turn: its score is the last one of its class. The order has no lane without waiting or leased
//! entries.

use super::partition::Partition;
use crate::schedule::{LaneCounts, ScheduleError};
use redis::Value;

/// The distance of the scores of two classes: `CLASS_US` of lua/lanes.lua.
const CLASS_US: i64 = 1 << 52;
/// The numbers of the classes there; the last one is that of the lanes that are probed.
const CLASSES: [i64; 4] = [-2, -1, 0, 1];

/// The lanes of a partition.
pub(super) async fn of(partition: &Partition) -> Result<LaneCounts, ScheduleError> {
    let count = async |from: i64, to: i64| {
        let mut command = redis::cmd("ZCOUNT");
        command
            .arg(partition.context.keys.lanes())
            .arg(from)
            .arg(to);
        match partition.reads.run(&command).await? {
            Value::Int(count) => Ok(u64::try_from(count).unwrap_or(0)),
            _ => {
                let problem = format!("{} has another type", partition.context.keys.lanes());
                Err(ScheduleError::Corrupt(problem))
            }
        }
    };
    let mut counts = LaneCounts::default();
    for class in CLASSES {
        let (from, never) = (class * CLASS_US, (class + 1) * CLASS_US - 1);
        counts.held += count(never, never).await?;
        let lanes = count(from, never - 1).await?;
        match class {
            1 => counts.probing += lanes,
            _ => counts.open += lanes,
        }
    }
    Ok(counts)
}
