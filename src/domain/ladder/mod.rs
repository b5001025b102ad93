//! The ladder: the retry schedule. It says when the attempts of one series are due.
//!
//! A series starts at `first_due_ms` (T0). Its window closes at `deadline_ms` = T0 + window. Both are
//! fixed when the series starts. The rules (the tables under `fixtures/ladders` list examples):
//!
//! * An attempt is due one interval after the previous attempt was *due*, not after that attempt ended.
//!   So a slow receiver does not delay later attempts.
//! * If an attempt starts more than [`LATE_MS`] late (the dispatcher was down), the next interval counts
//!   from its real start. So late attempts are not made in quick succession.
//! * An attempt may be due until the window closes, the last millisecond included. If the next attempt
//!   would be due after the deadline, one last attempt is made at the deadline instead.
//! * If the dispatcher was down until after the deadline, one more attempt is made: the recovery attempt.
//! * No attempt follows after the last interval. The cause is then `LadderExhausted`, or `WindowClosed` if
//!   the last attempt was the one at the deadline. No attempt follows after the window has closed either.
//!   The other reasons why a series ends are in [`decision`](crate::domain::decision).
//! * An attempt by hand uses no step of the ladder.
//! * A receiver may ask for a longer wait; [`decision`](crate::domain::decision) then moves the next attempt.
//!
//! This module reads no clock and no random numbers: both are arguments. A ladder is one of the [`named`]
//! ladders or a [`CustomLadder`] that the caller wrote.

mod custom;
pub mod named;
mod text;

pub use custom::{BadLadder, CustomLadder, LONGEST_WINDOW_MS, MOST_INTERVALS};

use crate::domain::state::Cause;
use std::sync::Arc;

/// If an attempt starts later than this after it was due, the next interval counts from its real start.
pub const LATE_MS: i64 = 5_000;

/// A ladder, named or custom. A clone copies a pointer, not the intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder(Arc<Steps>);

#[derive(Debug, PartialEq, Eq)]
struct Steps {
    name: Option<&'static str>,
    intervals_ms: Vec<i64>,
    window_ms: i64,
    repeat_last: bool,
    jitter_permille: u16,
}

/// The attempt that just failed: the values on which the next attempt depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// How many attempts on the ladder were made in this series, including this attempt: 1, 2, ...
    pub step: u32,
    /// When the attempt was due.
    pub due_ms: i64,
    /// When the attempt really started.
    pub started_ms: i64,
    /// When the window of the series closes.
    pub deadline_ms: i64,
    /// Whether the attempt was moved to the deadline, because it would have been due later.
    pub clamped: bool,
}

/// What happens after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt.
    Attempt {
        /// When the attempt is due.
        due_ms: i64,
        /// Whether the attempt was moved to the deadline, because it would have been due later.
        clamped: bool,
    },
    /// No attempt follows: the notification becomes a dead letter, for this cause.
    End(Cause),
}

