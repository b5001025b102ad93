//! Lists of notifications: the filter, the order, and a page of the result.

use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};

/// Which notifications to list. A field that is `None` does not restrict the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only notifications of this topic.
    pub topic: Option<String>,
    /// Only notifications in this state.
    pub state: Option<State>,
    /// Only notifications of this lane.
    pub lane: Option<String>,
    /// Only dead letters with this cause.
    pub cause: Option<Cause>,
    /// Only notifications that were registered at or after this instant, in milliseconds since 1970. With
    /// [`Order::Ended`], the end of the notification is compared instead.
    pub from_ms: Option<i64>,
    /// Only notifications that were registered before this instant. With [`Order::Ended`], the end of the
    /// notification is compared instead.
    pub to_ms: Option<i64>,
}

/// The instant by which a list is sorted, newest first. A filter compares its times with the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// When the notification was registered.
    Registered,
    /// When the notification ended.
    Ended,
}

/// A place in a list: directly after the row that has this sorting instant and this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The sorting instant of the row, in milliseconds since 1970.
    pub at_ms: i64,
    /// The number of the row.
    pub row: i64,
}

/// A page of a list. Its notifications are without their attempts.
#[derive(Debug, Clone, Default)]
pub struct SnapshotPage {
    /// The notifications.
    pub items: Vec<Snapshot>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}
