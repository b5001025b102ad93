//! Brings the settings of lanes from the journal into the schedule.
//!
//! The journal is written first. Each change has a number there, and the schedule knows up to which number it has the
//! changes. So any server can bring what is missing, at any time: right after a change, and every half a second in
//! case another server made a change, or died before it brought one ([`crate::maintenance`]).

use crate::journal::{JournalError, JournalMaintenance};
use crate::schedule::{ScheduleError, ScheduleMaintenance};
use thiserror::Error;

/// Maximum number of changes that are read at a time.
const PAGE: usize = 500;
/// How often everything is brought again because the schedule has lost what it had.
const MOST_RESTARTS: usize = 3;

/// Why the settings were not brought.
#[derive(Debug, Clone, Error)]
pub enum SettingsSyncError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The schedule failed.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

impl SettingsSyncError {
    /// Whether a later call may succeed although nobody repairs anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Journal(error) => error.may_pass(),
            Self::Schedule(error) => error.may_pass(),
        }
    }
}

/// Brings all changes that the journal has and the schedule lacks. After this has succeeded, every claim of every
/// server obeys all changes that were in the journal before the call.
///
/// # Errors
/// If a store fails. What was brought until then is obeyed; a later call brings the rest.
pub async fn bring_settings(
    journal: &(impl JournalMaintenance + ?Sized),
    schedule: &(impl ScheduleMaintenance + ?Sized),
) -> Result<(), SettingsSyncError> {
    let mut reached = schedule.settings_reached().await?;
    let mut restarts = 0;
    loop {
        let after = reached.unwrap_or(0);
        let changes = journal.lane_changes(after, PAGE).await?;
        let Some(range) = changes.range else {
            return Ok(());
        };
        // A schedule that has more than the journal belongs to a journal that was restored from a backup. Its next
        // change has a higher number.
        if reached.is_some_and(|reached| reached >= range.until) && range.is_last {
            return Ok(());
        }
        if schedule.configure_lanes(&changes).await? {
            if range.is_last {
                return Ok(());
            }
            reached = Some(range.until);
        } else if restarts < MOST_RESTARTS {
            restarts += 1;
            reached = None;
        } else {
            let lost = "it loses the settings of lanes again and again".to_string();
            return Err(ScheduleError::Unavailable(lost).into());
        }
    }
}
