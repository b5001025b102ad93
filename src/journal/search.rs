//! Finds notifications by an id or a webhook id, and the dead letters of a lane, without reading a list row by row.
//!
//! Registrations must stay fast, so there is no index for this. Few notifications are dead, so of them there may be one. An id is looked for in the unique index of topics and
//! ids, topic by topic. A webhook id contains the instant at which it was made, so it is looked for among the
//! notifications that were registered about then. Both read a bounded number of rows; what they find is filtered and
//! sorted here, the same for every database.

use super::list_plan::{ListRange, MOST_SCANNED};
use super::rows::StoredNotification;
use super::{Cursor, Filter, Order, SnapshotPage};
use crate::domain::state::State;
use crate::domain::webhook_id::WebhookId;
use std::cmp::Reverse;

/// Maximum number of notifications that are found by the beginnings of their ids. If there are more, the list is scanned
/// instead: with so many, a scan finds some soon.
pub(super) const MOST_FOUND: usize = 2_000;

/// Maximum number of notifications of a lane among which its dead letters are looked for one by one, where no index has
/// both. If there are more, the list of dead letters is scanned instead.
pub(super) const MOST_OF_LANE: usize = 5_000;

/// How far from the instant in a webhook id its registration is looked for, in milliseconds: first in the narrow window,
/// then in the wide one. The two instants are the same, unless an endpoint was made again by a server whose clock is
/// ahead ([`Registration::accept`]), or the server of an earlier version had another clock than the schedule.
///
/// [`Registration::accept`]: crate::domain::notification::Registration::accept
const WINDOWS_MS: [i64; 2] = [2_000, 3_600_000];

/// Maximum number of rows that are read on each side of that instant, in each window.
pub(super) const MOST_READ_ASIDE: usize = MOST_SCANNED / 2;

/// What is looked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Search<'filter> {
    /// The ids from the first to the last one, of one topic or of all.
    Ids {
        topic: Option<&'filter str>,
        first: String,
        last: String,
    },
    /// One webhook id, among the notifications that were registered in these windows, one after the other.
    WebhookId(WebhookId, Vec<SearchWindow>),
    /// The dead letters of this lane.
    DeadOfLane(&'filter str),
}

/// A range of instants of registration, in milliseconds since 1970, both included. It is read from the end that is
/// nearer to the instant in the webhook id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SearchWindow {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    pub(super) side: WindowSide,
}

/// On which side of the instant in the webhook id a window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowSide {
    /// The window begins with the instant, and is read upwards.
    After,
    /// The window ends before the instant, and is read downwards.
    Before,
}

/// What a search has found.
pub(super) enum SearchFindings {
    /// All that there is. Some of it may not pass the filter.
    All(Vec<StoredNotification>),
    /// More than [`MOST_FOUND`].
    TooMany,
    /// Nothing was looked for: there are more than [`MOST_TOPICS`](super::MOST_TOPICS) topics.
    TooManyTopics,
}

impl<'filter> Search<'filter> {
    /// The search that answers a filter; `None` if the list must be scanned.
    pub(super) fn of(filter: &'filter Filter) -> Option<Self> {
        if let (Some(webhook_id), None) = (filter.webhook_id, &filter.id) {
            return Some(Self::WebhookId(webhook_id, windows(webhook_id)));
        }
        if let Some((first, last)) = filter.ids() {
            return Some(Self::Ids {
                topic: filter.topic.as_deref(),
                first,
                last,
            });
        }
        let is_dead = filter.state == Some(State::Dead) || filter.cause.is_some();
        (filter.lane.as_deref().filter(|_| is_dead)).map(Self::DeadOfLane)
    }
}

