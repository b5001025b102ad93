//! The score of an entry in the sorted set of its lane.

use crate::domain::notification::Notification;
use crate::domain::place::PlaceInLane;
use crate::domain::priority::Priority;
use crate::domain::progress::Progress;

/// By how much priorities move the scores in the set of a lane. Must equal PRIORITY_MS in common.lua.
const PRIORITY_MS: i64 = 1 << 50;
/// By how much a requested attempt moves them within the range of a priority. Must equal BY_HAND_MS in common.lua.
const BY_HAND_MS: i64 = 1 << 48;

/// The place of an entry in the set of its lane: when it is due, in milliseconds since 1970, moved by its priority, and
/// if an attempt was requested by hand, as `common.lua` says.
pub fn lane_score(notification: &Notification, progress: &Progress) -> i64 {
    let by_hand = progress.retry_at_ms.map_or(0, |_| BY_HAND_MS);
    moved(progress.next_due_ms() - by_hand, notification.priority)
}

/// As [`lane_score`], of what has nothing but a place in its lane.
pub fn place_score(place: &PlaceInLane) -> i64 {
    moved(place.due_ms, place.priority)
}

fn moved(score: i64, priority: Priority) -> i64 {
    match priority {
        Priority::High => score - PRIORITY_MS,
        Priority::Normal => score,
        Priority::Low => score + PRIORITY_MS,
    }
}
