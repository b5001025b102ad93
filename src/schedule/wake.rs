//! Waking the dispatcher without polling.
//!
//! A [`Wake`] holds the earliest instant at which there may be something to claim. The dispatcher sleeps until
//! then. A call that brings an earlier instant wakes the dispatcher.

use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::Notify;

/// No known due time.
pub const NEVER_MS: i64 = i64::MAX;

/// The earliest known due time, and a notification when it becomes earlier.
#[derive(Debug)]
pub struct Wake {
    at_ms: AtomicI64,
    earlier: Notify,
}

impl Default for Wake {
    fn default() -> Self {
        Self {
            at_ms: AtomicI64::new(NEVER_MS),
            earlier: Notify::new(),
        }
    }
}

impl Wake {
    /// Notes that something is due at this instant, which may be earlier than the known one.
    pub fn bring_forward(&self, at_ms: i64) {
        if at_ms < self.at_ms.fetch_min(at_ms, Ordering::SeqCst) {
            self.earlier.notify_one();
        }
    }

    /// The earliest known due time; [`NEVER_MS`] if there is none.
    pub fn at_ms(&self) -> i64 {
        self.at_ms.load(Ordering::SeqCst)
    }

    /// Forgets the known due time. Called right before a claim, whose reply says the next one. An entry
    /// that is registered during the claim wakes the dispatcher again.
    pub fn reset(&self) {
        self.at_ms.store(NEVER_MS, Ordering::SeqCst);
    }

    /// Completes when the due time has become earlier since the last call. For one waiter.
    pub async fn moved(&self) {
        self.earlier.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_an_earlier_time_wakes() {
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
