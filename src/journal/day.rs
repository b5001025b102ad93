//! Reading a day: all notifications that were registered in a span of time, each with its end or where it stands, for
//! reconciliation files.
//!
//! A reading is one transaction, so all of it is as of one instant, whatever servers do meanwhile. It only reads, and no
//! writer waits for it. While it is open, PostgreSQL keeps the old versions of all rows that change, and the write-ahead log
//! of SQLite grows. So whoever has a reading must go on with it, and bounds the waits for those who take its rows.

use super::pruning::read_position;
use super::rows::{Fields, StoredRow, corrupt, narrowed};
use super::{Cursor, JournalCounts, JournalError, UnreadableNotification};
use crate::domain::attempt::Outcome;
use crate::domain::destination::Destination;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::state::{Cause, State};
use crate::domain::webhook_id::WebhookId;
use async_trait::async_trait;
use sqlx::{ColumnIndex, Decode, Type};

/// Which notifications are read. A field that is `None` does not restrict them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaySelection {
    /// Only those that were registered at or after this instant, in milliseconds since 1970.
    pub from_ms: i64,
    /// Only those that were registered before this instant.
    pub until_ms: i64,
    /// Only those of this topic.
    pub topic: Option<String>,
    /// Only those of this lane.
    pub lane: Option<Lane>,
}

/// A notification of a day. Instants are in milliseconds since 1970, UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayNotification {
    /// Its topic and id.
    pub key: Key,
    /// The `Webhook-Id` of its calls.
    pub webhook_id: WebhookId,
    /// The lane that it belongs to.
    pub lane: Lane,
    /// The URL of the registration; `None` if it is that of the endpoint at each attempt.
    pub destination: Option<Destination>,
    /// Its state.
    pub state: State,
    /// Why it is dead or cancelled, if there is a cause.
    pub cause: Option<Cause>,
    /// Whether it is cancelled because it was discarded as a dead letter.
    pub is_discarded: bool,
    /// When it was registered.
    pub registered_ms: i64,
    /// When the first attempt of its series was due.
    pub first_due_ms: i64,
    /// When the window of its series closes.
    pub deadline_ms: i64,
    /// When its next attempt is due; `None` if it has ended.
    pub next_due_ms: Option<i64>,
    /// When it ended; `None` if it is pending.
    pub ended_ms: Option<i64>,
    /// The number of its series.
    pub series: u32,
    /// How many attempts have ended in all series.
    pub attempts: u32,
    /// The last attempt, if there was one.
    pub last_attempt: Option<DayAttempt>,
}

/// What is read of the last attempt of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayAttempt {
    /// How it ended.
    pub outcome: Outcome,
    /// The HTTP status, if the receiver sent one.
    pub status: Option<u16>,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
}

/// A part of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayPage {
    /// The notifications, in the order of their registrations.
    pub items: Vec<DayNotification>,
    /// Those whose rows cannot be read.
    pub unreadable: Vec<UnreadableNotification>,
}

/// Up to when pruning has deleted notifications. Instants are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrunedUntil {
    /// What was delivered or cancelled by then may have been deleted. `None` if nothing was.
    pub ended_ms: Option<i64>,
    /// Dead letters that died before then may have been deleted. `None` if none were.
    pub dead_ms: Option<i64>,
}

/// A reading of a day.
#[async_trait]
pub trait DayReading: Send {
    /// Up to when notifications were deleted.
    fn pruned(&self) -> PrunedUntil;

    /// If the database is a standby: when the last change was made that it has taken over from its primary, in milliseconds
    /// since 1970; 0 if that is not known. `None` if it is no standby.
    fn standby_until_ms(&self) -> Option<i64> {
        None
    }

    /// The numbers of all notifications of the day, by state, as the database counts them, whatever was read before.
    async fn counts(&mut self) -> Result<JournalCounts, JournalError>;

    /// The next notifications in the order of their registrations, at most `limit`. `None` at the end.
    async fn page(&mut self, limit: usize) -> Result<Option<DayPage>, JournalError>;

    /// Ends the transaction. It also ends when the reading is dropped.
    async fn end(self: Box<Self>);
}

/// Counts rows that have a `state`.
macro_rules! state_counts {
    () => {
        "count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'delivered'), \
         count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'cancelled')"
    };
}
pub(super) use state_counts;

impl PrunedUntil {
    /// Reads what [`super::pruning`] has stored: the position of pruning, and the bound for dead letters.
    pub(super) fn of(position: Option<&str>, dead: Option<&str>) -> Result<Self, JournalError> {
        let dead_ms = dead.map(|text| {
            let read = text.parse();
            read.map_err(|_| corrupt("instant up to which dead letters were deleted", &text))
        });
        let position = position.map(read_position).transpose()?;
        Ok(Self {
            ended_ms: position.map(|position| position.at_ms),
            dead_ms: dead_ms.transpose()?,
        })
    }

