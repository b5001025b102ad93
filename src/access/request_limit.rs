//! How many requests an API key may send to one server.

use governor::{DefaultDirectRateLimiter, Quota};
use std::fmt;
use std::num::NonZeroU32;

/// Requests per second for one key on one server. As many may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRate(NonZeroU32);

impl RequestRate {
    /// The highest rate.
    pub const HIGHEST: u32 = 1_000_000;

    /// A rate. `None` if it is 0 or above [`RequestRate::HIGHEST`].
    #[must_use]
    pub fn per_second(requests: u32) -> Option<Self> {
        let requests = NonZeroU32::new(requests)?;
        (requests.get() <= Self::HIGHEST).then_some(Self(requests))
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// The requests that one key may still send. The default has no limit.
#[derive(Default)]
pub(super) struct RequestLimit(Option<DefaultDirectRateLimiter>);

impl RequestLimit {
    pub(super) fn new(rate: Option<RequestRate>) -> Self {
        Self(rate.map(|rate| DefaultDirectRateLimiter::direct(Quota::per_second(rate.0))))
    }

    /// Counts a request. `false`: there were too many, and this one is not counted.
    pub(super) fn admits(&self) -> bool {
        (self.0.as_ref()).is_none_or(|limiter| limiter.check().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_in_a_second_may_come_at_once() {
        let limit = RequestLimit::new(RequestRate::per_second(3));
        assert!((0..3).all(|_| limit.admits()));
        // The machine may stop this test for longer than a third of a second, but not at each of many requests.
        assert!((0..1_000).any(|_| !limit.admits()));
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let limit = RequestLimit::new(None);
        assert!((0..10_000).all(|_| limit.admits()));
    }

    #[test]
    fn a_rate_is_above_zero_and_bounded() {
        assert_eq!(RequestRate::per_second(0), None);
        assert_eq!(RequestRate::per_second(RequestRate::HIGHEST + 1), None);
        let highest = RequestRate::per_second(RequestRate::HIGHEST);
        assert_eq!(
            highest.map(|rate| rate.to_string()).as_deref(),
            Some("1000000")
        );
    }
}
