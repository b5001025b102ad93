//! Reading every notification, for an audit.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::session::AS_OF_NOW;
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{Examined, Fault, JournalCounts, JournalError};
use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};

/// Settings of a transaction that reads all rows. It may read whole tables, while all other statements must
/// use indexes (`session.rs`).
const READ_EVERYTHING: &str = "
    SET LOCAL statement_timeout = 0;
    SET LOCAL enable_seqscan = on;
    SET LOCAL enable_hashjoin = on;
    SET LOCAL enable_sort = on;
    SET LOCAL max_parallel_workers_per_gather = 2";

/// No partition is dropped from now on. Before the first statement that reads, since that determines which rows are seen: what
/// is moved later would be missed if the partition where it was is dropped.
const KEEP_PARTITIONS: &str = "LOCK TABLE payloads, attempts IN ACCESS SHARE MODE";

/// The statement that finds each fault: the first notifications that have it, each row with the total number.
const FAULTS: [(Fault, &str); 2] = [
    (
        Fault::NoBody,
        "SELECT n.topic, n.id, count(*) OVER ()
         FROM statuses AS s JOIN notifications AS n ON n.row_id = s.notification
         WHERE s.state = 'scheduled'
           AND NOT EXISTS (SELECT 1 FROM payloads AS p WHERE p.notification = s.notification)
         ORDER BY s.notification LIMIT $1",
    ),
    (
        Fault::NoAcknowledgement,
        "SELECT n.topic, n.id, count(*) OVER ()
         FROM statuses AS s JOIN notifications AS n ON n.row_id = s.notification
         WHERE s.state = 'delivered'
           AND NOT EXISTS (SELECT 1 FROM attempts AS a
                           WHERE a.notification = s.notification AND a.outcome = 'acknowledged')
         ORDER BY s.notification LIMIT $1",
    ),
];

/// See [`crate::journal::JournalMaintenance::examine`].
pub(super) struct Examine {
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for Examine {
    type Reply = Examined;

    async fn run(&self, connection: &mut PgConnection) -> Result<Examined, PostgresFailure> {
        let mut reading = connection.begin_with(AS_OF_NOW).await?;
        reading.execute(KEEP_PARTITIONS).await?;
        reading.execute(READ_EVERYTHING).await?;
        let mut examined = Examined {
            counters: ReadCounts.run(&mut reading).await?,
            rows: count(&mut reading).await?,
            ..Examined::default()
        };
        for (fault, sql) in FAULTS {
            self.look_for(&mut reading, fault, sql, &mut examined)
                .await?;
        }
        reading.rollback().await?;
        Ok(examined)
    }
}

impl Examine {
    async fn look_for(
        &self,
        reading: &mut PgConnection,
        fault: Fault,
        sql: &'static str,
        examined: &mut Examined,
    ) -> Result<(), PostgresFailure> {
        // At least one row is needed, since a row contains the total number.
        let found = sqlx::query(sql)
            .bind(limit_of(self.limit.max(1)))
            .fetch_all(reading)
            .await?;
        Ok(Fields::faults(&found, fault, self.limit, examined)?)
    }
}

async fn count(reading: &mut PgConnection) -> Result<JournalCounts, PostgresFailure> {
    let registered: i64 = sqlx::query_scalar("SELECT count(*) FROM notifications")
        .fetch_one(&mut *reading)
        .await?;
    let found = sqlx::query("SELECT state, count(*) FROM statuses GROUP BY state")
        .fetch_all(reading)
        .await?;
    Ok(JournalCounts {
        registered: registered.unsigned_abs(),
        ..Fields::state_counts(&found)?
    })
}

/// See [`crate::journal::JournalMaintenance::counts`].
pub(super) struct ReadCounts;

#[async_trait]
impl PostgresCall for ReadCounts {
    type Reply = JournalCounts;

    async fn run(&self, connection: &mut PgConnection) -> Result<JournalCounts, PostgresFailure> {
        let found = sqlx::query(
            "SELECT
                sum(registered)::BIGINT, sum(scheduled)::BIGINT, sum(delivered)::BIGINT,
                sum(dead)::BIGINT, sum(cancelled)::BIGINT
             FROM counts",
        )
        .fetch_one(connection)
        .await?;
        let mut fields = Fields::of(&found);
        let mut next = || -> Result<u64, JournalError> {
            let many: i64 = fields.take()?;
            u64::try_from(many).map_err(|_| {
                JournalError::Corrupt(format!("a counter has the negative value {many}"))
            })
        };
        Ok(JournalCounts {
            registered: next()?,
            scheduled: next()?,
            delivered: next()?,
            dead: next()?,
            cancelled: next()?,
        })
    }
}
