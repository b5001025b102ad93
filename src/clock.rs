//! Wall time, and a hand-turned clock for tests.
//!
//! Everything that schedules asks a [`Clock`]; only durations are measured with monotonic time.
//! A day of a ladder passes in a test by turning [`ManualClock`] on, without anybody sleeping.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// A future that the clock completes.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Wall time in milliseconds since 1970, UTC, and waiting for it.
pub trait Clock: Send + Sync + 'static {
    /// What time it is.
    fn now_ms(&self) -> i64;

    /// Completes once the time has come, at once if it has passed.
    fn sleep_until(&self, at_ms: i64) -> Sleep<'_>;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// Longest single sleep: a wall clock that is set shows after this time at the latest.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        // Before 1970 or beyond year 292 million the machine's clock is broken; at 0 nothing is due yet.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|since| i64::try_from(since.as_millis()).ok())
            .unwrap_or(0)
    }

    fn sleep_until(&self, at_ms: i64) -> Sleep<'_> {
        Box::pin(async move {
            loop {
                let left_ms = at_ms.saturating_sub(self.now_ms());
                let Ok(left_ms) = u64::try_from(left_ms) else {
                    return;
                };
                if left_ms == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(left_ms).min(LONGEST_SLEEP)).await;
            }
        })
    }
}

/// A clock that stands still until a test turns it on.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now_ms: Arc<watch::Sender<i64>>,
}

impl ManualClock {
    /// A clock that stands at `now_ms`.
    #[must_use]
    pub fn at(now_ms: i64) -> Self {
        Self {
            now_ms: Arc::new(watch::Sender::new(now_ms)),
        }
    }

    /// Turns the clock to a later time and wakes those that waited for it. Never goes back.
    pub fn turn_to(&self, now_ms: i64) {
        self.now_ms.send_if_modified(|current| {
            let later = now_ms > *current;
            *current = now_ms.max(*current);
            later
        });
    }

    /// Turns the clock on by so many milliseconds.
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
            // Fails only when the sender is gone, and `self` holds it.
            let _ = turned.wait_for(|now_ms| *now_ms >= at_ms).await;
        })
    }
}

/// A clock that runs a fixed distance from another: the schedule's own time, as far as it is known.
///
/// Redis decides what is due by its own clock. Instances therefore reckon in Redis's time, so that
/// one whose clock is wrong neither fires early nor registers what is due too late.
pub struct OffsetClock {
    base: Arc<dyn Clock>,
    offset_ms: AtomicI64,
}

impl OffsetClock {
    /// Starts out equal to `base`.
    #[must_use]
    pub fn new(base: Arc<dyn Clock>) -> Self {
        Self {
            base,
            offset_ms: AtomicI64::new(0),
        }
    }

    /// The clock it is measured from.
    #[must_use]
    pub fn base(&self) -> &dyn Clock {
        self.base.as_ref()
    }

    /// How far it is ahead of its base, in milliseconds.
    #[must_use]
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }

    /// Takes in one reading: the other side said `there_ms` at some moment between `sent_ms` and
    /// `received_ms` of the base clock. The offset moves only as far as the reading forces it to,
    /// so slow replies cannot shake it, and clocks that agree keep an offset of exactly zero.
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

/// A duration in whole milliseconds, as instants are counted.
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
