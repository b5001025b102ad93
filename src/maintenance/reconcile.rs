//! Repairing, within a minute, what a crash left between the journal and the schedule.
//!
//! Both are written one after the other, the journal first. A server that dies in between leaves a
//! notification that is missing in the schedule, or a change by hand that the schedule does not have. So
//! every few seconds this duty reads what was registered or changed since its last window, and compares:
//! a pending notification must be in the schedule, with the progress that it has in the journal; one that has
//! ended must not be. Everything else that happens to a notification happens under a lease. If
//! the server dies then, the lease expires, and the journal is asked before the notification is sent.
//!
//! Its cost depends on what happened since the last window, not on the size of the journal: a window of
//! time is read by an index, one page in each step. The journal stores where the last window ended, so the
//! first window after a crash continues there. If nothing is stored, the first window begins with the
//! oldest notification.
//!
//! A window ends `REGISTRATION_MS` ago, since younger notifications may still be on their way to the
//! schedule. The instant of a row is taken before the row is written, and in a slow or locked journal the row
//! appears later. So each instant is looked at a second time, `LATE_MS` after the first. Rows that appear even
//! later are found by the sweep.
//!
//! What belongs to a part of the schedule that is out of reach is left out, so that it does not keep the others from being
//! repaired. When that part is back, windows begin again with the first one in which it was left out, and until then nothing
//! after that is stored.

use super::REGISTRATION_MS;
use super::difference::{find, find_recorded};
use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use super::repair::{RepairNotes, Repaired, repair};
use crate::domain::lane::KeyInLane;
use crate::domain::state::State;
use crate::journal::{Cursor, Filter, Journal, JournalError, Order, Standing};
use crate::schedule::Schedule;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The name under which the journal stores until when everything is reconciled.
const PLACE: &str = "reconciled_ms";
/// How long after an instant was looked at for the first time it is looked at again, in milliseconds.
const LATE_MS: i64 = 30_000;
/// How often the end of the last window is stored, in milliseconds. It is not stored after every window, so
/// that an idle server rarely writes. So after a crash, about this much is compared again.
const REMEMBER_MS: i64 = 60_000;
/// Notifications compared in one step, and the rest between two steps. Redis compares a page in less than a millisecond, for
/// which attempts that are due wait.
const PAGE: usize = 100;
const STEP_REST: Duration = Duration::from_millis(4);
/// Rest between two windows. Together with `REGISTRATION_MS` and the time until another instance takes over
/// from a dead one, this is less than a minute.
const WINDOW_REST: Duration = Duration::from_secs(8);

/// The duty that reconciles one window after another.
pub struct Reconciler {
    journal: Arc<dyn Journal>,
    schedule: Arc<dyn Schedule>,
    /// Until when everything is reconciled. `written_ms` is the value that was last stored.
    place_ms: Option<i64>,
    written_ms: i64,
    /// The parts of the schedule of which something may have been left out, with the beginning of the first window in which it
    /// was, in milliseconds since 1970.
    left_out: BTreeMap<usize, i64>,
    window: Option<ReconciledWindow>,
}

/// What happened from `place_ms` until `until_ms` is looked at for the first time in this window, and what happened `LATE_MS`
/// before that for the second time.
struct ReconciledWindow {
    place_ms: i64,
    until_ms: i64,
    stage: WindowStage,
    repaired: Repaired,
}

impl ReconciledWindow {
    /// The instants that one of its two parts looks at, in milliseconds since 1970; the last one is not included.
    fn range(&self, part: WindowPart) -> (i64, i64) {
        match part {
            WindowPart::New => (self.place_ms, self.until_ms),
            // In a window that is longer than `LATE_MS`, the first look at what is older than that is late enough.
            WindowPart::Late => (
                self.place_ms.saturating_sub(LATE_MS),
                self.until_ms.saturating_sub(LATE_MS).min(self.place_ms),
            ),
        }
    }
}

/// See [`ReconciledWindow::range`].
#[derive(Clone, Copy)]
enum WindowPart {
    New,
    Late,
}

/// How much of a window is done: of the part that is new, then of the other one.
#[derive(Clone, Copy)]
enum WindowStage {
    /// Comparing what was registered in this part, newest first.
    Registered(WindowPart, Option<Cursor>),
    /// Comparing what was changed by hand in this part, oldest first.
    Changed(WindowPart, Option<Cursor>),
    Done,
}

impl WindowStage {
    const FIRST: Self = Self::Registered(WindowPart::New, None);

    fn after_registered(part: WindowPart, next: Option<Cursor>) -> Self {
        match next {
            Some(next) => Self::Registered(part, Some(next)),
            None => Self::Changed(part, None),
        }
    }

    fn after_changed(part: WindowPart, next: Option<Cursor>) -> Self {
        match (part, next) {
            (_, Some(next)) => Self::Changed(part, Some(next)),
            (WindowPart::New, None) => Self::Registered(WindowPart::Late, None),
            (WindowPart::Late, None) => Self::Done,
        }
    }
}

