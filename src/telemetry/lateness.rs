//! Counts attempts that begin late: for alerts, and for loading that gives way to them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// How many attempts of this process have ended, and how many of them had begun late. Interrupted ones do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatenessCounts {
    /// All.
    pub attempts: u64,
    /// Those that began late.
    pub late: u64,
}

/// The counter. Until it is told what counts as late, no attempt does.
#[derive(Debug)]
pub(super) struct LatenessCounter {
    after_ms: AtomicI64,
    attempts: AtomicU64,
    late: AtomicU64,
}

impl Default for LatenessCounter {
    fn default() -> Self {
        Self::after(i64::MAX)
    }
}

impl LatenessCounter {
    /// Counts an attempt as late that began more than so many milliseconds late.
    pub(super) fn after(after_ms: i64) -> Self {
        Self {
            after_ms: AtomicI64::new(after_ms),
            attempts: AtomicU64::new(0),
            late: AtomicU64::new(0),
        }
    }

    /// From now on, an attempt that begins more than so many milliseconds late counts as late.
    pub(super) fn count_after(&self, after_ms: i64) {
        self.after_ms.store(after_ms, Ordering::Relaxed);
    }

    /// Counts an attempt that began so many milliseconds late.
    pub(super) fn note(&self, late_ms: i64) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        if late_ms > self.after_ms.load(Ordering::Relaxed) {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was counted.
    pub(super) fn counts(&self) -> LatenessCounts {
        // The late ones first, so there are hardly ever more of them than of all.
        let late = self.late.load(Ordering::Relaxed);
        let attempts = self.attempts.load(Ordering::Relaxed);
        LatenessCounts { attempts, late }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_count_as_late_from_the_set_time_on() {
        let counter = LatenessCounter::default();
        counter.note(i64::MAX - 1);
        counter.count_after(30_000);
        for late_ms in [0, 30_000, 30_001] {
            counter.note(late_ms);
        }
        let (attempts, late) = (4, 1);
        assert_eq!(counter.counts(), LatenessCounts { attempts, late });
    }
}
