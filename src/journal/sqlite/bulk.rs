//! Statements over many rows.
//!
//! Passing a statement to the thread of a connection takes more time than SQLite needs for a row. So
//! several rows go into one statement, in a `VALUES` list. The lists have a few fixed lengths, so that each
//! statement is prepared once and used again.

use super::error::SqliteFailure;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection};
use std::sync::Arc;

/// A statement to which values are bound.
pub(super) type Statement = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

/// The numbers of rows that a statement can have, largest first. 64 rows of 22 values are far below
/// SQLite's limit of 32,766 values, and longer lists were not faster. With every power of two, 63 rows need
/// six statements. With 64, 8 and 1 alone they needed 14, and a registration waits for each statement.
const LENGTHS: [usize; 7] = [64, 32, 16, 8, 4, 2, 1];

/// The texts of one statement, one for each number of rows.
pub(super) struct Bulk([(usize, Arc<str>); LENGTHS.len()]);

impl Bulk {
    /// Makes the texts: `before VALUES (?, ?, ...), ... after`, with `columns` values in a row.
    pub(super) fn new(before: &str, columns: usize, after: &str) -> Self {
        let row = format!("({})", vec!["?"; columns].join(", "));
        Self(LENGTHS.map(|rows| {
            let values = vec![row.as_str(); rows].join(", ");
            (rows, format!("{before} VALUES {values} {after}").into())
        }))
    }

    /// Executes the statement for all rows.
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

    /// Executes the statement for all rows. Returns the rows that it gives, in no particular order.
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

/// Makes a statement of a text. The text consists of constants; values from outside are only bound.
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
