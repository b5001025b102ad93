//! The audit log: what people have done, newest first.
//!
//! An act that changes the journal is kept in the transaction of the change, so there is no change without its entry, and
//! no entry without its change, whatever dies in between and whichever reply is lost. A change that is refused or repeated
//! changes nothing and makes no entry. Acts that change nothing in the journal are kept by a call of their own, before
//! they are done.
//!
//! Registrations, claims and attempts are no acts of people and write nothing here.

use super::rows::{Fields, StoredRow};
use super::{Cursor, JournalError, PersonAct};
use async_trait::async_trait;
use sqlx::{ColumnIndex, Decode, Type};

/// Maximum number of entries that are read for one page.
pub(super) const MOST_SCANNED: usize = 20_000;

/// The part of a [`super::Journal`] that keeps the acts of people.
#[async_trait]
pub trait JournalAuditLog: Send + Sync + 'static {
    /// Keeps an act that changes nothing in the journal, if its actor is audited. Repeated, it is another act.
    async fn keep_act(&self, act: &PersonAct) -> Result<(), JournalError>;

    /// A page of the entries, newest first. If few entries pass the filter, a page can be short or even empty although
    /// there are more; it has a cursor then.
    async fn audit_log(
        &self,
        filter: &AuditFilter,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AuditPage, JournalError>;
}

/// Which entries to list. A field that is `None` does not restrict the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only acts of this actor. The name of an API key also stands for those that used it in the name of people.
    pub actor: Option<String>,
    /// Only acts at or after this instant, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Only acts before this instant.
    pub to_ms: Option<i64>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number in the journal.
    pub id: i64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who.
    pub actor: String,
    /// What: [`Act::as_str`](crate::domain::act::Act::as_str). A later version may have written an act that this one
    /// does not know.
    pub act: String,
    /// Of which kind it is on what it was done: [`ActSubject::kind`](crate::domain::act::ActSubject::kind).
    pub subject_kind: String,
    /// On what: [`ActSubject::name`](crate::domain::act::ActSubject::name).
    pub subject: String,
    /// Why; may be empty.
    pub reason: String,
    /// What else is to be known of it; may be empty.
    pub detail: String,
    /// The instance that was asked.
    pub instance: String,
}

/// A page of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries.
    pub items: Vec<AuditEntry>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// The entries that a page reads: those below `upper` that are not older than `from_ms`.
pub(super) struct AuditRange {
    pub(super) upper: (i64, i64),
    pub(super) from_ms: i64,
}

impl AuditRange {
    pub(super) fn of(filter: &AuditFilter, cursor: Option<Cursor>) -> Self {
        let end = (filter.to_ms).map_or((i64::MAX, i64::MAX), |to_ms| (to_ms, i64::MIN));
        Self {
            upper: cursor.map_or(end, |cursor| end.min((cursor.at_ms, cursor.row))),
            from_ms: filter.from_ms.unwrap_or(i64::MIN),
        }
    }
}

impl AuditPage {
    /// The page of these entries, of which at most `limit` and one more were read. `scan_end` is the last entry that may
    /// have been read; `None` if there were no more.
    pub(super) fn of(mut items: Vec<AuditEntry>, limit: usize, scan_end: Option<Cursor>) -> Self {
        let has_more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(|last| Cursor {
            at_ms: last.at_ms,
            row: last.id,
        });
        Self {
            next: if has_more { last } else { scan_end },
            items,
        }
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
    /// Reads rows with `id, at_ms, actor, act, subject_kind, subject, reason, detail, instance`.
    pub(super) fn audit_entries(rows: &'row [R]) -> Result<Vec<AuditEntry>, JournalError> {
        let read = |row| {
            let mut fields = Self::of(row);
            Ok(AuditEntry {
                id: fields.take()?,
                at_ms: fields.take()?,
                actor: fields.take::<&str>()?.to_string(),
                act: fields.take::<&str>()?.to_string(),
                subject_kind: fields.take::<&str>()?.to_string(),
                subject: fields.take::<&str>()?.to_string(),
                reason: fields.take::<&str>()?.to_string(),
                detail: fields.take::<&str>()?.to_string(),
                instance: fields.take::<&str>()?.to_string(),
            })
        };
        rows.iter().map(read).collect()
    }
}
