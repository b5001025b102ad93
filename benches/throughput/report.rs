//! The results of all rounds, and their medians.

use crate::processor_time::TimeOfEach;
use crate::server::Stores;
use std::fmt;

/// How late calls arrived, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lateness {
    calls: usize,
    p50_us: u64,
    /// 99 of 100 calls were not later than this, in microseconds.
    pub p99_us: u64,
    p999_us: u64,
    most_us: u64,
}

impl Lateness {
    /// Computes the percentiles.
    pub fn of(mut late_us: Vec<u64>) -> Self {
        late_us.sort_unstable();
        let at = |share: f64| {
            let index = (late_us.len() as f64 * share) as usize;
            late_us
                .get(index.min(late_us.len().saturating_sub(1)))
                .copied()
                .unwrap_or(0)
        };
        Self {
            calls: late_us.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            most_us: at(1.0),
        }
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1e3;
        write!(
            out,
            "p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, max {:.1} ms ({} calls)",
            ms(self.p50_us),
            ms(self.p99_us),
            ms(self.p999_us),
            ms(self.most_us),
            self.calls
        )
    }
}

/// A rate, and the rate of the bare client for comparison.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Notifications per second.
    pub per_second: f64,
    /// Calls per second of the bare client: the mean of the rates right before and right after.
    pub bare: f64,
}

impl Rate {
    fn share(self) -> f64 {
        self.per_second / self.bare
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { per_second, bare } = self;
        write!(
            out,
            "{per_second:.0}/s, {:.2} of bare {bare:.0}/s",
            self.share()
        )
    }
}

/// The results of one kind of stores in one round.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The stores.
    pub stores: Stores,
    /// The rate if all notifications are due at once.
    pub drain: Rate,
    /// The processor time of each of these.
    pub drain_time: TimeOfEach,
    /// The rate if notifications are registered one by one.
    pub single: Rate,
    /// The processor time of each of these.
    pub single_time: TimeOfEach,
    /// How late calls arrive at half the rate of `drain`.
    pub late: Lateness,
}

/// The results of all rounds.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = self
            .rows
            .iter()
            .flat_map(|row| [row.drain.bare, row.single.bare]);
        writeln!(out, "\nmedians (per second; share of bare)")?;
        writeln!(out, "  bare           {:>6.0}", median(bare))?;
        let mut seen = Vec::new();
        for stores in self.rows.iter().map(|row| row.stores) {
            if seen.contains(&stores) {
                continue;
            }
            seen.push(stores);
            let median_of = |value: fn(&Row) -> f64| {
                median(
                    self.rows
                        .iter()
                        .filter(|row| row.stores == stores)
                        .map(value),
                )
            };
            let median_time = |time: fn(&Row) -> TimeOfEach| {
                let of = |part: fn(TimeOfEach) -> f64| {
                    let rows = self.rows.iter().filter(|row| row.stores == stores);
                    median(rows.map(|row| part(time(row))))
                };
                TimeOfEach {
                    server_us: of(|time| time.server_us),
                    redis_us: of(|time| time.redis_us),
                    postgres_us: of(|time| time.postgres_us),
                }
            };
            writeln!(
                out,
                "  {stores:<14} drain {:>6.0} ({:.2})  single {:>6.0} ({:.2})  late p50 {:.1} \
                 p99 {:.1} p99.9 {:.1} ms  processor time of each: drain {}; single {}",
                median_of(|row| row.drain.per_second),
                median_of(|row| row.drain.share()),
                median_of(|row| row.single.per_second),
                median_of(|row| row.single.share()),
                median_of(|row| row.late.p50_us as f64 / 1e3),
                median_of(|row| row.late.p99_us as f64 / 1e3),
                median_of(|row| row.late.p999_us as f64 / 1e3),
                median_time(|row| row.drain_time),
                median_time(|row| row.single_time),
            )?;
        }
        Ok(())
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
