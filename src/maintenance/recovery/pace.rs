//! How fast a schedule is loaded beside the traffic. Pure.
//!
//! Loading takes time of both stores, and so do attempts. What is due within seconds is loaded as fast as possible, since its
//! own attempts wait for it. The rest can wait: after each step, loading rests the longer the more attempts of this server
//! begin late, and not at all while none does.

use crate::telemetry::lateness::LatenessCounts;
use std::time::Duration;

/// What is due later than so long from now can wait, in milliseconds.
pub(super) const SOON_MS: i64 = 5_000;
/// Fewer attempts say nothing; they are counted together with those of the next step.
const FEWEST_ATTEMPTS: u64 = 20;
/// After so long without an attempt, nobody is delayed.
const QUIET: Duration = Duration::from_millis(250);
/// More than one late attempt of so many is too many.
const ONE_OF: u64 = 100;
/// The longest rest, in halves of the time that the step took: so loading takes a fifth of the time at least.
const MOST_HALVES: u32 = 8;
const LONGEST_REST: Duration = Duration::from_millis(250);

/// Decides how long loading rests after a step.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// What was counted when it was last judged.
    seen: LatenessCounts,
    /// The attempts that were counted after the last step.
    attempts: u64,
    /// For how long none has been counted.
    quiet: Duration,
    halves: u32,
}

impl Pace {
    /// Begins without rests. `seen` is what was counted until now.
    pub(super) fn new(seen: LatenessCounts) -> Self {
        Self {
            seen,
            attempts: seen.attempts,
            quiet: Duration::ZERO,
            halves: 0,
        }
    }

    /// Whether attempts are made beside loading, as far as the steps before have shown.
    pub(super) fn is_beside_attempts(&self) -> bool {
        self.quiet < QUIET
    }

    /// How long to rest after a step that took so long, if what follows can wait.
    pub(super) fn rest(
        &mut self,
        counts: LatenessCounts,
        took: Duration,
        can_wait: bool,
    ) -> Duration {
        let attempts = counts.attempts.saturating_sub(self.seen.attempts);
        let late = counts.late.saturating_sub(self.seen.late);
        self.quiet = match counts.attempts == self.attempts {
            true => self.quiet + took,
            false => Duration::ZERO,
        };
        self.attempts = counts.attempts;
        if attempts >= FEWEST_ATTEMPTS {
            self.seen = counts;
            self.halves = match late * ONE_OF > attempts {
                true => (self.halves + 1).min(MOST_HALVES),
                false => self.halves.saturating_sub(1),
            };
        } else if self.quiet >= QUIET {
            self.seen = counts;
            self.halves = 0;
        }
        let rest = match can_wait {
            true => (took * self.halves / 2).min(LONGEST_REST),
            false => Duration::ZERO,
        };
        self.quiet += rest;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    /// Attempts of which so many were late, after each of some steps. Returns the rests.
    fn rests(pace: &mut Pace, steps: &[(u64, u64)], can_wait: bool) -> Vec<u128> {
        let mut counts = pace.seen;
        let rests = steps.iter().map(|(attempts, late)| {
            counts.attempts += attempts;
            counts.late += late;
            pace.rest(counts, STEP, can_wait).as_millis()
        });
        rests.collect()
    }

    #[test]
    fn loading_rests_the_longer_the_more_steps_delay_attempts() {
        let mut pace = Pace::default();
        assert_eq!(rests(&mut pace, &[(100, 0), (100, 1)], true), [0, 0]);
        let late = rests(&mut pace, &[(100, 2); 10], true);
        assert_eq!(late, [10, 20, 30, 40, 50, 60, 70, 80, 80, 80]);
        assert_eq!(rests(&mut pace, &[(100, 0); 9], true)[6..], [10, 0, 0]);
        assert!(pace.is_beside_attempts());
    }

    #[test]
    fn a_few_attempts_are_counted_together_with_later_ones() {
        let mut pace = Pace::default();
        // Fewer than 20 at each step, and none at some of them.
        let few = [(19, 19), (0, 0), (1, 0), (10, 10), (0, 0), (10, 10)];
        assert_eq!(rests(&mut pace, &few, true), [0, 0, 10, 10, 10, 20]);
    }

    #[test]
    fn the_last_few_attempts_do_not_slow_it_down_for_good() {
        let mut pace = Pace::default();
        assert_eq!(rests(&mut pace, &[(100, 100); 2], true), [10, 20]);
        // Each step without an attempt takes 40 ms with its rest.
        let mut steps = vec![(5, 5)];
        steps.extend([(0, 0); 8]);
        let after = rests(&mut pace, &steps, true);
        assert_eq!(after, [20, 20, 20, 20, 20, 20, 20, 0, 0]);
        assert!(!pace.is_beside_attempts());
    }

    #[test]
    fn what_is_due_soon_does_not_wait_and_no_rest_is_long() {
        let mut pace = Pace::default();
        assert_eq!(rests(&mut pace, &[(100, 100); 8], false), [0; 8]);
        let mut counts = pace.seen;
        counts.attempts += 1;
        let rest = pace.rest(counts, Duration::from_secs(60), true);
        assert_eq!(rest, LONGEST_REST);
    }
}
