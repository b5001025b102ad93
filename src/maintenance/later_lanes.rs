//! The duty that enters into the journal's index of what is due later what was written before the journal had that index,
//! or by a server of a version before it ([`crate::journal::JournalReads::later_lanes`]).
//!
//! Such servers put everything into the schedule, so until then nothing of it is late or lost. Only a destination of which
//! everything waits may be left out of lists, once a schedule was emptied and loaded again. A run goes through everything
//! that is pending by due time. Servers of two versions may work side by side for hours, so it comes again, but seldom.

use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use crate::journal::{Cursor, JournalMaintenance};
use std::sync::Arc;
use std::time::Duration;

/// Notifications that are looked at in one step, and the rest between two steps.
const PAGE: usize = 1_000;
const STEP_REST: Duration = Duration::from_millis(50);
/// The rest between two runs.
const RUN_REST: Duration = Duration::from_secs(86_400);

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
}

impl Duty for LaterLanes {
    /// How many were entered.
    type Outcome = u64;

    const NAME: &'static str = "later_lanes";
    const STEP_REST: Duration = STEP_REST;

    async fn step(&mut self, now_ms: i64) -> Result<Step<u64>, MaintenanceError> {
        // What is due by now is in the schedule, or in flight.
        let from = self.cursor.unwrap_or(Cursor {
            at_ms: now_ms,
            row: i64::MAX,
        });
        let (entered, next) = self.journal.fill_in_later(from, PAGE).await?;
        self.entered += entered;
        self.cursor = next;
        Ok(match next {
            Some(_) => Step::More,
            None => Step::Done(std::mem::take(&mut self.entered)),
        })
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
