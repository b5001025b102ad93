//! Filling a schedule from the journal at the start: the whole schedule in embedded mode, where it
//! lives in memory; in Redis what is missing there, beside the traffic.

use crate::journal::{Cursor, Journal, JournalError, Pending};
use crate::schedule::{Entry, Schedule, ScheduleError};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::time::Duration;
use thiserror::Error;

/// Notifications read from the journal at a time.
const PAGE: usize = 1_000;
/// Registrations under way at once, so that they share batches.
const AT_ONCE: usize = 256;

/// First wait for a store that is away, and the longest.
const BACK_OFF: Duration = Duration::from_millis(100);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(2);

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
    while let Some(next) = restore_page(journal, schedule, verify, cursor, &mut restored).await? {
        cursor = Some(next);
    }
    Ok(restored)
}

/// Like [`restore`], beside the traffic: a store that is away is waited for, and the journal is
/// asked again before anything is sent. To be dropped when the process stops.
///
/// # Errors
/// [`RestoreError`] if trying again cannot help.
pub async fn restore_in_time(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
) -> Result<u64, RestoreError> {
    let mut restored = 0;
    let mut cursor = None;
    let mut back_off = BACK_OFF;
    loop {
        match restore_page(journal, schedule, true, cursor, &mut restored).await {
            Ok(None) => return Ok(restored),
            Ok(next) => {
                cursor = next;
                back_off = BACK_OFF;
            }
            Err(
                error @ (RestoreError::Journal(JournalError::Unavailable(_))
                | RestoreError::Schedule(ScheduleError::Unavailable(_))),
            ) => {
                if back_off == BACK_OFF {
                    tracing::warn!(%error, "going through what is pending waits");
                }
                tokio::time::sleep(back_off).await;
                back_off = (back_off * 2).min(LONGEST_BACK_OFF);
            }
            Err(error) => return Err(error),
        }
    }
}

/// One page; gives the cursor of the next.
async fn restore_page(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
    verify: bool,
    cursor: Option<Cursor>,
    restored: &mut u64,
) -> Result<Option<Cursor>, RestoreError> {
    let (page, next) = journal.pending_page(cursor, PAGE).await?;
    let many = page.len() as u64;
    stream::iter(page)
        .map(|pending| {
            let Pending {
                notification,
                progress,
            } = pending;
            let entry = Entry {
                verify,
                ..Entry::scheduled(notification, progress)
            };
            schedule.register(entry)
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    *restored += many;
    Ok(next)
}