fn windows(webhook_id: WebhookId) -> Vec<SearchWindow> {
    let Some(made_ms) = webhook_id.made_ms() else {
        return Vec::new();
    };
    let of_width = |width_ms| {
        let after = SearchWindow {
            from_ms: made_ms,
            to_ms: made_ms + width_ms,
            side: WindowSide::After,
        };
        let before = SearchWindow {
            from_ms: made_ms - width_ms,
            to_ms: made_ms - 1,
            side: WindowSide::Before,
        };
        [after, before]
    };
    WINDOWS_MS.into_iter().flat_map(of_width).collect()
}

/// A page of what a search has found. `place` gives the place of a cursor in `range`.
pub(super) fn page_of(
    found: Vec<StoredNotification>,
    (filter, order): (&Filter, Order),
    range: ListRange,
    place: impl Fn(Cursor) -> (i64, i64),
    limit: usize,
) -> SnapshotPage {
    let mut listed: Vec<_> = found
        .into_iter()
        .filter(|stored| filter.passes(&stored.snapshot, order))
        .map(|stored| {
            let cursor = Cursor {
                at_ms: order.at_ms(&stored.snapshot),
                row: stored.row_id,
            };
            (cursor, stored.snapshot)
        })
        .filter(|(cursor, _)| range.contains(place(*cursor)))
        .collect();
    listed.sort_unstable_by_key(|(cursor, _)| Reverse(place(*cursor)));
    let has_more = listed.len() > limit;
    listed.truncate(limit);
    let last = listed.last().map(|(cursor, _)| *cursor);
    SnapshotPage {
        items: listed.into_iter().map(|(_, snapshot)| snapshot).collect(),
        next: last.filter(|_| has_more),
        too_many_topics: false,
        // Reading the rows has logged them.
        unreadable: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::state::Cause;

    #[test]
    fn what_is_looked_for_follows_from_the_filter() {
        fn ids<'a>(topic: Option<&'a str>, first: &str, last: &str) -> Search<'a> {
            Search::Ids {
                topic,
                first: first.to_string(),
                last: last.to_string(),
            }
        }
        let text = |text: &str| Some(text.to_string());
        let mut filter = Filter::default();
        assert_eq!(Search::of(&filter), None);
        filter.topic = text("t");
        assert_eq!(Search::of(&filter), None);
        filter.lane = text("l");
        assert_eq!(Search::of(&filter), None);
        for (state, cause) in [(Some(State::Dead), None), (None, Some(Cause::Refused))] {
            let filter = Filter {
                state,
                cause,
                ..filter.clone()
            };
            assert_eq!(Search::of(&filter), Some(Search::DeadOfLane("l")));
        }
        filter.lane = None;
        filter.id_prefix = text("or");
        assert_eq!(Search::of(&filter), Some(ids(Some("t"), "or", "or\u{7f}")));
        filter.topic = None;
        // Made at 1,000 ms.
        let made = (1_000_u128 << 80) | (7 << 76);
        let webhook_id = WebhookId::from_bytes(made.to_be_bytes());
        filter.webhook_id = Some(webhook_id);
        let window = |from_ms, to_ms, side| SearchWindow {
            from_ms,
            to_ms,
            side,
        };
        let windows = vec![
            window(1_000, 3_000, WindowSide::After),
            window(-1_000, 999, WindowSide::Before),
            window(1_000, 3_601_000, WindowSide::After),
            window(-3_599_000, 999, WindowSide::Before),
        ];
        let expected = Search::WebhookId(webhook_id, windows);
        assert_eq!(Search::of(&filter), Some(expected));
        // A whole id is found with certainty, whenever it was registered.
        filter.id = text("order-1");
        assert_eq!(Search::of(&filter), Some(ids(None, "order-1", "order-1")));
        // No notification has a webhook id without an instant.
        let other = WebhookId::from_bytes([0; 16]);
        let filter = Filter {
            webhook_id: Some(other),
            ..Filter::default()
        };
        let expected = Search::WebhookId(other, Vec::new());
        assert_eq!(Search::of(&filter), Some(expected));
    }
}
