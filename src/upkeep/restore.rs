//! Filling a schedule from the journal: at every start of the embedded mode, whose schedule lives
//! in memory, and where Redis turns out to be empty.

use crate::journal::{Journal, JournalError, Pending};
use crate::schedule::{Entry, Schedule, ScheduleError};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use thiserror::Error;

/// Notifications read from the journal at a time.
const PAGE: usize = 1_000;
/// Registrations under way at once, so that they share batches.
const AT_ONCE: usize = 256;

/// Why the schedule could not be filled. What was put there stays; filling can be repeated.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The schedule failed.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

/// Puts every pending notification into the schedule, soonest due first, and says how many there
/// are. What is there already stays as it is. With `verify`, the journal is asked again before each
/// is sent: needed where other instances may deliver meanwhile.
///
/// # Errors
/// [`RestoreError`] if a store fails half-way.
pub async fn restore(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
    verify: bool,
) -> Result<u64, RestoreError> {
    let mut restored = 0;
    let mut cursor = None;
    loop {
        let (page, next) = journal.pending_page(cursor, PAGE).await?;
        restored += page.len() as u64;
        stream::iter(page)
            .map(
                |Pending {
                     notification,
                     progress,
                 }| {
                    let entry = Entry {
                        verify,
                        ..Entry::scheduled(notification, progress)
                    };
                    schedule.register(entry)
                },
            )
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await?;
        if next.is_none() {
            return Ok(restored);
        }
        cursor = next;
    }
}
