//! What can be done with a destination by hand: hold it, release it, send now what is pending.

use super::{answer, lane_of};
use crate::api::reason::check_reason;
use crate::domain::call_rate::CallRate;
use crate::domain::job::{DEFAULT_JOB_RATE, HIGHEST_JOB_RATE};
use crate::domain::lane::Lane;
use crate::page::Page;
use crate::page::form::FormFields;
use crate::page::html::address;
use crate::page::paths::destination_path;
use crate::page::problem::PageProblem;
use crate::page::rights::{Access, access_to};
use crate::page::texts::destinations::DestinationTexts;
use crate::page::visit::Visit;
use crate::schedule::lane_status::LaneStatus;
use crate::service::{JobPreview, LaneRetryRequest, ServiceError};
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{Method, StatusCode};
use std::sync::Arc;

/// What is done with a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneAct {
    Hold,
    Release,
    Retry,
}

impl LaneAct {
    const ALL: [Self; 3] = [Self::Hold, Self::Release, Self::Retry];

    /// The end of the address of its form.
    fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Retry => "retry",
        }
    }

    fn in_words(self, t: &'static DestinationTexts) -> (&'static str, &'static str) {
        match self {
            Self::Hold => (t.act_hold, t.help_hold),
            Self::Release => (t.act_release, t.help_release),
            Self::Retry => (t.act_retry, t.help_retry),
        }
    }

    /// Whether it changes anything in a lane like this.
    fn is_of_use(self, page: &Page, status: &LaneStatus) -> bool {
        match self {
            Self::Hold => status.settings.hold.is_none(),
            Self::Release => status.settings.hold.is_some(),
            Self::Retry => page.service.has_journal(),
        }
    }
}

/// A form on the page.
pub struct LaneActForm {
    pub name: &'static str,
    pub title: &'static str,
    pub help: &'static str,
    /// Whether the form asks for a rate, and can count first.
    pub asks_rate: bool,
    /// Whether what it sends waits, because the destination is held.
    pub calls_wait: bool,
    pub rate: String,
    pub reason: String,
    pub problem: String,
    /// How many notifications it would concern, and whether it may be more, if that was asked for.
    pub matched: Option<(u64, bool)>,
    pub is_open: bool,
}

/// A form that was not done, or of which only the effect was asked for.
#[derive(Debug)]
pub struct TypedLaneAct {
    act: LaneAct,
    rate: String,
    reason: String,
    problem: String,
    preview: Option<JobPreview>,
}

/// The forms that the state of the destination and the role of the visitor allow.
pub fn forms(
    page: &Page,
    visit: &Visit,
    status: &LaneStatus,
    typed: Option<&TypedLaneAct>,
) -> Vec<LaneActForm> {
    let t = DestinationTexts::of(visit.language);
    let acts = LaneAct::ALL.into_iter().filter(|act| may(visit, *act));
    let forms = acts.filter_map(|act| {
        let typed = typed.filter(|typed| typed.act == act);
        let is_shown = typed.is_some() || act.is_of_use(page, status);
        let (title, help) = act.in_words(t);
        let preview = typed.and_then(|typed| typed.preview.as_ref());
        is_shown.then(|| LaneActForm {
            name: act.name(),
            title,
            help,
            asks_rate: act == LaneAct::Retry,
            calls_wait: act == LaneAct::Retry && status.settings.hold.is_some(),
            rate: typed.map_or_else(|| DEFAULT_JOB_RATE.to_string(), |typed| typed.rate.clone()),
            reason: typed.map_or(String::new(), |typed| typed.reason.clone()),
            problem: typed.map_or(String::new(), |typed| typed.problem.clone()),
            matched: preview.map(|preview| (preview.matched, preview.at_least)),
            is_open: typed.is_some(),
        })
    });
    forms.collect()
}

fn may(visit: &Visit, act: LaneAct) -> bool {
    let route = format!("/ui/destinations/{{lane}}/{}", act.name());
    match access_to(&Method::POST, &route) {
        Access::Open => true,
        Access::Needs(permission) => visit.may(permission),
    }
}

/// `POST .../hold`: no calls are made until somebody releases it.
pub async fn hold(
    State(page): State<Arc<Page>>,
    path: Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    make(&page, &visit, &lane_of(path)?, LaneAct::Hold, &form).await
}

/// `POST .../release`: calls are made again.
pub async fn release(
    State(page): State<Arc<Page>>,
    path: Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    make(&page, &visit, &lane_of(path)?, LaneAct::Release, &form).await
}

