//! How far a notification has come: the part that every attempt rewrites.

use crate::domain::ladder::Ladder;

/// Where a notification stands on its ladder. Instants in milliseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// 1 for the first series; a replay starts the next.
    pub series: u32,
    /// Ladder attempts of this series that have ended.
    pub step: u32,
    /// Attempts that have ended, over all series and with those made by hand.
    pub attempts: u32,
    /// T0: when the first attempt of the series is due.
    pub first_due_ms: i64,
    /// When the window of the series closes.
    pub deadline_ms: i64,
    /// When the next ladder attempt is due.
    pub due_ms: i64,
    /// When an attempt asked for by hand is due. It takes no step of the ladder.
    pub retry_at_ms: Option<i64>,
    /// Whether the next ladder attempt stands at the deadline in place of a step beyond it.
    pub clamped: bool,
}

impl Progress {
    /// The start of the first series.
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

    /// The start of the next series: the whole ladder again, from `now_ms`. Attempts count on.
    #[must_use]
    pub fn replay(&self, ladder: &Ladder, now_ms: i64) -> Self {
        Self {
            series: self.series + 1,
            attempts: self.attempts,
            ..Self::start(ladder, now_ms)
        }
    }

    /// Asks for an attempt at `now_ms` beside the ladder; one that is due by then anyhow suffices.
    #[must_use]
    pub fn retry(&self, now_ms: i64) -> Self {
        if self.next_due_ms() <= now_ms {
            return *self;
        }
        Self {
            retry_at_ms: Some(now_ms),
            ..*self
        }
    }

    /// When the next attempt is due, by the ladder or by hand.
    #[must_use]
    pub fn next_due_ms(&self) -> i64 {
        self.retry_at_ms
            .map_or(self.due_ms, |retry_at_ms| retry_at_ms.min(self.due_ms))
    }

    /// The number of the next attempt: 1, 2, ... over all series.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.attempts + 1
    }

    /// Whether the next attempt is the one that was asked for by hand.
    #[must_use]
    pub fn next_is_by_hand(&self) -> bool {
        self.retry_at_ms
            .is_some_and(|retry_at_ms| retry_at_ms < self.due_ms)
    }
}
