//! What the journal says of a notification, as far as a schedule must agree with it.

use super::Pending;
use crate::domain::lane::Lane;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;

/// The part of a notification's state in the journal with which a schedule must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its lane.
    pub lane: Lane,
    /// Its state.
    pub state: State,
    /// How far it has come.
    pub progress: Progress,
    /// Whether it is set aside: then the schedule must not hold it. A list does not contain this; reading
    /// the notification does.
    pub set_aside: bool,
}

impl Standing {
    /// Takes it from what a schedule is loaded with.
    #[must_use]
    pub fn of_pending(pending: &Pending) -> Self {
        Self {
            lane: pending.notification.lane.clone(),
            state: State::Scheduled,
            progress: pending.progress,
            set_aside: false,
        }
    }

    /// Takes it from a snapshot of the journal.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        Self {
            lane: snapshot.lane.clone(),
            state: snapshot.state,
            progress: snapshot.progress,
            set_aside: snapshot.set_aside.is_some(),
        }
    }
}

/// What was found under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundStanding {
    /// The journal does not have the notification.
    Missing,
    /// It has.
    Found(Standing),
    /// It has, and cannot read this part of it, for this reason. That was logged.
    Damaged(String),
}
