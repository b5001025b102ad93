//! One reading of what has changed at a time. Whoever needs one that begins from now on, and waits for another that runs,
//! makes none of its own if one began meanwhile: thousands of attempts then cost one reading.

use super::store::EndpointStoreError;
use crate::journal::JournalError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};

/// The result of a reading.
type ReadingResult = Result<(), EndpointStoreError>;

/// The readings of what has changed.
#[derive(Default)]
pub(super) struct ReadingTurns {
    begun: AtomicU64,
    /// Locked by the one that runs. The result of the last one; `None` if its caller has given it up.
    last: Mutex<Option<ReadingResult>>,
    /// When the last one has failed, if it has.
    failed: RwLock<Option<Instant>>,
}

impl ReadingTurns {
    /// How many have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// The result of a reading that begins from now on: of this one, if no other begins while it waits for its turn.
    pub(super) async fn one_from_now(
        &self,
        reading: impl Future<Output = ReadingResult>,
    ) -> ReadingResult {
        let begun = self.begun();
        let mut last = self.last.lock().await;
        if self.begun() != begun
            && let Some(read) = &*last
        {
            return read.clone();
        }
        self.begun.fetch_add(1, Ordering::AcqRel);
        *last = None;
        let read = reading.await;
        *self.failed.write().unwrap_or_else(PoisonError::into_inner) =
            read.is_err().then(Instant::now);
        *last = Some(read.clone());
        read
    }

    /// Whether the last one that was not given up has failed, less than so long ago.
    pub(super) fn has_failed_within(&self, time: Duration) -> bool {
        let failed = *self.failed.read().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|failed| failed.elapsed() < time)
    }

    /// While this is held, no such reading runs.
    pub(super) async fn alone(&self) -> MutexGuard<'_, Option<ReadingResult>> {
        self.last.lock().await
    }
}

/// The error of a reading that nobody waits for any more.
pub(super) fn not_in_time() -> EndpointStoreError {
    let why = "the endpoints could not be read in time".to_string();
    JournalError::Unavailable(why).into()
}
