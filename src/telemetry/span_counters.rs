//! Counts the spans of the traces.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a span was not exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanLoss {
    /// The queue to the exporter was full.
    QueueFull,
    /// The collector could not be reached, or failed again and again.
    CollectorAway,
    /// The collector refused it.
    Refused,
    /// The server has stopped before it was exported.
    Stopped,
}

impl SpanLoss {
    const ALL: [Self; 4] = [
        Self::QueueFull,
        Self::CollectorAway,
        Self::Refused,
        Self::Stopped,
    ];

    fn labels(self) -> [(&'static str, &'static str); 1] {
        let reason = match self {
            Self::QueueFull => "queue_full",
            Self::CollectorAway => "collector_away",
            Self::Refused => "refused",
            Self::Stopped => "stopped",
        };
        [("reason", reason)]
    }
}

/// The counters of one server.
#[derive(Debug, Clone)]
pub struct SpanCounters {
    exported: Counter,
    dropped: Family<[(&'static str, &'static str); 1], Counter>,
}

impl SpanCounters {
    /// Counters that are zero, which this registry has.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let counters = Self {
            exported: Counter::default(),
            dropped: Family::default(),
        };
        for loss in SpanLoss::ALL {
            drop(counters.dropped.get_or_create(&loss.labels()));
        }
        registry.register(
            "trace_spans_exported",
            "Spans that the collector of traces has taken",
            counters.exported.clone(),
        );
        registry.register(
            "trace_spans_dropped",
            "Spans that were recorded and not exported, by the reason",
            counters.dropped.clone(),
        );
        counters
    }

    /// Counts spans that the collector has taken.
    pub fn exported(&self, spans: usize) {
        self.exported.inc_by(spans as u64);
    }

    /// Counts spans that were not exported.
    pub fn dropped(&self, loss: SpanLoss, spans: usize) {
        self.dropped
            .get_or_create(&loss.labels())
            .inc_by(spans as u64);
    }
}
