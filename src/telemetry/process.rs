//! The figures of this process, under the names that all programs use for them: memory, processor time, open files.
//!
//! They are read from `/proc` (proc(5)) when the metrics are requested. On systems without it they are left out.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

/// The ticks of a second in which Linux tells processor time to programs (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// What is known of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessReading {
    /// Processor time since the start, of the program and of the kernel for it, in seconds.
    pub cpu_seconds: f64,
    /// Memory that is in RAM, in bytes.
    pub resident_bytes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of open files, sockets included.
    pub open_files: u64,
    /// How many may be open; `None` without a limit.
    pub most_files: Option<u64>,
    /// When it was started, in seconds since 1970.
    pub started_at: f64,
}

impl ProcessReading {
    /// Reads the figures now; `None` if they cannot be read. With thousands of open files this takes milliseconds.
    #[must_use]
    pub fn read() -> Option<Self> {
        let text = |path: &str| fs::read_to_string(path).ok();
        let open_files = fs::read_dir("/proc/self/fd").ok()?.count();
        Self::parse(
            &text("/proc/self/stat")?,
            &text("/proc/self/status")?,
            &text("/proc/self/limits")?,
            &text("/proc/stat")?,
            // One of them is the folder that was read.
            u64::try_from(open_files).ok()?.saturating_sub(1),
        )
    }

    fn parse(
        stat: &str,
        status: &str,
        limits: &str,
        system: &str,
        open_files: u64,
    ) -> Option<Self> {
        // The name of the program is in brackets, and may contain anything.
        let (_, fields) = stat.rsplit_once(')')?;
        // The first of these fields is the third of the line.
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |place: usize| fields.get(place - 3)?.parse::<u64>().ok();
        let (in_program, in_kernel, threads, started) =
            (number(14)?, number(15)?, number(20)?, number(22)?);
        let resident = after(status, "VmRSS:")?.parse::<u64>().ok()?;
        let booted = after(system, "btime")?.parse::<u64>().ok()?;
        Some(Self {
            cpu_seconds: (in_program + in_kernel) as f64 / TICKS_PER_SECOND,
            resident_bytes: resident * 1_024,
            threads,
            open_files,
            most_files: after(limits, "Max open files")?.parse().ok(),
            started_at: booted as f64 + started as f64 / TICKS_PER_SECOND,
        })
    }
}

/// The first word behind the name of a line.
fn after<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()
}

/// Adds the last reading to the text of the metrics. Clones share the reading.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessCollector(Arc<Mutex<Option<ProcessReading>>>);

impl ProcessCollector {
    /// Replaces the reading.
    pub(super) fn set(&self, reading: Option<ProcessReading>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reading;
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let reading = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reading) = reading else {
            return Ok(());
        };
        let help = "Processor time of this process";
        let metric = encoder.encode_descriptor(
            "process_cpu",
            help,
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?;
        ConstCounter::new(reading.cpu_seconds).encode(metric)?;
        let mut gauge = |name: &str, help: &str, unit: Option<Unit>, value: f64| {
            let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        gauge(
            "process_resident_memory",
            "Memory of this process that is in RAM",
            Some(Unit::Bytes),
            reading.resident_bytes as f64,
        )?;
        gauge(
            "process_threads",
            "Threads of this process",
            None,
            reading.threads as f64,
        )?;
        gauge(
            "process_open_fds",
            "Open files of this process, sockets included",
            None,
            reading.open_files as f64,
        )?;
        if let Some(most_files) = reading.most_files {
            gauge(
                "process_max_fds",
                "How many files this process may open",
                None,
                most_files as f64,
            )?;
        }
        gauge(
            "process_start_time",
            "When this process was started, since 1970",
            Some(Unit::Seconds),
            reading.started_at,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_found_whatever_the_name_of_the_program() {
        let stat = "7 (a) (b) S 1 7 7 0 -1 4194560 1 0 0 0 120 5 0 0 20 0 9 0 500 1 2 3";
        let status = "Name:\ta\nVmHWM:\t   9000 kB\nVmRSS:\t   8000 kB\n";
        let limits =
            "Limit   Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files\n";
        let system = "cpu  1 2 3\nbtime 1000\n";
        let read = ProcessReading::parse(stat, status, limits, system, 12);
        let expected = ProcessReading {
            cpu_seconds: 1.25,
            resident_bytes: 8_192_000,
            threads: 9,
            open_files: 12,
            most_files: Some(1_024),
            started_at: 1_005.0,
        };
        assert_eq!(read, Some(expected));
        let endless = limits.replace("1024", "unlimited");
        let read = ProcessReading::parse(stat, status, &endless, system, 12);
        assert_eq!(read.and_then(|read| read.most_files), None);
        assert_eq!(ProcessReading::parse("", status, limits, system, 12), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_can_be_read() {
        let read = ProcessReading::read().expect("there is /proc");
        assert!(read.resident_bytes > 1_000_000 && read.open_files > 0 && read.threads > 0);
        assert!(read.started_at > 1.7e9);
    }
}
