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
//! ([`LIMITS`]); if it is not enough, they are tried again at the next run.

use super::connections::PostgresCall;
use super::error::{
    CHECK_VIOLATION, DUPLICATE_TABLE, INVALID_OBJECT_DEFINITION, LOCK_NOT_AVAILABLE,
    PostgresFailure, QUERY_CANCELED, code,
};
use super::meta::{recall, recall_locked, remember};
use crate::journal::pruning::{PAYLOADS_PRUNED, read_position};
use crate::journal::sql_values::limit_of;
use crate::journal::{JournalError, PartitionWork, Pruned};
use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use std::fmt;

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
/// How long a step waits for each lock, how long each of its statements may take, and how long PostgreSQL waits for the commit if
/// this server stands still. Transactions that begin meanwhile wait for it.
const LIMITS: &str = "
    SET LOCAL lock_timeout = 250;
    SET LOCAL statement_timeout = 500;
    SET LOCAL idle_in_transaction_session_timeout = 500";
/// How many notifications are looked at in one step, and how many bytes of bodies are moved, or one body.
const PER_STEP: usize = 2_000;
const BYTES_PER_STEP: i64 = 16 << 20;

/// From which row number until which one bodies are put into the partition of their time. Both only ever grow. The statements that
/// register and that send again read this value in `meta`.
const LIVE: &str = "payloads_live";
/// Before which row all transactions have seen that bodies are going.
const SEEN: &str = "payloads_seen";
/// From which row until which one what is needed was moved.
const MOVED: &str = "payloads_moved";

/// The row numbers of what was registered at an instant begin with this one. See the table `notifications`.
const fn first_row_of(at_ms: i64) -> i64 {
    at_ms << 21
}

/// Row numbers from one until another. Stored in `meta` as `FROM/UNTIL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowRange {
    from: i64,
    until: i64,
}

impl RowRange {
    const NOTHING: Self = Self { from: 0, until: 0 };

    fn read(text: Option<&str>) -> Result<Self, JournalError> {
        let Some(text) = text else {
            return Ok(Self::NOTHING);
        };
        let read = || {
            let (from, until) = text.split_once('/')?;
            Some(Self {
                from: from.parse().ok()?,
                until: until.parse().ok()?,
            })
        };
        read()
            .ok_or_else(|| JournalError::Corrupt(format!("`{text}` is not a range of row numbers")))
    }

    /// Whether all rows of a partition are in it, and all rows until the given one. A partition that was detached by hand and is
    /// attached again is not in what was moved meanwhile.
    const fn has_all(self, partition: PayloadPartition, until: i64) -> bool {
        self.from <= first_row_of(partition.from_ms) && self.until >= until
    }
}

/// As it is stored.
impl fmt::Display for RowRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.from, self.until)
    }
}

/// A partition for what is registered from one instant until another, which are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PayloadPartition {
    from_ms: i64,
    until_ms: i64,
}

impl PayloadPartition {
    fn from_name(name: &str) -> Option<Self> {
        let (from, until) = name.strip_prefix("payloads_")?.split_once('_')?;
        let partition = Self {
            from_ms: from.parse().ok()?,
            until_ms: until.parse().ok()?,
        };
        (partition.to_string() == name).then_some(partition)
    }

    /// Whether the body of this notification is in it, unless it is in `payloads_kept`.
    pub(super) fn has(self, row: i64) -> bool {
        (first_row_of(self.from_ms)..first_row_of(self.until_ms)).contains(&row)
    }
}

/// Its name as a table.
impl fmt::Display for PayloadPartition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "payloads_{}_{}", self.from_ms, self.until_ms)
    }
}

/// What one must know to make and to drop partitions.
pub(super) struct Owner {
    /// The schema of the tables, as SQL names it.
    schema: String,
    /// The user that owns the tables, as SQL names it.
    role: String,
}

