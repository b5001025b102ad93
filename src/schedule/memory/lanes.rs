//! The two levels: entries in their lanes, lanes in the order in which they are served.
//!
//! Owns the fairness of a claim. The lanes are ordered by when each next has something to do. A lane
//! that is full or has no waiting entry is not in the order. A lane has one turn in the order, however
//! many entries wait in it. Of an entry, only its key and its due time are known here.
//!
//! A due lane keeps its turn until it is served. Then it goes behind all lanes that are due now. So between
//! two turns of a due lane no other lane is served twice.

use super::timed::Timed;
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::schedule::PER_VISIT;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A lane's turn: ordered by instant, then by which lane got its turn first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LaneTurn {
    at_ms: i64,
    number: u64,
}

/// One lane.
#[derive(Debug)]
struct Queue {
    lane: Arc<Lane>,
    waiting: BTreeSet<Timed>,
    leases: usize,
    turn: Option<LaneTurn>,
}

/// All lanes that have waiting entries or leases.
#[derive(Debug)]
pub(super) struct Lanes {
    cap: usize,
    lanes: HashMap<Arc<Lane>, Queue>,
    order: BTreeMap<LaneTurn, Arc<Lane>>,
    next_number: u64,
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
    pub(super) fn new(cap: usize) -> Self {
        Self {
            cap,
            lanes: HashMap::new(),
            order: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// Adds an entry that waits in its lane until it is due.
    pub(super) fn add_waiting(&mut self, lane: &Lane, key: Key, due_ms: i64, now_ms: i64) {
        if !self.lanes.contains_key(lane) {
            let lane = Arc::new(lane.clone());
            let queue = Queue {
                lane: lane.clone(),
                waiting: BTreeSet::new(),
                leases: 0,
                turn: None,
            };
            self.lanes.insert(lane, queue);
        }
        let at_ms = due_ms;
        self.queue(lane).waiting.insert(Timed { at_ms, key });
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Removes a waiting entry from its lane, due or not.
    pub(super) fn remove_waiting(&mut self, lane: &Lane, key: Key, due_ms: i64, now_ms: i64) {
        let at_ms = due_ms;
        self.queue(lane).waiting.remove(&Timed { at_ms, key });
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Removes a waiting entry from its lane for a lease, even if it is not due or the lane is full.
    pub(super) fn start_lease(&mut self, lane: &Lane, key: Key, due_ms: i64, now_ms: i64) {
        self.queue(lane).leases += 1;
        self.remove_waiting(lane, key, due_ms, now_ms);
    }

    /// Ends a lease of this lane.
    pub(super) fn end_lease(&mut self, lane: &Lane, now_ms: i64) {
        self.queue(lane).leases -= 1;
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Serves the lane whose turn is first: removes some of its due entries, which the caller leases. These are
    /// at most `most`, at most [`PER_VISIT`], and at most as many as the cap leaves free. `None` if no lane is
    /// due.
    pub(super) fn visit(&mut self, most: usize, now_ms: i64) -> Option<Vec<Timed>> {
        let (turn, lane) = self.order.first_key_value()?;
        if turn.at_ms > now_ms {
            return None;
        }
        let lane = lane.clone();
        let cap = self.cap;
        let queue = self.queue(&lane);
        let free = cap.saturating_sub(queue.leases).min(PER_VISIT).min(most);
        let mut taken = Vec::with_capacity(free);
        while taken.len() < free
            && queue
                .waiting
                .first()
                .is_some_and(|head| head.at_ms <= now_ms)
        {
            taken.extend(queue.waiting.pop_first());
        }
        queue.leases += taken.len();
        self.reorder(&lane, now_ms, LaneEvent::Served);
        Some(taken)
    }

    /// When a lane next has something to do.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.order.first_key_value().map(|(turn, _)| turn.at_ms)
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
        let cap = self.cap;
        let number = self.next_number;
        let queue = self.queue(lane);
        let head_ms = queue.waiting.first().map(|head| head.at_ms);
        let wanted = match head_ms {
            Some(head_ms) if queue.leases < cap => Some(match queue.turn {
                Some(turn) if event == LaneEvent::Changed && keeps_turn(turn, head_ms, now_ms) => {
                    turn
                }
                Some(_) | None => LaneTurn {
                    at_ms: head_ms.max(now_ms),
                    number,
                },
            }),
            Some(_) | None => None,
        };
        let gone = head_ms.is_none() && queue.leases == 0;
        let name = queue.lane.clone();
        let before = std::mem::replace(&mut queue.turn, wanted);
        if before != wanted {
            if let Some(turn) = before {
                self.order.remove(&turn);
            }
            if let Some(turn) = wanted {
                self.order.insert(turn, name);
                self.next_number += 1;
            }
        }
        if gone {
            self.lanes.remove(lane);
        }
    }
}

/// Whether a lane that was not served keeps its turn: it is due already, or the due time of its first
/// entry has not changed.
fn keeps_turn(turn: LaneTurn, head_ms: i64, now_ms: i64) -> bool {
    turn.at_ms == head_ms || (turn.at_ms <= now_ms && head_ms <= now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(id: &str) -> Key {
        Key::new("t", id).expect("a key")
    }

    #[test]
    fn nothing_is_left_of_a_lane_that_is_done_with() {
        let shop = Lane::from_name("https://shop.example");
        let mut lanes = Lanes::new(1);
        lanes.add_waiting(&shop, named("1"), 5, 0);
        lanes.add_waiting(&shop, named("2"), 9, 0);
        lanes.remove_waiting(&shop, named("2"), 9, 0);
        assert_eq!(lanes.visit(9, 4), None);
        assert_eq!(lanes.visit(9, 5).map(|taken| taken.len()), Some(1));
        assert_eq!((lanes.leases(&shop), lanes.lanes.len()), (1, 1));
        lanes.end_lease(&shop, 5);
        assert_eq!((lanes.lanes.len(), lanes.order.len()), (0, 0));
        assert_eq!(lanes.next_ms(), None);
    }
}
