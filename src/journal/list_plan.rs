//! Chooses the index for a list, and computes the range of the index that a page reads.
//!
//! The choice is the same for every database. The functions are pure; each database writes its own SQL.

use super::{Cursor, Filter, Order};
use crate::domain::state::State;

/// Maximum number of rows that are read for one page.
pub(super) const MOST_SCANNED: usize = 50_000;

/// The index that a list reads. `Ended`, `EndedOfState`, `DeadOfLane` and `DeadOfCause` are sorted by the end of the notification,
/// `Due` by when the next attempt is due, the others by the instant of registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListIndex {
    Everything,
    OfLane,
    OfTopic,
    OfState(State),
    Ended,
    EndedOfState(State),
    /// Dead letters of one lane. Where no index has both, those of all lanes are read.
    DeadOfLane,
    /// Dead letters with one cause.
    DeadOfCause,
    /// Pending ones.
    Due,
}

/// A filter, and the index that suits it best.
pub(super) struct ListPlan<'filter> {
    pub(super) filter: &'filter Filter,
    /// The state that the filter selects. A filter with a cause selects dead letters.
    pub(super) state: Option<State>,
    pub(super) order: Order,
    pub(super) index: ListIndex,
}

/// A range of places in an index: below `upper`, and not below `lower`.
#[derive(Clone, Copy)]
pub(super) struct ListRange {
    pub(super) upper: (i64, i64),
    pub(super) lower: (i64, i64),
}

impl ListRange {
    /// The range of a page. `first` gives the first place of an instant, `place` the place of a cursor.
    pub(super) fn of(
        filter: &Filter,
        cursor: Option<Cursor>,
        first: impl Fn(i64) -> (i64, i64),
        place: impl Fn(Cursor) -> (i64, i64),
    ) -> Self {
        let end = filter.to_ms.map_or((i64::MAX, i64::MAX), &first);
        Self {
            upper: cursor.map_or(end, |cursor| end.min(place(cursor))),
            lower: filter.from_ms.map_or((i64::MIN, i64::MIN), &first),
        }
    }

    pub(super) fn contains(&self, place: (i64, i64)) -> bool {
        place < self.upper && place >= self.lower
    }
}

impl<'filter> ListPlan<'filter> {
    /// Chooses the index. `None` if no notification can pass the filter.
    pub(super) fn of(filter: &'filter Filter, order: Order) -> Option<Self> {
        use State::{Cancelled, Dead, Delivered, Scheduled};
        if let (Some(id), Some(prefix)) = (&filter.id, &filter.id_prefix)
            && !id.starts_with(prefix.as_str())
        {
            return None;
        }
        let state = match (filter.state, filter.cause) {
            (state, None) => state,
            (None | Some(Dead), Some(_)) => Some(Dead),
            (Some(Scheduled | Delivered | Cancelled), Some(_)) => return None,
        };
        let state = match order {
            Order::Due => state.or(Some(Scheduled)),
            Order::Registered | Order::Ended => state,
        };
        let index = match (order, state) {
            (Order::Due, Some(Scheduled) | None) => ListIndex::Due,
            (Order::Due, Some(Delivered | Dead | Cancelled)) => return None,
            (Order::Ended, Some(Scheduled)) => return None,
            (Order::Ended, Some(Dead)) if filter.lane.is_some() => ListIndex::DeadOfLane,
            (Order::Ended, Some(Dead)) if filter.cause.is_some() => ListIndex::DeadOfCause,
            (Order::Ended, Some(state @ (Dead | Cancelled))) => ListIndex::EndedOfState(state),
            (Order::Ended, Some(Delivered) | None) => ListIndex::Ended,
            (Order::Registered, Some(state @ (Dead | Cancelled))) => ListIndex::OfState(state),
            // The pending notifications of a lane are among its newest, so this index finds them soon. The
            // index of all pending notifications can contain far more rows of other lanes.
            (Order::Registered, _) if filter.lane.is_some() => ListIndex::OfLane,
            (Order::Registered, Some(Scheduled)) => ListIndex::OfState(Scheduled),
            (Order::Registered, Some(Delivered) | None) if filter.topic.is_some() => {
                ListIndex::OfTopic
            }
            (Order::Registered, Some(Delivered) | None) => ListIndex::Everything,
        };
        Some(Self {
            filter,
            state,
            order,
            index,
        })
    }
}
