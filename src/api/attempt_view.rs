//! The JSON form of attempts in answers. Callers rely on the names of the members.

use crate::domain::attempt::{Attempt, escape};
use crate::domain::call_trace::{CallTrace, Phase, TlsVersion};
use crate::domain::http_version::HttpVersion;
use crate::domain::retry_after::RetryAfter;
use crate::domain::timestamp::display_ms;
use serde::Serialize;

/// An attempt. `answer` is the beginning of the answer's body. Characters that are not visible are escaped.
#[derive(Debug, Serialize)]
pub struct AttemptView<'a> {
    series: u32,
    number: u32,
    due_at: String,
    started_at: String,
    duration_ms: i64,
    /// For how long it was deferred because its lane or the servers had reached a limit, and the reason for most of that
    /// time; `null` if it was not.
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
    /// The ids of the keys that signed the call. Those that begin with `default` are default keys.
    key_ids: Option<&'a [Box<str>]>,
    /// What the receiver asked for with `Retry-After` of a 429 or 503: a duration, an instant, or `unusable`. The
    /// reason says what that changed.
    retry_after: Option<String>,
}

/// The last attempt of a notification in a list.
#[derive(Debug, Serialize)]
pub struct LastAttemptView<'a> {
    outcome: &'static str,
    status: Option<u16>,
    reason: Option<&'a str>,
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
#[derive(Debug, Serialize)]
struct PhasesView {
    dns_ms: Option<f64>,
    connect_ms: Option<f64>,
    tls_ms: Option<f64>,
    first_byte_ms: Option<f64>,
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
