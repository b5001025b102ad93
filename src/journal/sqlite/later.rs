//! What is pending and due later, by destination: an index has nothing else ([`LATER_MS`]).

use super::error::SqliteFailure;
use crate::domain::lane::Lane;
use crate::domain::later::{LATER_MS, LaneAfter, LaterCount};
use crate::journal::sql_values::limit_of;
use sqlx::SqlitePool;

// The statements here and the index have the number as text.
const _: () = assert!(LATER_MS == 10_000);

/// The rows of the index. SQLite uses it only for a statement that has its condition.
macro_rules! later {
    ($columns:literal, $which:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM notifications INDEXED BY later_of_lane
              WHERE state = 'scheduled' AND next_due_ms > registered_ms + 10000 AND ",
            $which
        )
    };
}

/// Goes from each lane to the next one, however many rows a lane has.
const LANES: &str = concat!(
    "WITH RECURSIVE found (lane, place) AS (
        SELECT (",
    later!("lane", "lane > ?1 ORDER BY lane LIMIT 1"),
    "), 1
        UNION ALL
        SELECT (",
    later!("lane", "lane > found.lane ORDER BY lane LIMIT 1"),
    "), place + 1 FROM found WHERE lane IS NOT NULL AND place < ?2
     )
     SELECT lane FROM found WHERE lane IS NOT NULL"
);

const COUNT: &str = concat!(
    "SELECT count(*) FROM (",
    later!("1", "lane = ?1 AND next_due_ms > ?2 LIMIT ?3"),
    ")"
);

/// See [`crate::journal::JournalReads::later_lanes`].
pub(super) async fn lanes(
    readers: &SqlitePool,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Lane>, SqliteFailure> {
    let found: Vec<String> = sqlx::query_scalar(LANES)
        .bind(after.unwrap_or_default())
        .bind(limit_of(limit))
        .fetch_all(readers)
        .await?;
    Ok(found.iter().map(|name| Lane::from_name(name)).collect())
}

/// See [`crate::journal::JournalReads::count_later`].
pub(super) async fn count(
    readers: &SqlitePool,
    lanes: &[LaneAfter],
    most: usize,
) -> Result<Vec<LaterCount>, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let mut counts = Vec::with_capacity(lanes.len());
    for LaneAfter { lane, after_ms } in lanes {
        let many: i64 = sqlx::query_scalar(COUNT)
            .bind(lane.as_str())
            .bind(after_ms)
            .bind(limit_of(most))
            .fetch_one(&mut *reading)
            .await?;
        counts.push(LaterCount::of(many.unsigned_abs(), most));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::sqlite::SqliteJournal;
    use sqlx::{AssertSqlSafe, Row as _};

    /// Each statement goes by the index, and reads no other row than those that it gives.
    #[tokio::test]
    async fn the_index_alone_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal.db");
        let journal = SqliteJournal::open(&path, "test").await.expect("it opens");
        for (sql, searches) in [(LANES, 2), (COUNT, 1)] {
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
            let lines = sqlx::query(explain)
                .bind("")
                .bind(1_i64)
                .bind(1_i64)
                .fetch_all(&journal.readers)
                .await
                .expect("explained");
            let steps: Vec<String> = lines.iter().map(|line| line.get("detail")).collect();
            let by_index = |step: &&String| {
                step.starts_with("SEARCH notifications USING")
                    && step.contains("later_of_lane (lane")
            };
            assert_eq!(steps.iter().filter(by_index).count(), searches, "{steps:?}");
            let reads = |step: &&String| step.contains("notifications") && !by_index(step);
            assert_eq!(steps.iter().filter(reads).count(), 0, "{steps:?}");
            let sorts = |step: &&String| step.contains("TEMP B-TREE");
            assert_eq!(steps.iter().filter(sorts).count(), 0, "{steps:?}");
        }
    }
}
