//! The three lists on the page of a job: what it has changed, what it has skipped, and what it could not change.

use crate::domain::attempt::Outcome;
use crate::domain::job::{BulkJob, JobKind};
use crate::domain::job_result::JobResult;
use crate::domain::state::State as NotificationState;
use crate::page::html::address;
use crate::page::language::Language;
use crate::page::listed::ListedRow;
use crate::page::notification::path_of as path_of_notification;
use crate::page::texts::job_reasons::JobReasonTexts;
use crate::page::texts::jobs::JobTexts;
use crate::page::times::TimeTag;
use crate::service::{JobNotification, JobNotifications, TRIAL};

/// A link to one of the lists.
pub struct ResultLink {
    pub href: String,
    pub title: &'static str,
    pub many: u64,
    pub is_shown: bool,
}

/// A notification in one of the lists.
pub struct JobNotificationRow {
    pub href: String,
    pub topic: String,
    pub id: String,
    pub at: TimeTag,
    /// Why it was not changed; empty if it was.
    pub why: &'static str,
    /// What else is known about that.
    pub detail: String,
    /// As it is now; `None` if it is not kept any more.
    pub present: Option<ListedRow>,
}

/// How the first ones fare that the job has replayed.
pub struct ShownTrial {
    pub replayed: usize,
    pub delivered: usize,
    pub failed: usize,
    pub waiting: usize,
}

impl ResultLink {
    /// The links to all lists of a job, whose page has this address.
    pub fn all(job: &BulkJob, path: &str, shown: JobResult, language: Language) -> Vec<Self> {
        let t = JobTexts::of(language);
        let counts = job.counts;
        let links = JobResult::ALL.iter().map(|result| {
            let (title, many) = match result {
                JobResult::Done => (t.done, counts.done),
                JobResult::Skipped => (t.skipped, counts.skipped),
                JobResult::Failed => (t.failed, counts.failed),
            };
            Self {
                href: address(path, &[("result", result.as_str())]),
                title,
                many,
                is_shown: *result == shown,
            }
        });
        links.collect()
    }
}

impl JobNotificationRow {
    pub fn of(item: &JobNotification, language: Language) -> Self {
        let texts = JobReasonTexts::of(language);
        let (present, last) = (item.present.as_ref(), item.last_attempt.as_ref());
        let reason = item.reason.as_ref();
        Self {
            href: path_of_notification(&item.key),
            topic: item.key.topic().to_string(),
            id: item.key.id().to_string(),
            at: TimeTag(item.at_ms),
            why: reason.map_or("", |(reason, _)| texts.words(*reason)),
            detail: reason.map_or(String::new(), |(_, detail)| detail.clone()),
            present: present.map(|present| ListedRow::of(present, last, language)),
        }
    }
}

/// The reasons of a result in words, each with its number.
pub fn reasons_in_words(
    page: &JobNotifications,
    result: JobResult,
    language: Language,
) -> Vec<(&'static str, u64)> {
    let texts = JobReasonTexts::of(language);
    let of_result = page
        .reasons
        .iter()
        .filter(|(reason, _)| reason.result() == result);
    of_result
        .map(|(reason, many)| (texts.words(*reason), *many))
        .collect()
}

impl ShownTrial {
    /// Of the first notifications that a job has changed. `None` if it replays nothing.
    pub fn of(job: &BulkJob, first: &JobNotifications) -> Option<Self> {
        let trial = usize::try_from(TRIAL).unwrap_or(usize::MAX);
        let replayed = first.items.len().min(trial);
        if job.kind != JobKind::Replay || replayed == 0 {
            return None;
        }
        let (mut delivered, mut failed) = (0, 0);
        for item in first.items.iter().take(trial) {
            let Some(present) = &item.present else {
                continue;
            };
            let has_failed = item.last_attempt.as_ref().is_some_and(|last| {
                let is_of_series = last.series == present.progress.series;
                is_of_series && last.answer.outcome != Outcome::Interrupted
            });
            match present.state {
                NotificationState::Delivered => delivered += 1,
                _ if has_failed => failed += 1,
                _ => {}
            }
        }
        Some(Self {
            replayed,
            delivered,
            failed,
            waiting: replayed - delivered - failed,
        })
    }
}
