//! Registering a batch of notifications: one statement. A second statement looks keys up that exist already or
//! occur twice in the batch. If some notifications are not at their start ([`is_at_its_start`]), a transaction
//! inserts the batch and sets their progress.
//!
//! If the look-up fails, the call fails although the new notifications are kept. When the call is repeated,
//! it finds them.
//!
//! Another instance may insert the same key while the statement runs. The insertion then violates the unique
//! index, and the whole call is made again and finds the key. Rows are inserted in the order of their keys. So
//! of two instances that register the same keys, one waits for the other, and there is no deadlock.

use super::connections::PostgresCall;
use super::error::PostgresFailure;
use super::load::{load, lock};
use super::partitioned::belongs_to_kept;
use super::statements::{each, each_if_any, indexes_from, update_statuses};
use crate::domain::ack::AckRule;
use crate::domain::destination::Destination;
use crate::domain::key::Key;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::journal::ordering::{OrderedRegistration, place_to_check};
use crate::journal::sql_values::{body_of, headers_text, order_group};
use crate::journal::{RegisterResult, Registering};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::{PgBindIterExt as _, PgConnection};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Number of the lower bits of a row number that contain the arrival number. The upper bits contain the
/// instant of registration. Two rows get the same number only if two million notifications arrive within
/// one millisecond.
pub(super) const ARRIVAL_BITS: u32 = 21;

/// Inserts the new notifications of a batch, each as one row in each of three tables. Returns the indexes
/// in the batch of the new notifications.
const REGISTER: &str = concat!(
    "
    WITH fresh AS MATERIALIZED (
        SELECT
            (g.registered_ms << 21) | (nextval('arrivals') & 2097151) AS row_id,
            g.*
        FROM unnest(
            $1::TEXT[], $2::TEXT[], $3::BYTEA[], $4::TEXT[], $5::TEXT[], $6::TEXT[], $7::TEXT[],
            $8::TEXT[], $9::BYTEA[], $10::BIGINT[], $11::TEXT[], $12::BIGINT[], $13::BIGINT[],
            $14::TEXT[], $15::BYTEA[], $16::INTEGER[], $18::TEXT[],
            $19::TEXT[], $20::BIGINT[], $21::TEXT[], $22::BIGINT[]
        ) AS g (
            topic, id, webhook_id, lane, url, ladder, ack,
            content_type, fingerprint, registered_ms, actor, first_due_ms, deadline_ms,
            headers, body, place, priority,
            order_key, order_number, order_mode, order_group
        )
        WHERE (
            SELECT TRUE FROM notifications AS n WHERE n.topic = g.topic AND n.id = g.id
        ) IS NULL
    ), notification AS (
        INSERT INTO notifications (
            row_id, topic, id, webhook_id, lane, url, ladder, ack, content_type, fingerprint,
            registered_ms, actor, instance, priority, order_key, order_number, order_mode, body_bytes
        )
        SELECT
            row_id, topic, id, webhook_id, lane, url, ladder, ack, content_type, fingerprint,
            registered_ms, actor, $17, priority, order_key, order_number, order_mode,
            CASE WHEN headers = '[]' THEN octet_length(body) END
        FROM fresh ORDER BY topic COLLATE \"C\", id COLLATE \"C\"
    ), status AS (
        INSERT INTO statuses (
            notification, state, series, step, attempts, first_due_ms, deadline_ms, due_ms, clamped,
            order_group, order_number, later_lane
        )
        SELECT row_id, 'scheduled', 1, 0, 0, first_due_ms, deadline_ms, first_due_ms, FALSE,
            order_group, order_number, CASE WHEN first_due_ms > registered_ms + 10000 THEN lane END
        FROM fresh
    ), payload AS (
        INSERT INTO payloads (notification, headers, body, kept)
        SELECT row_id, headers, body, ",
    belongs_to_kept!("row_id", "payloads_live"),
    "
        FROM fresh
    )
    SELECT array_agg(place) FROM fresh"
);

/// See [`crate::journal::JournalWrites::register`].
pub(super) struct RegisterNotifications<'batch> {
    pub(super) batch: &'batch [Registering],
    pub(super) instance: &'batch Arc<str>,
}

