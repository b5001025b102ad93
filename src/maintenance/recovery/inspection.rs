//! Inspecting a schedule for the first time, and whose data it has.

use super::WRITE_COUNTS;
use crate::domain::key::Key;
use crate::journal::{FoundStanding, Journal};
use crate::schedule::recoverable::{Inspection, Recoverable};
use crate::schedule::{Schedule, ScheduleError};

/// Number of notifications looked up to find the owner of a schedule.
const SAMPLE: usize = 200;

/// Inspects a schedule for the first time, with the write counts that the journal stores. With `asked`, it
/// is emptied and loaded, whatever it holds.
///
/// # Errors
/// As [`Recoverable::inspect`], or [`ScheduleError::Unavailable`] if the journal cannot be asked.
pub async fn inspect(
    journal: Option<&dyn Journal>,
    schedule: &dyn Schedule,
    recoverable: &dyn Recoverable,
    asked: bool,
) -> Result<Inspection, ScheduleError> {
    if let Some(journal) = journal {
        let counts = journal.recall(WRITE_COUNTS).await;
        let counts = counts.map_err(|error| ScheduleError::Unavailable(error.to_string()))?;
        recoverable.restore_write_counts(counts.as_deref().unwrap_or_default());
    }
    inspect_again(journal, schedule, recoverable, asked).await
}

/// Inspects a schedule after the first time. One without an owner is taken over if this journal knows some of its
/// notifications.
///
/// # Errors
/// As [`inspect`].
pub(super) async fn inspect_again(
    journal: Option<&dyn Journal>,
    schedule: &dyn Schedule,
    recoverable: &dyn Recoverable,
    asked: bool,
) -> Result<Inspection, ScheduleError> {
    let found = recoverable.inspect(asked).await?;
    match (found, journal) {
        (Inspection::Unowned, Some(journal)) => claim_unowned(journal, schedule, recoverable).await,
        (found, _) => Ok(found),
    }
}

/// Takes over a schedule without an owner if this journal knows some of its notifications.
async fn claim_unowned(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
    recoverable: &dyn Recoverable,
) -> Result<Inspection, ScheduleError> {
    let sample = schedule.scan(None, SAMPLE).await?;
    let keys = sample.holdings.into_iter().map(|(entry, _)| entry.key);
    let keys: Vec<Key> = keys.collect();
    let known = journal.standings(&keys).await;
    let known = known.map_err(|error| ScheduleError::Unavailable(error.to_string()))?;
    let mut known = known.iter();
    if keys.is_empty() || known.any(|found| *found != FoundStanding::Missing) {
        recoverable.take_ownership();
        return recoverable.inspect(false).await;
    }
    Err(ScheduleError::Foreign(
        "this Redis holds a schedule without an owner, and this journal knows none of its notifications; \
         start a server with the journal it belongs to, or give this one another Redis database"
            .to_string(),
    ))
}