impl Ladder {
    /// About how many bytes of memory a custom ladder takes; 0 for a named ladder, which all notifications
    /// share.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        match self.0.name {
            Some(_) => 0,
            None => size_of::<Steps>() + size_of_val(self.0.intervals_ms.as_slice()),
        }
    }

    /// The name of a named ladder.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.0.name
    }

    /// The waits between attempts, in milliseconds.
    #[must_use]
    pub fn intervals_ms(&self) -> &[i64] {
        &self.0.intervals_ms
    }

    /// Whether the last interval repeats until the window closes.
    #[must_use]
    pub fn repeats_last(&self) -> bool {
        self.0.repeat_last
    }

    /// How long after the first due time other attempts may be due, in milliseconds.
    #[must_use]
    pub fn window_ms(&self) -> i64 {
        self.0.window_ms
    }

    /// Whether the intervals are made a little shorter or longer at random.
    #[must_use]
    pub fn has_jitter(&self) -> bool {
        self.0.jitter_permille != 0
    }

    /// Decides what happens after a failed attempt. `draw` is a random number from 0 to 1; only a ladder
    /// with jitter uses it.
    #[must_use]
    pub fn next_attempt(&self, failed: Failed, draw: f64) -> Next {
        let Some(interval_ms) = self.interval_ms(failed.step) else {
            return Next::End(if failed.clamped {
                Cause::WindowClosed
            } else {
                Cause::LadderExhausted
            });
        };
        let late = failed.started_ms - failed.due_ms > LATE_MS;
        let anchor_ms = if late {
            failed.started_ms
        } else {
            failed.due_ms
        };
        let due_ms = anchor_ms + self.spread_ms(interval_ms, draw);
        if due_ms <= failed.deadline_ms {
            // `due_ms` may be in the past: the failed attempt may have begun up to `LATE_MS` late, or taken
            // longer than the interval. The next attempt is made nevertheless.
            return Next::Attempt {
                due_ms,
                clamped: false,
            };
        }
        if failed.due_ms < failed.deadline_ms && failed.started_ms < failed.deadline_ms {
            return Next::Attempt {
                due_ms: failed.deadline_ms,
                clamped: true,
            };
        }
        Next::End(Cause::WindowClosed)
    }

    /// The wait after attempt number `step` of the series.
    fn interval_ms(&self, step: u32) -> Option<i64> {
        let index = usize::try_from(step).ok()?.checked_sub(1)?;
        let intervals = &self.0.intervals_ms;
        match intervals.get(index) {
            Some(interval_ms) => Some(*interval_ms),
            None if self.0.repeat_last => intervals.last().copied(),
            None => None,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "an interval is far below 2^52 ms"
    )]
    fn spread_ms(&self, interval_ms: i64, draw: f64) -> i64 {
        if !self.has_jitter() {
            return interval_ms;
        }
        let share = f64::from(self.0.jitter_permille) / 1000.0 * (2.0 * draw - 1.0);
        (interval_ms + (interval_ms as f64 * share).round() as i64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(intervals: &[&str], window: Option<&str>) -> Ladder {
        Ladder::custom(&CustomLadder {
            intervals: intervals.iter().map(ToString::to_string).collect(),
            window: window.map(ToString::to_string),
            repeat_last: false,
            jitter: 0.0,
        })
        .expect("a valid ladder")
    }

    fn failed(step: u32, due_ms: i64, started_ms: i64, deadline_ms: i64) -> Failed {
        Failed {
            step,
            due_ms,
            started_ms,
            deadline_ms,
            clamped: false,
        }
    }

    #[test]
    fn the_next_attempt_counts_from_when_the_last_was_due() {
        let ladder = ladder(&["10s", "20s"], Some("1h"));
        let next = |started_ms| ladder.next_attempt(failed(1, 1_000, started_ms, 3_600_000), 0.0);
        let due = |due_ms| Next::Attempt {
            due_ms,
            clamped: false,
        };
        assert_eq!(next(1_000), due(11_000));
        assert_eq!(
            next(1_000 + LATE_MS),
            due(11_000),
            "five seconds late is on time"
        );
        assert_eq!(
            next(1_001 + LATE_MS),
            due(16_001),
            "later than that moves the anchor"
        );
    }

    #[test]
    fn the_window_includes_its_last_instant() {
        let ladder = ladder(&["10s", "10s"], Some("10s"));
        assert_eq!(
            ladder.next_attempt(failed(1, 0, 0, 10_000), 0.0),
            Next::Attempt {
                due_ms: 10_000,
                clamped: false
            }
        );
        assert_eq!(
            ladder.next_attempt(failed(2, 10_000, 10_000, 10_000), 0.0),
            Next::End(Cause::WindowClosed)
        );
    }

    #[test]
    fn a_step_beyond_the_window_becomes_one_attempt_at_the_deadline() {
        let ladder = ladder(&["10s", "10s"], Some("15s"));
        let last = ladder.next_attempt(failed(2, 10_000, 10_003, 15_000), 0.0);
        assert_eq!(
            last,
            Next::Attempt {
                due_ms: 15_000,
                clamped: true
            }
        );
        let over = Failed {
            clamped: true,
            ..failed(3, 15_000, 15_002, 15_000)
        };
        assert_eq!(
            ladder.next_attempt(over, 0.0),
            Next::End(Cause::WindowClosed)
        );
    }

    #[test]
    fn a_little_lateness_costs_no_step() {
        let ladder = ladder(&["20ms", "20ms"], None);
        assert_eq!(
            ladder.next_attempt(failed(1, 0, 4_000, 40), 0.0),
            Next::Attempt {
                due_ms: 20,
                clamped: false
            }
        );
        assert_eq!(
            ladder.next_attempt(failed(2, 20, 4_100, 40), 0.0),
            Next::Attempt {
                due_ms: 40,
                clamped: false
            }
        );
    }

    #[test]
    fn an_attempt_after_the_deadline_is_the_last() {
        let ladder = ladder(&["10s", "10s", "10s"], None);
        assert_eq!(
            ladder.next_attempt(failed(1, 0, 40_000, 30_000), 0.0),
            Next::End(Cause::WindowClosed)
        );
        assert_eq!(
            ladder.next_attempt(failed(4, 30_000, 30_000, 30_000), 0.0),
            Next::End(Cause::LadderExhausted)
        );
    }

    #[test]
    fn no_intervals_is_one_attempt() {
        let ladder = ladder(&[], None);
        assert_eq!(
            ladder.next_attempt(failed(1, 0, 1, 0), 0.0),
            Next::End(Cause::LadderExhausted)
        );
    }

    #[test]
    fn jitter_stays_within_its_share_and_named_ladders_have_none() {
        let jittered = Ladder::custom(&CustomLadder {
            intervals: vec!["10s".into()],
            window: Some("1m".into()),
            repeat_last: false,
            jitter: 0.1,
        })
        .expect("valid");
        let due = |ladder: &Ladder, draw| match ladder.next_attempt(failed(1, 0, 0, 60_000), draw) {
            Next::Attempt { due_ms, .. } => due_ms,
            Next::End(cause) => panic!("ended: {cause}"),
        };
        assert_eq!(due(&jittered, 0.0), 9_000);
        assert_eq!(due(&jittered, 0.5), 10_000);
        assert_eq!(due(&jittered, 1.0), 11_000);
        for (ladder, _) in named::all() {
            assert_eq!(due(ladder, 0.0), due(ladder, 1.0));
        }
    }
}
