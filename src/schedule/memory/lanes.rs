//! The two levels: entries in their lanes, lanes in the order in which they are served.
//!
//! Owns the fairness of a claim. The lanes of each class ([`LaneClass`]) are ordered by when each next has
//! something to do. A lane that is full, held or has no waiting entry is not in the order. A lane has one turn in
//! the order, however many entries wait in it. Of an entry, only its key and its due time are known here.
//!
//! A due lane keeps its turn until it is served. Then it goes behind all lanes of its class that are due now.
//! So between two turns of a due lane no other lane of its class is served twice.

mod queue;
mod readiness;
mod status;

use super::resting::RestingLanes;
use super::timed::Timed;
use super::waiting::{Precedence, WaitingEntries};
use crate::domain::deferral::LaneMoment;
use crate::domain::lane::Lane;
use crate::domain::lane_health::{CallOutcome, LaneClass, LaneHealth, LaneReport};
use crate::domain::lane_settings::{LaneLimits, LaneSetting, LaneSettings};
use crate::schedule::SET_BACK_MS;
use queue::Queue;
use readiness::LaneReadiness;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A lane's turn: ordered by instant, then by which lane got its turn first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LaneTurn {
    at_ms: i64,
    number: u64,
}

/// All lanes that have waiting entries or leases.
#[derive(Debug)]
pub(super) struct Lanes {
    start: usize,
    cap: usize,
    lanes: HashMap<Arc<Lane>, Queue>,
    /// The names of `lanes`, in order, for reading them page by page.
    names: BTreeSet<Arc<Lane>>,
    /// The lanes of each class that have something to do.
    order: [BTreeMap<LaneTurn, Arc<Lane>>; LaneClass::ALL.len()],
    /// The states of lanes that have no entries.
    resting: RestingLanes,
    /// The settings of the lanes that have any.
    settings: BTreeMap<Lane, LaneSettings>,
    /// The lanes that get nothing although they may have a turn.
    pub(super) skipped: Arc<BTreeSet<Lane>>,
    next_number: u64,
    /// When the last claim was made, in milliseconds since 1970.
    claimed_ms: i64,
}

/// What a visit of a lane gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LaneVisit {
    /// The entries that were removed from the lane, for leases.
    pub(super) taken: Vec<Timed>,
    /// What is known of the lane.
    pub(super) lane: LaneMoment,
}

/// Why a lane's turn is computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneEvent {
    /// Its waiting entries or its leases have changed.
    Changed,
    /// It was served.
    Served,
}

impl Lanes {
    /// `start` and `cap` are the smallest and the largest number of leases of a lane whose destination
    /// answers.
    pub(super) fn new(start: usize, cap: usize) -> Self {
        Self {
            start,
            cap,
            lanes: HashMap::new(),
            names: BTreeSet::new(),
            order: Default::default(),
            resting: RestingLanes::default(),
            settings: BTreeMap::new(),
            skipped: Arc::default(),
            next_number: 0,
            claimed_ms: i64::MIN,
        }
    }

