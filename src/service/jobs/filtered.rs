//! The kinds `replay` and `cancel`: what a replay or a cancellation by hand does with one notification, done with all that
//! pass a filter.
//!
//! The set of a job is fixed when it is made, by its instant: what dies or is registered later does not join. So nothing
//! has to be kept for each notification, and the set is read page by page. What is replayed leaves the dead letters, and if
//! it dies again, its series began after the job was made.

use crate::domain::change::Change;
use crate::domain::job::{BulkJob, JobKind, JobSelection};
use crate::domain::job_filter::FilteredSelection;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;

/// What passes the filter of a job; `None` if it has none.
pub(super) fn selection(job: &BulkJob) -> Option<JobSelection> {
    let selection = set_of(job)?;
    match job.kind {
        JobKind::Replay => Some(JobSelection::Dead(selection)),
        JobKind::Cancel => Some(JobSelection::Pending(selection)),
        JobKind::LaneRetry | JobKind::AfterOutage | JobKind::LaneRelease => None,
    }
}

/// The change of a dead letter; `None` if it needs none: somebody has replayed or discarded it.
pub(super) fn replay(job: &BulkJob, before: &Snapshot) -> Option<Change> {
    let is_of_set = set_of(job).is_some_and(|set| set.has_died_before(before));
    (before.state == State::Dead && is_of_set).then_some(Change::Replay)
}

/// The change of a pending notification; `None` if it has ended.
pub(super) fn cancel(before: &Snapshot) -> Option<Change> {
    (before.state == State::Scheduled).then_some(Change::Cancel)
}

fn set_of(job: &BulkJob) -> Option<FilteredSelection> {
    Some(FilteredSelection {
        filter: job.filter.clone()?,
        until_ms: job.created_ms,
    })
}
