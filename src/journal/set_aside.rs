//! Setting a notification aside whose outcome cannot be recorded.

use crate::domain::key::Key;
use crate::domain::snapshot::SetAside;

/// A notification to be set aside, since its outcome cannot be recorded.
#[derive(Debug, Clone)]
pub struct SettingAside {
    /// Which.
    pub key: Key,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why it cannot be recorded.
    pub reason: String,
}

/// The notifications that are pending and set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllSetAside {
    /// How many.
    pub total: u64,
    /// The first of them, oldest first.
    pub named: Vec<(Key, SetAside)>,
}
