//! The rate of a lane: how many calls to its destination are made in a second.
//!
//! A rate is kept by one number for each lane (GCRA): the *arrival time*, when the lane would have made its calls
//! if they had been spread evenly. A call may be made if the arrival time is not further ahead than
//! [`CallRate::tolerance_us`], and moves it by [`CallRate::interval_us`]. The Lua scripts of the schedule in Redis
//! (`schedule/redis/lua/lanes.lua`) keep the same rules.

use std::fmt;
use thiserror::Error;

/// A lane may make the calls of so many microseconds at once, and at least one. So what is due within a tenth of
/// a second need not be claimed one by one.
pub const BURST_US: i64 = 100_000;
/// The slowest rate, in calls per 1,000 seconds: shorter than the state of a lane is kept without a call.
const SLOWEST: u32 = 1;
/// The fastest rate, in calls per 1,000 seconds: ten thousand calls per second.
const FASTEST: u32 = 10_000_000;
/// Microseconds in the 1,000 seconds that a rate counts by.
const PERIOD_US: i64 = 1_000_000_000;

/// How many calls are made per second: above 0, with at most three decimals. A burst is at most the calls of a
/// tenth of a second, or one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallRate {
    per_thousand_seconds: u32,
}

/// The error for a number that is not a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a rate is a number of calls per second, from 0.001 to 10000, with at most three decimals")]
pub struct BadCallRate;

impl CallRate {
    /// So many calls per second.
    ///
    /// # Errors
    /// [`BadCallRate`] if the number is out of bounds or has more than three decimals.
    pub fn per_second(calls: f64) -> Result<Self, BadCallRate> {
        let thousands = calls * 1_000.0;
        let rounded = thousands.round();
        // NaN is in no range.
        if !(f64::from(SLOWEST)..=f64::from(FASTEST)).contains(&rounded)
            || (thousands - rounded).abs() > 1e-6
        {
            return Err(BadCallRate);
        }
        // The number is whole and in the range, so the conversion is exact.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let per_thousand_seconds = rounded as u32;
        Ok(Self {
            per_thousand_seconds,
        })
    }

    /// A rate that was read from a store, in calls per 1,000 seconds; `None` if it is out of bounds.
    #[must_use]
    pub fn from_stored(per_thousand_seconds: u32) -> Option<Self> {
        (SLOWEST..=FASTEST)
            .contains(&per_thousand_seconds)
            .then_some(Self {
                per_thousand_seconds,
            })
    }

    /// Calls per 1,000 seconds, for a store.
    #[must_use]
    pub fn to_stored(self) -> u32 {
        self.per_thousand_seconds
    }

    /// Calls per second.
    #[must_use]
    pub fn calls_per_second(self) -> f64 {
        f64::from(self.per_thousand_seconds) / 1_000.0
    }

    /// By how much a call moves the arrival time, in microseconds. Rounded up, so that the rate is not exceeded.
    #[must_use]
    pub fn interval_us(self) -> i64 {
        let calls = i64::from(self.per_thousand_seconds);
        (PERIOD_US + calls - 1) / calls
    }

    /// How far the arrival time may be ahead when a call is made, in microseconds.
    #[must_use]
    pub fn tolerance_us(self) -> i64 {
        (BURST_US - self.interval_us()).max(0)
    }

    /// From when on a call may be made, in milliseconds since 1970.
    #[must_use]
    pub fn next_call_ms(self, arrival_us: i64) -> i64 {
        let next_us = arrival_us - self.tolerance_us();
        next_us.div_euclid(1_000) + i64::from(next_us.rem_euclid(1_000) > 0)
    }

    /// How many calls may be made at this instant.
    #[must_use]
    pub fn calls_allowed(self, arrival_us: i64, now_ms: i64) -> usize {
        let now_us = now_ms * 1_000;
        let ahead_us = arrival_us.max(now_us) - now_us;
        if ahead_us > self.tolerance_us() {
            return 0;
        }
        let calls = (self.tolerance_us() - ahead_us) / self.interval_us() + 1;
        usize::try_from(calls).unwrap_or(usize::MAX)
    }

    /// The arrival time after so many calls at this instant.
    #[must_use]
    pub fn after_calls(self, arrival_us: i64, calls: usize, now_ms: i64) -> i64 {
        let calls = i64::try_from(calls).unwrap_or(i64::MAX);
        let moved_us = calls.saturating_mul(self.interval_us());
        arrival_us.max(now_ms * 1_000).saturating_add(moved_us)
    }

    /// The arrival time if a call was not made that [`Self::after_calls`] has counted.
    #[must_use]
    pub fn without_a_call(self, arrival_us: i64) -> i64 {
        arrival_us.saturating_sub(self.interval_us()).max(0)
    }

    /// The arrival time of a lane with this rate, at most as far ahead as calls move it. If the clock was set back, the lane
    /// would make no call until the clock shows the former time again. A call that is claimed early counts from when it
    /// begins, which is at most `early_ms` from now.
    #[must_use]
    pub fn bounded(self, arrival_us: i64, now_ms: i64, early_ms: i64) -> i64 {
        self.adopted(arrival_us, now_ms.saturating_add(early_ms))
    }

    /// The arrival time of a lane that gets this rate now. A slower rate of before may have moved it far ahead.
    #[must_use]
    pub fn adopted(self, arrival_us: i64, now_ms: i64) -> i64 {
        arrival_us.min(now_ms * 1_000 + self.tolerance_us() + self.interval_us())
    }
}

