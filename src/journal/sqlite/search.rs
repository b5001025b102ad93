//! Searches by an id or a webhook id, and for the dead letters of a lane. See [`crate::journal::search`].
//!
//! Each statement names its index, as those of lists do: SQLite does not know how many notifications there are of each
//! kind.

use super::bulk::Statement;
use super::error::SqliteFailure;
use super::load::stored_columns;
use crate::domain::webhook_id::WebhookId;
use crate::journal::MOST_TOPICS;
use crate::journal::rows::{Fields, Ladders, StoredNotification};
use crate::journal::search::{
    MOST_FOUND, MOST_READ_ASIDE, Search, SearchFindings, SearchWindow, WindowSide,
};
use crate::journal::sql_values::limit_of;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

/// The topics, in the order of their names, at most `?1`. Each is found by a search of its own, for the first topic above
/// the one before. After the last one comes a null.
macro_rules! topics {
    () => {
        "WITH RECURSIVE topics (topic) AS (
            SELECT (
                SELECT n.topic FROM notifications AS n INDEXED BY registered_by_topic
                ORDER BY n.topic LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT n.topic FROM notifications AS n INDEXED BY registered_by_topic
                WHERE n.topic > topics.topic ORDER BY n.topic LIMIT 1
            )
            FROM topics WHERE topics.topic IS NOT NULL
            LIMIT ?1
        )"
    };
}

/// What has an id in a range, of each topic. The index is that of the constraint that keeps topics and ids unique.
macro_rules! ids {
    ($topics:expr, $columns:expr) => {
        concat!(
            $topics,
            " SELECT ",
            $columns,
            " FROM topics CROSS JOIN notifications AS n INDEXED BY sqlite_autoindex_notifications_1
              ON n.topic = topics.topic AND n.id >= ?2 AND n.id <= ?3
              LIMIT ?4"
        )
    };
}

/// What has a webhook id, among those that were registered in a window.
macro_rules! webhook_id {
    ($order:literal) => {
        concat!(
            "SELECT ",
            stored_columns!(),
            " FROM notifications AS n WHERE n.row_id = (
                SELECT w.row_id FROM (
                    SELECT row_id, webhook_id FROM notifications INDEXED BY registered
                    WHERE registered_ms >= ?1 AND registered_ms <= ?2 ORDER BY ",
            $order,
            " LIMIT ?3
                ) AS w
                WHERE w.webhook_id = ?4 LIMIT 1
            )"
        )
    };
}

const COUNT_TOPICS: &str = concat!(
    topics!(),
    " SELECT count(*) FROM topics WHERE topic IS NOT NULL"
);
const IDS: &str = ids!(topics!(), stored_columns!());
const IDS_OF_TOPIC: &str = ids!("WITH topics (topic) AS (SELECT ?1)", stored_columns!());
/// Reads the index alone, so it costs little to learn that there are too many.
const COUNT_IDS: &str = concat!("SELECT count(*) FROM (", ids!(topics!(), "1"), ")");
const COUNT_IDS_OF_TOPIC: &str = concat!(
    "SELECT count(*) FROM (",
    ids!("WITH topics (topic) AS (SELECT ?1)", "1"),
    ")"
);
const DEAD_OF_LANE: &str = concat!(
    "SELECT ",
    stored_columns!(),
    " FROM notifications AS n INDEXED BY dead_of_lane WHERE n.state = 'dead' AND n.lane = ?1 LIMIT ?2"
);
const AFTER: &str = webhook_id!("registered_ms, row_id");
const BEFORE: &str = webhook_id!("registered_ms DESC, row_id DESC");