    /// Adds an entry that waits in its lane until it is due.
    pub(super) fn add_waiting(
        &mut self,
        lane: &Lane,
        precedence: Precedence,
        entry: Timed,
        now_ms: i64,
    ) {
        if !self.lanes.contains_key(lane) {
            let health = self.resting.wake(lane, now_ms);
            let settings = self.settings.get(lane);
            let lane = Arc::new(lane.clone());
            let mut queue = Queue {
                lane: lane.clone(),
                waiting: WaitingEntries::default(),
                leases: 0,
                health: health.unwrap_or(LaneHealth::unknown(self.start)),
                limits: LaneLimits::default(),
                is_held: false,
                readiness: LaneReadiness::default(),
                turn: None,
            };
            if let Some(settings) = settings {
                queue.obey(settings);
            }
            self.names.insert(lane.clone());
            self.lanes.insert(lane, queue);
        }
        self.queue(lane).waiting.insert(precedence, entry);
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Removes a waiting entry from its lane, due or not.
    pub(super) fn remove_waiting(
        &mut self,
        lane: &Lane,
        precedence: Precedence,
        entry: &Timed,
        now_ms: i64,
    ) {
        self.queue(lane).waiting.remove(precedence, entry);
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Removes a waiting entry from its lane for a lease, even if it is not due or the lane is full.
    pub(super) fn start_lease(
        &mut self,
        lane: &Lane,
        precedence: Precedence,
        entry: &Timed,
        now_ms: i64,
    ) {
        self.queue(lane).leases += 1;
        self.remove_waiting(lane, precedence, entry, now_ms);
    }

    /// Ends a lease of this lane.
    pub(super) fn end_lease(&mut self, lane: &Lane, now_ms: i64) {
        self.queue(lane).leases -= 1;
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Gives the rate of a lane a call back that was not made, if the lane has entries or leases.
    pub(super) fn give_back_call(&mut self, lane: &Lane, now_ms: i64) {
        if let Some(queue) = self.lanes.get_mut(lane)
            && let Some(rate) = queue.limits.rate
        {
            queue.health.arrival_us = rate.without_a_call(queue.health.arrival_us);
            self.reorder(lane, now_ms, LaneEvent::Changed);
        }
    }

    /// Takes in a report of a lease that was given at `leased_ms`, if the lane has entries or leases. Returns since when
    /// its destination was away, if this has ended an outage.
    pub(super) fn observe(
        &mut self,
        lane: &Lane,
        report: LaneReport,
        leased_ms: i64,
        now_ms: i64,
    ) -> Option<i64> {
        let (start, cap) = (self.start, self.cap);
        let queue = self.lanes.get_mut(lane)?;
        let cap = queue.cap(cap);
        queue.bound_instants(now_ms);
        let before = queue.health;
        queue.health.observe(report, leased_ms, now_ms, start, cap);
        let has_ended = before.is_probing() && !queue.health.is_probing();
        self.reorder(lane, now_ms, LaneEvent::Changed);
        has_ended.then_some(before.failing_since_ms)
    }

    /// Takes in how a call ended, if the lane has entries or leases.
    pub(super) fn note_outcome(&mut self, lane: &Lane, outcome: CallOutcome, now_ms: i64) {
        if let Some(queue) = self.lanes.get_mut(lane) {
            queue.health.note_outcome(outcome, now_ms);
        }
    }

    /// Changes the settings of a lane.
    pub(super) fn configure(&mut self, lane: &Lane, setting: LaneSetting, now_ms: i64) {
        let mut settings = self.settings.remove(lane).unwrap_or_default();
        let held_ms = settings.hold.as_ref().map(|hold| hold.since_ms);
        settings.apply(setting);
        let released_ms = held_ms.filter(|_| settings.hold.is_none());
        let adopt = |health: &mut LaneHealth| {
            if let Some(since_ms) = released_ms {
                health.release(since_ms, now_ms);
            }
            if let Some(rate) = settings.limits.rate {
                health.arrival_us = rate.adopted(health.arrival_us, now_ms);
            }
        };
        if let Some(queue) = self.lanes.get_mut(lane) {
            queue.obey(&settings);
            adopt(&mut queue.health);
            self.reorder(lane, now_ms, LaneEvent::Changed);
        } else if let Some(mut health) = self.resting.wake(lane, now_ms) {
            adopt(&mut health);
            self.resting.rest(Arc::new(lane.clone()), health, now_ms);
        }
        if settings != LaneSettings::default() {
            self.settings.insert(lane.clone(), settings);
        }
    }

    /// Notes that a claim is made now. If the clock was set back since the last one, the turns of lanes may be as much too
    /// late, and all are computed anew. That takes a few steps for each lane.
    pub(super) fn begin_claim(&mut self, now_ms: i64) {
        let before_ms = std::mem::replace(&mut self.claimed_ms, now_ms);
        if before_ms <= now_ms.saturating_add(SET_BACK_MS) {
            return;
        }
        let lanes: Vec<Arc<Lane>> = self.names.iter().cloned().collect();
        for lane in lanes {
            self.reorder(&lane, now_ms, LaneEvent::Changed);
        }
    }

    /// Serves the lane of this class whose turn is first: removes some of its due entries, which the caller
    /// leases. These are at most `most`, and at most as many as the lane's limit leaves free and its rate allows.
    /// `None` if no lane of the class is due, apart from those that are skipped.
    pub(super) fn visit(
        &mut self,
        class: LaneClass,
        most: usize,
        now_ms: i64,
    ) -> Option<LaneVisit> {
        let (turn, lane) = self.first(class)?;
        if turn.at_ms > now_ms {
            return None;
        }
        let lane = lane.clone();
        let cap = self.cap;
        let queue = self.queue(&lane);
        let free = queue.limit(cap).saturating_sub(queue.leases).min(most);
        let free = free.min(queue.calls_allowed(now_ms));
        let taken = queue.waiting.take_due(free, now_ms);
        let rate = queue.limits.rate;
        let is_full = queue.leases + taken.len() >= queue.limit(cap);
        let moment = LaneMoment {
            pauses: queue.health.pauses_until(now_ms),
            rate_until_ms: rate.map_or(0, |rate| rate.next_call_ms(queue.health.arrival_us)),
            is_full,
            ready_ms: queue.readiness.of_late(&taken, is_full, now_ms),
        };
        queue.begin_calls(taken.len(), now_ms);
        self.reorder(&lane, now_ms, LaneEvent::Served);
        Some(LaneVisit {
            taken,
            lane: moment,
        })
    }

    /// When a lane of this class next has something to do. Those that are skipped do not count.
    pub(super) fn next_ms(&self, class: LaneClass) -> Option<i64> {
        self.first(class).map(|(turn, _)| turn.at_ms)
    }

    /// The first lane of this class that is not skipped.
    fn first(&self, class: LaneClass) -> Option<(&LaneTurn, &Arc<Lane>)> {
        let mut order = self.order[class as usize].iter();
        order.find(|(_, lane)| !self.skipped.contains(&***lane))
    }

    /// Number of leases of a lane.
    pub(super) fn leases(&self, lane: &Lane) -> usize {
        self.lanes.get(lane).map_or(0, |queue| queue.leases)
    }

    fn queue(&mut self, lane: &Lane) -> &mut Queue {
        self.lanes
            .get_mut(lane)
            .expect("invariant: a lane with entries or leases is here")
    }

    /// Updates a lane's turn in the order, or drops a lane without entries and leases.
    fn reorder(&mut self, lane: &Lane, now_ms: i64, event: LaneEvent) {
        let (number, cap) = (self.next_number, self.cap);
        let queue = self.queue(lane);
        queue.bound_instants(now_ms);
        let class = queue.health.class(queue.leases);
        let (is_full, ready_ms) = (queue.leases >= queue.limit(cap), queue.ready_ms(cap));
        queue.readiness.note(is_full, ready_ms, now_ms);
        let wanted = ready_ms.map(|ready_ms| {
            let turn = match queue.turn {
                Some((_, turn))
                    if event == LaneEvent::Changed && keeps_turn(turn, ready_ms, now_ms) =>
                {
                    turn
                }
                Some(_) | None => LaneTurn {
                    at_ms: ready_ms.max(now_ms),
                    number,
                },
            };
            (class, turn)
        });
        let gone = queue.waiting.is_empty() && queue.leases == 0;
        let (name, health) = (queue.lane.clone(), queue.health);
        let before = std::mem::replace(&mut queue.turn, wanted);
        if before != wanted {
            if let Some((class, turn)) = before {
                self.order[class as usize].remove(&turn);
            }
            if let Some((class, turn)) = wanted {
                self.order[class as usize].insert(turn, name.clone());
                self.next_number += 1;
            }
        }
        if gone {
            self.lanes.remove(lane);
            self.names.remove(lane);
            self.resting.rest(name, health, now_ms);
        }
    }
}

/// Whether a lane that was not served keeps its turn: it is due already, or the time when it is ready has
/// not changed.
fn keeps_turn(turn: LaneTurn, ready_ms: i64, now_ms: i64) -> bool {
    turn.at_ms == ready_ms || (turn.at_ms <= now_ms && ready_ms <= now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::key::Key;

    fn entry(id: &str, at_ms: i64) -> Timed {
        Timed {
            at_ms,
            key: Key::new("t", id).expect("a key"),
        }
    }

    #[test]
    fn nothing_is_left_of_a_lane_that_is_done_with() {
        let shop = Lane::from_name("https://shop.example");
        let mut lanes = Lanes::new(1, 1);
        let precedence = Precedence::default();
        lanes.add_waiting(&shop, precedence, entry("1", 5), 0);
        lanes.add_waiting(&shop, precedence, entry("2", 9), 0);
        lanes.remove_waiting(&shop, precedence, &entry("2", 9), 0);
        let class = LaneClass::Doubtful;
        assert_eq!(lanes.visit(class, 9, 4), None);
        assert_eq!(
            lanes.visit(class, 9, 5).map(|visit| visit.taken.len()),
            Some(1)
        );
        assert_eq!((lanes.leases(&shop), lanes.lanes.len()), (1, 1));
        lanes.end_lease(&shop, 5);
        assert!(lanes.lanes.is_empty() && lanes.order.iter().all(BTreeMap::is_empty));
        assert_eq!(lanes.next_ms(class), None);
    }
}
