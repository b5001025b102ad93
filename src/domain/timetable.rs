//! The timetable: when the future attempts of a series are due, if each one starts on time and fails.

use crate::domain::ladder::{Failed, Ladder, Next};
use crate::domain::progress::Progress;
use crate::domain::state::Cause;

/// A future attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When the attempt is due.
    pub due_ms: i64,
    /// Whether the attempt was moved to the deadline, because it would have been due later.
    pub clamped: bool,
}

/// The future attempts of a series on its ladder, in order, and the cause that ends the series after them.
/// Jitter is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    /// The attempts. The first one is due next.
    pub attempts: Vec<Planned>,
    /// Why the notification becomes a dead letter if the last attempt fails.
    pub ends_with: Cause,
}

impl Timetable {
    /// The timetable of a whole series whose first attempt is due at 0.
    #[must_use]
    pub fn of(ladder: &Ladder) -> Self {
        Self::ahead(ladder, &Progress::start(ladder, 0))
    }

    /// The timetable of the remaining attempts of a series.
    #[must_use]
    pub fn ahead(ladder: &Ladder, progress: &Progress) -> Self {
        let mut step = progress.step;
        let mut next = Planned {
            due_ms: progress.due_ms,
            clamped: progress.clamped,
        };
        let mut attempts = Vec::new();
        loop {
            attempts.push(next);
            step += 1;
            let failed = Failed {
                step,
                due_ms: next.due_ms,
                started_ms: next.due_ms,
                deadline_ms: progress.deadline_ms,
                clamped: next.clamped,
            };
            // The draw 0.5 is the middle of the range: it leaves each interval as it is, without jitter.
            next = match ladder.next_attempt(failed, 0.5) {
                Next::Attempt { due_ms, clamped } => Planned { due_ms, clamped },
                Next::End(ends_with) => {
                    return Self {
                        attempts,
                        ends_with,
                    };
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ladder::CustomLadder;

    fn check(intervals: &[&str], window: Option<&str>, expected: &[(i64, bool)], ends: Cause) {
        let ladder = Ladder::custom(&CustomLadder {
            intervals: intervals.iter().map(ToString::to_string).collect(),
            window: window.map(ToString::to_string),
            repeat_last: false,
            jitter: 0.5,
        })
        .expect("a valid ladder");
        let timetable = Timetable::of(&ladder);
        let attempts = timetable.attempts.iter();
        let attempts: Vec<_> = attempts.map(|next| (next.due_ms, next.clamped)).collect();
        assert_eq!(attempts, expected, "{intervals:?}");
        assert_eq!(timetable.ends_with, ends, "{intervals:?}");
    }

    #[test]
    fn no_intervals_is_one_attempt() {
        check(&[], None, &[(0, false)], Cause::LadderExhausted);
    }

    #[test]
    fn the_window_cuts_the_last_attempt_short() {
        let cut = [(0, false), (10_000, false), (15_000, true)];
        check(&["10s", "10s"], Some("15s"), &cut, Cause::WindowClosed);
        let whole = [(0, false), (10_000, false), (20_000, false)];
        check(&["10s", "10s"], None, &whole, Cause::LadderExhausted);
    }
}
