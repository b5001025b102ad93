//! The metrics: their names, and what is counted where it happens.
//!
//! A registry of its own for every server, not one for the process: tests run several servers side
//! by side. Every metric takes a fixed amount of memory, whether somebody reads it or not, and no
//! label comes from outside: destinations and topics would grow without a bound.
//!
//! Counters are of this process; gauges of the stores are read when somebody asks.

use crate::domain::attempt::{Attempt, Outcome};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How the text is to be declared.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the durations of attempts, in seconds.
const DURATIONS_S: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0,
];
/// Upper bounds of how late attempts start, in seconds: an hour late is an outage that was made up.
const LATENESSES_S: [f64; 13] = [
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0,
];

/// One label and its value.
type Label = [(&'static str, &'static str); 1];

/// How many notifications the journal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalReading {
    /// All.
    pub registered: u64,
    /// Neither delivered nor dead nor cancelled.
    pub pending: u64,
    /// Acknowledged.
    pub delivered: u64,
    /// Parked.
    pub dead: u64,
    /// Called off or discarded.
    pub cancelled: u64,
    /// Pending, and not sent until somebody releases it.
    pub set_aside: u64,
}

/// How many entries the schedule holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// Those that wait or are in flight.
    pub pending: u64,
    /// Those that are in flight, in all servers.
    pub in_flight: u64,
}

/// How much memory the schedule takes, where it is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleMemory {
    /// All its entries with the bodies held, in bytes.
    pub taken: usize,
    /// Of these, the bodies.
    pub bodies: usize,
    /// What registrations may bring it to, in bytes.
    pub limit: usize,
}

/// What is read from the stores when somebody asks. What could not be read is left out.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// From the journal.
    pub journal: Option<JournalReading>,
    /// From the schedule.
    pub schedule: Option<Scheduled>,
    /// What the schedule takes of this process's memory.
    pub memory: Option<ScheduleMemory>,
    /// How each store is doing.
    pub stores: Vec<StoreReading>,
}

/// How a store is doing.
#[derive(Debug, Clone, Copy)]
pub struct StoreReading {
    /// Its name.
    pub name: &'static str,
    /// Whether it does all that is asked of it.
    pub up: bool,
    /// How many calls of this process have failed.
    pub failed_calls: u64,
}

/// The metrics of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    attempts: Family<Label, Counter>,
    durations: Histogram,
    latenesses: Histogram,
    in_flight: Gauge,
    reading: LastReading,
}

/// The last reading, written out beside what is counted.
#[derive(Debug, Clone, Default)]
struct LastReading(Arc<Mutex<Reading>>);

/// A worker at work; dropped, it is done.
#[derive(Debug)]
pub struct ActiveWorker(Gauge);

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Metrics that stand at zero.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("ringback");
        let info = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Which version this is", info);
        let metrics = Self {
            attempts: Family::default(),
            durations: Histogram::new(DURATIONS_S),
            latenesses: Histogram::new(LATENESSES_S),
            in_flight: Gauge::default(),
            reading: LastReading::default(),
            registry: Registry::default(),
        };
        for outcome in Outcome::ALL {
            // Shown from the start, so that the first one counts as an increase.
            drop(
                metrics
                    .attempts
                    .get_or_create(&[("outcome", outcome.as_str())]),
            );
        }
        registry.register(
            "attempts",
            "Attempts that ended in this process, by outcome",
            metrics.attempts.clone(),
        );
        registry.register_with_unit(
            "attempt_duration",
            "How long attempts took in this process, from connecting to the end of the answer",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register_with_unit(
            "attempt_lateness",
            "How long after they were due attempts started in this process",
            Unit::Seconds,
            metrics.latenesses.clone(),
        );
        registry.register(
            "leases_in_flight",
            "Leases that this process works on, at most --concurrency",
            metrics.in_flight.clone(),
        );
        registry.register_collector(Box::new(metrics.reading.clone()));
        Arc::new(Self {
            registry,
            ..metrics
        })
    }

    /// A worker begins with a lease.
    #[must_use]
    pub fn begin(&self) -> ActiveWorker {
        self.in_flight.inc();
        ActiveWorker(self.in_flight.clone())
    }

    /// An attempt has ended.
    pub fn attempt(&self, attempt: &Attempt) {
        let outcome = attempt.answer.outcome;
        self.attempts
            .get_or_create(&[("outcome", outcome.as_str())])
            .inc();
        if outcome == Outcome::Interrupted {
            // It has no end, and it may be noted long after it began.
            return;
        }
        let late_ms = attempt.started_ms.saturating_sub(attempt.due_ms).max(0);
        self.durations.observe(seconds(attempt.duration_ms));
        self.latenesses.observe(seconds(late_ms));
    }

    /// Everything as text, with what was just read.
    #[must_use]
    pub fn text(&self, reading: Reading) -> String {
        *self
            .reading
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = reading;
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("invariant: a string takes everything");
        text
    }
}

