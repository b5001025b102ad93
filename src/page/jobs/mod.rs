//! Jobs: the list, and the page of one with its progress, what has become of its notifications ([`notifications`]), and the
//! orders that it takes ([`orders`]).

mod notifications;
pub(super) mod orders;

use super::Page;
use super::bulk::filters::in_words;
use super::frame::PageFrame;
use super::html::{address, document};
use super::language::Language;
use super::live::LiveSubject;
use super::problem::PageProblem;
use super::texts::bulk::BulkTexts;
use super::texts::jobs::JobTexts;
use super::texts::letters::LetterTexts;
use super::texts::search::SearchTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::domain::job::{BulkJob, JobId, JobKind, JobState};
use crate::domain::job_result::JobResult;
use crate::journal::JobTrial;
use crate::service::{JobListRequest, JobNotifications, ServiceError, TRIAL};
use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use notifications::{JobNotificationRow, ResultLink, ShownTrial, reasons_in_words};
use orders::{FailedOrder, OrderForm};
use std::sync::Arc;

/// Jobs on a page of the list.
const JOBS_SHOWN: usize = 50;
/// Notifications on the page of a job. The trial is among the first ones.
const NOTIFICATIONS_SHOWN: usize = 50;
/// Maximum length of a cursor, in bytes.
const LONGEST_CURSOR: usize = 256;

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    frame: PageFrame,
    t: &'static JobTexts,
    states: Vec<(&'static str, &'static str, bool)>,
    rows: Vec<JobRow>,
    next: Option<String>,
    first: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPageDocument<'a> {
    frame: PageFrame,
    t: &'static JobTexts,
    b: &'static BulkTexts,
    letters: &'static LetterTexts,
    search: &'static SearchTexts,
    path: String,
    row: JobRow,
    id: &'a str,
    left: u64,
    rate: f64,
    reason: &'a str,
    problem: &'a str,
    failed_since: Option<TimeTag>,
    /// Whether it replays more than the trial takes, so that it has one.
    has_trial: bool,
    is_release: bool,
    trial: Option<ShownTrial>,
    orders: Vec<OrderForm>,
    lists: Vec<ResultLink>,
    reasons: Vec<(&'static str, u64)>,
    unlisted: u64,
    fared: Option<JobTrial>,
    is_of_done: bool,
    rows: Vec<JobNotificationRow>,
    first: String,
    next: Option<String>,
    has_cursor: bool,
}

/// What both pages show of a job.
struct JobRow {
    href: String,
    kind: &'static str,
    state: &'static str,
    /// The class of the mark of the state.
    chip: &'static str,
    /// Which notifications it is about: the label and the value of each part of the filter, or the lane. Empty for all.
    about: Vec<(&'static str, String)>,
    of_all: &'static str,
    seen: u64,
    matched: u64,
    done: u64,
    skipped: u64,
    failed: u64,
    percent: u64,
    actor: String,
    created: TimeTag,
    ended: Option<TimeTag>,
}

impl JobRow {
    fn of(job: &BulkJob, language: Language) -> Self {
        let (t, b) = (JobTexts::of(language), BulkTexts::of(language));
        let is_of_dead = job.kind == JobKind::Replay;
        let mut about = Vec::new();
        if let Some(lane) = &job.lane {
            about.push((SearchTexts::of(language).lane, lane.to_string()));
        }
        if let Some(filter) = &job.filter {
            about.extend(in_words(filter, is_of_dead, language));
        }
        let counts = job.counts;
        let seen = counts.seen();
        Self {
            href: path_of(&job.id),
            kind: t.kind(job.kind),
            state: t.state_of(job.state),
            chip: match job.state {
                JobState::Running => "in_flight",
                JobState::Paused => "scheduled",
                JobState::Done => "delivered",
                JobState::Stopped => "cancelled",
                JobState::Failed => "dead",
            },
            about,
            of_all: if is_of_dead {
                b.all_dead
            } else {
                b.all_pending
            },
            seen,
            matched: counts.matched,
            done: counts.done,
            skipped: counts.skipped,
            failed: counts.failed,
            percent: match counts.matched {
                0 => 100,
                matched => seen.saturating_mul(100) / matched,
            },
            actor: job.actor.to_string(),
            created: TimeTag(job.created_ms),
            ended: job.ended_ms.map(TimeTag),
        }
    }
}

/// The address of the page of a job.
fn path_of(id: &JobId) -> String {
    format!("/ui/jobs/{id}")
}

/// `GET /ui/jobs`: the list, newest first.
pub(super) async fn list(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let t = JobTexts::of(visit.language);
    let asked = visit.parameter("state").unwrap_or_default();
    let state = JobState::from_name(&asked);
    let cursor = visit.parameter("cursor");
    let request = JobListRequest {
        state,
        limit: JOBS_SHOWN,
        cursor: cursor
            .as_deref()
            .and_then(|cursor| JobId::parse(cursor).ok()),
    };
    let (jobs, next) = page.service.jobs(&request).await?;
    let chosen = state.map_or("", JobState::as_str);
    let to = |cursor: &str| address("/ui/jobs", &[("state", chosen), ("cursor", cursor)]);
    let states = JobState::ALL.iter();
    let shown = JobsPage {
        frame: visit.frame(t.title).with_live(&LiveSubject::Jobs.to_text()),
        t,
        states: states
            .map(|known| (known.as_str(), t.state_of(*known), Some(*known) == state))
            .collect(),
        rows: (jobs.iter())
            .map(|job| JobRow::of(job, visit.language))
            .collect(),
        next: next.map(|next| to(next.as_str())),
        first: cursor.map(|_| to("")),
    };
    document(StatusCode::OK, &shown)
}

/// `GET /ui/jobs/{id}`: one job.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Path(id): Path<String>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    answer(&page, &visit, &id_of(&id)?, StatusCode::OK, None).await
}

