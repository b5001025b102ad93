//! Recording a batch of attempts and applying their decisions.
//!
//! Nearly every notification still has the progress that it had before its attempt. So the usual batch is
//! one statement (`advance.rs`). It updates the notifications that have the expected progress, inserts
//! their attempts, and returns their indexes. The other recordings are executed in a second transaction: it
//! locks and reads the notifications, applies the decisions one by one, and writes the results.
//!
//! If the second transaction fails, the call fails although a part of the batch was kept. When the call is
//! repeated, that part is found and is not written again.

use super::advance::advance;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::lock;
use super::statements::{insert_attempts, insert_history, kept_attempts, update_statuses};
use crate::domain::key::Key;
use crate::journal::expected_advance::ExpectedAdvance;
use crate::journal::recording_batch::{AttemptRow, BatchWrites, RecordingBatch, RecordingReplies};
use crate::journal::{Recorded, Recording};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

/// See [`crate::journal::JournalWrites::record`].
pub(super) struct RecordAttempts<'batch> {
    pub(super) batch: &'batch [Recording],
    pub(super) instance: &'batch Arc<str>,
}

#[async_trait]
impl PostgresCall for RecordAttempts<'_> {
    type Reply = Vec<Recorded>;

    async fn run(&self, connection: &mut PgConnection) -> Result<Vec<Recorded>, PostgresFailure> {
        let expected = ExpectedAdvance::all_of(self.batch);
        let applied = advance(connection, &expected, self.instance).await?;
        let replies = RecordingReplies::of(self.batch.len(), applied);
        let left = replies.left();
        let others = self.record_locked(connection, &left).await?;
        Ok(replies.with(left, others))
    }
}

impl RecordAttempts<'_> {
    /// Locks the notifications of these recordings, and applies the recordings one after the other, each to
    /// the result of those before it.
    async fn record_locked(
        &self,
        connection: &mut PgConnection,
        indexes: &[usize],
    ) -> Result<Vec<Recorded>, PostgresFailure> {
        if indexes.is_empty() {
            return Ok(Vec::new());
        }
        let mut transaction = connection.begin().await?;
        let keys: Vec<&Key> = indexes
            .iter()
            .map(|index| &self.batch[*index].key)
            .collect();
        let known = lock(&mut transaction, &keys).await?;
        let mut recordings = RecordingBatch::of(known, self.instance);
        let rows: Vec<AttemptRow<'_>> = indexes
            .iter()
            .filter_map(|index| recordings.attempt(&self.batch[*index]))
            .collect();
        recordings.mark_kept(kept_attempts(&mut transaction, &rows).await?);
        let replies = indexes
            .iter()
            .map(|index| recordings.apply(&self.batch[*index]))
            .collect();
        let BatchWrites {
            attempts,
            advanced,
            mut history,
        } = recordings.into_writes();
        // The line `delivered` needs no row: it follows from the attempt (`reads.rs`).
        history.retain(|row| row.line.kind != "delivered");
        insert_attempts(&mut transaction, &attempts, self.instance).await?;
        update_statuses(&mut transaction, &advanced).await?;
        insert_history(&mut transaction, &history).await?;
        transaction.commit().await?;
        Ok(replies)
    }
}
