//! The JSON form of notifications in answers. Callers rely on the names of the members.

use crate::api::problem::Problem;
use crate::api::timeline::{TimelineEntryView, timeline};
use crate::domain::attempt::{Attempt, escape};
use crate::domain::call_trace::{CallTrace, Phase, TlsVersion};
use crate::domain::destination::Destination;
use crate::domain::http_version::HttpVersion;
use crate::domain::order::OrderPlace;
use crate::domain::retry_after::RetryAfter;
use crate::domain::snapshot::{SetAside, Snapshot};
use crate::domain::state::State;
use crate::domain::timestamp::display_ms;
use crate::journal::Transition;
use crate::service::{Flights, ListPage, ServiceError, WaitingFor};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// A notification. In lists, `attempts` is always empty.
#[derive(Debug, Serialize)]
pub struct NotificationView<'a> {
    topic: &'a str,
    id: &'a str,
    webhook_id: String,
    lane: &'a str,
    url: Option<&'a str>,
    state: &'static str,
    /// True if the journal says that the notification is scheduled and the schedule did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_be_in_flight: Option<bool>,
    series: u32,
    attempts_made: u32,
    attempts_left: usize,
    registered_at: String,
    next_attempt_at: Option<String>,
    deadline_at: String,
    ended_at: Option<String>,
    cause: Option<&'static str>,
    priority: &'static str,
    order: Option<OrderView<'a>>,
    attempts: Vec<AttemptView<'a>>,
}

/// The place of a notification among others of its lane.
#[derive(Debug, Serialize)]
struct OrderView<'a> {
    key: &'a str,
    number: i64,
    mode: &'static str,
}

/// An attempt. `answer` is the beginning of the answer's body. Characters that are not visible are escaped.
#[derive(Debug, Serialize)]
pub struct AttemptView<'a> {
    series: u32,
    number: u32,
    due_at: String,
    started_at: String,
    duration_ms: i64,
    /// For how long it was deferred because its lane or the servers had reached a limit, and the chief reason; `null` if
    /// it was not.
    deferred_ms: Option<i64>,
    deferred_by: Option<&'static str>,
    outcome: &'static str,
    status: Option<u16>,
    answer: Option<String>,
    reason: Option<&'a str>,
    /// The address that was called, with its port. If no connection could be opened, the first one that was tried.
    address: Option<&'a str>,
    /// `new` or `kept`: whether the call opened its connection or used one of an earlier call. `null` if there was
    /// no connection.
    connection: Option<&'static str>,
    /// The version of TLS.
    tls: Option<&'static str>,
    /// The version of HTTP, `1.1` or `2`; `null` if no request was sent.
    http: Option<&'static str>,
    phases: Option<PhasesView>,
    /// The version of the endpoint whose settings the call used.
    endpoint_version: Option<u32>,
    /// The ids of the keys of the endpoint that signed the call; `default` is the secret of the server.
    key_ids: Option<&'a [Box<str>]>,
    /// What the receiver asked for with `Retry-After` of a 429 or 503: a duration, an instant, or `unusable`. The
    /// reason says what that changed.
    retry_after: Option<String>,
}

/// How long each phase of a call took, in milliseconds. What the call did not need or reach is `null`. The last
/// one that is known may have been broken off.
#[derive(Debug, Serialize)]
struct PhasesView {
    dns_ms: Option<f64>,
    connect_ms: Option<f64>,
    tls_ms: Option<f64>,
    first_byte_ms: Option<f64>,
    body_ms: Option<f64>,
}

/// A notification for which an attempt was just requested.
#[derive(Debug, Serialize)]
struct RequestedView<'a> {
    #[serde(flatten)]
    notification: NotificationView<'a>,
    /// Why the attempt does not begin now, as in [`FullView`].
    waiting_for: Option<&'static str>,
    waiting_because: Option<&'a str>,
}

/// A notification with its ladder and its history.
#[derive(Debug, Serialize)]
pub struct FullView<'a> {
    #[serde(flatten)]
    notification: NotificationView<'a>,
    /// Why a pending one that is overdue is not being sent now, in one word and in a sentence; `null` if nothing in its
    /// lane is in its way.
    waiting_for: Option<&'static str>,
    waiting_because: Option<&'a str>,
    /// Set if the notification is set aside: it is not sent until a change by hand releases it.
    set_aside: Option<SetAsideView<'a>>,
    ladder: Box<RawValue>,
    transitions: Vec<TransitionView<'a>>,
    /// Attempts and transitions in order of time.
    timeline: Vec<TimelineEntryView<'a>>,
}

