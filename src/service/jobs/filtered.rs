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
use crate::journal::Transition;

/// What passes the filter of a job; `None` if it has none.
pub(super) fn selection(job: &BulkJob) -> Option<JobSelection> {
    let selection = set_of(job)?;
    match job.kind {
        JobKind::Replay => Some(JobSelection::Dead(selection)),
        JobKind::Cancel => Some(JobSelection::Pending(selection)),
        JobKind::LaneRetry | JobKind::AfterOutage | JobKind::LaneRelease => None,
    }
}

/// The change of a notification; `None` if it needs none: somebody has replayed or discarded the dead letter, or what was
/// pending has ended.
pub(super) fn change(job: &BulkJob, before: &Snapshot) -> Option<Change> {
    let (state, change) = match job.kind {
        JobKind::Replay => (State::Dead, Change::Replay),
        JobKind::Cancel => (State::Scheduled, Change::Cancel),
        JobKind::LaneRetry | JobKind::AfterOutage | JobKind::LaneRelease => return None,
    };
    let is_of_set = set_of(job).is_some_and(|set| set.has_stood_before(before));
    (before.state == state && is_of_set).then_some(change)
}

/// Whether a notification was sent again since the job was made, by its history. For a replay, that is also what the job
/// has done itself, at the instant of the job at the earliest.
pub(super) fn is_sent_again(job: &BulkJob, history: &[Transition]) -> bool {
    history.iter().any(|line| {
        let is_since = match job.kind {
            JobKind::Replay => line.at_ms >= job.created_ms,
            JobKind::LaneRetry | JobKind::AfterOutage | JobKind::LaneRelease | JobKind::Cancel => {
                line.at_ms > job.created_ms
            }
        };
        is_since && matches!(&*line.kind, "replayed" | "resent")
    })
}

/// The notifications of the job; `None` if it has no filter.
pub(super) fn set_of(job: &BulkJob) -> Option<FilteredSelection> {
    Some(FilteredSelection {
        filter: job.filter.clone()?,
        until_ms: job.created_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::destination::Destination;
    use crate::domain::headers::Headers;
    use crate::domain::job::{JobCounts, JobId, JobState};
    use crate::domain::job_filter::JobFilter;
    use crate::domain::key::Key;
    use crate::domain::notification::{Registration, Start, Target};
    use crate::domain::priority::Priority;
    use crate::domain::webhook_id::WebhookId;
    use crate::service::default_rate;

    const MADE_MS: i64 = 1_000;

    fn job(kind: JobKind) -> BulkJob {
        BulkJob {
            id: JobId::parse("01").expect("an id"),
            kind,
            state: JobState::Running,
            lane: None,
            filter: Some(JobFilter::default()),
            failed_since_ms: None,
            counts: JobCounts::default(),
            rate: default_rate(),
            actor: "anna".into(),
            reason: "".into(),
            problem: None,
            created_ms: MADE_MS,
            ended_ms: None,
        }
    }

    fn found(state: State, registered_ms: i64, ended_ms: Option<i64>) -> Snapshot {
        let registration = Registration {
            key: Key::new("t", "1").expect("a key"),
            target: Target::Url(Destination::parse("https://shop.example/").expect("a url")),
            body: "a=1".into(),
            content_type: "text/plain".into(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: None,
            ack: None,
            priority: Priority::Normal,
            order: None,
        };
        let id = WebhookId::from_bytes([1; 16]);
        let (notification, progress) = registration.accept(id, registered_ms, None);
        Snapshot {
            state,
            ended_ms,
            ..Snapshot::of_new(&notification, progress)
        }
    }

    #[test]
    fn only_what_stood_so_when_the_job_was_made_is_changed() {
        let replayed = |found: &Snapshot| change(&job(JobKind::Replay), found);
        let cancelled = |found: &Snapshot| change(&job(JobKind::Cancel), found);
        let dead = found(State::Dead, 900, Some(MADE_MS));
        assert_eq!(
            (replayed(&dead), cancelled(&dead)),
            (Some(Change::Replay), None)
        );
        assert_eq!(replayed(&found(State::Dead, 900, Some(MADE_MS + 1))), None);
        assert_eq!(replayed(&found(State::Cancelled, 900, Some(950))), None);
        let pending = found(State::Scheduled, MADE_MS, None);
        assert_eq!(
            (replayed(&pending), cancelled(&pending)),
            (None, Some(Change::Cancel))
        );
        // The one of the set was deleted, and its key was registered again.
        assert_eq!(cancelled(&found(State::Scheduled, MADE_MS + 1, None)), None);
        assert_eq!(cancelled(&found(State::Delivered, 900, Some(950))), None);
    }

    #[test]
    fn what_was_sent_again_since_is_found_by_its_series_and_its_history() {
        let may_be = |series, first_due_ms| {
            let mut found = found(State::Dead, 900, Some(950));
            found.progress.series = series;
            found.progress.first_due_ms = first_due_ms;
            let set = set_of(&job(JobKind::Replay)).expect("a set");
            set.may_be_sent_again(&found)
        };
        // It was tried by hand before it was due.
        assert!(!may_be(1, MADE_MS + 9));
        assert!(!may_be(2, MADE_MS - 1));
        assert!(may_be(2, MADE_MS));
        let check = |kind, line: &str, at_ms, expected| {
            let line = Transition {
                kind: line.into(),
                at_ms,
                actor: "anna".into(),
                instance: "one".into(),
                detail: String::new(),
            };
            assert_eq!(is_sent_again(&job(kind), &[line]), expected);
        };
        for line in ["replayed", "resent"] {
            check(JobKind::Replay, line, MADE_MS - 1, false);
            check(JobKind::Replay, line, MADE_MS, true);
            check(JobKind::Cancel, line, MADE_MS, false);
            check(JobKind::Cancel, line, MADE_MS + 1, true);
        }
        check(JobKind::Replay, "retried", MADE_MS + 1, false);
    }
}
