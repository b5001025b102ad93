//! What has become of the notifications of a job, as JSON.

use crate::api::schema::{JobReasonName, JobResultName};
use crate::api::view::ListItemView;
use crate::domain::job_result::JobResult;
use crate::domain::timestamp::display_ms;
use crate::journal::{JobTrial, ReasonCounts};
use crate::service::{Flights, JobNotification, JobNotifications};
use serde::Serialize;
use utoipa::ToSchema;

/// A page of the notifications of a job that have the same result, in the order of their turns.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobNotificationList)]
pub struct JobNotificationsView<'a> {
    items: Vec<JobItemView<'a>>,
    /// The `cursor` of the next page; `null` on the last one.
    #[schema(required)]
    next_cursor: Option<&'a str>,
    /// How many the job has not changed, by reason.
    reasons: Vec<ReasonCountView>,
    /// How many with this result are not in the list: they ended before the job came to them, or the list was full.
    unlisted: u64,
    /// How the first ones are now that the job has replayed; `null` except on the first page of what a replay has done.
    #[schema(required)]
    replayed: Option<ReplayedView>,
}

/// A notification that had its turn in a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobNotification)]
struct JobItemView<'a> {
    topic: &'a str,
    id: &'a str,
    #[schema(value_type = JobResultName)]
    result: &'static str,
    /// Why it was not changed; `null` if it was.
    #[schema(required, value_type = Option<JobReasonName>)]
    reason: Option<&'static str>,
    /// What else is known about that, such as the error of a store.
    #[schema(required)]
    detail: Option<&'a str>,
    /// When it had its turn.
    #[schema(format = DateTime)]
    at: String,
    /// As it is now; `null` if it is not kept any more, or cannot be read.
    #[schema(required)]
    notification: Option<ListItemView<'a>>,
}

/// How many notifications a job has not changed, or would not change, for the same reason.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobReasonCount)]
pub struct ReasonCountView {
    #[schema(value_type = JobResultName)]
    result: &'static str,
    #[schema(value_type = JobReasonName)]
    reason: &'static str,
    count: u64,
}

/// How those are now that a job has replayed: the first ones.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayedByJob)]
struct ReplayedView {
    /// Of how many it is told.
    counted: u64,
    delivered: u64,
    /// Dead letters again.
    dead: u64,
    cancelled: u64,
    pending: u64,
}

impl<'a> JobNotificationsView<'a> {
    /// The view of a page.
    #[must_use]
    pub fn of(page: &'a JobNotifications, result: JobResult) -> Self {
        Self {
            items: (page.items.iter())
                .map(|item| JobItemView::of(item, result, page.flights))
                .collect(),
            next_cursor: page.next.as_deref(),
            reasons: ReasonCountView::all(&page.reasons),
            unlisted: page.unlisted,
            replayed: page.fared.as_ref().map(ReplayedView::of),
        }
    }
}

impl ReasonCountView {
    /// The views of all reasons.
    #[must_use]
    pub fn all(reasons: &ReasonCounts) -> Vec<Self> {
        let views = reasons.iter().map(|(reason, count)| Self {
            result: reason.result().as_str(),
            reason: reason.as_str(),
            count: *count,
        });
        views.collect()
    }
}

impl<'a> JobItemView<'a> {
    fn of(item: &'a JobNotification, result: JobResult, flights: Flights) -> Self {
        let reason = item.reason.as_ref();
        let last = item.last_attempt.as_ref();
        Self {
            topic: item.key.topic(),
            id: item.key.id(),
            result: result.as_str(),
            reason: reason.map(|(reason, _)| reason.as_str()),
            detail: reason
                .map(|(_, detail)| detail.as_str())
                .filter(|detail| !detail.is_empty()),
            at: display_ms(item.at_ms),
            notification: (item.present.as_ref())
                .map(|present| ListItemView::of(present, last, flights)),
        }
    }
}

impl ReplayedView {
    fn of(fared: &JobTrial) -> Self {
        Self {
            counted: fared.replayed,
            delivered: fared.delivered,
            dead: fared.dead,
            cancelled: fared.cancelled,
            pending: fared.pending(),
        }
    }
}
