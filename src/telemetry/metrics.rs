//! Counts what this process does, and writes all metrics as text.
//!
//! Every server has its own registry, because tests run several servers in one process. Every metric takes
//! a fixed amount of memory, even if it is never read. No label comes from callers: the number of
//! destinations and topics has no limit.
//!
//! The contents of the stores are not counted here. They are read from the stores when the metrics are
//! requested, at most once a second: [`store_readings`](super::store_readings).

use super::store_readings::{StoreCollector, StoreReadings};
use crate::domain::attempt::{Attempt, Outcome};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;

/// The content type of the metrics as text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the histogram of attempt durations, in seconds.
const DURATIONS_S: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0,
];
/// Upper bounds of the histogram of how late attempts start, in seconds. An hour late means that an outage
/// came before.
const LATENESSES_S: [f64; 13] = [
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0,
];

/// What a job may do with a notification.
const JOB_RESULTS: [&str; 3] = ["done", "skipped", "failed"];

/// The only label of a sample, and its value.
type Labels = [(&'static str, &'static str); 1];

/// The metrics of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    attempts: Family<Labels, Counter>,
    durations: Histogram,
    latenesses: Histogram,
    in_flight: Gauge,
    job_notifications: Family<Labels, Counter>,
    stores: StoreCollector,
}

/// Counts one worker as active until this value is dropped.
#[derive(Debug)]
pub struct ActiveWorker(Gauge);

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Creates the metrics. All counters are zero, and no readings of the stores are set.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let attempts = Family::<Labels, Counter>::default();
        for outcome in Outcome::ALL {
            // Each outcome has a counter of zero from the start, so that a query sees its first attempt as
            // an increase.
            drop(attempts.get_or_create(&[("outcome", outcome.as_str())]));
        }
        let job_notifications = Family::<Labels, Counter>::default();
        for result in JOB_RESULTS {
            drop(job_notifications.get_or_create(&[("result", result)]));
        }
        let durations = Histogram::new(DURATIONS_S);
        let latenesses = Histogram::new(LATENESSES_S);
        let in_flight = Gauge::default();
        let stores = StoreCollector::default();

        let mut registry = Registry::with_prefix("ringback");
        registry.register(
            "build",
            "The version of this server",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register(
            "attempts",
            "Attempts that ended in this process, by outcome",
            attempts.clone(),
        );
        registry.register_with_unit(
            "attempt_duration",
            "Duration of the attempts of this process, from connecting to the end of the answer",
            Unit::Seconds,
            durations.clone(),
        );
        registry.register_with_unit(
            "attempt_lateness",
            "Time between the due time of an attempt and its start in this process",
            Unit::Seconds,
            latenesses.clone(),
        );
        registry.register(
            "leases_in_flight",
            "Leases that this process works on, at most --concurrency",
            in_flight.clone(),
        );
        registry.register(
            "job_notifications",
            "Notifications that the jobs of this process have seen, by what was done with them",
            job_notifications.clone(),
        );
        registry.register_collector(Box::new(stores.clone()));
        Arc::new(Self {
            registry,
            attempts,
            durations,
            latenesses,
            in_flight,
            job_notifications,
            stores,
        })
    }

    /// Notes that a worker begins to work on a lease.
    #[must_use]
    pub fn begin(&self) -> ActiveWorker {
        self.in_flight.inc();
        ActiveWorker(self.in_flight.clone())
    }

    /// Counts an attempt that has ended.
    pub fn attempt(&self, attempt: &Attempt) {
        let outcome = attempt.answer.outcome;
        self.attempts
            .get_or_create(&[("outcome", outcome.as_str())])
            .inc();
        if outcome == Outcome::Interrupted {
            // An interrupted attempt has no duration, and may be recorded long after it began.
            return;
        }
        let late_ms = attempt.started_ms.saturating_sub(attempt.due_ms).max(0);
        self.durations.observe(seconds(attempt.duration_ms));
        self.latenesses.observe(seconds(late_ms));
    }

    /// Counts a step of a job.
    pub fn job_step(&self, done: usize, skipped: usize, failed: usize) {
        for (result, many) in JOB_RESULTS.into_iter().zip([done, skipped, failed]) {
            self.job_notifications
                .get_or_create(&[("result", result)])
                .inc_by(many as u64);
        }
    }

    /// All metrics as text, with these readings of the stores.
    #[must_use]
    pub fn text(&self, readings: StoreReadings) -> String {
        self.stores.set(readings);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("invariant: a string takes everything");
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 285,000 years")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::Answer;
    use crate::domain::call_trace::CallTrace;
    use crate::telemetry::store_readings::{
        HealthReading, JobsReading, JournalReading, MemoryReading,
    };

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
            trace: CallTrace::default(),
        }
    }

    fn readings() -> StoreReadings {
        StoreReadings {
            journal: Some(JournalReading {
                registered: 10,
                pending: 4,
                delivered: 3,
                dead: 2,
                cancelled: 1,
                set_aside: 2,
            }),
            jobs: Some(JobsReading {
                running: 2,
                paused: 1,
            }),
            schedule: None,
            memory: Some(MemoryReading {
                taken: 1_500,
                bodies: 500,
                limit: 4_000,
            }),
            health: vec![
                HealthReading {
                    store: "journal",
                    up: true,
                    failed_calls: 0,
                },
                HealthReading {
                    store: "schedule",
                    up: false,
                    failed_calls: 7,
                },
            ],
            unusable_endpoints: 3,
        }
    }

    #[test]
    fn counts_and_readings_are_in_the_text() {
        let metrics = Metrics::new();
        metrics.attempt(&attempt(Outcome::Acknowledged, 3, 40));
        metrics.attempt(&attempt(Outcome::Timeout, -5, 15_000));
        metrics.attempt(&attempt(Outcome::Interrupted, 9_000_000, 0));
        let in_flight = metrics.begin();
        drop(metrics.begin());
        metrics.job_step(3, 2, 0);
        let text = metrics.text(readings());
        for line in [
            r#"ringback_job_notifications_total{result="done"} 3"#,
            r#"ringback_job_notifications_total{result="failed"} 0"#,
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
            r#"ringback_jobs{state="running"} 2"#,
            r#"ringback_jobs{state="paused"} 1"#,
            r#"ringback_store_up{store="journal"} 1"#,
            r#"ringback_store_up{store="schedule"} 0"#,
            r#"ringback_store_failed_calls_total{store="schedule"} 7"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
        }
        assert!(!text.contains("ringback_schedule_entries{"), "{text}");
        drop(in_flight);
        let text = metrics.text(StoreReadings::default());
        assert!(!text.contains("ringback_registered "), "{text}");
        assert!(text.contains("ringback_leases_in_flight 0\n"), "{text}");
    }
}
