//! How many alerts of one kind are sent in a minute. Pure.

use serde::{Deserialize, Serialize};

/// Maximum number of alerts in a minute that are about one destination each.
pub(super) const MOST_SINGLE: usize = 5;
const MINUTE_MS: i64 = 60_000;

/// What was sent in the last minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AlertBudget {
    /// When alerts about one destination each were made.
    single_ms: Vec<i64>,
    /// When the last alert about many was made.
    together_ms: Option<i64>,
}

/// How those that are due are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AlertGrouping {
    /// Each in an alert of its own.
    Single,
    /// All in one alert.
    Together,
    /// Not now: a minute has not passed since the last alert about many.
    Later,
}

impl AlertBudget {
    /// How so many are told now. What is told counts from then on.
    pub(super) fn group(&mut self, due: usize, now_ms: i64) -> AlertGrouping {
        let is_recent = |at_ms: &i64| (0..MINUTE_MS).contains(&now_ms.saturating_sub(*at_ms));
        if due == 0 {
            return AlertGrouping::Later;
        }
        self.single_ms.retain(is_recent);
        if self.single_ms.len() + due <= MOST_SINGLE {
            self.single_ms.extend(std::iter::repeat_n(now_ms, due));
            return AlertGrouping::Single;
        }
        if self.together_ms.as_ref().is_some_and(is_recent) {
            return AlertGrouping::Later;
        }
        self.together_ms = Some(now_ms);
        AlertGrouping::Together
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_a_few_single_alerts_and_one_about_all_others() {
        let mut budget = AlertBudget::default();
        let mut check = |seconds: i64, due, expected| {
            let grouping = budget.group(due, seconds * 1_000);
            assert_eq!(grouping, expected, "{due} after {seconds} s");
        };
        use AlertGrouping::{Later, Single, Together};
        check(0, 0, Later);
        check(0, 2, Single);
        check(10, 3, Single);
        check(20, 1, Together);
        check(21, 900, Later);
        check(59, 900, Later);
        // Those of the beginning do not count any more.
        check(60, 3, Later);
        check(60, 2, Single);
        check(70, 6, Later);
        check(80, 6, Together);
        check(120, 5, Single);
        check(121, 1, Later);
        check(140, 1, Together);
        // A clock that was set back holds nothing up.
        check(10, 5, Single);
        check(10, 1, Together);
    }
}
