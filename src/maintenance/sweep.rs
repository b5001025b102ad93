//! Comparing everything, slowly and for ever.
//!
//! Reconciling looks at what happened lately; this finds what that cannot know of: keys that Redis
//! lost later, a journal that was set back to an older copy, what was written down long after it was
//! registered. A thousand notifications a second at most, in steps that take a few milliseconds each:
//! ten million take six hours both ways. The journal keeps where it is, so that it comes round even
//! if servers are started often.

use super::REGISTRATION_MS;
use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use super::repair::{RepairNotes, Repaired, repair};
use super::scan::{Pick, ScanPosition, compare};
use crate::journal::Journal;
use crate::schedule::{Schedule, ScheduleError};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Under which name the journal keeps how far it has come.
const PLACE: &str = "swept";
/// Notifications compared in one step, and the rest between two steps.
const PAGE: usize = 500;
const STEP_REST: Duration = Duration::from_millis(500);
/// The shortest rest between two runs. A run that took longer rests as long as it took.
const RUN_REST: Duration = Duration::from_secs(60);
/// After how many steps the place is written down.
const REMEMBER: u32 = 20;

/// Goes through everything, again and again.
pub struct Sweep {
    journal: Arc<dyn Journal>,
    schedule: Arc<dyn Schedule>,
    /// `None` until the journal was asked.
    place: Option<ScanPosition>,
    /// Steps since the place was written down; `None` if the journal has none.
    written: Option<u32>,
    steps: u32,
    repaired: Repaired,
}

impl Sweep {
    /// Begins where the journal says.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, schedule: Arc<dyn Schedule>) -> Self {
        Self {
            journal,
            schedule,
            place: None,
            written: None,
            steps: 0,
            repaired: Repaired::default(),
        }
    }

    /// Compares and repairs the next page.
    ///
    /// # Errors
    /// If a store fails; the step can be repeated.
    pub async fn step(&mut self, now_ms: i64) -> Result<Step<Repaired>, MaintenanceError> {
        let place = match &self.place {
            Some(place) => place.clone(),
            None => self.recall().await?,
        };
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        let pick = Pick {
            // What is younger may still be on its way.
            registered_before_ms: Some(now_ms.saturating_sub(REGISTRATION_MS)),
            ..Pick::default()
        };
        let page = match compare(journal, schedule, &place, &pick, PAGE).await {
            // The saved place comes from the other kind of schedule (memory or Redis): its scan starts again.
            Err(MaintenanceError::Schedule(ScheduleError::BadCursor)) => {
                self.place = Some(ScanPosition::Held(None));
                return Ok(Step::More);
            }
            page => page?,
        };
        self.repaired += repair(journal, schedule, &page.differences, RepairNotes::Kept).await?;
        self.steps += 1;
        if page.next == ScanPosition::End {
            let repaired = std::mem::take(&mut self.repaired);
            self.keep(ScanPosition::START).await?;
            return Ok(Step::Done(repaired));
        }
        self.keep(page.next).await?;
        Ok(Step::More)
    }

    /// Goes through everything once.
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
        // What cannot be read is of another version: the sweep starts again.
        Ok(kept
            .and_then(|text| ScanPosition::from_text(&text))
            .unwrap_or(ScanPosition::START))
    }

    /// Goes on from there, and writes it down now and then. A run of a few steps writes nothing.
    async fn keep(&mut self, place: ScanPosition) -> Result<(), MaintenanceError> {
        let since = self.steps - self.written.unwrap_or(0);
        let over = place == ScanPosition::START && self.written.is_some();
        if since >= REMEMBER || over {
            self.journal.remember(PLACE, &place.to_text()).await?;
            self.written = Some(self.steps);
        }
        if place == ScanPosition::START {
            (self.steps, self.written) = (0, None);
        }
        self.place = Some(place);
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

    fn start_over(&mut self) {
        self.place = None;
        self.repaired = Repaired::default();
    }

    fn rest(took: Duration) -> Duration {
        took.max(RUN_REST)
    }

    fn report(repaired: Repaired) {
        repaired.report();
    }
}
