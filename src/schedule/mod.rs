//! What is due when.
//!
//! An index over the pending notifications, sorted by lane and due time. It hands out leases,
//! takes them back, and knows when it next has something to do. Deliberately knows nothing of
//! HTTP, of ladders and of history.
//!
//! Two implementations, [`memory`] and [`redis`], keep one contract, which one suite in `tests/`
//! puts to both:
//!
//! * An entry is registered once; registering it again changes nothing and shows what is there.
//! * A claimed entry belongs to one lease until it is settled or the lease expires; then the next
//!   claim returns it to its lane, marked [`Entry::interrupted_ms`].
//! * The expiry says which lease it is: a settlement whose lease is not the one in force changes nothing.
//! * A claim never takes a lane over its cap, serves the due lanes in turn, and within a lane takes
//!   what has been due longest.
//! * Every call can be repeated safely: a call that timed out may have been executed.
//! * Whoever changes a notification by hand leases it first ([`ScheduleLeases::lease_one`]), also one that
//!   is not here: then nobody else attempts or changes it, and what is put in meanwhile waits.

pub mod decorator;
pub mod entry;
pub mod envelope;
pub mod error;
pub mod lease;
pub mod memory;
pub mod memory_budget;
pub mod recoverable;
pub mod redis;
pub mod wake;
pub mod watched;

pub use entry::{Entry, FoundEntry, Holding};
pub use error::ScheduleError;
pub use lease::{KnownToJournal, Lease, LeaseRequest, LeasedOne, Reservation, Settled, Settlement};

use crate::clock::Clock;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::notification::Notification;
use async_trait::async_trait;
use memory_budget::{MemoryLimitReached, MemoryReservation, MemoryUse};
use recoverable::Recoverable;
use std::sync::Arc;
use wake::Wake;

/// Maximum number of entries that a claim takes from a lane before it turns to the next one that is due. A lane
/// that has more then queues up behind the lanes that are due by now, so claims go round however
/// small they are, and a backlog costs another lane no more than this between two of its turns.
pub const PER_VISIT: usize = 4;

/// An entry that is registered later than this after it was accepted has the journal asked before it
/// is sent, in milliseconds: it may have been changed, or attempted, or both, meanwhile.
pub const PROMPT_MS: i64 = 2_000;

/// For how long after it was accepted a notification that is not here cannot be leased by hand, in
/// milliseconds. What arrives later than [`PROMPT_MS`] is marked, so a change that nobody here knows
/// of cannot be overlooked then; the rest is for clocks that are set back a little.
pub const ARRIVAL_MS: i64 = 3_000;

/// How long a lease for a change by hand lasts, in milliseconds.
pub const CHANGE_LEASE_MS: i64 = 8_000;

/// For how long it is remembered of a key that is not here that nobody knows what became of a change of
/// it, in milliseconds. No call to a journal takes nearly as long, so a change that was not written by
/// then never is, unless the server that makes it is suspended for so long.
pub const UNKNOWN_CHANGE_MS: i64 = 3_600_000;

/// What a registration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// The entry is new.
    Created,
    /// One of that key is here already.
    Existing(Box<FoundEntry>),
}

/// A stretch of all that is here, and where to go on.
#[derive(Debug, Clone, Default)]
pub struct Scanned {
    /// What was found.
    pub holdings: Vec<(KeyInLane, Holding)>,
    /// Pass this to go on; `None` at the end.
    pub next: Option<String>,
}

/// What putting entries back did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Entries that were missing.
    pub missing: u64,
    /// Entries that were here with other progress.
    pub moved: u64,
}

/// What a claim brought.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// The leases, in the order in which they should be worked on.
    pub leases: Vec<Lease>,
    /// When there is next something to claim, if that is known: in the past if more is due now.
    pub next_due_ms: Option<i64>,
}

/// The schedule's settings. The same for every instance of one schedule.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of leases out for one lane.
    pub lane_cap: usize,
    /// How long a lease lasts: the longest attempt and a margin, in milliseconds.
    pub lease_ms: i64,
    /// How long ended entries are remembered, in milliseconds. `None` where a journal does it: then
    /// an ended entry is forgotten at once.
    pub remember_ms: Option<i64>,
}

/// A page of dead entries, newest first, and where the next page begins.
#[derive(Debug, Clone, Default)]
pub struct DeadPage {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Pass this to get the next page; `None` at the end.
    pub next: Option<String>,
}

