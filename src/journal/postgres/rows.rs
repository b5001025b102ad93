//! Rows of the journal and what they stand for.

use super::error::Failure;
use crate::domain::ack::AckRule;
use crate::domain::attempt::{Answer, Attempt, Outcome};
use crate::domain::body::Body;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::key::Key;
use crate::domain::ladder::Ladder;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
use crate::domain::progress::Progress;
use crate::domain::snapshot::{SetAside, Snapshot};
use crate::domain::state::{Cause, State};
use crate::domain::webhook_id::WebhookId;
use crate::journal::{Bodies, JournalError, Pending, Transition};
use bytes::Bytes;
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row as _, Type};
use std::collections::HashMap;
use std::sync::Arc;

/// What [`Reader::stored`] reads, of tables called `n` and `s`.
macro_rules! stored_columns {
    () => {
        "n.row_id, n.topic, n.id, n.webhook_id, n.lane, n.url, n.ladder, n.fingerprint, \
         n.registered_ms, s.state, s.cause, s.series, s.step, s.attempts, s.first_due_ms, \
         s.deadline_ms, s.due_ms, s.retry_at_ms, s.clamped, s.ended_ms, s.fence"
    };
}
/// What [`Reader::pending`] reads besides, the payload from a table of this name.
macro_rules! payload_columns {
    ($payload:literal) => {
        concat!(
            "n.ack, n.content_type, ",
            $payload,
            ".headers, ",
            $payload,
            ".body"
        )
    };
}
/// The notification of this row number, as a table called `n`. Said so roundabout, it is looked up in
/// the order of the numbers and nowhere else: to a planner that believes the table to be small, any
/// index with the number in it would do.
macro_rules! notification_of {
    ($row_id:literal) => {
        concat!(
            "(SELECT * FROM notifications WHERE row_id BETWEEN ",
            $row_id,
            " AND ",
            $row_id,
            " ORDER BY row_id LIMIT 1) AS n"
        )
    };
}
pub(super) use {notification_of, payload_columns, stored_columns};

/// No headers of the caller's own, as nearly all notifications have it.
pub(super) const NO_HEADERS: &str = "[]";

/// A notification as it is kept.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) row_id: i64,
    pub(super) snapshot: Snapshot,
}

/// Reads rows of one answer; remembers the ladders in it, since nearly all rows share a few.
#[derive(Default)]
pub(super) struct Reader {
    ladders: HashMap<Box<str>, Ladder>,
}

/// A row's values, one after the other.
pub(super) struct Fields<'row> {
    row: &'row PgRow,
    next: usize,
}

impl<'row> Fields<'row> {
    pub(super) fn of(row: &'row PgRow) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn take<Value>(&mut self) -> Result<Value, JournalError>
    where
        Value: Decode<'row, Postgres> + Type<Postgres>,
    {
        let value = self.row.try_get(self.next).map_err(Failure::from)?;
        self.next += 1;
        Ok(value)
    }

    /// Reads `topic, id`.
    pub(super) fn key(&mut self) -> Result<Key, JournalError> {
        let (topic, id): (&str, &str) = (self.take()?, self.take()?);
        Key::new(topic, id).map_err(|_| corrupt("key", &format!("{topic}/{id}")))
    }

    /// Reads `at_ms, reason` of what is set aside, of a notification in this state.
    pub(super) fn set_aside(&mut self, state: State) -> Result<Option<SetAside>, JournalError> {
        let (at_ms, reason): (Option<i64>, Option<String>) = (self.take()?, self.take()?);
        let set_aside = at_ms
            .zip(reason)
            .map(|(at_ms, reason)| SetAside { at_ms, reason });
        Ok(set_aside.filter(|_| state == State::Scheduled))
    }

    fn count(&mut self) -> Result<u32, JournalError> {
        let number: i32 = self.take()?;
        u32::try_from(number).map_err(|_| corrupt("count", &number))
    }

    fn fence(&mut self) -> Result<u64, JournalError> {
        let number: i64 = self.take()?;
        u64::try_from(number).map_err(|_| corrupt("fence", &number))
    }

    fn bytes(&mut self) -> Result<[u8; 16], JournalError> {
        let bytes: &[u8] = self.take()?;
        bytes
            .try_into()
            .map_err(|_| corrupt("length of an id", &bytes.len()))
    }

    /// A text that must mean something.
    fn read<Value>(
        &mut self,
        what: &str,
        parse: impl FnOnce(&str) -> Option<Value>,
    ) -> Result<Value, JournalError> {
        let text: &str = self.take()?;
        parse(text).ok_or_else(|| corrupt(what, &text))
    }
}

fn corrupt(what: &str, found: &dyn std::fmt::Display) -> JournalError {
    JournalError::Corrupt(format!("`{found}` is no {what}"))
}

impl Reader {
    /// Reads [`stored_columns`].
    pub(super) fn stored(&mut self, fields: &mut Fields<'_>) -> Result<Stored, JournalError> {
        let row_id = fields.take()?;
        Ok(Stored {
            row_id,
            snapshot: Snapshot {
                key: fields.key()?,
                webhook_id: WebhookId::from_bytes(fields.bytes()?),
                lane: Lane::from_name(fields.take()?),
                destination: Destination::from_stored(fields.take()?),
                ladder: self.ladder(fields.take()?)?,
                fingerprint: fields.bytes()?,
                registered_ms: fields.take()?,
                state: fields.read("state", State::from_name)?,
                in_flight: false,
                cause: match fields.take::<Option<&str>>()? {
                    Some(name) => {
                        Some(Cause::from_name(name).ok_or_else(|| corrupt("cause", &name))?)
                    }
                    None => None,
                },
                progress: Progress {
                    series: fields.count()?,
                    step: fields.count()?,
                    attempts: fields.count()?,
                    first_due_ms: fields.take()?,
                    deadline_ms: fields.take()?,
                    due_ms: fields.take()?,
                    retry_at_ms: fields.take()?,
                    clamped: fields.take()?,
                },
                ended_ms: fields.take()?,
                fence: fields.fence()?,
                set_aside: None,
                attempts: Vec::new(),
            },
        })
    }

