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

/// An attempt that begins more than this late, in milliseconds, is slightly late.
const SLIGHTLY_LATE_MS: i64 = 8;

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
    slight_lateness: LatenessCounter,
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
            slight_lateness: LatenessCounter::after(SLIGHTLY_LATE_MS),
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
        self.slight_lateness.note(late_ms);
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

    /// As [`Metrics::lateness`], where an attempt is late that begins more than ten milliseconds late.
    #[must_use]
    pub fn slight_lateness(&self) -> LatenessCounts {
        self.slight_lateness.counts()
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
mod tests;
