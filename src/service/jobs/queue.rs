//! The notifications of a job whose turn comes: those that were read, and those that wait for the end of an attempt.
//!
//! A job stands at a place, which its next server continues from. It never stands behind a notification that waits. So if
//! the server dies, the next one meets it again, and none is left out.

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
    /// Begins behind a place.
    pub(super) fn behind(place: Option<Cursor>) -> Self {
        Self {
            ahead: VecDeque::new(),
            read_to: place,
            is_read: false,
            passed: place,
            waiting: Vec::new(),
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
            });
        }
        turns
    }

    /// Lets notifications wait whose attempts are in flight. Returns the number of those that have waited for too long.
    pub(super) fn put_back(
        &mut self,
        turns: Vec<QueuedTurn>,
        in_flight: &[Key],
        longest: Duration,
        now: Instant,
    ) -> usize {
        let mut too_long = 0;
        for mut turn in turns {
            if !in_flight.contains(&turn.key) {
                continue;
            }
            if now.duration_since(turn.since) > longest {
                too_long += 1;
                continue;
            }
            turn.again_at = now + AGAIN;
            let at = |one: &QueuedTurn| in_order(one.place) < in_order(turn.place);
            let place = self.waiting.partition_point(at);
            self.waiting.insert(place, turn);
        }
        too_long
    }

    /// Up to where everything has had its turn. `None`: the job stays where it is.
    pub(super) fn place(&self) -> Option<Cursor> {
        match self.waiting.first() {
            Some(first) => first.before,
            None if self.ahead.is_empty() => {
                let places = [self.passed, self.read_to];
                places
                    .into_iter()
                    .flatten()
                    .max_by_key(|place| in_order(*place))
            }
            None => self.passed,
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
        let mut queue = JobQueue::behind(None);
        let mut now = Instant::now();
        assert_eq!(queue.page_to_read(), Some(None));
        queue.add_page(page(1..6, Some(at(9))));
        assert_eq!((queue.page_to_read(), queue.place()), (None, None));
        let turns = queue.take(3, now);
        assert_eq!(keys(&turns), [key(1), key(2), key(3)]);
        assert_eq!(queue.place(), Some(at(3)));
        // The second and the third are in flight.
        assert_eq!(queue.put_back(turns, &[key(3), key(2)], LONGEST, now), 0);
        assert_eq!(queue.place(), Some(at(1)));
        let turns = queue.take(3, now);
        assert_eq!(keys(&turns), [key(4), key(5)]);
        assert_eq!(queue.put_back(turns, &[], LONGEST, now), 0);
        assert_eq!(queue.place(), Some(at(1)));
        assert_eq!(queue.page_to_read(), Some(Some(at(9))));
        queue.add_page(page(10..11, None));
        now += AGAIN;
        let turns = queue.take(2, now);
        assert_eq!(
            keys(&turns),
            [key(2), key(3)],
            "what has waited comes first"
        );
        assert_eq!(queue.put_back(turns, &[key(3)], LONGEST, now), 0);
        assert_eq!(queue.place(), Some(at(2)));
        let turns = queue.take(2, now);
        assert_eq!(keys(&turns), [key(10)]);
        assert!(!queue.is_over(), "one waits");
        assert_eq!(queue.again_at(), Some(now + AGAIN));
        now += LONGEST + AGAIN;
        let turns = queue.take(2, now);
        assert_eq!(queue.put_back(turns, &[key(3)], LONGEST, now), 1);
        assert_eq!(queue.place(), Some(at(10)));
        assert!(queue.is_over());
    }

    #[test]
    fn pages_with_nothing_of_the_job_are_passed() {
        let mut queue = JobQueue::behind(Some(at(4)));
        queue.add_page(page(0..0, Some(at(9))));
        assert_eq!(queue.place(), Some(at(9)));
        assert!(!queue.is_over());
        queue.add_page(page(0..0, None));
        assert_eq!(queue.place(), Some(at(9)));
        assert!(queue.is_over());
    }

    #[test]
    fn nothing_more_is_begun_while_very_many_wait() {
        let mut queue = JobQueue::behind(None);
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
