//! Why a schedule could not do what was asked.

use thiserror::Error;

/// Why the schedule could not do what was asked. The caller must not assume that anything was done.
#[derive(Debug, Clone, Error)]
pub enum ScheduleError {
    /// It cannot be reached, is too slow or refuses; trying again may help. The call may have been
    /// executed nevertheless.
    #[error("the schedule is unavailable: {0}")]
    Unavailable(String),
    /// It has lost data or is being emptied, and nothing was done. It executes calls again as soon as this
    /// instance has inspected the data; trying again may help.
    #[error("the schedule has lost data or is being emptied, so nothing was done")]
    Rebuilding,
    /// It holds something that this version cannot read.
    #[error("data or a reply of the schedule cannot be read: {0}")]
    Corrupt(String),
    /// Another registration of the same key, for another lane, may still be on its way; nothing was done. Worth
    /// trying again.
    #[error("the same topic and id is being registered for another destination; ask again")]
    BeingRegistered,
    /// It belongs to another journal.
    #[error("{0}")]
    Foreign(String),
    /// The cursor is not one that [`super::ScheduleReads::dead`] or [`super::ScheduleMaintenance::scan`] gave.
    #[error("invalid cursor; use the `next_cursor` of a list")]
    BadCursor,
}

impl ScheduleError {
    /// Whether a call of maintenance may succeed later although nobody repairs anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Rebuilding => true,
            Self::Corrupt(_) | Self::BeingRegistered | Self::Foreign(_) | Self::BadCursor => false,
        }
    }
}
