//! What the attempts of each minute did: writing the counters, and adding them up.

use super::SqliteJournal;
use super::error::SqliteFailure;
use crate::domain::activity::{ActivityBucket, ActivityCounts};
use crate::journal::activity::{KEPT_MINUTES, MOST_FORGOTTEN, keep_sql, read_sql};
use crate::journal::rows::Fields;
use crate::journal::sql_values::{count_of, limit_of};
use crate::journal::{JournalActivity, JournalError};
use async_trait::async_trait;
use sqlx::{AssertSqlSafe, SqliteConnection, SqlitePool};

const FORGET: &str = "DELETE FROM activity WHERE (minute, server) IN (
        SELECT minute, server FROM activity WHERE minute < ? ORDER BY minute, server LIMIT ?
    )";

#[async_trait]
impl JournalActivity for SqliteJournal {
    async fn keep_activity(
        &self,
        server: &str,
        minutes: &[(i64, ActivityCounts)],
    ) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        keep(transaction.connection(), server, minutes).await?;
        Ok(transaction.commit().await?)
    }

    async fn activity(
        &self,
        from_minute: i64,
        until_minute: i64,
        bucket_minutes: i64,
    ) -> Result<Vec<ActivityBucket>, JournalError> {
        let range = (from_minute, until_minute);
        Ok(read(&self.readers, range, bucket_minutes).await?)
    }
}

async fn keep(
    connection: &mut SqliteConnection,
    server: &str,
    minutes: &[(i64, ActivityCounts)],
) -> Result<(), SqliteFailure> {
    for (minute, counts) in minutes {
        // The text consists of constants.
        let mut writing = sqlx::query(AssertSqlSafe(keep_sql("max")))
            .bind(minute)
            .bind(server);
        for value in counts.values() {
            writing = writing.bind(count_of(*value));
        }
        writing.execute(&mut *connection).await?;
    }
    if let Some(newest) = minutes.iter().map(|(minute, _)| *minute).max() {
        sqlx::query(FORGET)
            .bind(newest.saturating_sub(KEPT_MINUTES))
            .bind(limit_of(MOST_FORGOTTEN))
            .execute(connection)
            .await?;
    }
    Ok(())
}

async fn read(
    readers: &SqlitePool,
    (from_minute, until_minute): (i64, i64),
    bucket_minutes: i64,
) -> Result<Vec<ActivityBucket>, SqliteFailure> {
    let found = sqlx::query(AssertSqlSafe(read_sql("INTEGER")))
        .bind(from_minute)
        .bind(until_minute)
        .bind(bucket_minutes)
        .fetch_all(readers)
        .await?;
    Ok(Fields::activity(&found)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::Row as _;

    #[tokio::test]
    async fn no_more_is_read_than_is_asked_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal.db");
        let journal = SqliteJournal::open(&path, "test").await.expect("it opens");
        for sql in [read_sql("INTEGER"), FORGET.to_string()] {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let lines = sqlx::query(AssertSqlSafe(explain))
                .fetch_all(&journal.readers)
                .await
                .expect("explained");
            let steps: Vec<&str> = lines.iter().map(|line| line.get("detail")).collect();
            let by_minute = |step: &&str| step.contains("PRIMARY KEY (minute");
            assert!(steps.iter().any(by_minute), "{steps:?}");
            let scans = steps.iter().any(|step| step.starts_with("SCAN activity"));
            assert!(!scans, "{steps:?}");
        }
    }
}
