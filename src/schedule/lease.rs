//! Leases on entries: what they allow, how they are asked for, and how they are settled.

use super::entry::Entry;
use crate::domain::lane::KeyInLane;
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, End, State};
use std::sync::atomic::{AtomicU64, Ordering};

/// A leased entry: after a claim, the right and the duty to make one attempt; after
/// [`super::ScheduleLeases::lease_one`], the right to change it.
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

    /// Takes in what [`super::ScheduleLeases::renew`] answered.
    pub fn renewed(&mut self, expiry: Expiry) {
        self.expiry = expiry;
    }

    /// What proves this lease to a journal.
    #[must_use]
    pub fn token(&self) -> LeaseToken {
        LeaseToken::granted(self.entry.notification.key_in_lane(), self.expiry)
    }
}

/// What becomes of a leased entry.
#[derive(Debug, Clone)]
pub enum Settlement {
    /// Back to its lane with new progress; next due by that.
    Again(Progress),
    /// Ended. Forgotten, or remembered for [`super::Limits::remember_ms`]; a dead one is then kept until
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
    /// Brings an entry to a notification's state: back to its lane while it is scheduled, else
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

    /// Brings an entry to the state of its notification in the journal. `now_ms` is for an end without a
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

/// What a journal knows of a notification that is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownToJournal {
    /// When it was accepted, in milliseconds since 1970.
    pub registered_ms: i64,
    /// When its next attempt is due; `None` if it has ended or is set aside: then none is in flight.
    pub due_ms: Option<i64>,
}

/// Asks for a lease on one notification, for a change by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Which notification.
    pub entry: KeyInLane,
    /// What the journal knows of it. Needed to lease a key of which nothing is here.
    pub known: Option<KnownToJournal>,
    for_repair: bool,
    id: u64,
}

impl LeaseRequest {
    /// A new request. Made again with the same value, because its reply was lost, it gives the same
    /// lease again.
    #[must_use]
    pub fn new(entry: KeyInLane) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self {
            entry,
            known: None,
            for_repair: false,
            id: IDS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A new request, to bring the entry to the state that the journal has, without changing anything
    /// there. It is never answered [`LeasedOne::MayBeInFlight`].
    #[must_use]
    pub fn for_repair(entry: KeyInLane) -> Self {
        Self {
            for_repair: true,
            ..Self::new(entry)
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
    /// Another request has leased it for a change by hand.
    Changing,
    /// An attempt of it may be in flight: its lease was lost with other data, less than the time of
    /// a lease ago.
    MayBeInFlight,
    /// It was accepted a moment ago, and its registration may still be on its way here.
    Expected,
    /// Nothing is here. To lease it all the same, say what the journal knows of it.
    Missing,
}
