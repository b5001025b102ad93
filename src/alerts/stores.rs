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

/// A store can be used again if it could be for so long, in milliseconds; or for the set time, if that is shorter.
const QUIET_MS: i64 = 60_000;

/// What is remembered of the stores.
#[derive(Debug, Default)]
pub(super) struct StoreAlerts(BTreeMap<&'static str, StoreEpisode>);

#[derive(Debug, Default)]
struct StoreEpisode {
    /// Since when it cannot be used, but for shorter times than [`QUIET_MS`].
    since_ms: Option<i64>,
    /// Since when it can be used again; `None` if it cannot.
    well_since_ms: Option<i64>,
    /// Whether that it cannot be used was told.
    is_told: bool,
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
        let after_ms = |since_ms: i64| now_ms.saturating_sub(since_ms);
        let (kind, since_ms) = match (seen.away_ms, episode.since_ms) {
            (Some(away_ms), _) => {
                episode.well_since_ms = None;
                let away_since_ms = now_ms.saturating_sub(away_ms);
                let since_ms = *episode.since_ms.get_or_insert(away_since_ms);
                let is_soon = (episode.alerted_ms).is_some_and(|at| after_ms(at) < SPACING_MS);
                if episode.is_told || is_soon || after_ms(since_ms) < unavailable_after_ms {
                    return None;
                }
                episode.is_told = true;
                episode.alerted_ms = Some(now_ms);
                (AlertKind::StoreUnavailable, since_ms)
            }
            (None, Some(since_ms)) => {
                let well_since_ms = *episode.well_since_ms.get_or_insert(now_ms);
                if after_ms(well_since_ms) < QUIET_MS.min(unavailable_after_ms) {
                    return None;
                }
                episode.since_ms = None;
                if !std::mem::take(&mut episode.is_told) {
                    return None;
                }
                (AlertKind::StoreAvailable, since_ms)
            }
            (None, None) => return None,
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
        // An answer now and then does not mean that it is back.
        check(200, None, None);
        check(210, Some(5), None);
        check(220, None, None);
        check(279, None, None);
        check(280, None, Some((StoreAvailable, 41)));
        // Away again: told when a quarter of an hour has passed since the last time.
        check(300, Some(90), None);
        check(310, None, None);
        check(370, None, None);
        check(1_001, Some(70), Some((StoreUnavailable, 931)));
        check(1_002, None, None);
        check(1_062, None, Some((StoreAvailable, 931)));
        // Nor does it keep the alert from being sent.
        check(2_000, Some(10), None);
        check(2_020, None, None);
        check(2_030, Some(5), None);
        check(2_049, Some(2), None);
        check(2_050, Some(3), Some((StoreUnavailable, 1_990)));
    }
}
