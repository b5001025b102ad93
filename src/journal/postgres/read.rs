//! Reading one notification, and how many there are.

use super::connections::Call;
use super::error::Failure;
use super::load::{load, payload_columns, stored_columns};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::rows::{Fields, Ladders};
use crate::journal::{
    Bodies, JournalCounts, JournalError, MOST_ATTEMPTS_SHOWN, MOST_TRANSITIONS_SHOWN, Pending,
    Transition, history, limit_of,
};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

/// Begins a transaction in which everything is seen as of the same instant.
pub(super) const AS_OF_NOW: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// See [`crate::journal::Journal::find`].
pub(super) struct Find<'call>(pub(super) &'call Key);

#[async_trait]
impl Call for Find<'_> {
    type Reply = Option<Snapshot>;

    async fn make(&self, connection: &mut PgConnection) -> Result<Option<Snapshot>, Failure> {
        let mut reading = connection.begin_with(AS_OF_NOW).await?;
        let stored = load(&mut reading, &[self.0]).await?.remove(self.0);
        let mut found = None;
        if let Some(stored) = stored {
            let attempts = sqlx::query(
                "SELECT series, number, due_ms, started_ms, duration_ms, outcome, status, answer,
                    reason
                 FROM (
                    SELECT * FROM attempts WHERE notification = $1 ORDER BY row_id DESC LIMIT $2
                 ) AS last
                 ORDER BY row_id",
            )
            .bind(stored.row_id)
            .bind(limit_of(MOST_ATTEMPTS_SHOWN))
            .fetch_all(&mut *reading)
            .await?;
            let attempts: Result<_, JournalError> = attempts
                .iter()
                .map(|row| Fields::of(row).attempt())
                .collect();
            found = Some(Snapshot {
                attempts: attempts?,
                ..stored.snapshot
            });
        }
        reading.rollback().await?;
        Ok(found)
    }
}

/// See [`crate::journal::Journal::snapshots`].
pub(super) struct Snapshots<'call>(pub(super) &'call [Key]);

#[async_trait]
impl Call for Snapshots<'_> {
    type Reply = Vec<Option<Snapshot>>;

    async fn make(&self, connection: &mut PgConnection) -> Result<Self::Reply, Failure> {
        let keys: Vec<&Key> = self.0.iter().collect();
        let known = load(connection, &keys).await?;
        let stands = |key| known.get(key).map(|stored| stored.snapshot.clone());
        Ok(self.0.iter().map(stands).collect())
    }
}

/// See [`crate::journal::Journal::transitions`].
pub(super) struct Transitions<'call>(pub(super) &'call Key);

#[async_trait]
impl Call for Transitions<'_> {
    type Reply = Vec<Transition>;

    async fn make(&self, connection: &mut PgConnection) -> Result<Vec<Transition>, Failure> {
        let mut reading = connection.begin_with(AS_OF_NOW).await?;
        let lines = own_lines(&mut reading, self.0).await?;
        let lines = match lines.first() {
            Some(first) => {
                let rebuilds = rebuilds(&mut reading, first.at_ms).await?;
                history::with_rebuilds(lines, rebuilds)
            }
            None => lines,
        };
        reading.rollback().await?;
        Ok(lines)
    }
}

/// The lines that are kept, between the first and the last one that are not: that it was registered
/// and that it was delivered stand elsewhere.
async fn own_lines(reading: &mut PgConnection, key: &Key) -> Result<Vec<Transition>, Failure> {
    let Some(stored) = load(reading, &[key]).await?.remove(key) else {
        return Ok(Vec::new());
    };
    let registered = sqlx::query(
        "SELECT 'registered', registered_ms, actor, instance, '' FROM notifications
         WHERE row_id = $1",
    )
    .bind(stored.row_id)
    .fetch_all(&mut *reading)
    .await?;
    let kept = sqlx::query(
        "SELECT kind, at_ms, actor, instance, detail
         FROM (
            SELECT * FROM transitions WHERE notification = $1 ORDER BY row_id DESC LIMIT $2
         ) AS last
         ORDER BY row_id",
    )
    .bind(stored.row_id)
    .bind(limit_of(MOST_TRANSITIONS_SHOWN))
    .fetch_all(&mut *reading)
    .await?;
    let mut lines = Fields::transitions(registered.iter().chain(&kept))?;
    if stored.snapshot.state == State::Delivered {
        // The first acknowledgement in a series that has not ended ends it; there is no other.
        let delivered = sqlx::query(
            "SELECT 'delivered', at_ms, 'dispatcher', instance, '' FROM attempts
             WHERE notification = $1 AND series = $2 AND outcome = 'acknowledged'
             ORDER BY row_id LIMIT 1",
        )
        .bind(stored.row_id)
        .bind(super::statements::integer(stored.snapshot.progress.series))
        .fetch_optional(&mut *reading)
        .await?;
        if let Some(delivered) = delivered {
            let delivered = Fields::of(&delivered).transition()?;
            // Only notes can have come later.
            let before = |line: &Transition| line.at_ms <= delivered.at_ms;
            let place = lines.iter().rposition(before).map_or(0, |last| last + 1);
            lines.insert(place.max(lines.len().min(1)), delivered);
        }
    }
    let more = lines.len().saturating_sub(MOST_TRANSITIONS_SHOWN);
    Ok(lines.split_off(more))
}

async fn rebuilds(reading: &mut PgConnection, since_ms: i64) -> Result<Vec<Transition>, Failure> {
    let found = sqlx::query(
        "SELECT 'restored', at_ms, actor, instance, reason
         FROM (
            SELECT * FROM rebuilds WHERE at_ms >= $1 ORDER BY at_ms DESC, row_id DESC LIMIT $2
         ) AS last
         ORDER BY at_ms, row_id",
    )
    .bind(since_ms)
    .bind(limit_of(MOST_TRANSITIONS_SHOWN))
    .fetch_all(reading)
    .await?;
    Ok(Fields::transitions(&found)?)
}

/// See [`crate::journal::Journal::pending`].
pub(super) struct FindPending<'call>(pub(super) &'call Key);

#[async_trait]
impl Call for FindPending<'_> {
    type Reply = Option<Pending>;

    async fn make(&self, connection: &mut PgConnection) -> Result<Option<Pending>, Failure> {
        let found = sqlx::query(concat!(
            "SELECT ",
            stored_columns!(),
            ", ",
            payload_columns!("p"),
            " FROM notifications AS n
              JOIN statuses AS s ON s.notification = n.row_id
              LEFT JOIN payloads AS p ON p.notification = n.row_id
              WHERE n.topic = $1 AND n.id = $2 AND s.state = 'scheduled' AND NOT EXISTS (
                SELECT 1 FROM set_aside AS a WHERE a.topic = n.topic AND a.id = n.id
              )"
        ))
        .bind(self.0.topic())
        .bind(self.0.id())
        .fetch_optional(connection)
        .await?;
        let pending =
            found.map(|row| Fields::of(&row).pending(&mut Ladders::default(), Bodies::Read));
        Ok(pending.transpose()?)
    }
}

/// See [`crate::journal::Journal::counts`].
pub(super) struct Counts;

#[async_trait]
impl Call for Counts {
    type Reply = JournalCounts;

    async fn make(&self, connection: &mut PgConnection) -> Result<JournalCounts, Failure> {
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
            u64::try_from(many).map_err(|_| JournalError::Corrupt(format!("a count of {many}")))
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
