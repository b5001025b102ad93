//! How long a caller waits for a store: a few seconds, whatever the store does.
//!
//! A call that timed out may have been executed, or may be executed later. As after any other failure, the
//! caller must not assume that anything was done.

use super::ServiceError;
use crate::journal::JournalError;
use crate::schedule::ScheduleError;
use std::future::Future;
use std::time::Duration;

/// Longest wait for one call.
const LONGEST_CALL: Duration = Duration::from_secs(3);
/// Longest wait for a call without which the caller can be answered.
const LONGEST_ADDITION: Duration = Duration::from_millis(500);
/// Longest wait for a call that may have to read much.
const LONGEST_READ: Duration = Duration::from_secs(8);

/// The error of a store that did not answer.
pub(super) trait TooLate {
    fn too_late() -> Self;
}

const TOO_LATE: &str = "no answer in time";

impl TooLate for JournalError {
    fn too_late() -> Self {
        Self::Unavailable(TOO_LATE.to_string())
    }
}

impl TooLate for ScheduleError {
    fn too_late() -> Self {
        Self::Unavailable(TOO_LATE.to_string())
    }
}

/// The error of a lock that is held for too long.
impl TooLate for ServiceError {
    fn too_late() -> Self {
        Self::Unsettled
    }
}

/// Waits for a call, at most [`LONGEST_CALL`].
pub(super) async fn with_timeout<T, E: TooLate>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    within(LONGEST_CALL, call).await
}

/// Waits for a call without which the caller can be answered, at most [`LONGEST_ADDITION`].
pub(super) async fn with_short_timeout<T, E: TooLate>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    within(LONGEST_ADDITION, call).await
}

/// Waits for a call that may have to read much, at most [`LONGEST_READ`].
pub(super) async fn with_long_timeout<T, E: TooLate>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    within(LONGEST_READ, call).await
}

async fn within<T, E: TooLate>(
    limit: Duration,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(limit, call)
        .await
        .unwrap_or_else(|_| Err(E::too_late()))
}
