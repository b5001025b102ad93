//! The progress of a notification: the part that every attempt changes.

use crate::domain::deferral::{Deferral, MOST_MOVED_MS};
use crate::domain::ladder::{LATE_MS, Ladder};

/// A notification's position on its ladder (its retry schedule). Instants are in milliseconds since 1970,
/// UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of the series: 1, 2, ... A replay or a resend starts the next series.
    pub series: u32,
    /// How many attempts of the ladder have ended in this series. Attempts by hand are not counted.
    pub step: u32,
    /// How many attempts have ended in all series. Attempts by hand are counted.
    pub attempts: u32,
    /// T0: when the first attempt of the series is due.
    pub first_due_ms: i64,
    /// When the window of the series closes.
    pub deadline_ms: i64,
    /// When the next ladder attempt is due.
    pub due_ms: i64,
    /// When an attempt was requested by hand, if it has not been made yet. If that is before `due_ms`, it is an attempt
    /// of its own, which uses no step of the ladder; else it is the attempt of the ladder that is due. Either goes
    /// before what else is due in the lane.
    pub retry_at_ms: Option<i64>,
    /// Whether the next ladder attempt was moved to the deadline, because it would have been due later.
    pub clamped: bool,
}

impl Progress {
    /// The progress at the start of the first series.
    #[must_use]
    pub fn start(ladder: &Ladder, first_due_ms: i64) -> Self {
        Self {
            series: 1,
            step: 0,
            attempts: 0,
            first_due_ms,
            deadline_ms: first_due_ms + ladder.window_ms(),
            due_ms: first_due_ms,
            retry_at_ms: None,
            clamped: false,
        }
    }

    /// The progress at the start of the next series, which begins at `now_ms` with the whole ladder. The
    /// count of attempts continues.
    #[must_use]
    pub fn next_series(&self, ladder: &Ladder, now_ms: i64) -> Self {
        Self {
            series: self.series + 1,
            attempts: self.attempts,
            ..Self::start(ladder, now_ms)
        }
    }

    /// Moves the first attempt of this series to `first_due_ms`, and the deadline with it. A requested attempt
    /// by hand is dropped: nothing is sent before the new instant.
    #[must_use]
    pub fn reschedule(&self, ladder: &Ladder, first_due_ms: i64) -> Self {
        Self {
            series: self.series,
            attempts: self.attempts,
            ..Self::start(ladder, first_due_ms)
        }
    }

    /// Moves the deadline by the time for which the next attempt of the ladder was deferred, so that what is held,
    /// probed or limited loses no part of its window. A series gets [`MOST_MOVED_MS`] at most. A deferral of no more than
    /// [`LATE_MS`] moves nothing, as it does not move the attempts that follow.
    #[must_use]
    pub fn deferred(&self, ladder: &Ladder, deferral: Option<Deferral>) -> Self {
        let deferred_ms = match deferral {
            Some(deferral) if deferral.ms > LATE_MS && !self.next_is_by_hand() => deferral.ms,
            Some(_) | None => return *self,
        };
        let latest_ms = self.first_due_ms + ladder.window_ms() + MOST_MOVED_MS;
        let moved_ms = self.deadline_ms.saturating_add(deferred_ms).min(latest_ms);
        Self {
            deadline_ms: moved_ms.max(self.deadline_ms),
            ..*self
        }
    }

    /// Requests an attempt by hand at `now_ms`. If one was requested before and is not made yet, nothing changes.
    #[must_use]
    pub fn retry(&self, now_ms: i64) -> Self {
        Self {
            retry_at_ms: self.retry_at_ms.or(Some(now_ms)),
            ..*self
        }
    }

    /// When the next attempt is due, on the ladder or by hand.
    #[must_use]
    pub fn next_due_ms(&self) -> i64 {
        self.retry_at_ms
            .map_or(self.due_ms, |retry_at_ms| retry_at_ms.min(self.due_ms))
    }

    /// The number of the next attempt, counted over all series: 1, 2, ...
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.attempts + 1
    }

    /// Whether the next attempt was requested by hand.
    #[must_use]
    pub fn next_is_by_hand(&self) -> bool {
        self.retry_at_ms
            .is_some_and(|retry_at_ms| retry_at_ms < self.due_ms)
    }
}
