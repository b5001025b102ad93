//! The kind `lane_retry`: makes the pending notifications of a lane due now, as a retry by hand does with one. If the
//! attempt fails, the ladder goes on where it was. If the destination is probed, one call is made now, and what is due does not
//! wait for the next probe.

use crate::domain::change::Change;
use crate::domain::job::{BulkJob, JobSelection, PendingOfLane};
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

/// The change of one notification; `None` if it needs none.
pub(super) fn change(before: &Snapshot, now_ms: i64) -> Option<Change> {
    let waits = before.state == State::Scheduled
        // Whether it is sent again is for a person to decide.
        && before.set_aside.is_none()
        && before.progress.next_due_ms() > now_ms;
    waits.then_some(Change::Retry)
}
