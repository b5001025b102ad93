//! The calls that maintenance makes to the journal. Recent changes, rebuilds and duties are in this file; the
//! other calls are in files of their own.

use super::PostgresJournal;
use super::audit_log;
use super::change;
use super::check;
use super::connections::PostgresCall;
use super::day;
use super::error::PostgresFailure;
use super::examination;
use super::lanes;
use super::later;
use super::meta;
use super::partitions::TendPartitions;
use super::pending;
use super::places;
use super::pruning;
use super::set_aside;
use super::statements::storable;
use crate::domain::key::Key;
use crate::domain::lane_settings::LaneChanges;
use crate::journal::PageBodies;
use crate::journal::rows::Fields;
use crate::journal::sql_values::limit_of;
use crate::journal::{
    AllSetAside, Cursor, DayReading, DaySelection, Examined, JournalCounts, JournalError,
    JournalMaintenance, LONGEST_DUTY_MS, Noting, PartitionWork, Pending, PersonAct, PlacesPage,
    Prune, Pruned, Rebuild,
};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;
use std::time::Duration;

/// How long reading every notification may take.
const LONGEST_EXAMINING: Duration = Duration::from_secs(3_600);

#[async_trait]
impl JournalMaintenance for PostgresJournal {
    async fn all_set_aside(&self, limit: usize) -> Result<AllSetAside, JournalError> {
        self.connections
            .read(&set_aside::FindSetAside { limit })
            .await
    }

    async fn pending_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
        bodies: PageBodies,
    ) -> Result<(Vec<Pending>, Option<Cursor>), JournalError> {
        let call = pending::FindPendingPage {
            cursor,
            until_ms,
            limit,
            bodies,
        };
        self.connections.read(&call).await
    }

    async fn places_page(
        &self,
        cursor: Option<Cursor>,
        until_ms: i64,
        limit: usize,
    ) -> Result<PlacesPage, JournalError> {
        let call = places::FindPlacesPage {
            cursor,
            until_ms,
            limit,
        };
        self.connections.read(&call).await
    }

    async fn changes(
        &self,
        from_ms: i64,
        until_ms: i64,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        let call = FindChanges {
            from_ms,
            until_ms,
            cursor,
            limit,
        };
        self.connections.read(&call).await
    }

    async fn lane_changes(&self, after: i64, limit: usize) -> Result<LaneChanges, JournalError> {
        let call = lanes::FindLaneChanges { after, limit };
        self.connections.read(&call).await
    }

    async fn fill_in_later(
        &self,
        cursor: Cursor,
        limit: usize,
    ) -> Result<(u64, Option<Cursor>), JournalError> {
        let call = later::FillInLater { cursor, limit };
        self.connections.write(&call).await
    }

    async fn note(&self, notes: &[Noting]) -> Result<(), JournalError> {
        let instance = &self.instance;
        let call = change::AddNotes { notes, instance };
        self.connections.write(&call).await
    }

    async fn rebuilding(&self, rebuild: &Rebuild) -> Result<(), JournalError> {
        let instance = &self.instance;
        let call = NoteRebuild { rebuild, instance };
        self.connections.write(&call).await
    }

    async fn prune(&self, prune: &Prune, limit: usize) -> Result<Pruned, JournalError> {
        let call = pruning::PruneOldest { prune, limit };
        self.connections.write(&call).await
    }

    async fn tend_partitions(&self, work: &PartitionWork) -> Result<Pruned, JournalError> {
        self.connections.write(&TendPartitions(work)).await
    }

    async fn duty(&self, name: &str, ttl_ms: i64) -> Result<bool, JournalError> {
        let call = TakeDuty {
            name,
            holder: &self.holder,
            ttl_ms,
        };
        self.connections.write(&call).await
    }

    async fn recall(&self, name: &str) -> Result<Option<String>, JournalError> {
        self.connections.read(&meta::RecallValue(name)).await
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), JournalError> {
        let call = meta::RememberValue { name, value };
        self.connections.write(&call).await
    }

    async fn counts(&self) -> Result<JournalCounts, JournalError> {
        self.connections.read(&examination::ReadCounts).await
    }

    async fn oldest_due(&self) -> Result<Option<i64>, JournalError> {
        self.connections.read(&pending::OldestDue).await
    }

    async fn count_due_by(&self, due_ms: i64, most: usize) -> Result<u64, JournalError> {
        let call = pending::CountDueBy { due_ms, most };
        self.connections.read(&call).await
    }

    async fn examine(&self, limit: usize) -> Result<Examined, JournalError> {
        let call = examination::Examine { limit };
        self.connections.read_within(&call, LONGEST_EXAMINING).await
    }

    async fn read_day(
        &self,
        selection: &DaySelection,
    ) -> Result<Box<dyn DayReading>, JournalError> {
        day::read_day(self.connections.options(), selection).await
    }

    async fn check(&self) -> Result<(), JournalError> {
        let call = check::Check {
            instance: &self.instance,
            after_failure: self.connections.last_write_failed(),
        };
        self.connections.write(&call).await
    }

    async fn keep_holding(&self) -> Result<(), JournalError> {
        self.take_lock_again().await
    }

    async fn close(&self) {
        let resigning = ResignDuties(&self.holder);
        if let Err(error) = self.connections.write(&resigning).await {
            tracing::debug!(
                %error,
                "this process could not give back its maintenance duties; duties that it has expire, and then \
                 other servers can take them"
            );
        }
        self.connections.close().await;
        *self.in_use.lock().await = None;
    }
}

