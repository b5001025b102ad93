//! Registering notifications that have a place in an order, one after the other in one transaction.
//!
//! A lock for each order key lasts until the commit, so of two servers that register numbers of one key at the same
//! moment, one waits for the other and then finds its number. Locks are taken in the order of their numbers. Then what may be
//! superseded is locked, also in the order of its numbers, and before anything is written: a recording locks the rows that it
//! changes like that, and a row of `counts` after them. So there is no deadlock.

use super::error::PostgresFailure;
use super::load::{lock, notification_of};
use super::register::RegisterNotifications;
use super::set_aside;
use super::statements::{insert_history, update_statuses};
use crate::domain::endpoint::EndpointName;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::order::{OrderMode, OrderPlace};
use crate::domain::snapshot::Snapshot;
use crate::journal::effect::HistoryLine;
use crate::journal::history::HistoryRow;
use crate::journal::ordering::{
    KnownOrder, OrderSpan, OrderVerdict, OrderedRegistration, place_to_check, supersede,
    supersede_all, verdict,
};
use crate::journal::rows::StoredNotification;
use crate::journal::sql_values::order_group;
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use std::collections::{BTreeSet, HashMap};

impl RegisterNotifications<'_> {
    /// Registers the notifications at these indexes, whose keys are new. Returns the index of each with what was done,
    /// and nothing for one whose key was registered meanwhile.
    pub(super) async fn register_ordered(
        &self,
        connection: &mut PgConnection,
        indexes: &[usize],
    ) -> Result<Vec<(usize, OrderedRegistration)>, PostgresFailure> {
        let places = indexes.iter().filter_map(|index| {
            let one = &self.batch[*index];
            Some((*index, place_to_check(one)?))
        });
        let places: Vec<(usize, &OrderPlace)> = places.collect();
        let group_of = |(index, place): &(usize, &OrderPlace)| {
            order_group(&self.batch[*index].notification.lane, place)
        };
        let groups: BTreeSet<i64> = places.iter().map(group_of).collect();
        let latest = places
            .iter()
            .filter(|(_, place)| place.mode() == OrderMode::Latest);
        let latest: BTreeSet<i64> = latest.map(group_of).collect();
        lock_groups(connection, groups.into_iter().collect()).await?;
        lock_pending(connection, latest.into_iter().collect()).await?;
        // Asked under the locks: what means a newer endpoint of the name and is here already was registered after that
        // endpoint was made.
        let lanes = places
            .iter()
            .map(|(index, _)| &self.batch[*index].notification.lane);
        let made_again = made_again(connection, lanes).await?;
        let mut done = Vec::with_capacity(places.len());
        for (index, place) in places {
            let notification = &self.batch[index].notification;
            let made_again_ms = made_again.get(&notification.lane).copied();
            let span = OrderSpan::around(notification.registered_ms, made_again_ms);
            let registered = self.register_one(connection, index, place, span);
            if let Some(registered) = registered.await? {
                done.push((index, registered));
            }
        }
        Ok(done)
    }

    async fn register_one(
        &self,
        connection: &mut PgConnection,
        index: usize,
        place: &OrderPlace,
        span: OrderSpan,
    ) -> Result<Option<OrderedRegistration>, PostgresFailure> {
        let registering = &self.batch[index];
        let notification = registering.notification.as_ref();
        let (lane, at_ms) = (&notification.lane, notification.registered_ms);
        let known = known_order(connection, lane, place, span).await?;
        let verdict = verdict(registering, place, known);
        if let OrderVerdict::Refused(_, other) = verdict {
            // The key may have been registered meanwhile: then its number is taken by itself.
            let here = super::load::load(connection, &[&notification.key]).await?;
            let other = key_of(connection, other).await?;
            let refused = OrderedRegistration::refused(verdict, other);
            return Ok(here.is_empty().then_some(refused));
        }
        let mut ended = Vec::new();
        if self.insert_all(connection, &[index]).await?.is_empty() {
            return Ok(None);
        }
        let line = |(row_id, line): (i64, HistoryLine)| HistoryRow {
            notification: row_id,
            at_ms,
            line,
            actor: registering.actor.clone(),
            instance: self.instance.clone(),
        };
        let mut snapshot = Snapshot::of_new(notification, registering.progress);
        let mut changed = match verdict {
            OrderVerdict::EndsLower => lower_pending(connection, lane, place, span).await?,
            OrderVerdict::Superseded => {
                let own = lock(connection, &[&notification.key]).await?;
                own.into_values().collect()
            }
            OrderVerdict::Scheduled | OrderVerdict::Refused(..) => Vec::new(),
        };
        let by = match (verdict, known) {
            (OrderVerdict::Superseded, Some(known)) => known.highest,
            _ => place.number(),
        };
        let lines = supersede_all(&mut changed, by, at_ms);
        let lines: Vec<HistoryRow> = lines.into_iter().map(line).collect();
        for stored in &changed {
            set_aside::release(connection, &stored.snapshot.key).await?;
        }
        update_statuses(connection, &changed).await?;
        insert_history(connection, &lines).await?;
        if verdict == OrderVerdict::Superseded {
            supersede(&mut snapshot, by, at_ms);
        } else {
            ended.extend(changed.into_iter().map(|stored| stored.snapshot));
        }
        Ok(Some(OrderedRegistration {
            snapshot: Some(snapshot),
            ended,
            verdict,
            other: None,
        }))
    }
}

