//! The page of a destination: how it is doing, what waits for it, who holds it and why, and what can be done.

pub(super) mod acts;
pub(super) mod facts;

use super::Page;
use super::frame::PageFrame;
use super::html::{address, document};
use super::live::LiveSubject;
use super::notification;
use super::problem::PageProblem;
use super::reason::ShownReason;
use super::texts::destinations::DestinationTexts;
use super::texts::outcomes::OutcomeTexts;
use super::texts::states::StateTexts;
use super::texts::waiting::HoldTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::domain::attempt::Outcome;
use crate::domain::job::JobId;
use crate::domain::lane::Lane;
use crate::journal::Filter;
use crate::service::{ListPage, ListRequest};
use acts::{LaneActForm, TypedLaneAct};
use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use facts::LaneFacts;
use http::StatusCode;
use std::sync::Arc;

/// How many of its newest notifications are shown.
const MOST_ANSWERS: usize = 10;

#[derive(Template)]
#[template(path = "destination.html")]
struct DestinationPage<'a> {
    frame: PageFrame,
    t: &'static DestinationTexts,
    lane: LaneFacts<'a>,
    see_pending: String,
    see_dead: String,
    see_all: String,
    acts: Vec<LaneActForm>,
    /// What a hold means for calls.
    calls_wait: &'static str,
    /// The job that was made a moment ago.
    job: Option<String>,
    /// `None` if they are not known.
    answers: Option<Vec<NewestAnswer<'a>>>,
}

/// A notification of the destination, and how its last attempt ended.
struct NewestAnswer<'a> {
    href: String,
    id: &'a str,
    topic: &'a str,
    state: &'static str,
    state_in_words: &'static str,
    registered: TimeTag,
    last: Option<LastAnswer>,
}

struct LastAnswer {
    is_good: bool,
    words: &'static str,
    status: Option<u16>,
    reason: ShownReason,
    started: TimeTag,
}

/// The lane in the path.
///
/// # Errors
/// If it is none.
fn lane_of(Path(lane): Path<String>) -> Result<Lane, PageProblem> {
    Lane::parse(&lane).map_err(|_| PageProblem::Route)
}

/// `GET /ui/destinations/{lane}`: the page.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    path: Path<String>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let lane = lane_of(path)?;
    answer(&page, &visit, &lane, StatusCode::OK, None).await
}

/// Reads a destination and writes its page, with a form as it was typed if it was not done.
async fn answer(
    page: &Page,
    visit: &Visit,
    lane: &Lane,
    status: StatusCode,
    typed: Option<TypedLaneAct>,
) -> Result<Response, PageProblem> {
    let t = DestinationTexts::of(visit.language);
    let found = page.service.lane(lane).await?;
    let newest = newest_of(page, visit, lane).await;
    let frame = visit.frame(lane.as_str());
    let frame = match typed {
        None => frame.with_live(&LiveSubject::Lane(lane.clone()).to_text()),
        Some(_) => frame,
    };
    let search = |state| {
        let lane = ("lane", lane.as_str());
        address("/ui/search", &[lane, ("state", state)])
    };
    let job = visit.parameter("job").filter(|_| frame.notice.is_some());
    let job = job.and_then(|id| JobId::parse(&id).ok());
    let shown = DestinationPage {
        acts: acts::forms(page, visit, &found, typed.as_ref()),
        calls_wait: HoldTexts::of(visit.language).calls_wait,
        lane: LaneFacts::of(&found, visit.language),
        see_pending: search("scheduled"),
        see_dead: search("dead"),
        see_all: search(""),
        job: job.map(|id| id.to_string()),
        answers: newest.as_ref().map(|newest| answers_of(newest, visit)),
        t,
        frame,
    };
    document(status, &shown)
}

/// The newest notifications of a lane. The journal has an index for them. `None` if it has none or does not answer.
async fn newest_of(page: &Page, visit: &Visit, lane: &Lane) -> Option<ListPage> {
    let request = ListRequest {
        filter: Filter {
            lane: Some(lane.as_str().to_string()),
            ..Filter::default()
        },
        limit: MOST_ANSWERS,
        asked_by: visit.caller().ok()?.name.clone(),
        ..ListRequest::default()
    };
    page.service.list(&request).await.ok()
}

fn answers_of<'a>(newest: &'a ListPage, visit: &Visit) -> Vec<NewestAnswer<'a>> {
    let states = StateTexts::of(visit.language);
    let outcomes = OutcomeTexts::of(visit.language);
    let items = newest.items.iter().enumerate();
    let answers = items.map(|(at, item)| {
        let read = newest.last_attempts.as_ref();
        let last = read
            .and_then(|attempts| attempts.get(at))
            .and_then(Option::as_ref);
        NewestAnswer {
            href: notification::path_of(&item.key),
            id: item.key.id(),
            topic: item.key.topic(),
            state: item.state_name(),
            state_in_words: states.state(item.state_name()),
            registered: TimeTag(item.registered_ms),
            last: last.map(|attempt| LastAnswer {
                is_good: attempt.answer.outcome == Outcome::Acknowledged,
                words: outcomes.short(attempt.answer.outcome),
                status: attempt.answer.status,
                reason: ShownReason::of(&attempt.answer.reason, visit.language),
                started: TimeTag(attempt.started_ms),
            }),
        }
    });
    answers.collect()
}
