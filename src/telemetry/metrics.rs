//! Counts what this process does, and writes all metrics as text.
//!
//! Every server has its own registry, because tests run several servers in one process. Every metric takes
//! a fixed amount of memory, even if it is never read. No label comes from callers: the number of
//! destinations and topics has no limit.
//!
//! The contents of the stores are not counted here. They are read from the stores when the metrics are
//! requested, at most once a second: [`store_readings`](super::store_readings).

use super::activity::ActivityCounters;
use super::lateness::{LatenessCounter, LatenessCounts};
use super::process::{ProcessCollector, ProcessReading};
use super::span_counters::SpanCounters;
use super::store_readings::{StoreCollector, StoreReadings};
use crate::domain::alert::AlertKind;
use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::deferral::DeferralReason;
use crate::domain::lane_health::LaneClass;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::time::Duration;

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

/// Upper bounds of the histogram of request durations, in seconds.
const REQUESTS_S: [f64; 11] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// What a job may do with a notification.
const JOB_RESULTS: [&str; 3] = ["done", "skipped", "failed"];

/// The only label of a sample, and its value.
type Labels = [(&'static str, &'static str); 1];

/// The method and the path of a route.
type RouteLabels = [(&'static str, &'static str); 2];
/// A route, and the status of an answer.
type AnswerLabels = (RouteLabels, [(&'static str, u16); 1]);

/// The metrics of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Metrics whose names have no prefix of ours.
    unprefixed: Registry,
    attempts: Family<Labels, Counter>,
    durations: Histogram,
    latenesses: Histogram,
    deferred: Family<Labels, Counter>,
    in_flight: Family<Labels, Gauge>,
    concurrency: Gauge,
    requests: Family<AnswerLabels, Counter>,
    request_durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    job_notifications: Family<Labels, Counter>,
    spans: SpanCounters,
    alerts: Family<Labels, Counter>,
    lateness: LatenessCounter,
    stores: StoreCollector,
    process: ProcessCollector,
    activity: Arc<ActivityCounters>,
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
        let alerts = Family::<Labels, Counter>::default();
        for kind in AlertKind::ALL {
            drop(alerts.get_or_create(&[("type", kind.as_str())]));
        }
        let deferred = Family::<Labels, Counter>::default();
        for reason in DeferralReason::ALL {
            drop(deferred.get_or_create(&[("by", reason.as_str())]));
        }
        let in_flight = Family::<Labels, Gauge>::default();
        for class in LaneClass::ALL {
            drop(in_flight.get_or_create(&class_label(class)));
        }
        let durations = Histogram::new(DURATIONS_S);
        let latenesses = Histogram::new(LATENESSES_S);
        let concurrency = Gauge::default();
        let requests = Family::<AnswerLabels, Counter>::default();
        let request_durations = Family::new_with_constructor(request_histogram as fn() -> _);
        let stores = StoreCollector::default();
        let process = ProcessCollector::default();

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
            "Time between the due time of an attempt and its start in this process, without the time for which it was deferred",
            Unit::Seconds,
            latenesses.clone(),
        );
        registry.register(
            "attempts_deferred",
            "Attempts that ended in this process and had been deferred, by the reason",
            deferred.clone(),
        );
        registry.register(
            "leases_in_flight",
            "Leases that this process works on, by the class that their lane had, together at most --concurrency",
            in_flight.clone(),
        );
        registry.register(
            "concurrency_limit",
            "How many leases this process works on at most: --concurrency",
            concurrency.clone(),
        );
        registry.register(
            "api_requests",
            "Requests to the API that were answered, by route and status",
            requests.clone(),
        );
        registry.register_with_unit(
            "api_request_duration",
            "Time from the head of a request to the API to the head of its answer, by route",
            Unit::Seconds,
            request_durations.clone(),
        );
        registry.register(
            "job_notifications",
            "Notifications that the jobs of this process have seen, by what was done with them",
            job_notifications.clone(),
        );
        let spans = SpanCounters::register(&mut registry);
        registry.register(
            "alerts",
            "Alerts that this process has registered, or sent without the stores, by type",
            alerts.clone(),
        );
        registry.register_collector(Box::new(stores.clone()));
        let mut unprefixed = Registry::default();
        unprefixed.register_collector(Box::new(process.clone()));
        Arc::new(Self {
            registry,
            unprefixed,
            attempts,
            durations,
            latenesses,
            deferred,
            in_flight,
            concurrency,
            requests,
            request_durations,
            job_notifications,
            spans,
            alerts,
            lateness: LatenessCounter::default(),
            stores,
            process,
            activity: Arc::default(),
        })
    }

    /// The counters of the spans.
    #[must_use]
    pub fn spans(&self) -> &SpanCounters {
        &self.spans
    }

    /// Sets how many leases this process works on at most.
    pub fn limit_concurrency(&self, most: usize) {
        self.concurrency
            .set(i64::try_from(most).unwrap_or(i64::MAX));
    }

    /// Notes that a worker begins to work on a lease of a lane of this class.
    #[must_use]
    pub fn begin(&self, class: LaneClass) -> ActiveWorker {
        let gauge = self.in_flight.get_or_create(&class_label(class)).clone();
        gauge.inc();
        ActiveWorker(gauge)
    }

    /// Counts a request to the API that was answered. `method` and `path` are those of the route, not of the request.
    pub fn request(&self, method: &'static str, path: &'static str, status: u16, took: Duration) {
        let route = [("method", method), ("route", path)];
        let answer = (route, [("status", status)]);
        self.requests.get_or_create(&answer).inc();
        let durations = self.request_durations.get_or_create(&route);
        durations.observe(took.as_secs_f64());
    }

    /// Counts an attempt that has ended.
    pub fn attempt(&self, attempt: &Attempt) {
        let outcome = attempt.answer.outcome;
        self.attempts
            .get_or_create(&[("outcome", outcome.as_str())])
            .inc();
        // An interrupted attempt has no duration, and may be recorded long after it began.
        let Some(late_ms) = attempt.late_ms() else {
            return;
        };
        if let Some(deferral) = attempt.trace.deferral {
            let reason = [("by", deferral.by.as_str())];
            self.deferred.get_or_create(&reason).inc();
        }
        self.lateness.note(late_ms);
        self.durations.observe(seconds(attempt.duration_ms));
        self.latenesses.observe(seconds(late_ms));
    }

    /// From now on, an attempt that begins more than this many milliseconds late counts as late. Until then, none does.
    pub fn count_late_after(&self, late_after_ms: i64) {
        self.lateness.count_after(late_after_ms);
    }

    /// How many attempts have ended, and how many of them had begun late.
    #[must_use]
    pub fn lateness(&self) -> LatenessCounts {
        self.lateness.counts()
    }

    /// Counts an alert for one endpoint that was registered, or sent without the stores.
    pub fn alert(&self, kind: AlertKind) {
        self.alerts.get_or_create(&[("type", kind.as_str())]).inc();
    }

    /// What the attempts of each minute did, for plots over time.
    #[must_use]
    pub fn activity(&self) -> &Arc<ActivityCounters> {
        &self.activity
    }

    /// Counts a step of a job.
    pub fn job_step(&self, done: usize, skipped: usize, failed: usize) {
        for (result, many) in JOB_RESULTS.into_iter().zip([done, skipped, failed]) {
            self.job_notifications
                .get_or_create(&[("result", result)])
                .inc_by(many as u64);
        }
    }

    /// All metrics as text, with these readings of the stores and of the process.
    #[must_use]
    pub fn text(&self, readings: StoreReadings, process: Option<ProcessReading>) -> String {
        self.stores.set(readings);
        self.process.set(process);
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &self.unprefixed))
            .and_then(|()| encode_eof(&mut text))
            .expect("invariant: a string takes everything");
        text
    }
}

