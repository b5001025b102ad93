//! What is due when.
//!
//! An index over the pending notifications, sorted by lane and due time. It gives leases, ends
//! them, and knows when it next has something to do. Deliberately knows nothing of HTTP, of ladders and
//! of history.
//!
//! Two implementations, [`memory`] and [`redis`], keep one contract. One test suite
//! (`tests/it/schedule_contract`) runs against both:
//!
//! * An entry is registered once. Registering it again changes nothing and returns the existing entry.
//! * A leased entry belongs to one lease until it is settled or the lease expires. After an expiry, the
//!   next claim returns it to its lane and sets [`Entry::interrupted_ms`], or [`Entry::raise_fence`] if the
//!   lease was for a change by hand.
//! * The expiry identifies a lease: a settlement whose lease is not the one in force changes nothing.
//! * A claim never gives a lane more leases than its cap, nor more than its state allows
//!   ([`crate::domain::lane_health`]). It serves the classes of lanes one after the other, the due lanes of a
//!   class in turn, and within a lane takes the entries that have been due longest.
//! * A claim gives nothing to the lanes that its instance skips ([`skipped`]); they keep their turns.
//! * A lane may have settings ([`crate::domain::lane_settings`]): a claim gives a held lane nothing, and calls of a
//!   lane with a rate begin at that rate. Where the settings come from a journal, a claim gives nothing to any lane
//!   until they are here.
//! * Every call can be repeated safely: a call that timed out may have been executed.
//! * Over a journal, what is due after the horizon is not held ([`window`]): a settlement that would put it back removes
//!   it, and a reservation that would put it in does not.
//! * A server leases a notification before it changes it by hand ([`ScheduleLeases::lease_one`]), even if
//!   the notification has no entry here. Then no other server attempts or changes it, and an entry that is
//!   put in meanwhile waits for the lease.

pub mod claim;
mod claimed_lease;
pub mod decorator;
pub mod default_keys;
pub mod endpoints;
pub mod entry;
pub mod envelope;
pub mod error;
pub mod lane_status;
pub mod lease;
mod maintenance;
pub mod memory;
pub mod memory_budget;
pub mod recoverable;
pub mod redis;
pub mod skipped;
pub mod wake;
pub mod watched;
pub mod window;

pub use claim::{ClaimQuota, Claimed};
pub use claimed_lease::{BareLease, ClaimedLease};
pub use entry::{BareEntry, Entry, FoundEntry, HeldProgress, Holding};
pub use error::ScheduleError;
pub use lease::{KnownToJournal, Lease, LeaseRequest, LeasedOne, Reservation, Settled, Settlement};
pub use maintenance::{Configured, ContentToLeave, Restored, ScheduleMaintenance, SettingsReached};

use crate::clock::Clock;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::notification::Notification;
use async_trait::async_trait;
use lane_status::{LanePage, LaneSelection, LaneStatus};
use memory_budget::{MemoryLimitReached, MemoryReservation, MemoryUse};
use skipped::SkippedLanes;
use std::sync::Arc;
use wake::Wake;
use window::Window;

/// Maximum number of entries that a claim takes from a lane before it serves the next due lane. A lane
/// that has more then waits behind the lanes that are due by now. So all due lanes are served in turn,
/// even by small claims, and a backlog of one lane delays another by at most this many entries.
pub const PER_VISIT: usize = 4;

/// If an entry arrives in the schedule later than this after it was accepted, the journal is asked before the
/// entry is sent, because the notification may have been changed or attempted meanwhile. In milliseconds.
pub const PROMPT_MS: i64 = 2_000;

/// An entry of which the journal is asked before it is sent may be claimed up to so long before it is due, in milliseconds. The
/// worker asks meanwhile, and begins the call when it is due. Asked after that, each attempt would be later by as long as the
/// answer takes, which is longest when Redis has lost its data and all attempts ask.
pub const CLAIMED_EARLY_MS: i64 = 20;

