//! A schedule around another one: it sees every call and its reply, and passes on what it does not change.
//!
//! Calls of [`Recoverable`], [`ScheduleEndpoints`] and [`ScheduleDefaultKeys`] go past it, to the store itself.
//!
//! The list of calls is here once. A type that watches, times or delays them implements
//! [`ScheduleDecorator`].

use super::default_keys::ScheduleDefaultKeys;
use super::endpoints::ScheduleEndpoints;
use super::lane_status::{LanePage, LaneSelection, LaneStatus};
use super::memory_budget::{MemoryLimitReached, MemoryReservation, MemoryUse};
use super::recoverable::Recoverable;
use super::skipped::SkippedLanes;
use super::wake::Wake;
use super::window::LoadedWindow;
use super::{
    ClaimQuota, Claimed, Configured, ContentToLeave, DeadPage, Entry, FoundEntry, Holding,
    LaneCounts, Lease, LeaseRequest, LeasedOne, Limits, Registered, Reservation, Restored, Scanned,
    Schedule, ScheduleCounts, ScheduleError, ScheduleLeases, ScheduleMaintenance, ScheduleReads,
    SettingsReached, Settled, Settlement,
};
use crate::clock::Clock;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::lane_settings::LaneChanges;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::notification::Notification;
use crate::domain::outage::EndedOutage;
use crate::domain::place::PlaceInLane;
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

/// A call to a schedule, by the name of its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is documented where it is a method of `Schedule`"
)]
pub enum ScheduleCall {
    Register,
    Claim,
    Settle,
    Renew,
    LeaseOne,
    EndReservation,
    Find,
    InFlight,
    Holds,
    Scan,
    Restore,
    RestorePlaces,
    LeaveContent,
    LoadedUntil,
    SetLoadedUntil,
    Dead,
    Counts,
    LaneCounts,
    Check,
    LaneInFlight,
    Lane,
    Lanes,
    ConfigureLanes,
    CallLaneNow,
    SettingsReached,
    EndedOutages,
}

/// A schedule around another one. Everything that implements this is a [`Schedule`].
pub trait ScheduleDecorator: Send + Sync + 'static {
    /// The schedule that does the work.
    fn inner(&self) -> &dyn Schedule;

    /// Makes a call to the inner schedule. The call begins when `calling` is first polled.
    fn around<T: Send>(
        &self,
        call: ScheduleCall,
        calling: impl Future<Output = Result<T, ScheduleError>> + Send,
    ) -> impl Future<Output = Result<T, ScheduleError>> + Send;

    /// See [`ScheduleLeases::clock`].
    fn clock(&self) -> Arc<dyn Clock> {
        self.inner().clock()
    }

    /// See [`ScheduleLeases::reserve_memory`].
    ///
    /// # Errors
    /// As there.
    fn reserve_memory(
        &self,
        notification: &Notification,
    ) -> Result<MemoryReservation, MemoryLimitReached> {
        self.inner().reserve_memory(notification)
    }
}

/// A call with an empty list may be answered without the store, so the decorator does not see it.
macro_rules! unless_empty {
    ($self:ident, $call:ident, $method:ident, $list:expr) => {
        if $list.is_empty() {
            $self.inner().$method($list).await
        } else {
            $self
                .around(ScheduleCall::$call, $self.inner().$method($list))
                .await
        }
    };
}

#[async_trait]
impl<Decorator: ScheduleDecorator> ScheduleLeases for Decorator {
    fn clock(&self) -> Arc<dyn Clock> {
        ScheduleDecorator::clock(self)
    }

    fn wake(&self) -> &Wake {
        self.inner().wake()
    }

    fn skipped_lanes(&self) -> &SkippedLanes {
        self.inner().skipped_lanes()
    }

    fn limits(&self) -> Limits {
        self.inner().limits()
    }

    fn reserve_memory(
        &self,
        notification: &Notification,
    ) -> Result<MemoryReservation, MemoryLimitReached> {
        ScheduleDecorator::reserve_memory(self, notification)
    }

    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        let calling = self.inner().register(entry);
        self.around(ScheduleCall::Register, calling).await
    }

    async fn claim(&self, quota: ClaimQuota) -> Result<Claimed, ScheduleError> {
        let calling = self.inner().claim(quota);
        self.around(ScheduleCall::Claim, calling).await
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        let calling = self.inner().settle(lease, settlement);
        self.around(ScheduleCall::Settle, calling).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        let calling = self.inner().renew(lease);
        self.around(ScheduleCall::Renew, calling).await
    }

    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        let calling = self.inner().lease_one(request);
        self.around(ScheduleCall::LeaseOne, calling).await
    }

    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError> {
        let calling = self.inner().end_reservation(lease, reservation);
        self.around(ScheduleCall::EndReservation, calling).await
    }
}

#[async_trait]
impl<Decorator: ScheduleDecorator> ScheduleReads for Decorator {
    async fn find(&self, key: &Key) -> Result<Option<FoundEntry>, ScheduleError> {
        let calling = self.inner().find(key);
        self.around(ScheduleCall::Find, calling).await
    }

