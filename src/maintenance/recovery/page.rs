//! A page of the pending notifications, as it is read in the journal and put into a schedule.
//!
//! For a schedule that leaves content to the journal, only places in lanes are read, and the content only of those that
//! need it.

use crate::domain::lane::Lane;
use crate::domain::place::PlaceInLane;
use crate::journal::{Cursor, Journal, JournalError, PageBodies, Pending, PlacesPage};
use crate::schedule::window::{LoadedWindow, Window};
use crate::schedule::{Entry, Restored, Schedule, ScheduleError};
use std::ops::Range;
use std::time::Duration;

/// Notifications read from the journal at a time: few at first, so that what is due is sent soon, then more with each
/// page. Of a large page, more entries are of one lane, and Redis takes these together.
pub(super) const FIRST_PAGE: usize = 250;
/// Of places alone.
const LARGEST_PAGE: usize = 48_000;
/// If more than one in ten needs its content: that may have kilobytes of headers.
const LARGEST_PAGE_WITH_CONTENTS: usize = 16_000;
/// The largest page while attempts are made, or are about to begin: reading a larger one takes the time of a processor that
/// they wait for, and whether they were late is known only when it has been read.
const LARGEST_PAGE_BESIDE_ATTEMPTS: usize = 250;
/// Of pages with bodies, which may be large.
const LARGEST_PAGE_WITH_BODIES: usize = 2_000;
/// The smallest page, if the journal is slow: it answers after a few seconds or not at all.
const SMALLEST_PAGE: usize = 125;
/// After a page that took longer than this to read, the next is half as large.
const SLOW_PAGE: Duration = Duration::from_secs(1);
/// After a page that took less than this to read, the next is twice as large.
const FAST_PAGE: Duration = Duration::from_millis(500);
/// Notifications whose content is read at a time.
const CONTENTS_AT_A_TIME: usize = 1_000;

/// How the pages are read.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintenance) struct PageReads {
    /// When the reading begins, in milliseconds since 1970.
    began_ms: i64,
    /// Up to which due time, in milliseconds since 1970.
    pub(in crate::maintenance) until_ms: i64,
    /// Maximum number of notifications of a page.
    limit: usize,
    /// Whether the journal is asked again before an entry is sent.
    pub(super) verify: bool,
    contents: Contents,
    /// Whether more than one in ten of the last page needed more than its place.
    many_need_content: bool,
}

/// What is read of the notifications of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// Everything.
    Whole,
    /// Everything but the bodies.
    WithoutBodies,
    /// Their places; of those that need more, everything but the bodies.
    Places,
    /// Everything but the bodies, since most of the last page needed that.
    MostWithoutBodies,
}

impl PageReads {
    /// For this schedule, up to what is due soon. The reading begins after `now_ms`.
    pub(in crate::maintenance) fn of(
        schedule: &dyn Schedule,
        now_ms: i64,
        limit: usize,
        verify: bool,
    ) -> Self {
        let window = schedule.limits().window;
        Self {
            began_ms: now_ms,
            until_ms: window.load_until_ms(now_ms),
            limit,
            verify,
            // Without a horizon, Redis holds everything that the journal may lose. With one, the journal is asked anyway
            // before what was loaded is sent, and the attempt reads the rest there.
            contents: match schedule.recoverable() {
                _ if schedule.leaves_content() => Contents::Places,
                Some(_) if window == Window::WHOLE => Contents::Whole,
                Some(_) | None => Contents::WithoutBodies,
            },
            many_need_content: false,
        }
    }

    /// Fits the size of the next page to how long the last one took to read, and to whether the next one is `beside_attempts`.
    pub(super) fn adapt(&mut self, took: Duration, beside_attempts: bool) {
        let largest = match self.contents {
            _ if beside_attempts => LARGEST_PAGE_BESIDE_ATTEMPTS,
            Contents::Whole => LARGEST_PAGE_WITH_BODIES,
            Contents::Places if !self.many_need_content => LARGEST_PAGE,
            Contents::WithoutBodies | Contents::Places | Contents::MostWithoutBodies => {
                LARGEST_PAGE_WITH_CONTENTS
            }
        };
        let limit = match took {
            slow if slow > SLOW_PAGE => self.limit / 2,
            fast if fast < FAST_PAGE => self.limit * 2,
            _ => self.limit,
        };
        self.limit = limit.clamp(SMALLEST_PAGE, largest);
    }

