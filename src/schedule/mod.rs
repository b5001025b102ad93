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
//! * Whoever changes a notification by hand leases it first ([`Schedule::lease_one`]), also one that
//!   is not here: then nobody else attempts or changes it, and what is put in meanwhile waits.

pub mod decorator;
pub mod envelope;
pub mod memory;
pub mod recoverable;
pub mod redis;
pub mod room;
pub mod wake;
pub mod watched;

use crate::clock::Clock;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, End, State};
use async_trait::async_trait;
use recoverable::Recoverable;
use room::{Full, MemoryUse, Room};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;
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
pub const DOUBT_MS: i64 = 3_600_000;

/// What the schedule holds of one notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What to deliver. Its body may be left to the journal, if there is one. Of an ended entry that
    /// is only remembered, the body is empty.
    pub notification: Arc<Notification>,
    /// How far it has come.
    pub progress: Progress,
    /// Scheduled, or ended and remembered ([`Limits::remember_ms`]).
    pub state: State,
    /// Why it is dead, if it is.
    pub cause: Option<Cause>,
    /// When it ended, if it has, in milliseconds since 1970.
    pub ended_ms: Option<i64>,
    /// The journal must be asked before the next attempt: the schedule may have missed its end.
    pub verify: bool,
    /// A lease on it expired, so an attempt may have been made that nobody recorded: when that
    /// lease was given, in milliseconds since 1970.
    pub interrupted_ms: Option<i64>,
    /// A lease for a change by hand expired, or what became of that change is not known: the journal
    /// must be told to refuse it before anything is sent.
    pub raise_fence: bool,
}

impl Entry {
    /// A pending notification.
    #[must_use]
    pub fn scheduled(notification: Arc<Notification>, progress: Progress) -> Self {
        Self {
            notification,
            progress,
            state: State::Scheduled,
            cause: None,
            ended_ms: None,
            verify: false,
            interrupted_ms: None,
            raise_fence: false,
        }
    }
}

/// A leased entry: after a claim, the right and the duty to make one attempt; after
/// [`Schedule::lease_one`], the right to change it.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The entry as it was when leased.
    pub entry: Entry,
    expiry: Expiry,
}

impl Lease {
    /// For schedules alone, when they give a lease; a test checks that nobody else names this.
    #[must_use]
    pub fn granted(entry: Entry, expiry: Expiry) -> Self {
        Self { entry, expiry }
    }

    /// When the lease ends. Also what tells it from every other lease.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// When the lease ends, in milliseconds since 1970 by the schedule's clock.
    #[must_use]
    pub fn expires_ms(&self) -> i64 {
        self.expiry.at_ms
    }

    /// Takes in what [`Schedule::renew`] answered.
    pub fn renewed(&mut self, expiry: Expiry) {
        self.expiry = expiry;
    }

    /// What proves this lease to a journal.
    #[must_use]
    pub fn token(&self) -> LeaseToken {
        LeaseToken::granted(self.entry.notification.key.clone(), self.expiry)
    }
}

/// What becomes of a leased entry.
#[derive(Debug, Clone)]
pub enum Settlement {
    /// Back to its lane with new progress; next due by that.
    Again(Progress),
    /// Ended. Forgotten, or remembered for [`Limits::remember_ms`]; a dead one is then kept until
    /// it is replayed or discarded.
    End {
        /// How.
        end: End,
        /// How far it came.
        progress: Progress,
        /// When, in milliseconds since 1970.
        ended_ms: i64,
    },
    /// Back to where it was: no attempt was made, or it is made again.
    Release,
    /// Likewise, but it is not known whether it has ended, or a change of it is still being written
    /// down: the journal must be asked, and fenced, before it is sent ([`Entry::raise_fence`]).
    Recheck,
}

impl Settlement {
    /// Brings an entry to where a notification stands: back to its lane while it is scheduled, else
    /// ended, at `ended_ms` (milliseconds since 1970).
    #[must_use]
    pub fn to(state: State, cause: Option<Cause>, progress: Progress, ended_ms: i64) -> Self {
        match End::of(state, cause) {
            None => Self::Again(progress),
            Some(end) => Self::End {
                end,
                progress,
                ended_ms,
            },
        }
    }

