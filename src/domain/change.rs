//! Changes by hand: a person or a service asks to cancel, discard, replay, resend, retry or reschedule a
//! notification.
//!
//! This module decides whether the notification allows the change, and computes the new state. The stores
//! apply it.

use crate::domain::history_note::HistoryNote;
use crate::domain::notification::Start;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};
use crate::domain::timestamp::display_ms;
use std::fmt;

/// A change by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Cancel a scheduled notification. One that a higher number of its order has ended stays cancelled for good:
    /// no acknowledgement of an attempt that was in flight meanwhile makes it delivered.
    Cancel,
    /// Discard a dead letter. Its new state is cancelled. One that a higher number has ended: as a cancellation.
    Discard,
    /// Start the ladder (the retry schedule) of a dead letter again, as a new series.
    Replay,
    /// Send a delivered notification again: start its ladder again, as a new series.
    Resend,
    /// Make an attempt now. If it fails, the ladder continues where it was.
    Retry,
    /// Move the first attempt of the series, and the deadline with it. Allowed until the ladder has made an
    /// attempt in this series: from then on, receivers rely on the published times of the ladder.
    Reschedule(Start),
}

/// A notification's state after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The new state.
    pub state: State,
    /// The new cause.
    pub cause: Option<Cause>,
    /// The new progress.
    pub progress: Progress,
    /// When the notification ended, in milliseconds since 1970; `None` if it is scheduled.
    pub ended_ms: Option<i64>,
}

impl Change {
    /// Applies the change at `now_ms`; `None` if the notification does not allow it.
    #[must_use]
    pub fn apply(self, before: &Snapshot, now_ms: i64) -> Option<Changed> {
        if !self.is_allowed(before) {
            return None;
        }
        let (ladder, progress) = (&before.ladder, &before.progress);
        let scheduled = |progress| Changed {
            state: State::Scheduled,
            cause: None,
            progress,
            ended_ms: None,
        };
        Some(match self {
            // It has ended before. From now on no acknowledgement makes it delivered.
            Self::Cancel | Self::Discard if before.takes_late_delivery() => Changed {
                state: before.state,
                cause: before.cause,
                progress: *progress,
                ended_ms: before.ended_ms,
            },
            Self::Cancel | Self::Discard => Changed {
                state: State::Cancelled,
                cause: None,
                progress: *progress,
                ended_ms: Some(now_ms),
            },
            Self::Replay | Self::Resend => scheduled(progress.next_series(ladder, now_ms)),
            Self::Retry => scheduled(progress.retry(now_ms)),
            Self::Reschedule(start) => {
                scheduled(progress.reschedule(ladder, start.first_due_ms(now_ms)))
            }
        })
    }

    /// Whether the notification allows the change.
    #[must_use]
    pub fn is_allowed(self, before: &Snapshot) -> bool {
        match self {
            Self::Cancel => before.state == State::Scheduled || before.takes_late_delivery(),
            Self::Discard => before.state == State::Dead || before.takes_late_delivery(),
            Self::Retry => before.state == State::Scheduled,
            Self::Replay => before.state == State::Dead,
            Self::Resend => before.state == State::Delivered,
            Self::Reschedule(_) => {
                before.state == State::Scheduled && Obstacle::of(before).is_none()
            }
        }
    }

    /// Whether the change may be allowed when the attempt that is in flight has ended. What a higher number of its order has ended
    /// is not sent again, however its attempt ends.
    #[must_use]
    pub fn may_follow_the_attempt(self, before: &Snapshot) -> bool {
        let is_over = before.takes_late_delivery();
        match self {
            Self::Cancel | Self::Discard => true,
            Self::Replay | Self::Resend | Self::Retry => !is_over,
            Self::Reschedule(_) => !is_over && Obstacle::of(before).is_none(),
        }
    }

    /// Says why the change is refused.
    #[must_use]
    pub fn refusal(self, before: &Snapshot) -> String {
        match self.refused_because(before) {
            ChangeRefusal::Begun => format!(
                "cannot {self} a notification after the first attempt of its series: its ladder decides when the next \
                 attempts are due; it can be cancelled, or attempted now"
            ),
            ChangeRefusal::SetAside => format!(
                "cannot {self} a notification that is set aside; a retry or a cancellation releases it"
            ),
            ChangeRefusal::InFlight => format!(
                "cannot {self} a notification of which an attempt is in flight; a higher number of its order has ended \
                 it, and it is delivered if that attempt is acknowledged"
            ),
            ChangeRefusal::Cancelled => format!(
                "cannot {self} a notification that is cancelled; to have it sent, register it under another id"
            ),
            ChangeRefusal::Superseded => format!(
                "cannot {self} a notification that is cancelled; a higher number of its order was registered, and only \
                 the latest is sent"
            ),
            ChangeRefusal::State(instead) => {
                let instead = match instead {
                    Some(Self::Resend) => "; resend sends it again",
                    Some(Self::Replay) => "; replay sends it again",
                    Some(Self::Discard) => "; discard gives it up for good",
                    Some(Self::Cancel) => "; cancel ends it",
                    Some(Self::Retry) => "; retry makes an attempt now",
                    Some(Self::Reschedule(_)) | None => "",
                };
                let state = before.state_name();
                format!("cannot {self} a notification that is {state}{instead}")
            }
        }
    }

