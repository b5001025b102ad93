//! Reads rows of notifications: what is stored of them, and what they send.

use super::{Fields, StoredRow, corrupt, narrowed};
use crate::domain::ack::AckRule;
use crate::domain::body::Body;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::ladder::Ladder;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
use crate::domain::order::{OrderMode, OrderPlace};
use crate::domain::priority::Priority;
use crate::domain::progress::Progress;
use crate::domain::snapshot::{SetAside, Snapshot};
use crate::domain::state::{Cause, State};
use crate::domain::webhook_id::WebhookId;
use crate::journal::sql_values::NO_HEADERS;
use crate::journal::{
    BodyReading, Changing, FoundStanding, JournalError, PageBodies, Payload, PayloadContent,
    Pending, Standing,
};
use bytes::Bytes;
use sqlx::{ColumnIndex, Decode, Type};
use std::collections::HashMap;
use std::sync::Arc;
/// A notification as the journal has it, with its row number.
#[derive(Debug, Clone)]
pub(in crate::journal) struct StoredNotification {
    pub(in crate::journal) row_id: i64,
    /// [`Snapshot::priority`] is that of the series.
    pub(in crate::journal) snapshot: Snapshot,
    /// The priority of the registration.
    pub(in crate::journal) own_priority: Priority,
    /// The priority of the series, if it has another one.
    pub(in crate::journal) series_priority: Option<Priority>,
}

impl StoredNotification {
    /// A notification that was just registered.
    pub(in crate::journal) fn of_new(row_id: i64, snapshot: Snapshot) -> Self {
        Self {
            row_id,
            own_priority: snapshot.priority,
            series_priority: None,
            snapshot,
        }
    }

    /// Notes the priority of the series that a change has begun, if it has begun one.
    pub(in crate::journal) fn note_priority(&mut self, changing: &Changing) {
        if changing.change.needs_payload() {
            self.series_priority = changing.series_priority;
            self.snapshot.priority = self.series_priority.unwrap_or(self.own_priority);
        }
    }
}

/// The ladders in the rows of one query, by their texts. Most rows have one of a few ladders, so each text is
/// parsed only once.
#[derive(Default)]
pub(in crate::journal) struct Ladders(HashMap<Box<str>, Ladder>);

impl Ladders {
    fn read(&mut self, text: &str) -> Result<Ladder, JournalError> {
        if let Some(known) = self.0.get(text) {
            return Ok(known.clone());
        }
        let ladder = Ladder::from_text(text).map_err(|_| corrupt("ladder", &text))?;
        self.0.insert(text.into(), ladder.clone());
        Ok(ladder)
    }
}

