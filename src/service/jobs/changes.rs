//! What has become of the notifications that a job has changed.

use super::NO_JOBS;
use crate::domain::job::BulkJob;
use crate::service::lookup::{display_cursor, parse_cursor};
use crate::service::timeouts::with_long_timeout;
use crate::service::{ListPage, Service, ServiceError};

impl Service {
    /// The notifications that a job has changed as they are now, in the order in which it has changed them: at most
    /// `limit`, after a cursor. A page may be short although there are more; it has a cursor then. What the job has skipped,
    /// or could not change, is not among them: it keeps the numbers of those alone.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`], [`ServiceError::BadCursor`], or the errors of the journal.
    pub async fn job_changes(
        &self,
        job: &BulkJob,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ListPage, ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let cursor = cursor.map(parse_cursor).transpose()?;
        let reading = journal.job_changes(&job.id, job.created_ms, cursor, limit);
        let page = with_long_timeout(reading).await?;
        let keys: Vec<_> = page.found.into_iter().map(|(key, _)| key).collect();
        let found = with_long_timeout(journal.snapshots(&keys)).await?;
        let mut items: Vec<_> = found.into_iter().flatten().collect();
        items
            .iter_mut()
            .for_each(|item| self.endpoints.fill_in_url(item));
        let keys: Vec<_> = items.iter().map(|item| item.key.clone()).collect();
        let last_attempts = with_long_timeout(journal.last_attempts(&keys)).await?;
        Ok(ListPage {
            items,
            last_attempts: Some(last_attempts),
            next: page.next.map(display_cursor),
            ..ListPage::default()
        })
    }
}
