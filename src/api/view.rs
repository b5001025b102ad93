//! The JSON form of notifications in answers. Callers rely on the names of the members.

use crate::api::attempt_view::{AttemptView, LastAttemptView, non_empty};
use crate::api::endpoint_view::name_or_object;
use crate::api::problem::Problem;
use crate::api::schema::{
    AckText, CauseName, DeferralReasonName, LadderText, OrderModeName, PriorityName, StateName,
};
use crate::api::timeline::{TimelineEntryView, timeline};
use crate::domain::attempt::Attempt;
use crate::domain::destination::Destination;
use crate::domain::key::Key;
use crate::domain::order::OrderPlace;
use crate::domain::snapshot::{SetAside, Snapshot};
use crate::domain::state::State;
use crate::domain::timestamp::display_ms;
use crate::journal::{Payload, PayloadContent, Transition};
use crate::service::{Flights, ListPage, WaitingFor};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A notification. In lists, `attempts` is always empty, and the last one is beside it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Notification)]
pub struct NotificationView<'a> {
    /// As it was registered.
    topic: &'a str,
    /// As it was registered, or made by the server.
    id: &'a str,
    /// The `Webhook-Id` header of all its calls.
    webhook_id: String,
    /// Its destination: `endpoint:NAME`, or the origin of the URL.
    lane: &'a str,
    /// The URL of the registration, or else the present one of its endpoint; `null` if that endpoint was removed.
    #[schema(required)]
    url: Option<&'a str>,
    #[schema(value_type = StateName)]
    state: &'static str,
    /// True if the journal says that the notification is scheduled and the schedule did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_be_in_flight: Option<bool>,
    /// 1; a replay and a resend begin the next one.
    series: u32,
    /// In all series.
    attempts_made: u32,
    /// How many will be made if all of them fail, the one in flight included; 0 once it has ended.
    attempts_left: usize,
    #[schema(format = DateTime)]
    registered_at: String,
    /// When the next attempt is due, or the one in flight was; `null` once it has ended.
    #[schema(required, format = DateTime)]
    next_attempt_at: Option<String>,
    /// When the last attempt of the series is made at the latest: the end of the ladder's window.
    #[schema(format = DateTime)]
    deadline_at: String,
    /// When it was delivered, died or was cancelled; `null` while it is pending.
    #[schema(required, format = DateTime)]
    ended_at: Option<String>,
    /// Why it ended, for a dead letter and one that was superseded.
    #[schema(required, value_type = Option<CauseName>)]
    cause: Option<&'static str>,
    #[schema(value_type = PriorityName)]
    priority: &'static str,
    /// Its place in an order, if it has one.
    #[schema(required)]
    order: Option<OrderView<'a>>,
    /// The oldest first, the last 500; empty in lists, in the answer to a registration, and without a journal.
    attempts: Vec<AttemptView<'a>>,
}

/// The place of a notification among others of its lane.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OrderPlace)]
struct OrderView<'a> {
    key: &'a str,
    number: i64,
    #[schema(value_type = OrderModeName)]
    mode: &'static str,
}

/// A notification for which an attempt was just requested.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequestedNotification)]
pub struct RequestedView<'a> {
    #[serde(flatten)]
    notification: NotificationView<'a>,
    /// Why the attempt does not begin now, in one word; `null` if nothing is in its way.
    #[schema(required, value_type = Option<DeferralReasonName>)]
    waiting_for: Option<&'static str>,
    /// The same in a sentence.
    #[schema(required)]
    waiting_because: Option<&'a str>,
}

