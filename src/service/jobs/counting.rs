//! How many notifications a job concerns. Somebody waits for the answer, and the journal may have millions of pending
//! notifications of other lanes, so the counting has an end.

use crate::domain::job::JobSelection;
use crate::journal::{Cursor, Journal, JournalError};
use crate::service::ServiceError;
use crate::service::timeouts::with_long_timeout;
use std::future::Future;
use std::time::{Duration, Instant};

/// No part is begun after this time.
const COUNT_FOR: Duration = Duration::from_secs(4);
/// Maximum number of parts: some hundred thousand pending notifications.
const MOST_PARTS: usize = 40;

/// How many notifications match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) matched: u64,
    /// Whether not all were looked at, so that it may be more.
    pub(super) at_least: bool,
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
    Part: Future<Output = Result<(u64, Option<Cursor>), JournalError>>,
{
    let started = Instant::now();
    let (mut matched, mut cursor) = (0, None);
    for _ in 0..MOST_PARTS {
        let (many, next) = part(cursor).await?;
        matched += many;
        if next.is_none() {
            return Ok(Counted {
                matched,
                at_least: false,
            });
        }
        cursor = next;
        if started.elapsed() > COUNT_FOR {
            break;
        }
    }
    Ok(Counted {
        matched,
        at_least: true,
    })
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
                ready(Ok((7, next)))
            };
            let counted = count_parts(count).await.expect("counted");
            assert_eq!((counted.matched, counted.at_least), expected, "{parts}");
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
