//! The priority of a notification within its lane.

use crate::domain::state::named;

/// Which of the notifications of a lane that are due is sent first. Priorities of different lanes are not
/// compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Before all others.
    High,
    /// After those of high priority; the default.
    #[default]
    Normal,
    /// After all others.
    Low,
}

impl Priority {
    /// The stored form: `None` for [`Priority::Normal`].
    #[must_use]
    pub fn to_stored(self) -> Option<&'static str> {
        (self != Self::Normal).then_some(self.as_str())
    }

    /// Reads the stored form; `None` if it is not one.
    #[must_use]
    pub fn from_stored(stored: Option<&str>) -> Option<Self> {
        stored.map_or(Some(Self::Normal), Self::from_name)
    }
}

named!(Priority {
    High = "high",
    Normal = "normal",
    Low = "low",
});
