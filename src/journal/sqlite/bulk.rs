//! Statements over many rows.
//!
//! Handing a statement to the connection's thread costs more than SQLite takes for a row, so rows
//! go together in one `VALUES` list. The lists come in a few fixed lengths, so that each statement
//! is prepared once and kept.

use super::error::SqliteFailure;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection};
use std::sync::Arc;

/// A statement to bind values to.
pub(super) type Statement = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

/// Rows in one statement, longest first. 64 rows of 21 values are far below SQLite's bound of
/// 32,766 values; longer lists gained nothing more. Every power of two, so that 63 rows take six
/// statements: with 64, 8 and 1 alone they took 14, and a registration waits for each of them.
const LENGTHS: [usize; 7] = [64, 32, 16, 8, 4, 2, 1];

/// One statement in its lengths.
pub(super) struct Bulk([(usize, Arc<str>); LENGTHS.len()]);

impl Bulk {
    /// A statement that reads `before VALUES (?, ?, ...), ... after`.
    pub(super) fn new(before: &str, columns: usize, after: &str) -> Self {
        let row = format!("({})", vec!["?"; columns].join(", "));
        Self(LENGTHS.map(|rows| {
            let values = vec![row.as_str(); rows].join(", ");
            (rows, format!("{before} VALUES {values} {after}").into())
        }))
    }

    /// Runs it over all rows.
    pub(super) async fn execute<Row: Sync>(
        &self,
        connection: &mut SqliteConnection,
        rows: &[Row],
        bind: impl Fn(Statement, &Row) -> Statement,
    ) -> Result<(), SqliteFailure> {
        for (sql, rows) in self.split(rows) {
            let statement = rows.iter().fold(statement(sql), &bind);
            statement.execute(&mut *connection).await?;
        }
        Ok(())
    }

    /// Runs it over all rows and gathers what it gives back, in no particular order.
    pub(super) async fn fetch<Row: Sync>(
        &self,
        connection: &mut SqliteConnection,
        rows: &[Row],
        bind: impl Fn(Statement, &Row) -> Statement,
    ) -> Result<Vec<SqliteRow>, SqliteFailure> {
        let mut found = Vec::new();
        for (sql, rows) in self.split(rows) {
            let statement = rows.iter().fold(statement(sql), &bind);
            let more = statement.fetch_all(&mut *connection).await;
            found.append(&mut more?);
        }
        Ok(found)
    }

    fn split<'rows, Row>(
        &self,
        mut rows: &'rows [Row],
    ) -> impl Iterator<Item = (Arc<str>, &'rows [Row])> {
        std::iter::from_fn(move || {
            let (length, sql) = self.0.iter().find(|(length, _)| *length <= rows.len())?;
            let (taken, left) = rows.split_at(*length);
            rows = left;
            Some((sql.clone(), taken))
        })
    }
}

/// The text is put together from constants alone; what comes from outside is bound.
fn statement(sql: Arc<str>) -> Statement {
    sqlx::query(AssertSqlSafe(sql))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_goes_into_one_statement() {
        fn check(rows: usize, expected: &[usize]) {
            let bulk = Bulk::new("INSERT INTO t", 2, "");
            let rows: Vec<usize> = (0..rows).collect();
            let (mut lengths, mut seen) = (Vec::new(), Vec::new());
            for (sql, part) in bulk.split(&rows) {
                assert_eq!(sql.matches("(?, ?)").count(), part.len());
                lengths.push(part.len());
                seen.extend_from_slice(part);
            }
            assert_eq!(lengths, expected);
            assert_eq!(seen, rows);
        }
        check(0, &[]);
        check(1, &[1]);
        check(7, &[4, 2, 1]);
        check(8, &[8]);
        check(63, &[32, 16, 8, 4, 2, 1]);
        check(73, &[64, 8, 1]);
        check(129, &[64, 64, 1]);
    }
}
