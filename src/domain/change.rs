//! Changes by hand: a person or a service asks to cancel, discard, replay or retry a notification.
//!
//! This module decides whether the state allows the change, and computes the new state. The stores
//! apply it.

use crate::domain::ladder::Ladder;
use crate::domain::progress::Progress;
use crate::domain::state::{Cause, State, named};

/// A change by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Cancel a scheduled notification.
    Cancel,
    /// Discard a dead letter. Its new state is cancelled.
    Discard,
    /// Start the ladder (the retry schedule) of a dead letter again, as a new series.
    Replay,
    /// Make an attempt now. If it fails, the ladder continues where it was.
    Retry,
}

named!(Change {
    Cancel = "cancel",
    Discard = "discard",
    Replay = "replay",
    Retry = "retry",
});

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
    /// Applies the change at `now_ms`; `None` if the state does not allow it.
    #[must_use]
    pub fn apply(
        self,
        ladder: &Ladder,
        state: State,
        progress: &Progress,
        now_ms: i64,
    ) -> Option<Changed> {
        let cancelled = Changed {
            state: State::Cancelled,
            cause: None,
            progress: *progress,
            ended_ms: Some(now_ms),
        };
        let scheduled = |progress| Changed {
            state: State::Scheduled,
            cause: None,
            progress,
            ended_ms: None,
        };
        match (self, state) {
            (Self::Cancel, State::Scheduled) | (Self::Discard, State::Dead) => Some(cancelled),
            (Self::Replay, State::Dead) => Some(scheduled(progress.replay(ladder, now_ms))),
            (Self::Retry, State::Scheduled) => Some(scheduled(progress.retry(now_ms))),
            (Self::Cancel | Self::Retry, State::Delivered | State::Dead | State::Cancelled)
            | (
                Self::Discard | Self::Replay,
                State::Scheduled | State::Delivered | State::Cancelled,
            ) => None,
        }
    }

    /// Whether a notification in this state allows the change.
    #[must_use]
    pub fn is_allowed(self, state: State) -> bool {
        match self {
            Self::Cancel | Self::Retry => state == State::Scheduled,
            Self::Discard | Self::Replay => state == State::Dead,
        }
    }

    /// The name of the change in the notification's history.
    #[must_use]
    pub fn transition(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Discard => "discarded",
            Self::Replay => "replayed",
            Self::Retry => "retried",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_needs_its_state() {
        fn check(change: Change, state: State, expected: Option<State>) {
            let ladder = Ladder::standard();
            let progress = Progress::start(&ladder, 0);
            let changed = change.apply(&ladder, state, &progress, 5);
            assert_eq!(
                changed.map(|changed| changed.state),
                expected,
                "{change} {state}"
            );
            assert_eq!(
                change.is_allowed(state),
                expected.is_some(),
                "{change} {state}"
            );
        }
        for (change, from, to) in [
            (Change::Cancel, State::Scheduled, State::Cancelled),
            (Change::Discard, State::Dead, State::Cancelled),
            (Change::Replay, State::Dead, State::Scheduled),
            (Change::Retry, State::Scheduled, State::Scheduled),
        ] {
            for state in State::ALL {
                check(change, *state, (*state == from).then_some(to));
            }
        }
    }

    #[test]
    fn a_replay_is_a_new_series_and_attempts_count_on() {
        let ladder = Ladder::standard();
        let before = Progress {
            step: 8,
            attempts: 9,
            ..Progress::start(&ladder, 0)
        };
        let after = Change::Replay
            .apply(&ladder, State::Dead, &before, 1_000)
            .expect("allowed")
            .progress;
        assert_eq!((after.series, after.step, after.attempts), (2, 0, 9));
        assert_eq!(after.first_due_ms, 1_000);
        assert_eq!(after.deadline_ms, 1_000 + ladder.window_ms());
    }
}
