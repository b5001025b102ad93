//! The schedule in this process's memory, for the embedded mode.
//!
//! Owns nothing that outlives the process: the journal is the record, and the schedule is rebuilt
//! from it at start. Keeps the contract of [`crate::schedule`] for any number of tasks. Every call is
//! executed under one lock, which is held for a few steps in sorted sets and never across a wait. The time
//! is read under the lock, so the calls read the clock in the order in which they are executed.
//!
//! With a journal, a body is kept in memory if its first attempt is due soon, while bodies take at most
//! half of the limit; or if it is small, while they take at most an eighth. Any other body is left to the
//! journal, and the attempt reads it there ([`crate::domain::body`]). So pending notifications take little
//! memory, and a notification that is sent at once needs no read.

mod bodies;
mod ended;
mod lanes;
mod order_turns;
mod outages;
mod resting;
mod state;
#[cfg(test)]
mod tests;
mod timed;
mod unknown_changes;
mod waiting;

use crate::clock::Clock;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::lane_settings::LaneChanges;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::notification::Notification;
use crate::domain::outage::EndedOutage;
use crate::schedule::lane_status::{LanePage, LaneSelection, LaneStatus};
use crate::schedule::memory_budget::{
    MemoryBudget, MemoryLimitReached, MemoryReservation, MemoryUse,
};
use crate::schedule::recoverable::Recoverable;
use crate::schedule::skipped::SkippedLanes;
use crate::schedule::wake::Wake;
use crate::schedule::window::{LoadedWindow, Window};
use crate::schedule::{
    ClaimQuota, Claimed, Configured, DeadPage, Entry, FoundEntry, Holding, LaneCounts, Lease,
    LeaseRequest, LeasedOne, Limits, Registered, Reservation, Restored, Scanned, ScheduleCounts,
    ScheduleError, ScheduleLeases, ScheduleMaintenance, ScheduleReads, SettingsReached, Settled,
    Settlement,
};
use async_trait::async_trait;
use bodies::HeldBodies;
use state::MemoryState;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

/// The schedule of one process.
pub struct MemorySchedule {
    clock: Arc<dyn Clock>,
    limits: Limits,
    wake: Wake,
    skipped: SkippedLanes,
    state: Mutex<MemoryState>,
    budget: Arc<MemoryBudget>,
}

/// How much memory a schedule may take by default, in bytes.
pub const MEMORY_BYTES: usize = 512 * 1024 * 1024;

impl MemorySchedule {
    /// An empty schedule that uses `clock`, and keeps every body in memory.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        Self::with(clock, limits, MEMORY_BYTES, HeldBodies::Held)
    }

    /// An empty schedule over a journal, which has every body. It takes about `memory_bytes` at most.
    #[must_use]
    pub fn over_journal(clock: Arc<dyn Clock>, limits: Limits, memory_bytes: usize) -> Self {
        Self::with(clock, limits, memory_bytes, HeldBodies::LeftToJournal)
    }

    fn with(
        clock: Arc<dyn Clock>,
        limits: Limits,
        memory_bytes: usize,
        bodies: HeldBodies,
    ) -> Self {
        let budget = MemoryBudget::new(memory_bytes);
        Self {
            clock,
            limits,
            wake: Wake::default(),
            skipped: SkippedLanes::default(),
            state: Mutex::new(MemoryState::new(limits, bodies, budget.clone())),
            budget,
        }
    }

    /// A panic under the lock is a bug, and a change may be half done. Then no call is executed any more;
    /// a restart rebuilds the schedule from the journal.
    fn state(&self) -> Result<MutexGuard<'_, MemoryState>, ScheduleError> {
        self.state.lock().map_err(|_| {
            ScheduleError::Corrupt("a change was left unfinished; restart the server".into())
        })
    }

    /// See [`ScheduleMaintenance::loaded_until`].
    fn loaded_until_ms(&self) -> Result<Option<i64>, ScheduleError> {
        match self.limits.window == Window::WHOLE {
            true => Ok(Some(i64::MAX)),
            false => Ok(self.state()?.loaded_until_ms),
        }
    }

    /// By which due time everything that is pending is here, and the time now.
    fn held_until_ms(&self) -> Result<(i64, i64), ScheduleError> {
        let now_ms = self.clock.now_ms();
        let loaded_until_ms = self.loaded_until_ms()?;
        Ok((Window::held_until_ms(loaded_until_ms, now_ms), now_ms))
    }

    /// Applies a change, and wakes the dispatcher if there is something to claim earlier now.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut MemoryState, i64) -> T,
    ) -> Result<T, ScheduleError> {
        let mut state = self.state()?;
        let result = change(&mut state, self.clock.now_ms());
        let next_ms = state.next_ms();
        drop(state);
        if let Some(next_ms) = next_ms {
            self.wake.bring_forward(next_ms);
        }
        Ok(result)
    }
}