impl Collector for LastReading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = &reading.journal {
            let help =
                "Notifications in the journal: pending, delivered, dead and cancelled together";
            let metric = encoder.encode_descriptor("registered", help, None, MetricType::Gauge)?;
            gauge(journal.registered).encode(metric)?;
            let help = "Notifications in the journal, by state";
            let states = [
                (("state", "pending"), journal.pending),
                (("state", "delivered"), journal.delivered),
                (("state", "dead"), journal.dead),
                (("state", "cancelled"), journal.cancelled),
            ];
            gauges(&mut encoder, "notifications", help, states)?;
            let help = "Pending notifications that are not sent until somebody releases them, since \
                        the journal refuses them";
            let metric = encoder.encode_descriptor("set_aside", help, None, MetricType::Gauge)?;
            gauge(journal.set_aside).encode(metric)?;
        }
        if let Some(schedule) = &reading.schedule {
            let help = "Entries of the schedule: pending, and of these in flight";
            let states = [
                (("state", "pending"), schedule.pending),
                (("state", "in_flight"), schedule.in_flight),
            ];
            gauges(&mut encoder, "schedule_entries", help, states)?;
        }
        if let Some(memory) = &reading.memory {
            let taken = [
                (
                    ("of", "entries"),
                    memory.taken.saturating_sub(memory.bodies),
                ),
                (("of", "bodies"), memory.bodies),
            ];
            let help =
                "Memory that the schedule takes in this process, about: entries, bodies held";
            byte_gauges(&mut encoder, "schedule_memory", help, &taken)?;
            let help = "Memory that the schedule may take in this process before registrations are refused";
            let unit = Unit::Bytes;
            let metric = encoder.encode_descriptor(
                "schedule_memory_limit",
                help,
                Some(&unit),
                MetricType::Gauge,
            )?;
            gauge(memory.limit as u64).encode(metric)?;
        }
        let help = "Whether a store does all that is asked of it (1) or not (0)";
        let up = |store: &StoreReading| (("store", store.name), u64::from(store.up));
        gauges(
            &mut encoder,
            "store_up",
            help,
            reading.stores.iter().map(up),
        )?;
        let help = "Calls of this process that failed because the store was out of reach";
        let mut metric =
            encoder.encode_descriptor("store_failed_calls", help, None, MetricType::Counter)?;
        for store in &reading.stores {
            let label = [("store", store.name)];
            ConstCounter::new(store.failed_calls).encode(metric.encode_family(&label)?)?;
        }
        Ok(())
    }
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = ((&'static str, &'static str), u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (label, many) in samples {
        gauge(many).encode(metric.encode_family(&[label])?)?;
    }
    Ok(())
}

fn byte_gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: &[((&'static str, &'static str), usize)],
) -> fmt::Result {
    let mut metric =
        encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
    for (label, bytes) in samples {
        gauge(*bytes as u64).encode(metric.encode_family(&[*label])?)?;
    }
    Ok(())
}

fn gauge(many: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(many).unwrap_or(i64::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 285,000 years")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::Answer;

    fn attempt(outcome: Outcome, late_ms: i64, duration_ms: i64) -> Attempt {
        Attempt {
            series: 1,
            number: 1,
            due_ms: 1_000,
            started_ms: 1_000 + late_ms,
            duration_ms,
            answer: Answer {
                outcome,
                status: None,
                body: Vec::new(),
                reason: String::new(),
            },
        }
    }

    #[test]
    fn what_was_counted_and_read_is_shown() {
        let metrics = Metrics::new();
        metrics.attempt(&attempt(Outcome::Acknowledged, 3, 40));
        metrics.attempt(&attempt(Outcome::Timeout, -5, 15_000));
        metrics.attempt(&attempt(Outcome::Interrupted, 9_000_000, 0));
        let in_flight = metrics.begin();
        drop(metrics.begin());
        let text = metrics.text(Reading {
            journal: Some(JournalReading {
                registered: 10,
                pending: 4,
                delivered: 3,
                dead: 2,
                cancelled: 1,
                set_aside: 2,
            }),
            schedule: None,
            memory: Some(ScheduleMemory {
                taken: 1_500,
                bodies: 500,
                limit: 4_000,
            }),
            stores: vec![
                StoreReading {
                    name: "journal",
                    up: true,
                    failed_calls: 0,
                },
                StoreReading {
                    name: "schedule",
                    up: false,
                    failed_calls: 7,
                },
            ],
        });
        for line in [
            r#"ringback_attempts_total{outcome="acknowledged"} 1"#,
            r#"ringback_attempts_total{outcome="interrupted"} 1"#,
            r#"ringback_attempts_total{outcome="dns"} 0"#,
            r#"ringback_attempt_duration_seconds_bucket{le="0.05"} 1"#,
            r#"ringback_attempt_duration_seconds_bucket{le="15.0"} 2"#,
            "ringback_attempt_duration_seconds_count 2",
            r#"ringback_attempt_lateness_seconds_bucket{le="0.002"} 1"#,
            r#"ringback_attempt_lateness_seconds_bucket{le="+Inf"} 2"#,
            "ringback_leases_in_flight 1",
            r#"ringback_schedule_memory_bytes{of="entries"} 1000"#,
            r#"ringback_schedule_memory_bytes{of="bodies"} 500"#,
            "ringback_schedule_memory_limit_bytes 4000",
            "ringback_registered 10",
            r#"ringback_notifications{state="pending"} 4"#,
            r#"ringback_notifications{state="cancelled"} 1"#,
            "ringback_set_aside 2",
            r#"ringback_store_up{store="journal"} 1"#,
            r#"ringback_store_up{store="schedule"} 0"#,
            r#"ringback_store_failed_calls_total{store="schedule"} 7"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
        }
        assert!(!text.contains("ringback_schedule_entries{"), "{text}");
        drop(in_flight);
        let text = metrics.text(Reading::default());
        assert!(!text.contains("ringback_registered "), "{text}");
        assert!(text.contains("ringback_leases_in_flight 0\n"), "{text}");
    }
}
