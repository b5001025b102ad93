//! Which index serves a list, and the range of it that a page is: decided alike for every database.
//! Pure; the text of the SQL is each database's own.

use super::{Cursor, Filter, Order};
use crate::domain::state::State;

/// Maximum number of rows that are looked up for one page.
pub(super) const MOST_SCANNED: usize = 50_000;

/// The index that a list follows: by the instant of registration or by that of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListIndex {
    Everything,
    OfLane,
    OfTopic,
    OfState(State),
    Ended,
    EndedOfState(State),
}

/// A filter with the index that serves it best.
pub(super) struct ListPlan<'filter> {
    pub(super) filter: &'filter Filter,
    /// The state that is asked for; a cause asks for the dead.
    pub(super) state: Option<State>,
    pub(super) order: Order,
    pub(super) index: ListIndex,
}

/// A range of a list: from below `upper` down to `lower` itself, as places in the index.
#[derive(Clone, Copy)]
pub(super) struct ListRange {
    pub(super) upper: (i64, i64),
    pub(super) lower: (i64, i64),
}

impl ListRange {
    /// `first` gives the first place of an instant, `place` that of a cursor.
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
}

impl<'filter> ListPlan<'filter> {
    /// `None` if nothing can pass the filter.
    pub(super) fn of(filter: &'filter Filter, order: Order) -> Option<Self> {
        use State::{Cancelled, Dead, Delivered, Scheduled};
        let state = match (filter.state, filter.cause) {
            (state, None) => state,
            (None | Some(Dead), Some(_)) => Some(Dead),
            (Some(Scheduled | Delivered | Cancelled), Some(_)) => return None,
        };
        let index = match (order, state) {
            (Order::Ended, Some(Scheduled)) => return None,
            (Order::Ended, Some(state @ (Dead | Cancelled))) => ListIndex::EndedOfState(state),
            (Order::Ended, Some(Delivered) | None) => ListIndex::Ended,
            (Order::Registered, Some(state @ (Dead | Cancelled))) => ListIndex::OfState(state),
            // What waits in a lane is among the newest of it; all that waits can be far more.
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
