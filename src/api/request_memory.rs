//! The memory for the bodies of requests, shared by all of them.
//!
//! The first [`FREE_BYTES`] of each body are free: the number of requests bounds them, and so small
//! requests never wait for large ones. What a body takes beyond that is taken from the room as it
//! arrives. A length that is merely declared takes nothing, so slow senders hold no more than they
//! sent, and that only until the time for their body is up.
//!
//! Bodies that have arrived in part cannot all be completed if they fill the room together. One
//! request at a time may therefore go on without room (`Room::last`) until it has ended. The room
//! is exceeded by one body at most.

use crate::api::problem::{Kind, Problem};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// What each body may take without asking.
pub const FREE_BYTES: usize = 64 * 1024;

/// The room.
#[derive(Debug, Clone)]
pub struct Room {
    /// A permit is a byte.
    bytes: Arc<Semaphore>,
    /// For the one that goes on without room.
    last: Arc<Semaphore>,
    /// How long one request waits in all.
    longest_wait: Duration,
}

/// What one request holds of the room; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    room: Room,
    free: usize,
    held: Held,
    waited: Duration,
}

#[derive(Debug)]
enum Held {
    Nothing,
    Bytes(OwnedSemaphorePermit),
    /// Whatever it needs, beside what it had before.
    Anything {
        _last: OwnedSemaphorePermit,
        _bytes: Option<OwnedSemaphorePermit>,
    },
}

impl Room {
    /// A room of so many bytes, for which a request waits so long.
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
    pub fn share(&self) -> Share {
        Share {
            room: self.clone(),
            free: FREE_BYTES,
            held: Held::Nothing,
            waited: Duration::ZERO,
        }
    }
}

impl Share {
    /// Takes room for more bytes. Waits if there is none.
    ///
    /// # Errors
    /// [`Kind::Busy`] if there is none for too long.
    pub async fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        let free = bytes.min(self.free);
        self.free -= free;
        let bytes = bytes - free;
        if bytes == 0 || matches!(self.held, Held::Anything { .. }) {
            return Ok(());
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.room.bytes.clone().try_acquire_many_owned(bytes) {
            Ok(taken) => self.add(taken),
            Err(_) => {
                let began = Instant::now();
                let longest_wait = self.room.longest_wait.saturating_sub(self.waited);
                let waited = tokio::time::timeout(longest_wait, self.wait(bytes)).await;
                self.waited += began.elapsed();
                waited.map_err(|_| full())?;
            }
        }
        Ok(())
    }

    async fn wait(&mut self, bytes: u32) {
        let room = self.room.clone();
        tokio::select! {
            // Room that is there goes first, so that the last resort is there for others.
            biased;
            Ok(taken) = room.bytes.acquire_many_owned(bytes) => self.add(taken),
            Ok(last) = room.last.acquire_owned() => {
                let bytes = match std::mem::replace(&mut self.held, Held::Nothing) {
                    Held::Bytes(bytes) => Some(bytes),
                    Held::Nothing | Held::Anything { .. } => None,
                };
                self.held = Held::Anything { _last: last, _bytes: bytes };
            }
            // Nobody closes the semaphores; closed ones would have no room either.
            else => std::future::pending().await,
        }
    }

    fn add(&mut self, taken: OwnedSemaphorePermit) {
        match &mut self.held {
            Held::Nothing => self.held = Held::Bytes(taken),
            Held::Bytes(bytes) => bytes.merge(taken),
            Held::Anything { .. } => {}
        }
    }
}

fn full() -> Problem {
    Problem::new(
        Kind::Busy,
        "this server holds as many bytes of requests as it may; nothing was done, so send it again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const LONGEST_WAIT: Duration = Duration::from_secs(5);

    fn taken(share: &mut Share, bytes: usize) -> Option<Result<(), Problem>> {
        share.take(bytes).now_or_never()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_bytes_are_free_and_the_others_are_taken_from_the_room() {
        let room = Room::new(10, LONGEST_WAIT);
        let mut share = room.share();
        assert_eq!(taken(&mut share, FREE_BYTES), Some(Ok(())));
        assert_eq!(room.bytes.available_permits(), 10);
        assert_eq!(taken(&mut share, 4), Some(Ok(())));
        assert_eq!(taken(&mut share, 6), Some(Ok(())));
        assert_eq!(room.bytes.available_permits(), 0);
        // Small ones are served all the same.
        assert_eq!(taken(&mut room.share(), FREE_BYTES), Some(Ok(())));
        drop(share);
        assert_eq!(room.bytes.available_permits(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn one_goes_on_without_room_and_the_others_wait_for_a_while() {
        let room = Room::new(10, LONGEST_WAIT);
        let mut shares = [room.share(), room.share(), room.share()];
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
        let refused = third.take(1).await.expect_err("no room");
        assert_eq!(refused.kind(), Kind::Busy);
        assert_eq!(began.elapsed(), LONGEST_WAIT);
        // The wait counts for the whole request.
        assert!(third.take(1).await.is_err());
        assert!(began.elapsed() <= LONGEST_WAIT + Duration::from_millis(2));
        // Room that is given back is taken by who waits for it.
        let (taken, ()) = tokio::join!(second.take(5), async { *first = room.share() });
        assert_eq!(taken, Ok(()));
        assert_eq!(room.bytes.available_permits(), 0);
        assert_eq!(room.last.available_permits(), 1);
    }
}
