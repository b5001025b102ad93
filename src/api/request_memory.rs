//! The memory for the bodies of requests, shared by all of them.
//!
//! The first [`FREE_BYTES`] of each body are free: the number of requests bounds them, and so small
//! requests never wait for large ones. What a body takes beyond that is taken from the shared memory
//! as it arrives. A length that is merely declared takes nothing, so slow senders hold no more than
//! they sent, and that only until the time for their body is up.
//!
//! Bodies that have arrived in part cannot all be completed if together they take all of it. One
//! request at a time may therefore go on without a permit (`RequestMemory::last`) until it has ended.
//! The bound is exceeded by one body at most.

use crate::api::problem::{Problem, ProblemKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// What each body may take without asking.
pub const FREE_BYTES: usize = 64 * 1024;

/// The shared memory: how many bytes of it are free.
#[derive(Debug, Clone)]
pub struct RequestMemory {
    /// A permit is a byte.
    bytes: Arc<Semaphore>,
    /// For the one request that goes on beyond the bound.
    last: Arc<Semaphore>,
    /// How long one request waits in all.
    longest_wait: Duration,
}

/// What one request holds of the shared memory; given back when it is dropped.
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
    /// Whatever it needs, beside what it had before.
    Anything {
        _last: OwnedSemaphorePermit,
        _bytes: Option<OwnedSemaphorePermit>,
    },
}

impl RequestMemory {
    /// So many bytes, for which a request waits so long.
    #[must_use]
    pub fn new(bytes: usize, longest_wait: Duration) -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))),
            last: Arc::new(Semaphore::new(1)),
            longest_wait,
        }
    }

    /// The share of a request that has nothing yet.
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
    /// Takes memory for more bytes. Waits if there is none.
    ///
    /// # Errors
    /// [`ProblemKind::Busy`] if there is none for too long.
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
            // Free memory goes first, so that the last resort is there for others.
            biased;
            Ok(taken) = memory.bytes.acquire_many_owned(bytes) => self.add(taken),
            Ok(last) = memory.last.acquire_owned() => {
                let bytes = match std::mem::replace(&mut self.held, HeldMemory::Nothing) {
                    HeldMemory::Bytes(bytes) => Some(bytes),
                    HeldMemory::Nothing | HeldMemory::Anything { .. } => None,
                };
                self.held = HeldMemory::Anything { _last: last, _bytes: bytes };
            }
            // The semaphores are never closed; closed ones would give nothing either.
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
        "this server holds as many bytes of requests as it may; nothing was done, so send it again",
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
        // Small ones are served all the same.
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
        // The first goes on, as far as it likes.
        assert_eq!(taken(first, 5), Some(Ok(())));
        assert_eq!(taken(first, 1_000), Some(Ok(())));
        let began = Instant::now();
        let refused = third.take(1).await.expect_err("no memory");
        assert_eq!(refused.kind(), ProblemKind::Busy);
        assert_eq!(began.elapsed(), LONGEST_WAIT);
        // The wait counts for the whole request.
        assert!(third.take(1).await.is_err());
        assert!(began.elapsed() <= LONGEST_WAIT + Duration::from_millis(2));
        // Memory that is given back is taken by the request that waits for it.
        let (taken, ()) = tokio::join!(second.take(5), async { *first = memory.share() });
        assert_eq!(taken, Ok(()));
        assert_eq!(memory.bytes.available_permits(), 0);
        assert_eq!(memory.last.available_permits(), 1);
    }
}
