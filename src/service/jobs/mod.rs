//! Jobs: making them, showing them, and giving them orders. The servers carry them on in the background
//! ([`runner`]), in steps ([`step`]).
//!
//! A kind of job is a module of its own: it says which notifications the job concerns and what is done with each of
//! them. Everything else is the same for all kinds.

mod after_outage;
mod bulk;
mod counting;
mod filtered;
mod keeping;
mod lane_retry;
mod notifications;
mod queue;
mod reasons;
mod run;
mod runner;
mod step;
mod trial;

use super::timeouts::{with_long_timeout, with_timeout};
use super::{Service, ServiceError};
use crate::domain::api_key::ApiKeyName;
use crate::domain::call_rate::CallRate;
use crate::domain::job::{
    BulkJob, DEFAULT_JOB_RATE, JobCounts, JobId, JobKind, JobOrder, JobSelection, JobState,
};
use crate::domain::job_filter::JobFilter;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::snapshot::Snapshot;
use crate::journal::{Actor, JobAdded, JobOrdered, Journal, JournalError, ReasonCounts};
pub use bulk::{BulkReply, BulkRequest};
use counting::{Counted, count};
pub use notifications::{JobNotification, JobNotifications};
use std::sync::Arc;
pub use trial::TRIAL;
use uuid::Uuid;

/// How many of the notifications that match a dry run shows.
const SAMPLE: usize = 10;

const NO_JOBS: ServiceError = ServiceError::NoJournal("run jobs, because a journal keeps them");

/// A request to make the pending notifications of a lane due now.
#[derive(Debug, Clone)]
pub struct LaneRetryRequest {
    /// The lane.
    pub lane: Lane,
    /// How many notifications per second; at most [`crate::domain::job::HIGHEST_JOB_RATE`].
    pub rate: CallRate,
    /// Who asks for it.
    pub actor: Actor,
    /// The reason; may be empty.
    pub reason: String,
}

/// What a job would concern.
#[derive(Debug, Clone, Default)]
pub struct JobPreview {
    /// How many notifications.
    pub matched: u64,
    /// Whether it may be more: the journal has so much that is pending that not all was looked at.
    pub at_least: bool,
    /// How many of them the job would not change, as far as that can be said before their turn, by reason.
    pub reasons: ReasonCounts,
    /// Some of them: those that would come first. Dead letters have their last attempts, others have none.
    pub sample: Vec<Snapshot>,
}

/// Which jobs to list.
#[derive(Debug, Clone, Default)]
pub struct JobListRequest {
    /// Only jobs in this state.
    pub state: Option<JobState>,
    /// Maximum number of jobs on the page.
    pub limit: usize,
    /// The job after which the page begins.
    pub cursor: Option<JobId>,
}

impl JobPreview {
    /// How many of them the job would change, as far as that can be said before their turn.
    #[must_use]
    pub fn changeable(&self) -> u64 {
        self.matched.saturating_sub(self.reasons.values().sum())
    }
}

