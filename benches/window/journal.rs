//! The sizes of the tables of the journal, and what took PostgreSQL long.

use crate::Bench;
use crate::fill::NOT_LOGGED;
use crate::postgres::{connect, run};
use crate::server::Setup;
use std::collections::BTreeMap;

/// The tables that are printed: those with the most bytes.
const MOST_TABLES: usize = 4;
/// The statements that are printed: those that took longest.
const MOST_STATEMENTS: usize = 6;
/// How much of a statement is printed, in characters.
const LONGEST_STATEMENT: usize = 110;

/// How many pending notifications are due by then, in milliseconds since 1970.
pub async fn count_due_by(setup: &Setup, due_ms: i64) -> u64 {
    let postgres = setup.postgres.as_ref().expect("these stores include it");
    let mut connection = connect(&postgres.url("postgres")).await;
    run(&mut connection, NOT_LOGGED).await;
    let many: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM statuses WHERE state = 'scheduled' AND next_due_ms <= $1",
    )
    .bind(due_ms)
    .fetch_one(&mut connection)
    .await
    .expect("a number");
    many.unsigned_abs()
}

/// Prints how large the tables and their indexes are.
pub async fn print_sizes(setup: &Setup) {
    let postgres = setup.postgres.as_ref().expect("these stores include it");
    let mut connection = connect(&postgres.url("postgres")).await;
    run(&mut connection, NOT_LOGGED).await;
    let tables: Vec<(String, i64, i64)> = sqlx::query_as(
        "SELECT c.relname::TEXT, pg_table_size(c.oid), pg_indexes_size(c.oid)
         FROM pg_class AS c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::REGNAMESPACE
         ORDER BY pg_total_relation_size(c.oid) DESC",
    )
    .fetch_all(&mut connection)
    .await
    .expect("sizes");
    for (table, bytes, indexes) in tables.iter().take(MOST_TABLES) {
        println!(
            "table {table}: {}, its indexes {}",
            mb(*bytes),
            mb(*indexes)
        );
    }
    let indexes: Vec<(String, i64)> = sqlx::query_as(
        "SELECT indexrelid::REGCLASS::TEXT, pg_relation_size(indexrelid) AS bytes FROM pg_index
         WHERE indrelid IN ('notifications'::REGCLASS, 'statuses'::REGCLASS, 'payloads'::REGCLASS)
         ORDER BY bytes DESC",
    )
    .fetch_all(&mut connection)
    .await
    .expect("sizes");
    let indexes: Vec<String> = (indexes.iter().filter(|(_, bytes)| *bytes > 1_000_000))
        .map(|(index, bytes)| format!("{index} {}", mb(*bytes)))
        .collect();
    println!("indexes: {}", indexes.join(", "));
    let all: i64 = sqlx::query_scalar("SELECT pg_database_size(current_database())")
        .fetch_one(&mut connection)
        .await
        .expect("a size");
    println!("the database: {}", mb(all));
}

fn mb(bytes: i64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

impl Bench {
    /// Prints the statements that took longer than 100 ms since this was called last.
    pub async fn print_slow(&self, when: &str) {
        let postgres = (self.setup.postgres.as_ref()).expect("these stores include it");
        let log = postgres.take_log();
        let slow = slow_statements(&log);
        if slow.is_empty() {
            println!("statements above 100 ms {when}: none");
        }
        for (statement, (many, longest_ms)) in slow.iter().take(MOST_STATEMENTS) {
            println!(
                "statements above 100 ms {when}: {many}, {longest_ms:.0} ms at most: {statement}"
            );
        }
        // What is wrong is to be seen, whatever it is.
        let wrong = |line: &&String| line.contains("ERROR:") || line.contains("FATAL:");
        for line in log.iter().filter(wrong).take(MOST_STATEMENTS) {
            println!("PostgreSQL {when}: {line}");
        }
    }
}

/// The statements with how often each is in the log, and how long it took at most, in milliseconds; slowest first.
fn slow_statements(log: &[String]) -> Vec<(String, (usize, f64))> {
    let mut found: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    let mut lines = log.iter().peekable();
    while let Some(line) = lines.next() {
        let Some((_, told)) = line.split_once("duration: ") else {
            continue;
        };
        let (ms, statement) = told.split_once(" ms").unwrap_or((told, ""));
        let mut statement = statement.trim_start().to_string();
        // The further lines of a statement begin with a tab.
        while let Some(more) = lines.next_if(|line| line.starts_with('\t')) {
            statement.push(' ');
            statement.push_str(more);
        }
        // Each connection gives its statements names of its own.
        let (_, text) = statement.split_once(": ").unwrap_or(("", &statement));
        let words: Vec<&str> = text.split_whitespace().collect();
        let text: String = words.join(" ").chars().take(LONGEST_STATEMENT).collect();
        let ms: f64 = ms.trim().parse().unwrap_or(0.0);
        let seen = found.entry(text).or_default();
        *seen = (seen.0 + 1, seen.1.max(ms));
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by(|one, other| other.1.1.total_cmp(&one.1.1));
    found
}
