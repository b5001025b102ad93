//! How many notifications a job concerns. Somebody waits for the answer, and the journal may have millions of pending
//! notifications of other lanes, so the counting has an end.

use crate::domain::job::JobSelection;
use crate::domain::job_result::JobReason;
use crate::journal::{Cursor, JobMatches, Journal, JournalError, ReasonCounts};
use crate::service::ServiceError;
use crate::service::timeouts::with_long_timeout;
use std::future::Future;
use std::time::{Duration, Instant};

/// No part is begun after this time.
const COUNT_FOR: Duration = Duration::from_secs(4);
/// Maximum number of parts: some hundred thousand pending notifications.
const MOST_PARTS: usize = 40;

/// How many notifications match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) matched: u64,
    /// Whether not all were looked at, so that it may be more.
    pub(super) at_least: bool,
    /// How many of them the job would not change, as far as that can be said before their turn, by reason.
    pub(super) reasons: ReasonCounts,
}

pub(super) async fn count(
    journal: &dyn Journal,
    selection: &JobSelection,
) -> Result<Counted, ServiceError> {
    let part = |cursor| with_long_timeout(journal.job_matches(selection, cursor));
    Ok(count_parts(part).await?)
}

async fn count_parts<Part>(
    mut part: impl FnMut(Option<Cursor>) -> Part,
) -> Result<Counted, JournalError>
where
    Part: Future<Output = Result<JobMatches, JournalError>>,
{
    let started = Instant::now();
    let mut counted = Counted {
        matched: 0,
        at_least: true,
        reasons: ReasonCounts::new(),
    };
    let mut cursor = None;
    for _ in 0..MOST_PARTS {
        let matches = part(cursor).await?;
        counted.matched += matches.many;
        for (reason, many) in [
            (JobReason::EndpointMadeAgain, matches.endpoint_made_again),
            (JobReason::Superseded, matches.superseded),
        ] {
            if many > 0 {
                *counted.reasons.entry(reason).or_default() += many;
            }
        }
        cursor = matches.next;
        counted.at_least = cursor.is_some();
        if cursor.is_none() || started.elapsed() > COUNT_FOR {
            break;
        }
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;

    #[tokio::test]
    async fn counting_has_an_end() {
        let check = async |parts: i64, expected| {
            let count = |cursor: Option<Cursor>| {
                let row = cursor.map_or(0, |cursor| cursor.row) + 1;
                let next = (row < parts).then_some(Cursor { at_ms: 0, row });
                ready(Ok(JobMatches {
                    many: 7,
                    endpoint_made_again: 2,
                    superseded: 0,
                    next,
                }))
            };
            let counted = count_parts(count).await.expect("counted");
            assert_eq!((counted.matched, counted.at_least), expected, "{parts}");
            let made_again = counted.matched / 7 * 2;
            let reasons = ReasonCounts::from([(JobReason::EndpointMadeAgain, made_again)]);
            assert_eq!(counted.reasons, reasons, "{parts}");
        };
        check(1, (7, false)).await;
        check(3, (21, false)).await;
        check(40, (280, false)).await;
        check(41, (280, true)).await;
        check(i64::MAX, (280, true)).await;
    }

    #[tokio::test]
    async fn a_journal_that_fails_is_no_count() {
        let failing = |_| ready(Err(JournalError::Unavailable("away".into())));
        assert!(count_parts(failing).await.is_err());
    }
}
