//! Loading a schedule from the journal. In embedded mode everything that is due soon is loaded, since the schedule is in
//! memory. In Redis the missing entries are loaded, beside the traffic. What is due later waits in the journal
//! ([`crate::schedule::window`]).
//!
//! Pending notifications are read soonest due first, so that attempts continue as soon as the first are
//! loaded. Registrations continue meanwhile: a server writes a registration to the journal first and puts it
//! into the schedule itself, so it does not matter whether it is read here.

use super::pace::SOON_MS;
use super::page::{FIRST_PAGE, LoadPage, PageReads, read};
use crate::clock::Clock;
use crate::journal::{Cursor, Journal, JournalError};
use crate::maintenance::error::MaintenanceError;
use crate::schedule::recoverable::Recoverable;
use crate::schedule::{Restored, Schedule};
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

/// Entries put into the schedule in one step, between which attempts get their turn.
const STEP: usize = 2_000;

/// Pages read ahead while one is put into the schedule. The task that reads has one more.
const PAGES_AHEAD: usize = 1;

/// Loads a schedule. Can be continued after a failure.
pub struct Loader<'schedule> {
    journal: Arc<dyn Journal>,
    schedule: &'schedule dyn Schedule,
    /// If only the parts of the schedule are loaded that this instance has to load.
    parts: Option<&'schedule dyn Recoverable>,
    reads: PageReads,
    beside_attempts: BesideAttempts,
    reading: Option<ReadAhead>,
    /// The page that was read and is not yet put in, and how many of its entries are.
    page: Option<LoadPage>,
    put_in: usize,
    /// When the first of the page is due that was read last. All that follows is due no sooner.
    from_ms: i64,
    /// The cursor of the next page to read.
    cursor: Option<Cursor>,
    is_through: bool,
    done: Loaded,
}

/// How far loading has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Pending notifications that were read in the journal.
    pub read: u64,
    /// What was put into the schedule.
    pub restored: Restored,
}

/// Whether attempts are made while pages are read. Shared with the task that reads.
#[derive(Debug, Clone, Default)]
struct BesideAttempts(Arc<AtomicBool>);

/// Reads pages ahead in a task of its own. The task ends after the last page, or after a failure.
struct ReadAhead {
    pages: mpsc::Receiver<Result<LoadPage, JournalError>>,
    task: AbortOnDropHandle<()>,
}

