//! Reading every notification, for an audit.

use super::error::SqliteFailure;
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{Examined, Fault, JournalCounts, JournalError};
use sqlx::{SqliteConnection, SqlitePool};

/// Counts the rows and looks for faults. All is read in one transaction, so as of one instant. Other calls
/// do not wait for it, but SQLite's write-ahead log grows until it ends.
pub(super) async fn examine(readers: &SqlitePool, limit: usize) -> Result<Examined, SqliteFailure> {
    let mut reading = readers.begin().await?;
    let mut examined = Examined {
        counters: counts(&mut reading).await?,
        rows: count(&mut reading).await?,
        ..Examined::default()
    };
    for (fault, sql) in FAULTS {
        look_for(&mut reading, fault, sql, limit, &mut examined).await?;
    }
    Ok(examined)
}

/// The statement that finds each fault: the first notifications that have it, each row with the total number.
const FAULTS: [(Fault, &str); 2] = [
    (
        Fault::NoBody,
        "SELECT topic, id, count(*) OVER () FROM notifications AS n INDEXED BY registered_scheduled
         WHERE state = 'scheduled'
           AND NOT EXISTS (SELECT 1 FROM payloads AS p WHERE p.notification = n.row_id)
         ORDER BY row_id LIMIT ?",
    ),
    (
        Fault::NoAcknowledgement,
        "SELECT topic, id, count(*) OVER () FROM notifications AS n
         WHERE state = 'delivered'
           AND NOT EXISTS (SELECT 1 FROM attempts AS a
                           WHERE a.notification = n.row_id AND a.outcome = 'acknowledged')
         ORDER BY row_id LIMIT ?",
    ),
];

async fn count(connection: &mut SqliteConnection) -> Result<JournalCounts, SqliteFailure> {
    let found = sqlx::query("SELECT state, count(*) FROM notifications GROUP BY state")
        .fetch_all(connection)
        .await?;
    Ok(Fields::state_counts(&found)?)
}

async fn look_for(
    connection: &mut SqliteConnection,
    fault: Fault,
    sql: &'static str,
    limit: usize,
    examined: &mut Examined,
) -> Result<(), SqliteFailure> {
    // At least one row is needed, since a row contains the total number.
    let found = sqlx::query(sql)
        .bind(limit_of(limit.max(1)))
        .fetch_all(connection)
        .await?;
    Ok(Fields::faults(&found, fault, limit, examined)?)
}

/// The numbers of notifications by state, as the counters give them.
pub(super) async fn counts(
    connection: &mut SqliteConnection,
) -> Result<JournalCounts, SqliteFailure> {
    let found = sqlx::query("SELECT name, many FROM counts")
        .fetch_all(connection)
        .await?;
    let mut counts = JournalCounts::default();
    for row in &found {
        let mut fields = Fields::of(row);
        let (name, many): (&str, i64) = (fields.take()?, fields.take()?);
        let many = u64::try_from(many).map_err(|_| {
            JournalError::Corrupt(format!("a counter has the negative value {many}"))
        })?;
        match name {
            "registered" => counts.registered = many,
            "scheduled" => counts.scheduled = many,
            "delivered" => counts.delivered = many,
            "dead" => counts.dead = many,
            "cancelled" => counts.cancelled = many,
            _ => {
                return Err(
                    JournalError::Corrupt(format!("there is an unknown counter `{name}`")).into(),
                );
            }
        }
    }
    Ok(counts)
}