fn class_label(class: LaneClass) -> Labels {
    [("class", class.as_str())]
}

fn request_histogram() -> Histogram {
    Histogram::new(REQUESTS_S)
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 285,000 years")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::Answer;
    use crate::domain::call_durations::CallDurations;
    use crate::domain::call_trace::CallTrace;
    use crate::domain::deferral::Deferral;
    use crate::telemetry::store_readings::{
        HealthReading, JobsReading, JournalReading, LanesReading, MemoryReading, ScheduleReading,
        WindowReading,
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

    fn process() -> ProcessReading {
        ProcessReading {
            cpu_seconds: 1.25,
            resident_bytes: 4_096,
            threads: 3,
            open_files: 12,
            most_files: Some(1_024),
            started_at: 1.5,
        }
    }

    fn durations() -> CallDurations {
        let mut durations = CallDurations::default();
        durations.observe(5_000);
        durations
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
                oldest_due_ms: Some(61_500),
            }),
            jobs: Some(JobsReading {
                running: 2,
                paused: 1,
            }),
            schedule: Some(ScheduleReading {
                pending: 4,
                in_flight: 1,
                lanes: Some(LanesReading {
                    open: 5,
                    probing: 3,
                    held: 1,
                }),
                window: Some(WindowReading {
                    horizon_ms: 3_600_000,
                    loaded_ahead_ms: 1_799_500,
                    expected: Some(3),
                }),
            }),
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
                    durations: vec![("reading", durations())],
                },
                HealthReading {
                    store: "schedule",
                    up: false,
                    failed_calls: 7,
                    durations: Vec::new(),
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
        let mut held = attempt(Outcome::HttpStatus, 3_600_004, 40);
        held.trace.deferral = Some(Deferral {
            by: DeferralReason::Held,
            ms: 3_600_000,
        });
        metrics.attempt(&held);
        let mut late = attempt(Outcome::Acknowledged, 60_000, 40);
        late.trace.deferral = Some(Deferral {
            by: DeferralReason::Proxy,
            ms: 60_000,
        });
        metrics.attempt(&late);
        let in_flight = metrics.begin(LaneClass::Idle);
        drop(metrics.begin(LaneClass::Probing));
        metrics.limit_concurrency(16);
        let took = Duration::from_millis(3);
        metrics.request("GET", "/v1/lanes/{lane}", 404, took);
        metrics.job_step(3, 2, 0);
        let text = metrics.text(readings(), Some(process()));
        for line in [
            r#"ringback_job_notifications_total{result="done"} 3"#,
            r#"ringback_job_notifications_total{result="failed"} 0"#,
            r#"ringback_attempts_total{outcome="acknowledged"} 2"#,
            r#"ringback_attempts_total{outcome="interrupted"} 1"#,
            r#"ringback_attempts_total{outcome="dns"} 0"#,
            r#"ringback_attempt_duration_seconds_bucket{le="0.05"} 3"#,
            r#"ringback_attempt_duration_seconds_bucket{le="15.0"} 4"#,
            "ringback_attempt_duration_seconds_count 4",
            r#"ringback_attempts_deferred_total{by="held"} 1"#,
            r#"ringback_attempts_deferred_total{by="rate"} 0"#,
            r#"ringback_attempt_lateness_seconds_bucket{le="0.005"} 3"#,
            r#"ringback_attempt_lateness_seconds_bucket{le="0.002"} 1"#,
            r#"ringback_attempt_lateness_seconds_bucket{le="30.0"} 3"#,
            r#"ringback_attempt_lateness_seconds_bucket{le="+Inf"} 4"#,
            r#"ringback_leases_in_flight{class="idle"} 1"#,
            r#"ringback_leases_in_flight{class="probing"} 0"#,
            "ringback_concurrency_limit 16",
            r#"ringback_api_requests_total{method="GET",route="/v1/lanes/{lane}",status="404"} 1"#,
            r#"ringback_api_request_duration_seconds_bucket{le="0.005",method="GET",route="/v1/lanes/{lane}"} 1"#,
            r#"ringback_schedule_memory_bytes{of="entries"} 1000"#,
            r#"ringback_schedule_memory_bytes{of="bodies"} 500"#,
            "ringback_schedule_memory_limit_bytes 4000",
            "ringback_registered 10",
            r#"ringback_notifications{state="pending"} 4"#,
            r#"ringback_notifications{state="cancelled"} 1"#,
            "ringback_set_aside 2",
            "ringback_oldest_due_seconds 61.5",
            r#"ringback_lanes{state="probing"} 3"#,
            r#"ringback_lanes{state="held"} 1"#,
            "ringback_schedule_horizon_seconds 3600.0",
            "ringback_schedule_loaded_ahead_seconds 1799.5",
            "ringback_schedule_expected_entries 3",
            r#"ringback_store_call_duration_seconds_bucket{le="0.01",store="journal",work="reading"} 1"#,
            "process_open_fds 12.0",
            "process_cpu_seconds_total 1.25",
            r#"ringback_jobs{state="running"} 2"#,
            r#"ringback_jobs{state="paused"} 1"#,
            r#"ringback_store_up{store="journal"} 1"#,
            r#"ringback_store_up{store="schedule"} 0"#,
            r#"ringback_store_failed_calls_total{store="schedule"} 7"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
        }
        drop(in_flight);
        let text = metrics.text(StoreReadings::default(), None);
        assert!(!text.contains("ringback_registered "), "{text}");
        let idle = "ringback_leases_in_flight{class=\"idle\"} 0\n";
        assert!(text.contains(idle) && !text.contains("process_"), "{text}");
    }
}
