//! Partitions by time: bodies, attempts and transitions are forgotten by dropping the partition of their time.
//!
//! ```text
//! payloads ─┬─ payloads_kept                       what is deleted one by one
//!           └─ payloads_live ─┬─ payloads_FROM_UNTIL   registered from one instant until another, in milliseconds
//!                             └─ payloads_rest         empty, unless somebody has removed a partition by hand
//! ```
//!
//! `attempts` and `transitions` likewise; these two are partitioned alike (see `PartitionedTables`).
//!
//! Partitions are made ahead, each for about a sixteenth of the time for which their content is kept. A value in `meta`
//! ([`PartitionedTables::live`]) says of which row numbers the content is in partitions. It is read in the statements that insert, which put
//! all others into the table of the kept ones. So none is refused, and no partition is made for a time of which something is elsewhere.
//! Which partition a row belongs to is decided by the instant of registration of its notification, which is a part of the row number.
//!
//! When pruning has passed everything that ended by the end of a partition, the partition is emptied and dropped, in steps of
//! which each is one transaction, so that another server can go on after any of them:
//!
//! 1. *Mark*: the live rows begin after it. From then on what is inserted for a notification of that time is put to the kept ones, and
//!    a change that needs a body moves it there ([`super::change`]).
//! 2. *Wait for the others*: a lock that no transaction permits that has written to these tables. When it is granted, none is left that
//!    has not seen the mark. Whatever writes there takes its lock before it reads the mark.
//! 3. *Move*: what is still needed goes to the kept ones, where pruning finds it later, one by one. Of bodies that is what is pending, dead
//!    letters, and what has ended after the place that pruning has come to; of the history, of every notification that was
//!    not deleted.
//! 4. *Drop.*
//!
//! The second and the last step, and making a partition, need locks for which other transactions wait. They wait for a moment only
//! ([`at_a_quiet_moment`]); if it is not enough, they are tried again at the next run.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::meta::{recall, recall_locked, remember};
use super::partition_drop::{forget, mark};
use super::time_partition::{
    Owner, RowRange, TimePartition, at_a_quiet_moment, first_row_of, live_of, readers,
};
use crate::journal::{PartitionWork, PartitionedTables, Pruned};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// What is kept for a shorter time than this has no partitions: it is deleted one by one.
const SHORTEST_KEPT_MS: i64 = 16 * HOUR_MS;
/// Into about how many partitions the time is divided for which something is kept.
const PARTS: i64 = 16;
/// Later instants are in no row number: see [`first_row_of`].
const LAST_INSTANT_MS: i64 = i64::MAX >> 21;
const HOUR_MS: i64 = 3_600_000;
/// How many spans ahead partitions are made. What is registered later has none.
const SPANS_AHEAD: i64 = 2;
/// No more partitions are made if there are so many: after a clock that was far ahead, a time that was made much longer, or years
/// without a server. Each one costs
/// every statement that reads such a table a little, and a lock.
const MOST_PARTITIONS: usize = 32;

/// The partition that must be made now, if one must, of what is kept for so long (`None`: for ever). It begins where the live rows
/// end.
fn to_make(live: RowRange, now_ms: i64, kept_ms: Option<i64>) -> Option<TimePartition> {
    let kept_ms = kept_ms.filter(|kept_ms| *kept_ms >= SHORTEST_KEPT_MS)?;
    let hours = kept_ms.div_euclid(PARTS).checked_add(HOUR_MS - 1)? / HOUR_MS;
    let span_ms = hours * HOUR_MS;
    let from_ms = match live {
        RowRange { until: 0, .. } => now_ms.div_euclid(HOUR_MS) * HOUR_MS,
        RowRange { until, .. } => until >> 21,
    };
    if from_ms >= now_ms.checked_add(SPANS_AHEAD * span_ms)? {
        return None;
    }
    let until_ms = from_ms.checked_add(span_ms)?;
    (until_ms <= LAST_INSTANT_MS).then_some(TimePartition { from_ms, until_ms })
}

/// Does the next step for tables that are partitioned alike. See [`crate::journal::JournalMaintenance::tend_partitions`].
pub(super) struct TendPartitions<'call>(pub(super) &'call PartitionWork);

