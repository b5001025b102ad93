//! A notification as its owner and support staff see it at one instant.

use crate::domain::attempt::Attempt;
use crate::domain::destination::Destination;
use crate::domain::key::Key;
use crate::domain::ladder::Ladder;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::notification::{Fingerprint, Notification};
use crate::domain::progress::Progress;
use crate::domain::state::{Cause, State};
use crate::domain::timetable::Timetable;
use crate::domain::webhook_id::WebhookId;

/// Since when and why a notification is set aside: its outcome could not be recorded, so it is not sent
/// until it is released by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Since when, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why it could not be recorded.
    pub reason: String,
}

/// Everything that is shown of a notification but its body and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name towards its owner.
    pub key: Key,
    /// Its name towards the receiver.
    pub webhook_id: WebhookId,
    /// The lane it waits in.
    pub lane: Lane,
    /// Where it goes.
    pub destination: Destination,
    /// Its ladder.
    pub ladder: Ladder,
    /// What it was registered with.
    pub fingerprint: Fingerprint,
    /// The stored state. Everything pending is `Scheduled`; while an attempt is in flight, the flag below is set
    /// and the API shows `in_flight`.
    pub state: State,
    /// Whether an attempt is in flight.
    pub in_flight: bool,
    /// Why it is dead, if it is.
    pub cause: Option<Cause>,
    /// How far it has come.
    pub progress: Progress,
    /// When it was accepted, in milliseconds since 1970.
    pub registered_ms: i64,
    /// When it ended, if it has.
    pub ended_ms: Option<i64>,
    /// How often the holder of a lease has excluded those who held one before. A change by hand
    /// applies only where this is what it was decided on. 0 where no journal keeps it.
    pub fence: u64,
    /// Set if it is pending and set aside. Lists do not tell.
    pub set_aside: Option<SetAside>,
    /// The attempts that have ended, oldest first; empty where no journal keeps them.
    pub attempts: Vec<Attempt>,
}

impl Snapshot {
    /// Where a schedule finds it.
    #[must_use]
    pub fn key_in_lane(&self) -> KeyInLane {
        KeyInLane {
            key: self.key.clone(),
            lane: self.lane.clone(),
        }
    }

    /// The first sight of a notification, just accepted.
    #[must_use]
    pub fn of_new(notification: &Notification, progress: Progress) -> Self {
        Self {
            key: notification.key.clone(),
            webhook_id: notification.webhook_id,
            lane: notification.lane.clone(),
            destination: notification.destination.clone(),
            ladder: notification.ladder.clone(),
            fingerprint: notification.fingerprint,
            state: State::Scheduled,
            in_flight: false,
            cause: None,
            progress,
            registered_ms: notification.registered_ms,
            ended_ms: None,
            fence: 0,
            set_aside: None,
            attempts: Vec::new(),
        }
    }

    /// The state's name on the wire.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::Scheduled if self.in_flight => "in_flight",
            State::Scheduled | State::Delivered | State::Dead | State::Cancelled => {
                self.state.as_str()
            }
        }
    }

    /// How many attempts lie ahead, the one in flight included.
    #[must_use]
    pub fn attempts_left(&self) -> usize {
        match self.state {
            State::Scheduled => {
                let ahead = Timetable::ahead(&self.ladder, &self.progress);
                ahead.attempts.len() + usize::from(self.progress.retry_at_ms.is_some())
            }
            State::Delivered | State::Dead | State::Cancelled => 0,
        }
    }

    /// When the next attempt is due, if there is one.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<i64> {
        match self.state {
            State::Scheduled => Some(self.progress.next_due_ms()),
            State::Delivered | State::Dead | State::Cancelled => None,
        }
    }
}
