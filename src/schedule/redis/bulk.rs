//! Calls about many entries: scanning, restoring, reindexing.

use super::partition::Partition;
use super::reply::ScriptReply;
use super::{RedisSchedule, lane_settings, outages, slot, window};
use crate::clock::Clock as _;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::lane_settings::LaneChanges;
use crate::domain::outage::EndedOutage;
use crate::schedule::default_keys::ScheduleDefaultKeys;
use crate::schedule::endpoints::ScheduleEndpoints;
use crate::schedule::envelope;
use crate::schedule::recoverable::{Recoverable, Reindexed};
use crate::schedule::{Entry, Holding, Restored, Scanned, ScheduleError, ScheduleMaintenance};
use async_trait::async_trait;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::sync::atomic::Ordering;

/// Maximum number of keys looked up by one script.
pub const MOST_LOOKED_UP: usize = 500;
/// Maximum number of entries restored by one script, and maximum of their bytes: a script must not block
/// Redis for much longer than a millisecond.
const MOST_RESTORED: usize = 200;
const MOST_RESTORED_BYTES: usize = 512 * 1024;
/// Maximum number of restore scripts that wait for a reply at a time: while Redis runs one, the next is on
/// the network.
const AT_ONCE: usize = 3;

#[async_trait]
impl ScheduleMaintenance for RedisSchedule {
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError> {
        scan(&self.partitions, ScannedParts::All, cursor, limit).await
    }

    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError> {
        restore(&self.partitions, entries).await
    }

    async fn loaded_until(&self) -> Result<Option<i64>, ScheduleError> {
        window::loaded_until(self).await
    }

    async fn set_loaded_until(&self, due_ms: i64) -> Result<(), ScheduleError> {
        window::set_loaded_until(self.partitions.iter(), due_ms).await
    }

    async fn configure_lanes(&self, changes: &LaneChanges) -> Result<bool, ScheduleError> {
        lane_settings::configure(self, changes).await
    }

    async fn settings_reached(&self) -> Result<Option<i64>, ScheduleError> {
        lane_settings::reached(self).await
    }

    async fn ended_outages(
        &self,
        handled: &[EndedOutage],
    ) -> Result<Vec<EndedOutage>, ScheduleError> {
        outages::ended(self, handled).await
    }

    fn recoverable(&self) -> Option<&dyn Recoverable> {
        Some(self)
    }

    fn endpoints(&self) -> Option<&dyn ScheduleEndpoints> {
        Some(self)
    }

    fn default_keys(&self) -> Option<&dyn ScheduleDefaultKeys> {
        Some(self)
    }
}

/// For each partition, the indices of its lanes in `lanes`.
pub fn by_partition<'lane>(
    lanes: impl Iterator<Item = &'lane Lane>,
    partitions: usize,
) -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new(); partitions];
    for (place, lane) in lanes.enumerate() {
        places[slot(lane.as_str(), partitions)].push(place);
    }
    places
}

/// The entry of one key without its content; `None` if it cannot be read, so that the others are still
/// returned.
pub fn holding(
    key: &str,
    header: &[u8],
    reply: &mut ScriptReply,
) -> Result<Option<Holding>, ScheduleError> {
    let in_flight = reply.number()? == 1;
    match envelope::decode_header(key, header) {
        Ok((state, progress)) => Ok(Some(Holding {
            state,
            progress,
            in_flight,
        })),
        Err(error) => {
            tracing::error!(
                notification = key,
                %error,
                "a notification in the schedule cannot be read; this look-up or scan of the schedule leaves it out"
            );
            Ok(None)
        }
    }
}

/// Which partitions are scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScannedParts {
    /// All.
    All,
    /// Those that this instance has to load.
    Loading,
}

impl ScannedParts {
    /// The first of them from this number on.
    fn from(self, number: usize, partitions: &[Partition]) -> Option<usize> {
        let is_scanned = |number: &usize| match self {
            Self::All => true,
            Self::Loading => partitions[*number].loading.load(Ordering::Relaxed),
        };
        (number..partitions.len()).find(is_scanned)
    }
}

