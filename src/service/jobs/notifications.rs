//! What has become of the notifications of a job: those that it has changed, and those that it has not, with the reasons.

use super::NO_JOBS;
use crate::domain::api_key::ApiKeyName;
use crate::domain::attempt::Attempt;
use crate::domain::job::{BulkJob, JobKind};
use crate::domain::job_result::{JobReason, JobResult};
use crate::domain::key::Key;
use crate::domain::snapshot::Snapshot;
use crate::journal::{Cursor, JobTrial, Journal, JournalError, ReasonCounts, listed};
use crate::service::lookup::{Flights, display_cursor, known_if, parse_cursor};
use crate::service::timeouts::{with_long_timeout, with_timeout};
use crate::service::{Service, ServiceError};
use std::collections::HashMap;

/// Of how many changes by hand since a job was made it is told how those have fared that it has replayed.
const MOST_FARED: usize = 2_000;

/// A notification that had its turn in a job.
#[derive(Debug, Clone)]
pub struct JobNotification {
    /// The notification.
    pub key: Key,
    /// When it had its turn, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why it was not changed, and what else is known about that, which may be empty. `None` if it was changed.
    pub reason: Option<(JobReason, String)>,
    /// The notification as it is now, without its attempts; `None` if it is not kept any more, or cannot
    /// be read.
    pub present: Option<Snapshot>,
    /// Its last attempt, if there was one.
    pub last_attempt: Option<Attempt>,
}

/// A page of the notifications of a job that have the same result.
#[derive(Debug, Clone, Default)]
pub struct JobNotifications {
    /// In the order of their turns.
    pub items: Vec<JobNotification>,
    /// Whether `in_flight` of the notifications is known.
    pub flights: Flights,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
    /// How many the job has not changed, by reason.
    pub reasons: ReasonCounts,
    /// How many with this result are not in the list: they ended before their turn, or the list was full.
    pub unlisted: u64,
    /// How the first ones have fared that the job has replayed. Only on the first page of those of a replay.
    pub fared: Option<JobTrial>,
}

impl Service {
    /// The notifications of a job that have this result, as they are now, in the order of their turns: at most `limit`,
    /// after a cursor. A page of those that were changed may be short although there are more; it has a cursor then. `asked_by`:
    /// the API key of the caller, whose lists wait for each other.
    ///
    /// # Errors
    /// [`ServiceError::NoJournal`], [`ServiceError::BadCursor`], [`ServiceError::TooManyLists`], or the errors of the journal.
    pub async fn job_notifications(
        &self,
        job: &BulkJob,
        result: JobResult,
        cursor: Option<&str>,
        limit: usize,
        asked_by: Option<&ApiKeyName>,
    ) -> Result<JobNotifications, ServiceError> {
        let journal = self.journal().ok_or(NO_JOBS)?;
        let cursor = cursor.map(parse_cursor).transpose()?;
        let permit = self.list_limit.permit(asked_by).await?;
        let (mut items, next) = match result {
            JobResult::Done => changed(journal, job, cursor, limit).await?,
            JobResult::Skipped | JobResult::Failed => {
                unchanged(journal, job, result, cursor, limit).await?
            }
        };
        let keys: Vec<Key> = items.iter().map(|item| item.key.clone()).collect();
        let mut found = readable(journal, &keys).await?;
        let mut last = match with_long_timeout(journal.last_attempts(&keys)).await {
            Ok(last) => last.into_iter(),
            // As in any list, what can be read is shown.
            Err(JournalError::Corrupt(_)) => Vec::new().into_iter(),
            Err(error) => return Err(error.into()),
        };
        let reasons = with_long_timeout(journal.job_reasons(&job.id)).await?;
        let counted = match result {
            JobResult::Done => 0,
            JobResult::Skipped => job.counts.skipped,
            JobResult::Failed => job.counts.failed,
        };
        let has_fared = result == JobResult::Done && job.kind == JobKind::Replay;
        let fared = match has_fared && cursor.is_none() && job.counts.done > 0 {
            true => {
                let reading = journal.job_trial(&job.id, job.created_ms, MOST_FARED);
                Some(with_long_timeout(reading).await?)
            }
            false => None,
        };
        // Nobody waits for the permit while the schedule is asked.
        drop(permit);
        let flights = known_if(&self.mark_in_flight(&mut found).await);
        found
            .iter_mut()
            .for_each(|one| self.endpoints.fill_in_url(one));
        let found = found.into_iter().map(|one| (one.key.clone(), one));
        let found: HashMap<Key, Snapshot> = found.collect();
        for item in &mut items {
            item.present = found.get(&item.key).cloned();
            item.last_attempt = last.next().flatten();
        }
        Ok(JobNotifications {
            unlisted: counted.saturating_sub(listed(&reasons, result)),
            items,
            flights,
            next: next.map(display_cursor),
            reasons,
            fared,
        })
    }
}