/// See [`crate::journal::JournalMaintenance::changes`].
pub(super) struct FindChanges {
    pub(super) from_ms: i64,
    pub(super) until_ms: i64,
    pub(super) cursor: Option<Cursor>,
    pub(super) limit: usize,
}

#[async_trait]
impl PostgresCall for FindChanges {
    type Reply = (Vec<Key>, Option<Cursor>);

    async fn run(&self, connection: &mut PgConnection) -> Result<Self::Reply, PostgresFailure> {
        let after = self.cursor.unwrap_or(Cursor {
            at_ms: self.from_ms,
            row: i64::MIN,
        });
        let found = sqlx::query(
            "SELECT t.at_ms, t.row_id, n.topic, n.id
             FROM transitions AS t JOIN notifications AS n ON n.row_id = t.notification
             WHERE t.kind IN (
                'cancelled', 'discarded', 'replayed', 'resent', 'retried', 'rescheduled'
             )
                AND (t.at_ms, t.row_id) > ($1, $2) AND t.at_ms < $3
             ORDER BY t.at_ms, t.row_id LIMIT $4",
        )
        .bind(after.at_ms)
        .bind(after.row)
        .bind(self.until_ms)
        .bind(limit_of(self.limit))
        .fetch_all(connection)
        .await?;
        Ok(Fields::changes(&found, self.limit)?)
    }
}

/// See [`crate::journal::JournalMaintenance::rebuilding`].
pub(super) struct NoteRebuild<'call> {
    pub(super) rebuild: &'call Rebuild,
    pub(super) instance: &'call Arc<str>,
}

#[async_trait]
impl PostgresCall for NoteRebuild<'_> {
    type Reply = ();

    async fn run(&self, connection: &mut PgConnection) -> Result<(), PostgresFailure> {
        let mut transaction = connection.begin().await?;
        sqlx::query(
            "INSERT INTO rebuilds (at_ms, actor, instance, reason) VALUES ($1, $2, $3, $4)",
        )
        .bind(self.rebuild.at_ms)
        .bind(self.rebuild.actor.name())
        .bind(&**self.instance)
        .bind(storable(&self.rebuild.reason))
        .execute(&mut *transaction)
        .await?;
        let act = PersonAct::of_rebuild(self.rebuild);
        audit_log::keep(&mut transaction, self.instance, &act).await?;
        let committed = transaction.commit().await;
        committed.map_err(|error| PostgresFailure::from(error).in_doubt())?;
        Ok(())
    }
}

/// See [`crate::journal::JournalMaintenance::duty`].
pub(super) struct TakeDuty<'call> {
    pub(super) name: &'call str,
    pub(super) holder: &'call str,
    pub(super) ttl_ms: i64,
}

#[async_trait]
impl PostgresCall for TakeDuty<'_> {
    type Reply = bool;

    async fn run(&self, connection: &mut PgConnection) -> Result<bool, PostgresFailure> {
        let taken = sqlx::query(
            "WITH clock AS (
                SELECT (extract(epoch FROM clock_timestamp()) * 1000)::BIGINT AS now_ms
             )
             INSERT INTO duties (name, holder, until_ms) SELECT $1, $2, now_ms + $3 FROM clock
             ON CONFLICT (name) DO UPDATE SET
                holder = excluded.holder, until_ms = excluded.until_ms
             WHERE duties.holder = excluded.holder
                OR duties.until_ms <= excluded.until_ms - $3
                OR duties.until_ms > excluded.until_ms - $3 + $4",
        )
        .bind(self.name)
        .bind(self.holder)
        .bind(self.ttl_ms)
        .bind(LONGEST_DUTY_MS)
        .execute(connection)
        .await?;
        Ok(taken.rows_affected() == 1)
    }
}

/// Gives back all duties of a holder, so that other servers can take them at once.
pub(super) struct ResignDuties<'call>(pub(super) &'call str);

#[async_trait]
impl PostgresCall for ResignDuties<'_> {
    type Reply = ();

    async fn run(&self, connection: &mut PgConnection) -> Result<(), PostgresFailure> {
        sqlx::query("DELETE FROM duties WHERE holder = $1")
            .bind(self.0)
            .execute(connection)
            .await?;
        Ok(())
    }
}
