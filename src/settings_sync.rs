//! Brings the settings of lanes from the journal into the schedule.
//!
//! The journal is written first. Each change has a number there, and the schedule knows up to which number it has the
//! changes. So any server can bring what is missing, at any time: right after a change, and every half a second in
//! case another server made a change, or died before it brought one ([`crate::maintenance`]).

use crate::domain::lane::Lane;
use crate::journal::{JournalError, JournalMaintenance};
use crate::schedule::{Configured, ScheduleError, ScheduleMaintenance};
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

/// Brings all changes that the journal has and the schedule lacks. After this has succeeded, every claim of every server
/// obeys all changes of this lane that were in the journal before the call; without one, all changes, but for parts of the
/// schedule that are out of reach: these get them when they are back.
///
/// # Errors
/// If a store fails, or a part of the schedule. What was brought until then is obeyed; a later call brings the rest.
pub async fn bring_settings(
    journal: &(impl JournalMaintenance + ?Sized),
    schedule: &(impl ScheduleMaintenance + ?Sized),
    lane: Option<&Lane>,
) -> Result<(), SettingsSyncError> {
    let mut reached = schedule.settings_reached(lane).await?;
    let mut after = reached.number.unwrap_or(0);
    let (mut restarts, mut failure) = (0, None);
    let until = loop {
        let changes = journal.lane_changes(after, PAGE).await?;
        let Some(range) = changes.range else {
            return Ok(());
        };
        // A schedule that has more than the journal belongs to a journal that was restored from a backup. Its next
        // change has a higher number.
        let has_them = reached.number.is_some_and(|number| number >= range.until);
        if has_them && reached.is_confirmed && range.is_last {
            break range.until;
        }
        match schedule.configure_lanes(&changes, &reached).await? {
            Configured::Obeyed => {}
            // The others get what follows.
            Configured::Partly(error) => failure = Some(error),
            Configured::OthersMissing if restarts < MOST_RESTARTS => {
                restarts += 1;
                // The journal is read again after that.
                reached = schedule.settings_reached(None).await?;
                after = reached.number.unwrap_or(0);
                continue;
            }
            Configured::OthersMissing => {
                let lost = "it loses the settings of lanes again and again".to_string();
                return Err(ScheduleError::Unavailable(lost).into());
            }
        }
        after = range.until;
        if range.is_last {
            break range.until;
        }
    };
    let Some(lane) = lane else {
        return failure.map_or(Ok(()), |error| Err(error.into()));
    };
    // A part that has failed may be another one than that of this lane, and this one may have been left out.
    let own = schedule.settings_reached(Some(lane)).await?;
    match own.number {
        Some(number) if number >= until => Ok(()),
        _ => Err(failure.unwrap_or_else(lacks_them).into()),
    }
}

fn lacks_them() -> ScheduleError {
    ScheduleError::Unavailable("it has lost the settings of this lane".to_string())
}
