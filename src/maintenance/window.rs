//! The duty that brings what is due soon from the journal into the schedule ([`crate::schedule::window`]).
//!
//! Each run reads what is due after all that was loaded before, up to half of the horizon from now, page by page and
//! soonest due first, and notes how far it has come. So another instance that gets the duty goes on from there. If no
//! instance has the duty for some time, nothing is late as long as that time is shorter than half of the horizon: an
//! instance takes over from a dead one within [`LONGEST_TAKEOVER`].
//!
//! If the schedule does not know how far it was loaded, everything that is due soon is read again. That is so where a server
//! of a version without a window has loaded a schedule that had lost its data. What is there already is not changed.
//!
//! A server without a horizon reads everything. Where servers with one may have left something out since the run began,
//! the schedule notes less than was read: then the run ends, and the next one goes on from what is noted.
//!
//! After a run, the duty also makes room: it leaves to the journal the content of what was registered some minutes ago and
//! is not due soon ([`crate::schedule::ScheduleMaintenance::leave_content`]).
//!
//! Which servers ask for the duty is in `who_loads`.

use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use super::leaving::Leaving;
use super::recovery::page::{LoadPage, PageReads, read};
use crate::journal::{Cursor, Journal};
use crate::schedule::window::LoadedWindow;
use crate::schedule::{Restored, Schedule};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Notifications that are read and put in by one step. Both stores take a few milliseconds for that, for which attempts wait.
const PAGE: usize = 250;
/// Likewise, in a run that has much to load: more has come into the window lately than small pages bring, or nobody had the duty
/// for some time.
const PAGE_OF_LONG_RUN: usize = 1_000;
/// A run that brings what is due in a longer stretch than this has much to load, in milliseconds. Usually a stretch is as long as the
/// rest between two runs and the run before together. A quarter of the shortest half of a horizon.
const LONG_RUN_MS: i64 = 15_000;
/// The rest between two steps: other calls to both stores go in between.
const STEP_REST: Duration = Duration::from_millis(20);
/// The rest between two runs. Each run brings what is due in a stretch of this length, so it is short: a long stretch
/// would come in one burst.
const RUN_REST: Duration = Duration::from_secs(5);
/// How far the loading must have come since it was last noted in the schedule, to be noted again, in milliseconds.
const NOTED_EVERY_MS: i64 = 60_000;
/// How often content is left to the journal, in milliseconds.
const CONTENT_LEFT_EVERY_MS: i64 = 30_000;
/// The longest time until another instance has this duty after the one that had it died. The shortest horizon must be
/// more than twice this.
pub const LONGEST_TAKEOVER: Duration = Duration::from_secs(40);

/// The duty that loads the window.
pub struct WindowLoader {
    journal: Arc<dyn Journal>,
    schedule: Arc<dyn Schedule>,
    /// How far the loading has come, as far as this instance knows; `None` if it does not know.
    progress: Option<LoadProgress>,
    /// The parts of the schedule that were out of reach when something was loaded: they did not get it. Of these nothing is
    /// noted until they are in reach when a run begins, and then it begins with what they lack.
    left_out: BTreeSet<usize>,
    /// Whether the schedule has noted less than was loaded when something was noted last.
    is_cut: bool,
    run: Option<LoadRun>,
    leaving: Option<Leaving>,
    /// When content is to be left next, in milliseconds since 1970.
    leave_next_ms: i64,
}

/// How far the loading has come, in milliseconds since 1970.
#[derive(Clone, Copy)]
struct LoadProgress {
    /// Everything that is due by then was put in.
    loaded_until_ms: i64,
    /// What the schedule has noted of it.
    noted_ms: i64,
}

/// A run that was begun.
struct LoadRun {
    reads: PageReads,
    cursor: Option<Cursor>,
    restored: Restored,
}

impl WindowLoader {
    /// Begins where the schedule says.
    #[must_use]
    pub fn new(journal: Arc<dyn Journal>, schedule: Arc<dyn Schedule>) -> Self {
        Self {
            journal,
            schedule,
            progress: None,
            left_out: BTreeSet::new(),
            is_cut: false,
            run: None,
            leaving: None,
            leave_next_ms: i64::MIN,
        }
    }