impl<'row, R> Fields<'row, R>
where
    R: StoredRow,
    usize: ColumnIndex<R>,
    bool: Decode<'row, R::Database> + Type<R::Database>,
    i64: Decode<'row, R::Database> + Type<R::Database>,
    &'row str: Decode<'row, R::Database> + Type<R::Database>,
    &'row [u8]: Decode<'row, R::Database> + Type<R::Database>,
    R::Count: Decode<'row, R::Database> + Type<R::Database>,
{
    /// Reads the columns of a notification: `row_id, topic, id, webhook_id, lane, url, ladder,
    /// fingerprint, registered_ms, state, cause, series, step, attempts, first_due_ms, deadline_ms,
    /// due_ms, retry_at_ms, clamped, ended_ms, fence, priority, series_priority, order_key,
    /// order_number, order_mode, superseded`, and when the lower number that it waits for is due next.
    pub(in crate::journal) fn stored(
        &mut self,
        ladders: &mut Ladders,
    ) -> Result<StoredNotification, JournalError> {
        let row_id = self.take()?;
        let mut snapshot = Snapshot {
            key: self.key()?,
            webhook_id: WebhookId::from_bytes(self.bytes()?),
            lane: Lane::from_name(self.take()?),
            destination: Destination::own_from_stored(self.take()?),
            ladder: ladders.read(self.take()?)?,
            priority: Priority::Normal,
            order: None,
            waits_for_ms: None,
            fingerprint: self.bytes()?,
            registered_ms: self.take()?,
            state: self.read("state", State::from_name)?,
            in_flight: false,
            cause: match self.take::<Option<&str>>()? {
                Some(name) => Some(Cause::from_name(name).ok_or_else(|| corrupt("cause", &name))?),
                None => None,
            },
            cancelled_by_hand: false,
            progress: self.progress()?,
            ended_ms: self.take()?,
            fence: narrowed("fence", self.take()?)?,
            set_aside: None,
            attempts: Vec::new(),
        };
        let priority: Option<&str> = self.take()?;
        let own_priority = Priority::from_stored(priority)
            .ok_or_else(|| corrupt("priority", &priority.unwrap_or_default()))?;
        let series_priority = match self.take::<Option<&str>>()? {
            Some(name) => {
                Some(Priority::from_name(name).ok_or_else(|| corrupt("priority", &name))?)
            }
            None => None,
        };
        snapshot.priority = series_priority.unwrap_or(own_priority);
        let key: Option<&str> = self.take()?;
        let (number, mode): (Option<i64>, Option<&str>) = (self.take()?, self.take()?);
        if let Some(key) = key {
            let mode = mode.and_then(OrderMode::from_name);
            let order = mode.and_then(|mode| OrderPlace::new(key, number?, mode).ok());
            snapshot.order = Some(Box::new(order.ok_or_else(|| corrupt("order", &key))?));
        }
        let superseded: Option<bool> = self.take()?;
        if let Some(takes_late_delivery) = superseded
            && snapshot.state == State::Cancelled
        {
            snapshot.cause = Some(Cause::Superseded);
            snapshot.cancelled_by_hand = !takes_late_delivery;
        }
        snapshot.waits_for_ms = self.take()?;
        Ok(StoredNotification {
            row_id,
            snapshot,
            own_priority,
            series_priority,
        })
    }

    /// Reads `series, step, attempts, first_due_ms, deadline_ms, due_ms, retry_at_ms, clamped`.
    fn progress(&mut self) -> Result<Progress, JournalError> {
        Ok(Progress {
            series: self.number("count")?,
            step: self.number("count")?,
            attempts: self.number("count")?,
            first_due_ms: self.take()?,
            deadline_ms: self.take()?,
            due_ms: self.take()?,
            retry_at_ms: self.take()?,
            clamped: self.take()?,
        })
    }

    /// Reads rows of `topic, id, lane, state`, the columns of [`Self::progress`], and whether it is set aside, in the order
    /// of these keys.
    pub(in crate::journal) fn standings(
        rows: &'row [R],
        keys: &[Key],
    ) -> Result<Vec<FoundStanding>, JournalError> {
        let mut known = HashMap::with_capacity(rows.len());
        for row in rows {
            let mut fields = Self::of(row);
            let key = fields.key()?;
            let found = match fields.standing() {
                Ok(standing) => FoundStanding::Found(standing),
                Err(error) => {
                    tracing::error!(
                        notification = %key,
                        %error,
                        "the journal cannot read a notification, so it is not compared with the schedule; repair its rows \
                         in the journal"
                    );
                    FoundStanding::Damaged(error.to_string())
                }
            };
            known.insert(key, found);
        }
        let of = |key| known.get(key).cloned().unwrap_or(FoundStanding::Missing);
        Ok(keys.iter().map(of).collect())
    }

    fn standing(&mut self) -> Result<Standing, JournalError> {
        let lane = Lane::from_name(self.take()?);
        let state = self.read("state", State::from_name)?;
        let progress = self.progress()?;
        let is_set_aside: bool = self.take()?;
        Ok(Standing {
            lane,
            state,
            progress,
            set_aside: is_set_aside && state == State::Scheduled,
        })
    }

    /// Reads rows with the columns of a notification, then `at_ms, reason` of its row in `set_aside`. Both
    /// are null if there is no such row.
    pub(in crate::journal) fn by_key(
        rows: &'row [R],
    ) -> Result<HashMap<Key, StoredNotification>, JournalError> {
        let mut ladders = Ladders::default();
        let read = |row| {
            let mut fields = Self::of(row);
            let mut stored = fields.stored(&mut ladders)?;
            let (at_ms, reason): (Option<i64>, Option<&str>) = (fields.take()?, fields.take()?);
            let set_aside = at_ms.zip(reason).map(|(at_ms, reason)| SetAside {
                at_ms,
                reason: reason.to_owned(),
            });
            stored.snapshot.set_aside =
                set_aside.filter(|_| stored.snapshot.state == State::Scheduled);
            Ok((stored.snapshot.key.clone(), stored))
        };
        rows.iter().map(read).collect()
    }

    /// Reads the columns of a notification, then `ack, content_type, headers, body`.
    pub(in crate::journal) fn pending(
        &mut self,
        ladders: &mut Ladders,
    ) -> Result<Pending, JournalError> {
        self.pending_with(ladders, |fields| Ok(fields.body()?.into()))
    }

    /// Reads the columns of a notification, then `ack, content_type, headers, body, length`, where the body may be `NULL`;
    /// without the body if `bodies` says so.
    pub(in crate::journal) fn pending_of_page(
        &mut self,
        ladders: &mut Ladders,
        bodies: PageBodies,
    ) -> Result<Pending, JournalError> {
        self.pending_with(ladders, |fields| {
            let body = match bodies {
                PageBodies::All => fields.take::<Option<&[u8]>>()?,
                PageBodies::None => None,
            };
            match body {
                Some(body) => Ok(Bytes::copy_from_slice(body).into()),
                None => fields.body_length(),
            }
        })
    }

    fn pending_with(
        &mut self,
        ladders: &mut Ladders,
        body: impl FnOnce(&mut Self) -> Result<Body, JournalError>,
    ) -> Result<Pending, JournalError> {
        let StoredNotification { snapshot, .. } = self.stored(ladders)?;
        let payload = self.payload_with(body)?;
        // An error is needed: without it, the notification would be lost silently.
        let Some(PayloadContent { headers, body }) = payload.content else {
            return Err(JournalError::Corrupt(format!(
                "the notification {} is scheduled and has no body",
                snapshot.key
            )));
        };
        let progress = snapshot.progress;
        let notification = Notification {
            key: snapshot.key,
            webhook_id: snapshot.webhook_id,
            destination: snapshot.destination,
            lane: snapshot.lane,
            body,
            content_type: payload.content_type,
            headers,
            ladder: snapshot.ladder,
            ack: payload.ack,
            priority: snapshot.priority,
            order: snapshot.order,
            registered_ms: snapshot.registered_ms,
            fingerprint: snapshot.fingerprint,
        };
        Ok(Pending {
            notification: Arc::new(notification),
            progress,
        })
    }

    /// Reads `ack, content_type, headers`, and, as `bodies` says, the body or only its length.
    pub(in crate::journal) fn payload(
        &mut self,
        bodies: BodyReading,
    ) -> Result<Payload, JournalError> {
        self.payload_with(|fields| match bodies {
            BodyReading::Read => Ok(fields.body()?.into()),
            BodyReading::LengthOnly => fields.body_length(),
        })
    }

    fn payload_with(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<Body, JournalError>,
    ) -> Result<Payload, JournalError> {
        let ack = self.read("ack rule", |text| AckRule::own_from_stored(text).ok())?;
        let content_type = self.text()?;
        let headers = match self.take::<Option<&str>>()? {
            Some(NO_HEADERS) => Some(Headers::default()),
            Some(text) => {
                let pairs = serde_json::from_str(text);
                let pairs = pairs.map_err(|_| corrupt("list of headers", &text))?;
                Some(Headers::from_stored(pairs))
            }
            None => None,
        };
        let content = match headers {
            Some(headers) => Some(PayloadContent {
                headers,
                body: body(self)?,
            }),
            None => None,
        };
        Ok(Payload {
            ack,
            content_type,
            content,
        })
    }

    /// Reads rows as [`Self::pending_of_page`] reads them, in the order of these keys.
    pub(in crate::journal) fn pendings(
        rows: &'row [R],
        keys: &[Key],
        bodies: PageBodies,
    ) -> Result<Vec<Option<Pending>>, JournalError> {
        let mut ladders = Ladders::default();
        let mut known = HashMap::with_capacity(rows.len());
        for row in rows {
            let pending = Self::of(row).pending_of_page(&mut ladders, bodies)?;
            known.insert(pending.notification.key.clone(), pending);
        }
        Ok(keys.iter().map(|key| known.get(key).cloned()).collect())
    }

    /// Reads rows of `topic, id, body`, in the order of these keys.
    pub(in crate::journal) fn bodies(
        rows: &'row [R],
        keys: &[Key],
    ) -> Result<Vec<Option<Bytes>>, JournalError> {
        let read = |row| {
            let mut fields = Self::of(row);
            Ok((fields.key()?, fields.body()?))
        };
        let known: HashMap<Key, Bytes> =
            rows.iter().map(read).collect::<Result<_, JournalError>>()?;
        Ok(keys.iter().map(|key| known.get(key).cloned()).collect())
    }

    fn body_length(&mut self) -> Result<Body, JournalError> {
        Ok(Body::InJournal(self.number("length")?))
    }

    fn body(&mut self) -> Result<Bytes, JournalError> {
        self.take().map(Bytes::copy_from_slice)
    }
}
