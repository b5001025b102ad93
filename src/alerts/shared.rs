//! The checks of what all servers see alike: destinations and dead letters.
//!
//! With a journal, one server at a time makes them: the one that has the duty. What it remembers is kept in the journal, so
//! another server, or the same one after a restart, goes on where it stopped. What is decided is written down, with the
//! alerts that follow, before these are registered. So if a server dies in between, the next one registers them; their ids
//! are the same, so nothing is sent twice. If a server was suspended and another one had the duty meanwhile, it may write
//! something older: the alerts that follow from it have the same ids again.
//!
//! Without a journal every server makes the checks and remembers for itself. The ids make one notification of what several
//! servers register, as long as the schedule remembers it.

use super::dead_letters::{DeadLetterAlerts, SeenDeadLetters};
use super::destinations::{DestinationAlerts, ObservedDestination};
use super::sender::AlertSender;
use crate::domain::alert::{ALERT_TOPIC, Alert, AlertFigures, PreparedAlert};
use crate::domain::lane::Lane;
use crate::domain::state::State;
use crate::journal::{Filter, Journal, JournalError, Order};
use crate::schedule::lane_status::{LaneSelection, LaneStatus};
use crate::schedule::{Schedule, ScheduleError};
use crate::service::later::{MOST_COUNTED_OF_MANY, count_later, find_later};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// The name of the duty, and of what is remembered.
const NAME: &str = "alerts";
/// For how long a server has the duty, in milliseconds. It asks again with each check.
const DUTY_MS: i64 = 15_000;
/// Lanes that are read at a time, and how often in a check. If there are more, the next check goes on there.
const LANES_AT_ONCE: usize = 200;
const MOST_PAGES: usize = 20;
/// Destinations that are remembered and have no entries are read one by one: so many in a check.
const MOST_READ_ALONE: usize = 200;
/// Destinations of an alert of which it is counted what waits in the journal.
const MOST_TOLD: usize = 100;
/// Pages of dead letters that are read in a check.
const MOST_DEAD_PAGES: usize = 8;
/// Dead letters that are read at a time, at least.
const LEAST_DEAD_PAGE: usize = 200;
/// Alerts that wait to be registered. If there are more, the oldest are dropped, and the log says so.
const MOST_WAITING: usize = 64;

/// What is remembered between checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct SharedMemory {
    destinations: DestinationAlerts,
    dead_letters: DeadLetterAlerts,
    /// Alerts that are not registered yet.
    waiting: Vec<PreparedAlert>,
}

/// The checks.
pub(super) struct SharedChecks {
    pub(super) journal: Option<Arc<dyn Journal>>,
    pub(super) schedule: Arc<dyn Schedule>,
    /// The lanes of the endpoints that get the alerts. Their own failures make no alerts.
    pub(super) excluded: BTreeSet<Lane>,
    pub(super) failing_after_ms: Option<i64>,
    pub(super) dead_letters: Option<u64>,
    pub(super) position: CheckPosition,
}

/// Where the next page of lanes begins.
#[derive(Debug)]
struct LanePlace {
    selection: LaneSelection,
    cursor: Option<String>,
}

impl Default for LanePlace {
    fn default() -> Self {
        Self {
            selection: LaneSelection::All,
            cursor: None,
        }
    }
}

impl LanePlace {
    /// After all lanes that have something in the schedule come those that fail and have nothing there. `None` at the end.
    fn next(self, cursor: Option<String>) -> Option<Self> {
        let selection = match (self.selection, &cursor) {
            (selection, Some(_)) => selection,
            (LaneSelection::All, None) => LaneSelection::Failing,
            (LaneSelection::Failing | LaneSelection::Configured, None) => return None,
        };
        Some(Self { selection, cursor })
    }
}

/// How far the checks have come in the lanes.
#[derive(Debug, Default)]
pub(super) struct CheckPosition {
    place: LanePlace,
    read_alone: Option<String>,
    /// What is remembered, where there is no journal.
    memory: SharedMemory,
    /// Whether it was logged that what is remembered cannot be read.
    logged: bool,
}

/// Why a check could not be made.
#[derive(Debug, Error)]
pub(super) enum SharedCheckError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

impl SharedCheckError {
    /// Whether a later check may succeed although nobody repairs anything.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Journal(error) => error.may_pass(),
            Self::Schedule(error) => error.may_pass(),
        }
    }
}

