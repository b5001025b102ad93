//! Clocks of wall time, and a clock that tests set by hand.
//!
//! All code that schedules gets the time from a [`Clock`]. Only durations are measured with monotonic time.
//! A test moves a [`ManualClock`] forward, so no test has to wait for the intervals of a ladder.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// A future that completes at a certain time of a clock.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A clock of wall time, in milliseconds since 1970 UTC.
pub trait Clock: Send + Sync + 'static {
    /// The present time.
    fn now_ms(&self) -> i64;

    /// Completes at this time, or at once if the time has passed.
    fn sleep_until(&self, at_ms: i64) -> Sleep<'_>;
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// Longest single sleep. If the wall clock is set during a sleep, the change is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        // A time before 1970 or after the year 292 million means that the machine's clock is wrong. Then the
        // time counts as 0, at which nothing is due.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|since| i64::try_from(since.as_millis()).ok())
            .unwrap_or(0)
    }

    fn sleep_until(&self, at_ms: i64) -> Sleep<'_> {
        Box::pin(async move {
            loop {
                // Not in whole milliseconds: that would be up to one too many.
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let at = Duration::from_millis(u64::try_from(at_ms).unwrap_or(0));
                let left = at.saturating_sub(now.unwrap_or_default());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
            }
        })
    }
}

/// A clock that shows the same time until a test sets another one.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now_ms: Arc<watch::Sender<i64>>,
}

impl ManualClock {
    /// A clock that shows `now_ms`.
    #[must_use]
    pub fn at(now_ms: i64) -> Self {
        Self {
            now_ms: Arc::new(watch::Sender::new(now_ms)),
        }
    }

    /// Sets the clock to a later time, and wakes the tasks that wait for it. An earlier time changes nothing.
    pub fn turn_to(&self, now_ms: i64) {
        self.now_ms.send_if_modified(|current| {
            let later = now_ms > *current;
            *current = now_ms.max(*current);
            later
        });
    }

    /// Sets the clock back to an earlier time, as that of a machine may be. A later time changes nothing.
    pub fn set_back_to(&self, now_ms: i64) {
        self.now_ms.send_if_modified(|current| {
            let earlier = now_ms < *current;
            *current = now_ms.min(*current);
            earlier
        });
    }

    /// Moves the clock forward by so many milliseconds.
    pub fn advance(&self, by_ms: i64) {
        self.turn_to(self.now_ms() + by_ms);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        *self.now_ms.borrow()
    }

    fn sleep_until(&self, at_ms: i64) -> Sleep<'_> {
        let mut turned = self.now_ms.subscribe();
        Box::pin(async move {
            // `wait_for` fails only after the sender is dropped, and `self` holds the sender.
            let _ = turned.wait_for(|now_ms| *now_ms >= at_ms).await;
        })
    }
}

/// A clock that adds an offset to another clock, so that it shows the time of Redis.
///
/// Redis decides by its own clock what is due. So every instance uses the time of Redis. An instance whose
/// clock is wrong then neither claims too early nor registers with a wrong due time.
pub struct OffsetClock {
    base: Arc<dyn Clock>,
    offset_ms: AtomicI64,
}

impl OffsetClock {
    /// A clock with an offset of zero from `base`.
    #[must_use]
    pub fn new(base: Arc<dyn Clock>) -> Self {
        Self {
            base,
            offset_ms: AtomicI64::new(0),
        }
    }

    /// The clock to which the offset is added.
    #[must_use]
    pub fn base(&self) -> &dyn Clock {
        self.base.as_ref()
    }

    /// The offset from the base clock, in milliseconds.
    #[must_use]
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }

    /// Adjusts the offset to one reading: Redis reported the time `there_ms` at some moment between `sent_ms`
    /// and `received_ms` of the base clock. The offset changes only if it contradicts the reading, and then
    /// as little as possible. So a slow reply does not change a correct offset, and clocks that agree keep an
    /// offset of exactly zero.
    pub fn observe(&self, sent_ms: i64, there_ms: i64, received_ms: i64) {
        let lowest = there_ms - received_ms - 1;
        let highest = there_ms - sent_ms + 1;
        if lowest <= highest {
            let offset_ms = self.offset_ms().clamp(lowest, highest);
            self.offset_ms.store(offset_ms, Ordering::Relaxed);
        }
    }
}

impl Clock for OffsetClock {
    fn now_ms(&self) -> i64 {
        self.base.now_ms() + self.offset_ms()
    }

    fn sleep_until(&self, at_ms: i64) -> Sleep<'_> {
        self.base
            .sleep_until(at_ms.saturating_sub(self.offset_ms()))
    }
}

/// A duration in whole milliseconds.
#[must_use]
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_it_is_turned() {
        let clock = ManualClock::at(1_000);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep_until(2_000).await;
                clock.now_ms()
            }
        });
        clock.advance(999);
        clock.turn_to(500);
        assert_eq!(clock.now_ms(), 1_999);
        clock.advance(1);
        assert_eq!(sleeper.await.expect("no panic"), 2_000);
        clock.sleep_until(1).await;
        clock.set_back_to(9_000);
        assert_eq!(clock.now_ms(), 2_000);
        clock.set_back_to(1_500);
        assert_eq!(clock.now_ms(), 1_500);
    }

    #[test]
    fn an_offset_moves_only_as_far_as_a_reading_forces_it() {
        let clock = OffsetClock::new(Arc::new(ManualClock::at(0)));
        let check = |sent_ms, there_ms, received_ms, expected| {
            clock.observe(sent_ms, there_ms, received_ms);
            assert_eq!(
                clock.offset_ms(),
                expected,
                "{sent_ms} {there_ms} {received_ms}"
            );
        };
        check(100, 101, 102, 0);
        check(100, 600, 1_000, 0);
        check(100, 5_100, 110, 4_989);
        check(100, 5_100, 101, 4_998);
        check(200, 100, 201, -99);
    }
}
