//! Decides which spans are recorded, and begins them.

use super::queue::{EndedSpan, SpanQueue};
use super::span::{OpenSpan, SpanKind};
use crate::domain::trace_context::{SpanId, TraceContext, TraceId};
use crate::telemetry::span_counters::SpanCounters;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Begins spans. The default records none. A clone belongs to the same queue.
#[derive(Clone, Default)]
pub struct Tracer(Option<SampledQueue>);

#[derive(Clone)]
struct SampledQueue {
    queue: Arc<SpanQueue>,
    sample_ratio: f64,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.0.is_some() { "on" } else { "off" };
        write!(out, "Tracer({state})")
    }
}

impl Tracer {
    /// A tracer that records spans, and what comes out of its queue.
    pub(super) fn new(
        sample_ratio: f64,
        counters: SpanCounters,
    ) -> (Self, mpsc::Receiver<EndedSpan>) {
        let (queue, receiver) = SpanQueue::new(counters);
        let recording = SampledQueue {
            queue: Arc::new(queue),
            sample_ratio,
        };
        (Self(Some(recording)), receiver)
    }

    /// Begins the span of a request with this trace context. `None` if it is not recorded.
    #[must_use]
    pub fn begin_request(&self, caller: Option<&TraceContext>) -> Option<OpenSpan> {
        let SampledQueue {
            queue,
            sample_ratio,
        } = self.0.as_ref()?;
        if let Some(caller) = caller {
            return begin_below(queue, caller, SpanKind::Server);
        }
        let trace_id = TraceId::from_bytes(random()?)?;
        if !is_in_sample(trace_id, *sample_ratio) {
            return None;
        }
        let context = TraceContext::root(trace_id, new_span_id()?);
        Some(OpenSpan::begin(
            queue.clone(),
            context,
            None,
            SpanKind::Server,
        ))
    }

    /// Begins the span of a call that follows from the span of this context. `None` if it is not recorded.
    #[must_use]
    pub fn begin_call(&self, parent: Option<&TraceContext>) -> Option<OpenSpan> {
        begin_below(&self.0.as_ref()?.queue, parent?, SpanKind::Client)
    }
}

fn begin_below(queue: &Arc<SpanQueue>, parent: &TraceContext, kind: SpanKind) -> Option<OpenSpan> {
    if !parent.is_sampled() {
        return None;
    }
    let context = parent.with_span(new_span_id()?);
    let parent = Some(parent.span_id());
    Some(OpenSpan::begin(queue.clone(), context, parent, kind))
}

/// Whether a trace that begins here is recorded. Every program that decides by the id and the same ratio decides the same, as
/// the sampler `TraceIdRatioBased` of OpenTelemetry does.
fn is_in_sample(trace_id: TraceId, ratio: f64) -> bool {
    let mut end = [0; 8];
    end.copy_from_slice(&trace_id.to_bytes()[8..]);
    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    let place = (u64::from_be_bytes(end) >> 1) as f64 / (1_u64 << 63) as f64;
    ratio >= 1.0 || place < ratio
}

fn new_span_id() -> Option<SpanId> {
    SpanId::from_bytes(random()?)
}

/// `None` if the machine has no random numbers. Then the span is not recorded.
fn random<const BYTES: usize>() -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::queue::QUEUE_SPANS;
    use super::*;
    use prometheus_client::registry::Registry;

    fn caller(flags: &str) -> TraceContext {
        let text = format!("00-{}-{}-{flags}", "ab".repeat(16), "cd".repeat(8));
        TraceContext::parse(&text).expect("right")
    }

    fn tracer(ratio: f64) -> (Tracer, mpsc::Receiver<EndedSpan>) {
        Tracer::new(ratio, SpanCounters::register(&mut Registry::default()))
    }

    #[test]
    fn the_caller_decides_about_its_trace_and_the_ratio_about_others() {
        for ratio in [0.0, 1.0] {
            let (tracer, _queue) = tracer(ratio);
            for (flags, expected) in [("00", false), ("01", true), ("02", false), ("03", true)] {
                let caller = caller(flags);
                let span = tracer.begin_request(Some(&caller));
                assert_eq!(span.is_some(), expected, "{flags}");
                if let Some(span) = span {
                    assert_eq!(span.context().trace_id(), caller.trace_id());
                    assert_ne!(span.context().span_id(), caller.span_id());
                    assert_eq!(span.context().flags(), caller.flags());
                }
                assert_eq!(tracer.begin_call(Some(&caller)).is_some(), expected);
            }
            assert_eq!(tracer.begin_request(None).is_some(), ratio > 0.0);
            // What was not recorded at first is not recorded later either.
            assert!(tracer.begin_call(None).is_none());
        }
        let off = Tracer::default();
        assert!(off.begin_request(Some(&caller("01"))).is_none());
        assert!(off.begin_request(None).is_none());
    }

    #[test]
    fn the_sample_goes_by_the_end_of_the_trace_id() {
        fn check(end: u64, ratio: f64, expected: bool) {
            let mut bytes = [0xff; 16];
            bytes[8..].copy_from_slice(&end.to_be_bytes());
            let trace_id = TraceId::from_bytes(bytes).expect("not zero");
            assert_eq!(is_in_sample(trace_id, ratio), expected, "{end:x} {ratio}");
        }
        check(u64::MAX, 1.0, true);
        check(0, 0.0, false);
        check(0, f64::MIN_POSITIVE, true);
        check(1 << 63, 0.5, false);
        check((1 << 63) - (1 << 40), 0.5, true);
        check(u64::MAX, 0.999, false);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let mut registry = Registry::default();
        let counters = SpanCounters::register(&mut registry);
        let (tracer, mut queue) = Tracer::new(1.0, counters);
        let begin = || tracer.begin_request(None).expect("recorded");
        for _ in 0..QUEUE_SPANS + 3 {
            begin().end("POST", Vec::new(), None);
        }
        let shown = || {
            let mut text = String::new();
            let encoded = prometheus_client::encoding::text::encode(&mut text, &registry);
            encoded.expect("text");
            text
        };
        assert!(shown().contains("trace_spans_dropped_total{reason=\"queue_full\"} 3"));
        queue.close();
        begin().end("POST", Vec::new(), None);
        assert!(shown().contains("trace_spans_dropped_total{reason=\"stopped\"} 1"));
        assert!(queue.try_recv().is_ok());
    }
}
