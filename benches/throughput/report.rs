//! What came out, round by round, with the medians.

use crate::server::Stores;
use std::fmt;

/// How late calls arrived, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lateness {
    calls: usize,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
    most_us: u64,
}

impl Lateness {
    /// Summarises.
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

/// One round.
pub struct Round {
    bare: f64,
    rows: Vec<(Stores, f64, f64, Lateness)>,
}

impl Round {
    /// A round with its yardstick.
    pub fn new(bare: f64) -> Self {
        Self {
            bare,
            rows: Vec::new(),
        }
    }

    /// Adds what one set of stores did.
    pub fn add(&mut self, stores: Stores, drain: f64, single: f64, late: Lateness) {
        self.rows.push((stores, drain, single, late));
    }
}

/// All rounds.
#[derive(Default)]
pub struct Report {
    rounds: Vec<Round>,
}

impl Report {
    /// Adds a round.
    pub fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.rounds.first() else {
            return Ok(());
        };
        writeln!(
            out,
            "\nmedians of {} rounds (per second; share of bare)",
            self.rounds.len()
        )?;
        writeln!(
            out,
            "  bare          {:>7.0}",
            median(self.rounds.iter().map(|r| r.bare))
        )?;
        for (index, (stores, ..)) in first.rows.iter().enumerate() {
            let rows = || {
                self.rounds
                    .iter()
                    .map(move |round| (round.bare, round.rows[index]))
            };
            let rate = |value: fn(&(Stores, f64, f64, Lateness)) -> f64| {
                let rate = median(rows().map(|(_, row)| value(&row)));
                let share = median(rows().map(|(bare, row)| value(&row) / bare));
                (rate, share)
            };
            let (drain, drain_share) = rate(|row| row.1);
            let (single, single_share) = rate(|row| row.2);
            let late = |value: fn(Lateness) -> u64| {
                median(rows().map(|(_, row)| value(row.3) as f64)) / 1e3
            };
            writeln!(
                out,
                "  {stores:<13} drain {drain:>6.0} ({drain_share:.2})  single {single:>6.0} \
                 ({single_share:.2})  late p50 {:.1} p99 {:.1} p99.9 {:.1} ms",
                late(|late| late.p50_us),
                late(|late| late.p99_us),
                late(|late| late.p999_us),
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