    /// Brings an entry to where its notification stands in the journal. `now_ms` is for an end without a
    /// time.
    #[must_use]
    pub fn to_journal(snapshot: &Snapshot, now_ms: i64) -> Self {
        let ended_ms = snapshot.ended_ms.unwrap_or(now_ms);
        Self::to(snapshot.state, snapshot.cause, snapshot.progress, ended_ms)
    }
}

/// What becomes of a key that was leased by hand while nothing was here.
#[derive(Debug, Clone)]
pub enum Reservation {
    /// This is put in.
    Put(Box<Entry>),
    /// Nothing; what arrived meanwhile is removed.
    Forget,
    /// It is not known what became of the change. What arrived meanwhile goes to its lane, and the
    /// journal must be asked, and fenced, before it is sent; if nothing did, that holds for what is
    /// put in next.
    Recheck,
}

/// What a settlement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It was executed.
    Done,
    /// The lease is not in force any more: nothing changed.
    Lost,
}

/// What a registration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// The entry is new.
    Created,
    /// One of that key is here already.
    Existing(Box<Found>),
}

/// An entry that was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The entry.
    pub entry: Entry,
    /// Whether a lease on it is out.
    pub in_flight: bool,
}

/// What is known of an entry without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// Scheduled, or ended and remembered.
    pub state: State,
    /// How far it has come.
    pub progress: Progress,
    /// Whether a lease on it is out.
    pub in_flight: bool,
}

/// A stretch of all that is here, and where to go on.
#[derive(Debug, Clone, Default)]
pub struct Scanned {
    /// What was found.
    pub holdings: Vec<(Key, Holding)>,
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

/// What a journal knows of a notification that is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// When it was accepted, in milliseconds since 1970.
    pub registered_ms: i64,
    /// When its next attempt is due; `None` if it has ended or is set aside: then none is in flight.
    pub due_ms: Option<i64>,
}

/// Asks for a lease on one notification, for a change by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Which.
    pub key: Key,
    /// What the journal knows of it. Needed to lease a key of which nothing is here.
    pub known: Option<Known>,
    for_repair: bool,
    id: u64,
}