    /// The latest instant by which something that was registered at or after `from_ms` may have ended and been deleted.
    /// `None` if nothing of that can be missing.
    #[must_use]
    pub fn after(self, from_ms: i64) -> Option<i64> {
        let ended_ms = self.ended_ms.filter(|at_ms| *at_ms >= from_ms);
        ended_ms.max(self.dead_ms.filter(|at_ms| *at_ms > from_ms))
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
    /// Reads `registered` and the four counts of `state_counts!`.
    pub(super) fn day_counts(row: &'row R) -> Result<JournalCounts, JournalError> {
        let mut fields = Self::of(row);
        let mut next = || -> Result<u64, JournalError> { Ok(fields.take::<i64>()?.unsigned_abs()) };
        Ok(JournalCounts {
            registered: next()?,
            scheduled: next()?,
            delivered: next()?,
            dead: next()?,
            cancelled: next()?,
        })
    }

    /// Reads rows of a day: `registered_ms, row_id, topic, id, webhook_id, lane, url, state, cause, superseded, discarded,
    /// first_due_ms, deadline_ms, next_due_ms, ended_ms, series, attempts`, and of the last attempt `outcome, status,
    /// started_ms, duration_ms`. Also returns the place of the last row.
    pub(super) fn day_page(
        rows: &'row [R],
        selection: &DaySelection,
    ) -> Result<(DayPage, Option<Cursor>), JournalError> {
        let mut page = DayPage::default();
        let mut last = None;
        for row in rows {
            let mut fields = Self::of(row);
            let place = fields.cursor()?;
            last = Some(place);
            match fields.day_notification(place.at_ms, selection) {
                Ok(item) => page.items.push(item),
                Err(error) => {
                    let unreadable = Self::name_damaged(row, (place.row, 2), &error);
                    page.unreadable.push(unreadable);
                }
            }
        }
        Ok((page, last))
    }

    fn day_notification(
        &mut self,
        registered_ms: i64,
        selection: &DaySelection,
    ) -> Result<DayNotification, JournalError> {
        if registered_ms < selection.from_ms || registered_ms >= selection.until_ms {
            return Err(corrupt("instant for the number of its row", &registered_ms));
        }
        let key = self.key()?;
        let webhook_id: &[u8] = self.take()?;
        let webhook_id = webhook_id
            .try_into()
            .map_err(|_| corrupt("length of an id", &webhook_id.len()))?;
        let lane = Lane::from_name(self.take()?);
        let destination = Destination::own_from_stored(self.take()?);
        let state = self.read("state", State::from_name)?;
        let cause = match self.take::<Option<&str>>()? {
            Some(name) => Some(Cause::from_name(name).ok_or_else(|| corrupt("cause", &name))?),
            None => None,
        };
        let is_superseded = self.take::<Option<bool>>()?.is_some() && state == State::Cancelled;
        let is_discarded = self.take()?;
        let (first_due_ms, deadline_ms) = (self.take()?, self.take()?);
        let next_due_ms: i64 = self.take()?;
        Ok(DayNotification {
            key,
            webhook_id: WebhookId::from_bytes(webhook_id),
            lane,
            destination,
            state,
            cause: match is_superseded {
                true => Some(Cause::Superseded),
                false => cause,
            },
            is_discarded,
            registered_ms,
            first_due_ms,
            deadline_ms,
            next_due_ms: (state == State::Scheduled).then_some(next_due_ms),
            ended_ms: self.take()?,
            series: narrowed("count", self.take::<R::Count>()?.into())?,
            attempts: narrowed("count", self.take::<R::Count>()?.into())?,
            last_attempt: self.day_attempt()?,
        })
    }

    fn day_attempt(&mut self) -> Result<Option<DayAttempt>, JournalError> {
        let Some(name) = self.take::<Option<&str>>()? else {
            return Ok(None);
        };
        Ok(Some(DayAttempt {
            outcome: Outcome::from_name(name).ok_or_else(|| corrupt("outcome", &name))?,
            status: match self.take::<Option<R::Count>>()? {
                Some(status) => Some(narrowed("status", status.into())?),
                None => None,
            },
            started_ms: self.take()?,
            duration_ms: self.take()?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_missing_of_a_day_is_what_ended_by_then() {
        fn check(position: Option<&str>, dead: Option<&str>, expected: Option<i64>) {
            let pruned = PrunedUntil::of(position, dead).expect("readable");
            assert_eq!(pruned.after(1_000), expected, "{position:?} {dead:?}");
        }
        check(None, None, None);
        check(Some("999/7"), None, None);
        // What was registered and cancelled in the first millisecond of the day.
        check(Some("1000/7"), None, Some(1_000));
        check(None, Some("1000"), None);
        check(None, Some("1001"), Some(1_001));
        check(Some("1500/7"), Some("1200"), Some(1_500));
        check(Some("1100/7"), Some("1200"), Some(1_200));
        assert!(PrunedUntil::of(Some("1000"), None).is_err());
        assert!(PrunedUntil::of(None, Some("soon")).is_err());
    }
}
