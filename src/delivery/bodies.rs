//! Gets the body of a leased notification: from the lease, or from the journal.
//!
//! A body that was read from the journal takes memory until its call has ended, and many calls may be in
//! flight. So the memory for all bodies that are read is bounded. If an attempt gets no memory before its
//! latest start, nothing is sent and the worker releases its lease.

use crate::clock::Clock;
use crate::domain::body::Body;
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::health::{Backoff, Health, Store};
use crate::journal::JournalError;
use crate::journal::recorder::Recorder;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Gets the bodies that are to be sent.
pub(super) struct BodyReader {
    pub(super) recorder: Option<Arc<Recorder>>,
    /// The schedule's clock.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) health: Arc<Health>,
    /// Bounds the memory for the bodies that are read.
    pub(super) memory: BodyMemory,
    /// When cancelled, attempts stop waiting for memory.
    pub(super) interrupt: CancellationToken,
    /// When cancelled, attempts stop waiting for the journal.
    pub(super) abandon: CancellationToken,
}

/// Default memory for all bodies that attempts read, in bytes: the default number of attempts in flight
/// (512) times the default limit of a body (256 KiB).
const BYTES: usize = 128 * 1024 * 1024;
/// How many bytes one permit of the semaphore stands for.
const PERMIT_BYTES: usize = 1024;

/// The memory for the bodies that attempts read from the journal.
#[derive(Debug)]
pub(super) struct BodyMemory {
    permits: Arc<Semaphore>,
    all: u32,
}

/// A body that can be sent. If it was read from the journal, it holds its share of the memory.
pub(super) struct BodyAtHand {
    pub(super) bytes: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

/// The result of looking for a body.
pub(super) enum FoundBody {
    /// The body can be sent.
    AtHand(BodyAtHand),
    /// The body could not be read before the latest start of the attempt, because memory or the journal
    /// was not available, or because the process ends.
    NoMemory,
    /// The journal has no body for it, or does not know it.
    Missing,
    /// The body cannot be read, now or later, for this reason.
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

    /// Waits for memory for so many bytes. A body that is larger than all of the memory gets all of it.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        let taking = self
            .permits
            .clone()
            .acquire_many_owned(wanted.min(self.all));
        // `acquire_many_owned` fails only if the semaphore is closed, and this one never is.
        taking.await.ok()
    }
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self::of(BYTES)
    }
}

impl BodyReader {
    /// Gets the body of a leased notification. The attempt must begin by `latest_start_ms`.
    pub(super) async fn find(
        &self,
        notification: &Notification,
        latest_start_ms: i64,
    ) -> FoundBody {
        match &notification.body {
            Body::Here(bytes) => FoundBody::AtHand(BodyAtHand {
                bytes: bytes.clone(),
                _permit: None,
            }),
            // In a box, so that the future of an attempt whose body is at hand has no room for it.
            Body::InJournal(len) => {
                Box::pin(self.read(&notification.key, *len, latest_start_ms)).await
            }
        }
    }

    /// Reads a body of this many bytes from the journal.
    async fn read(&self, key: &Key, len: usize, latest_start_ms: i64) -> FoundBody {
        let Some(recorder) = &self.recorder else {
            return FoundBody::Unreadable(
                "the schedule has no body for this notification, and this server has no journal"
                    .to_string(),
            );
        };
        let permit = tokio::select! {
            biased;
            permit = self.memory.take(len) => permit,
            () = self.clock.sleep_until(latest_start_ms) => return FoundBody::NoMemory,
            () = self.interrupt.cancelled() => return FoundBody::NoMemory,
        };
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        loop {
            match recorder.body(key.clone(), len).await {
                Ok(Some(bytes)) => {
                    return FoundBody::AtHand(BodyAtHand {
                        bytes,
                        _permit: permit,
                    });
                }
                Ok(None) => return FoundBody::Missing,
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    return FoundBody::Unreadable(format!("its body cannot be read: {error}"));
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(
                        notification = %key,
                        %error,
                        "the body of a notification cannot be read from the journal now; trying again"
                    );
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
        assert!(
            taken(&memory, 1).is_none(),
            "a permit that is used in part counts as used"
        );
        assert!(taken(&memory, 0).is_some());
        drop(first);
        let some = taken(&memory, 9 * PERMIT_BYTES);
        assert!(some.is_some());
        assert!(taken(&memory, PERMIT_BYTES).is_some());
        assert!(taken(&memory, PERMIT_BYTES + 1).is_none());
    }

    #[test]
    fn a_body_larger_than_all_of_the_memory_is_read_alone() {
        let memory = BodyMemory::of(10 * PERMIT_BYTES);
        let one = taken(&memory, PERMIT_BYTES);
        assert!(taken(&memory, 100 * PERMIT_BYTES).is_none());
        drop(one);
        let large = taken(&memory, 100 * PERMIT_BYTES);
        assert!(large.is_some());
        assert!(taken(&memory, 1).is_none());
        // Even without any memory, there is one permit, so one body at a time can be read.
        assert!(taken(&BodyMemory::of(0), PERMIT_BYTES).is_some());
    }
}
