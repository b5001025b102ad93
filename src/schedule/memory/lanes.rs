//! The two levels: entries in their lanes, lanes in the order in which they are served.
//!
//! Owns the fairness of a claim. A lane's place in the order is when it next has something to do;
//! a lane that is full or has nothing waiting has no place, and a backlog is one place however long
//! it is. Knows of entries only who they are and when they are due.
//!
//! A lane that is due keeps its place until it is served, and then queues up at the end: at the
//! present instant, behind the lanes that came to that instant before it. So between two turns of
//! a due lane no other is served twice.

use super::by_key::{ByKey, Timed};
use crate::domain::lane::Lane;
use crate::schedule::PER_VISIT;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Where a lane stands: by instant, then by who came there first.
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

/// All lanes that have entries waiting or leases out.
#[derive(Debug)]
pub(super) struct Lanes {
    cap: usize,
    lanes: HashMap<Arc<Lane>, Queue>,
    order: BTreeMap<LaneTurn, Arc<Lane>>,
    next_number: u64,
}

/// Why a lane's place is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneEvent {
    /// What waits in it or is leased from it has changed.
    Changed,
    /// It had its turn.
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

    /// Lets an entry wait in its lane until it is due.
    pub(super) fn add_waiting(&mut self, lane: &Lane, name: ByKey, due_ms: i64, now_ms: i64) {
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
        self.queue(lane).waiting.insert(Timed { at_ms, name });
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Takes an entry out of its lane, due or not.
    pub(super) fn remove_waiting(&mut self, lane: &Lane, name: ByKey, due_ms: i64, now_ms: i64) {
        let at_ms = due_ms;
        self.queue(lane).waiting.remove(&Timed { at_ms, name });
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Takes an entry out of its lane for a lease, due or not and whatever the cap.
    pub(super) fn start_lease(&mut self, lane: &Lane, name: ByKey, due_ms: i64, now_ms: i64) {
        self.queue(lane).leases += 1;
        self.remove_waiting(lane, name, due_ms, now_ms);
    }

    /// A lease from this lane is over.
    pub(super) fn end_lease(&mut self, lane: &Lane, now_ms: i64) {
        self.queue(lane).leases -= 1;
        self.reorder(lane, now_ms, LaneEvent::Changed);
    }

    /// Serves the lane whose turn it is: takes up to `most` and [`PER_VISIT`] of its due entries
    /// for leases. `None` if no lane is due.
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

    /// How many leases a lane has out.
    pub(super) fn leases(&self, lane: &Lane) -> usize {
        self.lanes.get(lane).map_or(0, |queue| queue.leases)
    }

    fn queue(&mut self, lane: &Lane) -> &mut Queue {
        self.lanes
            .get_mut(lane)
            .expect("invariant: a lane with entries or leases is here")
    }

    /// Puts a lane where it belongs in the order, or drops it if nothing is left of it.
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

/// Whether a lane that was not served stays where it is: it is due and waits for its turn, or its
/// first entry is due when it was before.
fn keeps_turn(turn: LaneTurn, head_ms: i64, now_ms: i64) -> bool {
    turn.at_ms == head_ms || (turn.at_ms <= now_ms && head_ms <= now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ack::AckRule;
    use crate::domain::destination::Destination;
    use crate::domain::headers::Headers;
    use crate::domain::key::Key;
    use crate::domain::ladder::Ladder;
    use crate::domain::notification::{Registration, Start};
    use crate::domain::webhook_id::WebhookId;
    use bytes::Bytes;

    fn named(id: &str) -> ByKey {
        let registration = Registration {
            key: Key::new("t", id).expect("a key"),
            destination: Destination::parse("https://shop.example/").expect("a destination"),
            body: Bytes::new(),
            content_type: String::new(),
            headers: Headers::default(),
            start: Start::After(0),
            ladder: Ladder::standard(),
            ack: AckRule::Success,
        };
        ByKey::of(&Arc::new(
            registration.accept(WebhookId::from_bytes([0; 16]), 0).0,
        ))
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
