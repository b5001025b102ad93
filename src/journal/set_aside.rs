//! Setting a notification aside: the journal cannot read it, or cannot record its outcome. So it is not sent
//! until a change by hand releases it.

use crate::domain::key::Key;
use crate::domain::snapshot::SetAside;

/// A notification to be set aside.
#[derive(Debug, Clone)]
pub struct SettingAside {
    /// The notification.
    pub key: Key,
    /// When it is set aside, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why: what the journal cannot read or record.
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
