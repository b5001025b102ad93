//! Which destinations have been failing for the set time, and which are back. Pure.
//!
//! A destination fails from a call on that was not acknowledged, whatever the reason, until one is. That is read from the
//! last outcome of its lane at each check, so a destination that acknowledges some calls is not found to be failing for
//! long. It is back when the last call was acknowledged and none has failed for [`QUIET_MS`].
//!
//! What is sent is bounded. A destination has an alert of its failing at most once in [`SPACING_MS`], and each is followed
//! by at most one of its recovery. In a minute there are at most `MOST_SINGLE` alerts of one destination each and one of
//! all others together, of each kind.

use super::budget::{AlertBudget, AlertGrouping};
use crate::domain::alert::{Alert, AlertFigures, AlertKind, DestinationFigures};
use crate::domain::attempt::Outcome;
use crate::domain::lane_health::LastOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A destination is back if a call was acknowledged and none has failed for so long, in milliseconds.
const QUIET_MS: i64 = 60_000;
/// Shortest time between two alerts that the same destination fails, in milliseconds.
const SPACING_MS: i64 = 15 * 60_000;
/// Maximum number of destinations that are remembered. Further ones that fail have no alert until some of these recover.
const MOST_EPISODES: usize = 2_000;
/// A failing destination that was not seen failing for so long, and of which no alert was sent, is forgotten; in
/// milliseconds. Its lane has no entries and no state any more.
const FORGOTTEN_MS: i64 = 2 * 3_600_000;
/// The same for one of which an alert was sent, so that its recovery can be told.
const FORGOTTEN_OPEN_MS: i64 = 7 * 86_400_000;
/// When a destination was seen failing is kept to this, so that it is not written for every check; in milliseconds.
const SEEN_STEP_MS: i64 = 10 * 60_000;

/// What a check sees of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedDestination {
    /// The name of the lane.
    pub(super) lane: String,
    /// How many notifications are pending for it.
    pub(super) pending: u64,
    /// Whether a person holds it.
    pub(super) is_held: bool,
    /// How its last call ended.
    pub(super) last: Option<LastOutcome>,
    /// Since when no call was answered.
    pub(super) unanswered_since_ms: Option<i64>,
}

impl ObservedDestination {
    /// Since when it fails; `None` if its last call was acknowledged or is not known.
    fn failing_since_ms(&self) -> Option<i64> {
        let last = self
            .last
            .filter(|last| last.call.outcome != Outcome::Acknowledged);
        let since_ms = last.map(|last| last.since_ms);
        match (since_ms, self.unanswered_since_ms) {
            (Some(last_ms), Some(unanswered_ms)) => Some(last_ms.min(unanswered_ms)),
            (since_ms, unanswered_ms) => since_ms.or(unanswered_ms),
        }
    }

    /// Since when all calls were acknowledged; `None` if the last one was not.
    fn well_since_ms(&self) -> Option<i64> {
        let last = self
            .last
            .filter(|last| last.call.outcome == Outcome::Acknowledged)?;
        self.unanswered_since_ms.is_none().then_some(last.since_ms)
    }
}

/// What is remembered of the destinations that fail, or failed a short time ago.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DestinationAlerts {
    episodes: BTreeMap<String, FailingEpisode>,
    failing: AlertBudget,
    recovered: AlertBudget,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FailingEpisode {
    /// Since when it fails; `None` if it does not.
    since_ms: Option<i64>,
    /// When it was last seen failing, about.
    seen_ms: i64,
    /// When the last alert was made that it fails.
    alerted_ms: Option<i64>,
    /// Whether that alert was not followed by one of its recovery.
    is_open: bool,
}

impl FailingEpisode {
    fn forgotten_after_ms(&self) -> i64 {
        match (self.is_open, self.since_ms) {
            (true, _) => FORGOTTEN_OPEN_MS,
            (false, Some(_)) => FORGOTTEN_MS,
            (false, None) => SPACING_MS,
        }
    }

    /// Whether the last alert is long enough ago for another one.
    fn may_be_told(&self, now_ms: i64) -> bool {
        let told = self.alerted_ms;
        told.is_none_or(|told_ms| now_ms.saturating_sub(told_ms) >= SPACING_MS)
    }
}

impl DestinationAlerts {
    /// Some of the destinations that are remembered, in the order of their names: `limit` at most, after `after`.
    pub(super) fn remembered(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.episodes.range::<str, _>((from, Bound::Unbounded));
        names.map(|(lane, _)| lane.clone()).take(limit).collect()
    }

