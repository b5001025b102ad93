//! Comparing everything, one page at a time: first the pending notifications of the journal with the
//! schedule, then the entries of the schedule with the journal.
//!
//! The journal is read by the instant of registration, newest first. That instant never changes, so no
//! notification that is pending during the whole scan is missed, however long the scan takes. Where most of what is pending
//! waits in the journal alone, a scan may begin with [`ScanPosition::DUE`] instead: then only what must be in the schedule is
//! read, soonest due first. One that is made due earlier meanwhile, before what was read, may be missed; the next scan reads
//! it.

use super::difference::{Difference, find_among, find_until, is_at_place, must_be_held_until};
use super::error::MaintenanceError;
use crate::domain::key::Key;
use crate::domain::lane::KeyInLane;
use crate::domain::place::PlaceInLane;
use crate::domain::state::State;
use crate::journal::{
    Cursor, Filter, Journal, JournalError, Order, PageBodies, Pending, Standing,
    UnreadableNotification,
};
use crate::schedule::{Holding, Schedule};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The position of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanPosition {
    /// Reading the pending notifications of the journal, after this cursor.
    Pending(Option<Cursor>),
    /// Reading those of them that must be in the schedule, after this cursor.
    Due(Option<Cursor>),
    /// Reading the entries of the schedule, after this cursor.
    Held(Option<String>),
    /// Everything was read.
    End,
}

impl ScanPosition {
    /// The beginning.
    pub const START: Self = Self::Pending(None);
    /// The beginning, if only what must be in the schedule is to be read in the journal.
    pub const DUE: Self = Self::Due(None);

    /// After a page of what must be in the schedule.
    fn after_due(next: Option<Cursor>) -> Self {
        match next {
            Some(next) => Self::Due(Some(next)),
            None => Self::Held(None),
        }
    }

    /// The text that the journal stores.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Pending(None) => "pending".to_string(),
            Self::Pending(Some(Cursor { at_ms, row })) => format!("pending {at_ms} {row}"),
            Self::Due(None) => "due".to_string(),
            Self::Due(Some(Cursor { at_ms, row })) => format!("due {at_ms} {row}"),
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
                "due" => Some(Self::Due(None)),
                "held" => Some(Self::Held(None)),
                "end" => Some(Self::End),
                _ => None,
            },
            Some((kind @ ("pending" | "due"), place)) => {
                let (at_ms, row) = place.split_once(' ')?;
                let (at_ms, row) = (at_ms.parse().ok()?, row.parse().ok()?);
                let cursor = Some(Cursor { at_ms, row });
                Some(match kind {
                    "due" => Self::Due(cursor),
                    _ => Self::Pending(cursor),
                })
            }
            Some(("held", place)) => Some(Self::Held(Some(place.to_string()))),
            Some(_) => None,
        }
    }
}

/// Which pending notifications of the journal to compare. A field that is `None` does not restrict them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pick {
    /// Those of this topic.
    pub topic: Option<String>,
    /// Those that are due after this instant, in milliseconds since 1970.
    pub due_after_ms: Option<i64>,
    /// Those that were registered before this instant, in milliseconds since 1970.
    pub registered_before_ms: Option<i64>,
    /// Of the entries of the schedule whose content is in the journal alone: those that this run looks up. All others are
    /// looked up in every run.
    pub bare: BareTurn,
    /// Whether only places are read first of what must be in the schedule, if the schedule leaves content to the journal. Those at
    /// their place are counted whatever else is picked.
    pub by_place: bool,
}

/// Which entries of the schedule are looked up in the journal, of those whose content is there alone. Whatever they say,
/// their attempts ask the journal first. So they need not be looked up often: a run looks up one in [`BARE_TURNS`], and the
/// next run others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BareTurn {
    /// All of them.
    #[default]
    All,
    /// Those whose turn it is in the run with this number.
    OfRun(u64),
}

/// In so many runs, one after another, each entry whose content is in the journal alone is looked up once.
pub const BARE_TURNS: u64 = 8;