#[async_trait]
impl PostgresCall for RegisterNotifications<'_> {
    type Reply = Vec<RegisterResult>;

    async fn run(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Vec<RegisterResult>, PostgresFailure> {
        let mut seen = HashSet::with_capacity(self.batch.len());
        let first: Vec<usize> = (0..self.batch.len())
            .filter(|index| seen.insert(&self.batch[*index].notification.key))
            .collect();
        if first.is_empty() {
            return Ok(Vec::new());
        }
        if self.batch.iter().any(|one| place_to_check(one).is_some()) {
            return self.insert_in_order(connection, &first).await;
        }
        let created = self.insert_all(connection, &first).await?;
        if created.len() == self.batch.len() {
            return Ok(vec![RegisterResult::Created; created.len()]);
        }
        self.look_up(connection, &created, &HashSet::new()).await
    }
}

/// Whether a notification is at the start of its first series. It is further only if the journal lost it
/// and now gets it again from the schedule.
fn is_at_its_start(one: &Registering) -> bool {
    let Progress {
        series,
        step,
        attempts,
        first_due_ms,
        deadline_ms: _,
        due_ms,
        retry_at_ms,
        clamped,
    } = one.progress;
    (series, step, attempts) == (1, 0, 0)
        && due_ms == first_due_ms
        && retry_at_ms.is_none()
        && !clamped
}

