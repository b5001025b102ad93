//! The list of the destinations, a page at a time, all of them or those in one state.

use super::Page;
use super::destination::facts::LaneFacts;
use super::frame::PageFrame;
use super::html::{address, document};
use super::live::LiveSubject;
use super::paths::destination_path;
use super::problem::PageProblem;
use super::texts::destinations::DestinationTexts;
use super::visit::Visit;
use crate::domain::lane::Lane;
use crate::domain::lane_settings::LaneState;
use crate::service::LaneListRequest;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use std::sync::Arc;

const PATH: &str = "/ui/destinations";
/// Destinations on a page.
const PAGE_SIZE: usize = 50;
/// Maximum length of a cursor, in bytes: it may contain the name of a lane.
const LONGEST_CURSOR: usize = 4_096;

#[derive(Template)]
#[template(path = "destinations.html")]
struct DestinationList<'a> {
    frame: PageFrame,
    t: &'static DestinationTexts,
    states: Vec<StateChoice>,
    state_problem: &'static str,
    lane: String,
    lane_problem: &'static str,
    rows: Vec<LaneFacts<'a>>,
    first: Option<String>,
    next: Option<String>,
}

/// A state to choose from.
struct StateChoice {
    name: &'static str,
    text: &'static str,
    is_chosen: bool,
}

/// `GET /ui/destinations`: the list. With a destination in the field `lane`, it leads to that one.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let t = DestinationTexts::of(visit.language);
    let asked_lane = visit.parameter("lane").unwrap_or_default();
    if let Ok(lane) = Lane::parse(&asked_lane) {
        return Ok(Redirect::to(&destination_path(&lane)).into_response());
    }
    let asked_state = visit.parameter("state").unwrap_or_default();
    let state = LaneState::from_name(&asked_state);
    let is_bad_state = !asked_state.is_empty() && state.is_none();
    let cursor = visit.parameter("cursor");
    let cursor = cursor.filter(|cursor| cursor.len() <= LONGEST_CURSOR);
    let is_first = cursor.is_none();
    let request = LaneListRequest {
        state,
        limit: PAGE_SIZE,
        cursor,
        asked_by: visit.caller()?.name.clone(),
    };
    let found = match is_bad_state {
        true => Default::default(),
        false => page.service.lanes(&request).await?,
    };
    let choices = LaneState::ALL.iter().map(|choice| StateChoice {
        name: choice.as_str(),
        text: t.state_name(*choice),
        is_chosen: Some(*choice) == state,
    });
    let state_name = state.map_or("", LaneState::as_str);
    let next = found.next.as_deref();
    let next = next.map(|next| address(PATH, &[("state", state_name), ("cursor", next)]));
    let frame = visit.frame(t.title);
    let shown = DestinationList {
        // Its numbers change when something becomes pending, is called, or ends, and when a lane changes its state.
        frame: match is_first {
            true => frame.with_live(&LiveSubject::Overview.to_text()),
            false => frame,
        },
        t,
        states: choices.collect(),
        state_problem: if is_bad_state { t.bad_state } else { "" },
        lane_problem: if asked_lane.is_empty() {
            ""
        } else {
            t.bad_lane
        },
        lane: asked_lane.clone(),
        rows: (found.lanes.iter())
            .map(|status| LaneFacts::of(status, visit.language))
            .collect(),
        first: (!is_first).then(|| address(PATH, &[("state", state_name)])),
        next,
    };
    let status = match is_bad_state || !asked_lane.is_empty() {
        true => StatusCode::UNPROCESSABLE_ENTITY,
        false => StatusCode::OK,
    };
    document(status, &shown)
}
