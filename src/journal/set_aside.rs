//! Setting a notification aside whose outcome cannot be recorded.

use crate::domain::key::Key;
use crate::domain::snapshot::SetAside;

/// A notification to be set aside, since its outcome cannot be recorded.
#[derive(Debug, Clone)]
pub struct SettingAside {
    /// The notification.
    pub key: Key,
    /// When it is set aside, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why it cannot be recorded.
    pub reason: String,
}

/// The notifications that are pending and set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllSetAside {
    /// How many there are.
    pub total: u64,
    /// The keys of the first of them, oldest first.
    pub named: Vec<(Key, SetAside)>,
}
