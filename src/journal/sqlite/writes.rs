//! Registering, recording and changing notifications, raising fences, and adding lines to histories. Each
//! call is one transaction.

use super::SqliteJournal;
use super::advance::advance;
use super::audit_log;
use super::error::SqliteFailure;
use super::lanes;
use super::load::{load, pendings};
use super::order;
use super::set_aside;
use super::statements::{
    has_payload, insert_attempts, insert_history, insert_notifications, is_kept,
    update_notifications,
};
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::snapshot::Snapshot;
use crate::journal::effect::{self, HistoryLine};
use crate::journal::history::{self, HistoryRow};
use crate::journal::ordering;
use crate::journal::recording_batch::{BatchWrites, RecordingBatch, RecordingReplies};
use crate::journal::rows::StoredNotification;
use crate::journal::{
    ChangeResult, Changing, JournalError, JournalWrites, LaneOrder, Noting, PageBodies, Pending,
    PersonAct, Recorded, Recording, RegisterResult, Registering, SettingAside,
};
use async_trait::async_trait;
use sqlx::SqliteConnection;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

#[async_trait]
impl JournalWrites for SqliteJournal {
    async fn register(&self, batch: &[Registering]) -> Result<Vec<RegisterResult>, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let replies = register(transaction.connection(), &self.instance, batch).await?;
        transaction.commit().await?;
        Ok(replies)
    }

    async fn record(&self, batch: &[Recording]) -> Result<Vec<Recorded>, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let replies = record(transaction.connection(), &self.instance, batch).await?;
        transaction.commit().await?;
        Ok(replies)
    }

    async fn fence(&self, keys: &[Key]) -> Result<Vec<Option<Snapshot>>, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let snapshots = fence(transaction.connection(), keys).await?;
        transaction.commit().await?;
        Ok(snapshots)
    }

    async fn fence_pendings(&self, keys: &[Key]) -> Result<Vec<Option<Pending>>, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        fence(transaction.connection(), keys).await?;
        let found = pendings(transaction.connection(), keys, PageBodies::All).await?;
        transaction.commit().await?;
        Ok(found)
    }

    async fn change(&self, changing: Changing) -> Result<ChangeResult, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let reply = change(transaction.connection(), &self.instance, &changing).await?;
        match &reply {
            ChangeResult::Done(after) => {
                let act = PersonAct::of_change(&changing, after);
                audit_log::keep(transaction.connection(), &self.instance, &act).await?;
                transaction.commit().await?;
            }
            ChangeResult::Refused(_)
            | ChangeResult::Fenced(_)
            | ChangeResult::PayloadDeleted(_)
            | ChangeResult::Superseded(_)
            | ChangeResult::Missing => transaction.release().await?,
        }
        Ok(reply)
    }

    async fn change_lane(&self, order: &LaneOrder) -> Result<i64, JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        let (number, act) = lanes::change(transaction.connection(), &self.instance, order).await?;
        if let Some(act) = act {
            audit_log::keep(transaction.connection(), &self.instance, &act).await?;
        }
        transaction.commit().await?;
        Ok(number)
    }

    async fn set_aside(&self, setting: &SettingAside) -> Result<(), JournalError> {
        let mut transaction = self.writer()?.begin().await?;
        set_aside::set_aside(transaction.connection(), &self.instance, setting).await?;
        Ok(transaction.commit().await?)
    }
}

/// Registers a batch of notifications. No other connection writes meanwhile, so a key that the look-up does
/// not find is new.
pub(super) async fn register(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    batch: &[Registering],
) -> Result<Vec<RegisterResult>, SqliteFailure> {
    let keys: Vec<&Key> = batch.iter().map(|one| &one.notification.key).collect();
    let mut known: HashMap<Key, Snapshot> = load(connection, &keys)
        .await?
        .into_iter()
        .map(|(key, stored)| (key, stored.snapshot))
        .collect();
    let highest: i64 = sqlx::query_scalar("SELECT ifnull(max(row_id), 0) FROM notifications")
        .fetch_one(&mut *connection)
        .await?;
    let mut row_ids = highest + 1..;
    let mut added: Vec<(StoredNotification, &Notification)> = Vec::new();
    let mut history = Vec::new();
    let mut replies = Vec::with_capacity(batch.len());
    for registering in batch {
        let notification = registering.notification.as_ref();
        let slot = match known.entry(notification.key.clone()) {
            Entry::Occupied(taken) => {
                replies.push(RegisterResult::Existing(Box::new(taken.get().clone())));
                continue;
            }
            Entry::Vacant(slot) => slot,
        };
        if let Some(place) = ordering::place_to_check(registering) {
            // What was added before is looked for.
            insert_notifications(connection, &added).await?;
            insert_history(connection, &history).await?;
            added.clear();
            history.clear();
            let row_id = row_ids.next().expect("invariant: the range has no end");
            let registered =
                order::register(connection, instance, registering, place, row_id).await?;
            if let Some(snapshot) = &registered.snapshot {
                slot.insert(snapshot.clone());
            }
            for ended in &registered.ended {
                known.insert(ended.key.clone(), ended.clone());
            }
            replies.push(registered.into_reply());
            continue;
        }
        let row_id = row_ids.next().expect("invariant: the range has no end");
        let snapshot = slot.insert(Snapshot::of_new(notification, registering.progress));
        added.push((
            StoredNotification::of_new(row_id, snapshot.clone()),
            notification,
        ));
        history.push(HistoryRow {
            notification: row_id,
            at_ms: notification.registered_ms,
            line: HistoryLine {
                kind: "registered",
                detail: String::new(),
            },
            actor: registering.actor.clone(),
            instance: instance.clone(),
        });
        replies.push(RegisterResult::Created);
    }
    insert_notifications(connection, &added).await?;
    insert_history(connection, &history).await?;
    Ok(replies)
}

