//! Which entry of each order key is in flight, and which wait for it.

use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
use crate::domain::order::OrderPlace;
use std::collections::{BTreeSet, HashMap};

/// The order keys that have an entry in flight, or one that waits for another.
#[derive(Debug, Default)]
pub(super) struct OrderTurns(HashMap<(Lane, Box<str>), OrderTurn>);

#[derive(Debug, Default)]
struct OrderTurn {
    /// The entry that was claimed last. Its lease may have ended.
    holder: Option<Key>,
    /// Whether another entry has ended since then.
    other_ended: bool,
    /// The entries that wait, by number.
    waiting: BTreeSet<(i64, Key)>,
}

/// An entry and its place in an order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) lane: &'a Lane,
    pub(super) key: &'a Key,
    pub(super) order: &'a OrderPlace,
}

impl<'a> Placed<'a> {
    /// `None` if it has no place in an order.
    pub(super) fn of(notification: &'a Notification) -> Option<Self> {
        Some(Self {
            lane: &notification.lane,
            key: &notification.key,
            order: notification.order.as_ref()?,
        })
    }

    fn group(self) -> (Lane, Box<str>) {
        (self.lane.clone(), self.order.key().into())
    }

    fn in_group(self) -> (i64, Key) {
        (self.order.number(), self.key.clone())
    }
}

/// Which waiting entry of an order key is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Lowest,
    Highest,
    /// The lowest of those with lower numbers.
    LowerThanOwn,
    /// The highest of those with higher numbers.
    HigherThanOwn,
}

impl OrderTurns {
    /// Which entry of the order key of this one was claimed last, if it is another one.
    pub(super) fn other_holder(&self, placed: Placed<'_>) -> Option<&Key> {
        let holder = self.0.get(&placed.group())?.holder.as_ref()?;
        (holder != placed.key).then_some(holder)
    }

    /// Notes that an entry was claimed.
    pub(super) fn hold(&mut self, placed: Placed<'_>) {
        let turn = self.0.entry(placed.group()).or_default();
        turn.waiting.remove(&placed.in_group());
        turn.holder = Some(placed.key.clone());
        turn.other_ended = false;
    }

    /// Notes that an entry waits for another one.
    pub(super) fn wait(&mut self, placed: Placed<'_>) {
        let turn = self.0.entry(placed.group()).or_default();
        turn.waiting.insert(placed.in_group());
    }

    /// Notes that an entry has ended, which does not wait any more. The one that holds the turn may have asked the journal
    /// before that.
    pub(super) fn end(&mut self, placed: Placed<'_>) {
        if let Some(turn) = self.0.get_mut(&placed.group()) {
            turn.waiting.remove(&placed.in_group());
            let holder = turn.holder.as_ref();
            turn.other_ended |= holder.is_some_and(|holder| holder != placed.key);
        }
    }

    /// Whether an entry holds the turn and another one has ended since it was claimed.
    pub(super) fn has_missed_an_end(&self, placed: Placed<'_>) -> bool {
        let turn = self.0.get(&placed.group());
        turn.is_some_and(|turn| turn.other_ended && turn.holder.as_ref() == Some(placed.key))
    }

    /// Notes that the lease of an entry has ended.
    pub(super) fn release(&mut self, placed: Placed<'_>) {
        let group = placed.group();
        if let Some(turn) = self.0.get_mut(&group) {
            turn.holder.take_if(|holder| holder == placed.key);
            if turn.waiting.is_empty() && turn.holder.is_none() {
                self.0.remove(&group);
            }
        }
    }

    /// A waiting entry of the order key of this one, with its number.
    pub(super) fn waiting(&self, placed: Placed<'_>, wanted: Wanted) -> Option<(i64, Key)> {
        let own = placed.order.number();
        let waiting = &self.0.get(&placed.group())?.waiting;
        let found = match wanted {
            Wanted::Lowest => waiting.first(),
            Wanted::Highest => waiting.last(),
            Wanted::LowerThanOwn => waiting.first().filter(|(number, _)| *number < own),
            Wanted::HigherThanOwn => waiting.last().filter(|(number, _)| *number > own),
        };
        found.cloned()
    }

    /// Forgets that an entry of the order key of this one waits.
    pub(super) fn forget(&mut self, placed: Placed<'_>, waiting: &(i64, Key)) {
        if let Some(turn) = self.0.get_mut(&placed.group()) {
            turn.waiting.remove(waiting);
        }
    }
}
