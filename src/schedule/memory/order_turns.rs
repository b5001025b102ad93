//! Which entry of each order key is in flight, and which wait for it.

use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::notification::Notification;
use crate::domain::order::OrderMode;
use std::collections::{BTreeSet, HashMap};

/// The order keys that have an entry in flight, or one that waits for another.
#[derive(Debug, Default)]
pub(super) struct OrderTurns(HashMap<(Lane, Box<str>), OrderTurn>);

#[derive(Debug, Default)]
struct OrderTurn {
    /// The entry that was claimed last. Its lease may have ended.
    holder: Option<Key>,
    /// The entries that wait, by number.
    waiting: BTreeSet<(i64, Key)>,
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
        }
    }

    /// Notes that an entry waits for another one.
    pub(super) fn wait(&mut self, notification: &Notification) {
        if let (Some(group), Some(number)) = (group_of(notification), number_of(notification)) {
            let turn = self.0.entry(group).or_default();
            turn.waiting.insert((number, notification.key.clone()));
        }
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

    /// Removes and returns the entry that is next after this one: the lowest number of a strict order, else the highest.
    pub(super) fn next(&mut self, notification: &Notification) -> Option<Key> {
        let mode = notification.order.as_ref()?.mode();
        let turn = self.0.get_mut(&group_of(notification)?)?;
        let next = match mode {
            OrderMode::Strict => turn.waiting.pop_first(),
            OrderMode::Latest => turn.waiting.pop_last(),
        };
        next.map(|(_, key)| key)
    }

    /// Forgets that an entry waits.
    pub(super) fn forget(&mut self, notification: &Notification) {
        if let (Some(group), Some(number)) = (group_of(notification), number_of(notification))
            && let Some(turn) = self.0.get_mut(&group)
        {
            turn.waiting.remove(&(number, notification.key.clone()));
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
