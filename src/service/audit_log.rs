//! The audit log: listing it, and keeping acts that change nothing in the journal.

use super::lookup::{display_cursor, parse_cursor};
use super::timeouts::{with_long_timeout, with_timeout};
use super::{Service, ServiceError};
use crate::domain::api_key::ApiKeyName;
use crate::journal::{AuditEntry, AuditFilter, JournalError, PersonAct};

/// Which entries of the audit log to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditRequest {
    /// Only these.
    pub filter: AuditFilter,
    /// Maximum number of entries on the page.
    pub limit: usize,
    /// The cursor of the page before.
    pub cursor: Option<String>,
    /// The API key of the caller; its lists wait for each other.
    pub asked_by: Option<ApiKeyName>,
}

impl Service {
    /// A page of the audit log, newest first, and the cursor of the next page; `None` at the end.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`], [`ServiceError::BadCursor`], [`ServiceError::TooManyLists`], or the errors of the journal.
    pub async fn audit_log(
        &self,
        request: &AuditRequest,
    ) -> Result<(Vec<AuditEntry>, Option<String>), ServiceError> {
        let no_journal =
            ServiceError::NoJournal("list what people did, because a journal keeps it");
        let journal = self.journal().ok_or(no_journal)?;
        let cursor = request.cursor.as_deref().map(parse_cursor).transpose()?;
        let _permit = self.list_limit.permit(request.asked_by.as_ref()).await?;
        let reading = journal.audit_log(&request.filter, cursor, request.limit);
        let page = with_long_timeout(reading).await?;
        Ok((page.items, page.next.map(display_cursor)))
    }

    /// Keeps an act that changes nothing in the journal. The caller does it only after this has succeeded. If the server
    /// dies in between, there is an entry for an act that was not done, and never an act without its entry. Without a
    /// journal, nothing is kept.
    ///
    /// # Errors
    /// The errors of the journal, of which all are answered 503: the act is refused, whatever the reason.
    pub async fn keep_act(&self, act: &PersonAct) -> Result<(), ServiceError> {
        let Some(journal) = self.journal() else {
            return Ok(());
        };
        with_timeout(journal.keep_act(act)).await.map_err(|error| {
            ServiceError::Journal(match error {
                JournalError::Corrupt(reason) => JournalError::Refused(reason),
                error @ (JournalError::Unavailable(_) | JournalError::Refused(_)) => error,
            })
        })
    }
}
