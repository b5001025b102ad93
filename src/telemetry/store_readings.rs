//! The metrics that are read from the stores at each request for the metrics, as gauges and counters.

use crate::domain::call_durations::CallDurations;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The readings of both stores. A reading that failed is `None`.
#[derive(Debug, Clone, Default)]
pub struct StoreReadings {
    /// The counts of the journal.
    pub journal: Option<JournalReading>,
    /// The jobs in the journal.
    pub jobs: Option<JobsReading>,
    /// The counts of the schedule.
    pub schedule: Option<ScheduleReading>,
    /// The memory that a schedule in memory takes.
    pub memory: Option<MemoryReading>,
    /// The health of each store.
    pub health: Vec<HealthReading>,
    /// Endpoints with a signing key that this process cannot open.
    pub unusable_endpoints: usize,
    /// Partitions of the schedule that do not answer this process, while others may.
    pub partitions_away: usize,
}

/// How many notifications the journal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalReading {
    /// All notifications, in any state.
    pub registered: u64,
    /// Notifications that are not delivered, dead or cancelled.
    pub pending: u64,
    /// Acknowledged notifications.
    pub delivered: u64,
    /// Dead letters.
    pub dead: u64,
    /// Cancelled notifications and discarded dead letters.
    pub cancelled: u64,
    /// Pending notifications that are not sent until they are released by hand.
    pub set_aside: u64,
    /// For how long the pending notification that is due longest has been due, in milliseconds; `None` if that is not known.
    pub oldest_due_ms: Option<u64>,
}

/// How many jobs the journal holds that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobsReading {
    /// Jobs that a server works on, or will soon.
    pub running: u64,
    /// Jobs that wait until somebody resumes them.
    pub paused: u64,
}

/// How many entries the schedule holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleReading {
    /// Entries that wait or are in flight.
    pub pending: u64,
    /// Entries that are in flight, in all servers.
    pub in_flight: u64,
    /// Lanes that have entries; `None` if they could not be counted.
    pub lanes: Option<LanesReading>,
    /// How far ahead it was loaded from the journal; `None` if there is none, or if that is not known.
    pub window: Option<WindowReading>,
}

/// How far ahead a schedule holds what is pending, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowReading {
    /// The setting.
    pub horizon_ms: i64,
    /// How far after now everything is due that was loaded; below 0 if it is overdue.
    pub loaded_ahead_ms: i64,
    /// Pending notifications in the journal that are due by the instant up to which everything was loaded, so that they must
    /// be in the schedule. Counting stops at a limit. `None` if the journal did not answer.
    pub expected: Option<u64>,
}

/// How many lanes with entries in the schedule are in which state. Those of which everything waits in the journal are not
/// counted: it would take a reading for each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LanesReading {
    /// Lanes that are neither probed nor held.
    pub open: u64,
    /// Lanes that are probed, and not held.
    pub probing: u64,
    /// Lanes that are held and have something that waits.
    pub held: u64,
}

/// How much memory a schedule in memory takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryReading {
    /// The memory of all entries and their bodies in memory, in bytes.
    pub taken: usize,
    /// The part of `taken` that the bodies take, in bytes.
    pub bodies: usize,
    /// From how many bytes on registrations are refused.
    pub limit: usize,
}

/// Whether a store works.
#[derive(Debug, Clone)]
pub struct HealthReading {
    /// The name of the store.
    pub store: &'static str,
    /// Whether the store does all kinds of work.
    pub up: bool,
    /// How many calls of this process to the store have failed.
    pub failed_calls: u64,
    /// How long the calls of this process took, by the kind of work.
    pub durations: Vec<(&'static str, CallDurations)>,
}

/// Adds the last readings to the text of the metrics. Clones share the readings.
#[derive(Debug, Clone, Default)]
pub(super) struct StoreCollector(Arc<Mutex<StoreReadings>>);

impl StoreCollector {
    /// Replaces the readings.
    pub(super) fn set(&self, readings: StoreReadings) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = readings;
    }
}

impl Collector for StoreCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut samples = Samples(encoder);
        if let Some(journal) = &readings.journal {
            encode_journal(&mut samples, journal)?;
        }
        if let Some(jobs) = &readings.jobs {
            encode_jobs(&mut samples, jobs)?;
        }
        if let Some(schedule) = &readings.schedule {
            encode_schedule(&mut samples, schedule)?;
        }
        if let Some(memory) = &readings.memory {
            encode_memory(&mut samples, memory)?;
        }
        encode_health(&mut samples, &readings.health)?;
        samples.gauge(
            "unusable_endpoints",
            "Endpoints to which this process sends nothing, because it cannot open one of their signing keys",
            None,
            readings.unusable_endpoints as u64,
        )?;
        samples.gauge(
            "schedule_partitions_away",
            "Partitions of the schedule whose node of the cluster does not answer this process",
            None,
            readings.partitions_away as u64,
        )
    }
}

