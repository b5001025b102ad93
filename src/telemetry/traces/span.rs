//! One span, from its begin to its end.

use super::queue::{EndedSpan, SpanQueue};
use crate::domain::trace_context::state::TraceState;
use crate::domain::trace_context::{SpanId, TraceContext};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Status, span};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of bytes of a text that a span has as an attribute. Longer ones are cut off.
const LONGEST_TEXT: usize = 2_048;
/// In the flags of a span, beside those of the trace: it is known whether the parent is of another process, and it is.
const PARENT_IS_REMOTE: u32 = 0x300;
/// It is known, and it is not.
const NO_REMOTE_PARENT: u32 = 0x100;

/// Which side of a call a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// It answers a request.
    Server,
    /// It makes a request.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// An attribute of a span: its name by the semantic conventions of OpenTelemetry, or `ringback.` and the name in the log.
pub type SpanAttribute = (&'static str, SpanValue);

impl From<&str> for SpanValue {
    fn from(text: &str) -> Self {
        let longest = text.len().min(LONGEST_TEXT);
        let is_boundary = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=longest).rev().find(is_boundary).unwrap_or(0);
        Self::Text(text[..end].to_string())
    }
}

impl From<i64> for SpanValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// A span that has begun. If it is dropped, it is not recorded.
pub struct OpenSpan {
    queue: Arc<SpanQueue>,
    context: TraceContext,
    parent: Option<SpanId>,
    kind: SpanKind,
    began: SystemTime,
    measured: Instant,
}

impl OpenSpan {
    pub(super) fn begin(
        queue: Arc<SpanQueue>,
        context: TraceContext,
        parent: Option<SpanId>,
        kind: SpanKind,
    ) -> Self {
        Self {
            queue,
            context,
            parent,
            kind,
            began: SystemTime::now(),
            measured: Instant::now(),
        }
    }

    /// The trace context of what follows from this span.
    #[must_use]
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Ends the span. It has failed if there is a text, which says how in a word.
    pub fn end(self, name: &'static str, attributes: Vec<SpanAttribute>, failure: Option<String>) {
        let Self {
            queue,
            context,
            parent,
            kind,
            began,
            measured,
        } = self;
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = |at: Duration| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let parent_flags = parent.map_or(NO_REMOTE_PARENT, |_| PARENT_IS_REMOTE);
        let state = context.state().map_or("", TraceState::as_str);
        let kind = match kind {
            SpanKind::Server => span::SpanKind::Server,
            SpanKind::Client => span::SpanKind::Client,
        };
        let status = failure.map(|message| Status {
            message,
            code: StatusCode::Error.into(),
        });
        queue.put(EndedSpan {
            trace_id: context.trace_id().to_bytes().to_vec(),
            span_id: context.span_id().to_bytes().to_vec(),
            trace_state: state.to_string(),
            parent_span_id: parent.map_or_else(Vec::new, |id| id.to_bytes().to_vec()),
            flags: u32::from(context.flags()) | parent_flags,
            name: name.to_string(),
            kind: kind.into(),
            start_time_unix_nano: nanos(began),
            end_time_unix_nano: nanos(began.saturating_add(measured.elapsed())),
            attributes: attributes.into_iter().map(attribute).collect(),
            status,
            ..EndedSpan::default()
        });
    }
}

/// An attribute in the form of OTLP.
pub(super) fn attribute((name, value): SpanAttribute) -> KeyValue {
    let value = match value {
        SpanValue::Text(text) => Value::StringValue(text),
        SpanValue::Number(number) => Value::IntValue(number),
    };
    KeyValue {
        key: name.to_string(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_off_between_characters() {
        fn check(text: &str, expected: usize) {
            assert_eq!(
                SpanValue::from(text),
                SpanValue::Text(text[..expected].to_string())
            );
        }
        check("", 0);
        let at_bound = "a".repeat(LONGEST_TEXT);
        check(&at_bound, LONGEST_TEXT);
        check(&format!("{at_bound}a"), LONGEST_TEXT);
        check(&format!("{}é", &at_bound[1..]), LONGEST_TEXT - 1);
    }
}
