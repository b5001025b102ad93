//! What the attempts of the last hours did, for plots over time: of all servers, from the journal. Without a journal, of this
//! server alone and since it started.

use super::Service;
use crate::domain::activity::{ActivityBucket, MINUTE_MS};
use std::time::Duration;

/// Longest wait for the journal. What a slower one would say is not known.
const LONGEST_READ: Duration = Duration::from_millis(1_500);

/// How much time is looked at, and how finely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivityWindow {
    /// The number of buckets.
    pub buckets: usize,
    /// The minutes of each.
    pub bucket_minutes: i64,
}

/// What the attempts of a window did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityReading {
    /// The first minute, in minutes since 1970.
    pub from_minute: i64,
    /// The minutes of each bucket.
    pub bucket_minutes: i64,
    /// The buckets, oldest first. `None` for those in which no server was at work, or none could write. The last one is that
    /// of now.
    pub buckets: Vec<Option<ActivityBucket>>,
    /// Whether only this server was asked, because there is no journal.
    pub is_of_this_server: bool,
}

impl Service {
    /// What the attempts of a window did, which ends now. `None` if the journal does not answer. Takes a bounded time,
    /// whatever the journal does.
    pub async fn activity(&self, window: ActivityWindow) -> Option<ActivityReading> {
        let bucket_minutes = window.bucket_minutes.max(1);
        let now = self.clock.now_ms().div_euclid(MINUTE_MS);
        let until_minute = now - now.rem_euclid(bucket_minutes) + bucket_minutes;
        let many = i64::try_from(window.buckets).unwrap_or(i64::MAX);
        let from_minute = until_minute.saturating_sub(many.saturating_mul(bucket_minutes));
        let found = match self.journal() {
            Some(journal) => {
                let reading = journal.activity(from_minute, until_minute, bucket_minutes);
                tokio::time::timeout(LONGEST_READ, reading)
                    .await
                    .ok()?
                    .ok()?
            }
            None => {
                let counters = self.metrics.activity();
                counters.buckets(from_minute, until_minute, bucket_minutes)
            }
        };
        let mut buckets = vec![None; window.buckets];
        for bucket in found {
            let place = (bucket.from_minute - from_minute) / bucket_minutes;
            if let Some(slot) = usize::try_from(place)
                .ok()
                .and_then(|at| buckets.get_mut(at))
            {
                *slot = Some(bucket);
            }
        }
        Some(ActivityReading {
            from_minute,
            bucket_minutes,
            buckets,
            is_of_this_server: !self.has_journal(),
        })
    }
}