#[derive(Debug, Serialize)]
struct SetAsideView<'a> {
    at: String,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct TransitionView<'a> {
    kind: &'a str,
    at: String,
    actor: &'a str,
    instance: &'a str,
    detail: Option<&'a str>,
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub struct ListView<'a> {
    items: Vec<NotificationView<'a>>,
    next_cursor: Option<&'a str>,
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

impl<'a> AttemptView<'a> {
    /// The view of an attempt.
    #[must_use]
    pub fn of(attempt: &'a Attempt) -> Self {
        let (answer, trace) = (&attempt.answer, &attempt.trace);
        Self {
            series: attempt.series,
            number: attempt.number,
            due_at: display_ms(attempt.due_ms),
            started_at: display_ms(attempt.started_ms),
            duration_ms: attempt.duration_ms,
            deferred_ms: trace.deferral.map(|deferral| deferral.ms),
            deferred_by: trace.deferral.map(|deferral| deferral.by.as_str()),
            outcome: answer.outcome.as_str(),
            status: answer.status,
            // If there is a status, the receiver answered, perhaps with an empty body.
            answer: answer.status.map(|_| escape(&answer.body)),
            reason: non_empty(&answer.reason),
            address: trace.address.as_deref(),
            connection: (trace.is_connected()).then_some(if trace.is_kept {
                "kept"
            } else {
                "new"
            }),
            tls: trace.tls.map(TlsVersion::as_str),
            http: trace.http().map(HttpVersion::as_str),
            phases: PhasesView::of(trace),
            endpoint_version: trace.endpoint_version,
            key_ids: (!trace.key_ids.is_empty()).then_some(&trace.key_ids),
            retry_after: trace.retry_after.map(RetryAfter::shown),
        }
    }
}

