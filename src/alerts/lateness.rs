//! Whether the attempts of this server begin late. Pure.
//!
//! Lateness is high if of the attempts of the last five minutes, ten at least, more than a tenth began later than the set
//! time after they were due. What waited for its destination, its order or a rate is not late.

use crate::domain::alert::{Alert, AlertFigures, AlertKind};
use crate::telemetry::lateness::LatenessCounts;
use std::collections::VecDeque;

/// The attempts of so long count, in milliseconds.
const WITHIN_MS: i64 = 5 * 60_000;
/// Shortest time between two samples, in milliseconds. So there are at most 61.
const SAMPLE_MS: i64 = 5_000;
/// Fewer attempts say nothing.
const FEWEST_ATTEMPTS: u64 = 10;
/// Lateness is high if more than one of so many attempts is late.
const ONE_OF: u64 = 10;
/// Shortest time between two alerts that it is high, in milliseconds.
const SPACING_MS: i64 = 15 * 60_000;

/// What is remembered of the attempts of this server.
#[derive(Debug, Default)]
pub(super) struct LatenessAlerts {
    /// What had been counted at some instants, oldest first.
    samples: VecDeque<(i64, LatenessCounts)>,
    /// When it became high, if the alert of that was not followed by another one.
    high_since_ms: Option<i64>,
    alerted_ms: Option<i64>,
}

impl LatenessAlerts {
    /// Takes in what has been counted since the start, and returns the alert that follows.
    pub(super) fn decide(
        &mut self,
        counts: LatenessCounts,
        (server, late_after_ms): (&str, i64),
        now_ms: i64,
    ) -> Option<Alert> {
        let last_ms = self.samples.back().map(|(at_ms, _)| *at_ms);
        if last_ms.is_none_or(|last_ms| now_ms.saturating_sub(last_ms) >= SAMPLE_MS) {
            self.samples.push_back((now_ms, counts));
        }
        // The last one before the window stays: what came after it is in the window.
        while self.samples.len() > 1
            && (self.samples.get(1)).is_some_and(|(at_ms, _)| now_ms - at_ms >= WITHIN_MS)
        {
            self.samples.pop_front();
        }
        let before = self.samples.front().map_or(counts, |(_, counts)| *counts);
        let attempts = counts.attempts.saturating_sub(before.attempts);
        let late = counts.late.saturating_sub(before.late);
        let is_high = attempts >= FEWEST_ATTEMPTS && late * ONE_OF > attempts;
        let told = self
            .alerted_ms
            .map(|told_ms| now_ms.saturating_sub(told_ms));
        let (kind, since_ms) = match self.high_since_ms {
            None if is_high && told.is_none_or(|told_ms| told_ms >= SPACING_MS) => {
                self.high_since_ms = Some(now_ms);
                self.alerted_ms = Some(now_ms);
                (AlertKind::LatenessHigh, now_ms)
            }
            // A server that makes no attempts is not late.
            Some(since_ms) if late * ONE_OF <= attempts => {
                self.high_since_ms = None;
                (AlertKind::LatenessNormal, since_ms)
            }
            None | Some(_) => return None,
        };
        Some(Alert {
            kind,
            since_ms,
            at_ms: now_ms,
            figures: AlertFigures::Lateness {
                server: server.to_string(),
                attempts,
                late,
                late_after_ms,
                within_ms: WITHIN_MS,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_high_for_a_share_of_enough_attempts_and_normal_again_later() {
        let mut alerts = LatenessAlerts::default();
        let mut check = |seconds: i64, attempts, late, expected: Option<(AlertKind, i64)>| {
            let counts = LatenessCounts { attempts, late };
            let alert = alerts.decide(counts, ("pay-1", 30_000), seconds * 1_000);
            let found = alert.map(|alert| (alert.kind, alert.since_ms / 1_000));
            assert_eq!(found, expected, "after {seconds} s");
        };
        check(0, 0, 0, None);
        check(5, 9, 9, None);
        check(10, 100, 10, None);
        check(15, 100, 11, Some((AlertKind::LatenessHigh, 15)));
        check(20, 200, 100, None);
        check(200, 200, 100, None);
        // The window has only attempts from here on, and there are none.
        check(330, 200, 100, Some((AlertKind::LatenessNormal, 15)));
        // High again too early, then late enough for another alert.
        check(400, 300, 200, None);
        check(916, 400, 300, Some((AlertKind::LatenessHigh, 916)));
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut alerts = LatenessAlerts::default();
        for now_ms in (0..3_600_000).step_by(1_000) {
            alerts.decide(LatenessCounts::default(), ("pay-1", 1), now_ms);
        }
        assert!(alerts.samples.len() <= 62, "{}", alerts.samples.len());
    }
}
