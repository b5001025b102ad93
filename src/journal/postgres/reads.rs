//! Look-ups of notifications by their keys. Lists are in a file of their own.

use super::PostgresJournal;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::later;
use super::list;
use super::load::load;
use super::pending::{self, is_set_aside};
use super::session::HISTORY_AS_OF_NOW;
use super::statements::integer;
use crate::domain::attempt::Attempt;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::later::{LaneAfter, LaterCount};
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::rows::{Fields, StoredNotification};
use crate::journal::sql_values::limit_of;
use crate::journal::{
    BodyReading, Cursor, Filter, FoundStanding, JournalError, JournalReads, MOST_ATTEMPTS_SHOWN,
    MOST_TRANSITIONS_SHOWN, Order, PageBodies, Payload, Pending, SnapshotPage, Transition, history,
};
use async_trait::async_trait;
use bytes::Bytes;
use sqlx::Connection as _;
use sqlx::postgres::{PgBindIterExt as _, PgConnection};

#[async_trait]
impl JournalReads for PostgresJournal {
    fn id(&self) -> &str {
        &self.id
    }

    async fn find(&self, key: &Key) -> Result<Option<Snapshot>, JournalError> {
        self.connections.read(&FindOne(key)).await
    }

    async fn snapshots(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        self.connections.read(&FindSnapshots(keys)).await
    }

    async fn standings(&self, keys: &[Key]) -> Result<Vec<FoundStanding>, JournalError> {
        self.connections.read(&FindStandings(keys)).await
    }

    async fn transitions(&self, key: &Key) -> Result<Vec<Transition>, JournalError> {
        self.connections.read(&FindTransitions(key)).await
    }

    async fn pending(&self, key: &Key) -> Result<Option<Pending>, JournalError> {
        self.connections.read(&pending::FindPending(key)).await
    }

    async fn pendings(&self, keys: &[Key]) -> Result<Vec<Option<Pending>>, JournalError> {
        let bodies = PageBodies::None;
        let call = pending::FindPendings { keys, bodies };
        self.connections.read(&call).await
    }

    async fn pendings_with_bodies(
        &self,
        keys: &[Key],
    ) -> Result<Vec<Option<Pending>>, JournalError> {
        let bodies = PageBodies::All;
        let call = pending::FindPendings { keys, bodies };
        self.connections.read(&call).await
    }

    async fn payload(&self, key: &Key, body: BodyReading) -> Result<Option<Payload>, JournalError> {
        let call = pending::FindPayload { key, body };
        self.connections.read(&call).await
    }

    async fn bodies(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, JournalError> {
        self.connections.read(&pending::FindBodies(keys)).await
    }

    async fn last_attempts(&self, keys: &[Key]) -> Result<Vec<Option<Attempt>>, JournalError> {
        self.connections.read(&FindLastAttempts(keys)).await
    }

    async fn later_lanes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Lane>, JournalError> {
        let call = later::FindLaterLanes { after, limit };
        self.connections.read(&call).await
    }

    async fn count_later(
        &self,
        lanes: &[LaneAfter],
        most: usize,
    ) -> Result<Vec<LaterCount>, JournalError> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let call = later::CountLater { lanes, most };
        self.connections.read(&call).await
    }

    async fn list_scanned(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
        most_scanned: usize,
    ) -> Result<SnapshotPage, JournalError> {
        let call = list::FindListPage {
            filter,
            order,
            cursor,
            limit,
            most_scanned,
        };
        self.connections.read(&call).await
    }
}

/// See [`crate::journal::JournalReads::find`].
pub(super) struct FindOne<'call>(pub(super) &'call Key);

#[async_trait]
impl PostgresCall for FindOne<'_> {
    type Reply = Option<Snapshot>;

    async fn run(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Option<Snapshot>, PostgresFailure> {
        let mut reading = connection.begin_with(HISTORY_AS_OF_NOW).await?;
        let stored = load(&mut reading, &[self.0]).await?.remove(self.0);
        let mut found = None;
        if let Some(stored) = stored {
            let attempts = sqlx::query(
                "SELECT series, number, due_ms, started_ms, duration_ms, outcome, status, answer,
                    reason, trace
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

/// See [`crate::journal::JournalReads::snapshots`].
pub(super) struct FindSnapshots<'call>(pub(super) &'call [Key]);

#[async_trait]
impl PostgresCall for FindSnapshots<'_> {
    type Reply = Vec<Option<Snapshot>>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let keys: Vec<&Key> = self.0.iter().collect();
        let known = load(connection, &keys).await?;
        let stands = |key| known.get(key).map(|stored| stored.snapshot.clone());
        Ok(self.0.iter().map(stands).collect())
    }
}

/// Looks up each key by itself, so that the plan does not depend on PostgreSQL's statistics.
const STANDINGS: &str = concat!(
    "SELECT n.topic, n.id, n.lane, s.state, s.series, s.step, s.attempts, s.first_due_ms, s.deadline_ms, s.due_ms,
        s.retry_at_ms, s.clamped, ",
    is_set_aside!(),
    " FROM unnest($1::TEXT[], $2::TEXT[]) AS g (topic, id)
     CROSS JOIN LATERAL (
        SELECT row_id, topic, id, lane FROM notifications AS n WHERE n.topic = g.topic AND n.id = g.id OFFSET 0
     ) AS n
     CROSS JOIN LATERAL (
        SELECT * FROM statuses AS s WHERE s.notification = n.row_id OFFSET 0
     ) AS s"
);

/// See [`crate::journal::JournalReads::standings`].
struct FindStandings<'call>(&'call [Key]);