    /// Reads [`stored_columns`], then [`payload_columns`].
    pub(super) fn pending(
        &mut self,
        fields: &mut Fields<'_>,
        bodies: Bodies,
    ) -> Result<Pending, JournalError> {
        let Stored { snapshot, .. } = self.stored(fields)?;
        let ack = fields.read("ack rule", |name| AckRule::by_name(name).ok())?;
        let content_type = fields.take()?;
        let headers = match fields.take::<Option<&str>>()? {
            Some(NO_HEADERS) => Headers::default(),
            Some(text) => Headers::from_stored(
                serde_json::from_str(text).map_err(|_| corrupt("list of headers", &text))?,
            ),
            // To leave it out would be to lose it.
            None => {
                return Err(JournalError::Corrupt(format!(
                    "{} is scheduled and has no body",
                    snapshot.key
                )));
            }
        };
        let body = match bodies {
            Bodies::Read => Bytes::from(fields.take::<Vec<u8>>()?).into(),
            Bodies::Left => {
                let len: i32 = fields.take()?;
                Body::InJournal(usize::try_from(len).map_err(|_| corrupt("length", &len))?)
            }
        };
        let progress = snapshot.progress;
        let notification = Notification {
            key: snapshot.key,
            webhook_id: snapshot.webhook_id,
            destination: snapshot.destination,
            lane: snapshot.lane,
            body,
            content_type,
            headers,
            ladder: snapshot.ladder,
            ack,
            registered_ms: snapshot.registered_ms,
            fingerprint: snapshot.fingerprint,
        };
        Ok(Pending {
            notification: Arc::new(notification),
            progress,
        })
    }

    fn ladder(&mut self, text: &str) -> Result<Ladder, JournalError> {
        if let Some(known) = self.ladders.get(text) {
            return Ok(known.clone());
        }
        let ladder = Ladder::from_text(text).map_err(|_| corrupt("ladder", &text))?;
        self.ladders.insert(text.into(), ladder.clone());
        Ok(ladder)
    }
}

/// Reads `series, number, due_ms, started_ms, duration_ms, outcome, status, answer, reason`.
pub(super) fn attempt(row: &PgRow) -> Result<Attempt, JournalError> {
    let mut fields = Fields::of(row);
    Ok(Attempt {
        series: fields.count()?,
        number: fields.count()?,
        due_ms: fields.take()?,
        started_ms: fields.take()?,
        duration_ms: fields.take()?,
        answer: Answer {
            outcome: fields.read("outcome", Outcome::from_name)?,
            status: match fields.take::<Option<i32>>()? {
                Some(status) => {
                    Some(u16::try_from(status).map_err(|_| corrupt("status", &status))?)
                }
                None => None,
            },
            body: fields.take()?,
            reason: fields.take()?,
        },
    })
}

/// Reads `kind, at_ms, actor, instance, detail`.
pub(super) fn transition(row: &PgRow) -> Result<Transition, JournalError> {
    let mut fields = Fields::of(row);
    Ok(Transition {
        kind: fields.take()?,
        at_ms: fields.take()?,
        actor: fields.take()?,
        instance: fields.take()?,
        detail: fields.take()?,
    })
}