    /// Why the change is refused.
    #[must_use]
    pub fn refused_because(self, before: &Snapshot) -> ChangeRefusal {
        let obstacle = match self {
            Self::Reschedule(_) if before.state == State::Scheduled => Obstacle::of(before),
            Self::Cancel
            | Self::Discard
            | Self::Replay
            | Self::Resend
            | Self::Retry
            | Self::Reschedule(_) => None,
        };
        match obstacle {
            Some(Obstacle::Begun) => ChangeRefusal::Begun,
            Some(Obstacle::SetAside) => ChangeRefusal::SetAside,
            None if before.in_flight && before.takes_late_delivery() => ChangeRefusal::InFlight,
            None if self.is_to_send() && before.state == State::Cancelled => {
                match before.cause == Some(Cause::Superseded) {
                    true => ChangeRefusal::Superseded,
                    false => ChangeRefusal::Cancelled,
                }
            }
            None => ChangeRefusal::State(self.instead(before.state)),
        }
    }

    /// Whether whoever asks for the change wants the notification to be sent.
    fn is_to_send(self) -> bool {
        match self {
            Self::Replay | Self::Resend | Self::Retry | Self::Reschedule(_) => true,
            Self::Cancel | Self::Discard => false,
        }
    }

    /// Which change does for a notification in this state what was probably meant.
    fn instead(self, state: State) -> Option<Self> {
        match (self, state) {
            (Self::Replay | Self::Retry, State::Delivered) => Some(Self::Resend),
            (Self::Resend | Self::Retry, State::Dead) => Some(Self::Replay),
            (Self::Cancel, State::Dead) => Some(Self::Discard),
            (Self::Discard, State::Scheduled) => Some(Self::Cancel),
            (Self::Replay | Self::Resend, State::Scheduled) => Some(Self::Retry),
            _ => None,
        }
    }

    /// Whether the change starts a series for a notification that has ended. That needs the body, which may
    /// have been deleted.
    #[must_use]
    pub fn needs_payload(self) -> bool {
        match self {
            Self::Replay | Self::Resend => true,
            Self::Cancel | Self::Discard | Self::Retry | Self::Reschedule(_) => false,
        }
    }

    /// Whether the change asks for a call now.
    #[must_use]
    pub fn asks_for_a_call(self) -> bool {
        match self {
            Self::Replay | Self::Resend | Self::Retry => true,
            Self::Cancel | Self::Discard | Self::Reschedule(_) => false,
        }
    }

    /// The name of the change.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Discard => "discard",
            Self::Replay => "replay",
            Self::Resend => "resend",
            Self::Retry => "retry",
            Self::Reschedule(_) => "reschedule",
        }
    }

    /// The name of the change in the notification's history.
    #[must_use]
    pub fn transition(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Discard => "discarded",
            Self::Replay => "replayed",
            Self::Resend => "resent",
            Self::Retry => "retried",
            Self::Reschedule(_) => "rescheduled",
        }
    }

    /// The detail of the change in the notification's history: the caller's reason, or what was moved.
    #[must_use]
    pub fn detail(self, reason: &str, before: &Progress, after: &Progress) -> String {
        match self {
            Self::Reschedule(_) => {
                let (from, to) = (before.first_due_ms, after.first_due_ms);
                let (from, to) = (display_ms(from), display_ms(to));
                let moved = match before.retry_at_ms {
                    Some(_) => HistoryNote::MovedAndDropped { from, to },
                    None => HistoryNote::Moved { from, to },
                };
                moved.to_string()
            }
            Self::Cancel | Self::Discard | Self::Replay | Self::Resend | Self::Retry => {
                reason.to_string()
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Why a notification does not allow a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// It cannot be moved: its ladder has made an attempt in this series.
    Begun,
    /// It cannot be moved: it is set aside.
    SetAside,
    /// A higher number of its order has ended it, and an attempt of it is in flight.
    InFlight,
    /// It cannot be sent: it was cancelled or discarded, which is for good.
    Cancelled,
    /// It cannot be sent: a higher number of its order has ended it.
    Superseded,
    /// Its state does not allow it. Contains the change that does what was probably meant.
    State(Option<Change>),
}

/// Why a pending notification cannot be moved.
enum Obstacle {
    /// The ladder has made an attempt in this series.
    Begun,
    /// It is set aside: a call may have been made whose outcome could not be recorded. Whether it is sent
    /// again is for a person to decide, and a move would release it.
    SetAside,
}

impl Obstacle {
    fn of(pending: &Snapshot) -> Option<Self> {
        if pending.set_aside.is_some() {
            Some(Self::SetAside)
        } else {
            (pending.progress.step > 0).then_some(Self::Begun)
        }
    }
}

#[cfg(test)]
mod tests;
