//! The changes of a store's health that are logged.

use super::StoreReport;
use std::time::Duration;

/// A change of a store's health that must be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HealthEvent {
    /// An outage has begun.
    Away(StoreReport),
    /// An outage that was logged is over.
    Back { away: Duration, failed_calls: u64 },
    /// Some calls failed, but it was no outage.
    Brief { failed_calls: u64, cause: String },
}
