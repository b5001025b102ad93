//! The bounded queue between what ends spans and what sends them.

use crate::telemetry::span_counters::{SpanCounters, SpanLoss};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Maximum number of spans that have ended and are not being sent. A span takes about 3 KB, with long names and URLs 8 KB.
pub(super) const QUEUE_SPANS: usize = 8_192;

/// A span that has ended, in the form of OTLP.
pub(super) type EndedSpan = opentelemetry_proto::tonic::trace::v1::Span;

/// Where spans go that have ended.
pub(super) struct SpanQueue {
    sender: mpsc::Sender<EndedSpan>,
    counters: SpanCounters,
}

impl SpanQueue {
    /// A queue, and what comes out of it.
    pub(super) fn new(counters: SpanCounters) -> (Self, mpsc::Receiver<EndedSpan>) {
        let (sender, receiver) = mpsc::channel(QUEUE_SPANS);
        (Self { sender, counters }, receiver)
    }

    /// Puts a span in. If the queue is full, the span is dropped and counted.
    pub(super) fn put(&self, span: EndedSpan) {
        match self.sender.try_send(span) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.counters.dropped(SpanLoss::QueueFull, 1),
            // The exporter has ended.
            Err(TrySendError::Closed(_)) => self.counters.dropped(SpanLoss::Stopped, 1),
        }
    }
}