/// Searches.
pub(super) async fn find(
    reading: &mut SqliteConnection,
    search: &Search<'_>,
) -> Result<SearchFindings, SqliteFailure> {
    match search {
        Search::Ids { topic, first, last } => {
            let (counting, ids) = match topic {
                Some(topic) => (
                    sqlx::query_scalar(COUNT_IDS_OF_TOPIC).bind((*topic).to_string()),
                    sqlx::query(IDS_OF_TOPIC).bind((*topic).to_string()),
                ),
                None => {
                    let counting = sqlx::query_scalar(COUNT_TOPICS)
                        .bind(limit_of(MOST_TOPICS + 1))
                        .fetch_one(&mut *reading);
                    let topics: i64 = counting.await?;
                    if topics > limit_of(MOST_TOPICS) {
                        return Ok(SearchFindings::TooManyTopics);
                    }
                    let most = limit_of(MOST_TOPICS);
                    let counting = sqlx::query_scalar(COUNT_IDS).bind(most);
                    (counting, sqlx::query(IDS).bind(most))
                }
            };
            // A whole id is there once in each topic.
            if first != last {
                let counting = counting
                    .bind(first.clone())
                    .bind(last.clone())
                    .bind(limit_of(MOST_FOUND + 1))
                    .fetch_one(&mut *reading);
                let many: i64 = counting.await?;
                if many > limit_of(MOST_FOUND) {
                    return Ok(SearchFindings::TooMany);
                }
            }
            let found = ids
                .bind(first.clone())
                .bind(last.clone())
                .bind(limit_of(MOST_FOUND))
                .fetch_all(reading)
                .await?;
            Ok(SearchFindings::All(stored(&found)?))
        }
        Search::DeadOfLane(lane) => {
            let found = sqlx::query(DEAD_OF_LANE)
                .bind((*lane).to_string())
                .bind(limit_of(MOST_FOUND + 1))
                .fetch_all(reading)
                .await?;
            if found.len() > MOST_FOUND {
                return Ok(SearchFindings::TooMany);
            }
            Ok(SearchFindings::All(stored(&found)?))
        }
        Search::WebhookId(webhook_id, windows) => {
            for window in windows {
                let found = in_window(*webhook_id, *window).fetch_all(&mut *reading);
                let found = found.await?;
                if !found.is_empty() {
                    return Ok(SearchFindings::All(stored(&found)?));
                }
            }
            Ok(SearchFindings::All(Vec::new()))
        }
    }
}

fn in_window(webhook_id: WebhookId, window: SearchWindow) -> Statement {
    let statement = match window.side {
        WindowSide::After => sqlx::query(AFTER),
        WindowSide::Before => sqlx::query(BEFORE),
    };
    statement
        .bind(window.from_ms)
        .bind(window.to_ms)
        .bind(limit_of(MOST_READ_ASIDE))
        .bind(webhook_id.to_bytes().to_vec())
}

/// Reads the rows. As in a list, one that cannot be read is left out.
fn stored(rows: &[SqliteRow]) -> Result<Vec<StoredNotification>, SqliteFailure> {
    let mut ladders = Ladders::default();
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        match Fields::of(row).stored(&mut ladders) {
            Ok(stored) => read.push(stored),
            Err(error) => Fields::log_damaged(row, &error, "a search leaves"),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::sqlite::SqliteJournal;
    use sqlx::{AssertSqlSafe, Row as _};

    #[tokio::test]
    async fn no_search_reads_all_notifications() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal.db");
        let journal = SqliteJournal::open(&path, "test").await.expect("it opens");
        let by_id = "INDEX sqlite_autoindex_notifications_1 (topic=? AND id>? AND id<?)";
        let by_id_alone =
            "COVERING INDEX sqlite_autoindex_notifications_1 (topic=? AND id>? AND id<?)";
        let by_time = "INDEX registered (registered_ms>? AND registered_ms<?)";
        let next_topic = "INDEX registered_by_topic (topic>?)";
        for (sql, expected) in [
            (COUNT_TOPICS, vec![next_topic]),
            (IDS, vec![next_topic, by_id]),
            (IDS_OF_TOPIC, vec![by_id]),
            (COUNT_IDS, vec![next_topic, by_id_alone]),
            (COUNT_IDS_OF_TOPIC, vec![by_id_alone]),
            (DEAD_OF_LANE, vec!["INDEX dead_of_lane (lane=?)"]),
            (AFTER, vec![by_time, "PRIMARY KEY (rowid=?)"]),
            (BEFORE, vec![by_time, "PRIMARY KEY (rowid=?)"]),
        ] {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let lines = sqlx::query(AssertSqlSafe(explain))
                .fetch_all(&journal.readers)
                .await
                .expect("explained");
            let steps: Vec<&str> = lines.iter().map(|line| line.get("detail")).collect();
            for expected in expected {
                let is_there = steps.iter().any(|step| step.contains(expected));
                assert!(is_there, "{expected}: {steps:?}");
            }
            for step in steps {
                // The first topic is the first of its index: this scan ends with its first row.
                let is_first_topic = step == "SCAN n USING COVERING INDEX registered_by_topic";
                let scans = step.starts_with("SCAN n") && !is_first_topic;
                assert!(!scans && !step.contains("TEMP B-TREE"), "{step}: {sql}");
            }
        }
    }
}
