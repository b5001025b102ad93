//! Requests that concern all notifications of a filter: replaying dead letters, cancelling what is pending.

use super::{JobPreview, NO_JOBS, selection_of};
use crate::domain::call_rate::CallRate;
use crate::domain::job::{BulkJob, JobKind};
use crate::domain::job_filter::JobFilter;
use crate::journal::{Actor, JobAdded};
use crate::service::timeouts::with_timeout;
use crate::service::{Service, ServiceError};

/// A request to replay or to cancel what passes a filter.
#[derive(Debug, Clone)]
pub struct BulkRequest {
    /// [`JobKind::Replay`] or [`JobKind::Cancel`].
    pub kind: JobKind,
    /// Which notifications.
    pub filter: JobFilter,
    /// How many notifications per second; at most [`crate::domain::job::HIGHEST_JOB_RATE`].
    pub rate: CallRate,
    /// Who asks for it.
    pub actor: Actor,
    /// The reason; may be empty.
    pub reason: String,
}

/// The answer to such a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkReply {
    /// A job was made.
    Made(BulkJob),
    /// The same was asked for before, and the job has not ended. No other one was made.
    Runs(BulkJob),
}

impl Service {
    /// Makes a job of a filter. As long as it has not ended, the same request means this job.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`]; [`ServiceError::MissingLane`]; [`ServiceError::TooManyJobs`]; the errors of the stores.
    pub async fn start_bulk(&self, request: BulkRequest) -> Result<BulkReply, ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let mut job = self.bulk_job(request);
        let selection = selection_of(&job).ok_or(ServiceError::MissingJob)?;
        // To count may take seconds, and usually the second request comes from a caller who got no answer to the first.
        if let Some(JobAdded::Same(running)) = with_timeout(journal.job_obstacle(&job)).await? {
            return Ok(BulkReply::Runs(*running));
        }
        // What was not looked at is counted when its turn comes.
        let counted = self.count_known(journal, &job, &selection).await?;
        job.counts.matched = counted.matched;
        match self.add_job(journal, &job).await {
            Ok(()) => Ok(BulkReply::Made(job)),
            Err(ServiceError::JobRuns(running)) => Ok(BulkReply::Runs(*running)),
            Err(error) => Err(error),
        }
    }

    /// What [`Service::start_bulk`] would concern now.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`], [`ServiceError::MissingLane`], or the errors of the stores.
    pub async fn preview_bulk(&self, request: BulkRequest) -> Result<JobPreview, ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let job = self.bulk_job(request);
        self.preview(journal, &job).await
    }

    fn bulk_job(&self, request: BulkRequest) -> BulkJob {
        let BulkRequest {
            kind,
            filter,
            rate,
            actor,
            reason,
        } = request;
        BulkJob {
            filter: Some(filter),
            ..self.new_job(kind, rate, &actor, &reason)
        }
    }
}