impl SharedChecks {
    /// Makes the checks, if it is the turn of this server, and registers the alerts that follow. If this server cannot reach the
    /// schedule, it lets another one have its turn.
    pub(super) async fn run(
        &mut self,
        sender: &AlertSender,
        now_ms: i64,
    ) -> Result<(), SharedCheckError> {
        if let Some(journal) = &self.journal
            && !journal.duty(NAME, DUTY_MS).await?
        {
            self.position.place = LanePlace::default();
            return Ok(());
        }
        let checked = self.check(sender, now_ms).await;
        if let Err(SharedCheckError::Schedule(_)) = checked {
            self.give_back().await;
        }
        checked
    }

    /// Lets another server make the next check.
    pub(super) async fn give_back(&self) {
        if let Some(journal) = &self.journal {
            let _ = journal.duty(NAME, 0).await;
        }
    }

    async fn check(&mut self, sender: &AlertSender, now_ms: i64) -> Result<(), SharedCheckError> {
        let before = self.recall().await?;
        let mut memory = before.clone();
        let mut alerts = Vec::new();
        if let Some(failing_after_ms) = self.failing_after_ms {
            let seen = self.observe(&memory.destinations).await?;
            let observed: Vec<ObservedDestination> = seen.values().map(observed).collect();
            alerts = memory
                .destinations
                .decide(&observed, failing_after_ms, now_ms);
            self.count_told(&mut alerts, &seen).await;
        }
        if let Some(threshold) = self.dead_letters
            && let Some(from_ms) = memory.dead_letters.counted_from_ms(now_ms)
        {
            let seen = self.seen_dead_letters(from_ms, threshold).await?;
            alerts.extend(memory.dead_letters.decide(&seen, threshold, now_ms));
        }
        memory
            .waiting
            .extend(alerts.iter().map(|alert| alert.prepare()));
        drop_oldest(&mut memory.waiting);
        if memory != before {
            self.remember(&memory).await?;
        }
        // Dying here leaves them waiting. The next check registers them, on whichever server.
        let waiting = std::mem::take(&mut memory.waiting);
        let many = waiting.len();
        memory.waiting = sender.register_all(waiting).await;
        if memory.waiting.len() != many {
            self.remember(&memory).await?;
        }
        Ok(())
    }

    async fn recall(&mut self) -> Result<SharedMemory, JournalError> {
        let Some(journal) = &self.journal else {
            return Ok(self.position.memory.clone());
        };
        let Some(text) = journal.recall(NAME).await? else {
            return Ok(SharedMemory::default());
        };
        match serde_json::from_str(&text) {
            Ok(memory) => Ok(memory),
            Err(error) => {
                if !self.position.logged {
                    self.position.logged = true;
                    tracing::error!(
                        %error,
                        "what the journal remembers of alerts cannot be read, so it begins anew; alerts may come twice"
                    );
                }
                Ok(SharedMemory::default())
            }
        }
    }

    async fn remember(&mut self, memory: &SharedMemory) -> Result<(), JournalError> {
        match &self.journal {
            None => {
                self.position.memory = memory.clone();
                Ok(())
            }
            Some(journal) => {
                let text = serde_json::to_string(memory);
                let text = text.expect("invariant: strings and numbers serialise");
                journal.remember(NAME, &text).await
            }
        }
    }

    /// Reads some lanes: all, if there are not very many, and some of those that are remembered and were not among them.
    /// What is pending for one that fails and has nothing in the schedule may wait in the journal.
    async fn observe(
        &mut self,
        known: &DestinationAlerts,
    ) -> Result<BTreeMap<String, LaneStatus>, SharedCheckError> {
        let mut seen = BTreeMap::new();
        // If a reading fails, the next check begins anew.
        let mut place = Some(std::mem::take(&mut self.position.place));
        for _ in 0..MOST_PAGES {
            let Some(LanePlace { selection, cursor }) = &place else {
                break;
            };
            let reading = (self.schedule).lanes(*selection, cursor.as_deref(), LANES_AT_ONCE);
            let page = reading.await?;
            seen.extend(page.lanes.into_iter().map(named));
            place = place.and_then(|place| place.next(page.next));
        }
        self.position.place = place.unwrap_or_default();
        let after = self.position.read_alone.take();
        let names = known.remembered(after.as_deref(), MOST_READ_ALONE);
        if names.len() == MOST_READ_ALONE {
            self.position.read_alone = names.last().cloned();
        }
        for name in names {
            if let Entry::Vacant(place) = seen.entry(name) {
                let lane = Lane::from_name(place.key());
                place.insert(self.schedule.lane(&lane).await?);
            }
        }
        seen.retain(|_, status| !self.excluded.contains(&status.lane));
        if let Some(journal) = &self.journal {
            let (mut failing, others): (Vec<_>, Vec<_>) =
                seen.into_values().partition(LaneStatus::is_failing);
            find_later(journal.as_ref(), &mut failing).await?;
            seen = failing.into_iter().chain(others).map(named).collect();
        }
        Ok(seen)
    }

