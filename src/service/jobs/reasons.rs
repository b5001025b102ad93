//! Why a job does not change a notification.

use crate::domain::job::{BulkJob, JobKind};
use crate::domain::job_result::{JobReason, LONGEST_DETAIL};
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::JournalError;
use crate::schedule::ScheduleError;
use crate::service::ServiceError;

/// Why a notification was skipped that was leased and needs no change.
pub(super) fn skip_reason(job: &BulkJob, found: &Snapshot) -> JobReason {
    match job.kind {
        JobKind::LaneRetry | JobKind::AfterOutage if found.state == State::Scheduled => {
            match found.set_aside {
                Some(_) => JobReason::SetAside,
                None => JobReason::Due,
            }
        }
        JobKind::LaneRetry | JobKind::AfterOutage | JobKind::LaneRelease => {
            JobReason::of_state(found)
        }
        JobKind::Replay | JobKind::Cancel => {
            let is_new = found.registered_ms > job.created_ms;
            match (is_new, job.kind, found.state) {
                (true, _, _) => JobReason::RegisteredAgain,
                // It has died again, or is on its way to that.
                (false, JobKind::Replay, State::Dead) => JobReason::SentAgain,
                (false, _, _) => JobReason::of_state(found),
            }
        }
    }
}

/// Why a notification cannot be changed for which this error came; `None` if the error is not a matter of this one.
pub(super) fn failure_reason(error: &ServiceError) -> Option<JobReason> {
    match error {
        ServiceError::EndpointMadeAgain(_) => Some(JobReason::EndpointMadeAgain),
        ServiceError::Unsettled => Some(JobReason::Leased),
        ServiceError::Journal(JournalError::Corrupt(_))
        | ServiceError::Schedule(ScheduleError::Corrupt(_)) => Some(JobReason::Unreadable),
        _ => None,
    }
}

/// What is kept of the error of a store.
pub(super) fn detail_of(problem: &str) -> String {
    problem.chars().take(LONGEST_DETAIL).collect()
}
