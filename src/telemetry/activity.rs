//! Counts what the attempts of this process do in each minute, for plots over time.
//!
//! The counters of a minute only grow. They are kept here until the journal has them, so a minute in which the journal is
//! out of reach is not missed. Without a journal they stay here, for [`MOST_MINUTES`]. A crash loses what the journal does
//! not have yet; nothing but plots depends on it.

use crate::domain::activity::{ActivityBucket, ActivityCounts, MINUTE_MS};
use crate::domain::attempt::Attempt;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of minutes that are kept: a day, and an hour more. Then the oldest is forgotten.
pub const MOST_MINUTES: usize = 25 * 60;
/// For how many minutes the counters stay after the journal has them. An attempt that ends right now may still be counted
/// in a minute that has just passed.
const STILL_COUNTED: i64 = 2;

/// The counters of a process.
#[derive(Debug, Default)]
pub struct ActivityCounters(Mutex<BTreeMap<i64, CountedMinute>>);

/// The counters of a minute.
#[derive(Debug, Default)]
struct CountedMinute {
    counts: ActivityCounts,
    /// What the journal has of it.
    kept: Option<ActivityCounts>,
}

/// A minute, in minutes since 1970, and its counters.
pub type MinuteActivity = (i64, ActivityCounts);

impl ActivityCounters {
    /// Counts an attempt that has ended at `now_ms`.
    pub fn attempt(&self, attempt: &Attempt, now_ms: i64) {
        minute(&mut self.minutes(), now_ms).attempt(attempt);
    }

    /// Counts a notification that has become a dead letter at `now_ms`.
    pub fn dead_letter(&self, now_ms: i64) {
        minute(&mut self.minutes(), now_ms).dead_letter();
    }

    /// Notes that this process is at work at `now_ms`. So a minute without attempts has counters of 0, and not none.
    pub fn note_at_work(&self, now_ms: i64) {
        minute(&mut self.minutes(), now_ms);
    }

    /// The minutes that the journal does not have as they are now, oldest first: at most `limit`.
    #[must_use]
    pub fn not_kept(&self, limit: usize) -> Vec<MinuteActivity> {
        let minutes = self.minutes();
        let changed = (minutes.iter()).filter(|(_, counted)| counted.kept != Some(counted.counts));
        let changed = changed.map(|(minute, counted)| (*minute, counted.counts));
        changed.take(limit).collect()
    }

    /// Notes that the journal has these, and forgets what is not needed any more at `now_ms`.
    pub fn note_kept(&self, kept: &[MinuteActivity], now_ms: i64) {
        let mut minutes = self.minutes();
        for (minute, counts) in kept {
            if let Some(counted) = minutes.get_mut(minute) {
                counted.kept = Some(*counts);
            }
        }
        let oldest = now_ms.div_euclid(MINUTE_MS) - STILL_COUNTED;
        minutes.retain(|minute, counted| *minute >= oldest || counted.kept != Some(counted.counts));
    }

    /// The minutes from `from_minute` on and before `until_minute`, in buckets of so many minutes, oldest first. Buckets of
    /// which no minute was counted are left out.
    #[must_use]
    pub fn buckets(
        &self,
        from_minute: i64,
        until_minute: i64,
        bucket_minutes: i64,
    ) -> Vec<ActivityBucket> {
        let mut buckets: Vec<ActivityBucket> = Vec::new();
        for (minute, counted) in self.minutes().range(from_minute..until_minute) {
            let from_minute = minute - minute.rem_euclid(bucket_minutes);
            if (buckets.last()).is_none_or(|bucket| bucket.from_minute != from_minute) {
                buckets.push(ActivityBucket {
                    from_minute,
                    counted_minutes: 0,
                    counts: ActivityCounts::default(),
                });
            }
            if let Some(bucket) = buckets.last_mut() {
                bucket.counted_minutes += 1;
                bucket.counts.add(&counted.counts);
            }
        }
        buckets
    }

    fn minutes(&self) -> MutexGuard<'_, BTreeMap<i64, CountedMinute>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters of the minute of `now_ms`.
fn minute(minutes: &mut BTreeMap<i64, CountedMinute>, now_ms: i64) -> &mut ActivityCounts {
    let now = now_ms.div_euclid(MINUTE_MS);
    if minutes.len() >= MOST_MINUTES && !minutes.contains_key(&now) {
        minutes.pop_first();
    }
    &mut minutes.entry(now).or_default().counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_journal_has_is_forgotten_when_it_cannot_grow_any_more() {
        let counters = ActivityCounters::default();
        counters.dead_letter(0);
        counters.note_at_work(MINUTE_MS);
        let first = counters.not_kept(10);
        let dead = |(_, counts): &MinuteActivity| counts.dead();
        assert_eq!(first.iter().map(dead).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(counters.not_kept(1), first[..1]);
        // It grew while it was written.
        counters.dead_letter(1);
        counters.note_kept(&first, MINUTE_MS);
        let again = counters.not_kept(10);
        assert_eq!((again.len(), again[0].1.dead()), (1, 2));
        counters.note_kept(&again, 10 * MINUTE_MS);
        assert_eq!(counters.not_kept(10), []);
        assert_eq!(counters.buckets(0, 10, 1), []);
    }

    #[test]
    fn minutes_are_added_up_and_those_without_counters_are_left_out() {
        let counters = ActivityCounters::default();
        for minute in [3, 10, 11, 14, 20] {
            counters.dead_letter(minute * MINUTE_MS);
        }
        let read = |from, until| {
            let buckets = counters.buckets(from, until, 5).into_iter();
            let shown = buckets.map(|bucket| {
                let dead = bucket.counts.dead();
                (bucket.from_minute, bucket.counted_minutes, dead)
            });
            shown.collect::<Vec<_>>()
        };
        assert_eq!(read(0, 20), [(0, 1, 1), (10, 3, 3)]);
        assert_eq!(read(11, 21), [(10, 2, 2), (20, 1, 1)]);
    }

    #[test]
    fn a_bounded_number_of_minutes_is_kept() {
        let counters = ActivityCounters::default();
        let many = i64::try_from(MOST_MINUTES).expect("fits") + 10;
        for minute in 0..many {
            counters.note_at_work(minute * MINUTE_MS);
        }
        let kept = counters.not_kept(usize::MAX);
        assert_eq!((kept.len(), kept[0].0), (MOST_MINUTES, 10));
    }
}
