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
            Self::Journal(error) => error.may_pass(),
            Self::Schedule(error) => error.may_pass(),
        }
    }
}
