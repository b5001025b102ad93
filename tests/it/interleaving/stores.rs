//! Both stores behind a [`Gate`].

use super::gate::{Gate, Verdict};
use async_trait::async_trait;
use bytes::Bytes;
use ringback::clock::Clock;
use ringback::domain::key::Key;
use ringback::domain::lane::Lane;
use ringback::domain::lease::{Expiry, LeaseToken};
use ringback::domain::notification::Notification;
use ringback::domain::snapshot::Snapshot;
use ringback::journal::{
    AllSetAside, ChangeResult, Changing, Cursor, Examined, Filter, Journal, JournalCounts,
    JournalError, Noting, Order, Page, Pending, Prune, Pruned, Rebuild, Recorded, Recording,
    RegisterResult, Registering, SettingAside, Transition,
};
use ringback::schedule::recoverable::Recoverable;
use ringback::schedule::room::{Full, MemoryUse, Room};
use ringback::schedule::wake::Wake;
use ringback::schedule::{
    Claimed, DeadPage, Entry, Found, Holding, Lease, LeaseRequest, LeasedOne, Limits, Registered,
    Reservation, Restored, Scanned, Schedule, ScheduleCounts, ScheduleError, Settled, Settlement,
};
use std::sync::Arc;

/// A schedule whose calls are held.
pub struct GatedSchedule {
    pub gate: Gate,
    pub inner: Arc<dyn Schedule>,
}

/// A journal whose calls are held.
pub struct GatedJournal {
    pub gate: Gate,
    pub inner: Arc<dyn Journal>,
}

const LOST: &str = "the reply was lost";

/// Makes a call once it is let go.
macro_rules! gated {
    ($self:ident, $name:literal, $error:ident, $call:expr) => {{
        let verdict = $self.gate.pass($name).await;
        let reply = $call.await;
        match verdict {
            Verdict::Made => reply,
            Verdict::ReplyLost => Err($error::Unavailable(LOST.to_string())),
            Verdict::Died => std::future::pending().await,
        }
    }};
}

#[async_trait]
impl Schedule for GatedSchedule {
    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
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
        gated!(
            self,
            "schedule.register",
            ScheduleError,
            self.inner.register(entry)
        )
    }

    async fn claim(&self, most: usize) -> Result<Claimed, ScheduleError> {
        gated!(
            self,
            "schedule.claim",
            ScheduleError,
            self.inner.claim(most)
        )
    }

    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError> {
        let settling = self.inner.settle(lease, settlement);
        gated!(self, "schedule.settle", ScheduleError, settling)
    }

    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError> {
        gated!(
            self,
            "schedule.renew",
            ScheduleError,
            self.inner.renew(lease)
        )
    }

    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError> {
        gated!(
            self,
            "schedule.lease_one",
            ScheduleError,
            self.inner.lease_one(request)
        )
    }

    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError> {
        let ending = self.inner.end_reservation(lease, reservation);
        gated!(self, "schedule.end_reservation", ScheduleError, ending)
    }

    async fn find(&self, key: &Key) -> Result<Option<Found>, ScheduleError> {
        gated!(self, "schedule.find", ScheduleError, self.inner.find(key))
    }

    async fn in_flight(&self, keys: &[Key]) -> Result<Vec<bool>, ScheduleError> {
        self.inner.in_flight(keys).await
    }

    async fn holds(&self, keys: &[Key]) -> Result<Vec<Option<Holding>>, ScheduleError> {
        gated!(
            self,
            "schedule.holds",
            ScheduleError,
            self.inner.holds(keys)
        )
    }

    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError> {
        self.inner.scan(cursor, limit).await
    }

    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError> {
        gated!(
            self,
            "schedule.restore",
            ScheduleError,
            self.inner.restore(entries)
        )
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

#[async_trait]
impl Journal for GatedJournal {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError> {
        gated!(
            self,
            "journal.register",
            JournalError,
            self.inner.register(batch)
        )
    }

    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError> {
        gated!(
            self,
            "journal.record",
            JournalError,
            self.inner.record(batch)
        )
    }

    async fn fence(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        gated!(self, "journal.fence", JournalError, self.inner.fence(key))
    }

    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError> {
        gated!(
            self,
            "journal.change",
            JournalError,
            self.inner.change(changing)
        )
    }

    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError> {
        gated!(
            self,
            "journal.set_aside",
            JournalError,
            self.inner.set_aside(setting)
        )
    }

    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError> {
        self.inner.all_set_aside(limit).await
    }

    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        gated!(self, "journal.find", JournalError, self.inner.find(key))
    }

    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        gated!(
            self,
            "journal.snapshots",
            JournalError,
            self.inner.snapshots(keys)
        )
    }

    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError> {
        self.inner.transitions(key).await
    }

    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError> {
        gated!(
            self,
            "journal.pending",
            JournalError,
            self.inner.pending(key)
        )
    }

    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        self.inner.pending_page(cursor, limit).await
    }

    async fn pending_page_without_bodies(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        self.inner.pending_page_without_bodies(cursor, limit).await
    }

    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError> {
        gated!(
            self,
            "journal.bodies",
            JournalError,
            self.inner.bodies(keys)
        )
    }

    async fn list(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, JournalError> {
        self.inner.list(filter, order, cursor, limit).await
    }

    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        self.inner.changes(from_ms, until_ms, cursor, limit).await
    }

    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError> {
        self.inner.note(notes).await
    }

    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError> {
        self.inner.rebuilding(rebuild).await
    }

    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError> {
        self.inner.prune(prune, limit).await
    }

    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError> {
        self.inner.duty(name, ttl_ms).await
    }

    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError> {
        self.inner.recall(name).await
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError> {
        self.inner.remember(name, value).await
    }

    async fn counts(&self) -> Result<JournalCounts, JournalError> {
        self.inner.counts().await
    }

    async fn examine(&self, limit: usize) -> Result<Examined, JournalError> {
        self.inner.examine(limit).await
    }

    async fn check(&self) -> Result<(), JournalError> {
        self.inner.check().await
    }

    async fn close(&self) {}
}
