//! Passes on the calls of jobs.

use super::{JournalCall, JournalDecorator};
use crate::domain::job::{BulkJob, JobId, JobOrder, JobSelection, JobState};
use crate::domain::job_result::JobResult;
use crate::journal::{
    Actor, Cursor, JobAdded, JobMatches, JobOrdered, JobPage, JobStep, JobStepped, JobTrial,
    JournalError, JournalJobs, ListedUnchanged, ReasonCounts, TakenJob,
};
use async_trait::async_trait;

#[async_trait]
impl<Decorator: JournalDecorator> JournalJobs for Decorator {
    async fn add_job(&self, job: &BulkJob) -> Result<JobAdded, JournalError> {
        let calling = self.inner().add_job(job);
        self.around(JournalCall::AddJob, calling).await
    }

    async fn job_obstacle(&self, job: &BulkJob) -> Result<Option<JobAdded>, JournalError> {
        let calling = self.inner().job_obstacle(job);
        self.around(JournalCall::JobObstacle, calling).await
    }

    async fn job(&self, id: &JobId) -> Result<Option<BulkJob>, JournalError> {
        let calling = self.inner().job(id);
        self.around(JournalCall::Job, calling).await
    }

    async fn jobs(
        &self,
        state: Option<JobState>,
        before: Option<&JobId>,
        limit: usize,
    ) -> Result<Vec<BulkJob>, JournalError> {
        let calling = self.inner().jobs(state, before, limit);
        self.around(JournalCall::Jobs, calling).await
    }

    async fn order_job(
        &self,
        id: &JobId,
        order: JobOrder,
        actor: &Actor,
        reason: &str,
        at_ms: i64,
    ) -> Result<JobOrdered, JournalError> {
        let calling = self.inner().order_job(id, order, actor, reason, at_ms);
        self.around(JournalCall::OrderJob, calling).await
    }

    async fn take_job(&self, lease_ms: i64) -> Result<Option<TakenJob>, JournalError> {
        let calling = self.inner().take_job(lease_ms);
        self.around(JournalCall::TakeJob, calling).await
    }

    async fn keep_job(&self, id: &JobId, fence: i64, lease_ms: i64) -> Result<bool, JournalError> {
        let calling = self.inner().keep_job(id, fence, lease_ms);
        self.around(JournalCall::KeepJob, calling).await
    }

    async fn retake_job(
        &self,
        id: &JobId,
        fence: i64,
        lease_ms: i64,
    ) -> Result<Option<TakenJob>, JournalError> {
        let calling = self.inner().retake_job(id, fence, lease_ms);
        self.around(JournalCall::RetakeJob, calling).await
    }

    async fn step_job(&self, step: &JobStep) -> Result<JobStepped, JournalError> {
        let calling = self.inner().step_job(step);
        self.around(JournalCall::StepJob, calling).await
    }

    async fn job_page(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError> {
        let calling = self.inner().job_page(selection, cursor, limit);
        self.around(JournalCall::JobPage, calling).await
    }

    async fn job_matches(
        &self,
        selection: &JobSelection,
        cursor: Option<Cursor>,
    ) -> Result<JobMatches, JournalError> {
        let calling = self.inner().job_matches(selection, cursor);
        self.around(JournalCall::JobMatches, calling).await
    }

    async fn job_changes(
        &self,
        id: &JobId,
        since_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, JournalError> {
        let calling = self.inner().job_changes(id, since_ms, cursor, limit);
        self.around(JournalCall::JobChanges, calling).await
    }

    async fn job_trial(
        &self,
        id: &JobId,
        since_ms: i64,
        most: usize,
    ) -> Result<JobTrial, JournalError> {
        let calling = self.inner().job_trial(id, since_ms, most);
        self.around(JournalCall::JobTrial, calling).await
    }

    async fn job_unchanged(
        &self,
        id: &JobId,
        result: JobResult,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ListedUnchanged>, JournalError> {
        let calling = self.inner().job_unchanged(id, result, after, limit);
        self.around(JournalCall::JobUnchanged, calling).await
    }

    async fn job_reasons(&self, id: &JobId) -> Result<ReasonCounts, JournalError> {
        let calling = self.inner().job_reasons(id);
        self.around(JournalCall::JobReasons, calling).await
    }
}
