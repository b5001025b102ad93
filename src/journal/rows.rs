//! Reads rows of both databases into domain types. Each database has its own statements, which must select
//! the columns in the order in which they are read here.

use super::sql_values::NO_HEADERS;
use super::{
    AllSetAside, BodyReading, Changing, Cursor, EndpointRow, Examined, Fault, JournalCounts,
    JournalError, Payload, PayloadContent, Pending, StoredEndpoint, Transition,
};
use crate::domain::ack::AckRule;
use crate::domain::attempt::{Answer, Attempt, Outcome};
use crate::domain::body::Body;
use crate::domain::call_trace::CallTrace;
use crate::domain::destination::Destination;
use crate::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use crate::domain::endpoint_keys::EndpointKeys;
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
use bytes::Bytes;
use sqlx::{ColumnIndex, Decode, Row, Type};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

/// A row of one of the databases.
pub(super) trait StoredRow: Row {
    /// The integer type of counts, HTTP statuses and lengths.
    type Count: Into<i64>;

    /// Translates the error of a value that cannot be read.
    fn failed(error: sqlx::Error) -> JournalError;
}

/// A notification as the journal has it, with its row number.
#[derive(Debug, Clone)]
pub(super) struct StoredNotification {
    pub(super) row_id: i64,
    /// [`Snapshot::priority`] is that of the series.
    pub(super) snapshot: Snapshot,
    /// The priority of the registration.
    pub(super) own_priority: Priority,
    /// The priority of the series, if it has another one.
    pub(super) series_priority: Option<Priority>,
}

impl StoredNotification {
    /// A notification that was just registered.
    pub(super) fn of_new(row_id: i64, snapshot: Snapshot) -> Self {
        Self {
            row_id,
            own_priority: snapshot.priority,
            series_priority: None,
            snapshot,
        }
    }

    /// Notes the priority of the series that a change has begun, if it has begun one.
    pub(super) fn note_priority(&mut self, changing: &Changing) {
        if changing.change.needs_payload() {
            self.series_priority = changing.series_priority;
            self.snapshot.priority = self.series_priority.unwrap_or(self.own_priority);
        }
    }
}

/// A notification that was set aside and is released now: the data of its row in `set_aside`.
pub(super) struct Released {
    pub(super) set_aside: SetAside,
    /// The instance that set it aside.
    pub(super) instance: String,
}

/// The ladders in the rows of one query, by their texts. Most rows have one of a few ladders, so each text is
/// parsed only once.
#[derive(Default)]
pub(super) struct Ladders(HashMap<Box<str>, Ladder>);

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

