//! Registering notifications that have a place in an order. No other connection writes meanwhile.

use super::error::SqliteFailure;
use super::load::load;
use super::set_aside;
use super::statements::{insert_history, insert_notifications, update_notifications};
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::order::{OrderMode, OrderPlace};
use crate::domain::snapshot::Snapshot;
use crate::journal::Registering;
use crate::journal::effect::HistoryLine;
use crate::journal::history::HistoryRow;
use crate::journal::ordering::{
    KnownOrder, OrderSpan, OrderVerdict, OrderedRegistration, supersede, supersede_all, verdict,
};
use crate::journal::rows::StoredNotification;
use sqlx::{Row as _, SqliteConnection};
use std::sync::Arc;

/// Registers one notification, whose key is new.
pub(super) async fn register(
    connection: &mut SqliteConnection,
    instance: &Arc<str>,
    registering: &Registering,
    place: &OrderPlace,
    row_id: i64,
) -> Result<OrderedRegistration, SqliteFailure> {
    let notification = registering.notification.as_ref();
    let (lane, at_ms) = (&notification.lane, notification.registered_ms);
    let span = span_of(connection, lane, at_ms).await?;
    let known = known_order(connection, lane, place, span).await?;
    let verdict = verdict(registering, place, known);
    let mut snapshot = Snapshot::of_new(notification, registering.progress);
    let line = |notification, line, actor: &crate::journal::Actor| HistoryRow {
        notification,
        at_ms,
        line,
        actor: actor.clone(),
        instance: instance.clone(),
    };
    let registered = HistoryLine {
        kind: "registered",
        detail: String::new(),
    };
    let mut lines = vec![line(row_id, registered, &registering.actor)];
    let mut ended = Vec::new();
    match verdict {
        OrderVerdict::Refused(_, other) => {
            let other = key_of(connection, other).await?;
            return Ok(OrderedRegistration::refused(verdict, other));
        }
        OrderVerdict::Scheduled => {}
        OrderVerdict::Superseded => {
            let by = known.map_or(0, |known| known.highest);
            let superseded = supersede(&mut snapshot, by, at_ms);
            lines.push(line(row_id, superseded, &registering.actor));
        }
        OrderVerdict::EndsLower => {
            let mut lower = lower_pending(connection, lane, place, span).await?;
            for (row_id, superseded) in supersede_all(&mut lower, place.number(), at_ms) {
                lines.push(line(row_id, superseded, &registering.actor));
            }
            for stored in &lower {
                set_aside::release(connection, &stored.snapshot.key).await?;
            }
            update_notifications(connection, &lower).await?;
            ended.extend(lower.into_iter().map(|stored| stored.snapshot));
        }
    }
    let stored = StoredNotification::of_new(row_id, snapshot.clone());
    insert_notifications(connection, &[(stored, notification)]).await?;
    insert_history(connection, &lines).await?;
    Ok(OrderedRegistration {
        snapshot: Some(snapshot),
        ended,
        verdict,
        other: None,
    })
}

/// The key of the notification with this row number.
async fn key_of(
    connection: &mut SqliteConnection,
    row_id: i64,
) -> Result<Option<Key>, SqliteFailure> {
    let found = sqlx::query("SELECT topic, id FROM notifications WHERE row_id = ?")
        .bind(row_id)
        .fetch_optional(connection)
        .await?;
    Ok(found.and_then(|row| Key::new(row.try_get(0).ok()?, row.try_get(1).ok()?).ok()))
}

/// Which notifications of a lane count for one that was registered at this instant.
async fn span_of(
    connection: &mut SqliteConnection,
    lane: &Lane,
    registered_ms: i64,
) -> Result<OrderSpan, SqliteFailure> {
    let mut made_again_ms = None;
    if let Some(name) = lane.endpoint() {
        let found: Option<Option<i64>> =
            sqlx::query_scalar("SELECT made_again_ms FROM endpoints WHERE name = ?")
                .bind(name.as_str())
                .fetch_optional(connection)
                .await?;
        made_again_ms = found.flatten();
    }
    Ok(OrderSpan::around(registered_ms, made_again_ms))
}

