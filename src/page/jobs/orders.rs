//! The orders that a job takes: to pause, to go on, to end.

use super::{answer, id_of, path_of, problem_of};
use crate::api::reason::check_reason;
use crate::domain::job::{BulkJob, JobOrder, JobState};
use crate::domain::role::Permission;
use crate::page::Page;
use crate::page::form::FormFields;
use crate::page::problem::PageProblem;
use crate::page::texts::bulk::BulkTexts;
use crate::page::texts::jobs::JobTexts;
use crate::page::visit::Visit;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use std::sync::Arc;

/// A form on the page.
pub struct OrderForm {
    /// The name of the order, which is the end of the address of the form.
    pub name: &'static str,
    pub title: &'static str,
    pub help: &'static str,
    pub reason: String,
    pub problem: String,
    /// Whether the order ends the job for good.
    pub is_grave: bool,
}

/// An order that was not obeyed.
#[derive(Debug)]
pub struct FailedOrder {
    order: JobOrder,
    reason: String,
    problem: String,
}

/// The forms that the state of the job and the role of the visitor allow.
pub fn forms(visit: &Visit, job: &BulkJob, failed: Option<&FailedOrder>) -> Vec<OrderForm> {
    let t = JobTexts::of(visit.language);
    let is_shown = |order: &&JobOrder| {
        let is_allowed = match (order, job.state) {
            (JobOrder::Pause, JobState::Running)
            | (JobOrder::Resume, JobState::Paused)
            | (JobOrder::Stop, JobState::Running | JobState::Paused) => true,
            (JobOrder::Pause | JobOrder::Resume | JobOrder::Stop, _) => false,
        };
        is_allowed || failed.is_some_and(|failed| failed.order == **order)
    };
    if !visit.may(Permission::Jobs) {
        return Vec::new();
    }
    let forms = JobOrder::ALL.iter().filter(is_shown).map(|order| {
        let (title, help) = t.order(*order);
        let failed = failed.filter(|failed| failed.order == *order);
        OrderForm {
            name: order.as_str(),
            title,
            help,
            reason: failed.map_or(String::new(), |failed| failed.reason.clone()),
            problem: failed.map_or(String::new(), |failed| failed.problem.clone()),
            is_grave: *order == JobOrder::Stop,
        }
    });
    forms.collect()
}

/// `POST /ui/jobs/{id}/pause`: nothing more is done until it is resumed.
pub(in crate::page) async fn pause(
    page: State<Arc<Page>>,
    id: Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    give(page, id, visit, form, JobOrder::Pause).await
}

/// `POST /ui/jobs/{id}/resume`: it goes on.
pub(in crate::page) async fn resume(
    page: State<Arc<Page>>,
    id: Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    give(page, id, visit, form, JobOrder::Resume).await
}

/// `POST /ui/jobs/{id}/stop`: it ends.
pub(in crate::page) async fn stop(
    page: State<Arc<Page>>,
    id: Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    give(page, id, visit, form, JobOrder::Stop).await
}

async fn give(
    State(page): State<Arc<Page>>,
    Path(id): Path<String>,
    visit: Visit,
    form: FormFields,
    order: JobOrder,
) -> Result<Response, PageProblem> {
    let id = id_of(&id)?;
    let reason = form.text("reason");
    let failed = |problem: &str| {
        Some(FailedOrder {
            order,
            reason: reason.clone(),
            problem: problem.to_string(),
        })
    };
    if check_reason(&reason).is_err() {
        let problem = failed(BulkTexts::of(visit.language).bad_reason);
        return answer(
            &page,
            &visit,
            &id,
            StatusCode::UNPROCESSABLE_ENTITY,
            problem,
        )
        .await;
    }
    let actor = visit.actor()?;
    match page.service.order_job(&id, order, &actor, &reason).await {
        Ok(_) => {
            let done = format!("{}?done=job-{order}", path_of(&id));
            Ok(Redirect::to(&done).into_response())
        }
        Err(error) => {
            let problem = problem_of(error);
            if matches!(problem, PageProblem::Route) {
                return Err(problem);
            }
            let words = problem.in_full(visit.language);
            answer(&page, &visit, &id, problem.status(), failed(&words)).await
        }
    }
}
