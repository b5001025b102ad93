//! Setting a notification aside: its outcome cannot be recorded, so it is not sent again.

use crate::domain::key::Key;
use crate::domain::snapshot::SetAside;

/// A notification to be set aside, because its outcome cannot be recorded.
#[derive(Debug, Clone)]
pub struct SettingAside {
    /// The notification.
    pub key: Key,
    /// When it is set aside, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why the outcome cannot be recorded.
    pub reason: String,
}

/// The notifications that are pending and set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllSetAside {
    /// Number of all these notifications.
    pub total: u64,
    /// The first of them, oldest first, up to a limit.
    pub named: Vec<(Key, SetAside)>,
}