/// Which user owns the tables; `None` if the user of this connection may not make or drop partitions. Asked at each step, so that
/// a change of rights needs no restart.
pub(super) async fn owner(connection: &mut PgConnection) -> Result<Option<Owner>, PostgresFailure> {
    let found: Option<(String, String)> = sqlx::query_as(
        "SELECT quote_ident(n.nspname), quote_ident(pg_get_userbyid(c.relowner))
         FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.oid = 'payloads_live'::regclass
            AND pg_has_role(c.relowner, 'USAGE')
            AND has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(c.relowner, n.oid, 'CREATE')",
    )
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(schema, role)| Owner { schema, role }))
}

/// All partitions that are there, oldest first.
pub(super) async fn partitions(
    connection: &mut PgConnection,
) -> Result<Vec<PayloadPartition>, PostgresFailure> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::TEXT FROM pg_inherits AS i
         JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS p ON p.oid = i.inhparent
         WHERE i.inhparent = 'payloads_live'::regclass AND c.relnamespace = p.relnamespace",
    )
    .fetch_all(connection)
    .await?;
    let mut found: Vec<PayloadPartition> = (names.iter())
        .filter_map(|name| PayloadPartition::from_name(name))
        .collect();
    found.sort_unstable();
    Ok(found)
}

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
            let more = true;
            return Ok(Pruned {
                more,
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
    let make = format!(
        "CREATE TABLE {schema}.{new} PARTITION OF {schema}.payloads_live (PRIMARY KEY (notification))
         FOR VALUES FROM ({from}) TO ({until});
         ALTER TABLE {schema}.{new} OWNER TO {role}"
    );
    let mut transaction = connection.begin().await?;
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

/// Marks the partitions of which all is old enough: the live rows begin after them. Returns whether there are any.
async fn mark(
    connection: &mut PgConnection,
    there: &[PayloadPartition],
    work: &PartitionWork,
) -> Result<bool, PostgresFailure> {
    let Some(kept_ms) = work.payloads_kept_ms else {
        return Ok(false);
    };
    let before_ms = work.now_ms.saturating_sub(kept_ms);
    let old = there.iter().take_while(|one| one.until_ms <= before_ms);
    let mut going = None;
    for partition in old {
        if !has_passed(connection, partition.until_ms).await? {
            break;
        }
        going = Some(first_row_of(partition.until_ms));
    }
    let Some(going) = going else {
        return Ok(false);
    };
    let mut transaction = connection.begin().await?;
    let live = RowRange::read(recall_locked(&mut transaction, LIVE).await?.as_deref())?;
    let from = live.from.max(going);
    let live = RowRange { from, ..live };
    remember(&mut transaction, LIVE, &live.to_string()).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Whether pruning has passed all that ended before an instant.
async fn has_passed(
    connection: &mut PgConnection,
    before_ms: i64,
) -> Result<bool, PostgresFailure> {
    let Some(cursor) = recall(connection, PAYLOADS_PRUNED).await? else {
        return Ok(false);
    };
    let cursor = read_position(&cursor)?;
    let left: bool = sqlx::query_scalar(
        "SELECT EXISTS (
            SELECT 1 FROM statuses
            WHERE ended_ms IS NOT NULL AND (ended_ms, notification) > ($1, $2) AND ended_ms < $3
        )",
    )
    .bind(cursor.at_ms)
    .bind(cursor.row)
    .bind(before_ms)
    .fetch_one(connection)
    .await?;
    Ok(!left)
}

/// Does the next step of dropping a partition, of which all rows come before the live ones. Returns how many bodies it found that
/// are not needed, and whether it got on.
async fn forget(
    connection: &mut PgConnection,
    oldest: PayloadPartition,
    live_from: i64,
    Owner { schema, .. }: &Owner,
) -> Result<(u64, bool), PostgresFailure> {
    if number(connection, SEEN).await? < live_from {
        return Ok((0, wait_for_others(connection, live_from).await?));
    }
    let moved = RowRange::read(recall(connection, MOVED).await?.as_deref())?;
    if !moved.has_all(oldest, live_from) {
        return move_needed(connection, oldest, live_from).await;
    }
    let mut transaction = connection.begin().await?;
    // Nobody can change it before the partition is gone.
    let live = RowRange::read(recall_locked(&mut transaction, LIVE).await?.as_deref())?;
    let drop = format!("DROP TABLE IF EXISTS {schema}.{oldest}");
    if live.from != live_from || !at_a_quiet_moment(&mut transaction, drop).await? {
        transaction.rollback().await?;
        return Ok((0, false));
    }
    transaction.commit().await?;
    tracing::info!(partition = %oldest, "a partition of old bodies was dropped from the journal");
    Ok((0, true))
}

/// Waits until no transaction is left that writes and has not seen the mark. Returns whether it was so in time.
async fn wait_for_others(
    connection: &mut PgConnection,
    live_from: i64,
) -> Result<bool, PostgresFailure> {
    let mut transaction = connection.begin().await?;
    let lock = "LOCK TABLE ONLY payloads IN SHARE MODE".into();
    let was_granted = at_a_quiet_moment(&mut transaction, lock).await?;
    transaction.rollback().await?;
    if was_granted {
        remember(connection, SEEN, &live_from.to_string()).await?;
    }
    Ok(was_granted)
}

/// Moves the bodies that are still needed, of the next notifications before this row.
async fn move_needed(
    connection: &mut PgConnection,
    oldest: PayloadPartition,
    until_row: i64,
) -> Result<(u64, bool), PostgresFailure> {
    let mut transaction = connection.begin().await?;
    // Pruning, which another server may do at this moment, waits: it must not pass what is moved now.
    let Some(cursor) = recall_locked(&mut transaction, PAYLOADS_PRUNED).await? else {
        transaction.rollback().await?;
        return Ok((0, false));
    };
    let cursor = read_position(&cursor)?;
    let moved = RowRange::read(recall(&mut transaction, MOVED).await?.as_deref())?;
    if moved.has_all(oldest, until_row) {
        transaction.rollback().await?;
        return Ok((0, true));
    }
    let first_row = first_row_of(oldest.from_ms);
    let (first_row, from_row) = match (moved.from..=moved.until).contains(&first_row) {
        true => (moved.from, moved.until),
        false => (first_row, first_row),
    };
    let page: Vec<(i64, bool)> = sqlx::query_as(
        "SELECT notification, COALESCE(
            state = 'dead' OR (ended_ms, notification) > ($3, $4), TRUE
         )
         FROM statuses WHERE notification >= $1 AND notification < $2
         ORDER BY notification LIMIT $5",
    )
    .bind(from_row)
    .bind(until_row)
    .bind(cursor.at_ms)
    .bind(cursor.row)
    .bind(limit_of(PER_STEP))
    .fetch_all(&mut *transaction)
    .await?;
    let needed: Vec<i64> = (page.iter())
        .filter(|(_, is_needed)| *is_needed)
        .map(|(row, _)| *row)
        .collect();
    let (to_move, is_cut) = that_fit(&mut transaction, needed, from_row, until_row).await?;
    let next_row = match (is_cut, to_move.last(), page.last()) {
        (true, Some(last), _) => last + 1,
        (false, _, Some((last, _))) if page.len() >= PER_STEP => last + 1,
        _ => until_row,
    };
    sqlx::query(
        "UPDATE payloads SET kept = TRUE
         WHERE notification = ANY($1) AND NOT kept AND notification >= $2 AND notification < $3",
    )
    .bind(to_move)
    .bind(from_row)
    .bind(until_row)
    .execute(&mut *transaction)
    .await?;
    let moved = RowRange {
        from: first_row,
        until: next_row,
    };
    remember(&mut transaction, MOVED, &moved.to_string()).await?;
    transaction.commit().await?;
    let not_needed = (page.iter()).filter(|(row, is_needed)| !is_needed && *row < next_row);
    Ok((not_needed.count() as u64, true))
}

/// Of these bodies, in the order of their rows, those that are moved in one step; and whether these are not all.
async fn that_fit(
    connection: &mut PgConnection,
    needed: Vec<i64>,
    from_row: i64,
    until_row: i64,
) -> Result<(Vec<i64>, bool), PostgresFailure> {
    if needed.is_empty() {
        return Ok((needed, false));
    }
    let mut sizes: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT notification, octet_length(body)::BIGINT FROM payloads
         WHERE notification = ANY($1) AND NOT kept AND notification >= $2 AND notification < $3",
    )
    .bind(needed)
    .bind(from_row)
    .bind(until_row)
    .fetch_all(connection)
    .await?;
    sizes.sort_unstable();
    let mut bytes = 0;
    let fit = sizes.iter().take_while(|(_, size)| {
        let is_first = bytes == 0;
        bytes += size.max(&1);
        is_first || bytes <= BYTES_PER_STEP
    });
    let fit: Vec<i64> = fit.map(|(row, _)| *row).collect();
    let is_cut = fit.len() < sizes.len();
    Ok((fit, is_cut))
}

