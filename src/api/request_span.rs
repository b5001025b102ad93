//! The span of a request that registers notifications, and the trace context that is kept with them.
//!
//! If the span is recorded, what is kept is its context, so that the attempts are below it. Else it is what the caller sent,
//! as it was: a span that nobody records is never named as a parent.

use crate::domain::snapshot::Snapshot;
use crate::domain::trace_context::TraceContext;
use crate::domain::trace_context::state::TraceState;
use crate::telemetry::traces::Tracer;
use crate::telemetry::traces::span::{OpenSpan, SpanAttribute, SpanValue};
use http::{HeaderMap, StatusCode};

/// The header that names a trace and a span, by W3C Trace Context.
pub(super) const TRACEPARENT: &str = "traceparent";
/// The header that goes with it.
pub(super) const TRACESTATE: &str = "tracestate";

/// A request that registers notifications.
pub(super) struct RequestSpan {
    name: &'static str,
    caller: Option<TraceContext>,
    span: Option<OpenSpan>,
    attributes: Vec<SpanAttribute>,
}

impl RequestSpan {
    /// Begins the span of a request to this route, whose name is the method and the path.
    pub(super) fn begin(tracer: &Tracer, name: &'static str, headers: &HeaderMap) -> Self {
        let caller = trace_context(headers);
        let span = tracer.begin_request(caller.as_ref());
        let attributes = match (&span, name.split_once(' ')) {
            (Some(_), Some((method, path))) => vec![
                ("http.request.method", method.into()),
                ("http.route", path.into()),
                ("url.path", path.into()),
                ("url.scheme", "http".into()),
            ],
            _ => Vec::new(),
        };
        Self {
            name,
            caller,
            span,
            attributes,
        }
    }

    /// What is kept with the notifications of the request.
    pub(super) fn context(&self) -> Option<&TraceContext> {
        let own = self.span.as_ref().map(OpenSpan::context);
        own.or(self.caller.as_ref())
    }

    /// Adds an attribute, if the span is recorded.
    pub(super) fn note(&mut self, name: &'static str, value: impl Into<SpanValue>) {
        if self.span.is_some() {
            self.attributes.push((name, value.into()));
        }
    }

    /// Adds what was registered.
    pub(super) fn note_notification(&mut self, snapshot: &Snapshot, is_new: bool) {
        if self.span.is_some() {
            self.note("ringback.topic", snapshot.key.topic());
            self.note("ringback.id", snapshot.key.id());
            self.note("ringback.lane", snapshot.lane.as_str());
            let result = if is_new { "created" } else { "existing" };
            self.note("ringback.registration", result);
        }
    }

    /// Ends the span with the status of the answer.
    pub(super) fn end(mut self, status: StatusCode) {
        self.note("http.response.status_code", i64::from(status.as_u16()));
        // What a caller did wrong is no failure of the server, as OpenTelemetry has it.
        let failure = status
            .is_server_error()
            .then(|| status.as_u16().to_string());
        self.close(failure);
    }

    fn close(&mut self, failure: Option<String>) {
        if let Some(span) = self.span.take() {
            if let Some(kind) = &failure {
                self.attributes.push(("error.type", kind.as_str().into()));
            }
            span.end(self.name, std::mem::take(&mut self.attributes), failure);
        }
    }
}

/// The caller may go away before the answer. What it has registered by then is below this span nevertheless.
impl Drop for RequestSpan {
    fn drop(&mut self) {
        self.close(Some("abandoned".to_string()));
    }
}

/// The trace context of a request. `None` if there is none, or what there is is not allowed, as the standard says: of a
/// `traceparent` that comes twice, none counts.
fn trace_context(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = parents.next().filter(|_| parents.next().is_none())?;
    let context = TraceContext::parse(parent.to_str().ok()?)?;
    let states = headers.get_all(TRACESTATE).iter();
    let states: Result<Vec<&str>, _> = states.map(|state| state.to_str()).collect();
    let state = states.ok().and_then(TraceState::parse);
    Some(context.with_state(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_headers_of_a_request_are_read_together() {
        let parent = format!("00-{}-{}-01", "ab".repeat(16), "cd".repeat(8));
        let check = |headers: &[(&'static str, &[u8])], expected: Option<Option<&str>>| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_bytes(value).expect("a value"));
            }
            let read = trace_context(&map);
            let state = read
                .as_ref()
                .map(|read| read.state().map(TraceState::as_str));
            assert_eq!(state, expected, "{headers:?}");
        };
        let parent = parent.as_bytes();
        check(&[], None);
        check(&[(TRACEPARENT, parent)], Some(None));
        check(&[(TRACEPARENT, parent), (TRACEPARENT, parent)], None);
        check(&[(TRACEPARENT, b"00-"), (TRACESTATE, b"a=1")], None);
        check(&[(TRACESTATE, b"a=1")], None);
        check(&[(TRACEPARENT, b"\xff")], None);
        let parent = (TRACEPARENT, parent);
        check(
            &[(TRACESTATE, b"a=1"), parent, (TRACESTATE, b"b=2")],
            Some(Some("a=1,b=2")),
        );
        check(
            &[parent, (TRACESTATE, b"a=1"), (TRACESTATE, b"\xff")],
            Some(None),
        );
        check(&[parent, (TRACESTATE, b"wrong")], Some(None));
    }
}
