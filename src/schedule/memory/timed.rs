//! A notification's key at an instant, as lanes and leases are sorted.

use crate::domain::key::Key;

/// A key at an instant; sorted by the instant, then by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timed {
    pub(super) at_ms: i64,
    pub(super) key: Key,
}
