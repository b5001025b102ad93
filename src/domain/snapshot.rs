//! A snapshot: everything that the API shows of a notification at one instant.

use crate::domain::attempt::Attempt;
use crate::domain::destination::Destination;
use crate::domain::key::Key;
use crate::domain::ladder::Ladder;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::notification::{Fingerprint, Notification};
use crate::domain::order::OrderPlace;
use crate::domain::priority::Priority;
use crate::domain::progress::Progress;
use crate::domain::state::{Cause, State};
use crate::domain::timetable::Timetable;
use crate::domain::webhook_id::WebhookId;

/// Says since when and why a notification is set aside. The journal cannot read it, or cannot record the
/// outcome of its attempt. So it is not sent until a change by hand releases it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// When it was set aside, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why: what the journal cannot read or record.
    pub reason: String,
}

/// Everything that is shown of a notification except its body and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The topic and id that the caller gave.
    pub key: Key,
    /// The id that the receiver gets in the header `webhook-id`.
    pub webhook_id: WebhookId,
    /// The lane that the notification waits in.
    pub lane: Lane,
    /// The URL to call; `None` if it is that of the endpoint at the moment of each attempt.
    pub destination: Option<Destination>,
    /// The retry schedule.
    pub ladder: Ladder,
    /// Its priority within its lane.
    pub priority: Priority,
    /// Its place among others of its lane, if it has one.
    pub order: Option<Box<OrderPlace>>,
    /// Set if it is pending and waits for a lower number of its strict order: when that one is due next, in
    /// milliseconds since 1970.
    pub waits_for_ms: Option<i64>,
    /// The fingerprint of the registration.
    pub fingerprint: Fingerprint,
    /// The stored state. Every pending notification is `Scheduled`. While the field `in_flight` is true, the
    /// API shows `in_flight` instead.
    pub state: State,
    /// Whether the notification is leased: for an attempt or, for a moment, for a change by hand or a repair.
    pub in_flight: bool,
    /// Why the notification is dead, if it is.
    pub cause: Option<Cause>,
    /// Whether it was cancelled by hand too, after a higher number of its order had ended it.
    pub cancelled_by_hand: bool,
    /// The notification's position on its ladder.
    pub progress: Progress,
    /// When the notification was accepted, in milliseconds since 1970.
    pub registered_ms: i64,
    /// When the notification ended, in milliseconds since 1970; `None` if it is pending.
    pub ended_ms: Option<i64>,
    /// A counter in the journal. Every applied change by hand raises it. If an earlier lease has expired, the
    /// next worker raises it before it sends anything. A change by hand is written only if the counter still
    /// has the value that was read before its lease was requested. So a late change under an expired lease is
    /// refused. 0 without a journal.
    pub fence: u64,
    /// Set if the notification is pending and set aside. Always `None` in lists.
    pub set_aside: Option<SetAside>,
    /// The attempts that have ended, oldest first. Empty without a journal.
    pub attempts: Vec<Attempt>,
}

impl Snapshot {
    /// The key and the lane, by which a schedule finds the notification.
    #[must_use]
    pub fn key_in_lane(&self) -> KeyInLane {
        KeyInLane {
            key: self.key.clone(),
            lane: self.lane.clone(),
        }
    }

    /// The snapshot of a notification that was just accepted.
    #[must_use]
    pub fn of_new(notification: &Notification, progress: Progress) -> Self {
        Self {
            key: notification.key.clone(),
            webhook_id: notification.webhook_id,
            lane: notification.lane.clone(),
            destination: notification.destination.clone(),
            ladder: notification.ladder.clone(),
            priority: notification.priority,
            order: notification.order.clone(),
            waits_for_ms: None,
            fingerprint: notification.fingerprint,
            state: State::Scheduled,
            in_flight: false,
            cause: None,
            cancelled_by_hand: false,
            progress,
            registered_ms: notification.registered_ms,
            ended_ms: None,
            fence: 0,
            set_aside: None,
            attempts: Vec::new(),
        }
    }

    /// The name of the state in the API: `in_flight` if the notification is pending and leased.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::Scheduled if self.in_flight => "in_flight",
            State::Scheduled | State::Delivered | State::Dead | State::Cancelled => {
                self.state.as_str()
            }
        }
    }

    /// Whether it is pending and not set aside: then attempts are made.
    #[must_use]
    pub fn is_to_be_sent(&self) -> bool {
        self.state == State::Scheduled && self.set_aside.is_none()
    }

    /// Whether it is cancelled, and becomes delivered if an attempt is acknowledged that was in flight when a higher
    /// number of its order ended it.
    #[must_use]
    pub fn takes_late_delivery(&self) -> bool {
        self.cause == Some(Cause::Superseded) && !self.cancelled_by_hand
    }

    /// How many attempts will be made if all of them fail, including the one in flight.
    #[must_use]
    pub fn attempts_left(&self) -> usize {
        match self.state {
            State::Scheduled => {
                let ahead = Timetable::ahead(&self.ladder, &self.progress);
                ahead.attempts.len() + usize::from(self.progress.next_is_by_hand())
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
