//! Whether dead letters pile up. Pure.
//!
//! Each is counted for one alert only. There is no alert of an end: what is dead stays so until somebody replays it, but
//! for the few that a late acknowledgement makes delivered.

use crate::domain::alert::{Alert, AlertFigures, AlertKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The dead letters of so long count, in milliseconds.
const WITHIN_MS: i64 = 3_600_000;
/// Shortest time between two alerts, in milliseconds.
const SPACING_MS: i64 = 15 * 60_000;

/// What is remembered of dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DeadLetterAlerts {
    alerted_ms: Option<i64>,
}

/// The dead letters that a check has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeenDeadLetters {
    lanes: BTreeMap<String, u64>,
    count: u64,
    first_ms: Option<i64>,
    /// Whether there are more.
    pub(super) has_more: bool,
}

impl SeenDeadLetters {
    /// Counts one that ended at this instant.
    pub(super) fn add(&mut self, lane: &str, ended_ms: i64) {
        *self.lanes.entry(lane.to_string()).or_default() += 1;
        self.count += 1;
        self.first_ms = Some(
            self.first_ms
                .map_or(ended_ms, |first_ms| first_ms.min(ended_ms)),
        );
    }
}

impl DeadLetterAlerts {
    /// Dead letters from this instant on count now; `None` if there may be no alert yet.
    pub(super) fn counted_from_ms(&self, now_ms: i64) -> Option<i64> {
        let from_ms = now_ms.saturating_sub(WITHIN_MS);
        match self.alerted_ms {
            // A clock that was set back does not hold alerts up for long.
            Some(alerted_ms) if (0..SPACING_MS).contains(&now_ms.saturating_sub(alerted_ms)) => {
                None
            }
            Some(alerted_ms) if alerted_ms <= now_ms => Some(from_ms.max(alerted_ms + 1)),
            Some(_) | None => Some(from_ms),
        }
    }

    /// Takes in those that count now, and returns the alert that follows.
    pub(super) fn decide(
        &mut self,
        seen: &SeenDeadLetters,
        threshold: u64,
        now_ms: i64,
    ) -> Option<Alert> {
        if seen.count < threshold {
            return None;
        }
        self.alerted_ms = Some(now_ms);
        let mut lanes: Vec<(String, u64)> = seen.lanes.clone().into_iter().collect();
        lanes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Some(Alert {
            kind: AlertKind::DeadLettersAccumulating,
            since_ms: seen.first_ms.unwrap_or(now_ms),
            at_ms: now_ms,
            figures: AlertFigures::DeadLetters {
                count: seen.count,
                is_least: seen.has_more,
                within_ms: WITHIN_MS,
                lanes,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_795_163_400_000;

    fn seen(dead: &[(&str, i64)]) -> SeenDeadLetters {
        let mut seen = SeenDeadLetters::default();
        for (lane, ended_ms) in dead {
            seen.add(lane, *ended_ms);
        }
        seen
    }

    #[test]
    fn as_many_as_the_threshold_make_one_alert() {
        let mut alerts = DeadLetterAlerts::default();
        assert_eq!(alerts.counted_from_ms(NOW_MS), Some(NOW_MS - WITHIN_MS));
        let two = seen(&[("https://a", NOW_MS - 5), ("https://b", NOW_MS - 9)]);
        assert_eq!(alerts.decide(&two, 3, NOW_MS), None);
        let mut three = two.clone();
        three.add("https://b", NOW_MS - 2);
        let alert = alerts.decide(&three, 3, NOW_MS).expect("an alert");
        assert_eq!(alert.since_ms, NOW_MS - 9);
        let AlertFigures::DeadLetters { count, lanes, .. } = alert.figures else {
            panic!("of dead letters");
        };
        assert_eq!(count, 3);
        assert_eq!(
            lanes,
            [("https://b".to_string(), 2), ("https://a".to_string(), 1)]
        );
    }

    #[test]
    fn each_dead_letter_counts_for_one_alert_and_alerts_are_apart() {
        let mut alerts = DeadLetterAlerts::default();
        let one = seen(&[("https://a", NOW_MS)]);
        assert!(alerts.decide(&one, 1, NOW_MS).is_some());
        let check = |later_ms: i64, expected| {
            assert_eq!(
                alerts.counted_from_ms(NOW_MS + later_ms),
                expected,
                "{later_ms}"
            );
        };
        check(0, None);
        check(SPACING_MS - 1, None);
        check(SPACING_MS, Some(NOW_MS + 1));
        check(WITHIN_MS + 10, Some(NOW_MS + 10));
        check(-1, Some(NOW_MS - 1 - WITHIN_MS));
    }
}
