//! What happens to a store that is worth a line of the log.

use super::StoreReport;
use std::time::Duration;

/// What is to be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HealthEvent {
    Away(StoreReport),
    Back { away: Duration, failed_calls: u64 },
    Brief { failed_calls: u64, cause: String },
}
