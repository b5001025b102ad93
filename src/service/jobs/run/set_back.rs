//! A clock that was set back to before a job was made.
//!
//! The instant of a job decides what the job concerns. While the clock shows an earlier time, what is registered or dies
//! looks as if it had stood before the job. So the job ends, and says why: to leave those out silently would also leave out
//! what was registered by the former clock, and nobody would know.

use super::{JobRun, JobTurn, journal_of};
use crate::domain::job::{BulkJob, JobKind};
use crate::journal::{JobEnd, JobStepped};
use crate::schedule::CLOCKS_APART_MS;
use crate::service::jobs::step::LeasedForJob;
use crate::service::timeouts::with_timeout;
use crate::service::{Service, ServiceError};

const PROBLEM: &str = "the clock was set back to before this job was made, so the job cannot tell what was there before it; \
                       look what is left, and send the request again";

/// Whether the clock was set back to before a job was made. The clocks of the schedule, of which another one may take over,
/// are as far apart as [`CLOCKS_APART_MS`]: by so much it may show an earlier time.
pub(in crate::service::jobs) fn is_set_back(service: &Service, job: &BulkJob) -> bool {
    let ends = match job.kind {
        JobKind::LaneRetry | JobKind::Replay | JobKind::Cancel => true,
        // What joins it has failed since the outage began, so an early attempt does no harm, and nobody would ask for the
        // job again. A release is done when it is made.
        JobKind::AfterOutage | JobKind::LaneRelease => false,
    };
    ends && service.clock.now_ms() < job.created_ms.saturating_sub(CLOCKS_APART_MS)
}

impl JobRun {
    /// Ends the job instead of changing what is leased for it.
    pub(super) async fn end_set_back(
        &self,
        leased: Vec<LeasedForJob>,
    ) -> Result<JobTurn, ServiceError> {
        self.service.release_all(leased).await;
        let journal = journal_of(&self.service)?;
        let step = self.empty_step(Some(JobEnd::Failed(PROBLEM.to_string())));
        // If the job is lost, another server goes on with it, and looks at the clock as well.
        if let JobStepped::Kept(_) = with_timeout(journal.step_job(&step)).await? {
            tracing::warn!(
                job = %step.id,
                "a job has ended, because the clock was set back to before the job was made; what it has not changed stays as \
                 it is"
            );
        }
        Ok(JobTurn::Over)
    }
}