    async fn holds(&self, entries: &[KeyInLane]) -> Result<Vec<Option<Holding>>, ScheduleError> {
        unless_empty!(self, Holds, holds, entries)
    }

    async fn in_flight(&self, entries: &[KeyInLane]) -> Result<Vec<bool>, ScheduleError> {
        unless_empty!(self, InFlight, in_flight, entries)
    }

    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError> {
        let calling = self.inner().dead(cursor, limit);
        self.around(ScheduleCall::Dead, calling).await
    }

    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError> {
        let calling = self.inner().counts();
        self.around(ScheduleCall::Counts, calling).await
    }

    async fn lane_counts(&self) -> Result<LaneCounts, ScheduleError> {
        let calling = self.inner().lane_counts();
        self.around(ScheduleCall::LaneCounts, calling).await
    }

    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError> {
        let calling = self.inner().lane_in_flight(lane);
        self.around(ScheduleCall::LaneInFlight, calling).await
    }

    async fn lane(&self, lane: &Lane) -> Result<LaneStatus, ScheduleError> {
        let calling = self.inner().lane(lane);
        self.around(ScheduleCall::Lane, calling).await
    }

    async fn lanes(
        &self,
        selection: LaneSelection,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<LanePage, ScheduleError> {
        let calling = self.inner().lanes(selection, cursor, limit);
        self.around(ScheduleCall::Lanes, calling).await
    }

    fn memory(&self) -> Option<MemoryUse> {
        self.inner().memory()
    }

    async fn check(&self) -> Result<(), ScheduleError> {
        let calling = self.inner().check();
        self.around(ScheduleCall::Check, calling).await
    }
}

#[async_trait]
impl<Decorator: ScheduleDecorator> ScheduleMaintenance for Decorator {
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError> {
        let calling = self.inner().scan(cursor, limit);
        self.around(ScheduleCall::Scan, calling).await
    }

    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError> {
        unless_empty!(self, Restore, restore, entries)
    }

    fn leaves_content(&self) -> bool {
        self.inner().leaves_content()
    }

    async fn restore_places(&self, places: &[PlaceInLane]) -> Result<Restored, ScheduleError> {
        unless_empty!(self, RestorePlaces, restore_places, places)
    }

    async fn content_to_leave(&self) -> Result<Vec<ContentToLeave>, ScheduleError> {
        let calling = self.inner().content_to_leave();
        self.around(ScheduleCall::LeaveContent, calling).await
    }

    async fn leave_content(&self, content: &ContentToLeave) -> Result<(), ScheduleError> {
        let calling = self.inner().leave_content(content);
        self.around(ScheduleCall::LeaveContent, calling).await
    }

    fn part_of(&self, lane: &Lane) -> usize {
        self.inner().part_of(lane)
    }

    fn out_of_reach(&self) -> BTreeSet<usize> {
        self.inner().out_of_reach()
    }

    fn is_partly_out_of_reach(&self) -> bool {
        self.inner().is_partly_out_of_reach()
    }

    async fn loaded_until(&self, left_out: &BTreeSet<usize>) -> Result<Option<i64>, ScheduleError> {
        let calling = self.inner().loaded_until(left_out);
        self.around(ScheduleCall::LoadedUntil, calling).await
    }

    async fn set_loaded_until(
        &self,
        loaded: LoadedWindow,
        left_out: &BTreeSet<usize>,
    ) -> Result<i64, ScheduleError> {
        let calling = self.inner().set_loaded_until(loaded, left_out);
        self.around(ScheduleCall::SetLoadedUntil, calling).await
    }

    async fn configure_lanes(
        &self,
        changes: &LaneChanges,
        reached: &SettingsReached,
    ) -> Result<Configured, ScheduleError> {
        let calling = self.inner().configure_lanes(changes, reached);
        self.around(ScheduleCall::ConfigureLanes, calling).await
    }

    async fn call_lane_now(&self, lane: &Lane) -> Result<(), ScheduleError> {
        let calling = self.inner().call_lane_now(lane);
        self.around(ScheduleCall::CallLaneNow, calling).await
    }

    async fn settings_reached(
        &self,
        lane: Option<&Lane>,
    ) -> Result<SettingsReached, ScheduleError> {
        let calling = self.inner().settings_reached(lane);
        self.around(ScheduleCall::SettingsReached, calling).await
    }

    async fn ended_outages(
        &self,
        handled: &[EndedOutage],
    ) -> Result<Vec<EndedOutage>, ScheduleError> {
        let calling = self.inner().ended_outages(handled);
        self.around(ScheduleCall::EndedOutages, calling).await
    }

    fn recoverable(&self) -> Option<&dyn Recoverable> {
        self.inner().recoverable()
    }

    fn endpoints(&self) -> Option<&dyn ScheduleEndpoints> {
        self.inner().endpoints()
    }

    fn default_keys(&self) -> Option<&dyn ScheduleDefaultKeys> {
        self.inner().default_keys()
    }
}