    /// Loads the next page; after the last one, leaves content to the journal.
    ///
    /// # Errors
    /// If a store fails; the step can be repeated.
    pub async fn step(&mut self, now_ms: i64) -> Result<Step<Restored>, MaintenanceError> {
        let restored = match self.leaving.take() {
            None => Restored::default(),
            Some(leaving) if leaving.is_over() => leaving.restored(),
            Some(leaving) => return self.leave_content(now_ms, leaving).await,
        };
        let mut run = match self.run.take() {
            Some(run) => run,
            None => match self.begin(now_ms, restored).await? {
                Some(run) => run,
                None => return Ok(self.after_run(now_ms, restored)),
            },
        };
        let stepped = self.load_page(&mut run).await;
        match stepped {
            Ok(true) => {
                self.run = Some(run);
                Ok(Step::More)
            }
            Ok(false) => Ok(self.after_run(now_ms, run.restored)),
            Err(error) => {
                self.run = Some(run);
                Err(error)
            }
        }
    }

    /// Whether content is left to the journal now that a run is over.
    fn after_run(&mut self, now_ms: i64, restored: Restored) -> Step<Restored> {
        // Also if the clock was set back.
        let waits = self.leave_next_ms.saturating_sub(now_ms);
        if (1..=CONTENT_LEFT_EVERY_MS).contains(&waits) || !self.schedule.leaves_content() {
            return Step::Done(restored);
        }
        self.leaving = Some(Leaving::after(restored));
        Step::More
    }

    /// Leaves some content to the journal. If that fails, the loading goes on all the same.
    async fn leave_content(
        &mut self,
        now_ms: i64,
        mut leaving: Leaving,
    ) -> Result<Step<Restored>, MaintenanceError> {
        self.leave_next_ms = now_ms.saturating_add(CONTENT_LEFT_EVERY_MS);
        let (journal, schedule) = (self.journal.as_ref(), self.schedule.as_ref());
        if leaving.step(journal, schedule).await? {
            // When the time for this is over, another run begins at once.
            self.leave_next_ms = now_ms;
            self.leaving = Some(leaving);
            return Ok(Step::More);
        }
        Ok(Step::Done(leaving.restored()))
    }

    /// Loads all that is due soon, and leaves content to the journal.
    ///
    /// # Errors
    /// As [`WindowLoader::step`].
    pub async fn pass(&mut self, now_ms: i64) -> Result<Restored, MaintenanceError> {
        loop {
            if let Step::Done(restored) = self.step(now_ms).await? {
                return Ok(restored);
            }
        }
    }

    /// Begins a run after another that restored so much; `None` if there is nothing to load yet.
    async fn begin(
        &mut self,
        now_ms: i64,
        restored: Restored,
    ) -> Result<Option<LoadRun>, MaintenanceError> {
        let window = self.schedule.limits().window;
        // Asked each time: a schedule that lost data was loaded by another duty, and perhaps not as far.
        let out_of_reach = self.schedule.out_of_reach();
        let are_back = !self.left_out.is_subset(&out_of_reach);
        let noted_ms = self.schedule.loaded_until(&out_of_reach).await?;
        self.left_out = out_of_reach;
        self.progress = match (self.progress, noted_ms) {
            (Some(known), Some(noted_ms)) if known.noted_ms == noted_ms && !are_back => Some(known),
            (_, Some(noted_ms)) => Some(LoadProgress {
                loaded_until_ms: noted_ms,
                noted_ms,
            }),
            (_, None) => None,
        };
        if let Some(known) = self.progress
            && window.is_ahead(known.loaded_until_ms, now_ms)
        {
            // A server without a horizon has loaded everything. What others leave out now is due before that.
            if known.loaded_until_ms != i64::MAX {
                tracing::warn!(
                    "the clock of the schedule was set back; what is due soon is read from the journal again"
                );
            }
            self.progress = None;
        }
        let after_ms = self.progress.map(|known| known.loaded_until_ms);
        let page = page_of_run(after_ms, window.load_until_ms(now_ms));
        let reads = PageReads::of(self.schedule.as_ref(), now_ms, page, true);
        if after_ms.is_some_and(|after_ms| after_ms >= reads.until_ms) {
            return Ok(None);
        }
        let cursor = after_ms.map(|at_ms| Cursor {
            at_ms,
            row: i64::MAX,
        });
        Ok(Some(LoadRun {
            reads,
            cursor,
            restored,
        }))
    }

