//! What the attempts of each minute did, by server: counters for plots over time.
//!
//! Every server writes a row for each minute in which it is at work, and raises its counters. A server writes what it has
//! counted since the minute began, and a counter never goes down, so a write may be repeated or come late.

use super::JournalError;
use super::rows::{Fields, StoredRow};
use crate::domain::activity::{ActivityBucket, ActivityCounts};
use async_trait::async_trait;
use sqlx::{ColumnIndex, Decode, Type};
use std::fmt::Write as _;

/// For how many minutes the counters are kept: three days.
pub(super) const KEPT_MINUTES: i64 = 3 * 24 * 60;
/// Maximum number of rows that one call deletes. Several servers write one row a minute each.
pub(super) const MOST_FORGOTTEN: usize = 200;

/// The columns of the counters, in the order of [`ActivityCounts::from_values`].
pub(super) const COUNTERS: [&str; ActivityCounts::LENGTH] = [
    "acknowledged",
    "wrong_answer",
    "http_status",
    "timeout",
    "connect",
    "tls",
    "dns",
    "blocked",
    "protocol",
    "interrupted",
    "dead",
    "late_5",
    "late_10",
    "late_20",
    "late_50",
    "late_100",
    "late_200",
    "late_500",
    "late_1000",
    "late_2000",
    "late_5000",
    "late_10000",
    "late_30000",
    "late_60000",
    "late_300000",
    "late_600000",
    "late_1800000",
    "late_3600000",
    "late_7200000",
    "late_14400000",
    "late_28800000",
    "late_43200000",
    "late_86400000",
];

/// The part of a [`super::Journal`] that keeps what the attempts of each minute did.
#[async_trait]
pub trait JournalActivity: Send + Sync + 'static {
    /// Keeps what a server has counted in these minutes, which are numbered from 1970 on. A counter that the journal has is
    /// raised to the given one, and never lowered. `server` is a name that no other process has, nor the one before.
    /// Forgets what is older than three days before the newest of these minutes.
    async fn keep_activity(
        &self,
        server: &str,
        minutes: &[(i64, ActivityCounts)],
    ) -> Result<(), JournalError>;

    /// What all servers have counted from `from_minute` on and before `until_minute`, in buckets of `bucket_minutes`, oldest
    /// first. Buckets in which no server has counted are left out.
    async fn activity(
        &self,
        from_minute: i64,
        until_minute: i64,
        bucket_minutes: i64,
    ) -> Result<Vec<ActivityBucket>, JournalError>;
}

/// The statement that writes one minute: its number, the server, and the counters. `greatest` is the name of the function
/// that returns the larger of two numbers.
pub(super) fn keep_sql(greatest: &str) -> String {
    let mut sql = format!(
        "INSERT INTO activity (minute, server, {}) VALUES ($1, $2",
        COUNTERS.join(", ")
    );
    for place in 0..COUNTERS.len() {
        let _ = write!(sql, ", ${}", place + 3);
    }
    sql.push_str(") ON CONFLICT (minute, server) DO UPDATE SET ");
    let raised = COUNTERS
        .map(|counter| format!("{counter} = {greatest}(activity.{counter}, excluded.{counter})"));
    sql.push_str(&raised.join(", "));
    sql
}

/// The statement that reads buckets: from and before which minute, and of how many minutes a bucket is. `integer` is the
/// type of the sums.
pub(super) fn read_sql(integer: &str) -> String {
    let sums = COUNTERS.map(|counter| format!("CAST(sum({counter}) AS {integer})"));
    format!(
        "SELECT minute - minute % $3, count(DISTINCT minute), {} FROM activity
         WHERE minute >= $1 AND minute < $2 GROUP BY 1",
        sums.join(", ")
    )
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
    /// Reads the rows of [`read_sql`].
    pub(super) fn activity(rows: &'row [R]) -> Result<Vec<ActivityBucket>, JournalError> {
        let read = |row| {
            let mut fields = Self::of(row);
            let from_minute = fields.take()?;
            let counted_minutes = fields.take()?;
            let mut values = [0; ActivityCounts::LENGTH];
            for value in &mut values {
                *value = u64::try_from(fields.take::<i64>()?).unwrap_or(0);
            }
            Ok(ActivityBucket {
                from_minute,
                counted_minutes,
                counts: ActivityCounts::from_values(values),
            })
        };
        let buckets: Result<Vec<_>, JournalError> = rows.iter().map(read).collect();
        let mut buckets = buckets?;
        buckets.sort_unstable_by_key(|bucket| bucket.from_minute);
        Ok(buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::activity::LATENESS_BOUNDS_MS;
    use crate::domain::attempt::Outcome;

    #[test]
    fn the_columns_are_in_the_order_of_the_counters() {
        let outcomes = Outcome::ALL
            .iter()
            .map(|outcome| outcome.as_str().to_string());
        let latenesses = LATENESS_BOUNDS_MS
            .iter()
            .map(|bound| format!("late_{bound}"));
        let expected: Vec<String> = outcomes
            .chain(["dead".to_string()])
            .chain(latenesses)
            .collect();
        assert_eq!(COUNTERS.to_vec(), expected);
    }
}
