//! Reads rows of both databases into domain types. Each database has its own statements, which must select
//! the columns in the order in which they are read here.

mod history;
mod notification;

pub(super) use history::Released;
pub(super) use notification::{Ladders, StoredNotification};

use super::{
    AllSetAside, Cursor, EndpointRow, Examined, Fault, JournalCounts, JournalError, PlacesPage,
    StoredEndpoint,
};
use crate::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use crate::domain::endpoint_keys::EndpointKeys;
use crate::domain::key::Key;
use crate::domain::lane::{KeyInLane, Lane};
use crate::domain::place::PlaceInLane;
use crate::domain::priority::Priority;
use crate::domain::state::State;
use sqlx::{ColumnIndex, Decode, Row, Type};
use std::fmt::Display;

/// A row of one of the databases.
pub(super) trait StoredRow: Row {
    /// The integer type of counts, HTTP statuses and lengths.
    type Count: Into<i64>;

    /// Translates the error of a value that cannot be read.
    fn failed(error: sqlx::Error) -> JournalError;
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

    /// Reads a row of a page of pending notifications, and moves the page's cursor to it: its columns begin with `row_id`, and
    /// have `next_due_ms` and `set_aside`. One that is set aside is left out before more of it is read: it may be damaged. So
    /// is one that cannot be read, which must not delay the others.
    pub(super) fn read_page_row<'name>(
        row: &'row R,
        next: &mut Option<Cursor>,
        read: impl FnOnce(&mut Self) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>
    where
        &'name str: ColumnIndex<R>,
    {
        *next = Some(Cursor {
            at_ms: row.try_get("next_due_ms").map_err(R::failed)?,
            row: row.try_get(0).map_err(R::failed)?,
        });
        if row.try_get("set_aside").map_err(R::failed)? {
            return Ok(());
        }
        if let Err(error) = read(&mut Self::of(row)) {
            Self::log_damaged(row, &error, "loading the schedule leaves");
        }
        Ok(())
    }

    /// Reads `row_id, topic, id, lane, priority, series_priority, next_due_ms`, and whether a claim needs its content; adds
    /// the place to the page.
    pub(super) fn add_place(&mut self, page: &mut PlacesPage) -> Result<(), JournalError> {
        self.next += 1;
        let key = self.key()?;
        let lane = Lane::from_name(self.take()?);
        let own: Option<&str> = self.take()?;
        let of_series: Option<&str> = self.take()?;
        let priority = Priority::from_stored(of_series.or(own));
        let place = PlaceInLane {
            entry: KeyInLane { key, lane },
            priority: priority
                .ok_or_else(|| corrupt("priority", &of_series.or(own).unwrap_or_default()))?,
            due_ms: self.take()?,
        };
        let needs_content: bool = self.take()?;
        match needs_content {
            true => page.need_content.push(place),
            false => page.places.push(place),
        }
        Ok(())
    }

    /// Reads a place in a list: an instant and a row number.
    pub(super) fn cursor(&mut self) -> Result<Cursor, JournalError> {
        Ok(Cursor {
            at_ms: self.take()?,
            row: self.take()?,
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
