//! How long the calls to a store took: a histogram.
//!
//! It has no lock of its own. The health of a store is locked for every call that ends, and a second lock there costs as
//! much as all the rest, because the processors hand both from one to another.

/// Upper bounds of the buckets, in microseconds.
const BOUNDS_US: [u64; 10] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 1_000_000, 5_000_000,
];

/// How long calls took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallDurations {
    /// Calls by the first bound that they did not exceed; those beyond all are at the end.
    buckets: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl CallDurations {
    /// Counts a call that took so many microseconds.
    pub fn observe(&mut self, took_us: u64) {
        let bucket = BOUNDS_US.iter().position(|bound| took_us <= *bound);
        self.buckets[bucket.unwrap_or(BOUNDS_US.len())] += 1;
        self.sum_us = self.sum_us.saturating_add(took_us);
    }

    /// All calls together, in seconds.
    #[must_use]
    pub fn sum_s(&self) -> f64 {
        seconds(self.sum_us)
    }

    /// The number of calls.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The upper bound of each bucket in seconds, `f64::MAX` for the last, and how many calls are in that bucket alone.
    #[must_use]
    pub fn buckets_s(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_US.iter().map(|us| seconds(*us));
        let bounds = bounds.chain([f64::MAX]);
        bounds.zip(self.buckets).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact for 285 years")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        fn check(us: u64, bound_s: f64) {
            let mut durations = CallDurations::default();
            durations.observe(us);
            let hit: Vec<f64> = (durations.buckets_s().into_iter())
                .filter_map(|(bound_s, calls)| (calls == 1).then_some(bound_s))
                .collect();
            assert_eq!(hit, [bound_s], "{us} us");
            assert_eq!(durations.count(), 1);
            assert!((durations.sum_s() - seconds(us)).abs() < 1e-9);
        }
        check(0, 0.000_5);
        check(500, 0.000_5);
        check(501, 0.001);
        check(5_000_000, 5.0);
        check(5_000_001, f64::MAX);
        check(u64::MAX, f64::MAX);
    }
}
