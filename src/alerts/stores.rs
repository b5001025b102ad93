//! Whether a store cannot be used, as this server sees it. Pure.

use crate::domain::alert::{Alert, AlertFigures, AlertKind};
use std::collections::BTreeMap;

/// Shortest time between two alerts that the same store cannot be used, in milliseconds.
const SPACING_MS: i64 = 15 * 60_000;

/// What a check sees of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedStore {
    /// Its name.
    pub(super) store: &'static str,
    /// The name of its state.
    pub(super) state: &'static str,
    /// For how long it has not done all its work, in milliseconds; `None` if it does.
    pub(super) away_ms: Option<i64>,
    /// Why it does not.
    pub(super) cause: Option<String>,
}

/// What is remembered of the stores.
#[derive(Debug, Default)]
pub(super) struct StoreAlerts(BTreeMap<&'static str, StoreEpisode>);

#[derive(Debug, Default)]
struct StoreEpisode {
    /// Since when it cannot be used, if that was told.
    since_ms: Option<i64>,
    alerted_ms: Option<i64>,
}

impl StoreAlerts {
    /// Takes in how a store is, and returns the alert that follows.
    pub(super) fn decide(
        &mut self,
        seen: ObservedStore,
        (server, unavailable_after_ms): (&str, i64),
        now_ms: i64,
    ) -> Option<Alert> {
        let episode = self.0.entry(seen.store).or_default();
        let told = episode
            .alerted_ms
            .map(|told_ms| now_ms.saturating_sub(told_ms));
        let (kind, since_ms) = match (episode.since_ms, seen.away_ms) {
            (None, Some(away_ms))
                if away_ms >= unavailable_after_ms
                    && told.is_none_or(|told_ms| told_ms >= SPACING_MS) =>
            {
                let since_ms = now_ms.saturating_sub(away_ms);
                episode.since_ms = Some(since_ms);
                episode.alerted_ms = Some(now_ms);
                (AlertKind::StoreUnavailable, since_ms)
            }
            (Some(since_ms), None) => {
                episode.since_ms = None;
                (AlertKind::StoreAvailable, since_ms)
            }
            (None | Some(_), _) => return None,
        };
        Some(Alert {
            kind,
            since_ms,
            at_ms: now_ms,
            figures: AlertFigures::Store {
                server: server.to_string(),
                store: seen.store.to_string(),
                state: seen.state.to_string(),
                cause: seen.cause,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_away_for_the_set_time_and_is_back_has_two_alerts() {
        use AlertKind::{StoreAvailable, StoreUnavailable};
        let mut alerts = StoreAlerts::default();
        let mut check = |seconds: i64, away_s: Option<i64>, expected: Option<(AlertKind, i64)>| {
            let seen = ObservedStore {
                store: "journal",
                state: "away",
                away_ms: away_s.map(|away_s| away_s * 1_000),
                cause: None,
            };
            let alert = alerts.decide(seen, ("pay-1", 60_000), seconds * 1_000);
            let found = alert.map(|alert| (alert.kind, alert.since_ms / 1_000));
            assert_eq!(found, expected, "after {seconds} s");
        };
        check(0, None, None);
        check(100, Some(59), None);
        check(101, Some(60), Some((StoreUnavailable, 41)));
        check(102, Some(61), None);
        check(200, None, Some((StoreAvailable, 41)));
        // Away again: told when a quarter of an hour has passed since the last time.
        check(300, Some(90), None);
        check(310, None, None);
        check(1_001, Some(70), Some((StoreUnavailable, 931)));
        check(1_002, None, Some((StoreAvailable, 931)));
    }
}
