//! What is done with all notifications that pass a filter: the plan, and the job that is made of it.
//!
//! A plan changes nothing. Its address has the filter, so it can be sent to a colleague. The form on it starts the job with
//! the instants of the plan: `2h` ago does not move on while somebody reads.

pub mod filters;

use super::Page;
use super::form::FormFields;
use super::frame::PageFrame;
use super::hold_notice::HoldNotice;
use super::html::document;
use super::listed::ListedRow;
use super::problem::PageProblem;
use super::texts::bulk::BulkTexts;
use super::texts::job_reasons::JobReasonTexts;
use super::texts::letters::LetterTexts;
use super::texts::search::SearchTexts;
use super::visit::Visit;
use crate::api::reason::check_reason;
use crate::domain::call_rate::CallRate;
use crate::domain::job::{DEFAULT_JOB_RATE, HIGHEST_JOB_RATE, JobKind};
use crate::domain::job_filter::JobFilter;
use crate::domain::job_result::JobResult;
use crate::service::{BulkReply, BulkRequest, JobPreview, ServiceError, default_rate};
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use filters::BulkFilters;
use http::StatusCode;
use std::sync::Arc;

/// The field that says that the form has a filter. Without it, a form that lost its fields would mean everything.
const HAS_FILTER: &str = "has_filter";

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage {
    frame: PageFrame,
    b: &'static BulkTexts,
    letters: &'static LetterTexts,
    search: &'static SearchTexts,
    filters: BulkFilters,
    is_replay: bool,
    title: &'static str,
    /// Where the form of the filter leads.
    path: &'static str,
    /// Where the form leads that starts the job.
    start: &'static str,
    /// The filter in words; empty for all.
    in_words: Vec<(&'static str, String)>,
    /// The filter as the fields of a form.
    fields: Vec<(&'static str, String)>,
    plan: Option<Plan>,
    /// Who holds the destination of the filter, if the job has calls made to it.
    hold: Option<HoldNotice>,
    reason: String,
    rate: String,
    problem: String,
}

/// What the job would concern.
struct Plan {
    matched: u64,
    at_least: bool,
    /// How many of them the job would change, as far as that is known.
    changeable: u64,
    /// Why it would not change the others: the result as which they count, the reason in words, and how many.
    reasons: Vec<(&'static str, &'static str, u64)>,
    /// Of the sample, how many have been replayed before.
    repeated: usize,
    sample: Vec<ListedRow>,
}

/// What somebody has typed into the form, and why the job was not started.
#[derive(Default)]
struct Typed {
    reason: String,
    rate: Option<String>,
    problem: String,
}

/// `GET /ui/dead-letters/plan`: what a replay of all that match would concern.
pub(super) async fn plan_replay(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    plan(&page, &visit, JobKind::Replay).await
}

/// `GET /ui/cancel`: what a cancellation of all that match would concern.
pub(super) async fn plan_cancel(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    plan(&page, &visit, JobKind::Cancel).await
}

/// `POST /ui/dead-letters/replay`: replays all that match, as a job.
pub(super) async fn start_replay(
    State(page): State<Arc<Page>>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    start(&page, &visit, &form, JobKind::Replay).await
}

/// `POST /ui/cancel`: cancels all that match, as a job.
pub(super) async fn start_cancel(
    State(page): State<Arc<Page>>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    start(&page, &visit, &form, JobKind::Cancel).await
}

async fn plan(page: &Page, visit: &Visit, kind: JobKind) -> Result<Response, PageProblem> {
    let now_ms = page.service.clock().now_ms();
    let (filters, filter) = BulkFilters::of_address(visit, kind == JobKind::Replay, now_ms);
    let status = match filter {
        Some(_) => StatusCode::OK,
        None => StatusCode::UNPROCESSABLE_ENTITY,
    };
    answer(
        page,
        visit,
        kind,
        (filters, filter),
        status,
        Typed::default(),
    )
    .await
}

async fn start(
    page: &Page,
    visit: &Visit,
    form: &FormFields,
    kind: JobKind,
) -> Result<Response, PageProblem> {
    let t = BulkTexts::of(visit.language);
    let now_ms = page.service.clock().now_ms();
    let (filters, filter) = BulkFilters::of_form(form, visit, kind == JobKind::Replay, now_ms);
    let filter = filter.filter(|_| !form.text(HAS_FILTER).is_empty());
    let (reason, rate) = (form.text("reason"), form.text("rate"));
    let asked = match (check_reason(&reason), parse_rate(&rate)) {
        (Ok(reason), Some(rate)) => Ok((reason, rate)),
        (Err(_), _) => Err(t.bad_reason),
        (_, None) => Err(t.bad_rate),
    };
    let typed = |problem: &str| Typed {
        reason: reason.clone(),
        rate: Some(rate.clone()),
        problem: problem.to_string(),
    };
    let wrong = StatusCode::UNPROCESSABLE_ENTITY;
    let Some(filter) = filter else {
        return answer(
            page,
            visit,
            kind,
            (filters, None),
            wrong,
            typed(t.no_filter),
        )
        .await;
    };
    let shown = (filters, Some(filter.clone()));
    let (reason, rate) = match asked {
        Ok(asked) => asked,
        Err(problem) => return answer(page, visit, kind, shown, wrong, typed(problem)).await,
    };
    let request = BulkRequest {
        kind,
        filter,
        rate,
        actor: visit.actor()?,
        reason,
    };
    let (job, done) = match page.service.start_bulk(request).await {
        Ok(BulkReply::Made(job)) => (job, "job-made"),
        Ok(BulkReply::Runs(job)) => (job, "job-runs"),
        Err(error) => {
            let problem = PageProblem::from(error);
            let words = problem.in_full(visit.language);
            let status = problem.status();
            if status != StatusCode::CONFLICT {
                // What cannot start the job cannot count either.
                return Err(problem);
            }
            return answer(page, visit, kind, shown, status, typed(&words)).await;
        }
    };
    Ok(Redirect::to(&format!("/ui/jobs/{}?done={done}", job.id)).into_response())
}

/// Shows the plan of a filter, or the form of the filter if that is wrong.
async fn answer(
    page: &Page,
    visit: &Visit,
    kind: JobKind,
    (filters, filter): (BulkFilters, Option<JobFilter>),
    status: StatusCode,
    typed: Typed,
) -> Result<Response, PageProblem> {
    let t = BulkTexts::of(visit.language);
    let is_replay = kind == JobKind::Replay;
    let title = if is_replay {
        t.plan_replay
    } else {
        t.plan_cancel
    };
    let plan = match &filter {
        Some(filter) => Some(preview(page, visit, kind, filter.clone()).await?),
        None => None,
    };
    let hold = match &filter {
        Some(filter) => page.service.hold_of_filter(kind, filter).await,
        None => None,
    };
    let (path, start) = match is_replay {
        true => ("/ui/dead-letters/plan", "/ui/dead-letters/replay"),
        false => ("/ui/cancel", "/ui/cancel"),
    };
    let filter = filter.unwrap_or_default();
    let shown = PlanPage {
        frame: visit.frame(title),
        b: t,
        letters: LetterTexts::of(visit.language),
        search: SearchTexts::of(visit.language),
        filters,
        is_replay,
        title,
        path,
        start,
        in_words: filters::in_words(&filter, is_replay, visit.language),
        fields: filters::fields_of(&filter),
        plan,
        hold: hold.map(|hold| HoldNotice::of(&hold, visit.language)),
        reason: typed.reason,
        rate: typed.rate.unwrap_or_else(|| DEFAULT_JOB_RATE.to_string()),
        problem: typed.problem,
    };
    document(status, &shown)
}

async fn preview(
    page: &Page,
    visit: &Visit,
    kind: JobKind,
    filter: JobFilter,
) -> Result<Plan, PageProblem> {
    let request = BulkRequest {
        kind,
        filter,
        rate: default_rate(),
        actor: visit.actor()?,
        reason: String::new(),
    };
    let preview = match page.service.preview_bulk(request).await {
        Ok(preview) => preview,
        // The page says that nothing matches, beside the filter that can be corrected.
        Err(ServiceError::MissingLane(_)) => JobPreview::default(),
        Err(error) => return Err(error.into()),
    };
    let changeable = preview.changeable();
    let JobPreview {
        matched,
        at_least,
        reasons,
        sample,
    } = preview;
    let (t, words) = (
        BulkTexts::of(visit.language),
        JobReasonTexts::of(visit.language),
    );
    let reasons = reasons.into_iter().map(|(reason, many)| {
        let result = match reason.result() {
            JobResult::Failed => t.counts_failed,
            JobResult::Skipped | JobResult::Done => t.counts_skipped,
        };
        (result, words.words(reason), many)
    });
    let made_again = match kind {
        JobKind::Replay => page.service.are_endpoints_made_again(&sample).await?,
        JobKind::Cancel | JobKind::LaneRetry | JobKind::AfterOutage | JobKind::LaneRelease => {
            Vec::new()
        }
    };
    let mut sample = ListedRow::all(&sample, &[], visit.language);
    ListedRow::mark_made_again(&mut sample, &made_again);
    Ok(Plan {
        matched,
        at_least,
        changeable,
        reasons: reasons.collect(),
        repeated: sample.iter().filter(|row| row.repeated.is_some()).count(),
        sample,
    })
}

/// Reads how many notifications per second; the usual rate if nothing is given.
fn parse_rate(text: &str) -> Option<CallRate> {
    if text.is_empty() {
        return Some(default_rate());
    }
    let calls: f64 = text.parse().ok()?;
    let rate = CallRate::per_second(calls).ok();
    rate.filter(|_| calls <= HIGHEST_JOB_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_notifications_per_second() {
        fn check(text: &str, expected: Option<f64>) {
            let rate = parse_rate(text).map(CallRate::calls_per_second);
            assert_eq!(rate, expected, "{text}");
        }
        check("", Some(DEFAULT_JOB_RATE));
        check("50", Some(50.0));
        check("0.001", Some(0.001));
        check("1000", Some(1_000.0));
        for wrong in ["0", "-1", "1000.001", "1e300", "NaN", "inf", "fast"] {
            check(wrong, None);
        }
    }
}