    /// Counts what is pending for the destinations of these alerts. Until now it was found out only whether there is any.
    async fn count_told(&self, alerts: &mut [Alert], seen: &BTreeMap<String, LaneStatus>) {
        let Some(journal) = &self.journal else {
            return;
        };
        for alert in alerts {
            let AlertFigures::Destinations { all, .. } = &mut alert.figures else {
                continue;
            };
            let figures = all.iter().take(MOST_TOLD);
            let lanes = figures.filter_map(|one| seen.get(&one.lane).cloned());
            let mut lanes: Vec<LaneStatus> = lanes.collect();
            // Without the number, the alert is still right.
            if count_later(journal.as_ref(), &mut lanes, MOST_COUNTED_OF_MANY)
                .await
                .is_err()
            {
                return;
            }
            let counted: BTreeMap<&str, u64> = (lanes.iter())
                .map(|lane| (lane.lane.as_str(), lane.pending()))
                .collect();
            for one in all {
                if let Some(pending) = counted.get(one.lane.as_str()) {
                    one.pending = *pending;
                }
            }
        }
    }

    /// The dead letters from an instant on, about as many as the threshold at most. Those of alerts do not count.
    async fn seen_dead_letters(
        &self,
        from_ms: i64,
        threshold: u64,
    ) -> Result<SeenDeadLetters, SharedCheckError> {
        let mut seen = SeenDeadLetters::default();
        // Dead letters of alerts are on the same pages, so with a small threshold too the pages are not small.
        let limit = usize::try_from(threshold)
            .unwrap_or(usize::MAX)
            .saturating_add(1)
            .max(LEAST_DEAD_PAGE);
        let mut left = threshold;
        let mut count = |seen: &mut SeenDeadLetters, topic: &str, lane: &Lane, ended_ms: i64| {
            if topic == ALERT_TOPIC {
                return;
            }
            match left.checked_sub(1) {
                Some(fewer) => {
                    left = fewer;
                    seen.add(lane.as_str(), ended_ms);
                }
                None => seen.has_more = true,
            }
        };
        match &self.journal {
            Some(journal) => {
                let filter = Filter {
                    state: Some(State::Dead),
                    from_ms: Some(from_ms),
                    ..Filter::default()
                };
                let mut cursor = None;
                for _ in 0..MOST_DEAD_PAGES {
                    let page = journal.list(&filter, Order::Ended, cursor, limit).await?;
                    for dead in &page.items {
                        let ended_ms = dead.ended_ms.unwrap_or(from_ms);
                        count(&mut seen, dead.key.topic(), &dead.lane, ended_ms);
                    }
                    cursor = page.next;
                    if cursor.is_none() || seen.has_more {
                        break;
                    }
                }
            }
            None => {
                let mut cursor = None;
                for _ in 0..MOST_DEAD_PAGES {
                    let page = self.schedule.dead(cursor.as_deref(), limit).await?;
                    for dead in &page.entries {
                        let ended_ms = dead.ended_ms.unwrap_or(i64::MIN);
                        if ended_ms >= from_ms {
                            let notification = &dead.notification;
                            let topic = notification.key.topic();
                            count(&mut seen, topic, &notification.lane, ended_ms);
                        }
                    }
                    // They come newest first.
                    let last_ms = page.entries.last().and_then(|last| last.ended_ms);
                    let is_older = last_ms.is_some_and(|last_ms| last_ms < from_ms);
                    cursor = page.next;
                    if cursor.is_none() || seen.has_more || is_older {
                        break;
                    }
                }
            }
        }
        Ok(seen)
    }
}

fn named(status: LaneStatus) -> (String, LaneStatus) {
    (status.lane.as_str().to_string(), status)
}

fn observed(status: &LaneStatus) -> ObservedDestination {
    ObservedDestination {
        lane: status.lane.as_str().to_string(),
        pending: status.pending(),
        is_held: status.settings.hold.is_some(),
        last: status.last_outcome,
        unanswered_since_ms: status.failing_since_ms,
    }
}

/// Drops the oldest alerts if too many wait.
pub(super) fn drop_oldest(waiting: &mut Vec<PreparedAlert>) {
    let many = waiting.len().saturating_sub(MOST_WAITING);
    for dropped in waiting.drain(..many) {
        tracing::error!(
            kind = dropped.kind.as_str(),
            text = dropped.text,
            "an alert was dropped: it could not be registered for long, and too many wait"
        );
    }
}