impl<'schedule> Loader<'schedule> {
    /// Begins to load a schedule. With `verify`, the journal is asked again before an entry is sent. That is
    /// needed if a notification can change after it was read.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, schedule: &'schedule dyn Schedule, verify: bool) -> Self {
        Self {
            journal,
            schedule,
            parts: None,
            reads: PageReads::of(schedule, schedule.clock().now_ms(), FIRST_PAGE, verify),
            beside_attempts: BesideAttempts::default(),
            reading: None,
            page: None,
            put_in: 0,
            from_ms: i64::MIN,
            cursor: None,
            is_through: false,
            done: Loaded::default(),
        }
    }

    /// Loads only the parts of the schedule that this instance has to load.
    #[must_use]
    pub fn only(mut self, parts: &'schedule dyn Recoverable) -> Self {
        self.parts = Some(parts);
        self
    }

    /// How far it has come.
    #[must_use]
    pub fn done(&self) -> Loaded {
        self.done
    }

    /// Puts a part of a page into the schedule while the next page is read. `false` at the end.
    ///
    /// # Errors
    /// [`MaintenanceError`]; the step can be repeated, also if its future was dropped.
    ///
    /// # Panics
    /// If the journal panics.
    pub async fn step(&mut self) -> Result<bool, MaintenanceError> {
        if self.is_through {
            return Ok(false);
        }
        let page = match self.page.take() {
            Some(page) => page,
            None => {
                self.put_in = 0;
                self.next_page().await?
            }
        };
        // Kept until it is in the schedule.
        let page = &*self.page.insert(page);
        let end = page.len().min(self.put_in + STEP);
        let restored = page.put_in(self.schedule, self.put_in..end).await?;
        self.done.restored += restored;
        self.done.read += (end - self.put_in) as u64;
        self.put_in = end;
        if end < page.len() {
            return Ok(true);
        }
        if page.next.is_none() {
            // If this fails, the step is repeated, and puts nothing in.
            let loaded = self.reads.loaded(self.reads.until_ms);
            match self.parts {
                Some(parts) => parts.set_loaded_until_of_loading(loaded).await?,
                None => {
                    let none = BTreeSet::new();
                    self.schedule.set_loaded_until(loaded, &none).await?;
                }
            }
        }
        self.is_through = page.next.is_none();
        self.page = None;
        Ok(!self.is_through)
    }

    /// Whether what follows is not due soon.
    #[must_use]
    pub fn can_wait(&self) -> bool {
        !is_soon(self.from_ms, &*self.schedule.clock())
    }

    /// Says whether attempts are made by now. While they are, smaller pages are read.
    pub fn note_attempts(&self, are_made: bool) {
        let noted = &self.beside_attempts.0;
        noted.store(are_made, Ordering::Relaxed);
    }

    async fn next_page(&mut self) -> Result<LoadPage, JournalError> {
        let reading = self.reading.get_or_insert_with(|| {
            let beside = (self.schedule.clock(), self.beside_attempts.clone());
            ReadAhead::start(Arc::clone(&self.journal), self.cursor, self.reads, beside)
        });
        match reading.pages.recv().await {
            Some(Ok(mut page)) => {
                self.cursor = page.next;
                if let Some(parts) = self.parts {
                    page.retain(|lane| parts.is_loading(lane));
                }
                self.from_ms = page.from_ms;
                if self.can_wait() {
                    // A schedule takes entries of one lane together. What is due soon stays in its order.
                    page.sort_by_lane();
                }
                Ok(page)
            }
            Some(Err(error)) => {
                self.reading = None;
                // The page may have been too large for the time that a statement may take.
                self.reads.halve();
                Err(error)
            }
            None => {
                let ended = (&mut reading.task).await;
                self.reading = None;
                match ended.map_err(JoinError::try_into_panic) {
                    Err(Ok(panic)) => resume_unwind(panic),
                    // An error and not the end: otherwise an incomplete schedule would count as whole.
                    Ok(()) | Err(Err(_)) => {
                        let stopped = "reading what is pending was stopped".to_string();
                        Err(JournalError::Unavailable(stopped))
                    }
                }
            }
        }
    }
}

impl ReadAhead {
    fn start(
        journal: Arc<dyn Journal>,
        mut cursor: Option<Cursor>,
        mut reads: PageReads,
        (clock, attempts): (Arc<dyn Clock>, BesideAttempts),
    ) -> Self {
        let (sender, pages) = mpsc::channel(PAGES_AHEAD);
        let task = tokio::spawn(async move {
            loop {
                let started = Instant::now();
                let page = read(journal.as_ref(), cursor, reads).await;
                let took = started.elapsed();
                cursor = page.as_ref().map_or(None, |page| page.next);
                let from_ms = page.as_ref().map_or(i64::MIN, |page| page.from_ms);
                if let Ok(page) = &page {
                    reads.adapt_contents(page);
                }
                if sender.send(page).await.is_err() || cursor.is_none() {
                    return;
                }
                // After the wait for the pages before, during which attempts may have begun. Only of a schedule that is in
                // use, attempts are made meanwhile.
                let beside_attempts = reads.verify
                    && (is_soon(from_ms, &*clock) || attempts.0.load(Ordering::Relaxed));
                reads.adapt(took, beside_attempts);
            }
        });
        Self {
            pages,
            task: AbortOnDropHandle::new(task),
        }
    }
}

/// Whether what is due then is due soon.
fn is_soon(due_ms: i64, clock: &dyn Clock) -> bool {
    due_ms <= clock.now_ms() + SOON_MS
}

/// Puts the pending notifications that are due soon and not set aside into a schedule that is not yet in use. If the schedule
/// is in memory, the bodies stay in the journal: together they may be larger than the memory.
///
/// # Errors
/// [`MaintenanceError`] if a store fails; the schedule is then incomplete.
pub async fn load(
    journal: Arc<dyn Journal>,
    schedule: &dyn Schedule,
) -> Result<Loaded, MaintenanceError> {
    let mut loader = Loader::new(journal, schedule, false);
    while loader.step().await? {}
    Ok(loader.done())
}
