//! The page of a notification: what was sent, when, what came back, when the next call is, and what can be done.

pub(super) mod acts;
pub(super) mod attempts;
mod curl;
mod history;
pub(super) mod payload;
mod steps;

use super::Page;
use super::frame::PageFrame;
use super::hold_notice::HoldNotice;
use super::html::{address, document, encoded};
use super::live::LiveSubject;
use super::paths::destination_path;
use super::problem::PageProblem;
use super::texts;
use super::texts::attempts::AttemptTexts;
use super::texts::notification::NotificationTexts;
use super::texts::states::StateTexts;
use super::texts::steps::StepTexts;
use super::times::TimeTag;
use super::visit::Visit;
use crate::domain::change::Change;
use crate::domain::destination::Destination;
use crate::domain::key::Key;
use crate::domain::priority::Priority;
use crate::domain::role::Permission;
use crate::domain::snapshot::Snapshot;
use crate::journal::{Payload, PayloadContent};
use crate::service::{EndpointLoss, Flights, SentPayload, WaitingBecause};
use acts::{ActForm, FailedAct};
use askama::Template;
use attempts::AttemptCard;
use axum::extract::{Path, State};
use axum::response::Response;
use history::HistoryEntry;
use http::StatusCode;
use payload::ShownPayload;
use std::sync::Arc;
use steps::LadderStep;

/// The address of a notification's page.
#[must_use]
pub fn path_of(key: &Key) -> String {
    format!(
        "/ui/notifications/{}/{}",
        encoded(key.topic()),
        encoded(key.id())
    )
}

#[derive(Template)]
#[template(path = "notification.html")]
struct NotificationDocument<'a> {
    frame: PageFrame,
    t: &'static NotificationTexts,
    path: String,
    topic: &'a str,
    id: &'a str,
    webhook_id: String,
    /// The trace to which the registration and all attempts belong.
    trace_id: Option<String>,
    state: &'static str,
    state_in_words: &'static str,
    says: &'static str,
    cause: &'static str,
    waits: &'static str,
    waits_because: String,
    /// Why somebody holds the destination; empty if nobody does.
    hold_reason: String,
    set_aside: Option<(TimeTag, &'a str)>,
    is_unsure: bool,
    url: &'a str,
    lane: &'a str,
    destination_page: String,
    priority: Priority,
    priority_in_words: &'static str,
    order: Option<String>,
    ladder: String,
    ack: String,
    registered: TimeTag,
    next: Option<TimeTag>,
    deadline: Option<TimeTag>,
    ended: Option<TimeTag>,
    series: u32,
    attempts_made: u32,
    attempts_left: usize,
    step_texts: &'static StepTexts,
    steps: Vec<LadderStep>,
    /// Whether attempts were made of which nothing is kept.
    attempts_not_kept: bool,
    attempt_texts: &'static AttemptTexts,
    attempts: Vec<AttemptCard<'a>>,
    /// Attempts that are not shown, because there are too many.
    attempts_left_out: u32,
    history: Vec<HistoryEntry<'a>>,
    outline: Option<PayloadOutline<'a>>,
    payload: Option<ShownPayload>,
    payload_problem: String,
    acts: Vec<ActForm>,
    /// Who holds the destination, if that is not why it waits already, but what its next attempt or a further series would
    /// wait for.
    hold: Option<HoldNotice>,
    /// What became of its endpoint; empty if that is as it was.
    loss: &'static str,
    /// Whether it is never sent to the endpoint of this name.
    is_loss_serious: bool,
}

/// What is shown of a payload that is masked.
struct PayloadOutline<'a> {
    content_type: &'a str,
    /// The names of the headers, and the length of the body. `None` if they are not kept any more.
    content: Option<(String, usize)>,
}

/// What a request shows beside the notification.
#[derive(Default)]
struct Beside {
    /// A form that was not done.
    failed: Option<FailedAct>,
    /// The payload, which was asked for.
    payload: Option<SentPayload>,
    /// Why the payload is not shown.
    payload_problem: String,
}

/// The key in the path.
///
/// # Errors
/// If no notification can have it.
fn key_of(Path((topic, id)): Path<(String, String)>) -> Result<Key, PageProblem> {
    Key::new(&topic, &id).map_err(|_| PageProblem::Missing)
}

/// `GET /ui/notifications/{topic}/{id}`: the page.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    path: Path<(String, String)>,
    visit: Visit,
) -> Result<Response, PageProblem> {
    let key = key_of(path)?;
    answer(&page, &visit, &key, StatusCode::OK, Beside::default()).await
}