fn encode_journal(samples: &mut Samples<'_>, journal: &JournalReading) -> fmt::Result {
    samples.gauge(
        "registered",
        "Notifications in the journal: pending, delivered, dead and cancelled together",
        None,
        journal.registered,
    )?;
    samples.gauges(
        "notifications",
        "Notifications in the journal, by state",
        None,
        [
            (("state", "pending"), journal.pending),
            (("state", "delivered"), journal.delivered),
            (("state", "dead"), journal.dead),
            (("state", "cancelled"), journal.cancelled),
        ],
    )?;
    samples.gauge(
        "set_aside",
        "Pending notifications that are not sent until they are released by hand, because the journal cannot read them, has lost their bodies or refuses their outcomes",
        None,
        journal.set_aside,
    )?;
    let Some(oldest_due_ms) = journal.oldest_due_ms else {
        return Ok(());
    };
    samples.seconds(
        "oldest_due",
        "For how long the pending notification that is due longest has been due; 0 if none is due",
        oldest_due_ms as f64 / 1_000.0,
    )
}

fn encode_jobs(samples: &mut Samples<'_>, jobs: &JobsReading) -> fmt::Result {
    samples.gauges(
        "jobs",
        "Jobs that have not ended, by state",
        None,
        [
            (("state", "running"), jobs.running),
            (("state", "paused"), jobs.paused),
        ],
    )
}

fn encode_schedule(samples: &mut Samples<'_>, schedule: &ScheduleReading) -> fmt::Result {
    samples.gauges(
        "schedule_entries",
        "Entries of the schedule: all pending ones, and those of them that are in flight",
        None,
        [
            (("state", "pending"), schedule.pending),
            (("state", "in_flight"), schedule.in_flight),
        ],
    )?;
    if let Some(window) = schedule.window {
        samples.seconds(
            "schedule_horizon",
            "With a journal: what is due within this time is put into the schedule at once",
            window.horizon_ms as f64 / 1_000.0,
        )?;
        samples.seconds(
            "schedule_loaded_ahead",
            "How far after now everything is due that was loaded from the journal into the schedule; about half of the horizon",
            window.loaded_ahead_ms as f64 / 1_000.0,
        )?;
        if let Some(expected) = window.expected {
            samples.gauge(
                "schedule_expected_entries",
                "Pending notifications in the journal that must be in the schedule, because everything that is due by then was loaded; counting stops at 100000",
                None,
                expected,
            )?;
        }
    }
    let Some(lanes) = schedule.lanes else {
        return Ok(());
    };
    let LanesReading {
        open,
        probing,
        held,
    } = lanes;
    samples.gauges(
        "lanes",
        "Destinations that have notifications in the schedule, by state; those of which everything waits in the journal are not counted",
        None,
        [
            (("state", "open"), open),
            (("state", "probing"), probing),
            (("state", "held"), held),
        ],
    )
}

fn encode_memory(samples: &mut Samples<'_>, memory: &MemoryReading) -> fmt::Result {
    let MemoryReading {
        taken,
        bodies,
        limit,
    } = *memory;
    samples.gauges(
        "schedule_memory",
        "Approximate memory of a schedule in memory: entries, and bodies in memory",
        Some(Unit::Bytes),
        [
            (("of", "entries"), taken.saturating_sub(bodies) as u64),
            (("of", "bodies"), bodies as u64),
        ],
    )?;
    samples.gauge(
        "schedule_memory_limit",
        "Memory that a schedule in memory may take before registrations are refused",
        Some(Unit::Bytes),
        limit as u64,
    )
}

fn encode_health(samples: &mut Samples<'_>, health: &[HealthReading]) -> fmt::Result {
    let up = |reading: &HealthReading| (("store", reading.store), u64::from(reading.up));
    samples.gauges(
        "store_up",
        "Whether a store does all kinds of work (1) or not (0)",
        None,
        health.iter().map(up),
    )?;
    let failed = |reading: &HealthReading| (("store", reading.store), reading.failed_calls);
    samples.counters(
        "store_failed_calls",
        "Calls of this process that failed because the store did not answer or refused them",
        health.iter().map(failed),
    )?;
    let mut durations = (samples.0).encode_descriptor(
        "store_call_duration",
        "Duration of the calls of this process to a store, by the kind of work",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for reading in health {
        for (work, took) in &reading.durations {
            let labels = [("store", reading.store), ("work", work)];
            let (sum_s, count, buckets_s) = (took.sum_s(), took.count(), took.buckets_s());
            let mut sample = durations.encode_family(&labels)?;
            sample.encode_histogram::<NoLabelSet>(sum_s, count, &buckets_s, None)?;
        }
    }
    Ok(())
}

/// One label and its value.
type Label = (&'static str, &'static str);

/// Writes samples to the encoder.
struct Samples<'a>(DescriptorEncoder<'a>);

impl Samples<'_> {
    fn gauge(&mut self, name: &str, help: &str, unit: Option<Unit>, value: u64) -> fmt::Result {
        let kind = MetricType::Gauge;
        let metric = (self.0).encode_descriptor(name, help, unit.as_ref(), kind)?;
        gauge(value).encode(metric)
    }

    fn seconds(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        let metric = (self.0).encode_descriptor(name, help, unit, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl IntoIterator<Item = (Label, u64)>,
    ) -> fmt::Result {
        let kind = MetricType::Gauge;
        let mut metric = (self.0).encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (label, value) in samples {
            gauge(value).encode(metric.encode_family(&[label])?)?;
        }
        Ok(())
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Label, u64)>,
    ) -> fmt::Result {
        let kind = MetricType::Counter;
        let mut metric = (self.0).encode_descriptor(name, help, None, kind)?;
        for (label, value) in samples {
            ConstCounter::new(value).encode(metric.encode_family(&[label])?)?;
        }
        Ok(())
    }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