/// A notification without an entry in the schedule cannot be leased by hand for this long after it was
/// accepted, because its registration may still be on its way. In milliseconds. An entry that arrives later
/// than [`PROMPT_MS`] is verified against the journal before it is sent, so it cannot miss a change by hand. A registration
/// that is far ahead is always verified ([`crate::domain::later::FAR_MS`]), so it is not waited for.
/// The second between the two allows for a clock that is set back a little.
pub const HAND_LEASE_WAIT_MS: i64 = 3_000;

/// How long a lease for a change by hand lasts, in milliseconds.
pub const CHANGE_LEASE_MS: i64 = 8_000;

/// For how long an unknown change of a key without an entry is remembered, in milliseconds. An unknown change
/// is a change by hand of which it is not known whether it was written into the journal. No call to a journal
/// lasts nearly as long. So a change that is not written by then is never written, unless its server is
/// suspended for that time.
pub const UNKNOWN_CHANGE_MS: i64 = 3_600_000;

/// For how long an entry of a strict order waits in its lane while a lower number of its order key waits there too, in
/// milliseconds, if the end of that one does not make it due before. Must equal BEHIND_MS in claim.lua.
pub const BEHIND_MS: i64 = 60_000;

/// By how much the clock of a schedule must have been set back since the last claim for the turns of all lanes to be computed
/// anew, in milliseconds: they may be as much too late. Must equal SET_BACK in common.lua and poll.lua.
pub const SET_BACK_MS: i64 = 1_000;

/// By how much the clock of a Redis that takes over may be behind the clock of the Redis before it, in milliseconds.
pub const CLOCKS_APART_MS: i64 = 10_000;

/// What a registration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// The entry is new.
    Created,
    /// There is an entry with this key already.
    Existing(Box<FoundEntry>),
}

/// A part of all entries, and the cursor of the next part.
#[derive(Debug, Clone, Default)]
pub struct Scanned {
    /// The entries of this part.
    pub holdings: Vec<(KeyInLane, Holding)>,
    /// The cursor of the next part; `None` at the end.
    pub next: Option<String>,
}

/// The schedule's settings. The same for every instance of one schedule.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Number of leases that a lane may have before its destination has answered.
    pub lane_start: usize,
    /// Maximum number of leases of one lane.
    pub lane_cap: usize,
    /// How long a lease lasts, in milliseconds: the longest attempt and a margin.
    pub lease_ms: i64,
    /// How long ended entries are remembered, in milliseconds. `None` if a journal remembers them: then
    /// an ended entry is forgotten at once.
    pub remember_ms: Option<i64>,
    /// Where the settings of lanes come from.
    pub settings_source: SettingsSource,
    /// How far ahead what is pending is here.
    pub window: Window,
    /// How long before it is due an entry may be claimed that is sent without a question to the journal, in milliseconds. The
    /// worker waits until it is due by its own clock, which shows the time of Redis as far as replies tell it. At most
    /// [`CLAIMED_EARLY_MS`]. A schedule in memory needs no such time.
    pub early_ms: i64,
}

#[cfg(test)]
impl Limits {
    /// Those of a schedule of a test to which they do not matter.
    pub(crate) const OF_TESTS: Self = Self {
        lane_start: 2,
        lane_cap: 16,
        lease_ms: 60_000,
        remember_ms: None,
        settings_source: SettingsSource::Schedule,
        window: Window::WHOLE,
        early_ms: 0,
    };
}

/// Where the settings of lanes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsSource {
    /// From a journal. Until they were brought here, and again after they were lost, a claim gives nothing: a lane
    /// that is held must not be called.
    Journal,
    /// They are kept in the schedule alone.
    Schedule,
}

/// A page of dead entries, newest first, and the cursor of the next page.
#[derive(Debug, Clone, Default)]
pub struct DeadPage {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

/// Numbers of entries and leases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScheduleCounts {
    /// Pending entries, leased ones included.
    pub pending: u64,
    /// Leases in force.
    pub in_flight: u64,
    /// Dead entries kept here (only if ended entries are remembered).
    pub dead: u64,
}

/// How many lanes with entries are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneCounts {
    /// Lanes that are neither probed nor held.
    pub open: u64,
    /// Lanes that are probed, and not held.
    pub probing: u64,
    /// Lanes that are held, and of which a waiting entry would come next. While a lease of such a lane is in force, it may
    /// count as open.
    pub held: u64,
}

