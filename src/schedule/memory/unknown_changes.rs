//! Unknown changes: keys without an entry, for which it is not known whether a change by hand was written.
//!
//! The journal may still write the change. So if an entry is put in under such a key, the fence of the
//! notification is raised before it is sent. No call to a journal lasts longer than [`UNKNOWN_CHANGE_MS`], so
//! older keys are removed.

use crate::domain::key::Key;
use crate::schedule::UNKNOWN_CHANGE_MS;
use std::collections::{HashMap, VecDeque};

/// The keys, and when each was added.
#[derive(Debug, Default)]
pub(super) struct UnknownChanges {
    since: HashMap<Key, i64>,
    /// In the order in which they were added. Keys that were removed or added again are still in it.
    order: VecDeque<(i64, Key)>,
}

impl UnknownChanges {
    /// Adds a key, and forgets those that were added more than [`UNKNOWN_CHANGE_MS`] ago.
    pub(super) fn add(&mut self, key: Key, now_ms: i64) {
        while let Some((since_ms, oldest)) = self.order.front() {
            if *since_ms >= now_ms - UNKNOWN_CHANGE_MS {
                break;
            }
            if self.since.get(oldest) == Some(since_ms) {
                self.since.remove(oldest);
            }
            self.order.pop_front();
        }
        self.since.insert(key.clone(), now_ms);
        self.order.push_back((now_ms, key));
    }

    /// Removes a key; returns whether it was in the list.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.since.remove(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> Key {
        Key::new("t", id).expect("a key")
    }

    #[test]
    fn a_key_is_remembered_for_an_hour() {
        let mut changes = UnknownChanges::default();
        changes.add(key("1"), 0);
        changes.add(key("2"), 0);
        changes.add(key("2"), 10);
        changes.add(key("3"), UNKNOWN_CHANGE_MS);
        assert!(changes.remove(&key("1")), "still");
        assert!(!changes.remove(&key("1")), "removed");
        changes.add(key("1"), UNKNOWN_CHANGE_MS);
        changes.add(key("4"), UNKNOWN_CHANGE_MS + 10);
        assert_eq!(changes.order.len(), 4, "2, 3, 1, 4");
        assert!(changes.remove(&key("2")), "it came again later");
        changes.add(key("5"), 2 * UNKNOWN_CHANGE_MS);
        changes.add(key("6"), 2 * UNKNOWN_CHANGE_MS + 11);
        assert!(!changes.remove(&key("4")), "over");
        assert_eq!(changes.since.len(), 2, "5 and 6");
        assert_eq!(changes.order.len(), 2);
    }
}