impl RegisterNotifications<'_> {
    /// Inserts the new notifications of these, with their progress. Returns their indexes in the batch.
    pub(super) async fn insert_all(
        &self,
        connection: &mut PgConnection,
        indexes: &[usize],
    ) -> Result<HashSet<usize>, PostgresFailure> {
        let is_at_its_start = |index: &usize| is_at_its_start(&self.batch[*index]);
        match indexes.iter().all(is_at_its_start) {
            true => self.insert(connection, indexes).await,
            false => self.insert_with_progress(connection, indexes).await,
        }
    }

    /// Inserts a batch in which some notifications are not at their start, and then sets their progress.
    async fn insert_with_progress(
        &self,
        connection: &mut PgConnection,
        indexes: &[usize],
    ) -> Result<HashSet<usize>, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        let created = self.insert(&mut transaction, indexes).await?;
        let new: Vec<&Registering> = created.iter().map(|index| &self.batch[*index]).collect();
        let keys: Vec<&Key> = new.iter().map(|one| &one.notification.key).collect();
        let mut stored = lock(&mut transaction, &keys).await?;
        let mut moved = Vec::new();
        for one in new {
            if let Some(mut stored) = stored.remove(&one.notification.key) {
                stored.snapshot.progress = one.progress;
                moved.push(stored);
            }
        }
        update_statuses(&mut transaction, &moved).await?;
        transaction.commit().await?;
        Ok(created)
    }

    /// Inserts a batch in which some notifications have a place in an order.
    async fn insert_in_order(
        &self,
        connection: &mut PgConnection,
        indexes: &[usize],
    ) -> Result<Vec<RegisterResult>, PostgresFailure> {
        let mut transaction = connection.begin().await?;
        let keys: Vec<&Key> = indexes
            .iter()
            .map(|index| &self.batch[*index].notification.key)
            .collect();
        let here = load(&mut transaction, &keys).await?;
        let is_new = |index: &&usize| !here.contains_key(&self.batch[**index].notification.key);
        let new: Vec<usize> = indexes.iter().filter(is_new).copied().collect();
        let (ordered, others): (Vec<usize>, Vec<usize>) =
            (new.iter()).partition(|index| place_to_check(&self.batch[**index]).is_some());
        // First, because it locks others before it writes.
        let registered = self.register_ordered(&mut transaction, &ordered).await?;
        let mut created = match others.is_empty() {
            true => HashSet::new(),
            false => self.insert_all(&mut transaction, &others).await?,
        };
        transaction.commit().await?;
        let refused = |one: &&(usize, OrderedRegistration)| one.1.snapshot.is_none();
        let refused: HashSet<usize> = (registered.iter().filter(refused))
            .map(|one| one.0)
            .collect();
        created.extend(registered.iter().map(|(index, _)| *index));
        let mut replies = match created.len() == self.batch.len() {
            true => vec![RegisterResult::Created; created.len()],
            false => self.look_up(connection, &created, &refused).await?,
        };
        for (index, done) in registered {
            replies[index] = done.into_reply();
        }
        Ok(replies)
    }

    /// Inserts the new notifications at their start. Returns their indexes in the batch.
    async fn insert(
        &self,
        connection: &mut PgConnection,
        indexes: &[usize],
    ) -> Result<HashSet<usize>, PostgresFailure> {
        let new: Vec<&Registering> = indexes.iter().map(|index| &self.batch[*index]).collect();
        let created: Option<Vec<i32>> = sqlx::query_scalar(REGISTER)
            .bind(each!(new, one => one.notification.key.topic()))
            .bind(each!(new, one => one.notification.key.id()))
            .bind(each!(new, one => one.notification.webhook_id.to_bytes()))
            .bind(each!(new, one => one.notification.lane.as_str()))
            .bind(each!(new, one => Destination::to_stored(one.notification.destination.as_ref())))
            .bind(each!(new, one => one.notification.ladder.to_text()))
            .bind(each!(new, one => AckRule::to_stored(one.notification.ack.as_ref(), &one.notification.lane)))
            .bind(each!(new, one => one.notification.content_type.as_str()))
            .bind(each!(new, one => one.notification.fingerprint.as_slice()))
            .bind(each!(new, one => one.notification.registered_ms))
            .bind(each!(new, one => one.actor.name()))
            .bind(each!(new, one => one.progress.first_due_ms))
            .bind(each!(new, one => one.progress.deadline_ms))
            .bind(each!(new, one => headers_text(&one.notification)))
            .bind(each!(new, one => body_of(&one.notification).as_ref()))
            .bind(each!(indexes, index => i32::try_from(*index).unwrap_or(i32::MAX)))
            .bind(&**self.instance)
            .bind(each_if_any!(new, one => one.notification.priority.to_stored()))
            .bind(each_if_any!(new, one => one.notification.order.as_ref().map(|order| order.key())))
            .bind(each_if_any!(new, one => one.notification.order.as_ref().map(|order| order.number())))
            .bind(each_if_any!(new, one => one.notification.order.as_ref().map(|order| order.mode().as_str())))
            .bind(each_if_any!(new, one => {
                let order = one.notification.order.as_ref();
                order.map(|order| order_group(&one.notification.lane, order))
            }))
            .fetch_one(connection)
            .await?;
        Ok(indexes_from(created.unwrap_or_default()).collect())
    }

    /// The replies to a batch in which some keys existed before, or occur twice.
    async fn look_up(
        &self,
        connection: &mut PgConnection,
        created: &HashSet<usize>,
        refused: &HashSet<usize>,
    ) -> Result<Vec<RegisterResult>, PostgresFailure> {
        let mut known: HashMap<Key, Snapshot> = HashMap::new();
        for index in created.difference(refused) {
            let one = &self.batch[*index];
            let snapshot = Snapshot::of_new(&one.notification, one.progress);
            known.insert(one.notification.key.clone(), snapshot);
        }
        let wanted: Vec<&Key> = self
            .batch
            .iter()
            .map(|one| &one.notification.key)
            .filter(|key| !known.contains_key(*key))
            .collect();
        let found = load(connection, &wanted).await?.into_iter();
        known.extend(found.map(|(key, stored)| (key, stored.snapshot)));
        let reply = |(index, one): (usize, &Registering)| {
            if created.contains(&index) {
                return Ok(RegisterResult::Created);
            }
            match known.get(&one.notification.key) {
                Some(snapshot) => Ok(RegisterResult::Existing(Box::new(snapshot.clone()))),
                // The existing notification was pruned a moment ago. The next try registers the key.
                None => Err(PostgresFailure::Conflict(format!(
                    "the notification {} was pruned meanwhile",
                    one.notification.key
                ))),
            }
        };
        self.batch.iter().enumerate().map(reply).collect()
    }
}