/// Records a batch of attempts and applies their decisions. Nearly every notification still has the progress that it had
/// before its attempt (`advance.rs`). The others are read, and the recordings are applied one after the other, each to the
/// result of those before it.
pub(super) async fn record(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    batch: &[Recording],
) -> Result<Vec<Recorded>, SqliteFailure> {
    let applied = advance(connection, instance, batch).await?;
    let replies = RecordingReplies::of(batch.len(), applied);
    let left = replies.left();
    let others = left.iter().map(|index| &batch[*index]).collect();
    let others = record_others(connection, instance, others).await?;
    Ok(replies.with(left, others))
}

async fn record_others(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    batch: Vec<&Recording>,
) -> Result<Vec<Recorded>, SqliteFailure> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<&Key> = batch.iter().map(|one| &one.key).collect();
    let known = load(connection, &keys).await?;
    let mut recordings = RecordingBatch::of(known, instance);
    let mut replies = Vec::with_capacity(batch.len());
    for recording in batch {
        if let Some(row) = recordings.possible_repeat(recording)
            && is_kept(connection, &row).await?
        {
            recordings.mark_kept([row.identity()]);
        }
        replies.push(recordings.apply(recording));
    }
    let BatchWrites {
        attempts,
        advanced,
        history,
    } = recordings.into_writes();
    insert_attempts(connection, &attempts, instance).await?;
    update_notifications(connection, &advanced).await?;
    insert_history(connection, &history).await?;
    Ok(replies)
}

/// Adds lines to histories.
pub(super) async fn note(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    notes: &[Noting],
) -> Result<(), SqliteFailure> {
    let keys: Vec<&Key> = notes.iter().map(|note| &note.key).collect();
    let known = load(connection, &keys).await?;
    insert_history(connection, &history::of_notes(notes, &known, instance)).await
}

/// Applies a change by hand.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    changing: &Changing,
) -> Result<ChangeResult, SqliteFailure> {
    let key = changing.lease.key();
    let mut known = load(connection, &[key]).await?;
    let Some(mut stored) = known.remove(key) else {
        return Ok(ChangeResult::Missing);
    };
    let before = stored.snapshot.clone();
    let line = match effect::change(&mut stored.snapshot, changing) {
        Ok(line) => line,
        Err(refused) => return Ok(refused),
    };
    if changing.change.needs_payload() && order::has_higher(connection, &before).await? {
        return Ok(ChangeResult::Superseded(Box::new(before)));
    }
    // Pruning writes too, so no payload is deleted before this transaction ends.
    if changing.change.needs_payload() && !has_payload(connection, stored.row_id).await? {
        return Ok(ChangeResult::PayloadDeleted(Box::new(before)));
    }
    stored.note_priority(changing);
    let released = set_aside::release(connection, key).await?;
    let lines = history::of_change(stored.row_id, changing, line, released, instance);
    update_notifications(connection, std::slice::from_ref(&stored)).await?;
    insert_history(connection, &lines).await?;
    Ok(ChangeResult::Done(Box::new(stored.snapshot)))
}

/// Raises the fences of those of these notifications that are pending.
async fn fence(
    connection: &mut SqliteConnection,
    keys: &[Key],
) -> Result<Vec<Option<Snapshot>>, SqliteFailure> {
    let wanted: Vec<&Key> = keys.iter().collect();
    let known = load(connection, &wanted).await?;
    let (snapshots, raised) = effect::raise_fences(known, keys);
    update_notifications(connection, &raised).await?;
    Ok(snapshots)
}
