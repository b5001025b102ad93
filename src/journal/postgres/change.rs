//! Applying changes by hand, and adding lines to histories.

use super::audit_log;
use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::{load, lock};
use super::order;
use super::reads::delivered_line;
use super::set_aside;
use super::statements::{insert_history, update_statuses};
use crate::domain::key::Key;
use crate::domain::state::State;
use crate::journal::history::HistoryRow;
use crate::journal::rows::StoredNotification;
use crate::journal::{ChangeResult, Changing, Noting, PersonAct, effect, history};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

/// See [`crate::journal::JournalWrites::change`].
pub(super) struct ApplyChange<'call> {
    pub(super) changing: &'call Changing,
    pub(super) instance: &'call Arc<str>,
}

#[async_trait]
impl PostgresCall for ApplyChange<'_> {
    type Reply = ChangeResult;

    async fn run(&self, connection: &mut PgConnection) -> Result<ChangeResult, PostgresFailure> {
        let Self { changing, instance } = self;
        let mut transaction = connection.begin().await?;
        let key = changing.lease.key();
        let mut known = lock(&mut transaction, &[key]).await?;
        let Some(mut stored) = known.remove(key) else {
            transaction.rollback().await?;
            return Ok(ChangeResult::Missing);
        };
        let before = stored.clone();
        let line = match effect::change(&mut stored.snapshot, changing) {
            Ok(line) => line,
            Err(refused) => {
                transaction.rollback().await?;
                return Ok(refused);
            }
        };
        let needs_payload = changing.change.needs_payload();
        let groups = order::latest_groups(needs_payload.then_some(&before.snapshot).into_iter());
        order::lock_groups(&mut transaction, groups).await?;
        if needs_payload && order::has_higher(&mut transaction, &before.snapshot).await? {
            transaction.rollback().await?;
            return Ok(ChangeResult::Superseded(Box::new(before.snapshot)));
        }
        // Pruning locks the status before it deletes the payload, so it waits until this transaction ends.
        if needs_payload && !has_payload(&mut transaction, stored.row_id).await? {
            transaction.rollback().await?;
            return Ok(ChangeResult::PayloadDeleted(Box::new(before.snapshot)));
        }
        stored.note_priority(changing);
        let delivered = delivery_of(&mut transaction, &before).await?;
        let released = set_aside::release(&mut transaction, key).await?;
        let change = history::of_change(stored.row_id, changing, line, released, instance);
        let lines: Vec<HistoryRow> = delivered.into_iter().chain(change).collect();
        update_statuses(&mut transaction, std::slice::from_ref(&stored)).await?;
        insert_history(&mut transaction, &lines).await?;
        let act = PersonAct::of_change(changing, &stored.snapshot);
        audit_log::keep(&mut transaction, instance, &act).await?;
        // If the connection breaks now, the change may already be committed. A second try would be refused
        // then, although the change was made. So the call is not repeated, and the caller looks for the change
        // ([`Changing::is_applied`]).
        let committed = transaction.commit().await;
        committed.map_err(|error| PostgresFailure::from(error).in_doubt())?;
        Ok(ChangeResult::Done(Box::new(stored.snapshot)))
    }
}

/// Applies changes by hand to different notifications within a transaction. If one of the results is
/// [`ChangeResult::Fenced`], the caller must roll back.
pub(super) async fn change_all(
    connection: &mut PgConnection,
    changes: &[Changing],
    instance: &Arc<str>,
) -> Result<Vec<ChangeResult>, PostgresFailure> {
    let keys: Vec<&Key> = changes.iter().map(|one| one.lease.key()).collect();
    let mut known = lock(connection, &keys).await?;
    // All of them before the first change, as registrations do: two transactions that lock some of the same orders one by one
    // would wait for each other.
    let sent_again = changes.iter().filter(|one| one.change.needs_payload());
    let sent_again = sent_again.filter_map(|one| {
        let snapshot = &known.get(one.lease.key())?.snapshot;
        let is_done = effect::change(&mut snapshot.clone(), one).is_ok();
        is_done.then_some(snapshot)
    });
    let groups = order::latest_groups(sent_again);
    order::lock_groups(connection, groups).await?;
    let mut results = Vec::with_capacity(changes.len());
    let (mut changed, mut lines) = (Vec::new(), Vec::new());
    for changing in changes {
        let key = changing.lease.key();
        let Some(mut stored) = known.remove(key) else {
            results.push(ChangeResult::Missing);
            continue;
        };
        let before = stored.clone();
        let line = match effect::change(&mut stored.snapshot, changing) {
            Ok(line) => line,
            Err(refused) => {
                results.push(refused);
                continue;
            }
        };
        if changing.change.needs_payload()
            && order::has_higher(connection, &before.snapshot).await?
        {
            results.push(ChangeResult::Superseded(Box::new(before.snapshot)));
            continue;
        }
        // Last, since it may move the body.
        if changing.change.needs_payload() && !has_payload(connection, stored.row_id).await? {
            results.push(ChangeResult::PayloadDeleted(Box::new(before.snapshot)));
            continue;
        }
        stored.note_priority(changing);
        lines.extend(delivery_of(connection, &before).await?);
        let released = match before.snapshot.set_aside {
            Some(_) => set_aside::release(connection, key).await?,
            None => None,
        };
        lines.extend(history::of_change(
            stored.row_id,
            changing,
            line,
            released,
            instance,
        ));
        results.push(ChangeResult::Done(Box::new(stored.snapshot.clone())));
        changed.push(stored);
    }
    update_statuses(connection, &changed).await?;
    insert_history(connection, &lines).await?;
    Ok(results)
}

/// Whether the body of a notification is there. If its partition is being emptied, the body is moved out of it, since it is
/// needed again from now on.
async fn has_payload(connection: &mut PgConnection, row_id: i64) -> Result<bool, PostgresFailure> {
    let found = sqlx::query_scalar(
        "WITH moved AS (
            UPDATE payloads SET kept = TRUE
            WHERE notification = $1 AND NOT kept AND notification < (
                SELECT CAST(split_part(value, '/', 1) AS BIGINT)
                FROM meta WHERE name = 'kept:payloads_live'
            )
         )
         SELECT EXISTS (SELECT 1 FROM payloads WHERE notification = $1)",
    )
    .bind(row_id)
    .fetch_one(connection)
    .await?;
    Ok(found)
}

/// The line `delivered` of a notification that is delivered and gets a new series now. While it was delivered,
/// the line followed from its state and its attempts (`reads.rs`). From now on it needs a row.
async fn delivery_of(
    connection: &mut PgConnection,
    before: &StoredNotification,
) -> Result<Option<HistoryRow>, PostgresFailure> {
    if before.snapshot.state != State::Delivered {
        return Ok(None);
    }
    let line = delivered_line(connection, before).await?;
    Ok(line.map(|line| history::of_delivery(before.row_id, line)))
}

/// See [`crate::journal::JournalMaintenance::note`].
pub(super) struct AddNotes<'call> {
    pub(super) notes: &'call [Noting],
    pub(super) instance: &'call Arc<str>,
}

#[async_trait]
impl PostgresCall for AddNotes<'_> {
    type Reply = ();

    async fn run(&self, connection: &mut PgConnection) -> Result<(), PostgresFailure> {
        let keys: Vec<&Key> = self.notes.iter().map(|note| &note.key).collect();
        let known = load(connection, &keys).await?;
        let lines = history::of_notes(self.notes, &known, self.instance);
        let kept = insert_history(connection, &lines).await;
        kept.map_err(PostgresFailure::in_doubt)
    }
}
