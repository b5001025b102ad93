//! Keeping a job while a server has it.

use super::SharedService;
use super::step::CurrentJob;
use crate::service::timeouts::with_timeout;
use std::time::Duration;

/// For how long a server has a job, in milliseconds.
pub(super) const LEASE_MS: i64 = 10_000;
/// A job that waits between two steps is kept this often.
pub(super) const KEEP_EVERY: Duration = Duration::from_secs(3);

/// Keeps a job. `false` if it is lost.
pub(super) async fn keep(service: &SharedService, current: &CurrentJob) -> bool {
    let Some(journal) = service.journal() else {
        return false;
    };
    let keeping = journal.keep_job(&current.job.id, current.fence, LEASE_MS);
    !matches!(with_timeout(keeping).await, Ok(false))
}