/// A notification with its ladder and its history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FullNotification)]
pub struct FullView<'a> {
    #[serde(flatten)]
    notification: NotificationView<'a>,
    /// Why a pending one that is overdue is not being sent now, in one word; `null` if nothing in its lane is in its way.
    #[schema(required, value_type = Option<DeferralReasonName>)]
    waiting_for: Option<&'static str>,
    /// The same in a sentence.
    #[schema(required)]
    waiting_because: Option<&'a str>,
    /// Set if the notification is set aside: it is not sent until a change by hand releases it.
    #[schema(required)]
    set_aside: Option<SetAsideView<'a>>,
    /// That its endpoint was removed, and what that means; that its lane is held, if it is not overdue yet. Else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[schema(value_type = LadderText)]
    ladder: Box<RawValue>,
    /// The rule that judges the answers, that of the endpoint if the notification has none of its own. `null` if the
    /// endpoint does not exist any more.
    #[schema(required, value_type = Option<AckText>)]
    ack: Option<Box<RawValue>>,
    /// Of what is sent; `null` if that cannot be read.
    #[schema(required)]
    content_type: Option<&'a str>,
    /// The names of the headers that the caller added. `null` if they and the body are not kept any more.
    #[schema(required)]
    header_names: Option<Vec<&'a str>>,
    /// The id of the trace that the registration belongs to, whether a collector has it or not. `null` if it belongs to none,
    /// or headers and body are not kept any more.
    #[schema(required)]
    trace_id: Option<String>,
    /// The length of the body; `null` if headers and body are not kept any more.
    #[schema(required)]
    body_bytes: Option<usize>,
    /// Its changes, oldest first, the last 500.
    transitions: Vec<TransitionView<'a>>,
    /// Attempts and transitions in order of time.
    timeline: Vec<TimelineEntryView<'a>>,
}

/// Why and since when a notification is set aside.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SetAside)]
struct SetAsideView<'a> {
    #[schema(format = DateTime)]
    at: String,
    reason: &'a str,
}

/// A change of a notification.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Transition)]
struct TransitionView<'a> {
    /// What happened, such as `registered`, `delivered`, `parked`, `cancelled`, `replayed`.
    kind: &'a str,
    #[schema(format = DateTime)]
    at: String,
    /// Who asked for it.
    actor: &'a str,
    /// The server that did it.
    instance: &'a str,
    /// The cause or the reason.
    #[schema(required)]
    detail: Option<&'a str>,
}

/// A page of notifications.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NotificationList)]
pub struct ListView<'a> {
    items: Vec<ListItemView<'a>>,
    /// The `cursor` of the next page; `null` on the last one.
    #[schema(required)]
    next_cursor: Option<&'a str>,
    /// How many there are in all; left out where that is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

/// A notification in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ListedNotification)]
pub struct ListItemView<'a> {
    #[serde(flatten)]
    notification: NotificationView<'a>,
    /// `null` if there was no attempt, or if attempts are not kept. Left out if they cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_attempt: Option<Option<LastAttemptView<'a>>>,
}

impl<'a> NotificationView<'a> {
    /// The view of a notification that was just registered or changed.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> Self {
        Self::seen(snapshot, Flights::Known)
    }

    /// The view of a notification that was looked up or listed.
    #[must_use]
    pub fn seen(snapshot: &'a Snapshot, flights: Flights) -> Self {
        let unknown = snapshot.state == State::Scheduled && flights == Flights::Unknown;
        let progress = &snapshot.progress;
        Self {
            topic: snapshot.key.topic(),
            id: snapshot.key.id(),
            webhook_id: snapshot.webhook_id.to_string(),
            lane: snapshot.lane.as_str(),
            url: snapshot.destination.as_ref().map(Destination::as_str),
            state: snapshot.state_name(),
            may_be_in_flight: unknown.then_some(true),
            series: progress.series,
            attempts_made: progress.attempts,
            attempts_left: snapshot.attempts_left(),
            registered_at: display_ms(snapshot.registered_ms),
            next_attempt_at: snapshot.next_due_ms().map(display_ms),
            deadline_at: display_ms(progress.deadline_ms),
            ended_at: snapshot.ended_ms.map(display_ms),
            cause: snapshot.cause.map(|cause| cause.as_str()),
            priority: snapshot.priority.as_str(),
            order: snapshot.order.as_deref().map(OrderView::of),
            attempts: snapshot.attempts.iter().map(AttemptView::of).collect(),
        }
    }
}

impl<'a> OrderView<'a> {
    fn of(order: &'a OrderPlace) -> Self {
        Self {
            key: order.key(),
            number: order.number(),
            mode: order.mode().as_str(),
        }
    }
}

