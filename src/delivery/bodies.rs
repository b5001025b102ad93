//! The body of a leased notification: at hand, or read from the journal for this attempt.
//!
//! What is read takes memory until the attempt is over, and any number of attempts may be in flight,
//! so all bodies read together are bounded. An attempt that waits for its turn in vain gives its lease
//! back: nothing was sent.

use crate::clock::Clock;
use crate::domain::body::Body;
use crate::health::{Backoff, Health, Store};
use crate::journal::JournalError;
use crate::journal::recorder::Recorder;
use crate::schedule::Lease;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Finds the bodies of what is to be sent.
pub(super) struct BodyReader {
    pub(super) recorder: Option<Arc<Recorder>>,
    /// The schedule's clock.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) health: Arc<Health>,
    /// Bounds what is read.
    pub(super) memory: BodyMemory,
    /// Ends waiting for memory.
    pub(super) interrupt: CancellationToken,
    /// Ends waiting for the journal.
    pub(super) abandon: CancellationToken,
}

/// What the bodies read for attempts may take together unless set otherwise, in bytes: what the most
/// attempts of the default take with the largest bodies of the default.
const BYTES: usize = 128 * 1024 * 1024;
/// Bytes of one permit.
const PERMIT_BYTES: usize = 1024;

/// The memory for the bodies that are read for attempts.
#[derive(Debug)]
pub(super) struct BodyMemory {
    permits: Arc<Semaphore>,
    all: u32,
}

/// A body, and its memory if it was read for this attempt.
pub(super) struct BodyAtHand {
    pub(super) bytes: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

/// What looking for a body came to.
pub(super) enum FoundBody {
    /// It is at hand.
    AtHand(BodyAtHand),
    /// There was no memory for it in time, or the process ends; nothing was sent.
    NoMemory,
    /// The journal cannot give it, for this reason; it cannot be sent.
    Unreadable(String),
}

impl BodyMemory {
    pub(super) fn of(bytes: usize) -> Self {
        let permits = (bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let all = u32::try_from(permits).unwrap_or(u32::MAX);
        Self {
            permits: Arc::new(Semaphore::new(all as usize)),
            all,
        }
    }

    /// Memory for so many bytes; all there is, if they are more.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        let taking = self
            .permits
            .clone()
            .acquire_many_owned(wanted.min(self.all));
        // Fails only when closed, and it is never closed.
        taking.await.ok()
    }
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self::of(BYTES)
    }
}

impl BodyReader {
    /// Finds the body of a leased notification. `latest_start_ms` is when the attempt must have begun.
    pub(super) async fn find(&self, lease: &Lease, latest_start_ms: i64) -> FoundBody {
        let notification = &lease.entry.notification;
        let len = match &notification.body {
            Body::Here(bytes) => {
                return FoundBody::AtHand(BodyAtHand {
                    bytes: bytes.clone(),
                    _permit: None,
                });
            }
            Body::InJournal(len) => *len,
        };
        let Some(recorder) = &self.recorder else {
            return FoundBody::Unreadable(
                "its body was left to a journal, and there is none".to_string(),
            );
        };
        let permit = tokio::select! {
            biased;
            permit = self.memory.take(len) => permit,
            () = self.clock.sleep_until(latest_start_ms) => return FoundBody::NoMemory,
            () = self.interrupt.cancelled() => return FoundBody::NoMemory,
        };
        let key = &notification.key;
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        loop {
            match recorder.body(key.clone(), len).await {
                Ok(Some(bytes)) => {
                    return FoundBody::AtHand(BodyAtHand {
                        bytes,
                        _permit: permit,
                    });
                }
                Ok(None) => {
                    return FoundBody::Unreadable("the journal does not have its body".to_string());
                }
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    return FoundBody::Unreadable(format!("its body cannot be read: {error}"));
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(notification = %key, %error, "reading a body waits");
                    let waiting = self.abandon.run_until_cancelled(backoff.wait());
                    if waiting.await.is_none() || self.clock.now_ms() >= latest_start_ms {
                        return FoundBody::NoMemory;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn taken(memory: &BodyMemory, bytes: usize) -> Option<OwnedSemaphorePermit> {
        memory.take(bytes).now_or_never().flatten()
    }

    #[test]
    fn bodies_that_are_read_together_take_so_much_and_no_more() {
        let memory = BodyMemory::of(10 * PERMIT_BYTES);
        let first = taken(&memory, 9 * PERMIT_BYTES + 1);
        assert!(first.is_some());
        assert!(taken(&memory, 1).is_none(), "it takes all that it touches");
        assert!(taken(&memory, 0).is_some());
        drop(first);
        let some = taken(&memory, 9 * PERMIT_BYTES);
        assert!(some.is_some());
        assert!(taken(&memory, PERMIT_BYTES).is_some());
        assert!(taken(&memory, PERMIT_BYTES + 1).is_none());
    }

    #[test]
    fn a_body_larger_than_all_of_it_is_read_alone() {
        let memory = BodyMemory::of(10 * PERMIT_BYTES);
        let one = taken(&memory, PERMIT_BYTES);
        assert!(taken(&memory, 100 * PERMIT_BYTES).is_none());
        drop(one);
        let large = taken(&memory, 100 * PERMIT_BYTES);
        assert!(large.is_some());
        assert!(taken(&memory, 1).is_none());
        // There is always memory for something.
        assert!(taken(&BodyMemory::of(0), PERMIT_BYTES).is_some());
    }
}