/// Reads a part of all entries in these partitions. A cursor names the partition and the position in it.
pub async fn scan(
    partitions: &[Partition],
    parts: ScannedParts,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Scanned, ScheduleError> {
    let Some((number, place)) = place_of(cursor, partitions, parts)? else {
        return Ok(Scanned {
            holdings: Vec::new(),
            next: None,
        });
    };
    let partition = partitions.get(number).ok_or(ScheduleError::BadCursor)?;
    let context = &partition.context;
    let mut command = context.call(&partition.scan);
    command.arg(place).arg(limit.clamp(1, MOST_LOOKED_UP));
    let mut reply = context
        .read(&partition.bulk, &partition.scan, &command)
        .await?;
    let next = reply.text()?;
    let mut holdings = Vec::new();
    while !reply.is_empty() {
        let (key, lane, header) = (reply.bytes()?, reply.bytes()?, reply.bytes()?);
        let text = String::from_utf8_lossy(&key);
        let holding = holding(&text, &header, &mut reply)?;
        // What cannot be read must not hold up the others.
        match (Key::parse(&text), std::str::from_utf8(&lane), holding) {
            (Ok(key), Ok(lane), Some(holding)) => {
                let lane = Lane::from_name(lane);
                holdings.push((KeyInLane { key, lane }, holding));
            }
            (Ok(_), Ok(_), None) => {}
            (key, _, _) => tracing::error!(
                notification = %text,
                "an entry of the schedule has a {} that is not valid; this scan of the schedule leaves the entry out",
                if key.is_err() { "key" } else { "lane" }
            ),
        }
    }
    let next = next_place(number, partitions, parts, &next);
    Ok(Scanned { holdings, next })
}

/// The partition and the position in it that a cursor names; `None` if there is nothing to scan.
fn place_of<'cursor>(
    cursor: Option<&'cursor str>,
    partitions: &[Partition],
    parts: ScannedParts,
) -> Result<Option<(usize, &'cursor str)>, ScheduleError> {
    let Some(text) = cursor else {
        return Ok(parts.from(0, partitions).map(|number| (number, "0")));
    };
    let (number, place) = text.split_once('-').ok_or(ScheduleError::BadCursor)?;
    let number = number.parse().map_err(|_| ScheduleError::BadCursor)?;
    Ok(Some((number, place)))
}

/// The cursor of the next part; `None` at the end.
fn next_place(
    number: usize,
    partitions: &[Partition],
    parts: ScannedParts,
    place: &str,
) -> Option<String> {
    match place {
        "0" => parts
            .from(number + 1, partitions)
            .map(|next| format!("{next}-0")),
        place => Some(format!("{number}-{place}")),
    }
}

async fn restore(partitions: &[Partition], entries: &[Entry]) -> Result<Restored, ScheduleError> {
    let lanes = entries.iter().map(|entry| &entry.notification.lane);
    let mut places = by_partition(lanes, partitions.len());
    let mut calls = Vec::new();
    for (partition, places) in partitions.iter().zip(&mut places) {
        // A script puts all its entries of one lane in at once. The sort is stable, so these stay in their order.
        places.sort_by_key(|place| entries[*place].notification.lane.as_str());
        for places in cut(places, entries) {
            calls.push(call(partition, places, entries));
        }
    }
    let add = |all: Restored, some: Restored| async move {
        Ok(Restored {
            missing: all.missing + some.missing,
            moved: all.moved + some.moved,
        })
    };
    stream::iter(calls)
        .buffered(AT_ONCE)
        .try_fold(Restored::default(), add)
        .await
}

/// Splits the entries into parts. Each part is restored by one script.
fn cut<'places>(mut places: &'places [usize], entries: &[Entry]) -> Vec<&'places [usize]> {
    let mut parts = Vec::new();
    while !places.is_empty() {
        let mut bytes = 0;
        let many = places.iter().take(MOST_RESTORED).take_while(|place| {
            let fits = bytes < MOST_RESTORED_BYTES;
            bytes += envelope::estimated_bytes(&entries[**place]);
            fits
        });
        let (part, rest) = places.split_at(many.count());
        parts.push(part);
        places = rest;
    }
    parts
}

/// Restores one part. Its entries are encoded when it is sent, while Redis runs the script of the part
/// before.
async fn call(
    partition: &Partition,
    places: &[usize],
    entries: &[Entry],
) -> Result<Restored, ScheduleError> {
    let context = &partition.context;
    let mut command = context.call(&partition.restore);
    command.arg(context.channel());
    let earliest_ms =
        context.add_recorded(&mut command, places.iter().map(|place| &entries[*place]));
    let mut reply = context
        .run(&partition.bulk, &partition.restore, &command)
        .await?;
    context.wake.bring_forward(earliest_ms);
    Ok(Restored {
        missing: reply.number()?.unsigned_abs(),
        moved: reply.number()?.unsigned_abs(),
    })
}

/// See [`crate::schedule::recoverable::Recoverable::reindex`]. A cursor is as for [`scan`].
pub async fn reindex(
    partitions: &[Partition],
    cursor: Option<&str>,
    limit: usize,
) -> Result<Reindexed, ScheduleError> {
    let parts = match ScannedParts::Loading.from(0, partitions) {
        Some(_) => ScannedParts::Loading,
        None => ScannedParts::All,
    };
    let Some((number, place)) = place_of(cursor, partitions, parts)? else {
        return Ok(Reindexed {
            reindexed: 0,
            next: None,
        });
    };
    let partition = partitions.get(number).ok_or(ScheduleError::BadCursor)?;
    let context = &partition.context;
    let mut command = context.call(&partition.reindex);
    command.arg(place).arg(limit.clamp(1, MOST_LOOKED_UP));
    let mut reply = context
        .run(&partition.bulk, &partition.reindex, &command)
        .await?;
    let next = next_place(number, partitions, parts, reply.text()?.as_str());
    let reindexed = reply.number()?.unsigned_abs();
    if reindexed > 0 {
        context.wake.bring_forward(context.clock.now_ms());
    }
    Ok(Reindexed { reindexed, next })
}
