//! The limit of the memory for request bodies, shared by all requests.
//!
//! The first [`FREE_BYTES`] of each body are not counted, so small requests never wait for large ones. The
//! limit of requests in flight bounds these bytes. Further bytes of a body are taken from the shared memory
//! when they arrive. A declared length takes no memory. So a slow sender holds no more than it has sent,
//! and only until its time limit.
//!
//! If the bodies that have arrived in part take all the memory, none of them could be completed. So one
//! request at a time may exceed the limit (`RequestMemory::last`) until it has ended. The limit is exceeded
//! by at most one body.

use crate::api::problem::{Problem, ProblemKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How many bytes of each body are not counted.
pub const FREE_BYTES: usize = 64 * 1024;

/// The memory that all requests share.
#[derive(Debug, Clone)]
pub struct RequestMemory {
    /// The free memory. One permit is one byte.
    bytes: Arc<Semaphore>,
    /// One permit, for the one request that may exceed the limit.
    last: Arc<Semaphore>,
    /// How long one request waits for memory in total.
    longest_wait: Duration,
}

/// The part of the shared memory that one request holds. It is given back when this value is dropped.
#[derive(Debug)]
pub struct MemoryShare {
    memory: RequestMemory,
    free: usize,
    held: HeldMemory,
    waited: Duration,
}

#[derive(Debug)]
enum HeldMemory {
    Nothing,
    Bytes(OwnedSemaphorePermit),
    /// The request may exceed the limit. It keeps the bytes that it had before.
    Anything {
        _last: OwnedSemaphorePermit,
        _bytes: Option<OwnedSemaphorePermit>,
    },
}

impl RequestMemory {
    /// Makes a memory of `bytes`. A request waits for memory at most `longest_wait`.
    #[must_use]
    pub fn new(bytes: usize, longest_wait: Duration) -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))),
            last: Arc::new(Semaphore::new(1)),
            longest_wait,
        }
    }

    /// Makes the share of a new request. It holds no memory yet.
    #[must_use]
    pub fn share(&self) -> MemoryShare {
        MemoryShare {
            memory: self.clone(),
            free: FREE_BYTES,
            held: HeldMemory::Nothing,
            waited: Duration::ZERO,
        }
    }
}

impl MemoryShare {
    /// Takes memory for `bytes` more bytes. Waits if there is not enough.
    ///
    /// # Errors
    /// [`ProblemKind::Busy`] if the request has waited for the longest time in total.
    pub async fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        let free = bytes.min(self.free);
        self.free -= free;
        let bytes = bytes - free;
        if bytes == 0 || matches!(self.held, HeldMemory::Anything { .. }) {
            return Ok(());
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.memory.bytes.clone().try_acquire_many_owned(bytes) {
            Ok(taken) => self.add(taken),
            Err(_) => {
                let began = Instant::now();
                let longest_wait = self.memory.longest_wait.saturating_sub(self.waited);
                let waited = tokio::time::timeout(longest_wait, self.wait(bytes)).await;
                self.waited += began.elapsed();
                waited.map_err(|_| full())?;
            }
        }
        Ok(())
    }

    async fn wait(&mut self, bytes: u32) {
        let memory = self.memory.clone();
        tokio::select! {
            // Free memory is tried first, so that the permit to exceed the limit is left to others.
            biased;
            Ok(taken) = memory.bytes.acquire_many_owned(bytes) => self.add(taken),
            Ok(last) = memory.last.acquire_owned() => {
                let bytes = match std::mem::replace(&mut self.held, HeldMemory::Nothing) {
                    HeldMemory::Bytes(bytes) => Some(bytes),
                    HeldMemory::Nothing | HeldMemory::Anything { .. } => None,
                };
                self.held = HeldMemory::Anything { _last: last, _bytes: bytes };
            }
            // The semaphores are never closed, so this never runs.
            else => std::future::pending().await,
        }
    }

    fn add(&mut self, taken: OwnedSemaphorePermit) {
        match &mut self.held {
            HeldMemory::Nothing => self.held = HeldMemory::Bytes(taken),
            HeldMemory::Bytes(bytes) => bytes.merge(taken),
            HeldMemory::Anything { .. } => {}
        }
    }
}

fn full() -> Problem {
    Problem::new(
        ProblemKind::Busy,
        "the requests in flight take all the memory for requests; nothing was done, so send the request again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const LONGEST_WAIT: Duration = Duration::from_secs(5);

    fn taken(share: &mut MemoryShare, bytes: usize) -> Option<Result<(), Problem>> {
        share.take(bytes).now_or_never()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_bytes_are_free_and_the_others_are_taken_from_the_shared_memory() {
        let memory = RequestMemory::new(10, LONGEST_WAIT);
        let mut share = memory.share();
        assert_eq!(taken(&mut share, FREE_BYTES), Some(Ok(())));
        assert_eq!(memory.bytes.available_permits(), 10);
        assert_eq!(taken(&mut share, 4), Some(Ok(())));
        assert_eq!(taken(&mut share, 6), Some(Ok(())));
        assert_eq!(memory.bytes.available_permits(), 0);
        // Small requests need no shared memory.
        assert_eq!(taken(&mut memory.share(), FREE_BYTES), Some(Ok(())));
        drop(share);
        assert_eq!(memory.bytes.available_permits(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn one_goes_on_beyond_the_bound_and_the_others_wait_for_a_while() {
        let memory = RequestMemory::new(10, LONGEST_WAIT);
        let mut shares = [memory.share(), memory.share(), memory.share()];
        for share in &mut shares {
            assert_eq!(taken(share, FREE_BYTES), Some(Ok(())));
        }
        let [first, second, third] = &mut shares;
        assert_eq!(taken(first, 5), Some(Ok(())));
        assert_eq!(taken(second, 5), Some(Ok(())));
        // The first request may exceed the limit by any number of bytes.
        assert_eq!(taken(first, 5), Some(Ok(())));
        assert_eq!(taken(first, 1_000), Some(Ok(())));
        let began = Instant::now();
        let refused = third.take(1).await.expect_err("no memory");
        assert_eq!(refused.kind(), ProblemKind::Busy);
        assert_eq!(began.elapsed(), LONGEST_WAIT);
        // The wait is limited for the whole request, so the second call does not wait again.
        assert!(third.take(1).await.is_err());
        assert!(began.elapsed() <= LONGEST_WAIT + Duration::from_millis(2));
        // A waiting request takes the memory that another one gives back.
        let (taken, ()) = tokio::join!(second.take(5), async { *first = memory.share() });
        assert_eq!(taken, Ok(()));
        assert_eq!(memory.bytes.available_permits(), 0);
        assert_eq!(memory.last.available_permits(), 1);
    }
}
