//! The duty that enters into the journal's index of what is due later what was written before the journal had that index,
//! or by a server of a version before it ([`crate::journal::JournalReads::later_lanes`]).
//!
//! Such servers put everything into the schedule, so until then nothing of it is late or lost. Only a destination of which
//! everything waits may be left out of lists, once a schedule was emptied and loaded again. A run goes through everything
//! that is pending by due time. Servers of two versions may work side by side for hours, so it comes again, but seldom:
//! reading ten million takes ten minutes. The journal stores when a run found nothing to enter, so a server that is started
//! again does not read everything again.

use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use crate::journal::{Cursor, JournalMaintenance};
use std::sync::Arc;
use std::time::Duration;

/// Notifications that are looked at in one step, and the rest between two steps.
const PAGE: usize = 1_000;
const STEP_REST: Duration = Duration::from_millis(50);
/// The rest between two runs, unless the last one found nothing.
const RUN_REST: Duration = Duration::from_secs(3_600);
/// For how long nothing is read after a run that found nothing to enter, in milliseconds.
const COMPLETE_MS: i64 = 86_400_000;
/// The name under which the journal stores when such a run ended, in milliseconds since 1970.
const COMPLETE: &str = "later_lanes_complete_ms";

/// The duty.
pub struct LaterLanes {
    journal: Arc<dyn JournalMaintenance>,
    cursor: Option<Cursor>,
    entered: u64,
}

impl LaterLanes {
    /// The duty for this journal.
    #[must_use]
    pub fn new(journal: Arc<dyn JournalMaintenance>) -> Self {
        Self {
            journal,
            cursor: None,
            entered: 0,
        }
    }

    /// Whether a run that ended a short time ago found nothing to enter. An instant in the future is of a clock that was
    /// set back.
    async fn is_complete(&self, now_ms: i64) -> Result<bool, MaintenanceError> {
        let stored = self.journal.recall(COMPLETE).await?;
        let complete_ms: Option<i64> = stored.and_then(|text| text.parse().ok());
        Ok(complete_ms.is_some_and(|complete_ms| {
            (0..COMPLETE_MS).contains(&now_ms.saturating_sub(complete_ms))
        }))
    }
}

impl Duty for LaterLanes {
    /// How many were entered.
    type Outcome = u64;

    const NAME: &'static str = "later_lanes";
    const STEP_REST: Duration = STEP_REST;

    async fn step(&mut self, now_ms: i64) -> Result<Step<u64>, MaintenanceError> {
        let from = match self.cursor {
            Some(cursor) => cursor,
            None if self.is_complete(now_ms).await? => return Ok(Step::Done(0)),
            // What is due by now is in the schedule, or in flight.
            None => Cursor {
                at_ms: now_ms,
                row: i64::MAX,
            },
        };
        let (entered, next) = self.journal.fill_in_later(from, PAGE).await?;
        self.entered += entered;
        self.cursor = next;
        if next.is_some() {
            return Ok(Step::More);
        }
        let entered = std::mem::take(&mut self.entered);
        if entered == 0 {
            // If this fails, the run is made again.
            self.journal.remember(COMPLETE, &now_ms.to_string()).await?;
        }
        Ok(Step::Done(entered))
    }

    fn start_over(&mut self) {
        self.cursor = None;
        self.entered = 0;
    }

    fn rest(_took: Duration) -> Duration {
        RUN_REST
    }

    fn report(entered: u64) {
        if entered > 0 {
            tracing::info!(
                entered,
                "pending notifications of an earlier version were entered into the journal's index of what is due later"
            );
        }
    }
}