impl BareTurn {
    fn includes(self, entry: &KeyInLane, holding: Holding) -> bool {
        match self {
            Self::OfRun(run) if holding.is_bare() => {
                let mut hasher = DefaultHasher::new();
                entry.key.hash(&mut hasher);
                hasher.finish().wrapping_add(run).is_multiple_of(BARE_TURNS)
            }
            Self::All | Self::OfRun(_) => true,
        }
    }
}

impl Pick {
    fn includes(&self, pending: &Pending) -> bool {
        let notification = &pending.notification;
        let topic = notification.key.topic();
        self.topic.as_deref().is_none_or(|picked| picked == topic)
            && self
                .due_after_ms
                .is_none_or(|bound| pending.progress.next_due_ms() > bound)
            && self
                .registered_before_ms
                .is_none_or(|bound| notification.registered_ms < bound)
    }
}

/// The result of one page.
#[derive(Debug, Clone)]
pub struct ScanPage {
    /// Number of pending notifications of the journal that were looked up in the schedule.
    pub pending: u64,
    /// Number of pending notifications of the journal that are due so late that they may wait there alone. If the schedule
    /// holds one, it is found among the entries of the schedule.
    pub later: u64,
    /// Number of entries of the schedule that were looked up in the journal.
    pub held: u64,
    /// Where the stores disagree.
    pub differences: Vec<Difference>,
    /// Those that the journal cannot read, so they were not looked up. One may be found in both directions.
    pub unreadable: Vec<UnreadableNotification>,
    /// Whether the places of this page were read in vain: the schedule has the content of most.
    pub is_mostly_whole: bool,
    /// The position of the next page.
    pub next: ScanPosition,
}

/// Compares one page of about `limit` notifications, from a position.
///
/// # Errors
/// If a store fails.
pub async fn compare(
    journal: &dyn Journal,
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
            let picked = || {
                let items = page.items.iter();
                items.filter(|item| is_due_after(item.progress.next_due_ms()))
            };
            let held_until_ms = must_be_held_until(schedule, &BTreeSet::new()).await?;
            let read: Vec<(KeyInLane, Option<Standing>)> = picked()
                .filter(|item| item.progress.next_due_ms() <= held_until_ms)
                .map(|item| (item.key_in_lane(), Some(Standing::of(item))))
                .collect();
            Ok(ScanPage {
                pending: read.len() as u64,
                later: (picked().count() - read.len()) as u64,
                held: 0,
                differences: find_until(journal, schedule, &read, held_until_ms).await?,
                unreadable: page.unreadable,
                is_mostly_whole: false,
                next: match page.next {
                    Some(next) => ScanPosition::Pending(Some(next)),
                    None => ScanPosition::Held(None),
                },
            })
        }
        ScanPosition::Due(cursor) => {
            let held_until_ms = must_be_held_until(schedule, &BTreeSet::new()).await?;
            let range = DueRange {
                cursor: *cursor,
                until_ms: held_until_ms,
                limit,
            };
            match pick.by_place && schedule.leaves_content() {
                true => match compare_places(journal, schedule, pick, &range).await {
                    // The page without bodies leaves out and logs what cannot be read.
                    Err(MaintenanceError::Journal(
                        JournalError::Corrupt(_) | JournalError::Refused(_),
                    )) => compare_due(journal, schedule, pick, &range).await,
                    compared => compared,
                },
                false => compare_due(journal, schedule, pick, &range).await,
            }
        }
        ScanPosition::Held(cursor) => {
            let page = schedule.scan(cursor.as_deref(), limit).await?;
            let holdings = page.holdings.into_iter();
            let picked = holdings.filter(|(entry, holding)| pick.bare.includes(entry, *holding));
            let entries: Vec<KeyInLane> = picked.map(|(entry, _)| entry).collect();
            let found = find_among(journal, schedule, &entries, &BTreeSet::new()).await?;
            Ok(ScanPage {
                pending: 0,
                later: 0,
                held: entries.len() as u64,
                differences: found.differences,
                unreadable: found.unreadable,
                is_mostly_whole: false,
                next: match page.next {
                    Some(next) => ScanPosition::Held(Some(next)),
                    None => ScanPosition::End,
                },
            })
        }
        ScanPosition::End => Ok(ScanPage {
            pending: 0,
            later: 0,
            held: 0,
            differences: Vec::new(),
            unreadable: Vec::new(),
            is_mostly_whole: false,
            next: ScanPosition::End,
        }),
    }
}

