//! What the attempts of each minute did: writing the counters, and adding them up.

use super::PostgresJournal;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use crate::domain::activity::{ActivityBucket, ActivityCounts};
use crate::journal::activity::{KEPT_MINUTES, MOST_FORGOTTEN, keep_sql, read_sql};
use crate::journal::rows::Fields;
use crate::journal::sql_values::{count_of, limit_of};
use crate::journal::{JournalActivity, JournalError};
use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};

#[async_trait]
impl JournalActivity for PostgresJournal {
    async fn keep_activity(
        &self,
        server: &str,
        minutes: &[(i64, ActivityCounts)],
    ) -> Result<(), JournalError> {
        let call = KeepActivity { server, minutes };
        self.connections.write(&call).await
    }

    async fn activity(
        &self,
        from_minute: i64,
        until_minute: i64,
        bucket_minutes: i64,
    ) -> Result<Vec<ActivityBucket>, JournalError> {
        let call = ReadActivity {
            from_minute,
            until_minute,
            bucket_minutes,
        };
        self.connections.read(&call).await
    }
}

/// See [`JournalActivity::keep_activity`].
struct KeepActivity<'call> {
    server: &'call str,
    minutes: &'call [(i64, ActivityCounts)],
}

#[async_trait]
impl PostgresCall for KeepActivity<'_> {
    type Reply = ();

    async fn run(&self, connection: &mut PgConnection) -> Result<(), PostgresFailure> {
        let mut transaction = connection.begin().await?;
        for (minute, counts) in self.minutes {
            // The text consists of constants.
            let mut writing = sqlx::query(AssertSqlSafe(keep_sql("greatest")))
                .bind(minute)
                .bind(self.server);
            for value in counts.values() {
                writing = writing.bind(count_of(*value));
            }
            writing.execute(&mut *transaction).await?;
        }
        if let Some(newest) = self.minutes.iter().map(|(minute, _)| *minute).max() {
            // What another server deletes at the same time is left to it.
            sqlx::query(
                "DELETE FROM activity WHERE (minute, server) IN (
                    SELECT minute, server FROM activity WHERE minute < $1
                    ORDER BY minute, server LIMIT $2 FOR UPDATE SKIP LOCKED
                 )",
            )
            .bind(newest.saturating_sub(KEPT_MINUTES))
            .bind(limit_of(MOST_FORGOTTEN))
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

/// See [`JournalActivity::activity`].
struct ReadActivity {
    from_minute: i64,
    until_minute: i64,
    bucket_minutes: i64,
}

#[async_trait]
impl PostgresCall for ReadActivity {
    type Reply = Vec<ActivityBucket>;

    async fn run(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Vec<ActivityBucket>, PostgresFailure> {
        let found = sqlx::query(AssertSqlSafe(read_sql("BIGINT")))
            .bind(self.from_minute)
            .bind(self.until_minute)
            .bind(self.bucket_minutes)
            .fetch_all(connection)
            .await?;
        Ok(Fields::activity(&found)?)
    }
}
