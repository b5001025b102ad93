//! Which entry of each order key is in flight, and which wait for it.

use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
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
    pub(super) fn other_holder(&self, notification: &Notification) -> Option<&Key> {
        let holder = self.0.get(&group_of(notification)?)?.holder.as_ref()?;
        (*holder != notification.key).then_some(holder)
    }

    /// Notes that an entry was claimed.
    pub(super) fn hold(&mut self, notification: &Notification) {
        if let (Some(group), Some(number)) = (group_of(notification), number_of(notification)) {
            let turn = self.0.entry(group).or_default();
            turn.waiting.remove(&(number, notification.key.clone()));
            turn.holder = Some(notification.key.clone());
            turn.other_ended = false;
        }
    }

    /// Notes that an entry waits for another one.
    pub(super) fn wait(&mut self, notification: &Notification) {
        if let (Some(group), Some(number)) = (group_of(notification), number_of(notification)) {
            let turn = self.0.entry(group).or_default();
            turn.waiting.insert((number, notification.key.clone()));
        }
    }

    /// Notes that an entry has ended: the one that holds the turn may have asked the journal before that.
    pub(super) fn end(&mut self, notification: &Notification) {
        if let Some(turn) = group_of(notification).and_then(|group| self.0.get_mut(&group)) {
            let holder = turn.holder.as_ref();
            turn.other_ended |= holder.is_some_and(|holder| *holder != notification.key);
        }
    }

    /// Whether an entry holds the turn and another one has ended since it was claimed.
    pub(super) fn has_missed_an_end(&self, notification: &Notification) -> bool {
        let turn = group_of(notification).and_then(|group| self.0.get(&group));
        turn.is_some_and(|turn| turn.other_ended && turn.holder.as_ref() == Some(&notification.key))
    }

    /// Notes that the lease of an entry has ended.
    pub(super) fn release(&mut self, notification: &Notification) {
        let Some(group) = group_of(notification) else {
            return;
        };
        if let Some(turn) = self.0.get_mut(&group) {
            turn.holder.take_if(|holder| *holder == notification.key);
            if turn.waiting.is_empty() && turn.holder.is_none() {
                self.0.remove(&group);
            }
        }
    }

    /// A waiting entry of the order key of this one, with its number.
    pub(super) fn waiting(
        &self,
        notification: &Notification,
        wanted: Wanted,
    ) -> Option<(i64, Key)> {
        let own = number_of(notification)?;
        let waiting = &self.0.get(&group_of(notification)?)?.waiting;
        let found = match wanted {
            Wanted::Lowest => waiting.first(),
            Wanted::Highest => waiting.last(),
            Wanted::LowerThanOwn => waiting.first().filter(|(number, _)| *number < own),
            Wanted::HigherThanOwn => waiting.last().filter(|(number, _)| *number > own),
        };
        found.cloned()
    }

    /// Forgets that an entry of the order key of this one waits.
    pub(super) fn forget(&mut self, notification: &Notification, waiting: &(i64, Key)) {
        if let Some(turn) = group_of(notification).and_then(|group| self.0.get_mut(&group)) {
            turn.waiting.remove(waiting);
        }
    }
}

fn group_of(notification: &Notification) -> Option<(Lane, Box<str>)> {
    let order = notification.order.as_ref()?;
    Some((notification.lane.clone(), order.key().into()))
}

fn number_of(notification: &Notification) -> Option<i64> {
    notification.order.as_ref().map(|order| order.number())
}
