//! A schedule whose calls tell [`crate::health`] how it is doing. Changes nothing of what is asked
//! and answered.

use super::recoverable::Recoverable;
use super::room::{Full, MemoryUse, Room};
use super::wake::Wake;
use super::{
    Claimed, DeadPage, Entry, Found, Holding, Lease, LeaseRequest, LeasedOne, Limits, Registered,
    Reservation, Restored, Scanned, Schedule, ScheduleCounts, ScheduleError, Settled, Settlement,
};
use crate::clock::Clock;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::notification::Notification;
use crate::health::{Ended, Health, Store, Work};
use async_trait::async_trait;
use std::future::Future;
use std::sync::Arc;

/// A schedule under watch.
pub struct WatchedSchedule {
    schedule: Arc<dyn Schedule>,
    health: Arc<Health>,
}

impl WatchedSchedule {
    /// Watches a schedule.
    #[must_use]
    pub fn new(schedule: Arc<dyn Schedule>, health: Arc<Health>) -> Self {
        Self { schedule, health }
    }

    async fn watch<T>(
        &self,
        work: Work,
        calling: impl Future<Output = Result<T, ScheduleError>>,
    ) -> Result<T, ScheduleError> {
        let call = self.health.begin(Store::Schedule, work);
        let result = calling.await;
        call.ended(match &result {
            Ok(_) | Err(ScheduleError::BadCursor) => Ended::Answered,
            Err(ScheduleError::Corrupt(_) | ScheduleError::Foreign(_)) => Ended::Unreadable,
            Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Rebuilding)) => {
                failed(error)
            }
        });
        result
    }
}

/// What a check of a schedule says. Whatever is wrong with it, it cannot be worked with.
#[must_use]
pub fn checked(result: &Result<(), ScheduleError>) -> Ended {
    result.as_ref().map_or_else(failed, |()| Ended::Answered)
}

fn failed(error: &ScheduleError) -> Ended {
    match error {
        ScheduleError::Unavailable(cause)
        | ScheduleError::Corrupt(cause)
        | ScheduleError::Foreign(cause) => Ended::Failed(cause.clone()),
        ScheduleError::Rebuilding => Ended::Rebuilding(error.to_string()),
        ScheduleError::BadCursor => Ended::Failed(error.to_string()),
    }
}

#[async_trait]
impl Schedule for WatchedSchedule {
    fn clock(&self) -> Arc<dyn Clock> {
        self.schedule.clock()
    }

    fn wake(&self) -> &Wake {
        self.schedule.wake()
    }

    fn limits(&self) -> Limits {
        self.schedule.limits()
    }

    fn admit(&self, notification: &Notification) -> Result<Room, Full> {
        let admitted = self.schedule.admit(notification);
        if let Err(full) = &admitted {
            let call = self.health.begin(Store::Schedule, Work::Accept);
            call.ended(Ended::Failed(full.to_string()));
        }
        admitted
    }

    fn memory(&self) -> Option<MemoryUse> {
        self.schedule.memory()
    }

    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        self.watch(Work::Accept, self.schedule.register(entry))
            .await
    }

    async fn claim(&self, most: usize) -> Result<Claimed, ScheduleError> {
        let call = self.health.begin(Store::Schedule, Work::Claim);
        let claimed = self.schedule.claim(most).await;
        // Whatever the error, nothing drains: it is no single notification's.
        call.ended(claimed.as_ref().map_or_else(failed, |_| Ended::Answered));
        claimed
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        self.watch(Work::Settle, self.schedule.settle(lease, settlement))
            .await
    }

    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        self.watch(Work::Settle, self.schedule.renew(lease)).await
    }

    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        self.watch(Work::Accept, self.schedule.lease_one(request))
            .await
    }

    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError> {
        let ending = self.schedule.end_reservation(lease, reservation);
        self.watch(Work::Accept, ending).await
    }

    async fn find(&self, key: &Key) -> Result<Option<Found>, ScheduleError> {
        self.watch(Work::Read, self.schedule.find(key)).await
    }

    // A call about nothing may be answered without the store, and so says nothing of it.

    async fn in_flight(&self, keys: &[Key]) -> Result<Vec<bool>, ScheduleError> {
        if keys.is_empty() {
            return self.schedule.in_flight(keys).await;
        }
        self.watch(Work::Read, self.schedule.in_flight(keys)).await
    }

    async fn holds(&self, keys: &[Key]) -> Result<Vec<Option<Holding>>, ScheduleError> {
        if keys.is_empty() {
            return self.schedule.holds(keys).await;
        }
        self.watch(Work::Browse, self.schedule.holds(keys)).await
    }

    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError> {
        self.watch(Work::Browse, self.schedule.scan(cursor, limit))
            .await
    }

    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError> {
        if entries.is_empty() {
            return self.schedule.restore(entries).await;
        }
        self.watch(Work::Browse, self.schedule.restore(entries))
            .await
    }

    fn recoverable(&self) -> Option<&dyn Recoverable> {
        self.schedule.recoverable()
    }

    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError> {
        self.watch(Work::Browse, self.schedule.dead(cursor, limit))
            .await
    }

    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError> {
        self.watch(Work::Browse, self.schedule.counts()).await
    }

    async fn check(&self) -> Result<(), ScheduleError> {
        self.schedule.check().await
    }

    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError> {
        self.watch(Work::Browse, self.schedule.lane_in_flight(lane))
            .await
    }
}
