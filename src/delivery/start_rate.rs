//! A limit to how often attempts of one kind begin, on one server.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How many attempts may begin more for each that was answered. So the rate doubles with every round of answers.
const MORE_PER_ANSWER: usize = 2;
/// Maximum number of attempts that may begin at once because others were answered.
const MOST_MORE: usize = 32;

/// A rate that holds for destinations that do not answer, and grows with the answers of those that do.
///
/// The rate is kept by one instant, as in the generic cell rate algorithm. Answers add to it.
#[derive(Debug)]
pub(super) struct StartRate {
    /// One attempt in this time.
    interval: Duration,
    /// How many may begin at once after a pause.
    burst: usize,
    state: Mutex<StartRateState>,
}

#[derive(Debug)]
struct StartRateState {
    /// From when on the whole burst is available again.
    full_at: Instant,
    /// How many attempts may begin in addition, because others were answered.
    more: usize,
}

impl StartRate {
    /// One attempt in each interval, longer than zero, and so many at once after a pause.
    pub(super) fn new(interval: Duration, burst: usize) -> Self {
        Self {
            interval,
            burst,
            state: Mutex::new(StartRateState {
                full_at: Instant::now(),
                more: 0,
            }),
        }
    }

    /// How many attempts may begin now.
    pub(super) fn available(&self) -> usize {
        let state = self.state();
        let missing = state.full_at.saturating_duration_since(Instant::now());
        let missing = missing.as_nanos().div_ceil(self.interval.as_nanos());
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        self.burst.saturating_sub(missing) + state.more
    }

    /// Counts an attempt that begins.
    pub(super) fn take(&self) {
        let mut state = self.state();
        match state.more.checked_sub(1) {
            Some(more) => state.more = more,
            None => state.full_at = state.full_at.max(Instant::now()) + self.interval,
        }
    }

    /// Counts an attempt that was answered.
    pub(super) fn answered(&self) {
        let mut state = self.state();
        state.more = (state.more + MORE_PER_ANSWER).min(MOST_MORE);
    }

    fn state(&self) -> MutexGuard<'_, StartRateState> {
        // Each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_followed_by_one_in_each_interval() {
        let rate = StartRate::new(2 * MS, 3);
        for available in [3, 2, 1] {
            assert_eq!(rate.available(), available);
            rate.take();
        }
        for (after, available) in [(0, 0), (1, 0), (1, 1), (1, 1), (1, 2), (2, 3), (100, 3)] {
            tokio::time::advance(after * MS).await;
            assert_eq!(rate.available(), available);
        }
        // Those that begin although none is available count too.
        (0..4).for_each(|_| rate.take());
        tokio::time::advance(2 * MS).await;
        assert_eq!(rate.available(), 0);
        tokio::time::advance(2 * MS).await;
        assert_eq!(rate.available(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_allows_more_up_to_a_bound() {
        let rate = StartRate::new(MS, 2);
        (0..2).for_each(|_| rate.take());
        rate.answered();
        assert_eq!(rate.available(), MORE_PER_ANSWER);
        (0..MORE_PER_ANSWER).for_each(|_| rate.take());
        assert_eq!(rate.available(), 0);
        (0..1_000).for_each(|_| rate.answered());
        assert_eq!(rate.available(), MOST_MORE);
        tokio::time::advance(2 * MS).await;
        assert_eq!(rate.available(), MOST_MORE + 2);
    }
}
