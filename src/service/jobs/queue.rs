//! The notifications of a job whose turn comes: those that were read, and those that wait for the end of an attempt.
//!
//! The journal keeps up to where all had their turn except those that wait, and those that wait. The next server goes on
//! there, so none is left out, and none that was counted has another turn. Servers of the version before know only a place
//! that stands before the first one that waits.

use crate::domain::key::Key;
use crate::journal::{Cursor, JobPage};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maximum number of notifications that wait for the end of an attempt. If there are more, nothing is begun before some
/// of them have had their turn.
const MOST_WAITING: usize = 1_000;
/// After this time, it is tried again with a notification that waits.
const AGAIN: Duration = Duration::from_secs(1);

/// A notification whose turn it is.
#[derive(Debug, Clone)]
pub(super) struct QueuedTurn {
    pub(super) key: Key,
    place: Cursor,
    /// The place before it.
    before: Option<Cursor>,
    /// When its turn came first.
    since: Instant,
    again_at: Instant,
    /// Whether the journal knows that it waits.
    is_waiting: bool,
}

/// What changes by a step about those that wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WaitingChange {
    /// Those that begin to wait.
    pub(super) begin: Vec<(Key, Cursor)>,
    /// The places of those that wait no longer.
    pub(super) end: Vec<Cursor>,
    /// Those that have waited for too long.
    pub(super) too_long: Vec<Key>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct JobQueue {
    /// What was read and has not had its turn, each with its place.
    ahead: VecDeque<(Key, Cursor)>,
    /// Where the next page begins; `None` at the beginning.
    read_to: Option<Cursor>,
    /// Whether all pages were read.
    is_read: bool,
    /// The place of the last one that was taken from `ahead`.
    passed: Option<Cursor>,
    /// Those that wait, by their places.
    waiting: Vec<QueuedTurn>,
}

impl JobQueue {
    /// Goes on where a job stands: behind `place` all except those that wait had their turn up to `passed`.
    pub(super) fn resumed(
        place: Option<Cursor>,
        passed: Option<Cursor>,
        waiting: Vec<(Key, Cursor)>,
        now: Instant,
    ) -> Self {
        // If `place` is ahead, a server of the version before has gone on from it, and nothing waits before it any more.
        let passed = [place, passed].into_iter().flatten();
        let passed = passed.max_by_key(|place| in_order(*place));
        let is_left = |at: Cursor| place.is_none_or(|place| in_order(at) > in_order(place));
        let mut before = place;
        let waiting = waiting.into_iter().filter(|(_, at)| is_left(*at));
        let waiting = waiting.map(|(key, place)| QueuedTurn {
            key,
            place,
            before: before.replace(place),
            since: now,
            again_at: now,
            is_waiting: true,
        });
        Self {
            waiting: waiting.collect(),
            ahead: VecDeque::new(),
            read_to: passed,
            is_read: false,
            passed,
        }
    }

    /// The place at which the next page has to be read; `None` if there is still something to do.
    pub(super) fn page_to_read(&self) -> Option<Option<Cursor>> {
        (!self.is_read && self.ahead.is_empty()).then_some(self.read_to)
    }

    pub(super) fn add_page(&mut self, page: JobPage) {
        self.ahead.extend(page.found);
        self.is_read = page.next.is_none();
        self.read_to = page.next.or(self.read_to);
    }

    /// Takes up to `most` whose turn it is: first those that have waited.
    pub(super) fn take(&mut self, most: usize, now: Instant) -> Vec<QueuedTurn> {
        let mut turns = Vec::new();
        let mut place = 0;
        while place < self.waiting.len() && turns.len() < most {
            match self.waiting[place].again_at <= now {
                true => turns.push(self.waiting.remove(place)),
                false => place += 1,
            }
        }
        while turns.len() < most && self.waiting.len() < MOST_WAITING {
            let Some((key, place)) = self.ahead.pop_front() else {
                break;
            };
            turns.push(QueuedTurn {
                key,
                place,
                before: self.passed.replace(place),
                since: now,
                again_at: now,
                is_waiting: false,
            });
        }
        turns
    }

    /// Lets notifications wait whose attempts are in flight, of those that had their turn.
    pub(super) fn put_back(
        &mut self,
        turns: Vec<QueuedTurn>,
        in_flight: &[Key],
        longest: Duration,
        now: Instant,
    ) -> WaitingChange {
        let mut change = WaitingChange::default();
        for mut turn in turns {
            let is_in_flight = in_flight.contains(&turn.key);
            let waits = is_in_flight && now.duration_since(turn.since) <= longest;
            match (waits, turn.is_waiting) {
                (true, false) => change.begin.push((turn.key.clone(), turn.place)),
                (false, true) => change.end.push(turn.place),
                (true, true) | (false, false) => {}
            }
            if !waits {
                if is_in_flight {
                    change.too_long.push(turn.key);
                }
                continue;
            }
            turn.is_waiting = true;
            turn.again_at = now + AGAIN;
            let at = |one: &QueuedTurn| in_order(one.place) < in_order(turn.place);
            let place = self.waiting.partition_point(at);
            self.waiting.insert(place, turn);
        }
        change
    }

    /// Up to where everything had its turn except what waits. `None`: the job stays where it is.
    pub(super) fn passed(&self) -> Option<Cursor> {
        let read = self.read_to.filter(|_| self.ahead.is_empty());
        let places = [self.passed, read].into_iter().flatten();
        places.max_by_key(|place| in_order(*place))
    }

    /// Up to where everything has had its turn. `None`: the job stays where it is.
    pub(super) fn place(&self) -> Option<Cursor> {
        match self.waiting.first() {
            Some(first) => first.before,
            None => self.passed(),
        }
    }