    /// Fits what is read of the next page to how many of the last one needed more than their places. Before
    /// [`PageReads::adapt`].
    pub(in crate::maintenance) fn adapt_contents(&mut self, last: &LoadPage) {
        self.many_need_content = last.need_content * 10 > last.len();
        if let Contents::Places | Contents::MostWithoutBodies = self.contents {
            self.contents = match last.need_content * 2 > last.len() {
                true => Contents::MostWithoutBodies,
                false => Contents::Places,
            };
        }
    }

    /// What is in the schedule once everything was put in that was read and is due by then.
    pub(in crate::maintenance) fn loaded(self, until_ms: i64) -> LoadedWindow {
        LoadedWindow {
            began_ms: self.began_ms,
            until_ms,
        }
    }

    /// Makes the next page half as large.
    pub(super) fn halve(&mut self) {
        self.limit = (self.limit / 2).max(SMALLEST_PAGE);
    }

    fn entry(self, pending: Pending) -> Entry {
        Entry {
            verify: self.verify,
            ..Entry::scheduled(pending.notification, pending.progress)
        }
    }
}

/// A page of the pending notifications.
pub(in crate::maintenance) struct LoadPage {
    /// Those of which only the place is read.
    places: Vec<PlaceInLane>,
    /// The others.
    entries: Vec<Entry>,
    /// How many need more than a place.
    need_content: usize,
    /// When the first of them is due.
    pub(super) from_ms: i64,
    /// The cursor of the next page; `None` if this is the last.
    pub(in crate::maintenance) next: Option<Cursor>,
}

impl LoadPage {
    fn of_entries(entries: Vec<Entry>, next: Option<Cursor>) -> Self {
        let need_content = entries.iter().filter(|entry| entry.is_needed_whole());
        Self {
            places: Vec::new(),
            need_content: need_content.count(),
            from_ms: entries
                .first()
                .map_or(i64::MIN, |first| first.progress.next_due_ms()),
            entries,
            next,
        }
    }

    /// The number of its notifications.
    pub(in crate::maintenance) fn len(&self) -> usize {
        self.places.len() + self.entries.len()
    }

    /// Leaves out those of other lanes.
    pub(in crate::maintenance) fn retain(&mut self, is_kept: impl Fn(&Lane) -> bool) {
        self.places.retain(|place| is_kept(&place.entry.lane));
        self.entries
            .retain(|entry| is_kept(&entry.notification.lane));
    }

    /// Sorts by lane; those of one lane stay in their order.
    pub(super) fn sort_by_lane(&mut self) {
        self.places
            .sort_by(|one, other| one.entry.lane.cmp(&other.entry.lane));
        self.entries
            .sort_by(|one, other| one.notification.lane.cmp(&other.notification.lane));
    }

    /// Puts some of its notifications into a schedule.
    pub(in crate::maintenance) async fn put_in(
        &self,
        schedule: &dyn Schedule,
        some: Range<usize>,
    ) -> Result<Restored, ScheduleError> {
        let of_places = self.places.len();
        let places = &self.places[some.start.min(of_places)..some.end.min(of_places)];
        let entries = some.start.saturating_sub(of_places)..some.end.saturating_sub(of_places);
        let mut restored = match places {
            [] => Restored::default(),
            _ => schedule.restore_places(places).await?,
        };
        restored += schedule.restore(&self.entries[entries]).await?;
        Ok(restored)
    }
}

/// Reads the page after a cursor.
pub(in crate::maintenance) async fn read(
    journal: &dyn Journal,
    cursor: Option<Cursor>,
    reads: PageReads,
) -> Result<LoadPage, JournalError> {
    let bodies = match reads.contents {
        Contents::Places => {
            let mut page = journal
                .places_page(cursor, reads.until_ms, reads.limit)
                .await?;
            // Of fewer, all may need their content.
            if page.need_content.len() > LARGEST_PAGE_WITH_CONTENTS {
                let fewer = LARGEST_PAGE_WITH_CONTENTS;
                page = journal.places_page(cursor, reads.until_ms, fewer).await?;
            }
            match with_contents(journal, page, reads).await {
                // The page without bodies leaves out and names what cannot be read.
                Err(JournalError::Corrupt(_) | JournalError::Refused(_)) => PageBodies::None,
                done => return done,
            }
        }
        Contents::Whole => PageBodies::All,
        Contents::WithoutBodies | Contents::MostWithoutBodies => PageBodies::None,
    };
    // It may have been a page of places until now.
    let limit = reads.limit.min(LARGEST_PAGE_WITH_CONTENTS);
    let reading = journal.pending_page(cursor, reads.until_ms, limit, bodies);
    let (pending, next) = reading.await?;
    let entries = pending.into_iter().map(|pending| reads.entry(pending));
    Ok(LoadPage::of_entries(entries.collect(), next))
}

