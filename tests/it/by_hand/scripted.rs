//! A schedule in memory of which a test says what becomes of the next requests for a lease by hand.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use ringback::clock::{Clock, ManualClock};
use ringback::domain::key::Key;
use ringback::domain::lane::Lane;
use ringback::domain::lease::{Expiry, LeaseToken};
use ringback::domain::notification::Notification;
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::recoverable::Recoverable;
use ringback::schedule::room::{Full, MemoryUse, Room};
use ringback::schedule::wake::Wake;
use ringback::schedule::{
    Claimed, DeadPage, Entry, Found, Holding, Lease, LeaseRequest, LeasedOne, Limits, Registered,
    Reservation, Restored, Scanned, Schedule, ScheduleCounts, ScheduleError, Settled, Settlement,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What becomes of a request that was executed.
pub enum Then {
    /// Its reply is lost.
    Lost,
    /// This happens before the reply arrives: the server was suspended.
    After(BoxFuture<'static, ()>),
}

/// The schedule.
pub struct Scripted {
    pub inner: MemorySchedule,
    /// What a server takes for the schedule's time.
    shown: ManualClock,
    /// How many requests were made.
    pub requests: AtomicUsize,
    /// Whether the replies to all further requests are lost.
    pub deaf: AtomicBool,
    then: Mutex<VecDeque<Then>>,
}

impl Scripted {
    pub fn over_journal(clock: &ManualClock, limits: Limits) -> Arc<Self> {
        Self::shown_by(clock, clock, limits)
    }

    /// One that goes by `clock`, while its servers reckon its time by another.
    pub fn shown_by(clock: &ManualClock, shown: &ManualClock, limits: Limits) -> Arc<Self> {
        let memory = ringback::schedule::memory::MEMORY_BYTES;
        Arc::new(Self {
            inner: MemorySchedule::over_journal(Arc::new(clock.clone()), limits, memory),
            shown: shown.clone(),
            requests: AtomicUsize::new(0),
            deaf: AtomicBool::new(false),
            then: Mutex::default(),
        })
    }

    /// Says what becomes of the next request that nothing was said of.
    pub fn then(&self, then: Then) {
        self.then.lock().expect("no panic").push_back(then);
    }
}

#[async_trait]
impl Schedule for Scripted {
    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let leased = self.inner.lease_one(request).await;
        let then = self.then.lock().expect("no panic").pop_front();
        let lost = || Err(ScheduleError::Unavailable("the reply is lost".into()));
        match then {
            Some(Then::Lost) => lost(),
            None if self.deaf.load(Ordering::Relaxed) => lost(),
            Some(Then::After(happens)) => {
                happens.await;
                leased
            }
            None => leased,
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.shown.clone())
    }

    fn wake(&self) -> &Wake {
        self.inner.wake()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn admit(&self, notification: &Notification) -> Result<Room, Full> {
        self.inner.admit(notification)
    }

    fn memory(&self) -> Option<MemoryUse> {
        self.inner.memory()
    }

    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError> {
        self.inner.register(entry).await
    }

    async fn claim(&self, most: usize) -> Result<Claimed, ScheduleError> {
        self.inner.claim(most).await
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        self.inner.settle(lease, settlement).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        self.inner.renew(lease).await
    }

    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError> {
        self.inner.end_reservation(lease, reservation).await
    }

    async fn find(&self, key: &Key) -> Result<Option<Found>, ScheduleError> {
        self.inner.find(key).await
    }

    async fn in_flight(&self, keys: &[Key]) -> Result<Vec<bool>, ScheduleError> {
        self.inner.in_flight(keys).await
    }

    async fn holds(&self, keys: &[Key]) -> Result<Vec<Option<Holding>>, ScheduleError> {
        self.inner.holds(keys).await
    }

    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError> {
        self.inner.scan(cursor, limit).await
    }

    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError> {
        self.inner.restore(entries).await
    }

    fn recoverable(&self) -> Option<&dyn Recoverable> {
        self.inner.recoverable()
    }

    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError> {
        self.inner.dead(cursor, limit).await
    }

    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError> {
        self.inner.counts().await
    }

    async fn check(&self) -> Result<(), ScheduleError> {
        self.inner.check().await
    }

    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError> {
        self.inner.lane_in_flight(lane).await
    }
}
