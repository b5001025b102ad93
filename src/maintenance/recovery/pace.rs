//! How fast a schedule is loaded beside the traffic. Pure.
//!
//! Loading takes time of both stores, and so do attempts. What is due within seconds is loaded as fast as possible, since its
//! own attempts wait for it. The rest can wait: as long as attempts are made, loading rests after each step for twice as long as
//! the step took, and longer if more attempts of this server begin late. With no attempt, it does not rest.

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
/// The shortest and the longest rest beside attempts, in halves of the time that the step took: so loading takes a third of the
/// time, and one part of 21 at least.
const FEWEST_HALVES: u32 = 4;
const MOST_HALVES: u32 = 40;
const LONGEST_REST: Duration = Duration::from_millis(250);

/// Decides how long loading rests after a step.
#[derive(Debug)]
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
    /// Begins with the shortest rests. `seen` is what was counted until now.
    pub(super) fn new(seen: LatenessCounts) -> Self {
        Self {
            seen,
            attempts: seen.attempts,
            quiet: Duration::ZERO,
            halves: FEWEST_HALVES,
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
                false => (self.halves - 1).max(FEWEST_HALVES),
            };
        } else if self.quiet >= QUIET {
            self.seen = counts;
            self.halves = FEWEST_HALVES;
        }
        let rest = match can_wait && self.is_beside_attempts() {
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
        let mut pace = Pace::new(LatenessCounts::default());
        assert_eq!(rests(&mut pace, &[(100, 0), (100, 1)], true), [40, 40]);
        let late = rests(&mut pace, &[(100, 2); 4], true);
        assert_eq!(late, [50, 60, 70, 80]);
        let punctual = rests(&mut pace, &[(100, 0); 6], true);
        assert_eq!(punctual, [70, 60, 50, 40, 40, 40]);
        // For 5 ms each, so that none reaches the longest rest.
        let mut counts = pace.seen;
        let mut rest = |late| {
            counts.attempts += 100;
            counts.late += late;
            pace.rest(counts, STEP / 4, true)
        };
        let late: Vec<_> = (0..40).map(|_| rest(2)).collect();
        assert_eq!(late[34], STEP * 39 / 8);
        assert_eq!(late[35..], [STEP * 5; 5]);
        assert_eq!(rest(0), STEP * 39 / 8);
        assert!(pace.is_beside_attempts());
    }

    #[test]
    fn a_few_attempts_are_counted_together_with_later_ones() {
        let mut pace = Pace::new(LatenessCounts::default());
        // Fewer than 20 at each step, and none at some of them.
        let few = [(19, 19), (0, 0), (1, 0), (10, 10), (0, 0), (10, 10)];
        assert_eq!(rests(&mut pace, &few, true), [40, 40, 50, 50, 50, 60]);
    }

    #[test]
    fn without_attempts_it_does_not_rest() {
        let mut pace = Pace::new(LatenessCounts::default());
        assert_eq!(rests(&mut pace, &[(100, 100); 2], true), [50, 60]);
        // Each step without an attempt takes 80 ms with its rest.
        let mut steps = vec![(5, 5)];
        steps.extend([(0, 0); 5]);
        let after = rests(&mut pace, &steps, true);
        assert_eq!(after, [60, 60, 60, 60, 0, 0]);
        assert!(!pace.is_beside_attempts());
        assert_eq!(rests(&mut pace, &[(20, 0)], true), [40]);
    }

    #[test]
    fn what_is_due_soon_does_not_wait_and_no_rest_is_long() {
        let mut pace = Pace::new(LatenessCounts::default());
        assert_eq!(rests(&mut pace, &[(100, 100); 8], false), [0; 8]);
        let mut counts = pace.seen;
        counts.attempts += 1;
        let rest = pace.rest(counts, Duration::from_secs(60), true);
        assert_eq!(rest, LONGEST_REST);
    }
}