/// Those of these notifications that are kept and can be read: a job lists also what cannot be.
pub(super) async fn readable(
    journal: &dyn Journal,
    keys: &[Key],
) -> Result<Vec<Snapshot>, ServiceError> {
    match with_long_timeout(journal.snapshots(keys)).await {
        Ok(found) => return Ok(found.into_iter().flatten().collect()),
        Err(JournalError::Corrupt(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let mut readable = Vec::new();
    for key in keys {
        match with_timeout(journal.snapshots(std::slice::from_ref(key))).await {
            Ok(found) => readable.extend(found.into_iter().flatten()),
            Err(JournalError::Corrupt(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(readable)
}

type FoundInJob = (Vec<JobNotification>, Option<Cursor>);

/// Those that the job has changed, by their histories.
async fn changed(
    journal: &dyn Journal,
    job: &BulkJob,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<FoundInJob, ServiceError> {
    let reading = journal.job_changes(&job.id, job.created_ms, cursor, limit);
    let page = with_long_timeout(reading).await?;
    let items = page.found.into_iter().map(|(key, place)| JobNotification {
        key,
        at_ms: place.at_ms,
        reason: None,
        present: None,
        last_attempt: None,
    });
    Ok((items.collect(), page.next))
}

/// Those that it has not changed.
async fn unchanged(
    journal: &dyn Journal,
    job: &BulkJob,
    result: JobResult,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<FoundInJob, ServiceError> {
    let after = cursor.map_or(0, |cursor| u64::try_from(cursor.row).unwrap_or(0));
    let reading = journal.job_unchanged(&job.id, result, after, limit.saturating_add(1));
    let mut found = with_long_timeout(reading).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| has_more);
    let next = last.map(|last| Cursor {
        at_ms: last.at_ms,
        row: i64::try_from(last.number).unwrap_or(i64::MAX),
    });
    let items = found.into_iter().map(|one| JobNotification {
        at_ms: one.at_ms,
        reason: Some((one.unchanged.reason, one.unchanged.detail)),
        key: one.unchanged.key,
        present: None,
        last_attempt: None,
    });
    Ok((items.collect(), next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Actor;
    use crate::service::default_rate;
    use crate::service::empty_stores::service_over_empty_stores;

    #[tokio::test]
    async fn those_of_a_job_wait_for_other_lists() {
        let dir = tempfile::tempdir().expect("a directory");
        let service = service_over_empty_stores(dir.path()).await;
        let job = service.new_job(JobKind::Replay, default_rate(), &Actor::named("anna"), "");
        for result in [JobResult::Done, JobResult::Skipped] {
            let page = async || {
                service
                    .job_notifications(&job, result, None, 10, None)
                    .await
            };
            let found = page().await.expect("read");
            assert!(found.items.is_empty());
            let first = service.list_limit.permit(None).await.expect("free");
            let second = service.list_limit.permit(None).await.expect("free");
            // Nothing is read meanwhile.
            tokio::time::pause();
            assert!(matches!(page().await, Err(ServiceError::TooManyLists)));
            tokio::time::resume();
            drop((first, second));
            assert!(page().await.is_ok());
        }
    }
}
