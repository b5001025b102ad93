//! Going through everything, a page at a time: what is pending in the journal, looked for in the
//! schedule; then what the schedule holds, looked up in the journal.
//!
//! The journal's part goes by when a notification was registered, newest first. That never changes,
//! so nothing that is pending all the while is missed, however long the way takes.

use super::difference::{Difference, JournalEntry, find, find_among};
use super::error::MaintenanceError;
use crate::domain::lane::KeyInLane;
use crate::domain::state::State;
use crate::journal::{Cursor, Filter, JournalReads, Order};
use crate::schedule::Schedule;

/// Where one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanPosition {
    /// Among what is pending in the journal, after this.
    Pending(Option<Cursor>),
    /// Among what the schedule holds, after this.
    Held(Option<String>),
    /// Everything has been seen.
    End,
}

impl ScanPosition {
    /// The beginning.
    pub const START: Self = Self::Pending(None);

    /// As it is written down.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Pending(None) => "pending".to_string(),
            Self::Pending(Some(Cursor { at_ms, row })) => format!("pending {at_ms} {row}"),
            Self::Held(None) => "held".to_string(),
            Self::Held(Some(cursor)) => format!("held {cursor}"),
            Self::End => "end".to_string(),
        }
    }

    /// Reads what [`ScanPosition::to_text`] wrote; `None` if it is something else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            None => match text {
                "pending" => Some(Self::Pending(None)),
                "held" => Some(Self::Held(None)),
                "end" => Some(Self::End),
                _ => None,
            },
            Some(("pending", place)) => {
                let (at_ms, row) = place.split_once(' ')?;
                let (at_ms, row) = (at_ms.parse().ok()?, row.parse().ok()?);
                Some(Self::Pending(Some(Cursor { at_ms, row })))
            }
            Some(("held", place)) => Some(Self::Held(Some(place.to_string()))),
            Some(_) => None,
        }
    }
}

/// Which of the journal's pending notifications to look for. What is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pick {
    /// Those of this topic.
    pub topic: Option<String>,
    /// Those that are due after this instant, in milliseconds since 1970.
    pub due_after_ms: Option<i64>,
    /// Those that were registered before this instant, in milliseconds since 1970.
    pub registered_before_ms: Option<i64>,
}

/// What one page held.
#[derive(Debug, Clone)]
pub struct ScanPage {
    /// Pending notifications of the journal that were looked for.
    pub pending: u64,
    /// Entries of the schedule that were looked up.
    pub held: u64,
    /// Where the stores disagree.
    pub differences: Vec<Difference>,
    /// Where the next page begins.
    pub next: ScanPosition,
}

/// Compares the page of about `limit` that begins at a place.
///
/// # Errors
/// If a store fails.
pub async fn compare(
    journal: &dyn JournalReads,
    schedule: &dyn Schedule,
    place: &ScanPosition,
    pick: &Pick,
    limit: usize,
) -> Result<ScanPage, MaintenanceError> {
    match place {
        ScanPosition::Pending(cursor) => {
            let filter = Filter {
                state: Some(State::Scheduled),
                topic: pick.topic.clone(),
                to_ms: pick.registered_before_ms,
                ..Filter::default()
            };
            let order = Order::Registered;
            let page = journal.list(&filter, order, *cursor, limit).await?;
            let is_due_after = |at_ms: i64| pick.due_after_ms.is_none_or(|bound| at_ms > bound);
            let read: Vec<(KeyInLane, Option<JournalEntry>)> = (page.items.iter())
                .filter(|item| is_due_after(item.progress.next_due_ms()))
                .map(|item| (item.key_in_lane(), Some(JournalEntry::of(item))))
                .collect();
            Ok(ScanPage {
                pending: read.len() as u64,
                held: 0,
                differences: find(journal, schedule, &read).await?,
                next: match page.next {
                    Some(next) => ScanPosition::Pending(Some(next)),
                    None => ScanPosition::Held(None),
                },
            })
        }
        ScanPosition::Held(cursor) => {
            let page = schedule.scan(cursor.as_deref(), limit).await?;
            let entries = page.holdings.into_iter().map(|(entry, _)| entry);
            let entries: Vec<KeyInLane> = entries.collect();
            Ok(ScanPage {
                pending: 0,
                held: entries.len() as u64,
                differences: find_among(journal, schedule, &entries).await?,
                next: match page.next {
                    Some(next) => ScanPosition::Held(Some(next)),
                    None => ScanPosition::End,
                },
            })
        }
        ScanPosition::End => Ok(ScanPage {
            pending: 0,
            held: 0,
            differences: Vec::new(),
            next: ScanPosition::End,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let cursor = Cursor {
            at_ms: 1_795_163_400_000,
            row: -7,
        };
        for place in [
            ScanPosition::START,
            ScanPosition::Pending(Some(cursor)),
            ScanPosition::Held(None),
            ScanPosition::Held(Some("1-281474976710656".to_string())),
            ScanPosition::End,
        ] {
            assert_eq!(ScanPosition::from_text(&place.to_text()), Some(place));
        }
        for text in ["", "pending ", "pending 1", "pending 1 x", "halt", "x 1"] {
            assert_eq!(ScanPosition::from_text(text), None, "{text}");
        }
    }
}
