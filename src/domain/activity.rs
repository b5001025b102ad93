//! What the attempts of a minute did, as counters. They are for plots over time: the notifications themselves say what
//! has become of each.
//!
//! | counter | what it counts |
//! |---|---|
//! | one for each outcome | attempts that ended so |
//! | dead letters | notifications that an attempt made dead letters |
//! | lateness | attempts by how late they began, without interrupted ones and without the time for which an attempt was deferred |

use super::attempt::{Attempt, Outcome};

/// The length of the time that one set of counters is about.
pub const MINUTE_MS: i64 = 60_000;

/// The upper bounds of the counters of lateness, in milliseconds. What is later than the last bound counts there too.
pub const LATENESS_BOUNDS_MS: [i64; 22] = [
    5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000,
    1_800_000, 3_600_000, 7_200_000, 14_400_000, 28_800_000, 43_200_000, 86_400_000,
];
/// Up to this bound, attempts count as spread evenly between two bounds. Beyond it the bounds are far apart, and attempts
/// that were late for one reason are close together.
const LAST_SPREAD_MS: i64 = 60_000;

const OUTCOMES: usize = Outcome::ALL.len();
const LATENESSES: usize = OUTCOMES + 1;

/// The counters. See the documentation of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivityCounts([u64; ActivityCounts::LENGTH]);

impl Default for ActivityCounts {
    fn default() -> Self {
        Self([0; Self::LENGTH])
    }
}

impl ActivityCounts {
    /// The number of counters.
    pub const LENGTH: usize = LATENESSES + LATENESS_BOUNDS_MS.len();

    /// The counters with these values: the outcomes in the order of [`Outcome::ALL`], the dead letters, and the lateness in
    /// the order of [`LATENESS_BOUNDS_MS`].
    #[must_use]
    pub fn from_values(values: [u64; Self::LENGTH]) -> Self {
        Self(values)
    }

    /// The values, in the order of [`Self::from_values`].
    #[must_use]
    pub fn values(&self) -> &[u64; Self::LENGTH] {
        &self.0
    }

    /// Counts an attempt that has ended.
    pub fn attempt(&mut self, attempt: &Attempt) {
        if let Some(outcome) = place_of(attempt.answer.outcome) {
            self.0[outcome] += 1;
        }
        if let Some(late_ms) = attempt.late_ms() {
            let above = LATENESS_BOUNDS_MS.partition_point(|bound_ms| *bound_ms < late_ms);
            self.0[LATENESSES + above.min(LATENESS_BOUNDS_MS.len() - 1)] += 1;
        }
    }

    /// Counts a notification that has become a dead letter.
    pub fn dead_letter(&mut self) {
        self.0[OUTCOMES] += 1;
    }

    /// Adds other counters.
    pub fn add(&mut self, other: &Self) {
        for (sum, value) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(value);
        }
    }

    /// How many attempts ended so.
    #[must_use]
    pub fn outcome(&self, outcome: Outcome) -> u64 {
        place_of(outcome).map_or(0, |place| self.0[place])
    }

    /// How many attempts were acknowledged.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.outcome(Outcome::Acknowledged)
    }

    /// How many attempts were not acknowledged.
    #[must_use]
    pub fn failed(&self) -> u64 {
        let all: u64 = self.0[..OUTCOMES].iter().sum();
        all - self.delivered()
    }

    /// How many notifications became dead letters.
    #[must_use]
    pub fn dead(&self) -> u64 {
        self.0[OUTCOMES]
    }

    /// How late attempts began, in milliseconds: so many percent of them no later than this, as far as the counters tell.
    /// `None` without attempts.
    #[must_use]
    pub fn lateness_ms(&self, percent: u32) -> Option<i64> {
        let counts = &self.0[LATENESSES..];
        let all: u64 = counts.iter().sum();
        let wanted = (u128::from(all) * u128::from(percent)).div_ceil(100).max(1);
        let (mut below, mut lower_ms) = (0_u128, 0);
        for (count, upper_ms) in counts.iter().zip(LATENESS_BOUNDS_MS) {
            let count = u128::from(*count);
            if count > 0 && below + count >= wanted {
                if upper_ms > LAST_SPREAD_MS {
                    return Some(upper_ms);
                }
                let width = u128::try_from(upper_ms - lower_ms).unwrap_or(0);
                let part = width * (wanted - below) / count;
                return Some(lower_ms + i64::try_from(part).unwrap_or(0));
            }
            below += count;
            lower_ms = upper_ms;
        }
        None
    }
}

fn place_of(outcome: Outcome) -> Option<usize> {
    Outcome::ALL.iter().position(|known| *known == outcome)
}

/// The counters of some minutes that follow on each other, over all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivityBucket {
    /// The first of its minutes, in minutes since 1970.
    pub from_minute: i64,
    /// For how many of its minutes at least one server has counted. In the other ones no server was at work, or none could
    /// write.
    pub counted_minutes: i64,
    /// What was counted.
    pub counts: ActivityCounts,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::Answer;
    use crate::domain::call_trace::CallTrace;

    fn attempt(outcome: Outcome, late_ms: i64) -> Attempt {
        Attempt {
            series: 1,
            number: 1,
            due_ms: 1_000,
            started_ms: 1_000 + late_ms,
            duration_ms: 5,
            answer: Answer {
                outcome,
                status: None,
                body: Vec::new(),
                reason: String::new(),
            },
            trace: CallTrace::default(),
        }
    }

    #[test]
    fn each_attempt_is_counted_once() {
        let mut counts = ActivityCounts::default();
        for outcome in Outcome::ALL {
            counts.attempt(&attempt(*outcome, 7));
        }
        counts.dead_letter();
        let mut twice = counts;
        twice.add(&counts);
        for outcome in Outcome::ALL {
            assert_eq!((counts.outcome(*outcome), twice.outcome(*outcome)), (1, 2));
        }
        let sums = (counts.delivered(), counts.failed(), counts.dead());
        assert_eq!(sums, (1, OUTCOMES as u64 - 1, 1));
        assert_eq!(
            ActivityCounts::from_values(*counts.values()),
            counts,
            "values and counters are the same"
        );
    }

    #[test]
    fn a_lateness_is_between_its_bounds() {
        fn check(latenesses_ms: &[i64], percent: u32, expected: Option<i64>) {
            let mut counts = ActivityCounts::default();
            for late_ms in latenesses_ms {
                counts.attempt(&attempt(Outcome::Timeout, *late_ms));
            }
            assert_eq!(counts.lateness_ms(percent), expected, "{latenesses_ms:?}");
        }
        check(&[], 50, None);
        check(&[-3], 50, Some(5));
        check(&[5], 99, Some(5));
        check(&[6], 50, Some(10));
        check(&[0, 0, 0, 0], 50, Some(2));
        check(&[0, 0, 0, 15_000], 50, Some(3));
        check(&[0, 0, 0, 15_000], 99, Some(30_000));
        check(&[0, 0, 40_000, 40_000], 99, Some(60_000));
        check(&[61 * 60_000, 69 * 60_000], 50, Some(2 * 3_600_000));
        check(&[61 * 60_000, 69 * 60_000], 99, Some(2 * 3_600_000));
        check(&[i64::MAX / 2], 99, Some(86_400_000));
        let mut interrupted = ActivityCounts::default();
        interrupted.attempt(&attempt(Outcome::Interrupted, 9_000_000));
        assert_eq!(interrupted.lateness_ms(50), None);
    }
}
