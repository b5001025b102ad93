//! The calls that read entries and change nothing.

use super::MemoryState;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::outage::EndedOutage;
use crate::schedule::lane_status::{LanePage, LaneSelection, LaneStatus};
use crate::schedule::{
    DeadPage, FoundEntry, HeldProgress, Holding, LaneCounts, Scanned, ScheduleCounts, ScheduleError,
};

impl MemoryState {
    pub(in crate::schedule::memory) fn find(&self, key: &Key) -> Option<FoundEntry> {
        self.jobs.get(key).map(|job| FoundEntry {
            entry: job.entry.clone(),
            in_flight: job.lease.is_some(),
        })
    }

    pub(in crate::schedule::memory) fn in_flight(&self, key: &Key) -> bool {
        let job = self.jobs.get(key);
        job.is_some_and(|job| job.lease.is_some()) || self.reserved.contains_key(key)
    }

    pub(in crate::schedule::memory) fn ended_outages(
        &mut self,
        handled: &[EndedOutage],
    ) -> Vec<EndedOutage> {
        self.outages.forget(handled);
        self.outages.some()
    }

    pub(in crate::schedule::memory) fn holding(&self, key: &Key) -> Option<Holding> {
        self.jobs.get(key).map(|job| Holding {
            state: job.entry.state,
            progress: HeldProgress::Whole(job.entry.progress),
            in_flight: job.lease.is_some(),
        })
    }

    pub(in crate::schedule::memory) fn scan(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Scanned, ScheduleError> {
        let start: usize = match cursor {
            Some(text) => text.parse().map_err(|_| ScheduleError::BadCursor)?,
            None => 0,
        };
        let end = start.saturating_add(limit.max(1));
        let holdings = (start..end.min(self.scan_slots.capacity()))
            .filter_map(|slot| self.scan_slots.get(slot))
            .filter_map(|key| {
                let notification = &self.jobs.get(key)?.entry.notification;
                Some((notification.key_in_lane(), self.holding(key)?))
            })
            .collect();
        let next = (end < self.scan_slots.capacity()).then(|| end.to_string());
        Ok(Scanned { holdings, next })
    }

    pub(in crate::schedule::memory) fn dead(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<DeadPage, ScheduleError> {
        let (keys, next) = self.ended.page(cursor, limit)?;
        let entries = keys
            .into_iter()
            .filter_map(|key| self.jobs.get(key))
            .map(|job| job.entry.clone())
            .collect();
        Ok(DeadPage { entries, next })
    }

    pub(in crate::schedule::memory) fn counts(&self) -> ScheduleCounts {
        let count = |many: usize| u64::try_from(many).unwrap_or(u64::MAX);
        ScheduleCounts {
            pending: count(self.jobs.len().saturating_sub(self.ended.count())),
            in_flight: count(self.leases.len() + self.reserved.len()),
            dead: count(self.ended.dead_count()),
        }
    }

    pub(in crate::schedule::memory) fn lane_counts(&self) -> LaneCounts {
        self.lanes.counts()
    }

    pub(in crate::schedule::memory) fn lane(
        &self,
        lane: &Lane,
        held_until_ms: i64,
        now_ms: i64,
    ) -> LaneStatus {
        self.lanes.status(lane, held_until_ms, now_ms)
    }

    pub(in crate::schedule::memory) fn lane_page(
        &self,
        selection: LaneSelection,
        cursor: Option<&str>,
        limit: usize,
        times: (i64, i64),
    ) -> LanePage {
        self.lanes.page(selection, cursor, limit, times)
    }

    pub(in crate::schedule::memory) fn lane_in_flight(&self, lane: &Lane) -> usize {
        self.lanes.leases(lane)
    }
}
