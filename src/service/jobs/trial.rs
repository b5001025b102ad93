//! The trial of a job that replays dead letters: after the first ones, it waits for their attempts, and ends if most of
//! them failed again. The receiver that is not repaired yet gets a few calls and not all.
//!
//! Nothing is kept for it. The histories say which notifications the job has replayed, and the counts of the job whether
//! the trial is over: as long as it is not, the job replays no more than these. So it goes on after a restart.

use super::SharedService;
use crate::domain::job::{BulkJob, JobKind};
use crate::journal::{JobTrial, Journal};
use crate::service::ServiceError;
use crate::service::timeouts::with_long_timeout;
use std::time::Duration;

/// How many notifications are replayed before their attempts are waited for.
pub const TRIAL: u64 = 20;
/// For how long they are waited for, from the last replay. Then those count that have been attempted.
const LONGEST_TRIAL_MS: i64 = 60_000;
/// How often it is asked how they have fared.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(500);

/// What follows from a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is not over.
    Wait,
    /// The job goes on.
    GoOn,
    /// The job ends, for this reason.
    End(String),
}

/// How many notifications a job may replay before the trial, or instead of it; `None` if there is no trial any more.
pub(super) fn left_before(job: &BulkJob) -> Option<u64> {
    match job.kind {
        JobKind::Replay => TRIAL.checked_sub(job.counts.done),
        JobKind::LaneRetry | JobKind::AfterOutage | JobKind::LaneRelease | JobKind::Cancel => None,
    }
}

/// Looks at those that the job has replayed.
pub(super) async fn look(
    service: &SharedService,
    journal: &dyn Journal,
    job: &BulkJob,
) -> Result<Verdict, ServiceError> {
    let trial = with_long_timeout(journal.job_trial(&job.id, job.created_ms, usize::MAX)).await?;
    Ok(judge(&trial, service.clock.now_ms()))
}

fn judge(trial: &JobTrial, now_ms: i64) -> Verdict {
    let tried = trial.delivered + trial.failed;
    let is_over = tried >= trial.replayed
        || trial
            .last_ms
            .is_none_or(|last_ms| now_ms - last_ms >= LONGEST_TRIAL_MS);
    // More than half of all have failed, however the others fare.
    let most_failed = 2 * trial.failed > trial.replayed;
    if most_failed || is_over && 2 * trial.failed > tried {
        return Verdict::End(format!(
            "of the first {} notifications, {} failed again and {} were delivered, so the others were not replayed; when \
             the receiver is repaired, send the request again",
            trial.replayed, trial.failed, trial.delivered
        ));
    }
    match is_over || 2 * trial.delivered >= trial.replayed {
        true => Verdict::GoOn,
        false => Verdict::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_ends_if_most_of_the_first_failed_again() {
        let judge = |[replayed, delivered, failed]: [u64; 3], waited_ms| {
            let last_ms = Some(1_000);
            let trial = JobTrial {
                replayed,
                delivered,
                failed,
                last_ms,
                ..JobTrial::default()
            };
            match judge(&trial, 1_000 + waited_ms) {
                Verdict::Wait => "wait",
                Verdict::GoOn => "go on",
                Verdict::End(_) => "end",
            }
        };
        for (counts, expected) in [
            ([20, 0, 0], "wait"),
            ([20, 9, 10], "wait"),
            ([20, 10, 0], "go on"),
            ([20, 10, 10], "go on"),
            ([20, 0, 10], "wait"),
            ([20, 0, 11], "end"),
            ([20, 9, 11], "end"),
            ([20, 20, 0], "go on"),
        ] {
            assert_eq!(judge(counts, 0), expected, "{counts:?}");
            assert_eq!(judge(counts, LONGEST_TRIAL_MS - 1), expected, "{counts:?}");
        }
        for (counts, expected) in [
            ([20, 0, 0], "go on"),
            ([20, 1, 1], "go on"),
            ([20, 1, 2], "end"),
            ([20, 5, 4], "go on"),
        ] {
            assert_eq!(judge(counts, LONGEST_TRIAL_MS), expected, "{counts:?}");
        }
        // The changes by hand since the job was made were too many to find its own.
        assert_eq!(super::judge(&JobTrial::default(), 0), Verdict::GoOn);
    }
}