/// The key of the notification with this row number.
async fn key_of(
    connection: &mut PgConnection,
    row_id: i64,
) -> Result<Option<Key>, PostgresFailure> {
    let found = sqlx::query(concat!(
        "SELECT n.topic, n.id FROM ",
        notification_of!("$1")
    ))
    .bind(row_id)
    .fetch_optional(connection)
    .await?;
    Ok(found.and_then(|row| Key::new(row.try_get(0).ok()?, row.try_get(1).ok()?).ok()))
}

/// Waits until no other transaction registers numbers of these order keys, one key after the other, and keeps others out
/// until the commit.
pub(super) async fn lock_groups(
    connection: &mut PgConnection,
    groups: Vec<i64>,
) -> Result<(), PostgresFailure> {
    if groups.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "SELECT pg_advisory_xact_lock(g) FROM (
            SELECT g FROM unnest($1::BIGINT[]) WITH ORDINALITY AS u (g, at) ORDER BY at OFFSET 0
         ) AS u",
    )
    .bind(groups)
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks what is pending of these order keys until the commit. The caller has locked the keys, so nothing is added to them.
async fn lock_pending(
    connection: &mut PgConnection,
    groups: Vec<i64>,
) -> Result<(), PostgresFailure> {
    if groups.is_empty() {
        return Ok(());
    }
    // Written so that PostgreSQL can use only the index of pending numbers, and then looks up each row by its number.
    sqlx::query(
        "WITH wanted AS MATERIALIZED (
            SELECT s.notification
            FROM unnest($1::BIGINT[]) AS g (order_group)
            CROSS JOIN LATERAL (
                SELECT s.notification FROM statuses AS s
                WHERE s.state = 'scheduled' AND s.order_group = g.order_group
                ORDER BY s.order_number OFFSET 0
            ) AS s
            ORDER BY s.notification
         )
         SELECT s.notification
         FROM wanted AS w
         CROSS JOIN LATERAL (
            SELECT * FROM statuses AS s WHERE s.notification = w.notification FOR UPDATE
         ) AS s",
    )
    .bind(groups)
    .execute(connection)
    .await?;
    Ok(())
}

/// When the endpoints of these lanes were made, in milliseconds since 1970, for those whose names had been others' before.
async fn made_again(
    connection: &mut PgConnection,
    lanes: impl Iterator<Item = &Lane>,
) -> Result<HashMap<Lane, i64>, PostgresFailure> {
    let names: BTreeSet<String> = lanes
        .filter_map(|lane| Some(lane.endpoint()?.as_str().to_string()))
        .collect();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<(String, i64)> = sqlx::query_as(
        "SELECT name, made_again_ms FROM endpoints WHERE name = ANY($1) AND made_again_ms IS NOT NULL",
    )
    .bind(names.into_iter().collect::<Vec<String>>())
    .fetch_all(connection)
    .await?;
    let lane = |(name, made_again_ms): (String, i64)| {
        let name = EndpointName::parse(&name).ok()?;
        Some((Lane::of_endpoint(&name), made_again_ms))
    };
    Ok(found.into_iter().filter_map(lane).collect())
}