/// Reads the values of a row, one after the other.
pub(super) struct Fields<'row, R> {
    row: &'row R,
    next: usize,
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
    pub(super) fn of(row: &'row R) -> Self {
        Self { row, next: 0 }
    }

    /// The field at this place; `None` if it cannot be read.
    pub(super) fn at<Value>(row: &'row R, place: usize) -> Option<Value>
    where
        Value: Decode<'row, R::Database> + Type<R::Database>,
    {
        row.try_get(place).ok()
    }

    pub(super) fn take<Value>(&mut self) -> Result<Value, JournalError>
    where
        Value: Decode<'row, R::Database> + Type<R::Database>,
    {
        let value = self.row.try_get(self.next).map_err(R::failed)?;
        self.next += 1;
        Ok(value)
    }

    /// Reads `topic, id`.
    pub(super) fn key(&mut self) -> Result<Key, JournalError> {
        let (topic, id): (&str, &str) = (self.take()?, self.take()?);
        Key::new(topic, id).map_err(|_| corrupt("key", &format!("{topic}/{id}")))
    }

    /// Reads a place in a list: an instant and a row number.
    pub(super) fn cursor(&mut self) -> Result<Cursor, JournalError> {
        Ok(Cursor {
            at_ms: self.take()?,
            row: self.take()?,
        })
    }

    /// Reads the columns of a notification: `row_id, topic, id, webhook_id, lane, url, ladder,
    /// fingerprint, registered_ms, state, cause, series, step, attempts, first_due_ms, deadline_ms,
    /// due_ms, retry_at_ms, clamped, ended_ms, fence, priority, series_priority, order_key,
    /// order_number, order_mode, superseded`, and when the lower number that it waits for is due next.
    pub(super) fn stored(
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
            progress: Progress {
                series: self.number("count")?,
                step: self.number("count")?,
                attempts: self.number("count")?,
                first_due_ms: self.take()?,
                deadline_ms: self.take()?,
                due_ms: self.take()?,
                retry_at_ms: self.take()?,
                clamped: self.take()?,
            },
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

    /// Reads rows with the columns of a notification, then `at_ms, reason` of its row in `set_aside`. Both
    /// are null if there is no such row.
    pub(super) fn by_key(
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

    /// Reads the columns of a notification, then `ack, content_type, headers`, and, as `bodies` says, the
    /// body or only its length.
    pub(super) fn pending(
        &mut self,
        ladders: &mut Ladders,
        bodies: BodyReading,
    ) -> Result<Pending, JournalError> {
        let StoredNotification { snapshot, .. } = self.stored(ladders)?;
        let payload = self.payload(bodies)?;
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
    pub(super) fn payload(&mut self, bodies: BodyReading) -> Result<Payload, JournalError> {
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
                body: match bodies {
                    BodyReading::Read => self.body()?.into(),
                    BodyReading::LengthOnly => Body::InJournal(self.number("length")?),
                },
            }),
            None => None,
        };
        Ok(Payload {
            ack,
            content_type,
            content,
        })
    }

    /// Reads rows of `topic, id, body`, in the order of these keys.
    pub(super) fn bodies(
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

    fn body(&mut self) -> Result<Bytes, JournalError> {
        self.take().map(Bytes::copy_from_slice)
    }

    /// Reads `series, number, due_ms, started_ms, duration_ms, outcome, status, answer, reason, trace`.
    pub(super) fn attempt(&mut self) -> Result<Attempt, JournalError> {
        Ok(Attempt {
            series: self.number("count")?,
            number: self.number("count")?,
            due_ms: self.take()?,
            started_ms: self.take()?,
            duration_ms: self.take()?,
            answer: Answer {
                outcome: self.read("outcome", Outcome::from_name)?,
                status: match self.take::<Option<R::Count>>()? {
                    Some(status) => Some(narrowed("status", status.into())?),
                    None => None,
                },
                body: self.take().map(<[u8]>::to_vec)?,
                reason: self.text()?,
            },
            trace: CallTrace::from_text(self.take()?),
        })
    }

    /// Reads rows of `topic, id` and an attempt, in the order of these keys.
    pub(super) fn attempts_by_key(
        rows: &'row [R],
        keys: &[Key],
    ) -> Result<Vec<Option<Attempt>>, JournalError> {
        let read = |row| {
            let mut fields = Self::of(row);
            Ok((fields.key()?, fields.attempt()?))
        };
        let mut known: HashMap<Key, Attempt> =
            rows.iter().map(read).collect::<Result<_, JournalError>>()?;
        Ok(keys.iter().map(|key| known.remove(key)).collect())
    }

    /// Reads rows of transitions.
    pub(super) fn transitions(
        rows: impl IntoIterator<Item = &'row R>,
    ) -> Result<Vec<Transition>, JournalError> {
        let rows = rows.into_iter();
        rows.map(|row| Self::of(row).transition()).collect()
    }

    /// Reads `kind, at_ms, actor, instance, detail`.
    pub(super) fn transition(&mut self) -> Result<Transition, JournalError> {
        Ok(Transition {
            kind: self.text()?,
            at_ms: self.take()?,
            actor: self.text()?,
            instance: self.text()?,
            detail: self.text()?,
        })
    }

    /// Reads `at_ms, reason`.
    pub(super) fn set_aside(&mut self) -> Result<SetAside, JournalError> {
        Ok(SetAside {
            at_ms: self.take()?,
            reason: self.text()?,
        })
    }

    /// Reads `at_ms, reason, instance` of a row in `set_aside`.
    pub(super) fn released(&mut self) -> Result<Released, JournalError> {
        Ok(Released {
            set_aside: self.set_aside()?,
            instance: self.text()?,
        })
    }

    /// Reads rows of `state, count`. The sum of all counts is the number of registered notifications.
    pub(super) fn state_counts(rows: &'row [R]) -> Result<JournalCounts, JournalError> {
        let mut counts = JournalCounts::default();
        for row in rows {
            let mut fields = Self::of(row);
            let state = fields.read("state", State::from_name)?;
            let many = fields.take::<i64>()?.unsigned_abs();
            counts.registered += many;
            match state {
                State::Scheduled => counts.scheduled = many,
                State::Delivered => counts.delivered = many,
                State::Dead => counts.dead = many,
                State::Cancelled => counts.cancelled = many,
            }
        }
        Ok(counts)
    }

    /// Adds the notifications that have a fault, from rows of `topic, id, total`. Each row has the same
    /// total: the number of notifications with this fault.
    pub(super) fn faults(
        rows: &'row [R],
        fault: Fault,
        limit: usize,
        examined: &mut Examined,
    ) -> Result<(), JournalError> {
        for (number, row) in rows.iter().enumerate() {
            let mut fields = Self::of(row);
            let key = fields.key()?;
            if number == 0 {
                examined.faulty += fields.take::<i64>()?.unsigned_abs();
            }
            if examined.faults.len() < limit {
                examined.faults.push((key, fault));
            }
        }
        Ok(())
    }

    /// Reads rows of `at_ms, row_id, topic, id`: a page of at most `limit` changes by hand. A page with
    /// fewer rows is the last one, and gets no cursor.
    pub(super) fn changes(
        rows: &'row [R],
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Cursor>), JournalError> {
        let mut keys = Vec::with_capacity(rows.len());
        let mut last = None;
        for row in rows {
            let mut fields = Self::of(row);
            last = Some(fields.cursor()?);
            keys.push(fields.key()?);
        }
        Ok((keys, last.filter(|_| rows.len() == limit)))
    }

    /// Reads rows of `topic, id, at_ms, reason` of notifications that are set aside.
    pub(super) fn all_set_aside(total: i64, rows: &'row [R]) -> Result<AllSetAside, JournalError> {
        let named = rows.iter().map(|row| {
            let mut fields = Self::of(row);
            Ok((fields.key()?, fields.set_aside()?))
        });
        Ok(AllSetAside {
            total: total.unsigned_abs(),
            named: named.collect::<Result<_, JournalError>>()?,
        })
    }

    /// Reads rows of `name, number, version, removed, settings, created_ms, changed_ms`.
    pub(super) fn endpoints(rows: &'row [R]) -> Result<Vec<EndpointRow>, JournalError> {
        let read = |row| {
            let mut fields = Self::of(row);
            let (name, number) = (fields.text()?, fields.take()?);
            let read = fields.endpoint(&name, number);
            let read = read.map_err(|error| error.to_string());
            Ok(EndpointRow { name, number, read })
        };
        rows.iter().map(read).collect()
    }

    fn endpoint(&mut self, name: &str, number: i64) -> Result<StoredEndpoint, JournalError> {
        let version = self.number("version")?;
        let is_removed = self.take()?;
        let settings = EndpointSettings::from_text(self.take()?).map_err(JournalError::Corrupt)?;
        let endpoint = Endpoint {
            name: EndpointName::parse(name).map_err(|_| corrupt("endpoint's name", &name))?,
            version,
            settings,
            created_ms: self.take()?,
            changed_ms: self.take()?,
            keys: EndpointKeys::from_text(self.take()?)
                .map_err(|bad| JournalError::Corrupt(format!("the keys of the endpoint: {bad}")))?,
        };
        Ok(StoredEndpoint {
            endpoint,
            number,
            is_removed,
        })
    }

    fn text(&mut self) -> Result<String, JournalError> {
        self.take().map(str::to_owned)
    }

    /// Reads a text and parses it. `what` names the value in the error.
    pub(super) fn read<Value>(
        &mut self,
        what: &str,
        parse: impl FnOnce(&str) -> Option<Value>,
    ) -> Result<Value, JournalError> {
        let text: &str = self.take()?;
        parse(text).ok_or_else(|| corrupt(what, &text))
    }

    fn number<Number: TryFrom<i64>>(&mut self, what: &str) -> Result<Number, JournalError> {
        narrowed(what, self.take::<R::Count>()?.into())
    }

    fn bytes(&mut self) -> Result<[u8; 16], JournalError> {
        let bytes: &[u8] = self.take()?;
        bytes
            .try_into()
            .map_err(|_| corrupt("length of an id", &bytes.len()))
    }
}

pub(super) fn narrowed<Number: TryFrom<i64>>(
    what: &str,
    number: i64,
) -> Result<Number, JournalError> {
    Number::try_from(number).map_err(|_| corrupt(what, &number))
}

pub(super) fn corrupt(what: &str, found: &dyn Display) -> JournalError {
    JournalError::Corrupt(format!("`{found}` is not a valid {what}"))
}