#[async_trait]
impl ScheduleLeases for MemorySchedule {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }

    fn skipped_lanes(&self) -> &SkippedLanes {
        &self.skipped
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn reserve_memory(
        &self,
        notification: &Notification,
    ) -> Result<MemoryReservation, MemoryLimitReached> {
        self.budget.reserve(notification)
    }

    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        self.change(|state, now_ms| state.register(entry, now_ms))
    }

    async fn claim(&self, quota: ClaimQuota) -> Result<Claimed, ScheduleError> {
        // Does not wake the dispatcher: the reply of the claim says when there is more.
        let mut state = self.state()?;
        state.skip(self.skipped.current());
        Ok(state.claim(quota, self.clock.now_ms()))
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        let window = self.limits.window;
        self.change(|state, now_ms| state.settle(&lease, settlement.within(window, now_ms), now_ms))
    }

    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        self.change(|state, now_ms| state.renew(lease, now_ms))
    }

    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        self.change(|state, now_ms| state.lease_one(request, now_ms))
    }

    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError> {
        let window = self.limits.window;
        self.change(|state, now_ms| {
            state.end_reservation(&lease, reservation.within(window, now_ms), now_ms)
        })
    }
}

#[async_trait]
impl ScheduleReads for MemorySchedule {
    async fn find(&self, key: &Key) -> Result<Option<FoundEntry>, ScheduleError> {
        Ok(self.state()?.find(key))
    }

    async fn holds(&self, entries: &[KeyInLane]) -> Result<Vec<Option<Holding>>, ScheduleError> {
        let state = self.state()?;
        Ok(entries
            .iter()
            .map(|entry| state.holding(&entry.key))
            .collect())
    }

    async fn in_flight(&self, entries: &[KeyInLane]) -> Result<Vec<bool>, ScheduleError> {
        let state = self.state()?;
        Ok(entries
            .iter()
            .map(|entry| state.in_flight(&entry.key))
            .collect())
    }

    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError> {
        self.state()?.dead(cursor, limit)
    }

    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError> {
        Ok(self.state()?.counts())
    }

    async fn lane_counts(&self) -> Result<LaneCounts, ScheduleError> {
        Ok(self.state()?.lane_counts())
    }

    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError> {
        Ok(self.state()?.lane_in_flight(lane))
    }

    async fn lane(&self, lane: &Lane) -> Result<LaneStatus, ScheduleError> {
        let (held_until_ms, now_ms) = self.held_until_ms()?;
        Ok(self.state()?.lane(lane, held_until_ms, now_ms))
    }

    async fn lanes(
        &self,
        selection: LaneSelection,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<LanePage, ScheduleError> {
        let times = self.held_until_ms()?;
        Ok(self.state()?.lane_page(selection, cursor, limit, times))
    }

    fn memory(&self) -> Option<MemoryUse> {
        Some(self.budget.memory())
    }

    async fn check(&self) -> Result<(), ScheduleError> {
        drop(self.state()?);
        let checked = self.budget.check();
        checked.map_err(|full| ScheduleError::Unavailable(full.to_string()))
    }
}

#[async_trait]
impl ScheduleMaintenance for MemorySchedule {
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError> {
        self.state()?.scan(cursor, limit)
    }

    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError> {
        self.change(|state, now_ms| state.restore(entries, now_ms))
    }

    async fn loaded_until(
        &self,
        _left_out: &BTreeSet<usize>,
    ) -> Result<Option<i64>, ScheduleError> {
        self.loaded_until_ms()
    }

    async fn set_loaded_until(
        &self,
        loaded: LoadedWindow,
        _left_out: &BTreeSet<usize>,
    ) -> Result<i64, ScheduleError> {
        self.state()?.loaded_until_ms = Some(loaded.until_ms);
        Ok(loaded.until_ms)
    }

    async fn configure_lanes(
        &self,
        changes: &LaneChanges,
        _reached: &SettingsReached,
    ) -> Result<Configured, ScheduleError> {
        let configured = self.change(|state, now_ms| state.configure_lanes(changes, now_ms))?;
        // Lanes that were due are no earlier than before, and may be claimed only now.
        self.wake.bring_forward(self.clock.now_ms());
        Ok(configured)
    }

    async fn call_lane_now(&self, lane: &Lane) -> Result<(), ScheduleError> {
        self.change(|state, now_ms| state.call_lane_now(lane, now_ms))?;
        self.wake.bring_forward(self.clock.now_ms());
        Ok(())
    }

    async fn settings_reached(
        &self,
        _lane: Option<&Lane>,
    ) -> Result<SettingsReached, ScheduleError> {
        Ok(self.state()?.settings_reached())
    }

    async fn ended_outages(
        &self,
        handled: &[EndedOutage],
    ) -> Result<Vec<EndedOutage>, ScheduleError> {
        Ok(self.state()?.ended_outages(handled))
    }

    fn recoverable(&self) -> Option<&dyn Recoverable> {
        None
    }
}
