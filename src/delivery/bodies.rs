//! Gets the body of a leased notification: from the lease, or from the journal.
//!
//! A body that was read from the journal takes memory until its call has ended, and many calls may be in
//! flight. So the memory for all bodies that are read is bounded, and attempts for destinations that are not known to
//! answer get half of it: they may hold it until the time limit, while the others soon give it back. If an attempt gets no
//! memory before its latest start, nothing is sent, and the worker puts the notification off for a moment.

use crate::clock::Clock;
use crate::domain::body::Body;
use crate::domain::key::Key;
use crate::domain::lane_health::LaneClass;
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

/// Default memory for all bodies that attempts read, in bytes. This is enough for 512 bodies of the largest size that is
/// allowed by default (256 KiB), and for 4,096 attempts, the default number in flight, if their bodies have 32 KiB.
const BYTES: usize = 128 * 1024 * 1024;
/// How many bytes one permit of the semaphore stands for.
const PERMIT_BYTES: usize = 1024;

/// The memory for the bodies that attempts read from the journal.
#[derive(Debug)]
pub(super) struct BodyMemory {
    all: MemoryPart,
    /// Half of it: what attempts for destinations that are not known to answer may take together.
    doubtful: MemoryPart,
}

/// Memory of a fixed size.
#[derive(Debug)]
struct MemoryPart {
    permits: Arc<Semaphore>,
    size: u32,
}

/// The memory that a body takes. Given back when it is dropped.
#[derive(Debug)]
struct TakenMemory {
    _of_doubtful: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

/// A body that can be sent. If it was read from the journal, it holds its share of the memory.
pub(super) struct BodyAtHand {
    pub(super) bytes: Bytes,
    _memory: Option<TakenMemory>,
}

/// The result of looking for a body.
pub(super) enum FoundBody {
    /// The body can be sent.
    AtHand(BodyAtHand),
    /// There was no memory for the body before the latest start of the attempt.
    NoMemory,
    /// The body could not be read before the latest start of the attempt, because the journal was not available, or because
    /// the process ends.
    NotRead,
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
            all: MemoryPart::of(all),
            doubtful: MemoryPart::of(all.div_ceil(2)),
        }
    }

    /// Waits for memory for so many bytes, for an attempt for a lane of this class. A body that is larger than the part that
    /// it may take gets all of that part. So one body at a time whose destination is not known to answer may be larger than
    /// half of the memory.
    async fn take(&self, bytes: usize, class: LaneClass) -> TakenMemory {
        let wanted = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        // First its own part: what waits for that has taken nothing of what the others need.
        let of_doubtful = match class {
            LaneClass::Idle | LaneClass::Busy => None,
            LaneClass::Doubtful | LaneClass::Probing => self.doubtful.take(wanted).await,
        };
        TakenMemory {
            _of_doubtful: of_doubtful,
            _of_all: self.all.take(wanted).await,
        }
    }
}

impl MemoryPart {
    fn of(size: u32) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(size as usize)),
            size,
        }
    }

    async fn take(&self, wanted: u32) -> Option<OwnedSemaphorePermit> {
        let permits = self.permits.clone();
        // `acquire_many_owned` fails only if the semaphore is closed, and this one never is.
        permits.acquire_many_owned(wanted.min(self.size)).await.ok()
    }
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self::of(BYTES)
    }
}

impl BodyReader {
    /// Gets the body of a notification that was leased from a lane of this class, unless it was read already. The attempt must
    /// begin by `latest_start_ms`.
    pub(super) async fn find(
        &self,
        (notification, read): (&Notification, Option<Bytes>),
        class: LaneClass,
        latest_start_ms: i64,
    ) -> FoundBody {
        match (read, &notification.body) {
            (Some(bytes), _) => FoundBody::AtHand(BodyAtHand {
                bytes,
                _memory: None,
            }),
            (None, Body::Here(bytes)) => FoundBody::AtHand(BodyAtHand {
                bytes: bytes.clone(),
                _memory: None,
            }),
            // In a box, so that the future of an attempt whose body is at hand has no room for it.
            (None, Body::InJournal(len)) => {
                Box::pin(self.read(&notification.key, *len, class, latest_start_ms)).await
            }
        }
    }

    /// Reads a body of this many bytes from the journal.
    async fn read(
        &self,
        key: &Key,
        len: usize,
        class: LaneClass,
        latest_start_ms: i64,
    ) -> FoundBody {
        let Some(recorder) = &self.recorder else {
            return FoundBody::Unreadable(
                "the schedule has no body for this notification, and this server has no journal"
                    .to_string(),
            );
        };
        let memory = tokio::select! {
            biased;
            memory = self.memory.take(len, class) => memory,
            () = self.clock.sleep_until(latest_start_ms) => return FoundBody::NoMemory,
            () = self.interrupt.cancelled() => return FoundBody::NotRead,
        };
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        loop {
            match recorder.body(key.clone(), len).await {
                Ok(Some(bytes)) => {
                    return FoundBody::AtHand(BodyAtHand {
                        bytes,
                        _memory: Some(memory),
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
                        return FoundBody::NotRead;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LaneClass::{Busy, Doubtful, Idle, Probing};
    use futures_util::FutureExt as _;

    fn taken_by(class: LaneClass, memory: &BodyMemory, bytes: usize) -> Option<TakenMemory> {
        memory.take(bytes, class).now_or_never()
    }

    fn taken(memory: &BodyMemory, bytes: usize) -> Option<TakenMemory> {
        taken_by(Busy, memory, bytes)
    }

    #[test]
    fn destinations_that_are_not_known_to_answer_take_half_at_most() {
        let memory = BodyMemory::of(10 * PERMIT_BYTES);
        let first = taken_by(Doubtful, &memory, 3 * PERMIT_BYTES);
        let second = taken_by(Probing, &memory, 2 * PERMIT_BYTES);
        assert!(first.is_some() && second.is_some());
        for class in [Doubtful, Probing] {
            assert!(taken_by(class, &memory, 1).is_none(), "{class:?}");
        }
        // What waits for its part is not in the way of the others.
        let mut waiting = Box::pin(memory.take(PERMIT_BYTES, Doubtful));
        assert!((&mut waiting).now_or_never().is_none());
        let all = [Idle, Busy].map(|class| taken_by(class, &memory, 2 * PERMIT_BYTES));
        assert!(all.iter().all(Option::is_some));
        drop(first);
        assert!((&mut waiting).now_or_never().is_some());
    }

    #[test]
    fn a_body_larger_than_half_of_the_memory_goes_to_any_destination() {
        for bytes in [6 * PERMIT_BYTES, 10 * PERMIT_BYTES, 100 * PERMIT_BYTES] {
            let memory = BodyMemory::of(10 * PERMIT_BYTES);
            let other = taken(&memory, 5 * PERMIT_BYTES);
            assert!(other.is_some());
            assert!(taken_by(Doubtful, &memory, bytes).is_none(), "{bytes}");
            drop(other);
            let large = taken_by(Doubtful, &memory, bytes);
            assert!(large.is_some(), "{bytes}");
            assert!(taken_by(Probing, &memory, 1).is_none(), "one at a time");
        }
        let little = BodyMemory::of(0);
        assert!(taken_by(Doubtful, &little, PERMIT_BYTES).is_some());
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
