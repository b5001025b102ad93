//! The partitions of a table as they are in the database, and how they are changed. Which tables have some is in
//! [`super::partitioned`]; what is done with them, and when, in [`super::partitions`].

use super::error::{
    CHECK_VIOLATION, DUPLICATE_TABLE, INVALID_OBJECT_DEFINITION, LOCK_NOT_AVAILABLE,
    PostgresFailure, QUERY_CANCELED, code,
};
use crate::journal::JournalError;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor as _};
use std::fmt;

/// How long a step waits for each lock, how long each of its statements may take, and how long PostgreSQL waits for the commit if
/// this server stands still. Transactions that begin meanwhile wait for it.
const LIMITS: &str = "
    SET LOCAL lock_timeout = 250;
    SET LOCAL statement_timeout = 500;
    SET LOCAL idle_in_transaction_session_timeout = 500";

/// The row numbers of what was registered at an instant begin with this one. See the table `notifications`.
pub(super) const fn first_row_of(at_ms: i64) -> i64 {
    at_ms << 21
}

/// Row numbers from one until another. Stored in `meta` as `FROM/UNTIL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowRange {
    pub(super) from: i64,
    pub(super) until: i64,
}

impl RowRange {
    /// No rows.
    pub(super) const NOTHING: Self = Self { from: 0, until: 0 };

    pub(super) fn read(text: Option<&str>) -> Result<Self, JournalError> {
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
    pub(super) const fn has_all(self, partition: TimePartition, until: i64) -> bool {
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
pub(super) struct TimePartition {
    pub(super) from_ms: i64,
    pub(super) until_ms: i64,
}

impl TimePartition {
    fn from_name(table: &str, name: &str) -> Option<Self> {
        let (from, until) = name
            .strip_prefix(table)?
            .strip_prefix('_')?
            .split_once('_')?;
        let partition = Self {
            from_ms: from.parse().ok()?,
            until_ms: until.parse().ok()?,
        };
        (partition.name_in(table) == name).then_some(partition)
    }

    /// The name of the partition of this table.
    pub(super) fn name_in(self, table: &str) -> String {
        format!("{table}_{self}")
    }

    /// Whether the rows of this notification are in it, unless they were put or moved to the kept ones.
    pub(super) fn has(self, row: i64) -> bool {
        (first_row_of(self.from_ms)..first_row_of(self.until_ms)).contains(&row)
    }
}

/// As at the end of the names of tables.
impl fmt::Display for TimePartition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}_{}", self.from_ms, self.until_ms)
    }
}

/// What one must know to make and to drop partitions.
pub(super) struct Owner {
    /// The schema of the tables, as SQL names it.
    pub(super) schema: String,
    /// The user that owns the tables, as SQL names it.
    pub(super) role: String,
}

/// Which user owns a table; `None` if the user of this connection may not make or drop partitions of it. Asked at each step, so
/// that a change of rights needs no restart.
pub(super) async fn owner(
    connection: &mut PgConnection,
    table: &str,
) -> Result<Option<Owner>, PostgresFailure> {
    let found: Option<(String, String)> = sqlx::query_as(
        "SELECT quote_ident(n.nspname), quote_ident(pg_get_userbyid(c.relowner))
         FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.oid = to_regclass($1)
            AND pg_has_role(c.relowner, 'USAGE')
            AND has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(c.relowner, n.oid, 'CREATE')",
    )
    .bind(live_of(table))
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(schema, role)| Owner { schema, role }))
}

/// Who besides the owner may read a table, as SQL names them. Rights on a table are enough for queries of it, but `pg_dump` reads
/// each partition itself.
pub(super) async fn readers(
    connection: &mut PgConnection,
    table: &str,
) -> Result<Vec<String>, PostgresFailure> {
    let readers = sqlx::query_scalar(
        "SELECT CASE held.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(held.grantee)) END
         FROM pg_class AS c, aclexplode(c.relacl) AS held
         WHERE c.oid = to_regclass($1) AND held.grantee <> c.relowner AND held.privilege_type = 'SELECT'",
    );
    Ok(readers.bind(table).fetch_all(connection).await?)
}

/// The partitioned table in which a table has its partitions of times.
pub(super) fn live_of(table: &str) -> String {
    format!("{table}_live")
}

/// All partitions of a table that are there, oldest first.
pub(super) async fn partitions(
    connection: &mut PgConnection,
    table: &str,
) -> Result<Vec<TimePartition>, PostgresFailure> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::TEXT FROM pg_inherits AS i
         JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS p ON p.oid = i.inhparent
         WHERE i.inhparent = to_regclass($1) AND c.relnamespace = p.relnamespace",
    )
    .bind(live_of(table))
    .fetch_all(connection)
    .await?;
    let mut found: Vec<TimePartition> = (names.iter())
        .filter_map(|name| TimePartition::from_name(table, name))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Executes statements that others wait for, unless others are in the way for long. Returns whether they were executed. If not,
/// the transaction must be rolled back.
pub(super) async fn at_a_quiet_moment(
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
        // the table of the rest has rows of that time, because a partition was removed by hand.
        Err(error) => match code(&error).as_deref() {
            Some(
                LOCK_NOT_AVAILABLE
                | QUERY_CANCELED
                | DUPLICATE_TABLE
                | INVALID_OBJECT_DEFINITION
                | CHECK_VIOLATION,
            ) => {
                tracing::info!(%error, "a partition cannot be made or dropped at this moment; it is tried again");
                Ok(false)
            }
            _ => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_name_is_its_time() {
        fn check(name: &str, expected: Option<(i64, i64)>) {
            let found = TimePartition::from_name("payloads", name);
            assert_eq!(
                found.map(|one| (one.from_ms, one.until_ms)),
                expected,
                "{name}"
            );
            if let Some(found) = found {
                assert_eq!(found.name_in("payloads"), name);
            }
        }
        check("payloads_0_3600000", Some((0, 3_600_000)));
        check("payloads_rest", None);
        check("payloads_1", None);
        check("payloads_01_2", None);
        check("payloads_1_x", None);
        check("others_1_2", None);
        check("payloads1_2", None);
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
}