#[async_trait]
impl PostgresCall for TendPartitions<'_> {
    type Reply = Pruned;

    async fn run(&self, connection: &mut PgConnection) -> Result<Pruned, PostgresFailure> {
        let Self(work) = self;
        let tables = work.tables;
        let Some(owners) = tables.owners(connection).await? else {
            return Ok(Pruned::default());
        };
        let there = tables.partitions(connection).await?;
        let live = RowRange::read(recall(connection, tables.live()).await?.as_deref())?;
        let new = to_make(live, work.now_ms, work.kept_ms);
        let made = match new.filter(|_| there.len() < MOST_PARTITIONS) {
            Some(new) => make(connection, tables, new, &owners).await,
            None => Ok(false),
        };
        if matches!(made, Ok(true)) {
            return Ok(Pruned {
                more: true,
                ..Pruned::default()
            });
        }
        let (payloads, more) = match there.first_key_value() {
            None => (0, false),
            Some((oldest, _)) if live.from < first_row_of(oldest.until_ms) => {
                (0, mark(connection, tables, &there, work).await?)
            }
            Some((oldest, _)) => forget(connection, tables, *oldest, live.from, &owners).await?,
        };
        // What cannot be made must not keep what is old. It is told when there is nothing more to drop.
        if !more {
            made?;
        }
        Ok(Pruned {
            payloads,
            records: 0,
            more,
        })
    }
}

/// Makes a partition of each of these tables, in which what belongs to its time is put from then on. Returns `false` if others are
/// in the way.
async fn make(
    connection: &mut PgConnection,
    tables: PartitionedTables,
    new: TimePartition,
    owners: &[Owner],
) -> Result<bool, PostgresFailure> {
    let (from, until) = (first_row_of(new.from_ms), first_row_of(new.until_ms));
    let mut make = String::new();
    let mut transaction = connection.begin().await?;
    for (table, Owner { schema, role }) in tables.tables().iter().zip(owners) {
        let (name, live) = (new.name_in(table.name), live_of(table.name));
        // What a user makes is owned by that user, even if the tables belong to a group of users.
        make += &format!(
            "CREATE TABLE {schema}.{name} PARTITION OF {schema}.{live} (PRIMARY KEY ({}))
             FOR VALUES FROM ({from}) TO ({until});
             ALTER TABLE {schema}.{name} OWNER TO {role};",
            table.primary_key
        );
        for reader in readers(&mut transaction, table.name).await? {
            make += &format!(
                "GRANT SELECT ON {schema}.{name}, {schema}.{live}, {schema}.{}_rest TO {reader};",
                table.name
            );
        }
    }
    let live = RowRange::read(
        recall_locked(&mut transaction, tables.live())
            .await?
            .as_deref(),
    )?;
    let follows = live.until == 0 || live.until == from;
    if !follows || !at_a_quiet_moment(&mut transaction, make).await? {
        transaction.rollback().await?;
        return Ok(false);
    }
    let live = match live {
        RowRange { until: 0, .. } => RowRange { from, until },
        RowRange { from, .. } => RowRange { from, until },
    };
    remember(&mut transaction, tables.live(), &live.to_string()).await?;
    transaction.commit().await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * HOUR_MS;

    #[test]
    fn partitions_are_made_ahead() {
        fn check(
            live_until_ms: i64,
            now_ms: i64,
            kept_ms: Option<i64>,
            expected: Option<(i64, i64)>,
        ) {
            let until = first_row_of(live_until_ms);
            let made = to_make(RowRange { from: 0, until }, now_ms, kept_ms);
            let made = made.map(|one| (one.from_ms, one.until_ms));
            assert_eq!(made, expected, "{live_until_ms} {now_ms} {kept_ms:?}");
        }
        let kept = Some(16 * DAY_MS);
        check(0, 0, None, None);
        check(0, 0, Some(SHORTEST_KEPT_MS - 1), None);
        check(0, 0, Some(SHORTEST_KEPT_MS), Some((0, HOUR_MS)));
        check(0, 0, Some(SHORTEST_KEPT_MS + PARTS), Some((0, 2 * HOUR_MS)));
        // The first one has begun already: what was registered since then is in `payloads_kept`.
        check(0, 2 * HOUR_MS - 1, kept, Some((HOUR_MS, HOUR_MS + DAY_MS)));
        // The next one follows at once, as long as not enough are there.
        check(DAY_MS, 1, kept, Some((DAY_MS, 2 * DAY_MS)));
        check(2 * DAY_MS, 0, kept, None);
        check(2 * DAY_MS, 1, kept, Some((2 * DAY_MS, 3 * DAY_MS)));
        // No server was there for long, or a clock was ahead.
        check(DAY_MS, 9 * DAY_MS, kept, Some((DAY_MS, 2 * DAY_MS)));
        check(9 * DAY_MS, DAY_MS, kept, None);
        // The time for which bodies are kept was changed.
        check(DAY_MS, 1, Some(32 * DAY_MS), Some((DAY_MS, 3 * DAY_MS)));
        // Ten years, of which no more partitions are made than of ten days.
        check(
            DAY_MS,
            1,
            Some(3_650 * DAY_MS),
            Some((DAY_MS, DAY_MS + 5_475 * HOUR_MS)),
        );
        check(DAY_MS, 1, Some(i64::MAX), None);
        check(DAY_MS, i64::MAX, kept, None);
    }
}
