//! The writes: registering, recording, changing, fencing. Each runs within one transaction.

use super::error::Failure;
use super::load::load;
use super::set_aside;
use super::statements::{
    AttemptRow, HistoryRow, insert_attempts, insert_history, insert_notifications, is_kept,
    update_notifications,
};
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::effect::{self, Changes, Effect, Line};
use crate::journal::rows::Stored;
use crate::journal::{
    Actor, ChangeResult, Changing, Noting, Recorded, Recording, RegisterResult, Registering,
};
use sqlx::SqliteConnection;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Keeps a batch of notifications. Nobody else writes meanwhile, so what is not there when the
/// batch is looked up is new.
pub(super) async fn register(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    batch: &[Registering],
) -> Result<Vec<RegisterResult>, Failure> {
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
    let mut added: Vec<(Stored, &Notification)> = Vec::new();
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
        let row_id = row_ids.next().expect("invariant: the range has no end");
        let snapshot = slot.insert(Snapshot::of_new(notification, registering.progress));
        added.push((
            Stored {
                row_id,
                snapshot: snapshot.clone(),
            },
            notification,
        ));
        history.push(HistoryRow {
            notification: row_id,
            at_ms: notification.registered_ms,
            line: Line {
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

/// Keeps a batch of attempts and applies their decisions, in order.
pub(super) async fn record(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    batch: &[Recording],
) -> Result<Vec<Recorded>, Failure> {
    let keys: Vec<&Key> = batch.iter().map(|one| &one.key).collect();
    let mut known = load(connection, &keys).await?;
    let mut moved: BTreeMap<i64, Stored> = BTreeMap::new();
    let mut attempts = Vec::with_capacity(batch.len());
    let mut history = Vec::new();
    let mut replies = Vec::with_capacity(batch.len());
    for recording in batch {
        let Some(stored) = known.get_mut(&recording.key) else {
            replies.push(Recorded::Missing);
            continue;
        };
        let row = AttemptRow {
            notification: stored.row_id,
            attempt: &recording.attempt,
            instance: instance.clone(),
            at_ms: recording.at_ms,
        };
        let effect = effect::record(&mut stored.snapshot, recording);
        // One that moved the notification on cannot have been kept before.
        let repeated = match effect {
            Effect::Moved(_) => false,
            Effect::Unmoved | Effect::Stale => {
                attempts.iter().any(|kept| is_same(kept, &row)) || is_kept(connection, &row).await?
            }
        };
        if repeated {
            replies.push(effect::repeated(&stored.snapshot, recording));
            continue;
        }
        attempts.push(row);
        replies.push(match effect {
            Effect::Unmoved => Recorded::Applied,
            Effect::Stale => Recorded::Stale(Box::new(stored.snapshot.clone())),
            Effect::Moved(line) => {
                moved.insert(stored.row_id, stored.clone());
                history.extend(line.map(|line| HistoryRow {
                    notification: stored.row_id,
                    at_ms: recording.at_ms,
                    line,
                    actor: Actor::dispatcher(),
                    instance: instance.clone(),
                }));
                Recorded::Applied
            }
        });
    }
    let moved: Vec<Stored> = moved.into_values().collect();
    insert_attempts(connection, &attempts).await?;
    update_notifications(connection, &moved).await?;
    insert_history(connection, &history).await?;
    Ok(replies)
}

fn is_same(one: &AttemptRow<'_>, other: &AttemptRow<'_>) -> bool {
    let name = |row: &AttemptRow<'_>| {
        let attempt = row.attempt;
        (
            row.notification,
            attempt.series,
            attempt.number,
            attempt.started_ms,
            attempt.answer.outcome,
        )
    };
    name(one) == name(other)
}

/// Adds lines to histories.
pub(super) async fn note(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    notes: &[Noting],
) -> Result<(), Failure> {
    let keys: Vec<&Key> = notes.iter().map(|note| &note.key).collect();
    let known = load(connection, &keys).await?;
    let lines: Vec<HistoryRow> = notes
        .iter()
        .filter_map(|note| {
            Some(HistoryRow {
                notification: known.get(&note.key)?.row_id,
                at_ms: note.at_ms,
                line: Line {
                    kind: note.kind,
                    detail: note.detail.clone(),
                },
                actor: note.actor.clone(),
                instance: instance.clone(),
            })
        })
        .collect();
    insert_history(connection, &lines).await
}

/// Applies a change by hand.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    changing: &Changing,
) -> Result<ChangeResult, Failure> {
    let key = changing.lease.key();
    let mut known = load(connection, &[key]).await?;
    let Some(mut stored) = known.remove(key) else {
        return Ok(ChangeResult::Missing);
    };
    let line = match effect::change(&mut stored.snapshot, changing) {
        Changes::Done(line) => line,
        Changes::Refused => return Ok(ChangeResult::Refused(Box::new(stored.snapshot))),
        Changes::Fenced => return Ok(ChangeResult::Fenced(Box::new(stored.snapshot))),
    };
    let mut history = Vec::new();
    if let Some(released) = set_aside::release(connection, key).await? {
        stored.snapshot.set_aside = None;
        history.push(HistoryRow {
            notification: stored.row_id,
            at_ms: released.set_aside.at_ms,
            actor: Actor::dispatcher(),
            instance: released.instance.as_str().into(),
            line: released.line(),
        });
    }
    history.push(HistoryRow {
        notification: stored.row_id,
        at_ms: changing.at_ms,
        line,
        actor: changing.actor.clone(),
        instance: instance.clone(),
    });
    let moved = std::slice::from_ref(&stored);
    update_notifications(connection, moved).await?;
    insert_history(connection, &history).await?;
    Ok(ChangeResult::Done(Box::new(stored.snapshot)))
}

/// Raises the fence of one notification, if it is pending.
pub(super) async fn fence(
    connection: &mut SqliteConnection,
    key: &Key,
) -> Result<Option<Snapshot>, Failure> {
    let mut known = load(connection, &[key]).await?;
    let Some(mut stored) = known.remove(key) else {
        return Ok(None);
    };
    if stored.snapshot.state == State::Scheduled {
        stored.snapshot.fence += 1;
        update_notifications(connection, std::slice::from_ref(&stored)).await?;
    }
    Ok(Some(stored.snapshot))
}
