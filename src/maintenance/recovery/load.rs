//! Loading a schedule from the journal. In embedded mode the whole schedule is loaded, since it is in
//! memory. In Redis the missing entries are loaded, beside the traffic.
//!
//! Pending notifications are read soonest due first, so that attempts continue as soon as the first are
//! loaded. Registrations continue meanwhile: a server writes a registration to the journal first and puts it
//! into the schedule itself, so it does not matter whether it is read here.

use crate::journal::{Cursor, JournalError, JournalMaintenance, Pending};
use crate::maintenance::error::MaintenanceError;
use crate::schedule::{Entry, Restored, Schedule};
use std::panic::resume_unwind;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

/// Notifications read from the journal at a time.
const PAGE: usize = 2_000;

/// Pages read ahead while one is put into the schedule. The task that reads has one more.
const PAGES_AHEAD: usize = 1;

/// Loads a schedule. Can be continued after a failure.
pub struct Loader<'schedule> {
    journal: Arc<dyn JournalMaintenance>,
    schedule: &'schedule dyn Schedule,
    verify: bool,
    bodies: LoadBodies,
    reading: Option<ReadAhead>,
    /// The page that was read and is not yet put in.
    page: Option<LoadPage>,
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

/// Whether bodies are put into the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoadBodies {
    /// With the entries: attempts read them in the schedule.
    Put,
    /// Only in the journal: attempts read them there.
    Left,
}

struct LoadPage {
    entries: Vec<Entry>,
    /// The cursor of the next page; `None` if this is the last.
    next: Option<Cursor>,
}

/// Reads pages ahead in a task of its own. The task ends after the last page, or after a failure.
struct ReadAhead {
    pages: mpsc::Receiver<Result<LoadPage, JournalError>>,
    task: AbortOnDropHandle<()>,
}

impl<'schedule> Loader<'schedule> {
    /// Begins to load a schedule. With `verify`, the journal is asked again before an entry is sent. That is
    /// needed if a notification can change after it was read.
    #[must_use]
    pub fn new(
        journal: Arc<dyn JournalMaintenance>,
        schedule: &'schedule dyn Schedule,
        verify: bool,
    ) -> Self {
        Self {
            journal,
            schedule,
            verify,
            bodies: match schedule.recoverable() {
                Some(_) => LoadBodies::Put,
                None => LoadBodies::Left,
            },
            reading: None,
            page: None,
            cursor: None,
            is_through: false,
            done: Loaded::default(),
        }
    }

    /// How far it has come.
    #[must_use]
    pub fn done(&self) -> Loaded {
        self.done
    }

    /// Puts one page into the schedule while the next is read. `false` at the end.
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
            None => self.next_page().await?,
        };
        // Kept until it is in the schedule.
        let page = &*self.page.insert(page);
        let restored = self.schedule.restore(&page.entries).await?;
        self.done.read += page.entries.len() as u64;
        self.done.restored.missing += restored.missing;
        self.done.restored.moved += restored.moved;
        self.is_through = page.next.is_none();
        self.page = None;
        Ok(!self.is_through)
    }

    async fn next_page(&mut self) -> Result<LoadPage, JournalError> {
        let reading = self.reading.get_or_insert_with(|| {
            let journal = Arc::clone(&self.journal);
            ReadAhead::start(journal, self.cursor, self.verify, self.bodies)
        });
        match reading.pages.recv().await {
            Some(Ok(page)) => {
                self.cursor = page.next;
                Ok(page)
            }
            Some(Err(error)) => {
                self.reading = None;
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
        journal: Arc<dyn JournalMaintenance>,
        mut cursor: Option<Cursor>,
        verify: bool,
        bodies: LoadBodies,
    ) -> Self {
        let (sender, pages) = mpsc::channel(PAGES_AHEAD);
        let task = tokio::spawn(async move {
            loop {
                let page = read(journal.as_ref(), cursor, verify, bodies).await;
                cursor = page.as_ref().map_or(None, |page| page.next);
                if sender.send(page).await.is_err() || cursor.is_none() {
                    return;
                }
            }
        });
        Self {
            pages,
            task: AbortOnDropHandle::new(task),
        }
    }
}

async fn read(
    journal: &dyn JournalMaintenance,
    cursor: Option<Cursor>,
    verify: bool,
    bodies: LoadBodies,
) -> Result<LoadPage, JournalError> {
    let (pending, next) = match bodies {
        LoadBodies::Put => journal.pending_page(cursor, PAGE).await?,
        LoadBodies::Left => journal.pending_page_without_bodies(cursor, PAGE).await?,
    };
    let entry = |pending: Pending| Entry {
        verify,
        ..Entry::scheduled(pending.notification, pending.progress)
    };
    Ok(LoadPage {
        entries: pending.into_iter().map(entry).collect(),
        next,
    })
}

/// Puts the pending notifications that are not set aside into a schedule that is not yet in use. If the schedule
/// is in memory, the bodies stay in the journal: together they may be larger than the memory.
///
/// # Errors
/// [`MaintenanceError`] if a store fails; the schedule is then incomplete.
pub async fn load(
    journal: Arc<dyn JournalMaintenance>,
    schedule: &dyn Schedule,
) -> Result<Loaded, MaintenanceError> {
    let mut loader = Loader::new(journal, schedule, false);
    while loader.step().await? {}
    Ok(loader.done())
}
