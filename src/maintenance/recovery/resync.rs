//! Repairing a schedule in which something is or may be missing, from the journal: the parts of it that this instance has
//! to load. Other parts are left alone, and may be out of reach.
//!
//! First everything that is pending in the journal and missing in the schedule is put in, soonest due
//! first. Then all entries of the schedule are read: entries that are in no lane are put back into theirs,
//! and entries that have ended in the journal are removed. Bare entries, whose content is in the journal alone, are not looked up
//! for that if there were none before: all of them were just read in the journal. Servers use the schedule meanwhile. Without a
//! journal, only the entries that are in no lane are put back.

use super::load::Loader;
use crate::journal::Journal;
use crate::maintenance::difference::{DifferenceKind, find_among};
use crate::maintenance::error::MaintenanceError;
use crate::maintenance::repair::{RepairNotes, repair};
use crate::schedule::recoverable::Recoverable;
use crate::schedule::{Holding, Schedule};
use std::sync::Arc;

/// Entries read in one step.
const PAGE: usize = 500;
/// Maximum number of other entries that are read to find out whether there are bare ones.
const MOST_OTHERS: usize = 2_000;

/// Repairs a schedule from the journal. Can be continued after a failure.
pub struct Resync<'schedule> {
    journal: Option<Arc<dyn Journal>>,
    schedule: &'schedule dyn Schedule,
    recoverable: &'schedule dyn Recoverable,
    loading: Option<Loader<'schedule>>,
    /// Whether what is loaded had no bare entries before; `None` until the schedule was asked.
    had_nothing_bare: Option<bool>,
    stage: ResyncStage,
    done: Recovered,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Pending notifications that were read in the journal and belong to the parts that were loaded.
    pub read: u64,
    /// Entries that were missing, had other progress or were in no lane, and were put in.
    pub put_in: u64,
    /// Entries that were removed because they have ended, are set aside or are in a wrong lane.
    pub removed: u64,
}

#[derive(Debug)]
enum ResyncStage {
    /// Putting in pending notifications.
    Loading,
    /// Putting back entries that are in no lane, after this cursor.
    Repairing(Option<String>),
    /// Removing entries that have ended, are set aside or are in a wrong lane, and repairing entries that are
    /// unknown to the journal or have other progress, after this cursor.
    Removing(Option<String>),
    Done,
}

impl<'schedule> Resync<'schedule> {
    /// Begins to recover a schedule.
    #[must_use]
    pub fn new(
        journal: Option<Arc<dyn Journal>>,
        schedule: &'schedule dyn Schedule,
        recoverable: &'schedule dyn Recoverable,
    ) -> Self {
        let loading = journal
            .clone()
            .map(|journal| Loader::new(journal, schedule, true).only(recoverable));
        let stage = match loading {
            Some(_) => ResyncStage::Loading,
            None => ResyncStage::Repairing(None),
        };
        Self {
            journal,
            schedule,
            recoverable,
            loading,
            had_nothing_bare: None,
            stage,
            done: Recovered::default(),
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn done(&self) -> Recovered {
        self.done
    }

    /// Whether what the next step does is not urgent.
    #[must_use]
    pub fn can_wait(&self) -> bool {
        match (&self.stage, &self.loading) {
            (ResyncStage::Loading, Some(loading)) => loading.can_wait(),
            // What is in no lane may be due.
            (ResyncStage::Loading | ResyncStage::Repairing(_), _) => false,
            (ResyncStage::Removing(_) | ResyncStage::Done, _) => true,
        }
    }

    /// Says whether attempts are made by now.
    pub fn note_attempts(&self, are_made: bool) {
        if let Some(loading) = &self.loading {
            loading.note_attempts(are_made);
        }
    }

    /// Whether what is loaded has no bare entries. What was just registered is none. `false` also if there are many others:
    /// what is due waits for the answer.
    async fn has_nothing_bare(&self) -> Result<bool, MaintenanceError> {
        let (mut cursor, mut others) = (None, 0);
        while others <= MOST_OTHERS {
            let page = (self.recoverable)
                .scan_loading(cursor.as_deref(), PAGE)
                .await?;
            if page.holdings.iter().any(|(_, holding)| holding.is_bare()) {
                return Ok(false);
            }
            others += page.holdings.len();
            cursor = match page.next {
                Some(next) => Some(next),
                None => return Ok(true),
            };
        }
        Ok(false)
    }

    /// Does one step. `false` at the end.
    ///
    /// # Errors
    /// [`MaintenanceError`]; the step can be repeated.
    ///
    /// # Panics
    /// If the journal panics.
    pub async fn step(&mut self) -> Result<bool, MaintenanceError> {
        match &mut self.stage {
            ResyncStage::Loading => {
                if self.had_nothing_bare.is_none() {
                    self.had_nothing_bare = Some(self.has_nothing_bare().await?);
                }
                let more = match &mut self.loading {
                    Some(loader) => {
                        let more = loader.step().await?;
                        let loaded = loader.done();
                        self.done.read = loaded.read;
                        self.done.put_in = loaded.restored.missing + loaded.restored.moved;
                        more
                    }
                    None => false,
                };
                if !more {
                    self.loading = None;
                    self.stage = ResyncStage::Repairing(None);
                }
            }
            ResyncStage::Repairing(cursor) => {
                let reindexed = self.recoverable.reindex(cursor.as_deref(), PAGE).await?;
                self.done.put_in += reindexed.reindexed;
                self.stage = match (reindexed.next, &self.journal) {
                    (Some(next), _) => ResyncStage::Repairing(Some(next)),
                    (None, Some(_)) => ResyncStage::Removing(None),
                    (None, None) => ResyncStage::Done,
                };
            }
            ResyncStage::Removing(cursor) => {
                let Some(journal) = &self.journal else {
                    return Ok(false);
                };
                let page = self
                    .recoverable
                    .scan_loading(cursor.as_deref(), PAGE)
                    .await?;
                // If it has ended since, its attempt and the reconciler find out.
                let had_nothing_bare = self.had_nothing_bare == Some(true);
                let was_just_read = |holding: &Holding| had_nothing_bare && holding.is_bare();
                let entries: Vec<_> = page
                    .holdings
                    .into_iter()
                    .filter(|(_, holding)| !was_just_read(holding))
                    .map(|(entry, _)| entry)
                    .collect();
                // What is read is in parts that this instance loads, and these are in reach.
                let left_out = self.schedule.out_of_reach();
                let finding = find_among(journal.as_ref(), self.schedule, &entries, &left_out);
                let found = finding.await?;
                let mut found = found.differences;
                // An entry that is missing by now is on its way, or the reconciler puts it in.
                found.retain(|difference| match difference.kind {
                    DifferenceKind::Ended
                    | DifferenceKind::OtherLane
                    | DifferenceKind::SetAside
                    | DifferenceKind::Unknown
                    | DifferenceKind::Elsewhere => true,
                    DifferenceKind::Missing => false,
                });
                let repaired =
                    repair(journal.as_ref(), self.schedule, &found, RepairNotes::Kept).await?;
                self.done.removed += repaired.removed;
                self.done.put_in += repaired.moved;
                self.stage = match page.next {
                    Some(next) => ResyncStage::Removing(Some(next)),
                    None => ResyncStage::Done,
                };
            }
            ResyncStage::Done => return Ok(false),
        }
        Ok(!matches!(self.stage, ResyncStage::Done))
    }
}
