//! The JSON form of attempts in answers. Callers rely on the names of the members.

use crate::api::schema::{DeferralReasonName, OutcomeName};
use crate::domain::attempt::{Attempt, escape};
use crate::domain::call_trace::{CallTrace, Phase, TlsVersion};
use crate::domain::http_version::HttpVersion;
use crate::domain::retry_after::RetryAfter;
use crate::domain::timestamp::display_ms;
use serde::Serialize;
use utoipa::ToSchema;

/// An attempt. `answer` is the beginning of the answer's body. Characters that are not visible are escaped.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptView<'a> {
    series: u32,
    /// 1, 2, ... over all series. One that was interrupted and its repetition have the same.
    number: u32,
    #[schema(format = DateTime)]
    due_at: String,
    #[schema(format = DateTime)]
    started_at: String,
    duration_ms: i64,
    /// For how long it was deferred because its lane or the servers had reached a limit; `null` if it was not.
    #[schema(required)]
    deferred_ms: Option<i64>,
    /// The reason for most of that time.
    #[schema(required, value_type = Option<DeferralReasonName>)]
    deferred_by: Option<&'static str>,
    #[schema(value_type = OutcomeName)]
    outcome: &'static str,
    /// The HTTP status; `null` if no answer came.
    #[schema(required)]
    status: Option<u16>,
    /// The first 4 KiB of the answer's body, with invisible bytes as escapes; `null` if no answer came.
    #[schema(required)]
    answer: Option<String>,
    /// Why it failed, in a sentence; `null` if it was acknowledged.
    #[schema(required)]
    reason: Option<&'a str>,
    /// The address that was called, with its port. If no connection could be opened, the first one that was tried.
    #[schema(required)]
    address: Option<&'a str>,
    /// `new` or `kept`: whether the call opened its connection or used one of an earlier call. `null` if there was
    /// no connection.
    #[schema(required)]
    connection: Option<&'static str>,
    /// The version of TLS.
    #[schema(required)]
    tls: Option<&'static str>,
    /// The version of HTTP, `1.1` or `2`; `null` if no request was sent.
    #[schema(required)]
    http: Option<&'static str>,
    #[schema(required)]
    phases: Option<PhasesView>,
    /// The version of the endpoint whose settings the call used.
    #[schema(required)]
    endpoint_version: Option<u32>,
    /// The ids of the keys that signed the call. Those that begin with `default` are default keys.
    #[schema(required, value_type = Option<Vec<String>>)]
    key_ids: Option<&'a [Box<str>]>,
    /// What the receiver asked for with `Retry-After` of a 429 or 503: a duration, an instant, or `unusable`. The
    /// reason says what that changed.
    #[schema(required)]
    retry_after: Option<String>,
}

/// The last attempt of a notification in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LastAttempt)]
pub struct LastAttemptView<'a> {
    #[schema(value_type = OutcomeName)]
    outcome: &'static str,
    #[schema(required)]
    status: Option<u16>,
    #[schema(required)]
    reason: Option<&'a str>,
    #[schema(format = DateTime)]
    started_at: String,
}

impl<'a> LastAttemptView<'a> {
    /// The view of an attempt.
    #[must_use]
    pub fn of(attempt: &'a Attempt) -> Self {
        Self {
            outcome: attempt.answer.outcome.as_str(),
            status: attempt.answer.status,
            reason: non_empty(&attempt.answer.reason),
            started_at: display_ms(attempt.started_ms),
        }
    }
}

/// How long each phase of a call took, in milliseconds. What the call did not need or reach is `null`. The last
/// one that is known may have been broken off.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Phases)]
struct PhasesView {
    #[schema(required)]
    dns_ms: Option<f64>,
    #[schema(required)]
    connect_ms: Option<f64>,
    #[schema(required)]
    tls_ms: Option<f64>,
    /// From sending to the head of the answer.
    #[schema(required)]
    first_byte_ms: Option<f64>,
    #[schema(required)]
    body_ms: Option<f64>,
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

/// A text, or `None` for an empty one.
pub(super) fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