/// Reads a notification and writes its page.
async fn answer(
    page: &Page,
    visit: &Visit,
    key: &Key,
    status: StatusCode,
    beside: Beside,
) -> Result<Response, PageProblem> {
    let found = page.service.look_up(key).await?;
    let (snapshot, flights) = found.ok_or(PageProblem::Missing)?;
    let transitions = page.service.transitions(key).await?;
    let waiting = page.service.waiting_for(&snapshot).await;
    let outline = page.service.payload_outline(&snapshot).await?;
    let could_send_again =
        [Change::Replay, Change::Resend].map(|change| change.is_allowed(&snapshot));
    let could_send_again = could_send_again.contains(&true);
    let is_endpoint_made_again =
        could_send_again && page.service.is_endpoint_made_again(&snapshot).await?;
    let loss = match is_endpoint_made_again {
        true => Some(EndpointLoss::MadeAgain),
        false => page.service.endpoint_loss(&snapshot).await,
    };
    let hold = match could_send_again && !is_endpoint_made_again {
        true => page.service.hold_of(&snapshot.lane).await,
        false => page.service.hold_before_due(&snapshot, flights).await,
    };
    let (t, states) = (
        NotificationTexts::of(visit.language),
        StateTexts::of(visit.language),
    );
    let state = snapshot.state_name();
    let is_open = snapshot.next_due_ms().is_some();
    let frame = visit.frame(key.id()).at(&path_of(key));
    let frame = match beside.failed.is_none() && beside.payload.is_none() {
        true => frame.with_live(&LiveSubject::Notification(key.clone()).to_text()),
        false => frame,
    };
    let shown = NotificationDocument {
        frame,
        t,
        path: path_of(key),
        topic: key.topic(),
        id: key.id(),
        webhook_id: snapshot.webhook_id.to_string(),
        trace_id: trace_of(outline.as_ref()),
        state,
        state_in_words: states.state(state),
        says: t.says(state),
        cause: snapshot.cause.map_or("", |cause| states.cause(cause)),
        waits: (waiting.as_ref()).map_or("", |waiting| states.waiting(waiting.reason)),
        waits_because: waiting.as_ref().map_or(String::new(), |waiting| {
            texts::waiting::in_words(&waiting.because, visit.language)
        }),
        hold_reason: match waiting.map(|waiting| waiting.because) {
            Some(WaitingBecause::Held(hold)) => hold.reason.into_string(),
            Some(_) | None => String::new(),
        },
        set_aside: (snapshot.set_aside.as_ref())
            .map(|set_aside| (TimeTag(set_aside.at_ms), set_aside.reason.as_str())),
        is_unsure: flights == Flights::Unknown && is_open,
        url: (snapshot.destination.as_ref()).map_or("", Destination::as_str),
        lane: snapshot.lane.as_str(),
        destination_page: match visit.may(Permission::Inspect) {
            true => destination_path(&snapshot.lane),
            false => address("/ui/search", &[("lane", snapshot.lane.as_str())]),
        },
        priority: snapshot.priority,
        priority_in_words: states.priority(snapshot.priority),
        order: order_of(&snapshot, states),
        ladder: snapshot.ladder.to_text(),
        ack: ack_of(outline.as_ref()),
        registered: TimeTag(snapshot.registered_ms),
        next: snapshot.next_due_ms().map(TimeTag),
        deadline: is_open.then_some(TimeTag(snapshot.progress.deadline_ms)),
        ended: snapshot.ended_ms.map(TimeTag),
        series: snapshot.progress.series,
        attempts_made: snapshot.progress.attempts,
        attempts_left: snapshot.attempts_left(),
        step_texts: StepTexts::of(visit.language),
        steps: steps::steps(&snapshot, visit.language),
        attempts_not_kept: snapshot.attempts.is_empty() && snapshot.progress.attempts > 0,
        attempt_texts: AttemptTexts::of(visit.language),
        attempts: attempts::cards(&snapshot, visit.language),
        attempts_left_out: left_out(&snapshot),
        history: history::entries(&transitions, visit.language),
        outline: outline.as_ref().map(outlined),
        payload: beside
            .payload
            .map(|payload| ShownPayload::of(&snapshot, payload)),
        payload_problem: beside.payload_problem,
        acts: acts::forms(
            visit,
            &snapshot,
            t,
            is_endpoint_made_again,
            beside.failed.as_ref(),
        ),
        hold: hold.map(|hold| HoldNotice::of(&hold, visit.language)),
        loss: loss.map_or("", |loss| {
            texts::endpoint_loss::in_words(loss, snapshot.state, visit.language)
        }),
        is_loss_serious: loss == Some(EndpointLoss::MadeAgain),
    };
    document(status, &shown)
}

/// How many attempts are not shown.
fn left_out(snapshot: &Snapshot) -> u32 {
    match snapshot.attempts.is_empty() {
        true => 0,
        false => (snapshot.attempts.iter().map(|attempt| attempt.number))
            .min()
            .map_or(0, |first| first.saturating_sub(1)),
    }
}

fn order_of(snapshot: &Snapshot, t: &'static StateTexts) -> Option<String> {
    let order = snapshot.order.as_deref()?;
    Some(format!(
        "{} · {} · {}",
        order.key(),
        order.number(),
        t.order_mode(order.mode())
    ))
}

fn ack_of(outline: Option<&Payload>) -> String {
    let ack = outline.and_then(|outline| outline.ack.as_ref());
    ack.map_or(String::new(), |ack| ack.to_text().into_owned())
}

fn trace_of(outline: Option<&Payload>) -> Option<String> {
    let content = outline.and_then(|outline| outline.content.as_ref())?;
    Some(content.headers.trace()?.trace_id().to_string())
}

fn outlined(payload: &Payload) -> PayloadOutline<'_> {
    PayloadOutline {
        content_type: &payload.content_type,
        content: payload
            .content
            .as_ref()
            .map(|PayloadContent { headers, body }| {
                let names: Vec<&str> = headers
                    .pairs()
                    .iter()
                    .map(|(name, _)| name.as_str())
                    .collect();
                (names.join(", "), body.len())
            }),
    }
}