/// The calls that give work: registering, claiming, settling, and leases for changes by hand.
#[async_trait]
pub trait ScheduleLeases: Send + Sync + 'static {
    /// The clock that decides what is due.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Wakes the dispatcher when there may be something to claim earlier than the last claim knew.
    fn wake(&self) -> &Wake;

    /// The lanes that the claims of this instance skip: they get nothing, keep their turns, and do not count for
    /// [`Claimed::next_due_ms`] and [`Claimed::is_limited`].
    fn skipped_lanes(&self) -> &SkippedLanes;

    /// The settings with which it was opened.
    fn limits(&self) -> Limits;

    /// Reserves memory for an entry that is about to be registered. To be called before anything of it is
    /// written down; the reservation is kept until the entry is in the schedule. Always succeeds if the
    /// entries are not in this process's memory.
    ///
    /// # Errors
    /// [`MemoryLimitReached`] if the entries take all the memory that they may.
    fn reserve_memory(
        &self,
        _notification: &Notification,
    ) -> Result<MemoryReservation, MemoryLimitReached> {
        Ok(MemoryReservation::unlimited())
    }

    /// Adds an entry, unless there is one with its key.
    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError>;

    /// Returns entries whose lease expired to their lanes, then leases due entries within the quota. Also
    /// forgets a bounded number of ended entries that were remembered long enough.
    async fn claim(&self, quota: ClaimQuota) -> Result<Claimed, ScheduleError>;

    /// Ends a lease as the settlement says.
    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError>;

    /// Renews a lease that is in force, so that it lasts for its full time from now. Returns the new expiry;
    /// `None` if the lease is lost. For a server that made an attempt and cannot record its outcome yet, so
    /// that no other server makes the attempt again.
    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError>;

    /// Leases one notification for a change by hand or a repair, for [`CHANGE_LEASE_MS`], even if it is not due
    /// or its lane is full. A request that is repeated because its reply was lost gets its lease again, with a
    /// new expiry.
    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError>;

    /// Ends a lease on a key that had no entry here.
    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError>;
}

/// The calls that read entries and change nothing.
#[async_trait]
pub trait ScheduleReads: Send + Sync + 'static {
    /// Looks one entry up by its key alone. For schedules without a journal: there, only the schedule knows
    /// the lane of a key.
    async fn find(&self, key: &Key) -> Result<Option<FoundEntry>, ScheduleError>;

    /// The entries of these keys, in order. `None` if an entry is missing, or waits where no claim finds it.
    async fn holds(&self, entries: &[KeyInLane]) -> Result<Vec<Option<Holding>>, ScheduleError>;

    /// Which of these are leased.
    async fn in_flight(&self, entries: &[KeyInLane]) -> Result<Vec<bool>, ScheduleError>;

    /// The remembered dead entries, newest first, `limit` at most, after `cursor`.
    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError>;

    /// Numbers of entries and leases.
    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError>;

    /// How many lanes are in which state.
    async fn lane_counts(&self) -> Result<LaneCounts, ScheduleError>;

    /// Number of leases of a lane, for tests and metrics.
    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError>;

    /// One lane. It needs no entries and no settings.
    async fn lane(&self, lane: &Lane) -> Result<LaneStatus, ScheduleError>;

    /// Some of the lanes: `limit` at most, after `cursor`, in no order. A page may be short, or even empty, although
    /// there are more; it has a cursor then. A lane that is here all the time comes at least once.
    async fn lanes(
        &self,
        selection: LaneSelection,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<LanePage, ScheduleError>;

    /// How much of this process's memory the entries take; `None` if they are not in it.
    fn memory(&self) -> Option<MemoryUse> {
        None
    }

    /// Whether the schedule can be reached and works.
    async fn check(&self) -> Result<(), ScheduleError>;
}

/// A whole schedule. See the module's documentation for the contract.
pub trait Schedule: ScheduleLeases + ScheduleReads + ScheduleMaintenance {}

impl<Whole: ScheduleLeases + ScheduleReads + ScheduleMaintenance> Schedule for Whole {}
