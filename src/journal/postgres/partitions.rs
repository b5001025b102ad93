//! The partitions of `payloads`: bodies are forgotten by dropping the partition of their time.
//!
//! ```text
//! payloads ─┬─ payloads_kept                       what is deleted one by one
//!           └─ payloads_live ─┬─ payloads_FROM_UNTIL   registered from one instant until another, in milliseconds
//!                             └─ payloads_rest         empty, unless somebody has removed a partition by hand
//! ```
//!
//! Partitions are made ahead, each for about a sixteenth of the time for which bodies are kept. The value [`LIVE`] says of which row
//! numbers the bodies are in partitions: [`super::register`] reads it in the statement that registers, and puts all others into
//! `payloads_kept`. So none is refused, and no partition is made for a time of which a body is elsewhere.
//!
//! When pruning has passed everything that ended by the end of a partition, the partition is emptied and dropped, in steps of
//! which each is one transaction, so that another server can go on after any of them:
//!
//! 1. *Mark*: the live rows begin after it. From then on a change that needs a body moves it to `payloads_kept`
//!    ([`super::change`]), and what is registered with an instant of that time is put there.
//! 2. *Wait for the others*: a lock that no transaction permits that has written to `payloads`. When it is granted, none is left that
//!    has not seen the mark. Whatever writes there takes its lock before it reads the mark.
//! 3. *Move*: bodies that are still needed go to `payloads_kept`: of what is pending, of dead letters, and of what has ended
//!    after the place that pruning has come to. Pruning finds these later, one by one.
//! 4. *Drop.*
//!
//! The second and the last step, and making a partition, need locks for which other transactions wait. They wait for a moment only
//! ([`at_a_quiet_moment`]); if it is not enough, they are tried again at the next run.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::meta::{recall, recall_locked, remember};
use super::partition_drop::{forget, mark};
use super::payload_partition::{
    LIVE, Owner, PayloadPartition, RowRange, at_a_quiet_moment, first_row_of, owner, partitions,
    readers,
};
use crate::journal::{PartitionWork, Pruned};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// Bodies that are kept for a shorter time than this have no partitions: they are deleted one by one.
const SHORTEST_KEPT_MS: i64 = 16 * HOUR_MS;
/// Into about how many partitions the time is divided for which bodies are kept.
const PARTS: i64 = 16;
const LONGEST_SPAN_MS: i64 = 30 * 24 * HOUR_MS;
const HOUR_MS: i64 = 3_600_000;
/// How many spans ahead partitions are made. What is registered later has none.
const SPANS_AHEAD: i64 = 2;
/// No more partitions are made if there are so many: after a clock that was far ahead, or years without a server. Each one costs
/// every statement that reads bodies a little, and a lock.
const MOST_PARTITIONS: usize = 32;

/// The partition that must be made now, if one must. It begins where the live rows end.
fn to_make(live: RowRange, work: &PartitionWork) -> Option<PayloadPartition> {
    let kept_ms = work
        .payloads_kept_ms
        .filter(|kept_ms| *kept_ms >= SHORTEST_KEPT_MS)?;
    let hours = kept_ms.div_euclid(PARTS).checked_add(HOUR_MS - 1)? / HOUR_MS;
    let span_ms = (hours * HOUR_MS).min(LONGEST_SPAN_MS);
    let from_ms = match live {
        RowRange::NOTHING => work.now_ms.div_euclid(HOUR_MS) * HOUR_MS,
        RowRange { until, .. } => until >> 21,
    };
    if from_ms >= work.now_ms.checked_add(SPANS_AHEAD * span_ms)? {
        return None;
    }
    Some(PayloadPartition {
        from_ms,
        until_ms: from_ms.checked_add(span_ms)?,
    })
}

/// See [`crate::journal::JournalMaintenance::tend_partitions`].
pub(super) struct TendPartitions<'call>(pub(super) &'call PartitionWork);

#[async_trait]
impl PostgresCall for TendPartitions<'_> {
    type Reply = Pruned;

    async fn run(&self, connection: &mut PgConnection) -> Result<Pruned, PostgresFailure> {
        let Self(work) = self;
        let Some(owner) = owner(connection).await? else {
            return Ok(Pruned::default());
        };
        let there = partitions(connection).await?;
        let live = RowRange::read(recall(connection, LIVE).await?.as_deref())?;
        let new = to_make(live, work).filter(|_| there.len() < MOST_PARTITIONS);
        let made = match new {
            Some(new) => make(connection, new, &owner).await,
            None => Ok(false),
        };
        if matches!(made, Ok(true)) {
            return Ok(Pruned {
                more: true,
                ..Pruned::default()
            });
        }
        let (payloads, more) = match there.first() {
            None => (0, false),
            Some(oldest) if live.from < first_row_of(oldest.until_ms) => {
                (0, mark(connection, &there, work).await?)
            }
            Some(oldest) => forget(connection, *oldest, live.from, &owner).await?,
        };
        // What cannot be made must not keep what is old.
        made?;
        Ok(Pruned {
            payloads,
            records: 0,
            more,
        })
    }
}

/// Makes a partition, in which the bodies of its time are put from then on. Returns `false` if others are in the way.
async fn make(
    connection: &mut PgConnection,
    new: PayloadPartition,
    Owner { schema, role }: &Owner,
) -> Result<bool, PostgresFailure> {
    let (from, until) = (first_row_of(new.from_ms), first_row_of(new.until_ms));
    // What a user makes is owned by that user, even if the tables belong to a group of users.
    let mut make = format!(
        "CREATE TABLE {schema}.{new} PARTITION OF {schema}.payloads_live (PRIMARY KEY (notification))
         FOR VALUES FROM ({from}) TO ({until});
         ALTER TABLE {schema}.{new} OWNER TO {role};"
    );
    let mut transaction = connection.begin().await?;
    for reader in readers(&mut transaction).await? {
        make += &format!(
            "GRANT SELECT ON {schema}.{new}, {schema}.payloads_live, {schema}.payloads_rest TO {reader};"
        );
    }
    let live = RowRange::read(recall_locked(&mut transaction, LIVE).await?.as_deref())?;
    let follows = live == RowRange::NOTHING || live.until == from;
    if !follows || !at_a_quiet_moment(&mut transaction, make).await? {
        transaction.rollback().await?;
        return Ok(false);
    }
    let live = match live {
        RowRange::NOTHING => RowRange { from, until },
        RowRange { from, .. } => RowRange { from, until },
    };
    remember(&mut transaction, LIVE, &live.to_string()).await?;
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
            let work = PartitionWork {
                now_ms,
                payloads_kept_ms: kept_ms,
            };
            let until = first_row_of(live_until_ms);
            let made = to_make(RowRange { from: 0, until }, &work);
            let made = made.map(|one| (one.from_ms, one.until_ms));
            assert_eq!(made, expected, "{live_until_ms} {work:?}");
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
        let longest = Some((DAY_MS, DAY_MS + LONGEST_SPAN_MS));
        check(DAY_MS, 1, Some(i64::MAX), longest);
        check(DAY_MS, i64::MAX, kept, None);
    }
}
