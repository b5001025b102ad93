//! The statements that write, and the binding of their values.

use super::bulk::{Bulk, Statement};
use super::error::SqliteFailure;
use crate::domain::ack::AckRule;
use crate::domain::destination::Destination;
use crate::domain::notification::Notification;
use crate::domain::priority::Priority;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::Cause;
use crate::journal::history::HistoryRow;
use crate::journal::recording_batch::AttemptRow;
use crate::journal::rows::StoredNotification;
use crate::journal::sql_values::{body_of, headers_text, stored_cause, superseded};
use sqlx::SqliteConnection;
use std::sync::{Arc, LazyLock};

static INSERT_NOTIFICATIONS: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "INSERT INTO notifications
           (row_id, topic, id, webhook_id, lane, url, ladder, ack, content_type, fingerprint, state,
            cause, series, step, attempts, first_due_ms, deadline_ms, due_ms, retry_at_ms, clamped,
            registered_ms, ended_ms, priority, order_key,
            order_number, order_mode, superseded)",
        27,
        "",
    )
});
static INSERT_PAYLOADS: LazyLock<Bulk> =
    LazyLock::new(|| Bulk::new("INSERT INTO payloads (notification, headers, body)", 3, ""));
static INSERT_ATTEMPTS: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "INSERT INTO attempts
           (notification, series, number, due_ms, started_ms, duration_ms, outcome, status, answer,
            reason, instance, at_ms, trace)",
        13,
        "",
    )
});
static INSERT_TRANSITIONS: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "INSERT INTO transitions (notification, at_ms, kind, actor, instance, detail)",
        6,
        "",
    )
});
static UPDATE_NOTIFICATIONS: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH moved (row_id, state, cause, series, step, attempts, first_due_ms, deadline_ms, due_ms,
            retry_at_ms, clamped, ended_ms, fence, superseded, series_priority) AS (",
        15,
        ") UPDATE notifications SET state = moved.state, cause = moved.cause,
            series = moved.series, step = moved.step, attempts = moved.attempts,
            first_due_ms = moved.first_due_ms, deadline_ms = moved.deadline_ms,
            due_ms = moved.due_ms, retry_at_ms = moved.retry_at_ms, clamped = moved.clamped,
            ended_ms = moved.ended_ms, fence = moved.fence,
            superseded = moved.superseded, series_priority = moved.series_priority
          FROM moved WHERE notifications.row_id = moved.row_id",
    )
});

/// Adds notifications with their payloads.
pub(super) async fn insert_notifications(
    connection: &mut SqliteConnection,
    rows: &[(StoredNotification, &Notification)],
) -> Result<(), SqliteFailure> {
    INSERT_NOTIFICATIONS
        .execute(connection, rows, bind_notification)
        .await?;
    INSERT_PAYLOADS
        .execute(connection, rows, bind_payload)
        .await
}

/// Writes the status and the fence of these notifications.
pub(super) async fn update_notifications(
    connection: &mut SqliteConnection,
    rows: &[StoredNotification],
) -> Result<(), SqliteFailure> {
    UPDATE_NOTIFICATIONS
        .execute(connection, rows, bind_moved)
        .await
}

/// Adds attempts.
pub(super) async fn insert_attempts(
    connection: &mut SqliteConnection,
    rows: &[AttemptRow<'_>],
    instance: &Arc<str>,
) -> Result<(), SqliteFailure> {
    let bind = |statement, row: &AttemptRow<'_>| bind_attempt(statement, row, instance);
    INSERT_ATTEMPTS.execute(connection, rows, bind).await
}

/// Whether the journal has this attempt already.
pub(super) async fn is_kept(
    connection: &mut SqliteConnection,
    row: &AttemptRow<'_>,
) -> Result<bool, SqliteFailure> {
    let kept = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM attempts
         WHERE notification = ? AND series = ? AND number = ? AND started_ms = ?
           AND outcome = ?)",
    )
    .bind(row.notification)
    .bind(i64::from(row.recording.attempt.series))
    .bind(i64::from(row.recording.attempt.number))
    .bind(row.recording.attempt.started_ms)
    .bind(row.recording.attempt.answer.outcome.as_str())
    .fetch_one(connection)
    .await?;
    Ok(kept)
}

