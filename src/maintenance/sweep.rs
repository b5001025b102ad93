//! Comparing everything, slowly and for ever.
//!
//! Reconciling reads only what happened recently. The sweep finds the rest: keys that Redis lost later, a
//! journal that was set back to an older copy, rows that were written long after their registration.
//! It takes little of an idle server and its stores (figures: `docs/performance.md`), in steps of a few milliseconds: four
//! hundred notifications a second are read in the journal, whose rows are near each other, and looked up in the schedule.
//! In the other direction, four hundred entries a second are read in the schedule. Each of their rows is somewhere else in the
//! journal, so at most a hundred a second are looked up there: of those whose content is in the journal alone, one in eight in
//! each run, another one each time, since their attempts ask the journal first ([`super::scan::BareTurn`]). A million of these take an hour and a half in
//! both directions. With a horizon, it reads of the journal only what must be in the schedule, and of that the places alone if the
//! schedule has it bare there. The journal stores its position,
//! so it completes even if servers are restarted often.

use super::REGISTRATION_MS;
use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use super::repair::{RepairNotes, Repaired, repair};
use super::scan::{BareTurn, Pick, ScanPosition, compare};
use crate::journal::Journal;
use crate::schedule::window::Window;
use crate::schedule::{Schedule, ScheduleError};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The name under which the journal stores the position.
const PLACE: &str = "swept";
/// Notifications compared in one step, and the rest between two steps.
const PAGE: usize = 400;
const STEP_REST: Duration = Duration::from_secs(1);
/// Maximum number of entries of the schedule that are looked up in the journal in a second. After a step that looked up
/// more, the rest is longer.
const LOOKED_UP_A_SECOND: u64 = 100;
/// The shortest rest between two runs. A run that took longer rests as long as it took.
const RUN_REST: Duration = Duration::from_secs(60);
/// After a page of which the schedule has most with content, so many are read with it at once.
const WHOLE_STEPS: u32 = 16;
/// After how many steps the position is stored.
const REMEMBER: u32 = 20;

/// The duty that compares everything, again and again.
pub struct Sweep {
    journal: Arc<dyn Journal>,
    schedule: Arc<dyn Schedule>,
    /// `None` until the journal was asked.
    position: Option<ScanPosition>,
    /// The value of `steps` when the position was last stored; `None` if the journal has none.
    written: Option<u32>,
    steps: u32,
    /// How many entries of the schedule the last step has looked up in the journal.
    looked_up: u64,
    /// From which step on places alone are read first.
    places_from: u32,
    /// Which part of the bare entries this run looks up: one after another, beginning with any. `None` before the first step.
    turn: Option<u64>,
    repaired: Repaired,
}

impl Sweep {
    /// Begins at the position that the journal has stored.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, schedule: Arc<dyn Schedule>) -> Self {
        Self {
            journal,
            schedule,
            position: None,
            written: None,
            steps: 0,
            looked_up: 0,
            places_from: 0,
            turn: None,
            repaired: Repaired::default(),
        }
    }

    /// Compares and repairs the next page.
    ///
    /// # Errors
    /// If a store fails; the step can be repeated.
    pub async fn step(&mut self, now_ms: i64) -> Result<Step<Repaired>, MaintenanceError> {
        let position = match &self.position {
            Some(position) => position.clone(),
            None => self.recall().await?,
        };
        // By the time, so that it is another one after each restart.
        let turn = *(self.turn).get_or_insert_with(|| now_ms.unsigned_abs() / 1_000);
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        let position = match position {
            // What waits in the journal alone is not read.
            ScanPosition::START if schedule.limits().window != Window::WHOLE => ScanPosition::DUE,
            position => position,
        };
        let pick = Pick {
            // Younger notifications may still be on their way to the schedule.
            registered_before_ms: Some(now_ms.saturating_sub(REGISTRATION_MS)),
            bare: BareTurn::OfRun(turn),
            by_place: self.steps >= self.places_from,
            ..Pick::default()
        };
        let page = match compare(journal, schedule, &position, &pick, PAGE).await {
            // The stored position is of the other kind of schedule (memory or Redis): the scan of the schedule
            // starts again.
            Err(MaintenanceError::Schedule(ScheduleError::BadCursor)) => {
                self.position = Some(ScanPosition::Held(None));
                return Ok(Step::More);
            }
            page => page?,
        };
        self.repaired += repair(journal, schedule, &page.differences, RepairNotes::Kept).await?;
        self.steps += 1;
        self.looked_up = page.held;
        if page.is_mostly_whole {
            self.places_from = self.steps + WHOLE_STEPS;
        }
        if page.next == ScanPosition::End {
            let repaired = std::mem::take(&mut self.repaired);
            self.turn = Some(turn.wrapping_add(1));
            self.set_position(ScanPosition::START).await?;
            return Ok(Step::Done(repaired));
        }
        self.set_position(page.next).await?;
        Ok(Step::More)
    }

    /// Compares everything once, and repairs what differs.
    ///
    /// # Errors
    /// As [`Sweep::step`].
    pub async fn pass(&mut self, now_ms: i64) -> Result<Repaired, MaintenanceError> {
        loop {
            if let Step::Done(repaired) = self.step(now_ms).await? {
                return Ok(repaired);
            }
        }
    }

    async fn recall(&mut self) -> Result<ScanPosition, MaintenanceError> {
        let kept = self.journal.recall(PLACE).await?;
        self.written = kept.as_ref().map(|_| self.steps);
        // A position that cannot be read is of another version: the sweep starts again.
        Ok(kept
            .and_then(|text| ScanPosition::from_text(&text))
            .unwrap_or(ScanPosition::START))
    }

    /// Sets the position, and stores it after every [`REMEMBER`] steps. A run of a few steps stores nothing.
    async fn set_position(&mut self, position: ScanPosition) -> Result<(), MaintenanceError> {
        let since = self.steps - self.written.unwrap_or(0);
        let over = position == ScanPosition::START && self.written.is_some();
        if since >= REMEMBER || over {
            self.journal.remember(PLACE, &position.to_text()).await?;
            self.written = Some(self.steps);
        }
        if position == ScanPosition::START {
            (self.steps, self.written, self.places_from) = (0, None, 0);
        }
        self.position = Some(position);
        Ok(())
    }
}

impl Duty for Sweep {
    type Outcome = Repaired;

    const NAME: &'static str = "sweep";
    const STEP_REST: Duration = STEP_REST;

    fn step(
        &mut self,
        now_ms: i64,
    ) -> impl Future<Output = Result<Step<Repaired>, MaintenanceError>> + Send {
        Sweep::step(self, now_ms)
    }

    fn step_rest(&self) -> Duration {
        STEP_REST.max(Duration::from_millis(
            self.looked_up * 1_000 / LOOKED_UP_A_SECOND,
        ))
    }

    fn start_over(&mut self) {
        self.position = None;
        self.repaired = Repaired::default();
    }

    fn rest(took: Duration) -> Duration {
        took.max(RUN_REST)
    }

    fn report(repaired: Repaired) {
        repaired.report();
    }
}
