//! Reads rows of the history of a notification: its attempts, its transitions, and that it was set aside.

use super::{Fields, StoredRow, narrowed};
use crate::domain::attempt::{Answer, Attempt, Outcome};
use crate::domain::call_trace::CallTrace;
use crate::domain::key::Key;
use crate::domain::snapshot::SetAside;
use crate::journal::{JournalError, Transition};
use sqlx::{ColumnIndex, Decode, Type};
use std::collections::HashMap;
/// A notification that was set aside and is released now: the data of its row in `set_aside`.
pub(in crate::journal) struct Released {
    pub(in crate::journal) set_aside: SetAside,
    /// The instance that set it aside.
    pub(in crate::journal) instance: String,
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
    /// Reads `series, number, due_ms, started_ms, duration_ms, outcome, status, answer, reason, trace`.
    pub(in crate::journal) fn attempt(&mut self) -> Result<Attempt, JournalError> {
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
    pub(in crate::journal) fn attempts_by_key(
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
    pub(in crate::journal) fn transitions(
        rows: impl IntoIterator<Item = &'row R>,
    ) -> Result<Vec<Transition>, JournalError> {
        let rows = rows.into_iter();
        rows.map(|row| Self::of(row).transition()).collect()
    }

    /// Reads `kind, at_ms, actor, instance, detail`.
    pub(in crate::journal) fn transition(&mut self) -> Result<Transition, JournalError> {
        Ok(Transition {
            kind: self.text()?,
            at_ms: self.take()?,
            actor: self.text()?,
            instance: self.text()?,
            detail: self.text()?,
        })
    }

    /// Reads `at_ms, reason`.
    pub(in crate::journal) fn set_aside(&mut self) -> Result<SetAside, JournalError> {
        Ok(SetAside {
            at_ms: self.take()?,
            reason: self.text()?,
        })
    }

    /// Reads `at_ms, reason, instance` of a row in `set_aside`.
    pub(in crate::journal) fn released(&mut self) -> Result<Released, JournalError> {
        Ok(Released {
            set_aside: self.set_aside()?,
            instance: self.text()?,
        })
    }
}