/// `POST .../retry`: a job makes an attempt of each pending notification now. With `plan`, they are only counted.
pub async fn retry(
    State(page): State<Arc<Page>>,
    path: Path<String>,
    visit: Visit,
    form: FormFields,
) -> Result<Response, PageProblem> {
    make(&page, &visit, &lane_of(path)?, LaneAct::Retry, &form).await
}

/// How an act ended.
enum LaneActEnd {
    /// It was done: the code of the notice, and the job that was made.
    Done(&'static str, String),
    /// Only its effect was asked for.
    Planned(JobPreview),
}

async fn make(
    page: &Page,
    visit: &Visit,
    lane: &Lane,
    act: LaneAct,
    form: &FormFields,
) -> Result<Response, PageProblem> {
    let t = DestinationTexts::of(visit.language);
    let typed = |problem: &str, preview| TypedLaneAct {
        act,
        rate: form.text("rate"),
        reason: form.text("reason"),
        problem: problem.to_string(),
        preview,
    };
    let wrong = StatusCode::UNPROCESSABLE_ENTITY;
    let Ok(reason) = check_reason(&form.text("reason")) else {
        return answer(page, visit, lane, wrong, Some(typed(t.bad_reason, None))).await;
    };
    let Some(rate) = rate_of(act, &form.text("rate")) else {
        return answer(page, visit, lane, wrong, Some(typed(t.bad_rate, None))).await;
    };
    let request = LaneRetryRequest {
        lane: lane.clone(),
        rate,
        actor: visit.actor()?,
        reason,
    };
    let is_plan = !form.text("plan").is_empty();
    match perform(page, act, request, is_plan).await {
        Ok(LaneActEnd::Done(code, job)) => {
            let done = address(&destination_path(lane), &[("done", code), ("job", &job)]);
            Ok(Redirect::to(&done).into_response())
        }
        Ok(LaneActEnd::Planned(preview)) => {
            let typed = typed("", Some(preview));
            answer(page, visit, lane, StatusCode::OK, Some(typed)).await
        }
        Err(error) => {
            let own = matches!(error, ServiceError::JobRuns(_)).then_some(t.job_runs);
            let problem = PageProblem::from(error);
            let words = match own {
                Some(own) => problem.in_full_after(own, visit.language),
                None => problem.in_full(visit.language),
            };
            let typed = typed(&words, None);
            answer(page, visit, lane, problem.status(), Some(typed)).await
        }
    }
}

async fn perform(
    page: &Page,
    act: LaneAct,
    request: LaneRetryRequest,
    is_plan: bool,
) -> Result<LaneActEnd, ServiceError> {
    let service = &page.service;
    let done = |code| LaneActEnd::Done(code, String::new());
    let LaneRetryRequest {
        lane,
        actor,
        reason,
        ..
    } = &request;
    Ok(match act {
        LaneAct::Hold => match service.hold_lane(lane, actor.clone(), reason).await?.before {
            None => done("lane-hold"),
            Some(_) => done("lane-hold-again"),
        },
        LaneAct::Release => {
            let reply = service.release_lane(lane, actor.clone(), reason).await?;
            done(match reply.was_held {
                true => "lane-release",
                false => "lane-not-held",
            })
        }
        LaneAct::Retry if is_plan => LaneActEnd::Planned(service.preview_retry(request).await?),
        LaneAct::Retry => {
            let lane = lane.clone();
            let job = service.retry_lane(request).await?;
            let code = match service.hold_of(&lane).await {
                None => "lane-retry",
                Some(_) => "lane-retry-held",
            };
            LaneActEnd::Done(code, job.id.to_string())
        }
    })
}

/// The rate of a job. The other acts have none.
fn rate_of(act: LaneAct, text: &str) -> Option<CallRate> {
    let rate = match (act, text) {
        (LaneAct::Retry, "") | (LaneAct::Hold | LaneAct::Release, _) => DEFAULT_JOB_RATE,
        (LaneAct::Retry, text) => text.parse().ok()?,
    };
    let rate = Some(rate).filter(|rate| *rate <= HIGHEST_JOB_RATE)?;
    CallRate::per_second(rate).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_a_rate_within_bounds() {
        fn check(text: &str, expected: Option<f64>) {
            let rate = rate_of(LaneAct::Retry, text);
            assert_eq!(rate.map(CallRate::calls_per_second), expected, "{text}");
        }
        check("", Some(DEFAULT_JOB_RATE));
        check("0.5", Some(0.5));
        check("1000", Some(1_000.0));
        check("1000.1", None);
        check("0", None);
        check("-1", None);
        check("NaN", None);
        check("fast", None);
        assert!(rate_of(LaneAct::Hold, "x").is_some());
    }
}