    /// Whether everything has had its turn.
    pub(super) fn is_over(&self) -> bool {
        self.is_read && self.ahead.is_empty() && self.waiting.is_empty()
    }

    /// When the next one that waits has its turn again, if all that was read waits.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.waiting.iter().map(|turn| turn.again_at).min()
    }
}

fn in_order(place: Cursor) -> (i64, i64) {
    (place.at_ms, place.row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    fn at(row: i64) -> Cursor {
        Cursor { at_ms: 7, row }
    }

    fn key(row: i64) -> Key {
        Key::new("t", &row.to_string()).expect("a key")
    }

    fn page(rows: std::ops::Range<i64>, next: Option<Cursor>) -> JobPage {
        JobPage {
            found: rows.map(|row| (key(row), at(row))).collect(),
            next,
        }
    }

    fn keys(turns: &[QueuedTurn]) -> Vec<Key> {
        turns.iter().map(|turn| turn.key.clone()).collect()
    }

    #[test]
    fn the_job_never_stands_behind_what_waits() {
        let mut queue = JobQueue::resumed(None, None, Vec::new(), Instant::now());
        let mut now = Instant::now();
        assert_eq!(queue.page_to_read(), Some(None));
        queue.add_page(page(1..6, Some(at(9))));
        assert_eq!((queue.page_to_read(), queue.place()), (None, None));
        let turns = queue.take(3, now);
        assert_eq!(keys(&turns), [key(1), key(2), key(3)]);
        assert_eq!(queue.place(), Some(at(3)));
        // The second and the third are in flight.
        let change = queue.put_back(turns, &[key(3), key(2)], LONGEST, now);
        assert_eq!(change.begin, [(key(2), at(2)), (key(3), at(3))]);
        assert_eq!((queue.place(), queue.passed()), (Some(at(1)), Some(at(3))));
        let turns = queue.take(3, now);
        assert_eq!(keys(&turns), [key(4), key(5)]);
        let change = queue.put_back(turns, &[], LONGEST, now);
        assert_eq!(change, WaitingChange::default());
        assert_eq!((queue.place(), queue.passed()), (Some(at(1)), Some(at(9))));
        assert_eq!(queue.page_to_read(), Some(Some(at(9))));
        queue.add_page(page(10..11, None));
        now += AGAIN;
        let turns = queue.take(2, now);
        assert_eq!(
            keys(&turns),
            [key(2), key(3)],
            "what has waited comes first"
        );
        let change = queue.put_back(turns, &[key(3)], LONGEST, now);
        assert_eq!((change.begin, change.end), (vec![], vec![at(2)]));
        assert_eq!(queue.place(), Some(at(2)));
        let turns = queue.take(2, now);
        assert_eq!(keys(&turns), [key(10)]);
        assert!(!queue.is_over(), "one waits");
        assert_eq!(queue.again_at(), Some(now + AGAIN));
        now += LONGEST + AGAIN;
        let turns = queue.take(2, now);
        let change = queue.put_back(turns, &[key(3)], LONGEST, now);
        assert_eq!((change.too_long, change.end), (vec![key(3)], vec![at(3)]));
        assert_eq!(queue.place(), Some(at(10)));
        assert!(queue.is_over());
    }

    #[test]
    fn the_next_server_meets_what_waits_and_nothing_else_again() {
        let now = Instant::now();
        let waiting = || vec![(key(2), at(2)), (key(5), at(5))];
        let mut queue = JobQueue::resumed(Some(at(1)), Some(at(7)), waiting(), now);
        assert_eq!(queue.page_to_read(), Some(Some(at(7))));
        assert_eq!((queue.place(), queue.passed()), (Some(at(1)), Some(at(7))));
        let turns = queue.take(9, now);
        assert_eq!(keys(&turns), [key(2), key(5)]);
        let change = queue.put_back(turns, &[key(5)], LONGEST, now);
        assert_eq!((change.begin, change.end), (vec![], vec![at(2)]));
        // The place before it is not known, and it stands behind nothing that has to be met again.
        assert_eq!((queue.place(), queue.passed()), (Some(at(2)), Some(at(7))));
        // A server of the version before has gone on from its place.
        let queue = JobQueue::resumed(Some(at(3)), Some(at(7)), waiting(), now);
        assert_eq!(queue.waiting.len(), 1);
        let queue = JobQueue::resumed(Some(at(8)), Some(at(7)), waiting(), now);
        assert_eq!(queue.page_to_read(), Some(Some(at(8))));
        assert_eq!((queue.waiting.len(), queue.passed()), (0, Some(at(8))));
    }

    #[test]
    fn pages_with_nothing_of_the_job_are_passed() {
        let mut queue = JobQueue::resumed(Some(at(4)), None, Vec::new(), Instant::now());
        queue.add_page(page(0..0, Some(at(9))));
        assert_eq!(queue.place(), Some(at(9)));
        assert!(!queue.is_over());
        queue.add_page(page(0..0, None));
        assert_eq!(queue.place(), Some(at(9)));
        assert!(queue.is_over());
    }

    #[test]
    fn nothing_more_is_begun_while_very_many_wait() {
        let mut queue = JobQueue::resumed(None, None, Vec::new(), Instant::now());
        let now = Instant::now();
        queue.add_page(page(0..2_000, None));
        for _ in 0..20 {
            let turns = queue.take(100, now);
            let all = keys(&turns);
            queue.put_back(turns, &all, LONGEST, now);
        }
        assert_eq!(queue.waiting.len(), MOST_WAITING);
        assert_eq!(keys(&queue.take(1, now + AGAIN)), [key(0)]);
    }
}
