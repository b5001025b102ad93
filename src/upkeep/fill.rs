//! Filling a schedule from the journal: the whole schedule in embedded mode, where it lives in
//! memory; in Redis what it lacks, beside the traffic.
//!
//! Goes through what is pending, soonest due first, so that attempts go on as soon as the first are
//! in. Registrations go on meanwhile: what is registered is written to the journal first and put into
//! the schedule afterwards by whoever registers it, so it does not matter whether it is seen here.

use super::error::UpkeepError;
use crate::journal::{Cursor, Journal, Pending};
use crate::schedule::{Entry, Restored, Schedule};
use futures_util::future::try_join;

/// Notifications read from the journal at a time.
const PAGE: usize = 2_000;

/// A schedule being filled. Can be gone on with after a failure.
pub struct Filling<'stores> {
    journal: &'stores dyn Journal,
    schedule: &'stores dyn Schedule,
    verify: bool,
    cursor: Option<Cursor>,
    page: Option<Vec<Pending>>,
    done: Filled,
}

/// How far filling has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filled {
    /// Pending notifications that were read in the journal.
    pub read: u64,
    /// What had to be put into the schedule.
    pub restored: Restored,
}

impl<'stores> Filling<'stores> {
    /// Begins to fill a schedule. With `verify`, the journal is asked again before each is sent:
    /// needed wherever anything can have happened since it was read.
    #[must_use]
    pub fn new(
        journal: &'stores dyn Journal,
        schedule: &'stores dyn Schedule,
        verify: bool,
    ) -> Self {
        Self {
            journal,
            schedule,
            verify,
            cursor: None,
            page: None,
            done: Filled::default(),
        }
    }

    /// How far it has come.
    #[must_use]
    pub fn done(&self) -> Filled {
        self.done
    }

    /// Puts one page in while the next one is read. `false` at the end.
    ///
    /// # Errors
    /// [`UpkeepError`]; the step can be repeated.
    pub async fn step(&mut self) -> Result<bool, UpkeepError> {
        let page = match self.page.take() {
            Some(page) => page,
            None => {
                let (page, next) = self.journal.pending_page(None, PAGE).await?;
                self.cursor = next;
                page
            }
        };
        let read = page.len() as u64;
        let entries = self.entries(&page);
        let cursor = self.cursor;
        let reading = async {
            match cursor {
                None => Ok((Vec::new(), None)),
                Some(_) => self.journal.pending_page(cursor, PAGE).await,
            }
        };
        let reading = async { reading.await.map_err(UpkeepError::from) };
        let restoring = async { Ok(self.schedule.restore(&entries).await?) };
        match try_join(reading, restoring).await {
            Ok(((next_page, next), restored)) => {
                self.done.read += read;
                self.done.restored.missing += restored.missing;
                self.done.restored.moved += restored.moved;
                let more = cursor.is_some();
                self.page = more.then_some(next_page);
                self.cursor = next;
                Ok(more)
            }
            Err(error) => {
                self.page = Some(page);
                Err(error)
            }
        }
    }

    fn entries(&self, page: &[Pending]) -> Vec<Entry> {
        page.iter()
            .map(|pending| Entry {
                verify: self.verify,
                ..Entry::scheduled(pending.notification.clone(), pending.progress)
            })
            .collect()
    }
}

/// Puts every pending notification into a schedule that nobody works with yet.
///
/// # Errors
/// [`UpkeepError`] if a store fails half-way.
pub async fn fill(journal: &dyn Journal, schedule: &dyn Schedule) -> Result<Filled, UpkeepError> {
    let mut filling = Filling::new(journal, schedule, false);
    while filling.step().await? {}
    Ok(filling.done())
}
