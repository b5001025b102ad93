//! The entries of one lane that wait, in the order in which they are served.

use super::timed::Timed;
use crate::domain::priority::Priority;
use std::collections::BTreeSet;

/// The waiting entries of a lane: by priority, and those of one priority by due time.
#[derive(Debug, Default)]
pub(super) struct WaitingEntries {
    by_priority: [BTreeSet<Timed>; Priority::ALL.len()],
}

impl WaitingEntries {
    pub(super) fn insert(&mut self, priority: Priority, entry: Timed) {
        self.by_priority[priority as usize].insert(entry);
    }

    pub(super) fn remove(&mut self, priority: Priority, entry: &Timed) {
        self.by_priority[priority as usize].remove(entry);
    }

    /// When the first of them is due, whatever its priority.
    pub(super) fn first_due_ms(&self) -> Option<i64> {
        let heads = self.by_priority.iter().filter_map(BTreeSet::first);
        heads.map(|head| head.at_ms).min()
    }

    /// Removes and returns those that are due, `most` at most: the higher priorities first.
    pub(super) fn take_due(&mut self, most: usize, now_ms: i64) -> Vec<Timed> {
        let mut taken = Vec::with_capacity(most.min(self.len()));
        for waiting in &mut self.by_priority {
            while taken.len() < most && waiting.first().is_some_and(|head| head.at_ms <= now_ms) {
                taken.extend(waiting.pop_first());
            }
        }
        taken
    }

    pub(super) fn len(&self) -> usize {
        self.by_priority.iter().map(BTreeSet::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_priority.iter().all(BTreeSet::is_empty)
    }

    /// How many are due.
    pub(super) fn due(&self, now_ms: i64) -> usize {
        self.by_priority.iter().map(|one| due(one, now_ms)).sum()
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
    fn higher_priorities_come_first_and_only_what_is_due() {
        let mut waiting = WaitingEntries::default();
        let entry = |id: &str, at_ms| Timed {
            at_ms,
            key: Key::new("t", id).expect("a key"),
        };
        for (priority, id, at_ms) in [
            (Priority::Low, "low", 1),
            (Priority::Normal, "normal", 2),
            (Priority::High, "high", 3),
            (Priority::High, "later", 9),
        ] {
            waiting.insert(priority, entry(id, at_ms));
        }
        assert_eq!(waiting.first_due_ms(), Some(1));
        assert_eq!((waiting.due(3), waiting.len()), (3, 4));
        let taken = waiting.take_due(2, 3);
        assert_eq!(taken, [entry("high", 3), entry("normal", 2)]);
        assert_eq!(waiting.take_due(2, 3), [entry("low", 1)]);
        waiting.remove(Priority::High, &entry("later", 9));
        assert!(waiting.is_empty());
    }
}