impl<'a> FullView<'a> {
    /// The view of a notification with all its details.
    #[must_use]
    pub fn of(
        snapshot: &'a Snapshot,
        flights: Flights,
        transitions: &'a [Transition],
        waiting: Option<&'a WaitingFor>,
    ) -> Self {
        Self {
            notification: NotificationView::seen(snapshot, flights),
            waiting_for: waiting.map(|waiting| waiting.reason.as_str()),
            waiting_because: waiting.map(|waiting| &*waiting.in_words),
            set_aside: (snapshot.set_aside.as_ref()).map(|SetAside { at_ms, reason }| {
                SetAsideView {
                    at: display_ms(*at_ms),
                    reason,
                }
            }),
            warning: None,
            ladder: name_or_object(&snapshot.ladder.to_text()),
            ack: None,
            content_type: None,
            header_names: None,
            trace_id: None,
            body_bytes: None,
            transitions: transitions
                .iter()
                .map(|transition| TransitionView {
                    kind: &transition.kind,
                    at: display_ms(transition.at_ms),
                    actor: &transition.actor,
                    instance: &transition.instance,
                    detail: non_empty(&transition.detail),
                })
                .collect(),
            timeline: timeline(&snapshot.attempts, transitions),
        }
    }

    /// The same view, with what is to be known of its endpoint and its lane.
    #[must_use]
    pub fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        self
    }

    /// The same view, with what the notification sends. `None` if that cannot be read.
    #[must_use]
    pub fn with_payload(mut self, payload: Option<&'a Payload>) -> Self {
        let Some(payload) = payload else {
            return self;
        };
        self.ack = (payload.ack.as_ref()).map(|ack| name_or_object(&ack.to_text()));
        self.content_type = Some(&payload.content_type);
        if let Some(PayloadContent { headers, body }) = &payload.content {
            let names = headers.pairs().iter().map(|(name, _)| name.as_str());
            self.header_names = Some(names.collect());
            self.trace_id = headers.trace().map(|trace| trace.trace_id().to_string());
            self.body_bytes = Some(body.len());
        }
        self
    }
}

impl<'a> ListItemView<'a> {
    /// The view of a notification whose last attempt is known.
    #[must_use]
    pub fn of(item: &'a Snapshot, last: Option<&'a Attempt>, flights: Flights) -> Self {
        Self {
            notification: NotificationView::seen(item, flights),
            last_attempt: Some(last.map(LastAttemptView::of)),
        }
    }
}

impl<'a> ListView<'a> {
    /// The view of a page.
    #[must_use]
    pub fn of(page: &'a ListPage) -> Self {
        Self {
            items: (page.items.iter().enumerate())
                .map(|(index, item)| ListItemView {
                    notification: NotificationView::seen(item, page.flights),
                    last_attempt: page.last_attempts.as_ref().map(|all| {
                        let last = all.get(index)?;
                        last.as_ref().map(LastAttemptView::of)
                    }),
                })
                .collect(),
            next_cursor: page.next.as_deref(),
            total: page.total,
        }
    }
}

/// Makes an answer with a JSON document.
#[must_use]
pub fn json(status: StatusCode, document: &impl Serialize) -> Response {
    match serde_json::to_vec(document) {
        Ok(text) => {
            let content_type = HeaderValue::from_static("application/json");
            (status, [(header::CONTENT_TYPE, content_type)], text).into_response()
        }
        Err(error) => {
            tracing::error!(
                %error,
                "an answer could not be written as JSON, which is a bug; the caller gets an error 500"
            );
            Problem::internal().into_response()
        }
    }
}

/// Makes the answer to a registration of a new notification.
#[must_use]
pub fn created(snapshot: &Snapshot) -> Response {
    let mut response = notification(StatusCode::CREATED, snapshot);
    // What is not ASCII is not in an id, and what a header cannot have is encoded.
    if let Ok(location) = HeaderValue::from_str(&path_of(&snapshot.key)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The path of a notification. Of an id, all but the unreserved characters (RFC 3986, section 2.3) are percent-encoded. A
/// topic has no others.
fn path_of(key: &Key) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut path = format!("/v1/notifications/{}/", key.topic());
    for byte in key.id().bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let digits = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
            path.extend(['%', char::from(digits[0]), char::from(digits[1])]);
        }
    }
    path
}

/// Makes an answer with one notification.
#[must_use]
pub fn notification(status: StatusCode, snapshot: &Snapshot) -> Response {
    json(status, &NotificationView::of(snapshot))
}

/// Makes an answer with one notification for which an attempt was just requested, and what that waits for.
#[must_use]
pub fn requested(snapshot: &Snapshot, waiting: Option<&WaitingFor>) -> Response {
    let view = RequestedView {
        notification: NotificationView::of(snapshot),
        waiting_for: waiting.map(|waiting| waiting.reason.as_str()),
        waiting_because: waiting.map(|waiting| &*waiting.in_words),
    };
    json(StatusCode::OK, &view)
}

#[cfg(test)]
mod tests;
