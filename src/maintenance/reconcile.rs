//! Repairing, within a minute, what a crash left between the journal and the schedule.
//!
//! Both are written one after the other, the journal first. Whoever dies in between leaves a
//! notification that the schedule does not hold, or a change by hand that it does not know of. So
//! every few seconds this looks at what was registered or changed since it last looked, and compares:
//! what is still pending must be in the schedule, at the step where the journal has it; what was
//! called off must not be. Everything else that happens to a notification happens under a lease,
//! which expires and has the journal asked.
//!
//! It costs what has happened since the last look, not what there is: a window of time is read by an
//! index, a page at a step. The journal keeps where the last window ended, so the first look after a
//! crash goes on from there. Where nothing is kept, the first window begins with the oldest.
//!
//! A window ends `REGISTRATION_MS` ago, since what is younger may still be on its way. It begins
//! `OVERLAP_MS` before the last one ended: instants are read before the journal is written, and a
//! journal that is slow, or waits for its turn, shows them that much later. What comes later still is
//! found by the sweep.

use super::REGISTRATION_MS;
use super::difference::{JournalEntry, find, find_recorded};
use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use super::repair::{RepairNotes, Repaired, repair};
use crate::domain::lane::KeyInLane;
use crate::domain::state::State;
use crate::journal::{Cursor, Filter, Journal, JournalError, Order};
use crate::schedule::Schedule;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Under which name the journal keeps until when everything is reconciled.
const PLACE: &str = "reconciled_ms";
/// By how much windows overlap, in milliseconds.
const OVERLAP_MS: i64 = 30_000;
/// How often the place is written down, in milliseconds: so much is looked at again after a crash,
/// and so rarely does an idle server write.
const REMEMBER_MS: i64 = 60_000;
/// Notifications compared in one step, and the rest between two steps.
const PAGE: usize = 500;
const STEP_REST: Duration = Duration::from_millis(20);
/// Rest between two windows. With what a window leaves out because it is too young, and the time until
/// another instance takes over from a dead one, this makes less than a minute.
const WINDOW_REST: Duration = Duration::from_secs(8);

/// Goes through window after window.
pub struct Reconciler {
    journal: Arc<dyn Journal>,
    schedule: Arc<dyn Schedule>,
    /// Until when everything is reconciled, and what of that is written down.
    place_ms: Option<i64>,
    written_ms: i64,
    window: Option<Window>,
}

struct Window {
    from_ms: i64,
    until_ms: i64,
    stage: WindowStage,
    repaired: Repaired,
}

/// How far a window has been gone through.
#[derive(Clone, Copy)]
enum WindowStage {
    /// What was registered in it, newest first.
    Registered(Option<Cursor>),
    /// What was changed by hand in it, oldest first.
    Changed(Option<Cursor>),
    Done,
}

impl Reconciler {
    /// Begins where the journal says.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, schedule: Arc<dyn Schedule>) -> Self {
        Self {
            journal,
            schedule,
            place_ms: None,
            written_ms: 0,
            window: None,
        }
    }

    /// Compares and repairs one page of the window that ends at `now_ms`, or goes on with the one that
    /// was begun.
    ///
    /// # Errors
    /// If a store fails; the step can be repeated.
    pub async fn step(&mut self, now_ms: i64) -> Result<Step<Repaired>, MaintenanceError> {
        if self.window.is_none() {
            self.window = Some(self.open(now_ms).await?);
        }
        let Some(window) = &mut self.window else {
            return Ok(Step::More);
        };
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        let (differences, stage) = match window.stage {
            WindowStage::Registered(cursor) => {
                let filter = Filter {
                    state: Some(State::Scheduled),
                    from_ms: Some(window.from_ms),
                    to_ms: Some(window.until_ms),
                    ..Filter::default()
                };
                let order = Order::Registered;
                let page = journal.list(&filter, order, cursor, PAGE).await?;
                let read: Vec<(KeyInLane, Option<JournalEntry>)> = (page.items.iter())
                    .map(|item| (item.key_in_lane(), Some(JournalEntry::of(item))))
                    .collect();
                let next = page.next.map(|next| WindowStage::Registered(Some(next)));
                let stage = next.unwrap_or(WindowStage::Changed(None));
                (find(journal, schedule, &read).await?, stage)
            }
            WindowStage::Changed(cursor) => {
                let (from_ms, until_ms) = (window.from_ms, window.until_ms);
                let (mut keys, next) = journal.changes(from_ms, until_ms, cursor, PAGE).await?;
                keys.sort_unstable();
                keys.dedup();
                let stage = next.map_or(WindowStage::Done, |next| WindowStage::Changed(Some(next)));
                (find_recorded(journal, schedule, &keys).await?, stage)
            }
            WindowStage::Done => (Vec::new(), WindowStage::Done),
        };
        window.repaired += repair(journal, schedule, &differences, RepairNotes::Kept).await?;
        window.stage = stage;
        match window.stage {
            WindowStage::Registered(_) | WindowStage::Changed(_) => Ok(Step::More),
            WindowStage::Done => {
                let (until_ms, repaired) = (window.until_ms, window.repaired);
                self.close(until_ms).await?;
                Ok(Step::Done(repaired))
            }
        }
    }

    /// Goes through a whole window.
    ///
    /// # Errors
    /// As [`Reconciler::step`].
    pub async fn pass(&mut self, now_ms: i64) -> Result<Repaired, MaintenanceError> {
        loop {
            if let Step::Done(repaired) = self.step(now_ms).await? {
                return Ok(repaired);
            }
        }
    }

    async fn open(&mut self, now_ms: i64) -> Result<Window, MaintenanceError> {
        let place_ms = match self.place_ms {
            Some(place_ms) => place_ms,
            None => {
                self.written_ms = match self.journal.recall(PLACE).await? {
                    Some(text) => text.parse().map_err(|_| {
                        JournalError::Corrupt(format!("`{text}` is no instant in {PLACE}"))
                    })?,
                    None => 0,
                };
                self.written_ms
            }
        };
        // A clock that was ahead and was set right must not hide what happens until it is there again.
        let place_ms = place_ms.min(now_ms);
        self.written_ms = self.written_ms.min(now_ms);
        self.place_ms = Some(place_ms);
        Ok(Window {
            from_ms: place_ms.saturating_sub(OVERLAP_MS),
            until_ms: now_ms.saturating_sub(REGISTRATION_MS).max(place_ms),
            stage: WindowStage::Registered(None),
            repaired: Repaired::default(),
        })
    }

    async fn close(&mut self, until_ms: i64) -> Result<(), MaintenanceError> {
        if until_ms.saturating_sub(self.written_ms) >= REMEMBER_MS {
            let text = until_ms.to_string();
            self.journal.remember(PLACE, &text).await?;
            self.written_ms = until_ms;
        }
        self.place_ms = Some(until_ms);
        self.window = None;
        Ok(())
    }
}

impl Duty for Reconciler {
    type Outcome = Repaired;

    const NAME: &'static str = "reconcile";
    const STEP_REST: Duration = STEP_REST;

    fn step(
        &mut self,
        now_ms: i64,
    ) -> impl Future<Output = Result<Step<Repaired>, MaintenanceError>> + Send {
        Reconciler::step(self, now_ms)
    }

    fn start_over(&mut self) {
        self.place_ms = None;
        self.window = None;
    }

    fn rest(_took: Duration) -> Duration {
        WINDOW_REST
    }

    fn report(repaired: Repaired) {
        repaired.report();
    }
}