#[async_trait]
impl PostgresCall for FindStandings<'_> {
    type Reply = Vec<FoundStanding>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let found = sqlx::query(STANDINGS)
            .bind(self.0.iter().map(Key::topic).bind_iter())
            .bind(self.0.iter().map(Key::id).bind_iter())
            .fetch_all(connection)
            .await?;
        Ok(Fields::standings(&found, self.0)?)
    }
}

/// See [`crate::journal::JournalReads::last_attempts`].
struct FindLastAttempts<'call>(&'call [Key]);

#[async_trait]
impl PostgresCall for FindLastAttempts<'_> {
    type Reply = Vec<Option<Attempt>>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let found = sqlx::query(
            "SELECT g.topic, g.id, a.series, a.number, a.due_ms, a.started_ms, a.duration_ms, a.outcome, a.status,
                ''::BYTEA, a.reason, ''
             FROM unnest($1::TEXT[], $2::TEXT[]) AS g (topic, id)
             CROSS JOIN LATERAL (
                SELECT row_id FROM notifications WHERE topic = g.topic AND id = g.id OFFSET 0
             ) AS n
             CROSS JOIN LATERAL (
                SELECT * FROM attempts WHERE notification = n.row_id
                ORDER BY series DESC, number DESC, started_ms DESC, outcome DESC LIMIT 1
             ) AS a",
        )
        .bind(self.0.iter().map(Key::topic).bind_iter())
        .bind(self.0.iter().map(Key::id).bind_iter())
        .fetch_all(connection)
        .await?;
        Ok(Fields::attempts_by_key(&found, self.0)?)
    }
}

/// See [`crate::journal::JournalReads::transitions`].
pub(super) struct FindTransitions<'call>(pub(super) &'call Key);

#[async_trait]
impl PostgresCall for FindTransitions<'_> {
    type Reply = Vec<Transition>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<Transition>, PostgresFailure> {
        let mut reading = connection.begin_with(HISTORY_AS_OF_NOW).await?;
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

/// The notification's own lines of the history, at most [`MOST_TRANSITIONS_SHOWN`]. Two lines have no row in
/// `transitions`: `registered` follows from the notification, `delivered` from its attempts.
async fn own_lines(
    reading: &mut PgConnection,
    key: &Key,
) -> Result<Vec<Transition>, PostgresFailure> {
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
    if stored.snapshot.state == State::Delivered
        && let Some(delivered) = delivered_line(reading, &stored).await?
    {
        // Only lines that were added without a change can be later than the delivery. What it ended as before a late
        // delivery comes before that, also if the server that records the delivery had read its clock before.
        let before = |line: &Transition| {
            line.at_ms <= delivered.at_ms || matches!(line.kind.as_str(), "parked" | "cancelled")
        };
        let index = lines.iter().rposition(before).map_or(0, |last| last + 1);
        lines.insert(index.max(lines.len().min(1)), delivered);
    }
    let more = lines.len().saturating_sub(MOST_TRANSITIONS_SHOWN);
    Ok(lines.split_off(more))
}

/// The line `delivered` of the last series. It follows from the first acknowledged attempt of this series: this
/// attempt ended the series. The deliveries of earlier series have rows (`change.rs`).
pub(super) async fn delivered_line(
    reading: &mut PgConnection,
    stored: &StoredNotification,
) -> Result<Option<Transition>, PostgresFailure> {
    let found = sqlx::query(
        "SELECT 'delivered', at_ms, 'dispatcher', instance, '' FROM attempts
         WHERE notification = $1 AND series = $2 AND outcome = 'acknowledged'
         ORDER BY row_id LIMIT 1",
    )
    .bind(stored.row_id)
    .bind(integer(stored.snapshot.progress.series))
    .fetch_optional(reading)
    .await?;
    let line = found.map(|row| Fields::of(&row).transition());
    Ok(line.transpose()?)
}

async fn rebuilds(
    reading: &mut PgConnection,
    since_ms: i64,
) -> Result<Vec<Transition>, PostgresFailure> {
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
