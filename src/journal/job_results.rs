//! What the steps of jobs have not changed, and why.
//!
//! It is written in the transaction of the step, which counts it. So the numbers of a job and its lists say the same,
//! whatever server dies when. A step that is repeated because its reply was lost is refused by its fence, and no
//! notification has two turns that count: the job keeps up to where all had their turn, except those that wait
//! ([`super::TakenJob::waiting`]).

use super::JournalError;
use super::change::ChangeResult;
use super::rows::{Fields, StoredRow, corrupt, narrowed};
use crate::domain::job_result::{JobReason, JobResult, MOST_LISTED};
use crate::domain::key::Key;
use sqlx::{ColumnIndex, Decode, Type};
use std::collections::BTreeMap;

/// A notification that a job has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobUnchanged {
    /// The notification.
    pub key: Key,
    /// Why.
    pub reason: JobReason,
    /// What else is known, such as the error of a store; empty if nothing.
    pub detail: String,
}

/// A notification in the list of those that a job has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedUnchanged {
    /// Its number in the list, from 1 on.
    pub number: u64,
    /// The notification, and why it was not changed.
    pub unchanged: JobUnchanged,
    /// When it had its turn, in milliseconds since 1970.
    pub at_ms: i64,
}

/// How many notifications a job has not changed, by reason.
pub type ReasonCounts = BTreeMap<JobReason, u64>;

impl JobUnchanged {
    /// Without a detail.
    #[must_use]
    pub fn new(key: Key, reason: JobReason) -> Self {
        Self {
            key,
            reason,
            detail: String::new(),
        }
    }
}

impl JobReason {
    /// Why a change was not made; `None` if it was.
    pub(super) fn of_change(result: &ChangeResult) -> Option<Self> {
        match result {
            ChangeResult::Done(_) => None,
            ChangeResult::Refused(found) => Some(Self::of_state(found)),
            // A step with such a result is not kept.
            ChangeResult::Fenced(_) => Some(Self::Leased),
            ChangeResult::Superseded(_) => Some(Self::Superseded),
            ChangeResult::PayloadDeleted(_) => Some(Self::PayloadDeleted),
            ChangeResult::Missing => Some(Self::Missing),
        }
    }
}

/// Of these, how many have each reason.
pub(super) fn counted<'all>(all: impl IntoIterator<Item = &'all JobUnchanged>) -> ReasonCounts {
    let mut counts = ReasonCounts::new();
    for one in all {
        *counts.entry(one.reason).or_default() += 1;
    }
    counts
}

/// How many notifications with this result are listed, if so many have each reason.
#[must_use]
pub fn listed(counts: &ReasonCounts, result: JobResult) -> u64 {
    with_turn(counts, result).min(MOST_LISTED)
}

/// How many notifications with this result had their turn.
pub(super) fn with_turn(counts: &ReasonCounts, result: JobResult) -> u64 {
    let is_of = |reason: JobReason| reason.result() == result && reason != JobReason::EndedBefore;
    let counts = counts.iter().filter(|(reason, _)| is_of(**reason));
    counts.map(|(_, many)| many).sum()
}

/// Those with a result, each with its number in the list. `before` had a turn earlier; what comes behind the end of the
/// list is left out.
pub(super) fn numbered(
    unchanged: &[JobUnchanged],
    result: JobResult,
    before: u64,
) -> Vec<(u64, &JobUnchanged)> {
    let of_result = unchanged.iter().filter(|one| one.reason.result() == result);
    let numbers = before.saturating_add(1)..=MOST_LISTED;
    numbers.zip(of_result).collect()
}

impl<'row, R> Fields<'row, R>
where
    R: StoredRow,
    usize: ColumnIndex<R>,
    bool: Decode<'row, R::Database> + Type<R::Database>,
    i64: Decode<'row, R::Database> + Type<R::Database>,
    &'row str: Decode<'row, R::Database> + Type<R::Database>,
    &'row [u8]: Decode<'row, R::Database> + Type<R::Database>,
    R::Count: Decode<'row, R::Database> + Type<R::Database>,
{
    /// Reads rows with `number, topic, id, reason, detail, at_ms`.
    pub(super) fn unchanged(rows: &'row [R]) -> Result<Vec<ListedUnchanged>, JournalError> {
        let read = |row| {
            let mut fields = Self::of(row);
            Ok(ListedUnchanged {
                number: narrowed("number", fields.take()?)?,
                unchanged: JobUnchanged {
                    key: fields.key()?,
                    reason: fields.job_reason()?,
                    detail: fields.take::<Option<&str>>()?.unwrap_or_default().into(),
                },
                at_ms: fields.take()?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Reads rows with `reason, many`.
    pub(super) fn reason_counts(rows: &'row [R]) -> Result<ReasonCounts, JournalError> {
        let read = |row| {
            let mut fields = Self::of(row);
            Ok((fields.job_reason()?, narrowed("count", fields.take()?)?))
        };
        rows.iter().map(read).collect()
    }

    fn job_reason(&mut self) -> Result<JobReason, JournalError> {
        let name: &str = self.take()?;
        JobReason::from_name(name).ok_or_else(|| corrupt("reason of a job", &name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unchanged(id: &str, reason: JobReason) -> JobUnchanged {
        JobUnchanged::new(Key::new("t", id).expect("a key"), reason)
    }

    #[test]
    fn both_lists_are_numbered_and_end_where_they_may() {
        let all = [
            unchanged("1", JobReason::Due),
            unchanged("2", JobReason::Leased),
            unchanged("3", JobReason::Delivered),
        ];
        let check = |result, before, expected: &[(u64, usize)]| {
            let expected: Vec<_> = expected.iter().map(|(at, one)| (*at, &all[*one])).collect();
            assert_eq!(numbered(&all, result, before), expected);
        };
        check(JobResult::Skipped, 0, &[(1, 0), (2, 2)]);
        check(JobResult::Failed, 7, &[(8, 1)]);
        check(JobResult::Skipped, MOST_LISTED - 1, &[(MOST_LISTED, 0)]);
        check(JobResult::Skipped, MOST_LISTED, &[]);
        check(JobResult::Skipped, MOST_LISTED + 9, &[]);
    }

    #[test]
    fn what_ended_before_its_turn_is_counted_and_not_listed() {
        let mut counts = counted(&[
            unchanged("1", JobReason::Due),
            unchanged("2", JobReason::Leased),
            unchanged("3", JobReason::Due),
        ]);
        counts.insert(JobReason::EndedBefore, 5);
        assert_eq!(listed(&counts, JobResult::Skipped), 2);
        assert_eq!(listed(&counts, JobResult::Failed), 1);
        counts.insert(JobReason::Delivered, MOST_LISTED);
        assert_eq!(listed(&counts, JobResult::Skipped), MOST_LISTED);
    }
}