impl fmt::Display for CallRate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.calls_per_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(calls: f64) -> CallRate {
        CallRate::per_second(calls).expect("a rate")
    }

    #[test]
    fn a_rate_is_a_number_within_bounds() {
        fn check(calls: f64, stored: Option<u32>) {
            let rate = CallRate::per_second(calls).ok();
            assert_eq!(rate.map(CallRate::to_stored), stored, "{calls}");
            let read = stored.and_then(CallRate::from_stored);
            assert_eq!(read, rate, "{calls}");
        }
        check(0.5, Some(500));
        check(0.001, Some(1));
        check(0.0004, None);
        check(0.0, None);
        check(-1.0, None);
        check(2.25, Some(2_250));
        check(2.2501, None);
        check(0.1 + 0.2, Some(300));
        check(10_000.0, Some(10_000_000));
        check(10_000.001, None);
        check(f64::NAN, None);
        check(f64::INFINITY, None);
        assert_eq!(CallRate::from_stored(0), None);
        assert_eq!(CallRate::from_stored(FASTEST + 1), None);
        assert_eq!(rate(0.5).to_string(), "0.5");
        assert_eq!(rate(20.0).to_string(), "20");
    }

    #[test]
    fn calls_are_spread_by_the_interval() {
        let slow = rate(0.5);
        assert_eq!((slow.interval_us(), slow.tolerance_us()), (2_000_000, 0));
        assert_eq!(slow.calls_allowed(0, 1_000), 1);
        let arrival_us = slow.after_calls(0, 1, 1_000);
        assert_eq!(slow.next_call_ms(arrival_us), 3_000);
        assert_eq!(slow.calls_allowed(arrival_us, 2_999), 0);
        assert_eq!(slow.calls_allowed(arrival_us, 3_000), 1);
        assert_eq!(rate(3.0).interval_us(), 333_334, "never faster");
    }

    #[test]
    fn a_burst_has_the_calls_of_a_tenth_of_a_second() {
        fn check(calls: f64, burst: usize) {
            let rate = rate(calls);
            assert_eq!(rate.calls_allowed(0, 1_000), burst, "{calls}");
            let arrival_us = rate.after_calls(0, burst, 1_000);
            assert_eq!(rate.calls_allowed(arrival_us, 1_000), 0, "{calls}");
            let next_ms = rate.next_call_ms(arrival_us);
            assert!(rate.calls_allowed(arrival_us, next_ms) > 0, "{calls}");
            assert_eq!(rate.calls_allowed(arrival_us, next_ms - 1), 0, "{calls}");
        }
        check(1.0, 1);
        check(10.0, 1);
        check(19.0, 1);
        check(20.0, 2);
        check(100.0, 10);
        check(7_000.0, 699);
        check(10_000.0, 1_000);
    }

    #[test]
    fn in_any_second_there_are_no_more_calls_than_the_rate_and_a_burst() {
        for calls in [0.3, 7.0, 33.0, 250.0] {
            let rate = rate(calls);
            let (mut arrival_us, mut made) = (0, 0);
            for now_ms in 1_000..11_000 {
                let allowed = rate.calls_allowed(arrival_us, now_ms);
                arrival_us = rate.after_calls(arrival_us, allowed, now_ms);
                made += allowed;
            }
            let most = calls * 10.0 + (calls / 10.0).max(1.0);
            let made = f64::from(u32::try_from(made).expect("few"));
            assert!(made <= most && made > calls * 9.9 - 1.0, "{calls}: {made}");
        }
    }

    #[test]
    fn a_faster_rate_does_not_wait_for_a_slower_one_of_before() {
        let arrival_us = rate(0.001).after_calls(0, 1, 1_000);
        let adopted_us = rate(10.0).adopted(arrival_us, 1_000);
        assert_eq!(rate(10.0).next_call_ms(adopted_us), 1_100);
        assert_eq!(rate(10.0).adopted(5, 1_000), 5);
    }

    #[test]
    fn a_clock_that_is_set_back_delays_the_next_call_by_an_interval_at_most() {
        const EARLY_MS: i64 = 20;
        const HOUR_MS: i64 = 3_600_000;
        for calls in [0.5, 10.0, 20.0, 7_000.0] {
            let rate = rate(calls);
            // What calls have moved is kept, also if all of a burst were claimed early.
            let burst = rate.calls_allowed(0, HOUR_MS);
            let arrival_us = rate.after_calls(0, burst, HOUR_MS + EARLY_MS);
            let bounded_us = rate.bounded(arrival_us, HOUR_MS, EARLY_MS);
            assert_eq!(bounded_us, arrival_us, "{calls}");
            // The clock goes back by an hour.
            let bounded_us = rate.bounded(arrival_us, 0, EARLY_MS);
            let next_ms = rate.next_call_ms(bounded_us);
            let interval_ms = rate.interval_us() / 1_000 + 1;
            assert!(next_ms <= EARLY_MS + interval_ms, "{calls}: {next_ms}");
            assert_eq!(rate.bounded(bounded_us, next_ms, EARLY_MS), bounded_us);
            assert!(rate.calls_allowed(bounded_us, next_ms) > 0, "{calls}");
        }
        assert_eq!(rate(0.5).bounded(0, HOUR_MS, EARLY_MS), 0);
    }
}