/// Reads the content of those that need it.
async fn with_contents(
    journal: &dyn Journal,
    page: PlacesPage,
    reads: PageReads,
) -> Result<LoadPage, JournalError> {
    let keys: Vec<_> = (page.need_content.iter().map(|place| &place.entry.key))
        .cloned()
        .collect();
    let mut entries = Vec::with_capacity(keys.len());
    for keys in keys.chunks(CONTENTS_AT_A_TIME) {
        // One that is not pending any more has ended meanwhile, or was set aside.
        let found = journal.pendings(keys).await?.into_iter().flatten();
        entries.extend(found.map(|pending| reads.entry(pending)));
    }
    let firsts = [page.places.first(), page.need_content.first()];
    let first_due_ms = firsts.into_iter().flatten().map(|place| place.due_ms).min();
    Ok(LoadPage {
        places: page.places,
        need_content: keys.len(),
        entries,
        from_ms: first_due_ms.unwrap_or(i64::MIN),
        next: page.next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::key::Key;
    use crate::domain::lane::KeyInLane;
    use crate::domain::priority::Priority;

    const PLACES: PageReads = PageReads {
        began_ms: 0,
        until_ms: 0,
        limit: LARGEST_PAGE,
        verify: true,
        contents: Contents::Places,
        many_need_content: false,
    };
    const FAST: Duration = Duration::from_millis(1);

    /// A page of which so many need their content.
    fn page(need_content: usize, len: usize) -> LoadPage {
        let place = PlaceInLane {
            entry: KeyInLane {
                key: Key::new("t", "1").expect("a key"),
                lane: Lane::from_name("https://shop.example"),
            },
            due_ms: 0,
            priority: Priority::Normal,
        };
        LoadPage {
            places: vec![place; len],
            entries: Vec::new(),
            need_content,
            from_ms: 0,
            next: None,
        }
    }

    #[test]
    fn a_page_is_small_beside_attempts_and_not_large_if_many_need_their_content() {
        let next = |last: &LoadPage, beside_attempts| {
            let mut reads = PLACES;
            reads.adapt_contents(last);
            reads.adapt(FAST, beside_attempts);
            (reads.limit, reads.contents)
        };
        let places = Contents::Places;
        assert_eq!(next(&page(10, 100), false), (LARGEST_PAGE, places));
        let content = LARGEST_PAGE_WITH_CONTENTS;
        assert_eq!(next(&page(11, 100), false), (content, places));
        assert_eq!(next(&page(50, 100), false), (content, places));
        let most = Contents::MostWithoutBodies;
        assert_eq!(next(&page(51, 100), false), (content, most));
        assert_eq!(next(&page(0, 0), false), (LARGEST_PAGE, places));
        for last in [page(0, 100), page(100, 100)] {
            assert_eq!(next(&last, true).0, LARGEST_PAGE_BESIDE_ATTEMPTS);
        }
    }

    #[test]
    fn a_page_grows_while_it_is_read_fast_and_shrinks_when_that_took_long() {
        let next = |limit, took| {
            let mut reads = PageReads { limit, ..PLACES };
            reads.adapt(took, false);
            reads.limit
        };
        assert_eq!(next(1_000, FAST), 2_000);
        assert_eq!(next(1_000, FAST_PAGE), 1_000);
        assert_eq!(next(1_000, SLOW_PAGE), 1_000);
        assert_eq!(next(1_000, SLOW_PAGE + FAST), 500);
        assert_eq!(next(SMALLEST_PAGE, SLOW_PAGE + FAST), SMALLEST_PAGE);
        assert_eq!(next(LARGEST_PAGE, FAST), LARGEST_PAGE);
    }
}