impl Service {
    /// Makes a job that makes the pending notifications of a lane due now, oldest registration first. What is due
    /// already is sent without it and is not concerned; nor is what is set aside.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`]; [`ServiceError::MissingLane`]; [`ServiceError::JobRuns`] if another job of the lane has
    /// not ended; [`ServiceError::TooManyJobs`]; the errors of the stores.
    pub async fn retry_lane(&self, request: LaneRetryRequest) -> Result<BulkJob, ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let mut job = self.job_of_lane(JobKind::LaneRetry, request);
        let selection = selection_of(&job).ok_or(ServiceError::MissingJob)?;
        // What was not looked at is counted when its turn comes.
        let counted = self.count_known(journal, &job, &selection).await?;
        job.counts.matched = counted.matched;
        self.add_job(journal, &job).await?;
        Ok(job)
    }

    /// What [`Service::retry_lane`] would concern now.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`], [`ServiceError::MissingLane`], or the errors of the stores.
    pub async fn preview_retry(
        &self,
        request: LaneRetryRequest,
    ) -> Result<JobPreview, ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let job = self.job_of_lane(JobKind::LaneRetry, request);
        self.preview(journal, &job).await
    }

    /// Counts what a job concerns. If that is nothing, and the job names a lane, the lane must be known: whoever has misspelt
    /// it would take an empty job for a success.
    async fn count_known(
        &self,
        journal: &dyn Journal,
        job: &BulkJob,
        selection: &JobSelection,
    ) -> Result<Counted, ServiceError> {
        let counted = {
            let _permit = self.list_limit.permit(asked_by(job).as_ref()).await?;
            count(journal, selection).await?
        };
        if counted.matched > 0 || counted.at_least {
            return Ok(counted);
        }
        let of_filter = job
            .filter
            .as_ref()
            .and_then(|filter| filter.lane.as_deref());
        let lane = (job.lane.clone()).or(of_filter.map(Lane::from_name));
        if let Some(lane) = lane {
            self.check_known(journal, &lane).await?;
        }
        Ok(counted)
    }

    /// How many notifications a job would concern, and the first ones.
    async fn preview(
        &self,
        journal: &dyn Journal,
        job: &BulkJob,
    ) -> Result<JobPreview, ServiceError> {
        let selection = &selection_of(job).ok_or(ServiceError::MissingJob)?;
        let Counted {
            matched,
            at_least,
            reasons,
        } = self.count_known(journal, job, selection).await?;
        let _permit = self.list_limit.permit(asked_by(job).as_ref()).await?;
        let mut keys: Vec<Key> = Vec::new();
        let mut cursor = None;
        while u64::try_from(keys.len()).is_ok_and(|many| many < matched) && keys.len() < SAMPLE {
            let reading = journal.job_page(selection, cursor, SAMPLE - keys.len());
            let page = with_long_timeout(reading).await?;
            keys.extend(page.found.into_iter().map(|(key, _)| key));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let mut sample = self.sample(journal, selection, &keys).await?;
        sample
            .iter_mut()
            .for_each(|one| self.endpoints.fill_in_url(one));
        Ok(JobPreview {
            matched,
            at_least,
            reasons,
            sample,
        })
    }

    /// Reads these notifications; dead letters with their last attempts, which say why they died.
    async fn sample(
        &self,
        journal: &dyn Journal,
        selection: &JobSelection,
        keys: &[Key],
    ) -> Result<Vec<Snapshot>, ServiceError> {
        match selection {
            JobSelection::OfLane(_) | JobSelection::Pending(_) => {
                notifications::readable(journal, keys).await
            }
            JobSelection::Dead(_) => {
                let mut sample = Vec::new();
                for key in keys {
                    let mut found = match with_timeout(journal.find(key)).await {
                        Ok(Some(found)) => found,
                        // The job lists it all the same.
                        Ok(None) | Err(JournalError::Corrupt(_)) => continue,
                        Err(error) => return Err(error.into()),
                    };
                    found
                        .attempts
                        .drain(..found.attempts.len().saturating_sub(1));
                    sample.push(found);
                }
                Ok(sample)
            }
        }
    }

    /// Keeps the job that stands for a release: it is done when it is made, because what waited is due when it was
    /// due. Returns it, and whether it is kept: without a journal it is not.
    pub(super) async fn note_release(
        &self,
        lane: &Lane,
        due: u64,
        actor: Actor,
        reason: &str,
    ) -> Result<(BulkJob, bool), ServiceError> {
        let request = LaneRetryRequest {
            lane: lane.clone(),
            rate: default_rate(),
            actor,
            reason: reason.to_string(),
        };
        let mut job = self.job_of_lane(JobKind::LaneRelease, request);
        job.state = JobState::Done;
        job.ended_ms = Some(job.created_ms);
        job.counts = JobCounts {
            matched: due,
            done: due,
            ..JobCounts::default()
        };
        let Some(journal) = self.journal() else {
            return Ok((job, false));
        };
        with_timeout(journal.add_job(&job)).await?;
        Ok((job, true))
    }

    /// One job.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`], [`ServiceError::MissingJob`], or the errors of the journal.
    pub async fn job(&self, id: &JobId) -> Result<BulkJob, ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let found = with_timeout(journal.job(id)).await?;
        found.ok_or(ServiceError::MissingJob)
    }

    /// Jobs, newest first, and the cursor of the next page; `None` at the end.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`], or the errors of the journal.
    pub async fn jobs(
        &self,
        request: &JobListRequest,
    ) -> Result<(Vec<BulkJob>, Option<JobId>), ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let limit = request.limit;
        let reading = journal.jobs(
            request.state,
            request.cursor.as_ref(),
            limit.saturating_add(1),
        );
        let mut jobs = with_long_timeout(reading).await?;
        let more = jobs.len() > limit;
        jobs.truncate(limit);
        let next = jobs.last().filter(|_| more).map(|job| job.id.clone());
        Ok((jobs, next))
    }

    /// Pauses, resumes or stops a job, for a reason, which may be empty. After a pause or a stop has succeeded, the job changes nothing more. What it
    /// has made due before is sent nevertheless.
    ///
    /// # Errors
    /// [`ServiceError::MissingJob`], [`ServiceError::JobEnded`], [`ServiceError::NoJournal`], or the errors of the
    /// journal.
    pub async fn order_job(
        &self,
        id: &JobId,
        order: JobOrder,
        actor: &Actor,
        reason: &str,
    ) -> Result<BulkJob, ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let at_ms = self.clock.now_ms();
        match with_timeout(journal.order_job(id, order, actor, reason, at_ms)).await? {
            JobOrdered::Done(job) => {
                tracing::info!(job = %id, actor = actor.name(), order = %order, state = %job.state, reason, "a job was given an order");
                self.job_wake.notify_one();
                Ok(*job)
            }
            JobOrdered::Refused(job) => Err(ServiceError::JobEnded(job)),
            JobOrdered::Missing => Err(ServiceError::MissingJob),
        }
    }

    fn job_of_lane(&self, kind: JobKind, request: LaneRetryRequest) -> BulkJob {
        let LaneRetryRequest {
            lane,
            rate,
            actor,
            reason,
        } = request;
        BulkJob {
            lane: Some(lane),
            ..self.new_job(kind, rate, &actor, &reason)
        }
    }

    /// A job that is about nothing yet.
    fn new_job(&self, kind: JobKind, rate: CallRate, actor: &Actor, reason: &str) -> BulkJob {
        let id = Uuid::now_v7().to_string();
        BulkJob {
            id: JobId::parse(&id).expect("invariant: a UUID is the id of a job"),
            kind,
            state: JobState::Running,
            lane: None,
            filter: None,
            failed_since_ms: None,
            counts: JobCounts::default(),
            rate,
            actor: actor.name().into(),
            reason: reason.into(),
            problem: None,
            created_ms: self.clock.now_ms(),
            ended_ms: None,
        }
    }

    async fn add_job(&self, journal: &dyn Journal, job: &BulkJob) -> Result<(), ServiceError> {
        match with_timeout(journal.add_job(job)).await? {
            JobAdded::Added => {}
            refused => return refusal(refused, job.kind),
        }
        tracing::info!(
            job = %job.id,
            kind = %job.kind,
            lane = job.lane.as_ref().map_or("", |lane| lane.as_str()),
            filter = job.filter.as_ref().map_or(String::new(), JobFilter::to_stored),
            matched = job.counts.matched,
            actor = &*job.actor,
            reason = &*job.reason,
            "a job was made"
        );
        // Dying here leaves it in the journal: any server takes it.
        self.job_wake.notify_one();
        Ok(())
    }
}