/// How many entries are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScheduleCounts {
    /// Pending entries, those with a lease out included.
    pub pending: u64,
    /// Leases out.
    pub in_flight: u64,
    /// Dead entries kept here (only where entries are remembered).
    pub dead: u64,
}

/// What hands out the work: registering, claiming, settling, and leases for changes by hand.
#[async_trait]
pub trait ScheduleLeases: Send + Sync + 'static {
    /// The clock by which things are due here.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Says when there may be something to claim earlier than the last claim knew.
    fn wake(&self) -> &Wake;

    /// The settings it was opened with.
    fn limits(&self) -> Limits;

    /// Reserves memory for an entry that is about to be registered; to be asked before anything of it is
    /// written down, and kept until it is in. Always granted where others hold the entries.
    ///
    /// # Errors
    /// [`MemoryLimitReached`] if the entries take all the memory that they may.
    fn reserve_memory(
        &self,
        _notification: &Notification,
    ) -> Result<MemoryReservation, MemoryLimitReached> {
        Ok(MemoryReservation::unlimited())
    }

    /// Adds an entry, unless one of its key is here.
    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError>;

    /// Returns expired leases to their lanes, then leases up to `most` due entries. Also forgets a
    /// bounded number of ended entries whose time is over.
    async fn claim(&self, most: usize) -> Result<Claimed, ScheduleError>;

    /// Settles a lease.
    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError>;

    /// Extends a lease that is in force by its full time, and says when it ends now; `None` if it is lost.
    /// For whoever made an attempt and cannot record its outcome yet: no other server may make it.
    async fn renew(&self, lease: &Lease) -> Result<Option<Expiry>, ScheduleError>;

    /// Leases one notification for a change by hand, due or not and whatever its lane's cap, for
    /// [`CHANGE_LEASE_MS`]. A request that is made again, because its reply was lost, gets its lease
    /// again, with a new expiry.
    async fn lease_one(&self, request: &LeaseRequest) -> Result<LeasedOne, ScheduleError>;

    /// Settles a lease on a key of which nothing was here.
    async fn end_reservation(
        &self,
        lease: LeaseToken,
        reservation: Reservation,
    ) -> Result<Settled, ScheduleError>;
}

/// What is asked about entries without changing them.
#[async_trait]
pub trait ScheduleReads: Send + Sync + 'static {
    /// Looks one entry up by its key alone. For schedules without a journal, which nothing else can tell
    /// the lane of a key.
    async fn find(&self, key: &Key) -> Result<Option<FoundEntry>, ScheduleError>;

    /// What is here of these, in order; `None` too for what no claim would ever find.
    async fn holds(&self, entries: &[KeyInLane]) -> Result<Vec<Option<Holding>>, ScheduleError>;

    /// Which of these are leased.
    async fn in_flight(&self, entries: &[KeyInLane]) -> Result<Vec<bool>, ScheduleError>;

    /// The remembered dead entries, newest first, `limit` at most, after `cursor`.
    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError>;

    /// How many entries are where.
    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError>;

    /// How many leases a lane has, for tests and metrics.
    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError>;

    /// How much of this process's memory the entries take; `None` where others hold them.
    fn memory(&self) -> Option<MemoryUse> {
        None
    }

    /// Whether it can be reached and works.
    async fn check(&self) -> Result<(), ScheduleError>;
}

/// What keeps a schedule in agreement with its journal.
#[async_trait]
pub trait ScheduleMaintenance: Send + Sync + 'static {
    /// A stretch of all that is here, about `limit` entries in no order, after `cursor`. What is
    /// here all the while comes at least once.
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError>;

    /// Puts pending entries in that are missing, and gives those that wait the progress that these
    /// have. What is leased is left alone. For whoever has just read them in the journal; it
    /// should be asked again before they are sent ([`Entry::verify`]). No key may come twice.
    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError>;

    /// How a loss of data in it is found out and repaired, if it outlives this process and others work
    /// with it too.
    fn recoverable(&self) -> Option<&dyn Recoverable>;
}

/// A whole schedule. See the module's documentation for the contract.
pub trait Schedule: ScheduleLeases + ScheduleReads + ScheduleMaintenance {}

impl<Whole: ScheduleLeases + ScheduleReads + ScheduleMaintenance> Schedule for Whole {}