    /// Loads one page of a run. `false` at the end of the run.
    async fn load_page(&mut self, run: &mut LoadRun) -> Result<bool, MaintenanceError> {
        let mut page = read(self.journal.as_ref(), run.cursor, run.reads).await?;
        run.reads.adapt_contents(&page);
        self.leave_out(&mut page);
        let restored = page.put_in(self.schedule.as_ref(), 0..page.len()).await?;
        run.restored += restored;
        let is_over = page.next.is_none();
        // Others may be due in the same millisecond as the last one of a page.
        let loaded_until_ms = match page.next {
            Some(next) => next.at_ms - 1,
            None => run.reads.until_ms,
        };
        let loaded = run.reads.loaded(loaded_until_ms);
        let has_more_to_tell = is_over && run.restored.missing > 0;
        let is_all_noted = self.note(loaded, has_more_to_tell).await?;
        run.cursor = page.next;
        Ok(!is_over && is_all_noted)
    }

    /// Leaves out what belongs to parts of the schedule that are out of reach, now or since the run began: the other parts do
    /// not wait for them.
    fn leave_out(&mut self, page: &mut LoadPage) {
        self.left_out.append(&mut self.schedule.out_of_reach());
        if !self.left_out.is_empty() {
            page.retain(|lane| !self.left_out.contains(&self.schedule.part_of(lane)));
        }
    }

    /// Keeps in mind how far the loading has come. Writes it into the schedule now and then: if it is lost, a part is read
    /// again. After a run that has put something in it is written, so that a restart does not read that again. `false` if
    /// the schedule has noted less.
    async fn note(
        &mut self,
        loaded: LoadedWindow,
        has_more_to_tell: bool,
    ) -> Result<bool, MaintenanceError> {
        let noted_ms = self.progress.map_or(i64::MIN, |known| known.noted_ms);
        // It may also be behind what is noted, after the clock was set back.
        let is_far = !(0..NOTED_EVERY_MS).contains(&loaded.until_ms.saturating_sub(noted_ms));
        // Else each run would read that stretch until then.
        let progress = match is_far || has_more_to_tell || self.is_cut {
            true => {
                let noting = self.schedule.set_loaded_until(loaded, &self.left_out);
                let noted_ms = noting.await?;
                self.is_cut = noted_ms < loaded.until_ms;
                LoadProgress {
                    loaded_until_ms: noted_ms,
                    noted_ms,
                }
            }
            false => LoadProgress {
                loaded_until_ms: loaded.until_ms,
                noted_ms,
            },
        };
        self.progress = Some(progress);
        Ok(progress.loaded_until_ms >= loaded.until_ms)
    }
}

/// How many notifications the pages of a run have that brings what is due in this stretch, in milliseconds since 1970. `None`: from
/// the first on.
fn page_of_run(after_ms: Option<i64>, until_ms: i64) -> usize {
    match after_ms.map(|after_ms| until_ms.saturating_sub(after_ms)) {
        Some(..=LONG_RUN_MS) => PAGE,
        _ => PAGE_OF_LONG_RUN,
    }
}

impl Duty for WindowLoader {
    type Outcome = Restored;

    const NAME: &'static str = "window";
    const STEP_REST: Duration = STEP_REST;
    const RESTS_BY_CLOCK: bool = true;

    fn step(
        &mut self,
        now_ms: i64,
    ) -> impl Future<Output = Result<Step<Restored>, MaintenanceError>> + Send {
        WindowLoader::step(self, now_ms)
    }

    fn start_over(&mut self) {
        self.progress = None;
        self.left_out.clear();
        self.is_cut = false;
        self.run = None;
        self.leaving = None;
    }

    fn lacks_parts(&self) -> bool {
        !self.left_out.is_empty()
    }

    fn rest(_took: Duration) -> Duration {
        RUN_REST
    }

    fn report(loaded: Restored) {
        if loaded.missing > 0 {
            tracing::debug!(
                loaded = loaded.missing,
                "notifications that are due soon were loaded from the journal into the schedule"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_brings_a_long_stretch_has_large_pages() {
        let now_ms = 1_795_163_400_000;
        let of_stretch = |stretch_ms| page_of_run(Some(now_ms - stretch_ms), now_ms);
        for stretch_ms in [-LONG_RUN_MS, 0, 5_000, LONG_RUN_MS] {
            assert_eq!(of_stretch(stretch_ms), PAGE, "{stretch_ms}");
        }
        assert_eq!(of_stretch(LONG_RUN_MS + 1), PAGE_OF_LONG_RUN);
        assert_eq!(page_of_run(None, now_ms), PAGE_OF_LONG_RUN);
        assert_eq!(page_of_run(Some(now_ms), i64::MAX), PAGE_OF_LONG_RUN);
        assert_eq!(page_of_run(Some(i64::MAX), i64::MAX), PAGE);
    }
}