/// In whose queue counting for a job waits ([`Service::list_limit`]): that of the API key with whose name its actor begins. The key of
/// the settings may name a person instead, who then has a queue alone.
fn asked_by(job: &BulkJob) -> Option<ApiKeyName> {
    let (key, _) = job.actor.split_once('/').unwrap_or((&*job.actor, ""));
    ApiKeyName::parse(key).ok()
}

/// The error of a job that was refused.
fn refusal(answer: JobAdded, kind: JobKind) -> Result<(), ServiceError> {
    match answer {
        JobAdded::Added => Ok(()),
        JobAdded::LaneTaken(other) | JobAdded::Same(other) => Err(ServiceError::JobRuns(other)),
        JobAdded::Full => Err(ServiceError::TooManyJobs(kind.most_open())),
    }
}

/// The rate of a job whose request names none.
#[must_use]
pub fn default_rate() -> CallRate {
    CallRate::per_second(DEFAULT_JOB_RATE).expect("invariant: it is a rate")
}

/// Which notifications a job concerns; `None` if it has nothing to do.
fn selection_of(job: &BulkJob) -> Option<JobSelection> {
    match job.kind {
        JobKind::LaneRetry | JobKind::AfterOutage => lane_retry::selection(job),
        JobKind::Replay | JobKind::Cancel => filtered::selection(job),
        JobKind::LaneRelease => None,
    }
}

/// What jobs hold while they run in the background.
type SharedService = Arc<Service>;
