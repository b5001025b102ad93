//! Lists of notifications: what is asked for, and a page of the answer.

use crate::domain::snapshot::Snapshot;
use crate::domain::state::{Cause, State};

/// Which notifications to list. A field that is `None` excludes none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this topic.
    pub topic: Option<String>,
    /// In this state.
    pub state: Option<State>,
    /// In this lane.
    pub lane: Option<String>,
    /// Dead for this cause.
    pub cause: Option<Cause>,
    /// Not before this instant: registered, or ended if sorted by that.
    pub from_ms: Option<i64>,
    /// Before this instant.
    pub to_ms: Option<i64>,
}

/// By which instant a list is sorted, newest first, and its times filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// When it was registered.
    Registered,
    /// When it ended.
    Ended,
}

/// A place in a list: the sorting instant and the row number of the last item before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The sorting instant, in milliseconds since 1970.
    pub at_ms: i64,
    /// The row number.
    pub row: i64,
}

/// A page of a list, without attempts.
#[derive(Debug, Clone, Default)]
pub struct SnapshotPage {
    /// The notifications.
    pub items: Vec<Snapshot>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}
