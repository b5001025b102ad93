//! Searches by an id or a webhook id, and for the dead letters of a lane. See [`crate::journal::search`].
//!
//! Every look-up is written so that exactly one index fits, as in lists.

use super::error::PostgresFailure;
use super::load::{notification_of, stored_columns};
use super::register::ARRIVAL_BITS;
use crate::domain::webhook_id::WebhookId;
use crate::journal::MOST_TOPICS;
use crate::journal::rows::{Fields, Ladders, StoredNotification};
use crate::journal::search::{
    MOST_FOUND, MOST_OF_LANE, MOST_READ_ASIDE, Search, SearchFindings, SearchWindow, WindowSide,
};
use crate::journal::sql_values::limit_of;
use sqlx::postgres::{PgConnection, PgRow};

/// The topics, in the order of their names. Each is found by a search of its own, for the first topic above the one
/// before. PostgreSQL finds no more of them than the statement reads.
macro_rules! topics {
    () => {
        "WITH RECURSIVE topics (topic) AS (
            SELECT (SELECT n.topic FROM notifications AS n ORDER BY n.topic LIMIT 1)
            UNION ALL
            SELECT (
                SELECT n.topic FROM notifications AS n WHERE n.topic > topics.topic
                ORDER BY n.topic LIMIT 1
            )
            FROM topics WHERE topics.topic IS NOT NULL
        )"
    };
}

/// What has an id in a range, of each topic.
macro_rules! ids_of {
    ($topics:literal) => {
        concat!(
            " FROM ",
            $topics,
            " AS t
              CROSS JOIN LATERAL (
                SELECT * FROM notifications AS n
                WHERE n.topic = t.topic AND n.id >= $2 AND n.id <= $3
                ORDER BY n.topic, n.id LIMIT $4
              ) AS n"
        )
    };
}

/// As [`ids_of`], with their statuses.
macro_rules! ids {
    ($with:expr, $topics:literal) => {
        concat!(
            $with,
            " SELECT ",
            stored_columns!(),
            ids_of!($topics),
            " CROSS JOIN LATERAL (
                SELECT * FROM statuses AS s WHERE s.notification = n.row_id OFFSET 0
              ) AS s
              LIMIT $4"
        )
    };
}

/// What has a webhook id, among those that were registered in a window.
macro_rules! webhook_id {
    ($order:literal) => {
        concat!(
            "SELECT ",
            stored_columns!(),
            " FROM (
                SELECT w.row_id FROM (
                    SELECT row_id, webhook_id FROM notifications
                    WHERE row_id >= $1 AND row_id < $2 ORDER BY ",
            $order,
            " LIMIT $3
                ) AS w
                WHERE w.webhook_id = $4 LIMIT 1
              ) AS w
              CROSS JOIN LATERAL ",
            notification_of!("w.row_id"),
            " CROSS JOIN LATERAL (
                SELECT * FROM statuses AS s WHERE s.notification = n.row_id OFFSET 0
              ) AS s"
        )
    };
}

const COUNT_TOPICS: &str = concat!(
    topics!(),
    " SELECT count(*) FROM (SELECT 1 FROM topics WHERE topic IS NOT NULL LIMIT $1) AS t"
);
const IDS: &str = ids!(
    topics!(),
    "(SELECT topic FROM topics WHERE topic IS NOT NULL LIMIT $1)"
);
const IDS_OF_TOPIC: &str = ids!("", "(SELECT $1::TEXT AS topic)");
/// Reads no statuses, so it costs little to learn that there are too many.
const COUNT_IDS: &str = concat!(
    topics!(),
    " SELECT count(*) FROM (SELECT 1",
    ids_of!("(SELECT topic FROM topics WHERE topic IS NOT NULL LIMIT $1)"),
    " LIMIT $4) AS found"
);
const COUNT_IDS_OF_TOPIC: &str = concat!(
    "SELECT count(*) FROM (SELECT 1",
    ids_of!("(SELECT $1::TEXT AS topic)"),
    " LIMIT $4) AS found"
);
/// What is of a lane. The lane is compared together with the row number, and is a part of the order, so only one index fits:
/// if it were compared by itself, PostgreSQL could read all notifications in the order of their numbers instead.
macro_rules! of_lane {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM notifications AS n
              WHERE (n.lane, n.row_id) >= ($1, 0::BIGINT)
                AND (n.lane, n.row_id) <= ($1, 9223372036854775807)
              ORDER BY n.lane, n.row_id LIMIT $2"
        )
    };
}

const COUNT_OF_LANE: &str = concat!("SELECT count(*) FROM (", of_lane!("1"), ") AS of_lane");
const DEAD_OF_LANE: &str = concat!(
    "SELECT ",
    stored_columns!(),
    " FROM (",
    of_lane!("*"),
    ") AS n
      CROSS JOIN LATERAL (
        SELECT * FROM statuses AS s WHERE s.notification = n.row_id OFFSET 0
      ) AS s
      WHERE s.state = 'dead' LIMIT $3"
);
const AFTER: &str = webhook_id!("row_id");
const BEFORE: &str = webhook_id!("row_id DESC");

/// Searches.
pub(super) async fn find(
    reading: &mut PgConnection,
    search: &Search<'_>,
) -> Result<SearchFindings, PostgresFailure> {
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
            if !has_few(reading, lane).await? {
                return Ok(SearchFindings::TooMany);
            }
            let found = sqlx::query(DEAD_OF_LANE)
                .bind(*lane)
                .bind(limit_of(MOST_OF_LANE))
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
                let found = in_window(reading, *webhook_id, *window).await?;
                if !found.is_empty() {
                    return Ok(SearchFindings::All(stored(&found)?));
                }
            }
            Ok(SearchFindings::All(Vec::new()))
        }
    }
}

/// Whether a lane has so few notifications that its dead letters are looked for among them.
pub(super) async fn has_few(
    reading: &mut PgConnection,
    lane: &str,
) -> Result<bool, PostgresFailure> {
    let many: i64 = sqlx::query_scalar(COUNT_OF_LANE)
        .bind(lane)
        .bind(limit_of(MOST_OF_LANE + 1))
        .fetch_one(reading)
        .await?;
    Ok(many <= limit_of(MOST_OF_LANE))
}

/// A row number begins with the instant of registration, so a window is a range of row numbers.
async fn in_window(
    reading: &mut PgConnection,
    webhook_id: WebhookId,
    window: SearchWindow,
) -> Result<Vec<PgRow>, PostgresFailure> {
    let statement = match window.side {
        WindowSide::After => sqlx::query(AFTER),
        WindowSide::Before => sqlx::query(BEFORE),
    };
    let first_row = |at_ms: i64| at_ms.saturating_mul(1 << ARRIVAL_BITS);
    let found = statement
        .bind(first_row(window.from_ms))
        .bind(first_row(window.to_ms.saturating_add(1)))
        .bind(limit_of(MOST_READ_ASIDE))
        .bind(webhook_id.to_bytes().to_vec())
        .fetch_all(reading)
        .await?;
    Ok(found)
}

/// Reads the rows. As in a list, one that cannot be read is left out.
fn stored(rows: &[PgRow]) -> Result<Vec<StoredNotification>, PostgresFailure> {
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
