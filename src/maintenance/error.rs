//! Why a maintenance step failed.

use crate::journal::JournalError;
use crate::schedule::ScheduleError;
use thiserror::Error;

/// A store failed. What was done before stays done, and every duty can be continued.
#[derive(Debug, Error)]
pub enum MaintenanceError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The schedule failed.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

impl MaintenanceError {
    /// Whether trying again may help.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Journal(JournalError::Unavailable(_))
            | Self::Schedule(ScheduleError::Unavailable(_) | ScheduleError::Rebuilding) => true,
            Self::Journal(JournalError::Corrupt(_) | JournalError::Refused(_))
            | Self::Schedule(
                ScheduleError::Corrupt(_)
                | ScheduleError::Foreign(_)
                | ScheduleError::BadCursor
                | ScheduleError::BeingRegistered,
            ) => false,
        }
    }
}
