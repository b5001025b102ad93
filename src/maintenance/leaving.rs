//! Leaving content to the journal, after a run that has loaded the window ([`super::window`]): of what was registered some
//! minutes ago and is not due soon, the schedule keeps the place alone.

use super::error::MaintenanceError;
use crate::domain::key::Key;
use crate::journal::{Journal, JournalError};
use crate::schedule::{Restored, Schedule};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// For how long content is left to the journal before the next run begins, if there is so much of it.
const CONTENT_LEFT_FOR: Duration = Duration::from_secs(4);
/// For how long one step leaves content to the journal. After that, it rests as every step does.
const CONTENT_STEP: Duration = Duration::from_millis(50);

/// Content is left to the journal after a run.
pub(super) struct Leaving {
    /// What the run did.
    restored: Restored,
    /// Until when this goes on before the next run.
    until: Instant,
    /// The partitions that have failed meanwhile. They are left alone until next time.
    failed: BTreeSet<usize>,
}

impl Leaving {
    /// Begins after a run that restored so much.
    pub(super) fn after(restored: Restored) -> Self {
        Self {
            restored,
            until: Instant::now() + CONTENT_LEFT_FOR,
            failed: BTreeSet::new(),
        }
    }

    /// What the run before did.
    pub(super) fn restored(&self) -> Restored {
        self.restored
    }

    /// Whether the time for this is over.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Leaves content to the journal for the time of one step. `false` if there is no more.
    pub(super) async fn step(
        &mut self,
        journal: &dyn Journal,
        schedule: &dyn Schedule,
    ) -> Result<bool, MaintenanceError> {
        let began = Instant::now();
        while self.leave_some_content(journal, schedule).await? {
            if began.elapsed() >= CONTENT_STEP {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Leaves the next content to the journal, in each partition of the schedule that has not failed. `false` if there is no
    /// more.
    async fn leave_some_content(
        &mut self,
        journal: &dyn Journal,
        schedule: &dyn Schedule,
    ) -> Result<bool, MaintenanceError> {
        let mut has_more = false;
        for mut content in schedule.content_to_leave().await? {
            if self.failed.contains(&content.partition) {
                continue;
            }
            retain_pending(journal, &mut content.keys).await?;
            match schedule.leave_content(&content).await {
                Ok(()) => has_more |= content.has_more,
                // It does not keep the content of the others here.
                Err(error) => {
                    let partition = content.partition;
                    self.failed.insert(partition);
                    if error.may_pass() {
                        // `health` logs the outages of the schedule.
                        tracing::debug!(partition, %error, "content was not left to the journal");
                    } else {
                        tracing::error!(
                            partition,
                            %error,
                            "content was not left to the journal; it takes memory of the schedule until it is sent"
                        );
                    }
                }
            }
        }
        Ok(has_more)
    }
}

/// Keeps those that are pending in the journal. What it has lost meanwhile keeps its content in the schedule, and is
/// registered again before it is sent.
async fn retain_pending(
    journal: &dyn Journal,
    keys: &mut Vec<Key>,
) -> Result<(), MaintenanceError> {
    match journal.pendings(keys).await {
        Ok(pending) => {
            let mut is_pending = pending.iter().map(Option::is_some);
            keys.retain(|_| is_pending.next() == Some(true));
        }
        Err(JournalError::Corrupt(_) | JournalError::Refused(_)) => {
            // One of them cannot be read: it keeps its content.
            let mut readable = Vec::with_capacity(keys.len());
            for key in keys.drain(..) {
                match journal.pending(&key).await {
                    Ok(Some(_)) => readable.push(key),
                    Ok(None) | Err(JournalError::Corrupt(_) | JournalError::Refused(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            *keys = readable;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