impl LeaseRequest {
    /// A new request. Made again with the same value, because its reply was lost, it gives the same
    /// lease again.
    #[must_use]
    pub fn new(key: Key) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self {
            key,
            known: None,
            for_repair: false,
            id: IDS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A new request of somebody who brings the entry to where the journal stands, and changes nothing
    /// there. It is never answered [`LeasedOne::MayBeInFlight`].
    #[must_use]
    pub fn for_repair(key: Key) -> Self {
        Self {
            for_repair: true,
            ..Self::new(key)
        }
    }

    /// Whether it was made for a repair.
    #[must_use]
    pub fn is_for_repair(&self) -> bool {
        self.for_repair
    }

    /// Tells this request from any other of this process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// What asking for a lease on one notification brought.
#[derive(Debug, Clone)]
pub enum LeasedOne {
    /// A lease on its entry: pending, due or not; or ended and remembered.
    Leased(Box<Lease>),
    /// A lease on a key of which nothing is here. What is put in under it meanwhile waits.
    Reserved(LeaseToken),
    /// An attempt of it is in flight.
    InFlight,
    /// Somebody else is changing it by hand.
    Changing,
    /// An attempt of it may be in flight: its lease was lost with other data, less than the time of
    /// a lease ago.
    MayBeInFlight,
    /// It was accepted a moment ago, and its registration may still be on its way here.
    Expected,
    /// Nothing is here. To lease it all the same, say what the journal knows of it.
    Missing,
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

/// Why the schedule could not do what was asked. Nothing of it may be taken for done.
#[derive(Debug, Clone, Error)]
pub enum ScheduleError {
    /// It cannot be reached, is too slow or refuses; worth trying again. The call may have been
    /// executed all the same.
    #[error("the schedule is unavailable: {0}")]
    Unavailable(String),
    /// It has lost what it held, and nothing was done. It is being loaded from the journal, and can
    /// be worked with again as soon as that has begun; worth trying again.
    #[error("the schedule has lost what it held and is being rebuilt from the journal")]
    Rebuilding,
    /// It holds something that this version cannot read.
    #[error("the schedule holds something unreadable: {0}")]
    Corrupt(String),
    /// It belongs to another journal.
    #[error("{0}")]
    Foreign(String),
    /// The cursor is not one that [`Schedule::dead`] or [`Schedule::scan`] gave.
    #[error("invalid cursor; use the `next_cursor` of a list")]
    BadCursor,
}

/// See the module's documentation for the contract.
#[async_trait]
pub trait Schedule: Send + Sync + 'static {
    /// The clock by which things are due here.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Says when there may be something to claim earlier than the last claim knew.
    fn wake(&self) -> &Wake;

    /// The settings it was opened with.
    fn limits(&self) -> Limits;

    /// Takes room for an entry that is about to be registered; to be asked before anything of it is
    /// written down, and kept until it is in. There is always room where others hold the entries.
    ///
    /// # Errors
    /// [`Full`] if the entries take all the memory that they may.
    fn admit(&self, _notification: &Notification) -> Result<Room, Full> {
        Ok(Room::boundless())
    }

    /// How much of this process's memory the entries take; `None` where others hold them.
    fn memory(&self) -> Option<MemoryUse> {
        None
    }

    /// Adds an entry, unless one of its key is here.
    async fn register(&self, entry: Entry) -> Result<Registered, ScheduleError>;

    /// Returns expired leases to their lanes, then leases up to `most` due entries. Also forgets a
    /// bounded number of ended entries whose time is over.
    async fn claim(&self, most: usize) -> Result<Claimed, ScheduleError>;

    /// Settles a lease.
    async fn settle(&self, lease: Lease, settlement: Settlement) -> Result<Settled, ScheduleError>;

    /// Lets a lease that is in force begin anew, and says when it ends now; `None` if it is lost.
    /// For whoever made an attempt and cannot record its outcome yet: nobody else may make it.
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

    /// Looks one entry up.
    async fn find(&self, key: &Key) -> Result<Option<Found>, ScheduleError>;

    /// Which of these have a lease out.
    async fn in_flight(&self, keys: &[Key]) -> Result<Vec<bool>, ScheduleError>;

    /// What is here of these, in order; `None` too for what nothing would ever bring up.
    async fn holds(&self, keys: &[Key]) -> Result<Vec<Option<Holding>>, ScheduleError>;

    /// A stretch of all that is here, about `limit` entries in no order, after `cursor`. What is
    /// here all the while comes at least once.
    async fn scan(&self, cursor: Option<&str>, limit: usize) -> Result<Scanned, ScheduleError>;

    /// Puts pending entries in that are missing, and gives those that wait the progress that these
    /// have. What has a lease out is left alone. For whoever has just read them in the journal; it
    /// should be asked again before they are sent ([`Entry::verify`]). No key may come twice.
    async fn restore(&self, entries: &[Entry]) -> Result<Restored, ScheduleError>;

    /// What it has to say of itself if it outlives this process and others work with it too.
    fn recoverable(&self) -> Option<&dyn Recoverable>;

    /// The remembered dead entries, newest first, `limit` at most, after `cursor`.
    async fn dead(&self, cursor: Option<&str>, limit: usize) -> Result<DeadPage, ScheduleError>;

    /// How many entries are where.
    async fn counts(&self) -> Result<ScheduleCounts, ScheduleError>;

    /// Whether it can be reached and works.
    async fn check(&self) -> Result<(), ScheduleError>;

    /// How many leases a lane has out, for tests and metrics.
    async fn lane_in_flight(&self, lane: &Lane) -> Result<usize, ScheduleError>;
}
