//! Which tables are partitioned, and what is needed of a partition that is about to be dropped.
//!
//! Tables whose rows become old together are partitioned alike: their partitions are made and dropped in the same transactions.

use super::error::PostgresFailure;
use super::time_partition::{Owner, RowRange, TimePartition, owner, partitions};
use crate::journal::pruning::{PAYLOADS_PRUNED, RECORDS_PRUNED};
use crate::journal::sql_values::limit_of;
use crate::journal::{Cursor, PartitionedTables};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use std::collections::BTreeMap;

/// The part of a statement that says whether a new row belongs to the kept ones: unless its time has a partition. The name is that
/// of the range of live rows in `meta`. Whoever writes there has locked the table before this is read: see
/// [`super::partitions`].
macro_rules! belongs_to_kept {
    ($row:literal, $live:literal) => {
        concat!(
            "NOT (",
            $row,
            " >= COALESCE((SELECT CAST(split_part(value, '/', 1) AS BIGINT) FROM meta WHERE name = 'kept:",
            $live,
            "'), 0) AND ",
            $row,
            " < COALESCE((SELECT CAST(split_part(value, '/', 2) AS BIGINT) FROM meta WHERE name = 'kept:",
            $live,
            "'), 0))"
        )
    };
}
pub(super) use belongs_to_kept;

/// A partitioned table.
pub(super) struct PartitionedTable {
    pub(super) name: &'static str,
    /// The columns of the primary key of each partition. There is none over all partitions: it would have to contain both
    /// columns by which the table is divided.
    pub(super) primary_key: &'static str,
}

const BODIES: [PartitionedTable; 1] = [PartitionedTable {
    name: "payloads",
    primary_key: "notification",
}];

/// In the order in which the statement that records locks their partitions: PostgreSQL executes the last part of it first.
const HISTORY: [PartitionedTable; 2] = [
    PartitionedTable {
        name: "transitions",
        primary_key: "notification, row_id",
    },
    PartitionedTable {
        name: "attempts",
        primary_key: "notification, series, number, started_ms, outcome",
    },
];

/// How much is moved in one step: bytes of bodies, or rows of the history; or what one notification has.
const BYTES_PER_STEP: i64 = 16 << 20;
const ROWS_PER_STEP: i64 = 10_000;

