//! Reading a day, in one transaction of a connection that reads. Each page is a range of an index that begins behind the page
//! before.

use super::bulk::Statement;
use super::error::SqliteFailure;
use super::meta::recall;
use crate::domain::lane::Lane;
use crate::journal::day::{DayPage, DayReading, DaySelection, PrunedUntil, state_counts};
use crate::journal::pruning::{DEAD_PRUNED, RECORDS_PRUNED};
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{Cursor, JournalCounts, JournalError};
use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Sqlite, SqlitePool, Transaction};

/// A reading of a day.
struct SqliteDay {
    reading: Transaction<'static, Sqlite>,
    selection: DaySelection,
    pruned: PrunedUntil,
    /// The last row that was read, or the place before the first.
    after: Cursor,
    is_at_end: bool,
}

/// Begins a reading. Its first statement decides as of which instant it reads.
pub(super) async fn read_day(
    readers: &SqlitePool,
    selection: &DaySelection,
) -> Result<Box<dyn DayReading>, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let position = recall(&mut reading, RECORDS_PRUNED).await?;
    let dead = recall(&mut reading, DEAD_PRUNED).await?;
    let pruned = PrunedUntil::of(position.as_deref(), dead.as_deref())?;
    Ok(Box::new(SqliteDay {
        reading,
        after: before_first(selection),
        selection: selection.clone(),
        pruned,
        is_at_end: false,
    }))
}

#[async_trait]
impl DayReading for SqliteDay {
    fn pruned(&self) -> PrunedUntil {
        self.pruned
    }

    async fn counts(&mut self) -> Result<JournalCounts, JournalError> {
        let from = format!("SELECT count(*), {}", state_counts!());
        let statement = sql(&from, &self.selection, "");
        let statement = query(statement, &self.selection, before_first(&self.selection));
        let found = statement.fetch_one(&mut *self.reading).await;
        Fields::day_counts(&found.map_err(SqliteFailure::from)?)
    }

    async fn page(&mut self, limit: usize) -> Result<Option<DayPage>, JournalError> {
        if self.is_at_end {
            return Ok(None);
        }
        let limit = limit.max(1);
        let statement = query(page_sql(&self.selection), &self.selection, self.after);
        let found = statement
            .bind(limit_of(limit))
            .fetch_all(&mut *self.reading)
            .await
            .map_err(SqliteFailure::from)?;
        let (page, last) = Fields::day_page(&found, &self.selection)?;
        self.is_at_end = found.len() < limit;
        if let Some(last) = last {
            self.after = last;
        }
        Ok(Some(page))
    }

    async fn end(self: Box<Self>) {
        // Nothing was written, so an error does not matter.
        let _ = self.reading.rollback().await;
    }
}

/// The place before the first row of a day.
fn before_first(selection: &DaySelection) -> Cursor {
    Cursor {
        at_ms: selection.from_ms,
        row: i64::MIN,
    }
}

fn page_sql(selection: &DaySelection) -> String {
    sql(
        "SELECT n.registered_ms, n.row_id, n.topic, n.id, n.webhook_id, n.lane, n.url, n.state, n.cause, n.superseded,
            CASE WHEN n.state = 'cancelled' AND n.superseded IS NULL THEN EXISTS (
                SELECT 1 FROM transitions AS t WHERE t.notification = n.row_id AND t.kind = 'discarded'
            ) ELSE 0 END,
            n.first_due_ms, n.deadline_ms, n.next_due_ms, n.ended_ms, n.series, n.attempts,
            a.outcome, a.status, a.started_ms, a.duration_ms",
        selection,
        "LEFT JOIN attempts AS a ON a.row_id = (SELECT max(row_id) FROM attempts WHERE notification = n.row_id)",
    )
}

/// Makes a statement over the rest of a day. The statement names its index, because SQLite does not know how many
/// notifications there are of each kind.
fn sql(columns: &str, selection: &DaySelection, join: &str) -> String {
    let (index, lane) = match (&selection.lane, &selection.topic) {
        (Some(_), None) => ("registered_by_lane", "AND n.lane = ?4"),
        (Some(_), Some(_)) => ("registered_by_lane", "AND n.lane = ?4 AND n.topic = ?5"),
        (None, Some(_)) => ("registered_by_topic", "AND n.topic = ?5"),
        (None, None) => ("registered", ""),
    };
    let is_page = !join.is_empty();
    let end = match is_page {
        true => "ORDER BY n.registered_ms, n.row_id LIMIT ?6",
        false => "",
    };
    format!(
        "{columns} FROM notifications AS n INDEXED BY {index} {join}
         WHERE (n.registered_ms, n.row_id) > (?1, ?2) AND n.registered_ms < ?3 {lane} {end}"
    )
}

/// Binds the five values that both statements may use. The text of a statement consists of constants; values from outside are
/// only bound.
fn query(sql: String, selection: &DaySelection, after: Cursor) -> Statement {
    sqlx::query(AssertSqlSafe(sql))
        .bind(after.at_ms)
        .bind(after.row)
        .bind(selection.until_ms)
        .bind(selection.lane.as_ref().map(Lane::as_str).map(str::to_owned))
        .bind(selection.topic.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::sqlite::SqliteJournal;
    use sqlx::Row as _;

    #[tokio::test]
    async fn no_page_sorts_or_reads_from_another_place() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal.db");
        let journal = SqliteJournal::open(&path, "test").await.expect("it opens");
        for (topic, lane, index) in [
            (None, None, "registered"),
            (Some("t"), None, "registered_by_topic"),
            (None, Some("endpoint:shop-1"), "registered_by_lane"),
            (Some("t"), Some("endpoint:shop-1"), "registered_by_lane"),
        ] {
            let selection = DaySelection {
                from_ms: 0,
                until_ms: 1,
                topic: topic.map(str::to_string),
                lane: lane.map(Lane::from_name),
            };
            let after = Cursor { at_ms: 0, row: 0 };
            let explain = format!("EXPLAIN QUERY PLAN {}", page_sql(&selection));
            let lines = query(explain, &selection, after)
                .bind(1)
                .fetch_all(&journal.readers)
                .await
                .expect("explained");
            let steps: Vec<&str> = lines.iter().map(|line| line.get("detail")).collect();
            let search = format!("SEARCH n USING INDEX {index} (");
            assert!(steps[0].starts_with(&search), "{steps:?}");
            assert!(steps[0].contains("registered_ms>"), "{steps:?}");
            assert!(
                !steps.iter().any(|step| step.starts_with("SCAN")),
                "{steps:?}"
            );
            assert!(
                !steps.iter().any(|step| step.contains("TEMP B-TREE")),
                "{steps:?}"
            );
        }
    }
}