/// The id in the path.
///
/// # Errors
/// If no job can have it.
fn id_of(text: &str) -> Result<JobId, PageProblem> {
    JobId::parse(text).map_err(|_| PageProblem::Route)
}

/// The problem of an error about a job: one that is not there has no page.
fn problem_of(error: ServiceError) -> PageProblem {
    match error {
        ServiceError::MissingJob => PageProblem::Route,
        error => PageProblem::from(error),
    }
}

/// Reads a job and writes its page.
async fn answer(
    page: &Page,
    visit: &Visit,
    id: &JobId,
    status: StatusCode,
    failed: Option<FailedOrder>,
) -> Result<Response, PageProblem> {
    let t = JobTexts::of(visit.language);
    let job = page.service.job(id).await.map_err(problem_of)?;
    let cursor = visit.parameter("cursor");
    let cursor = cursor.filter(|cursor| cursor.len() <= LONGEST_CURSOR);
    let is_release = job.kind == JobKind::LaneRelease;
    let asked = visit.parameter("result").unwrap_or_default();
    let result = JobResult::from_name(&asked).unwrap_or(JobResult::Done);
    let found = match is_release {
        true => JobNotifications::default(),
        false => {
            let (service, cursor) = (&page.service, cursor.as_deref());
            let asked_by = visit.caller()?.name.as_ref();
            let many = NOTIFICATIONS_SHOWN;
            let reading = service.job_notifications(&job, result, cursor, many, asked_by);
            reading.await?
        }
    };
    let row = JobRow::of(&job, visit.language);
    let frame = visit.frame(format!("{} · {}", row.kind, t.title));
    let frame = match failed.is_none() {
        true => frame.with_live(&LiveSubject::Job(id.clone()).to_text()),
        false => frame,
    };
    let path = path_of(id);
    let next = found.next.as_deref();
    let to = |cursor: &str| address(&path, &[("result", result.as_str()), ("cursor", cursor)]);
    let is_of_done = result == JobResult::Done;
    let shown = JobPageDocument {
        frame,
        t,
        b: BulkTexts::of(visit.language),
        letters: LetterTexts::of(visit.language),
        search: SearchTexts::of(visit.language),
        id: job.id.as_str(),
        left: job.counts.matched.saturating_sub(row.seen),
        rate: job.rate.calls_per_second(),
        reason: &job.reason,
        problem: job.problem.as_deref().unwrap_or(""),
        failed_since: job.failed_since_ms.map(TimeTag),
        has_trial: job.kind == JobKind::Replay && row.matched.max(row.seen) > TRIAL,
        is_release,
        trial: match cursor {
            None if is_of_done => ShownTrial::of(&job, &found),
            None | Some(_) => None,
        },
        orders: orders::forms(visit, &job, failed.as_ref()),
        lists: ResultLink::all(&job, &path, result, visit.language),
        reasons: reasons_in_words(&found, result, visit.language),
        unlisted: found.unlisted,
        fared: found.fared.filter(|fared| fared.replayed > 0),
        is_of_done,
        rows: (found.items.iter())
            .map(|item| JobNotificationRow::of(item, visit.language))
            .collect(),
        first: to(""),
        next: next.map(to),
        has_cursor: cursor.is_some(),
        path,
        row,
    };
    document(status, &shown)
}