impl PartitionedTables {
    /// The tables.
    pub(super) const fn tables(self) -> &'static [PartitionedTable] {
        match self {
            Self::Bodies => &BODIES,
            Self::History => &HISTORY,
        }
    }

    /// The name of the position of pruning.
    pub(super) const fn pruned(self) -> &'static str {
        match self {
            Self::Bodies => PAYLOADS_PRUNED,
            Self::History => RECORDS_PRUNED,
        }
    }

    /// The name of the range of live rows: from which row number until which one rows are put into the partition of their time.
    /// Both only ever grow. The statements that write there read this value in `meta`.
    pub(super) const fn live(self) -> &'static str {
        match self {
            Self::Bodies => "payloads_live",
            Self::History => "history_live",
        }
    }

    /// The name of the row before which all transactions have seen that partitions are going.
    pub(super) const fn seen(self) -> &'static str {
        match self {
            Self::Bodies => "payloads_seen",
            Self::History => "history_seen",
        }
    }

    /// The name of the range of rows of which what is needed was moved.
    pub(super) const fn moved(self) -> &'static str {
        match self {
            Self::Bodies => "payloads_moved",
            Self::History => "history_moved",
        }
    }

    /// Who owns the tables, in their order; `None` if the user of this connection may not make or drop partitions of all of them.
    pub(super) async fn owners(
        self,
        connection: &mut PgConnection,
    ) -> Result<Option<Vec<Owner>>, PostgresFailure> {
        let mut owners = Vec::new();
        for table in self.tables() {
            match owner(connection, table.name).await? {
                Some(owner) => owners.push(owner),
                None => return Ok(None),
            }
        }
        Ok(Some(owners))
    }

    /// The partitions that are there, oldest first, each with the tables that have it: by hand, it may have been removed from one.
    pub(super) async fn partitions(
        self,
        connection: &mut PgConnection,
    ) -> Result<BTreeMap<TimePartition, Vec<&'static str>>, PostgresFailure> {
        let mut there: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for table in self.tables() {
            for partition in partitions(connection, table.name).await? {
                there.entry(partition).or_default().push(table.name);
            }
        }
        Ok(there)
    }

    /// The next notifications of a range of rows that have a status, at most `limit`, in the order of their rows, and whether
    /// each of them is needed. Pruning has come to `pruned`.
    pub(super) async fn next_notifications(
        self,
        connection: &mut PgConnection,
        range: RowRange,
        pruned: Cursor,
        limit: usize,
    ) -> Result<Vec<(i64, bool)>, PostgresFailure> {
        let is_needed = match self {
            // Of what is pending, of dead letters, and of what pruning will find.
            Self::Bodies => "COALESCE(state = 'dead' OR (ended_ms, notification) > ($3, $4), TRUE)",
            // Of every notification that was not deleted.
            Self::History => "TRUE OR (ended_ms, notification) > ($3, $4)",
        };
        let page = format!(
            "SELECT notification, {is_needed} FROM statuses
             WHERE notification >= $1 AND notification < $2
             ORDER BY notification LIMIT $5"
        );
        let page = sqlx::query_as(AssertSqlSafe(page))
            .bind(range.from)
            .bind(range.until)
            .bind(pruned.at_ms)
            .bind(pruned.row)
            .bind(limit_of(limit));
        Ok(page.fetch_all(connection).await?)
    }

    /// Of these notifications, in the order of their rows, those whose rows of a range are moved in one step, and whether these are
    /// not all.
    pub(super) async fn fitting_one_step(
        self,
        connection: &mut PgConnection,
        needed: Vec<i64>,
        range: RowRange,
    ) -> Result<(Vec<i64>, bool), PostgresFailure> {
        if needed.is_empty() {
            return Ok((needed, false));
        }
        let (sizes, most) = match self {
            Self::Bodies => (
                "SELECT notification, octet_length(body)::BIGINT FROM payloads
                 WHERE notification = ANY($1) AND NOT kept AND notification >= $2 AND notification < $3",
                BYTES_PER_STEP,
            ),
            Self::History => (
                "SELECT notification, count(*) FROM (
                    SELECT notification FROM attempts
                    WHERE notification = ANY($1) AND NOT kept AND notification >= $2 AND notification < $3
                    UNION ALL
                    SELECT notification FROM transitions
                    WHERE notification = ANY($1) AND NOT kept AND notification >= $2 AND notification < $3
                 ) AS found
                 GROUP BY notification",
                ROWS_PER_STEP,
            ),
        };
        let mut sizes: Vec<(i64, i64)> = sqlx::query_as(sizes)
            .bind(needed)
            .bind(range.from)
            .bind(range.until)
            .fetch_all(connection)
            .await?;
        sizes.sort_unstable();
        let mut sum = 0;
        let fit = sizes.iter().take_while(|(_, size)| {
            let is_first = sum == 0;
            sum += size.max(&1);
            is_first || sum <= most
        });
        let fit: Vec<i64> = fit.map(|(row, _)| *row).collect();
        let is_cut = fit.len() < sizes.len();
        Ok((fit, is_cut))
    }

    /// Moves the rows of these notifications in a range to the kept ones.
    pub(super) async fn move_to_kept(
        self,
        connection: &mut PgConnection,
        rows: &[i64],
        range: RowRange,
    ) -> Result<(), PostgresFailure> {
        if rows.is_empty() {
            return Ok(());
        }
        for table in self.tables() {
            let keep = format!(
                "UPDATE {} SET kept = TRUE
                 WHERE notification = ANY($1) AND NOT kept AND notification >= $2 AND notification < $3",
                table.name
            );
            let keep = sqlx::query(AssertSqlSafe(keep)).bind(rows);
            keep.bind(range.from)
                .bind(range.until)
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }
}
