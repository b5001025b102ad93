//! The entries of one lane that wait, in the order in which they are served.

use super::timed::Timed;
use crate::domain::priority::Priority;
use crate::schedule::Entry;
use std::collections::BTreeSet;

/// Before which others of its lane a due entry is served: those of a lower priority, and of its own priority those of
/// which no attempt was requested by hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Precedence {
    priority: Priority,
    is_requested: bool,
}

impl Precedence {
    /// That of an entry which waits until it is due.
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            priority: entry.notification.priority,
            is_requested: entry.progress.retry_at_ms.is_some(),
        }
    }

    /// That of an entry which was put off: a requested attempt does not go first then.
    pub(super) fn of_deferred(entry: &Entry) -> Self {
        Self {
            priority: entry.notification.priority,
            is_requested: false,
        }
    }

    fn rank(self) -> usize {
        2 * self.priority as usize + usize::from(!self.is_requested)
    }
}

/// The waiting entries of a lane: by precedence, and those of the same precedence by due time.
#[derive(Debug, Default)]
pub(super) struct WaitingEntries {
    by_rank: [BTreeSet<Timed>; 2 * Priority::ALL.len()],
}

impl WaitingEntries {
    pub(super) fn insert(&mut self, precedence: Precedence, entry: Timed) {
        self.by_rank[precedence.rank()].insert(entry);
    }

    pub(super) fn remove(&mut self, precedence: Precedence, entry: &Timed) {
        self.by_rank[precedence.rank()].remove(entry);
    }

    /// When the first of them is due, whatever its precedence.
    pub(super) fn first_due_ms(&self) -> Option<i64> {
        let heads = self.by_rank.iter().filter_map(BTreeSet::first);
        heads.map(|head| head.at_ms).min()
    }

    /// Removes and returns those that are due, `most` at most, by precedence.
    pub(super) fn take_due(&mut self, most: usize, now_ms: i64) -> Vec<Timed> {
        let mut taken = Vec::with_capacity(most.min(self.len()));
        for waiting in &mut self.by_rank {
            while taken.len() < most && waiting.first().is_some_and(|head| head.at_ms <= now_ms) {
                taken.extend(waiting.pop_first());
            }
        }
        taken
    }

    pub(super) fn len(&self) -> usize {
        self.by_rank.iter().map(BTreeSet::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_rank.iter().all(BTreeSet::is_empty)
    }

    /// How many are due.
    pub(super) fn due(&self, now_ms: i64) -> usize {
        self.by_rank.iter().map(|one| due(one, now_ms)).sum()
    }
}

/// The number of entries that are due. Counts from both ends, so it takes at most half as many steps as there are
/// entries.
fn due(waiting: &BTreeSet<Timed>, now_ms: i64) -> usize {
    let (mut front, mut back) = (waiting.iter(), waiting.iter().rev());
    let mut counted = 0;
    loop {
        match front.next() {
            Some(entry) if entry.at_ms <= now_ms => {}
            Some(_) | None => return counted,
        }
        match back.next() {
            Some(entry) if entry.at_ms > now_ms => counted += 1,
            Some(_) | None => return waiting.len() - counted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::key::Key;

    #[test]
    fn what_goes_first_comes_first_and_only_what_is_due() {
        let mut waiting = WaitingEntries::default();
        let entry = |id: &str, at_ms| Timed {
            at_ms,
            key: Key::new("t", id).expect("a key"),
        };
        let precedence = |priority, is_requested| Precedence {
            priority,
            is_requested,
        };
        for (priority, is_requested, id, at_ms) in [
            (Priority::Low, false, "low", 1),
            (Priority::Low, true, "low, requested", 2),
            (Priority::Normal, false, "normal", 2),
            (Priority::Normal, true, "normal, requested", 3),
            (Priority::High, false, "high", 3),
            (Priority::High, true, "later", 9),
        ] {
            waiting.insert(precedence(priority, is_requested), entry(id, at_ms));
        }
        assert_eq!(waiting.first_due_ms(), Some(1));
        assert_eq!((waiting.due(3), waiting.len()), (5, 6));
        let taken = waiting.take_due(2, 3);
        assert_eq!(taken, [entry("high", 3), entry("normal, requested", 3)]);
        let rest = [
            entry("normal", 2),
            entry("low, requested", 2),
            entry("low", 1),
        ];
        assert_eq!(waiting.take_due(9, 3), rest);
        waiting.remove(precedence(Priority::High, true), &entry("later", 9));
        assert!(waiting.is_empty());
    }
}
