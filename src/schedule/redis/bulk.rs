//! Calls about many entries: scanning and reindexing. Restoring is in `restoring.rs`.

use super::partition::Partition;
use super::reply::ScriptReply;
use super::{RedisSchedule, contents, lane_settings, outages, restoring, slot, window};
use crate::clock::Clock as _;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::lane_settings::LaneChanges;
use crate::domain::outage::EndedOutage;
use crate::domain::place::PlaceInLane;
use crate::schedule::default_keys::ScheduleDefaultKeys;
use crate::schedule::endpoints::ScheduleEndpoints;
use crate::schedule::envelope;
use crate::schedule::recoverable::{Recoverable, Reindexed};
use crate::schedule::window::LoadedWindow;
use crate::schedule::{
    Configured, ContentToLeave, Entry, Holding, Restored, Scanned, ScheduleError,
    ScheduleMaintenance, SettingsReached,
};
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Maximum number of keys looked up by one script.
pub const MOST_LOOKED_UP: usize = 500;

#[async_trait]
impl ScheduleMaintenance for RedisSchedule {
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError> {
        scan(&self.partitions, ScannedParts::All, cursor, limit).await
    }

    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError> {
        restoring::restore(&self.partitions, entries).await
    }

    fn leaves_content(&self) -> bool {
        self.partitions
            .iter()
            .all(|partition| partition.context.leaves_bodies)
    }

    async fn restore_places(&self, places: &[PlaceInLane]) -> Result<Restored, ScheduleError> {
        restoring::restore(&self.partitions, places).await
    }

    async fn content_to_leave(&self) -> Result<Vec<ContentToLeave>, ScheduleError> {
        contents::to_leave(self).await
    }

    async fn leave_content(&self, content: &ContentToLeave) -> Result<(), ScheduleError> {
        contents::leave(self, content).await
    }

    fn part_of(&self, lane: &Lane) -> usize {
        slot(lane.as_str(), self.partitions.len())
    }

    fn out_of_reach(&self) -> BTreeSet<usize> {
        let away = self.away.as_ref();
        away.map(|away| away.all()).unwrap_or_default()
    }

    fn is_partly_out_of_reach(&self) -> bool {
        let away = self.away.as_ref().map_or(0, |away| away.many());
        away > 0 && away < self.partitions.len()
    }

    async fn loaded_until(&self, left_out: &BTreeSet<usize>) -> Result<Option<i64>, ScheduleError> {
        window::loaded_until(self, left_out).await
    }

    async fn set_loaded_until(
        &self,
        loaded: LoadedWindow,
        left_out: &BTreeSet<usize>,
    ) -> Result<i64, ScheduleError> {
        let partitions = self.partitions.iter().enumerate();
        let others = partitions.filter(|(number, _)| !left_out.contains(number));
        window::set_loaded_until(others.map(|(_, partition)| partition), loaded).await
    }

    async fn configure_lanes(
        &self,
        changes: &LaneChanges,
        reached: &SettingsReached,
    ) -> Result<Configured, ScheduleError> {
        lane_settings::configure(self, changes, reached).await
    }

    async fn call_lane_now(&self, lane: &Lane) -> Result<(), ScheduleError> {
        lane_settings::call_now(self.partition(lane), lane).await
    }

    async fn settings_reached(
        &self,
        lane: Option<&Lane>,
    ) -> Result<SettingsReached, ScheduleError> {
        lane_settings::reached(self, lane).await
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
