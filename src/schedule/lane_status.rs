//! What is known of a lane: how much waits in it, how its destination is doing, and its settings.

use crate::domain::attempt::Outcome;
use crate::domain::lane::Lane;
use crate::domain::lane_health::{LaneHealth, LastOutcome};
use crate::domain::lane_settings::{LaneSettings, LaneState};
use crate::domain::later::LaterCount;

/// A lane at one instant. A lane without entries, state and settings is open and empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStatus {
    /// The lane.
    pub lane: Lane,
    /// Entries that wait, due or not.
    pub waiting: u64,
    /// Entries that wait and are due.
    pub due: u64,
    /// Leases: calls in flight, and changes by hand.
    pub in_flight: u64,
    /// Everything that is pending and due by this instant is here, in milliseconds since 1970. What is due later may be in
    /// the journal alone. `i64::MAX`: everything is here.
    pub held_until_ms: i64,
    /// Of the entries that wait, those that are due later than that. The journal counts them too.
    pub later: u64,
    /// What the journal has that is due later than that; `None` if it was not asked.
    pub later_in_journal: Option<LaterCount>,
    /// When the entry that waits longest was due, in milliseconds since 1970; `None` if none is due.
    pub oldest_due_ms: Option<i64>,
    /// The largest number of leases of the lane.
    pub cap: usize,
    /// How many leases it may have now, by how its destination is doing.
    pub limit: usize,
    /// Whether it is probed: calls to its destination get no answer.
    pub is_probing: bool,
    /// Since when no call was answered, in milliseconds since 1970; `None` if the last one was, or none was made.
    pub failing_since_ms: Option<i64>,
    /// How its last call ended; `None` if that is not known.
    pub last_outcome: Option<LastOutcome>,
    /// Until when its rate allows no call, in milliseconds since 1970; `None` if it has no rate.
    pub rate_until_ms: Option<i64>,
    /// Its settings.
    pub settings: LaneSettings,
}

impl LaneStatus {
    /// An open and empty lane, of a schedule with this cap, with this state and these settings.
    pub(super) fn of(
        lane: Lane,
        health: &LaneHealth,
        cap: usize,
        settings: Option<LaneSettings>,
    ) -> Self {
        let settings = settings.unwrap_or_default();
        let own = settings.limits.concurrency.map(|most| most.get());
        let cap = own.map_or(cap, |most| usize::try_from(most).unwrap_or(usize::MAX));
        Self {
            lane,
            waiting: 0,
            due: 0,
            in_flight: 0,
            held_until_ms: i64::MAX,
            later: 0,
            later_in_journal: None,
            oldest_due_ms: None,
            cap,
            limit: health.limit(cap),
            is_probing: health.is_probing(),
            failing_since_ms: Some(health.failing_since_ms).filter(|since_ms| *since_ms > 0),
            last_outcome: health.last_outcome,
            rate_until_ms: (settings.limits.rate).map(|rate| rate.next_call_ms(health.arrival_us)),
            settings,
        }
    }

    /// How many notifications of it have not ended, as far as that is known: what is due by [`Self::held_until_ms`] as the
    /// schedule has it, and what is due later as the journal has it. So nothing is counted twice, although the schedule has
    /// a part of the latter too.
    #[must_use]
    pub fn pending(&self) -> u64 {
        let here = self.waiting.saturating_add(self.in_flight);
        self.later_in_journal.map_or(here, |later| {
            here.saturating_sub(self.later).saturating_add(later.many)
        })
    }

    /// Whether there may be more pending than [`Self::pending`] says.
    #[must_use]
    pub fn is_pending_at_least(&self) -> bool {
        let is_whole = self.held_until_ms == i64::MAX;
        self.later_in_journal
            .map_or(!is_whole, |later| later.is_at_least)
    }

    /// Whether its last call is known and was not acknowledged, or no call is answered.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        let last = self.last_outcome.as_ref();
        let was_acknowledged = last.is_none_or(|last| last.call.outcome == Outcome::Acknowledged);
        !was_acknowledged || self.failing_since_ms.is_some()
    }

    /// Its state in one word.
    #[must_use]
    pub fn state(&self) -> LaneState {
        if self.settings.hold.is_some() {
            LaneState::Held
        } else if self.is_probing {
            LaneState::Probing
        } else {
            LaneState::Open
        }
    }
}

/// Some of the lanes.
#[derive(Debug, Clone, Default)]
pub struct LanePage {
    /// The lanes.
    pub lanes: Vec<LaneStatus>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

/// Which lanes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneSelection {
    /// All that have entries or settings.
    All,
    /// Those that have neither, and whose last call was not acknowledged. What is pending for them, if anything is, waits in
    /// the journal alone.
    Failing,
    /// Those that have settings. All that are held are among them.
    Configured,
}
