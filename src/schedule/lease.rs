//! Leases on entries: what they allow, how they are asked for, and how they are settled.

use super::entry::Entry;
use super::window::Window;
use crate::domain::deferral::{Deferral, Lacked, LaneMoment};
use crate::domain::lane::KeyInLane;
use crate::domain::lane_health::{CallOutcome, LaneClass, LaneReport};
use crate::domain::lease::{Expiry, LeaseToken};
use crate::domain::order::OrderPlace;
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
    /// The class of its lane when it was claimed: against which part of a quota it counts.
    pub class: LaneClass,
    /// For how long its attempt was deferred, and why.
    pub deferral: Option<Deferral>,
    /// What is reported about its lane when this lease is settled; `None` if there is nothing to say.
    pub report: Option<LaneReport>,
    /// How its call ended; `None` if none was made.
    pub outcome: Option<CallOutcome>,
    expiry: Expiry,
    /// What was known of its lane when it was claimed; `None` if nothing was in its way, as is usual.
    lane: Option<Box<LaneMoment>>,
}

impl Lease {
    /// Makes a lease. For schedules alone; a test checks that no other module names this.
    #[must_use]
    pub fn granted(entry: Entry, expiry: Expiry) -> Self {
        Self {
            entry,
            class: LaneClass::Doubtful,
            deferral: None,
            report: None,
            outcome: None,
            expiry,
            lane: None,
        }
    }

    /// The same lease, given to a lane of this class at this moment.
    #[must_use]
    pub fn in_lane(self, class: LaneClass, lane: LaneMoment) -> Self {
        let lane = (lane != LaneMoment::default()).then(|| Box::new(lane));
        Self {
            class,
            lane,
            ..self
        }
    }

    /// What was known of its lane when it was claimed.
    #[must_use]
    pub fn lane(&self) -> LaneMoment {
        self.lane.as_deref().copied().unwrap_or_default()
    }

    /// The same lease with this report.
    #[must_use]
    pub fn with_report(self, report: Option<LaneReport>) -> Self {
        Self { report, ..self }
    }

    /// The same lease with this outcome of its call.
    #[must_use]
    pub fn with_outcome(self, outcome: Option<CallOutcome>) -> Self {
        Self { outcome, ..self }
    }

    /// When the lease ends. It also identifies the lease.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// When the lease ends, in milliseconds since 1970 by the schedule's clock.
    #[must_use]
    pub fn expires_ms(&self) -> i64 {
        self.expiry.at_ms
    }

    /// Sets the new expiry that [`super::ScheduleLeases::renew`] returned.
    pub fn renewed(&mut self, expiry: Expiry) {
        self.expiry = expiry;
    }

    /// What proves this lease to a journal.
    #[must_use]
    pub fn token(&self) -> LeaseToken {
        LeaseToken::granted(self.entry.notification.key_in_lane(), self.expiry)
    }
}

/// What is done with a leased entry when its lease ends.
#[derive(Debug, Clone)]
pub enum Settlement {
    /// Back to its lane with new progress, which says when it is due.
    Again(Progress),
    /// Ended. The entry is forgotten, or remembered for [`super::Limits::remember_ms`]. If entries are
    /// remembered, a dead one is kept until it is replayed or discarded.
    End {
        /// How it ended.
        end: End,
        /// Its last progress.
        progress: Progress,
        /// When it ended, in milliseconds since 1970.
        ended_ms: i64,
    },
    /// Back to where it was before: no attempt was made, or it will be made again.
    Release,
    /// As [`Settlement::Release`], but the notification may have ended, or a change of it may still be written.
    /// So before it is sent, the journal is asked and the fence is raised ([`Entry::raise_fence`]).
    Recheck,
    /// As [`Settlement::Release`], but the entry is not due before this instant, in milliseconds since 1970: this
    /// instance cannot make the attempt, and another one may. Its progress stays as it is.
    Defer(i64),
    /// As [`Settlement::Defer`]: this instance lacked this.
    DeferWithout(Lacked, i64),
}

impl Settlement {
    /// Gives an entry this state: back to its lane if it is scheduled, else ended at `ended_ms`
    /// (milliseconds since 1970).
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

    /// Gives an entry the state of its notification in the journal. The schedule forgets one that is set
    /// aside. `now_ms` is used if the end has no time.
    #[must_use]
    pub fn to_journal(snapshot: &Snapshot, now_ms: i64) -> Self {
        if snapshot.state == State::Scheduled && snapshot.set_aside.is_some() {
            return Self::forget(snapshot.progress, now_ms);
        }
        let ended_ms = snapshot.ended_ms.unwrap_or(now_ms);
        Self::to(snapshot.state, snapshot.cause, snapshot.progress, ended_ms)
    }

