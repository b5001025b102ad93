//! Waking the dispatcher without polling.
//!
//! A [`Wake`] holds the earliest instant at which there may be something to claim. Whoever adds an
//! earlier one brings it forward, and the dispatcher, asleep until then, is told.

use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::Notify;

/// No known due time.
pub const NEVER_MS: i64 = i64::MAX;

/// The earliest known due time, and a bell that rings when it moves forward.
#[derive(Debug)]
pub struct Wake {
    at_ms: AtomicI64,
    bell: Notify,
}

impl Default for Wake {
    fn default() -> Self {
        Self {
            at_ms: AtomicI64::new(NEVER_MS),
            bell: Notify::new(),
        }
    }
}

impl Wake {
    /// Something is due at this instant, perhaps earlier than anything known.
    pub fn bring_forward(&self, at_ms: i64) {
        if at_ms < self.at_ms.fetch_min(at_ms, Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    /// The earliest known due time; [`NEVER_MS`] if there is none.
    pub fn at_ms(&self) -> i64 {
        self.at_ms.load(Ordering::SeqCst)
    }

    /// Forgets what is known. Called right before a claim, whose reply brings it up to date: what
    /// is registered during the claim rings again.
    pub fn reset(&self) {
        self.at_ms.store(NEVER_MS, Ordering::SeqCst);
    }

    /// Completes when the due time has moved forward since the last call. For one waiter.
    pub async fn moved(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_an_earlier_time_rings() {
        let wake = Wake::default();
        wake.bring_forward(100);
        wake.moved().await;
        wake.bring_forward(200);
        wake.bring_forward(100);
        assert_eq!(wake.at_ms(), 100);
        let quiet = tokio::time::timeout(std::time::Duration::ZERO, wake.moved()).await;
        assert!(quiet.is_err());
        wake.reset();
        wake.bring_forward(300);
        wake.moved().await;
        assert_eq!(wake.at_ms(), 300);
    }
}