/// What is read of the journal by due time.
struct DueRange {
    cursor: Option<Cursor>,
    until_ms: i64,
    limit: usize,
}

/// Compares a page of what must be in the schedule.
async fn compare_due(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
    pick: &Pick,
    range: &DueRange,
) -> Result<ScanPage, MaintenanceError> {
    let reading = journal.pending_page(range.cursor, range.until_ms, range.limit, PageBodies::None);
    let (page, next) = reading.await?;
    let read = picked(page, pick);
    Ok(ScanPage {
        pending: read.len() as u64,
        later: 0,
        held: 0,
        differences: find_until(journal, schedule, &read, range.until_ms).await?,
        // Reading the page has logged them.
        unreadable: Vec::new(),
        is_mostly_whole: false,
        next: ScanPosition::after_due(next),
    })
}

/// Likewise, where most of the schedule is bare. Such an entry says no more than its place, so only places are read, and the rest only
/// of those that the schedule does not have there: this takes the journal half the time.
async fn compare_places(
    journal: &dyn Journal,
    schedule: &dyn Schedule,
    pick: &Pick,
    range: &DueRange,
) -> Result<ScanPage, MaintenanceError> {
    let page = journal
        .places_page(range.cursor, range.until_ms, range.limit)
        .await?;
    let places: Vec<&PlaceInLane> = page.places.iter().chain(&page.need_content).collect();
    let entries: Vec<KeyInLane> = places.iter().map(|place| place.entry.clone()).collect();
    let holdings = schedule.holds(&entries).await?;
    let others: Vec<Key> = (places.iter().zip(holdings))
        .filter(|(place, holding)| !is_at_place(*holding, place.due_ms))
        .map(|(place, _)| place.entry.key.clone())
        .collect();
    if 2 * others.len() > places.len() {
        // So many are looked up one by one no faster than the page is read with its content.
        let page = compare_due(journal, schedule, pick, range).await?;
        return Ok(ScanPage {
            is_mostly_whole: true,
            ..page
        });
    }
    let at_place = places.len() - others.len();
    // One that is not pending any more has ended meanwhile, or was set aside.
    let pendings = journal.pendings(&others).await?.into_iter().flatten();
    let read = picked(pendings, pick);
    Ok(ScanPage {
        pending: (at_place + read.len()) as u64,
        later: 0,
        held: 0,
        differences: find_until(journal, schedule, &read, range.until_ms).await?,
        unreadable: Vec::new(),
        is_mostly_whole: false,
        next: ScanPosition::after_due(page.next),
    })
}

/// Those of a page that are picked, as they are compared.
fn picked(
    page: impl IntoIterator<Item = Pending>,
    pick: &Pick,
) -> Vec<(KeyInLane, Option<Standing>)> {
    page.into_iter()
        .filter(|pending| pick.includes(pending))
        .map(|pending| {
            let entry = Standing::of_pending(&pending);
            (pending.notification.key_in_lane(), Some(entry))
        })
        .collect()
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
            ScanPosition::DUE,
            ScanPosition::Due(Some(cursor)),
            ScanPosition::Held(None),
            ScanPosition::Held(Some("1-281474976710656".to_string())),
            ScanPosition::End,
        ] {
            assert_eq!(ScanPosition::from_text(&place.to_text()), Some(place));
        }
        for text in [
            "",
            "pending ",
            "pending 1",
            "pending 1 x",
            "due 1",
            "halt",
            "x 1",
        ] {
            assert_eq!(ScanPosition::from_text(text), None, "{text}");
        }
    }
}
