//! The scales of the plots: where a value lies, in percent of the height, and which labels the scale has.

/// The stops of the scale of lateness: instants in milliseconds, at equal distances. Between two stops it is logarithmic.
const STOPS: [(i64, &str); 9] = [
    (1, "1ms"),
    (10, "10ms"),
    (100, "100ms"),
    (1_000, "1s"),
    (10_000, "10s"),
    (60_000, "1m"),
    (600_000, "10m"),
    (3_600_000, "1h"),
    (86_400_000, "1d"),
];
/// The scale of lateness reaches to one second at least, so that small latenesses look small.
const LEAST_STOPS: usize = 4;

/// A scale of numbers, from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountAxis {
    top: u64,
}

impl CountAxis {
    /// A scale for numbers up to this one: up to the next round number.
    pub(super) fn up_to(most: u64) -> Self {
        let mut unit = 1_u64;
        loop {
            for factor in [1, 2, 4, 6, 8] {
                let top = unit.saturating_mul(factor);
                if top >= most || top == u64::MAX {
                    return Self { top };
                }
            }
            unit = unit.saturating_mul(10);
        }
    }

    /// The height of a number, in percent.
    pub(super) fn height(self, number: u64) -> f64 {
        as_float(number.min(self.top)) / as_float(self.top) * 100.0
    }

    /// The labels, from the top down, at equal distances.
    pub(super) fn labels(self) -> Vec<String> {
        let mut labels = vec![short(self.top)];
        if self.top.is_multiple_of(2) {
            labels.push(short(self.top / 2));
        }
        labels.push("0".to_string());
        labels
    }
}

/// A number in few letters: `900`, `20k`, `1.5M`.
fn short(number: u64) -> String {
    let (unit, letter) = match number {
        0..10_000 => return number.to_string(),
        10_000..1_000_000 => (1_000, 'k'),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        1_000_000_000.. => (1_000_000_000, 'G'),
    };
    match number % unit * 10 / unit {
        0 => format!("{}{letter}", number / unit),
        tenth => format!("{}.{tenth}{letter}", number / unit),
    }
}

/// A logarithmic scale of latenesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LatenessAxis {
    stops: usize,
}

impl LatenessAxis {
    /// A scale for latenesses up to this one.
    pub(super) fn up_to(most_ms: i64) -> Self {
        let needed = STOPS.partition_point(|(stop_ms, _)| *stop_ms < most_ms) + 1;
        Self {
            stops: needed.clamp(LEAST_STOPS, STOPS.len()),
        }
    }

    /// The height of a lateness, in percent.
    pub(super) fn height(self, late_ms: i64) -> f64 {
        let above = STOPS[..self.stops].partition_point(|(stop_ms, _)| *stop_ms <= late_ms);
        let steps = as_float(self.stops as u64 - 1);
        let (Some(below), Some(next)) = (above.checked_sub(1), STOPS[..self.stops].get(above))
        else {
            return if above == 0 { 0.0 } else { 100.0 };
        };
        let [low, value, high] =
            [STOPS[below].0, late_ms, next.0].map(|ms| as_float(ms.unsigned_abs()).ln());
        (as_float(below as u64) + (value - low) / (high - low)) / steps * 100.0
    }

    /// The labels, from the top down, at equal distances.
    pub(super) fn labels(self) -> Vec<String> {
        let stops = STOPS[..self.stops].iter().rev();
        stops.map(|(_, label)| (*label).to_string()).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place on a screen")]
fn as_float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_of_numbers_ends_with_a_round_one() {
        fn check(most: u64, labels: &[&str]) {
            assert_eq!(CountAxis::up_to(most).labels(), labels, "{most}");
        }
        check(0, &["1", "0"]);
        check(1, &["1", "0"]);
        check(2, &["2", "1", "0"]);
        check(5, &["6", "3", "0"]);
        check(9, &["10", "5", "0"]);
        check(81, &["100", "50", "0"]);
        check(19_000, &["20k", "10k", "0"]);
        check(2_900_000, &["4M", "2M", "0"]);
        assert_eq!(CountAxis::up_to(200).height(50), 25.0);
        assert_eq!(CountAxis::up_to(u64::MAX).height(0), 0.0);
        assert_eq!([short(1_500), short(15_500)], ["1500", "15.5k"]);
    }

    #[test]
    fn a_scale_of_latenesses_is_logarithmic() {
        let axis = LatenessAxis::up_to(0);
        assert_eq!(axis.labels(), ["1s", "100ms", "10ms", "1ms"]);
        let heights = [0, 1, 10, 1_000, 5_000].map(|ms| axis.height(ms).round());
        assert_eq!(heights, [0.0, 0.0, 33.0, 100.0, 100.0]);
        assert_eq!(LatenessAxis::up_to(1_001).labels()[0], "10s");
        assert_eq!(LatenessAxis::up_to(i64::MAX).labels()[0], "1d");
        let axis = LatenessAxis::up_to(86_400_000);
        assert!(axis.height(30_000) > axis.height(29_000));
        assert_eq!(axis.height(86_400_000), 100.0);
    }
}