async fn known_order(
    connection: &mut SqliteConnection,
    lane: &Lane,
    place: &OrderPlace,
    span: OrderSpan,
) -> Result<Option<KnownOrder>, SqliteFailure> {
    let found = sqlx::query(
        "SELECT n.order_number, n.row_id, n.order_mode,
            (SELECT t.row_id FROM notifications AS t INDEXED BY ordered
                WHERE t.lane = ?1 AND t.order_key = ?2 AND t.order_key IS NOT NULL AND t.order_number = ?3
                    AND t.registered_ms BETWEEN ?4 AND ?5 LIMIT 1),
            CASE WHEN ?6 THEN (SELECT h.row_id FROM notifications AS h INDEXED BY ordered_attempted
                WHERE h.lane = ?1 AND h.order_key = ?2 AND h.order_key IS NOT NULL AND h.order_number > ?3
                    AND h.registered_ms BETWEEN ?4 AND ?5 AND h.order_mode = 'strict'
                    AND (h.attempts > 0 OR h.state IN ('delivered', 'dead'))
                ORDER BY h.order_number LIMIT 1) END
         FROM notifications AS n INDEXED BY ordered
         WHERE n.lane = ?1 AND n.order_key = ?2 AND n.order_key IS NOT NULL
            AND n.registered_ms BETWEEN ?4 AND ?5
         ORDER BY n.order_number DESC LIMIT 1",
    )
    .bind(lane.as_str())
    .bind(place.key())
    .bind(place.number())
    .bind(span.first_ms)
    .bind(span.last_ms)
    .bind(place.mode() == OrderMode::Strict)
    .fetch_optional(connection)
    .await?;
    let Some(row) = found else {
        return Ok(None);
    };
    Ok(Some(KnownOrder {
        highest: row.try_get(0)?,
        highest_row: row.try_get(1)?,
        mode: OrderMode::from_name(row.try_get(2)?).unwrap_or(place.mode()),
        taken_by: row.try_get(3)?,
        passed_by: row.try_get(4)?,
    }))
}

async fn lower_pending(
    connection: &mut SqliteConnection,
    lane: &Lane,
    place: &OrderPlace,
    span: OrderSpan,
) -> Result<Vec<StoredNotification>, SqliteFailure> {
    let found = sqlx::query(
        "SELECT topic, id FROM notifications INDEXED BY ordered_pending
         WHERE lane = ? AND order_key = ? AND order_key IS NOT NULL AND order_number < ?
            AND state = 'scheduled' AND registered_ms BETWEEN ? AND ?",
    )
    .bind(lane.as_str())
    .bind(place.key())
    .bind(place.number())
    .bind(span.first_ms)
    .bind(span.last_ms)
    .fetch_all(&mut *connection)
    .await?;
    let keys: Vec<Key> = found
        .iter()
        .filter_map(|row| Key::new(row.try_get(0).ok()?, row.try_get(1).ok()?).ok())
        .collect();
    let loaded = load(connection, &keys.iter().collect::<Vec<_>>()).await?;
    Ok(loaded.into_values().collect())
}

/// Whether a higher number was registered than that of a notification in whose order only the latest counts.
pub(super) async fn has_higher(
    connection: &mut SqliteConnection,
    snapshot: &Snapshot,
) -> Result<bool, SqliteFailure> {
    let order = snapshot.order.as_deref();
    let Some(place) = order.filter(|place| place.mode() == OrderMode::Latest) else {
        return Ok(false);
    };
    let span = span_of(connection, &snapshot.lane, snapshot.registered_ms).await?;
    let known = known_order(connection, &snapshot.lane, place, span).await?;
    Ok(known.is_some_and(|known| known.highest > place.number()))
}