/// Executes statements that others wait for, unless others are in the way for long. Returns whether they were executed. If not,
/// the transaction must be rolled back.
async fn at_a_quiet_moment(
    transaction: &mut PgConnection,
    statements: String,
) -> Result<bool, PostgresFailure> {
    transaction.execute(LIMITS).await?;
    match sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(transaction)
        .await
    {
        Ok(_) => Ok(true),
        // Others were in the way; or another server made a partition for that time at this moment, perhaps a longer one; or
        // `payloads_rest` has bodies of that time, because a partition was removed by hand.
        Err(error) => match code(&error).as_deref() {
            Some(
                LOCK_NOT_AVAILABLE
                | QUERY_CANCELED
                | DUPLICATE_TABLE
                | INVALID_OBJECT_DEFINITION
                | CHECK_VIOLATION,
            ) => {
                tracing::info!(%error, "a partition of bodies cannot be made or dropped at this moment; it is tried again");
                Ok(false)
            }
            _ => Err(error.into()),
        },
    }
}

/// The number that is stored under a name; 0 if there is none.
async fn number(connection: &mut PgConnection, name: &str) -> Result<i64, PostgresFailure> {
    let Some(text) = recall(connection, name).await? else {
        return Ok(0);
    };
    let read = text.parse().map_err(|_| {
        JournalError::Corrupt(format!(
            "`{text}` is not a valid number under the name {name}"
        ))
    });
    Ok(read?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * HOUR_MS;

    #[test]
    fn its_name_is_its_time() {
        fn check(name: &str, expected: Option<(i64, i64)>) {
            let found = PayloadPartition::from_name(name);
            assert_eq!(
                found.map(|one| (one.from_ms, one.until_ms)),
                expected,
                "{name}"
            );
            if let Some(found) = found {
                assert_eq!(found.to_string(), name);
            }
        }
        check("payloads_0_3600000", Some((0, HOUR_MS)));
        check("payloads_rest", None);
        check("payloads_1", None);
        check("payloads_01_2", None);
        check("payloads_1_x", None);
        check("others_1_2", None);
    }

    #[test]
    fn the_live_rows_are_read_as_they_are_written() {
        let live = RowRange { from: 1, until: 2 };
        assert_eq!(
            RowRange::read(Some(&live.to_string())).expect("valid"),
            live
        );
        assert_eq!(RowRange::read(None).expect("valid"), RowRange::NOTHING);
        for damaged in ["", "1", "1/x", "1/2/3"] {
            assert!(RowRange::read(Some(damaged)).is_err(), "{damaged}");
        }
    }

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