impl Reconciler {
    /// Begins at the position that the journal has stored.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, schedule: Arc<dyn Schedule>) -> Self {
        Self {
            journal,
            schedule,
            place_ms: None,
            written_ms: 0,
            left_out: BTreeMap::new(),
            window: None,
        }
    }

    /// Compares and repairs one page: of the window that was begun, else of a new one that ends
    /// `REGISTRATION_MS` before `now_ms`.
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
        for part in schedule.out_of_reach() {
            self.left_out.entry(part).or_insert(window.place_ms);
        }
        let left_out: &BTreeSet<usize> = &self.left_out.keys().copied().collect();
        let (differences, stage) = match window.stage {
            WindowStage::Registered(part, cursor) => {
                let (from_ms, until_ms) = window.range(part);
                let filter = Filter {
                    state: Some(State::Scheduled),
                    from_ms: Some(from_ms),
                    to_ms: Some(until_ms),
                    ..Filter::default()
                };
                let order = Order::Registered;
                let page = journal.list(&filter, order, cursor, PAGE).await?;
                let read: Vec<(KeyInLane, Option<Standing>)> = (page.items.iter())
                    .map(|item| (item.key_in_lane(), Some(Standing::of(item))))
                    .filter(|(entry, _)| !left_out.contains(&schedule.part_of(&entry.lane)))
                    .collect();
                (
                    find(journal, schedule, &read, left_out).await?,
                    WindowStage::after_registered(part, page.next),
                )
            }
            WindowStage::Changed(part, cursor) => {
                let (from_ms, until_ms) = window.range(part);
                let (mut keys, next) = journal.changes(from_ms, until_ms, cursor, PAGE).await?;
                keys.sort_unstable();
                keys.dedup();
                (
                    find_recorded(journal, schedule, &keys, left_out).await?,
                    WindowStage::after_changed(part, next),
                )
            }
            WindowStage::Done => (Vec::new(), WindowStage::Done),
        };
        window.repaired += repair(journal, schedule, &differences, RepairNotes::Kept).await?;
        window.stage = stage;
        match window.stage {
            WindowStage::Registered(..) | WindowStage::Changed(..) => Ok(Step::More),
            WindowStage::Done => {
                let (until_ms, repaired) = (window.until_ms, window.repaired);
                self.close(until_ms).await?;
                Ok(Step::Done(repaired))
            }
        }
    }

    /// Reconciles a whole window.
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

    async fn open(&mut self, now_ms: i64) -> Result<ReconciledWindow, MaintenanceError> {
        let out_of_reach = self.schedule.out_of_reach();
        let place_ms = match self.place_ms {
            Some(place_ms) => place_ms,
            None => {
                self.written_ms = match self.journal.recall(PLACE).await? {
                    Some(text) => text.parse().map_err(|_| {
                        JournalError::Corrupt(format!("`{text}` in {PLACE} is not an instant"))
                    })?,
                    None => 0,
                };
                self.written_ms
            }
        };
        // If the clock was ahead and was set back, the stored instant is in the future. Without this bound,
        // nothing would be compared until then.
        let place_ms = place_ms.min(now_ms);
        // What is back begins where it was left out.
        let back = self
            .left_out
            .iter()
            .filter(|(part, _)| !out_of_reach.contains(part));
        let place_ms = back.map(|(_, begun_ms)| *begun_ms).fold(place_ms, i64::min);
        self.left_out.retain(|part, _| out_of_reach.contains(part));
        self.written_ms = self.written_ms.min(now_ms);
        self.place_ms = Some(place_ms);
        Ok(ReconciledWindow {
            place_ms,
            until_ms: now_ms.saturating_sub(REGISTRATION_MS).max(place_ms),
            stage: WindowStage::FIRST,
            repaired: Repaired::default(),
        })
    }

    async fn close(&mut self, until_ms: i64) -> Result<(), MaintenanceError> {
        let done_ms = self.left_out.values().copied().fold(until_ms, i64::min);
        if done_ms.saturating_sub(self.written_ms) >= REMEMBER_MS {
            let text = done_ms.to_string();
            self.journal.remember(PLACE, &text).await?;
            self.written_ms = done_ms;
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
        self.left_out.clear();
        self.window = None;
    }

    fn lacks_parts(&self) -> bool {
        !self.left_out.is_empty()
    }

    fn rest(_took: Duration) -> Duration {
        WINDOW_REST
    }

    fn report(repaired: Repaired) {
        repaired.report();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_look_at_each_instant_twice_or_late_enough() {
        // Windows that end at these instants, one after another: short ones, and one as long as after a restart.
        let ends = [100_000, 108_000, 116_000, 190_000, 198_000, 238_000];
        let mut place_ms = 92_000;
        let mut looks = Vec::new();
        for until_ms in ends {
            let window = ReconciledWindow {
                place_ms,
                until_ms,
                stage: WindowStage::FIRST,
                repaired: Repaired::default(),
            };
            for part in [WindowPart::New, WindowPart::Late] {
                let (from_ms, part_until_ms) = window.range(part);
                assert!(part_until_ms <= until_ms);
                looks.push((from_ms..part_until_ms, until_ms));
            }
            place_ms = until_ms;
        }
        for instant_ms in (92_000..208_000).step_by(500) {
            let of_it = looks
                .iter()
                .filter(|(range, _)| range.contains(&instant_ms));
            let ages: Vec<i64> = of_it.map(|(_, until_ms)| until_ms - instant_ms).collect();
            assert!(ages.len() <= 2, "{instant_ms}: {ages:?}");
            assert!(ages.last() >= Some(&LATE_MS), "{instant_ms}: {ages:?}");
        }
    }
}
