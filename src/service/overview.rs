//! For the overview of the page: how many notifications there are in which state, which lanes are in trouble, and whether
//! the stores work. Everything takes a bounded time, whatever the stores do.

use super::Service;
use super::later::{MOST_COUNTED, count_later, find_later};
use crate::domain::lane_settings::LaneState;
use crate::health::HealthReport;
use crate::schedule::lane_status::{LaneSelection, LaneStatus};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

/// Longest wait for a store. What a slower one would say is not known.
const LONGEST_READ: Duration = Duration::from_millis(1_500);
/// Lanes that are asked for at a time.
const LANES_AT_ONCE: usize = 200;
/// For how long lanes are looked through, and how often they are asked for. If that is not enough, only some were seen.
const LONGEST_LOOK: Duration = Duration::from_millis(20);
const MOST_LOOKS: usize = 10;

/// Numbers of notifications. What is not known is `None`: the store does not answer, or keeps no such number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StateCounts {
    /// Pending, those in flight included.
    pub pending: Option<u64>,
    /// With an attempt in flight.
    pub in_flight: Option<u64>,
    /// Acknowledged.
    pub delivered: Option<u64>,
    /// Dead letters.
    pub dead: Option<u64>,
    /// Cancelled or discarded.
    pub cancelled: Option<u64>,
}

/// The lanes in trouble: those that are held or probed, whose destination answers no call, or whose last call was not
/// acknowledged while something is pending.
#[derive(Debug, Clone, Default)]
pub struct TroubledLanes {
    /// Some of them: those that are held first, then those of which most is due.
    pub lanes: Vec<LaneStatus>,
    /// How many were found.
    pub found: usize,
    /// Whether all lanes were looked at. If not, there may be others.
    pub is_complete: bool,
    /// What is due in all lanes; `None` if they were not all looked at.
    pub due: Option<u64>,
}

impl Service {
    /// The numbers of notifications by state. The stores keep these numbers, so nothing is counted for it. Takes a bounded
    /// time, whatever the stores do.
    pub async fn state_counts(&self) -> StateCounts {
        let journal = async { within(self.journal()?.counts()).await };
        let schedule = within(self.schedule.counts());
        let (journal, schedule) = tokio::join!(journal, schedule);
        // Without a journal, the schedule remembers dead letters for a while, and counts them.
        let remembered = (schedule.as_ref())
            .filter(|_| !self.has_journal())
            .map(|counts| counts.dead);
        StateCounts {
            pending: match (&journal, self.has_journal()) {
                (Some(counts), _) => Some(counts.scheduled),
                (None, true) => None,
                (None, false) => schedule.as_ref().map(|counts| counts.pending),
            },
            in_flight: schedule.as_ref().map(|counts| counts.in_flight),
            delivered: journal.as_ref().map(|counts| counts.delivered),
            dead: journal.as_ref().map(|counts| counts.dead).or(remembered),
            cancelled: journal.as_ref().map(|counts| counts.cancelled),
        }
    }
}

impl Service {
    /// The lanes in trouble, `limit` of them at most. There may be very many lanes, so only some may be looked at. `None` if
    /// the schedule does not answer.
    pub async fn lanes_in_trouble(&self, limit: usize) -> Option<TroubledLanes> {
        let started = Instant::now();
        let mut seen = BTreeMap::new();
        let (mut selection, mut cursor) = (LaneSelection::All, None);
        let (mut is_complete, mut knows_due) = (false, false);
        for _ in 0..MOST_LOOKS {
            let reading = (self.schedule).lanes(selection, cursor.as_deref(), LANES_AT_ONCE);
            let page = within(reading).await?;
            seen.extend(named(page.lanes));
            cursor = page.next;
            if cursor.is_none() && selection == LaneSelection::All {
                // What is due is in the schedule, so all of it was seen.
                (selection, knows_due) = (LaneSelection::Failing, true);
            } else {
                is_complete = cursor.is_none();
            }
            if is_complete || started.elapsed() > LONGEST_LOOK {
                break;
            }
        }
        if !knows_due {
            // Held lanes are few, and are found nevertheless.
            let held = (self.schedule).lanes(LaneSelection::Configured, None, LANES_AT_ONCE);
            seen.extend(named(within(held).await?.lanes));
        }
        let due = seen.values().map(|lane| lane.due).sum();
        let is_in_trouble =
            |lane: &LaneStatus| lane.state() != LaneState::Open || lane.is_failing();
        let mut lanes: Vec<LaneStatus> = seen.into_values().filter(is_in_trouble).collect();
        if let Some(journal) = self.journal() {
            // If the journal does not answer, those of which all waits there are not shown.
            let _ = within(find_later(journal, &mut lanes)).await;
        }
        lanes.retain(|lane| {
            let settled = lane.state() == LaneState::Open && lane.failing_since_ms.is_none();
            !settled || lane.pending() > 0
        });
        lanes.sort_by_key(|lane| (lane.state() != LaneState::Held, std::cmp::Reverse(lane.due)));
        let found = lanes.len();
        lanes.truncate(limit);
        if let Some(journal) = self.journal() {
            let _ = within(count_later(journal, &mut lanes, MOST_COUNTED)).await;
        }
        Some(TroubledLanes {
            lanes,
            found,
            is_complete,
            due: knows_due.then_some(due),
        })
    }

    /// When the pending notification was due that has been due for longest, in milliseconds since 1970. `None` if none is
    /// overdue, or if that is not known.
    pub async fn oldest_overdue_ms(&self) -> Option<i64> {
        let oldest_ms = within(self.journal()?.oldest_due()).await??;
        (oldest_ms < self.clock.now_ms()).then_some(oldest_ms)
    }

    /// The health of the stores by the results of calls so far. Nothing is asked for it.
    #[must_use]
    pub fn known_health(&self) -> HealthReport {
        self.health.report()
    }
}

fn named(lanes: Vec<LaneStatus>) -> impl Iterator<Item = (String, LaneStatus)> {
    let lanes = lanes.into_iter();
    lanes.map(|lane| (lane.lane.as_str().to_string(), lane))
}

async fn within<T, E>(call: impl Future<Output = Result<T, E>>) -> Option<T> {
    tokio::time::timeout(LONGEST_READ, call).await.ok()?.ok()
}