    /// The same, except that an entry which would wait for a time after the window is forgotten: it waits in the journal.
    /// To be called when the journal has committed that time.
    #[must_use]
    pub fn within(self, window: Window, now_ms: i64) -> Self {
        match self {
            Self::Again(progress) if !window.includes(progress.next_due_ms(), now_ms) => {
                Self::forget(progress, now_ms)
            }
            settlement => settlement,
        }
    }

    /// What this instance lacked, if it puts the entry off for that.
    #[must_use]
    pub fn lacked(&self) -> Option<Lacked> {
        match self {
            Self::DeferWithout(lacked, _) => Some(*lacked),
            Self::Again(_) | Self::End { .. } | Self::Release | Self::Recheck | Self::Defer(_) => {
                None
            }
        }
    }

    /// Has a schedule with a journal forget an entry that it should not hold.
    #[must_use]
    pub fn forget(progress: Progress, now_ms: i64) -> Self {
        Self::End {
            end: End::Cancelled,
            progress,
            ended_ms: now_ms,
        }
    }
}

/// What is done with a key that was leased by hand and had no entry, or with a bare entry, when the lease ends.
#[derive(Debug, Clone)]
pub enum Reservation {
    /// This entry is put in.
    Put(Box<Entry>),
    /// Nothing is put in; an entry that arrived meanwhile, or the bare one, is removed.
    Forget,
    /// An entry that arrived meanwhile, or the bare one, goes back to its lane, and is due at this instant, in
    /// milliseconds since 1970.
    Defer(i64),
    /// Likewise, since the notification has ended. If it has a place in an order, the next of its order key becomes due.
    End(Option<Box<OrderPlace>>),
    /// It is not known whether the change was written. An entry that arrived meanwhile goes to its lane. Before
    /// it is sent, the journal is asked and the fence is raised. If no entry arrived, this is done for the entry
    /// that is put in next.
    Recheck,
}

impl Reservation {
    /// The same, except that an entry which would wait for a time after the window is not put in: it waits in the
    /// journal. To be called when the journal has committed that time.
    #[must_use]
    pub fn within(self, window: Window, now_ms: i64) -> Self {
        match self {
            Self::Put(entry) if !window.includes(entry.progress.next_due_ms(), now_ms) => {
                Self::Forget
            }
            reservation => reservation,
        }
    }
}

/// What a settlement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It was executed.
    Done,
    /// The lease is no longer in force: nothing changed.
    Lost,
}

/// What a journal knows of a notification that may have no entry here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownToJournal {
    /// When it was accepted, in milliseconds since 1970.
    pub registered_ms: i64,
    /// When its next attempt is due; `None` if it has ended or is set aside, so that none is in flight.
    pub due_ms: Option<i64>,
}

/// Asks for a lease on one notification, for a change by hand or a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The notification.
    pub entry: KeyInLane,
    /// What the journal knows of it. Needed to lease a key that has no entry here.
    pub known: Option<KnownToJournal>,
    for_repair: bool,
    id: u64,
}

impl LeaseRequest {
    /// A new request. If it is made again with the same value, because its reply was lost, it gets the
    /// same lease again.
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

    /// A new request, to give the entry the state in the journal without changing the journal. It is never
    /// answered with [`LeasedOne::MayBeInFlight`].
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

    /// Identifies this request within this process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// The answer to a request for a lease on one notification.
#[derive(Debug, Clone)]
pub enum LeasedOne {
    /// A lease on its entry, which is pending (due or not), or ended and remembered.
    Leased(Box<Lease>),
    /// A lease on a key that has no entry here, or a bare one. An entry that is put in meanwhile waits for the lease.
    Reserved(LeaseToken),
    /// An attempt of it is in flight.
    InFlight,
    /// Another request has leased it for a change by hand.
    Changing,
    /// An attempt of it may be in flight: data was lost less than the time of a lease ago, and its lease
    /// may be part of that.
    MayBeInFlight,
    /// It was accepted within the last [`super::HAND_LEASE_WAIT_MS`], so its registration may still be on its
    /// way here.
    Expected,
    /// It has no entry here. To lease it nevertheless, the request must say what the journal knows of it.
    Missing,
}