/// Whether the journal still has the payload of this notification.
pub(super) async fn has_payload(
    connection: &mut SqliteConnection,
    row_id: i64,
) -> Result<bool, SqliteFailure> {
    let found = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM payloads WHERE notification = ?)")
        .bind(row_id)
        .fetch_one(connection)
        .await?;
    Ok(found)
}

/// Adds lines of history.
pub(super) async fn insert_history(
    connection: &mut SqliteConnection,
    rows: &[HistoryRow],
) -> Result<(), SqliteFailure> {
    INSERT_TRANSITIONS
        .execute(connection, rows, bind_transition)
        .await
}

fn bind_notification(
    statement: Statement,
    (stored, notification): &(StoredNotification, &Notification),
) -> Statement {
    let snapshot = &stored.snapshot;
    let order = snapshot.order.as_deref();
    let statement = statement
        .bind(stored.row_id)
        .bind(snapshot.key.topic())
        .bind(snapshot.key.id())
        .bind(snapshot.webhook_id.to_bytes().to_vec())
        .bind(snapshot.lane.as_str())
        .bind(Destination::to_stored(snapshot.destination.as_ref()))
        .bind(snapshot.ladder.to_text())
        .bind(AckRule::to_stored(
            notification.ack.as_ref(),
            &notification.lane,
        ))
        .bind(notification.content_type.as_str())
        .bind(snapshot.fingerprint.to_vec());
    bind_status(statement, snapshot)
        .bind(snapshot.registered_ms)
        .bind(snapshot.ended_ms)
        .bind(snapshot.priority.to_stored())
        .bind(order.map(|order| order.key()))
        .bind(order.map(|order| order.number()))
        .bind(order.map(|order| order.mode().as_str()))
        .bind(superseded(snapshot))
}

fn bind_payload(
    statement: Statement,
    (stored, notification): &(StoredNotification, &Notification),
) -> Statement {
    statement
        .bind(stored.row_id)
        .bind(headers_text(notification))
        .bind(body_of(notification).as_ref())
}

fn bind_attempt(statement: Statement, row: &AttemptRow<'_>, instance: &Arc<str>) -> Statement {
    let attempt = &row.recording.attempt;
    statement
        .bind(row.notification)
        .bind(i64::from(attempt.series))
        .bind(i64::from(attempt.number))
        .bind(attempt.due_ms)
        .bind(attempt.started_ms)
        .bind(attempt.duration_ms)
        .bind(attempt.answer.outcome.as_str())
        .bind(attempt.answer.status.map(i64::from))
        .bind(attempt.answer.body.as_slice())
        .bind(attempt.answer.reason.as_str())
        .bind(instance.clone())
        .bind(row.recording.at_ms)
        .bind(attempt.trace.to_text())
}

fn bind_transition(statement: Statement, row: &HistoryRow) -> Statement {
    statement
        .bind(row.notification)
        .bind(row.at_ms)
        .bind(row.line.kind)
        .bind(row.actor.shared_name())
        .bind(row.instance.clone())
        .bind(row.line.detail.as_str())
}

fn bind_moved(statement: Statement, stored: &StoredNotification) -> Statement {
    let snapshot = &stored.snapshot;
    bind_status(statement.bind(stored.row_id), snapshot)
        .bind(snapshot.ended_ms)
        .bind(i64::try_from(snapshot.fence).unwrap_or(i64::MAX))
        .bind(superseded(snapshot))
        .bind(stored.series_priority.map(Priority::as_str))
}

/// Binds the columns from `state` to `clamped`, which are together in each statement.
fn bind_status(statement: Statement, snapshot: &Snapshot) -> Statement {
    let progress = &snapshot.progress;
    statement
        .bind(snapshot.state.as_str())
        .bind(stored_cause(snapshot).map(Cause::as_str))
        .bind(i64::from(progress.series))
        .bind(i64::from(progress.step))
        .bind(i64::from(progress.attempts))
        .bind(progress.first_due_ms)
        .bind(progress.deadline_ms)
        .bind(progress.due_ms)
        .bind(progress.retry_at_ms)
        .bind(progress.clamped)
}
