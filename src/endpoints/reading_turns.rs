//! One reading of what has changed at a time. Whoever needs one that begins from now on, and waits for another that runs,
//! makes none of its own if one began meanwhile: thousands of attempts then cost one reading.

use super::store::EndpointStoreError;
use crate::journal::JournalError;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, MutexGuard};

/// The result of a reading.
type ReadingResult = Result<(), EndpointStoreError>;

/// The readings of what has changed.
pub(super) struct ReadingTurns {
    begun: AtomicU64,
    /// Locked by the one that runs. The result of the last one.
    last: Mutex<ReadingResult>,
}

impl Default for ReadingTurns {
    fn default() -> Self {
        Self {
            begun: AtomicU64::new(0),
            last: Mutex::new(Ok(())),
        }
    }
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
        if self.begun() != begun {
            return last.clone();
        }
        self.begun.fetch_add(1, Ordering::AcqRel);
        // That is its result if the caller gives it up.
        *last = Err(not_in_time());
        let read = reading.await;
        last.clone_from(&read);
        read
    }

    /// While this is held, no such reading runs.
    pub(super) async fn alone(&self) -> MutexGuard<'_, ReadingResult> {
        self.last.lock().await
    }
}

/// The error of a reading that nobody waits for any more.
pub(super) fn not_in_time() -> EndpointStoreError {
    let why = "the endpoints could not be read in time".to_string();
    JournalError::Unavailable(why).into()
}