/// What is known of an order key. The numbers that were attempted have an index of their own, and what is found there is
/// looked up one by one: see [`notification_of`]. Each part is sorted by the number, although one row is enough, so that
/// PostgreSQL can use only the indexes that have the order key.
const KNOWN: &str = concat!(
    "SELECT n.order_number, n.row_id, n.order_mode,
        (SELECT t.row_id FROM notifications AS t
            WHERE t.lane = $1 AND t.order_key = $2 AND t.order_number BETWEEN $3 AND $3
                AND t.registered_ms BETWEEN $4 AND $5
            ORDER BY t.order_number LIMIT 1),
        CASE WHEN $6 THEN (
            SELECT n.row_id FROM (
                SELECT s.notification, s.order_number FROM statuses AS s
                WHERE s.order_group = $7 AND s.order_number > $3
                    AND (s.notification >> 21) BETWEEN $4 AND $5
                    AND (s.attempts > 0 OR s.state IN ('delivered', 'dead'))
                ORDER BY s.order_number OFFSET 0
            ) AS s CROSS JOIN LATERAL ",
    notification_of!("s.notification"),
    "       WHERE n.lane = $1 AND n.order_key = $2
            ORDER BY s.order_number LIMIT 1
        ) END
     FROM notifications AS n
     WHERE n.lane = $1 AND n.order_key = $2 AND n.registered_ms BETWEEN $4 AND $5
     ORDER BY n.order_number DESC LIMIT 1"
);

async fn known_order(
    connection: &mut PgConnection,
    lane: &Lane,
    place: &OrderPlace,
    span: OrderSpan,
) -> Result<Option<KnownOrder>, PostgresFailure> {
    let found = sqlx::query(KNOWN)
        .bind(lane.as_str())
        .bind(place.key())
        .bind(place.number())
        .bind(span.first_ms)
        .bind(span.last_ms)
        .bind(place.mode() == OrderMode::Strict)
        .bind(order_group(lane, place))
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
    connection: &mut PgConnection,
    lane: &Lane,
    place: &OrderPlace,
    span: OrderSpan,
) -> Result<Vec<StoredNotification>, PostgresFailure> {
    // Written so that PostgreSQL can use only the index of pending numbers: see `KNOWN`.
    let found = sqlx::query(concat!(
        "SELECT n.topic, n.id FROM (
            SELECT s.notification FROM statuses AS s
            WHERE s.state = 'scheduled' AND s.order_group = $1 AND s.order_number < $2
            ORDER BY s.order_number OFFSET 0
         ) AS s CROSS JOIN LATERAL ",
        notification_of!("s.notification"),
        " WHERE n.lane = $3 AND n.order_key = $4 AND n.registered_ms BETWEEN $5 AND $6",
    ))
    .bind(order_group(lane, place))
    .bind(place.number())
    .bind(lane.as_str())
    .bind(place.key())
    .bind(span.first_ms)
    .bind(span.last_ms)
    .fetch_all(&mut *connection)
    .await?;
    let keys: Vec<Key> = found
        .iter()
        .filter_map(|row| Key::new(row.try_get(0).ok()?, row.try_get(1).ok()?).ok())
        .collect();
    let locked = lock(connection, &keys.iter().collect::<Vec<_>>()).await?;
    // One may have ended between the two statements.
    let locked = locked.into_values();
    Ok(locked
        .filter(|stored| stored.snapshot.next_due_ms().is_some())
        .collect())
}

/// The orders in which only the latest counts, of these notifications, in the order in which all transactions lock them.
pub(super) fn latest_groups<'a>(snapshots: impl Iterator<Item = &'a Snapshot>) -> Vec<i64> {
    let groups: BTreeSet<i64> = snapshots
        .filter_map(|snapshot| Some(order_group(&snapshot.lane, latest_of(snapshot)?)))
        .collect();
    groups.into_iter().collect()
}

fn latest_of(snapshot: &Snapshot) -> Option<&OrderPlace> {
    let order = snapshot.order.as_deref();
    order.filter(|place| place.mode() == OrderMode::Latest)
}

/// Whether a higher number was registered than that of a notification in whose order only the latest counts. The caller has
/// locked its order ([`latest_groups`]), so none is registered until the commit.
pub(super) async fn has_higher(
    connection: &mut PgConnection,
    snapshot: &Snapshot,
) -> Result<bool, PostgresFailure> {
    let Some(place) = latest_of(snapshot) else {
        return Ok(false);
    };
    let made_again = made_again(connection, std::iter::once(&snapshot.lane)).await?;
    let made_again_ms = made_again.get(&snapshot.lane).copied();
    let span = OrderSpan::around(snapshot.registered_ms, made_again_ms);
    let known = known_order(connection, &snapshot.lane, place, span).await?;
    Ok(known.is_some_and(|known| known.highest > place.number()))
}