impl PhasesView {
    /// `None` if the call reached no phase.
    fn of(trace: &CallTrace) -> Option<Self> {
        let ms = |phase| {
            let took_us = trace.phase_us(phase)?;
            // A call lasts minutes at most, so this is exact.
            Some(took_us as f64 / 1_000.0)
        };
        let phases = Phase::ALL.map(ms);
        let [dns_ms, connect_ms, tls_ms, first_byte_ms, body_ms] = phases;
        phases.iter().any(Option::is_some).then_some(Self {
            dns_ms,
            connect_ms,
            tls_ms,
            first_byte_ms,
            body_ms,
        })
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
        let ladder = match snapshot.ladder.name() {
            Some(name) => format!("\"{name}\""),
            None => snapshot.ladder.to_text(),
        };
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
            ladder: RawValue::from_string(ladder)
                .expect("invariant: a custom ladder's text is JSON, and names need no escapes"),
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
}

impl<'a> ListView<'a> {
    /// The view of a page.
    #[must_use]
    pub fn of(page: &'a ListPage) -> Self {
        Self {
            items: page
                .items
                .iter()
                .map(|item| NotificationView::seen(item, page.flights))
                .collect(),
            next_cursor: page.next.as_deref(),
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

/// The problem for a registration that failed. If the notification was cancelled, the document contains all of
/// it, as the answer of a registration that succeeds does.
#[must_use]
pub fn registration_problem(error: ServiceError) -> Problem {
    let cancelled = match &error {
        ServiceError::Cancelled(snapshot) => to_raw_value(&NotificationView::of(snapshot)).ok(),
        _ => None,
    };
    let problem = Problem::of_service(error);
    match cancelled {
        Some(notification) => problem.with_notification(notification),
        None => problem,
    }
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack::AckRule;
    use crate::domain::attempt::{Answer, Outcome};
    use crate::domain::destination::Destination;
    use crate::domain::headers::Headers;
    use crate::domain::key::Key;
    use crate::domain::ladder::{CustomLadder, Ladder};
    use crate::domain::notification::{Registration, Start, Target};
    use crate::domain::priority::Priority;
    use crate::domain::state::Cause;
    use crate::domain::webhook_id::WebhookId;
    use bytes::Bytes;

    fn snapshot(ladder: Ladder) -> Snapshot {
        let registration = Registration {
            key: Key::new("payment.succeeded", "a/\"b\"").expect("a key"),
            target: Target::Url(Destination::parse("https://shop.example/notify").expect("a url")),
            body: Bytes::from_static(b"x"),
            content_type: "text/plain".into(),
            headers: Headers::default(),
            start: Start::After(1_800_000),
            ladder: Some(ladder),
            ack: Some(AckRule::standard()),
            priority: Priority::Normal,
            order: None,
        };
        let (notification, progress) =
            registration.accept(WebhookId::from_bytes([1; 16]), 1_795_163_400_000, None);
        Snapshot::of_new(&notification, progress)
    }

    fn attempt(status: Option<u16>, body: &[u8], outcome: Outcome, reason: &str) -> Attempt {
        Attempt {
            series: 1,
            number: 1,
            due_ms: 0,
            started_ms: 3,
            duration_ms: 250,
            answer: Answer {
                outcome,
                status,
                body: body.to_vec(),
                reason: reason.to_string(),
            },
            trace: CallTrace::default(),
        }
    }

    fn written(document: &impl Serialize) -> String {
        serde_json::to_string(document).expect("JSON")
    }

    #[test]
    fn a_new_notification_has_the_members_of_the_contract() {
        assert_eq!(
            written(&NotificationView::of(&snapshot(Ladder::standard()))),
            concat!(
                r#"{"topic":"payment.succeeded","id":"a/\"b\"","#,
                r#""webhook_id":"msg_01010101010101010101010101010101","#,
                r#""lane":"https://shop.example","url":"https://shop.example/notify","#,
                r#""state":"scheduled","series":1,"attempts_made":0,"attempts_left":8,"#,
                r#""registered_at":"2026-11-20T08:30:00.000Z","#,
                r#""next_attempt_at":"2026-11-20T09:00:00.000Z","#,
                r#""deadline_at":"2026-11-21T09:22:00.000Z","#,
                r#""ended_at":null,"cause":null,"priority":"normal","order":null,"attempts":[]}"#
            )
        );
    }

    #[test]
    fn an_ended_notification_shows_its_attempts_ladder_and_history() {
        let ladder = Ladder::custom(&CustomLadder {
            intervals: vec!["1m".into()],
            window: None,
            repeat_last: false,
            jitter: 0.0,
        })
        .expect("valid");
        let snapshot = Snapshot {
            state: State::Dead,
            cause: Some(Cause::LadderExhausted),
            ended_ms: Some(60_250),
            attempts: vec![
                attempt(Some(200), b"", Outcome::WrongAnswer, "empty"),
                Attempt {
                    trace: CallTrace::from_text(
                        "to=192.0.2.1:443 kept tls=1.3 http=2 endpoint=3 retry-after=30 keys=key_1,default deferred=held:7200000 first=8120 body=0",
                    ),
                    ..attempt(None, b"", Outcome::Connect, "refused")
                },
                attempt(Some(200), b"\xefsuccess\n", Outcome::Acknowledged, ""),
            ],
            ..snapshot(ladder)
        };
        let transitions = [Transition {
            kind: "registered".into(),
            at_ms: 0,
            actor: "api".into(),
            instance: "one".into(),
            detail: String::new(),
        }];
        let text = written(&FullView::of(
            &snapshot,
            Flights::Unknown,
            &transitions,
            None,
        ));
        for part in [
            r#""state":"dead","#,
            r#""attempts_left":0,"#,
            r#""next_attempt_at":null,"#,
            r#""ended_at":"1970-01-01T00:01:00.250Z","cause":"ladder_exhausted","#,
            r#"{"series":1,"number":1,"due_at":"1970-01-01T00:00:00.000Z","started_at":"1970-01-01T00:00:00.003Z","duration_ms":250,"deferred_ms":null,"deferred_by":null,"outcome":"wrong_answer","status":200,"answer":"","reason":"empty","address":null,"connection":null,"tls":null,"http":null,"phases":null,"endpoint_version":null,"key_ids":null,"retry_after":null}"#,
            r#""deferred_ms":7200000,"deferred_by":"held","outcome":"connect","status":null,"answer":null,"reason":"refused","address":"192.0.2.1:443","connection":"kept","tls":"1.3","http":"2","phases":{"dns_ms":null,"connect_ms":null,"tls_ms":null,"first_byte_ms":8.12,"body_ms":0.0},"endpoint_version":3,"key_ids":["key_1","default"],"retry_after":"30s"}"#,
            r#""status":200,"answer":"\\xefsuccess\\n","reason":null,"address":null,"#,
            r#""ladder":{"intervals":["1m"],"window":"1m"},"#,
            r#""transitions":[{"kind":"registered","at":"1970-01-01T00:00:00.000Z","actor":"api","instance":"one","detail":null}],"#,
            r#""timeline":[{"at":"1970-01-01T00:00:00.000Z","kind":"registered","actor":"api","detail":null},"#,
            r#"{"at":"1970-01-01T00:00:00.003Z","kind":"attempt","series":1,"number":1,"outcome":"wrong_answer","status":200,"index":0},"#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            written(&FullView::of(
                &self::snapshot(Ladder::standard()),
                Flights::Known,
                &[],
                None
            ))
            .ends_with(r#""set_aside":null,"ladder":"alipay","transitions":[],"timeline":[]}"#)
        );
    }
}
