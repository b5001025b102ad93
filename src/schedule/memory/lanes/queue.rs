//! One lane: what waits in it, its leases, and when its settings and its state let it give an entry.

use super::LaneTurn;
use super::readiness::LaneReadiness;
use crate::domain::lane::Lane;
use crate::domain::lane_health::{LaneClass, LaneHealth};
use crate::domain::lane_settings::{LaneLimits, LaneSettings};
use crate::schedule::CLAIMED_EARLY_MS;
use crate::schedule::memory::waiting::WaitingEntries;
use std::sync::Arc;

/// One lane.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) lane: Arc<Lane>,
    pub(super) waiting: WaitingEntries,
    pub(super) leases: usize,
    pub(super) health: LaneHealth,
    pub(super) limits: LaneLimits,
    pub(super) is_held: bool,
    pub(super) readiness: LaneReadiness,
    /// Its class, and its turn in the order of that class.
    pub(super) turn: Option<(LaneClass, LaneTurn)>,
}

impl Queue {
    /// The largest number of leases of the lane, if that of other lanes is `cap`.
    pub(super) fn cap(&self, cap: usize) -> usize {
        let own = self.limits.concurrency.map(|most| most.get());
        own.map_or(cap, |most| usize::try_from(most).unwrap_or(usize::MAX))
    }

    pub(super) fn limit(&self, cap: usize) -> usize {
        self.health.limit(self.cap(cap))
    }

    /// How many calls its rate allows now.
    pub(super) fn calls_allowed(&self, now_ms: i64) -> usize {
        let arrival_us = self.health.arrival_us;
        let rate = self.limits.rate;
        rate.map_or(usize::MAX, |rate| rate.calls_allowed(arrival_us, now_ms))
    }

    /// Notes that so many calls begin.
    pub(super) fn begin_calls(&mut self, calls: usize, now_ms: i64) {
        self.leases += calls;
        if let Some(rate) = self.limits.rate
            && calls > 0
        {
            let arrival_us = self.health.arrival_us;
            self.health.arrival_us = rate.after_calls(arrival_us, calls, now_ms);
            self.health.used_ms = now_ms;
        }
    }

    /// Bounds the instants of its next call and its next probe: the clock may have been set back since they were set.
    pub(super) fn bound_instants(&mut self, now_ms: i64) {
        if let Some(rate) = self.limits.rate {
            let arrival_us = self.health.arrival_us;
            self.health.arrival_us = rate.bounded(arrival_us, now_ms, CLAIMED_EARLY_MS);
        }
        self.health.bound_probe(now_ms);
    }

    /// When its first entry may be given; `None` if it has none that may.
    pub(super) fn ready_ms(&self, cap: usize) -> Option<i64> {
        let head_ms = self.waiting.first_due_ms()?;
        if self.is_held || self.leases >= self.limit(cap) {
            return None;
        }
        let rate = self.limits.rate;
        let next_call_ms = rate.map_or(0, |rate| rate.next_call_ms(self.health.arrival_us));
        Some(head_ms.max(self.health.probe_at_ms).max(next_call_ms))
    }

    /// Obeys these settings from now on.
    pub(super) fn obey(&mut self, settings: &LaneSettings) {
        self.limits = settings.limits;
        self.is_held = settings.hold.is_some();
    }
}
