//! Rows of the journal and what they stand for.

use super::bulk::Bulk;
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
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row as _, Sqlite, SqliteConnection, Type};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// What [`stored`] reads, of a table called `n`.
macro_rules! stored_columns {
    () => {
        "n.row_id, n.topic, n.id, n.webhook_id, n.lane, n.url, n.ladder, n.fingerprint, n.state, \
         n.cause, n.series, n.step, n.attempts, n.first_due_ms, n.deadline_ms, n.due_ms, \
         n.retry_at_ms, n.clamped, n.registered_ms, n.ended_ms, n.fence"
    };
}
/// What `pending` reads besides, of a table called `p` too. SQLite knows the length of a
/// body without reading it.
macro_rules! payload_columns {
    () => {
        "n.ack, n.content_type, p.headers, p.body"
    };
    (without_bodies) => {
        "n.ack, n.content_type, p.headers, length(p.body)"
    };
}
pub(super) use {payload_columns, stored_columns};

/// A notification as it is kept.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) row_id: i64,
    pub(super) snapshot: Snapshot,
}

static LOAD: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH wanted (topic, id) AS (",
        2,
        concat!(
            ") SELECT ",
            stored_columns!(),
            ", a.at_ms, a.reason",
            // A cross join keeps its order in SQLite: one search of the index per wanted key.
            " FROM wanted CROSS JOIN notifications AS n
              ON n.topic = wanted.topic AND n.id = wanted.id
              LEFT JOIN set_aside AS a ON a.topic = n.topic AND a.id = n.id"
        ),
    )
});

static BODIES: LazyLock<Bulk> = LazyLock::new(|| {
    Bulk::new(
        "WITH wanted (topic, id) AS (",
        2,
        ") SELECT n.topic, n.id, p.body
          FROM wanted
          CROSS JOIN notifications AS n ON n.topic = wanted.topic AND n.id = wanted.id
          CROSS JOIN payloads AS p ON p.notification = n.row_id",
    )
});

/// Finds the bodies of these keys.
pub(super) async fn bodies(
    connection: &mut SqliteConnection,
    keys: &[&Key],
) -> Result<HashMap<Key, Bytes>, JournalError> {
    let rows = BODIES
        .fetch(connection, keys, |statement, key| {
            statement.bind(key.topic()).bind(key.id())
        })
        .await?;
    rows.iter()
        .map(|row| {
            let mut fields = Fields::of(row);
            let key = fields.key()?;
            Ok((key, Bytes::copy_from_slice(fields.take()?)))
        })
        .collect()
}

/// Finds the notifications of these keys.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    keys: &[&Key],
) -> Result<HashMap<Key, Stored>, JournalError> {
    let rows = LOAD
        .fetch(connection, keys, |statement, key| {
            statement.bind(key.topic()).bind(key.id())
        })
        .await?;
    rows.iter()
        .map(|row| {
            let mut fields = Fields::of(row);
            let mut stored = stored(&mut fields)?;
            stored.snapshot.set_aside = fields.set_aside(stored.snapshot.state)?;
            Ok((stored.snapshot.key.clone(), stored))
        })
        .collect()
}

/// Reads a row's values one after the other.
pub(super) struct Fields<'row> {
    row: &'row SqliteRow,
    next: usize,
}

impl<'row> Fields<'row> {
    pub(super) fn of(row: &'row SqliteRow) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn take<Value>(&mut self) -> Result<Value, JournalError>
    where
        Value: Decode<'row, Sqlite> + Type<Sqlite>,
    {
        let value = self.row.try_get(self.next).map_err(super::error::failed);
        self.next += 1;
        value
    }

    /// Reads `topic, id`.
    pub(super) fn key(&mut self) -> Result<Key, JournalError> {
        let (topic, id): (&str, &str) = (self.take()?, self.take()?);
        Key::new(topic, id).map_err(|_| corrupt("key", &format!("{topic}/{id}")))
    }

    /// Reads `at_ms, reason` of what is set aside, of a notification in this state.
    fn set_aside(&mut self, state: State) -> Result<Option<SetAside>, JournalError> {
        let (at_ms, reason): (Option<i64>, Option<String>) = (self.take()?, self.take()?);
        let set_aside = at_ms
            .zip(reason)
            .map(|(at_ms, reason)| SetAside { at_ms, reason });
        Ok(set_aside.filter(|_| state == State::Scheduled))
    }

    fn count(&mut self) -> Result<u32, JournalError> {
        let number: i64 = self.take()?;
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

/// Reads [`stored_columns`].
pub(super) fn stored(fields: &mut Fields<'_>) -> Result<Stored, JournalError> {
    let row_id = fields.take()?;
    Ok(Stored {
        row_id,
        snapshot: Snapshot {
            key: fields.key()?,
            webhook_id: WebhookId::from_bytes(fields.bytes()?),
            lane: Lane::from_name(fields.take()?),
            destination: Destination::from_stored(fields.take()?),
            ladder: fields.read("ladder", |text| Ladder::from_text(text).ok())?,
            fingerprint: fields.bytes()?,
            state: fields.read("state", State::from_name)?,
            in_flight: false,
            cause: match fields.take::<Option<&str>>()? {
                Some(name) => Some(Cause::from_name(name).ok_or_else(|| corrupt("cause", &name))?),
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
            registered_ms: fields.take()?,
            ended_ms: fields.take()?,
            fence: fields.fence()?,
            set_aside: None,
            attempts: Vec::new(),
        },
    })
}

/// Reads [`stored_columns`], then [`payload_columns`].
pub(super) fn pending(fields: &mut Fields<'_>, bodies: Bodies) -> Result<Pending, JournalError> {
    let Stored { snapshot, .. } = stored(fields)?;
    let ack = fields.read("ack rule", |name| AckRule::by_name(name).ok())?;
    let content_type = fields.take()?;
    let headers = match fields.take::<Option<&str>>()? {
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
            let len: i64 = fields.take()?;
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

/// Reads `series, number, due_ms, started_ms, duration_ms, outcome, status, answer, reason`.
pub(super) fn attempt(row: &SqliteRow) -> Result<Attempt, JournalError> {
    let mut fields = Fields::of(row);
    Ok(Attempt {
        series: fields.count()?,
        number: fields.count()?,
        due_ms: fields.take()?,
        started_ms: fields.take()?,
        duration_ms: fields.take()?,
        answer: Answer {
            outcome: fields.read("outcome", Outcome::from_name)?,
            status: match fields.take::<Option<i64>>()? {
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
pub(super) fn transition(row: &SqliteRow) -> Result<Transition, JournalError> {
    let mut fields = Fields::of(row);
    Ok(Transition {
        kind: fields.take()?,
        at_ms: fields.take()?,
        actor: fields.take()?,
        instance: fields.take()?,
        detail: fields.take()?,
    })
}
