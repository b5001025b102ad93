//! Jobs as JSON.

use crate::api::job_notifications::ReasonCountView;
use crate::api::schema::{CauseName, JobKindName, JobStateName};
use crate::api::view::{NotificationView, json};
use crate::domain::call_rate::CallRate;
use crate::domain::job::BulkJob;
use crate::domain::job_filter::JobFilter;
use crate::domain::lane_settings::LaneHold;
use crate::domain::timestamp::display_ms;
use crate::service::{JobPreview, ReleaseReply, calls_wait};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

/// A job: what concerns many notifications.
// Callers rely on the names of the members.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub struct JobView<'a> {
    /// Its name in `/v1/jobs/{id}`; `null` if there is no journal to keep it in.
    #[schema(required)]
    id: Option<&'a str>,
    #[schema(value_type = JobKindName)]
    kind: &'static str,
    #[schema(value_type = JobStateName)]
    state: &'static str,
    /// The destination that it concerns; `null` if it has a filter.
    #[schema(required)]
    lane: Option<&'a str>,
    /// The filter that it was made for.
    #[schema(required)]
    filter: Option<FilterView<'a>>,
    /// How many notifications it concerns.
    matched: u64,
    done: u64,
    /// Those for which there was nothing to do when their turn came.
    skipped: u64,
    /// Those that could not be changed.
    failed: u64,
    /// Notifications per second.
    rate: f64,
    /// Who asked for it.
    actor: &'a str,
    #[schema(required)]
    reason: Option<&'a str>,
    /// Why it has failed.
    #[schema(required)]
    problem: Option<&'a str>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(required, format = DateTime)]
    ended_at: Option<String>,
    /// `false` in the answer to a release of a lane that nobody held; else left out, so that it is the job as it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    was_held: Option<bool>,
    /// In the answer to a retry or a replay whose lane is held: calls begin when it is released. Else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// The filter of a job, as a request says it, without what it does not say.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobFilter)]
struct FilterView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<&'a str>,
    #[schema(value_type = Option<CauseName>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[schema(format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[schema(format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_contains: Option<&'a str>,
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobList)]
pub struct JobListView<'a> {
    items: Vec<JobView<'a>>,
    /// The `cursor` of the next page; `null` on the last one.
    #[schema(required)]
    next_cursor: Option<&'a str>,
}

/// The answer to a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JobPreview)]
pub struct PreviewView<'a> {
    matched: u64,
    /// Whether more may match.
    at_least: bool,
    /// How many of them a job would not change, as far as that is known before, by reason.
    reasons: Vec<ReasonCountView>,
    /// The first ten.
    sample: Vec<NotificationView<'a>>,
    /// Of a retry or a replay whose lane is held: calls begin when it is released. Else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

impl<'a> JobView<'a> {
    /// The view of a job.
    #[must_use]
    pub fn of(job: &'a BulkJob) -> Self {
        Self {
            id: Some(job.id.as_str()),
            kind: job.kind.as_str(),
            state: job.state.as_str(),
            lane: job.lane.as_ref().map(|lane| lane.as_str()),
            filter: job.filter.as_ref().map(FilterView::of),
            matched: job.counts.matched,
            done: job.counts.done,
            skipped: job.counts.skipped,
            failed: job.counts.failed,
            rate: CallRate::calls_per_second(job.rate),
            actor: &job.actor,
            reason: Some(&*job.reason).filter(|reason| !reason.is_empty()),
            problem: job.problem.as_deref(),
            created_at: display_ms(job.created_ms),
            ended_at: job.ended_ms.map(display_ms),
            was_held: None,
            warning: None,
        }
    }

    /// The view of a job in the answer to the request for it. If somebody holds the lane to which the job makes calls, it says so:
    /// whoever takes the job for calls would wait for calls that are not made.
    fn asked_for(job: &'a BulkJob, hold: Option<&LaneHold>) -> Self {
        Self {
            warning: hold.map(calls_wait),
            ..Self::of(job)
        }
    }
}

impl<'a> PreviewView<'a> {
    fn of(preview: &'a JobPreview, hold: Option<&LaneHold>) -> Self {
        Self {
            matched: preview.matched,
            at_least: preview.at_least,
            reasons: ReasonCountView::all(&preview.reasons),
            sample: preview.sample.iter().map(NotificationView::of).collect(),
            warning: hold.map(calls_wait),
        }
    }
}

impl<'a> FilterView<'a> {
    fn of(filter: &'a JobFilter) -> Self {
        Self {
            topic: filter.topic.as_deref(),
            lane: filter.lane.as_deref(),
            cause: filter.cause.map(|cause| cause.as_str()),
            from: filter.from_ms.map(display_ms),
            to: filter.to_ms.map(display_ms),
            id_contains: filter.id_contains.as_deref(),
        }
    }
}

impl<'a> JobListView<'a> {
    /// The view of a page of jobs.
    #[must_use]
    pub fn of(jobs: &'a [BulkJob], next_cursor: Option<&'a str>) -> Self {
        Self {
            items: jobs.iter().map(JobView::of).collect(),
            next_cursor,
        }
    }
}

/// The answer to a request that was accepted as a job. `hold`: who holds the lane to which it makes calls.
#[must_use]
pub fn accepted(job: &BulkJob, hold: Option<&LaneHold>) -> Response {
    with_location(StatusCode::ACCEPTED, &JobView::asked_for(job, hold), job)
}

/// The answer to a request whose job was made before and has not ended. `hold`: as for [`accepted`].
#[must_use]
pub fn same(job: &BulkJob, hold: Option<&LaneHold>) -> Response {
    with_location(StatusCode::OK, &JobView::asked_for(job, hold), job)
}

/// The answer to a release. If its job is not kept, nobody can ask for it.
#[must_use]
pub fn released(reply: &ReleaseReply) -> Response {
    let mut view = JobView::of(&reply.job);
    view.was_held = (!reply.was_held).then_some(false);
    if !reply.is_kept {
        view.id = None;
        return json(StatusCode::ACCEPTED, &view);
    }
    with_location(StatusCode::ACCEPTED, &view, &reply.job)
}

fn with_location(status: StatusCode, view: &JobView<'_>, job: &BulkJob) -> Response {
    let mut response = json(status, view);
    let location = HeaderValue::from_str(&format!("/v1/jobs/{}", job.id));
    let location = location.expect("invariant: an id is ASCII");
    response.headers_mut().insert(header::LOCATION, location);
    response
}

/// The answer to a dry run. `hold`: as for [`accepted`].
#[must_use]
pub fn previewed(preview: &JobPreview, hold: Option<&LaneHold>) -> Response {
    json(StatusCode::OK, &PreviewView::of(preview, hold))
}