    /// Takes in what a check has seen, and returns the alerts that follow. No lane may come twice.
    pub(super) fn decide(
        &mut self,
        observed: &[ObservedDestination],
        failing_after_ms: i64,
        now_ms: i64,
    ) -> Vec<Alert> {
        let (mut failing, mut recovered) = (Vec::new(), Vec::new());
        for seen in observed {
            self.note(seen, now_ms);
            let Some(episode) = self.episodes.get(&seen.lane) else {
                continue;
            };
            let Some(since_ms) = episode.since_ms else {
                continue;
            };
            let figures = || DestinationFigures {
                lane: seen.lane.clone(),
                since_ms,
                pending: seen.pending,
                last: seen.last.map(|last| (last.call.outcome, last.call.status)),
            };
            if episode.is_open {
                let well = seen.well_since_ms();
                if well.is_some_and(|well_ms| now_ms.saturating_sub(well_ms) >= QUIET_MS) {
                    recovered.push(figures());
                }
            } else if seen.failing_since_ms().is_some()
                && now_ms.saturating_sub(since_ms) >= failing_after_ms
                && seen.pending > 0
                && !seen.is_held
                && episode.may_be_told(now_ms)
            {
                failing.push(figures());
            }
        }
        let is_full = self.episodes.len() >= MOST_EPISODES;
        let mut alerts = Vec::new();
        for all in self.failing.grouped(failing, now_ms) {
            for one in &all {
                if let Some(episode) = self.episodes.get_mut(&one.lane) {
                    episode.alerted_ms = Some(now_ms);
                    episode.is_open = true;
                }
            }
            let is_least = is_full && all.len() > 1;
            alerts.push(alert(AlertKind::DestinationFailing, all, is_least, now_ms));
        }
        for all in self.recovered.grouped(recovered, now_ms) {
            for one in &all {
                if let Some(episode) = self.episodes.get_mut(&one.lane) {
                    episode.since_ms = None;
                    episode.is_open = false;
                }
            }
            alerts.push(alert(AlertKind::DestinationRecovered, all, false, now_ms));
        }
        self.episodes.retain(|_, episode| {
            let last_ms = match episode.since_ms {
                Some(_) => episode.seen_ms,
                None => episode.alerted_ms.unwrap_or(i64::MIN),
            };
            now_ms.saturating_sub(last_ms) < episode.forgotten_after_ms()
        });
        alerts
    }

    fn note(&mut self, seen: &ObservedDestination, now_ms: i64) {
        let is_full = self.episodes.len() >= MOST_EPISODES;
        let known = self.episodes.get_mut(&seen.lane);
        match (seen.failing_since_ms(), known) {
            (Some(since_ms), Some(episode)) => {
                episode.since_ms.get_or_insert(since_ms);
                if now_ms.saturating_sub(episode.seen_ms) >= SEEN_STEP_MS {
                    episode.seen_ms = now_ms;
                }
            }
            // One without work is not told, so it takes no place of those that are.
            (Some(since_ms), None) if !is_full && seen.pending > 0 && !seen.is_held => {
                let episode = FailingEpisode {
                    since_ms: Some(since_ms),
                    seen_ms: now_ms,
                    alerted_ms: None,
                    is_open: false,
                };
                self.episodes.insert(seen.lane.clone(), episode);
            }
            // The end of what was told is told too, after a while.
            (None, Some(episode)) if !episode.is_open && seen.well_since_ms().is_some() => {
                episode.since_ms = None;
            }
            (_, _) => {}
        }
    }
}

/// Sorts the destinations into alerts.
impl AlertBudget {
    fn grouped(
        &mut self,
        mut all: Vec<DestinationFigures>,
        now_ms: i64,
    ) -> Vec<Vec<DestinationFigures>> {
        // Those with most at stake are named first; the order is the same on every server.
        all.sort_by(|a, b| b.pending.cmp(&a.pending).then_with(|| a.lane.cmp(&b.lane)));
        match self.group(all.len(), now_ms) {
            AlertGrouping::Single => all.into_iter().map(|one| vec![one]).collect(),
            AlertGrouping::Together => vec![all],
            AlertGrouping::Later => Vec::new(),
        }
    }
}

fn alert(kind: AlertKind, all: Vec<DestinationFigures>, is_least: bool, now_ms: i64) -> Alert {
    Alert {
        kind,
        since_ms: all.iter().map(|one| one.since_ms).min().unwrap_or(now_ms),
        at_ms: now_ms,
        figures: AlertFigures::Destinations { all, is_least },
    }
}

#[cfg(test)]
mod tests;
