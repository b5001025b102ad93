//! Since when a lane can be served, so that what waited until then can say so.

use crate::domain::deferral::NOTICED_MS;
use crate::schedule::memory::timed::Timed;

/// See the documentation of the module. All instants are in milliseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct LaneReadiness {
    /// Since when the lane has as many leases as it may; `None` if it has fewer.
    full_since_ms: Option<i64>,
    /// Since when it can be served, or could be before it was full; later than now if it cannot yet. `None` if nothing
    /// waits there, or it is held.
    since_ms: Option<i64>,
}

impl LaneReadiness {
    /// Notes that the lane is full now, or else when its first entry may be given.
    pub(super) fn note(&mut self, is_full: bool, ready_ms: Option<i64>, now_ms: i64) {
        if is_full {
            self.full_since_ms.get_or_insert(now_ms);
            return;
        }
        // A claim may fill a lane and put entries back that have to wait for their order: so it was not full before.
        let was_full = (self.full_since_ms.take()).is_some_and(|since_ms| since_ms < now_ms);
        self.since_ms = ready_ms.map(|ready_ms| match self.since_ms {
            _ if was_full => ready_ms.max(now_ms),
            Some(since_ms) if since_ms.max(ready_ms) <= now_ms => since_ms,
            Some(_) | None => ready_ms,
        });
    }

    /// Since when it can be served, if these entries fill it, or if it could not be served when the first of them was due.
    /// 0 if none of them is late.
    pub(super) fn of_late(&self, taken: &[Timed], is_full: bool, now_ms: i64) -> i64 {
        let Some(due_ms) = taken.iter().map(|entry| entry.at_ms).min() else {
            return 0;
        };
        let is_late = now_ms - due_ms >= NOTICED_MS;
        let since_ms = self.since_ms.filter(|_| is_late).unwrap_or(0);
        if is_full || since_ms > due_ms {
            since_ms
        } else {
            0
        }
    }
}
