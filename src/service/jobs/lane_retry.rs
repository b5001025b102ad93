//! The kind `lane_retry`: makes the pending notifications of a lane due now, as a retry by hand does with one. If the
//! attempt fails, the ladder goes on where it was. If the destination is probed, one call is made now, and what is due does not
//! wait for the next probe.

use super::super::timeouts::{with_long_timeout, with_timeout};
use super::super::{Service, ServiceError};
use crate::domain::change::Change;
use crate::domain::job::{BulkJob, JobSelection, PendingOfLane};
use crate::domain::lane::KeyInLane;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;

/// What was registered before the job was made and was not due then. What was due then is sent without the job.
pub(super) fn selection(job: &BulkJob) -> Option<JobSelection> {
    Some(JobSelection::OfLane(PendingOfLane {
        lane: job.lane.clone()?,
        registered_until_ms: job.created_ms,
        due_after_ms: job.created_ms,
        failed_since_ms: job.failed_since_ms,
    }))
}

/// How many notifications of a lane are tried, to ask through one of them for a call now.
const MOST_ASKED: usize = 16;

impl Service {
    /// Has the next call of a lane not wait until its destination is probed next, for a job that found nothing to make due:
    /// everything is due already. If this fails, the call is made with the next probe.
    pub(super) async fn call_lane_now(&self, job: &BulkJob) {
        if let Err(error) = self.ask_lane_for_call(job).await {
            tracing::debug!(
                job = %job.id,
                %error,
                "the schedule could not be asked for a call now; it is made with the next probe"
            );
        }
    }

    async fn ask_lane_for_call(&self, job: &BulkJob) -> Result<(), ServiceError> {
        let (Some(lane), Some(journal)) = (&job.lane, self.journal()) else {
            return Ok(());
        };
        if !with_timeout(self.schedule.lane(lane)).await?.is_probing {
            return Ok(());
        }
        let pending = JobSelection::OfLane(PendingOfLane {
            lane: lane.clone(),
            registered_until_ms: i64::MAX,
            due_after_ms: i64::MIN,
            failed_since_ms: None,
        });
        let page = with_long_timeout(journal.job_page(&pending, None, MOST_ASKED)).await?;
        for (key, _) in page.found {
            let key = KeyInLane {
                key,
                lane: lane.clone(),
            };
            if self.ask_for_call(key).await {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The change of one notification; `None` if it needs none.
pub(super) fn change(before: &Snapshot, now_ms: i64) -> Option<Change> {
    let waits = before.state == State::Scheduled
        // Whether it is sent again is for a person to decide.
        && before.set_aside.is_none()
        && before.progress.next_due_ms() > now_ms;
    waits.then_some(Change::Retry)
}
