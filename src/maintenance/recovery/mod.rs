//! What happens when Redis loses data: noticing the loss, and repairing the schedule from the journal.
//!
//! **How a loss is noticed** (`schedule::redis::recovery`), by the calls of any server:
//!
//! * Redis has counted fewer writes of an instance than were answered to it: it was flushed, replaced
//!   or set back to an older copy (`write_counters`). The call is refused.
//! * A new connection leads to another run of the Redis server than before: it was restarted or replaced, and may have
//!   come back without its last writes (`server_run`).
//! * A script finds something missing: an entry, a lane, a lease (`note_damage` in `lua/common.lua`). It
//!   continues with the rest.
//!
//! The state (`whole`, `loading`, `damaged`, `restarted`, ...) is stored in Redis, in the hash `meta`, so all
//! servers agree on it. [`crate::schedule::recoverable`] is the trait between that code and this folder.
//!
//! **What is done about it** ([`Recovery`], the duty of every server): one server gets the task, and another
//! takes over if it dies. It loads everything that is pending in the journal and not in Redis, soonest due
//! first ([`load`]); puts entries that are in no lane back into theirs; and removes what has ended in the
//! journal ([`resync`]). Redis is emptied first only if a user requests it.
//!
//! **What the others do meanwhile**: the calls of every server are refused until it has
//! inspected the data once, which takes a moment. After that it uses the schedule. Until the comparison is done
//! and the time of a lease has passed, a server asks the journal before it sends a notification that was
//! accepted before the loss. An attempt that was in flight when its lease was lost may be made again by another
//! server. A registration waits a short time for the inspection. A change by hand is refused (409) while an
//! attempt whose lease was lost may be in flight.
//!
//! **Without a journal** nothing can be loaded: Redis keeps what is left, and the log asks callers to
//! register their pending notifications again.

mod announce;
mod heartbeats;
mod inspection;
pub mod load;
mod pace;
pub(super) mod page;
pub mod resync;

use crate::journal::{Actor, Journal, Rebuild};
use crate::maintenance::error::MaintenanceError;
use crate::schedule::recoverable::{Inspection, LoadReason, Recoverable};
use crate::schedule::{Schedule, ScheduleError};
use crate::settings_sync::bring_settings;
use crate::telemetry::metrics::Metrics;
pub use announce::why;
use announce::{LastError, announce, announce_end};
use heartbeats::send_heartbeats;
pub use inspection::inspect;
use inspection::inspect_again;
use pace::Pace;
use resync::Resync;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The name under which the journal stores how many changes of this schedule were answered.
const WRITE_COUNTS: &str = "schedule_write_counts";
/// How often these counts are stored. With them, a server that starts notices that Redis was set back to an
/// older copy.
const REMEMBER: Duration = Duration::from_secs(5);
/// Wait before the next inspection while another instance empties the schedule.
const INSPECT_SOON: Duration = Duration::from_millis(100);
/// Wait before the next inspection while another instance loads it.
const INSPECT_AGAIN: Duration = Duration::from_secs(2);
/// How long a recovery waits for a part that is out of reach.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
/// First and longest wait for a store that is unavailable.
const BACK_OFF: Duration = Duration::from_millis(50);
const LONGEST_BACK_OFF: Duration = Duration::from_millis(800);
/// How long bringing the settings of lanes may take until it is left to the duty of the settings.
const LONGEST_BRINGING: Duration = Duration::from_secs(2);
/// How often it is reported that loading continues.
const REPORT_LOADING: Duration = Duration::from_secs(1);

/// The duty that notices and repairs losses of one schedule.
pub struct Recovery {
    journal: Option<Arc<dyn Journal>>,
    schedule: Arc<dyn Schedule>,
    metrics: Arc<Metrics>,
    found: Inspection,
    whole: watch::Sender<bool>,
}

impl Recovery {
    /// The recovery of a schedule. Without a journal, missing notifications cannot be loaded. `metrics` count the attempts
    /// that loading gives way to.
    #[must_use]
    pub fn new(
        journal: Option<Arc<dyn Journal>>,
        schedule: Arc<dyn Schedule>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            journal,
            schedule,
            metrics,
            found: Inspection::Whole,
            whole: watch::Sender::new(true),
        }
    }

    /// Whether the schedule is whole, as far as this recovery knows.
    #[must_use]
    pub fn whole(&self) -> watch::Receiver<bool> {
        self.whole.subscribe()
    }

    /// Inspects the schedule for the first time, before it is used.
    ///
    /// # Errors
    /// As [`Recoverable::inspect`], or [`ScheduleError::Unavailable`] if the journal cannot be asked.
    pub async fn inspect_first(&mut self) -> Result<(), ScheduleError> {
        let Some(recoverable) = self.schedule.recoverable() else {
            return Ok(());
        };
        self.found = inspect(
            self.journal.as_deref(),
            self.schedule.as_ref(),
            recoverable,
            false,
        )
        .await?;
        self.whole.send_replace(is_whole(self.found));
        Ok(())
    }

    /// Acts on the first inspection and on later losses, until stopped, or until servers with another number of partitions have
    /// replaced the schedule.
    pub async fn run(self, stop: CancellationToken) {
        let Some(recoverable) = self.schedule.recoverable() else {
            return;
        };
        let repairing = self.inspect_and_repair(recoverable);
        let remembering = self.remember(recoverable);
        let beating = send_heartbeats(recoverable);
        let going_on = async {
            tokio::select! {
                () = repairing => {}
                ((), ()) = async { tokio::join!(remembering, beating) } => {}
            }
        };
        stop.run_until_cancelled(going_on).await;
        // With the counts, the next start notices if the data was changed or lost in between. A journal that is away does not
        // keep the others from learning that this instance has stopped.
        let counts = recoverable.write_counts();
        let remembering = async {
            if let Some(journal) = &self.journal {
                let _ = journal.remember(WRITE_COUNTS, &counts).await;
            }
        };
        tokio::join!(remembering, recoverable.deregister());
    }

    /// Ends only if the schedule is another one by now.
    async fn inspect_and_repair(&self, recoverable: &dyn Recoverable) {
        let mut inspected: Result<Inspection, ScheduleError> = Ok(self.found);
        let mut back_off = BACK_OFF;
        let (mut not_inspected, mut not_recovered) = (LastError::default(), LastError::default());
        loop {
            match inspected {
                Ok(Inspection::Replaced) => {
                    tracing::error!(
                        "the schedule in Redis was replaced by one with another number of partitions (--partitions), with \
                         which other servers work; this server ends"
                    );
                    return;
                }
                Ok(found) => {
                    back_off = BACK_OFF;
                    not_inspected.clear();
                    self.whole.send_replace(is_whole(found));
                    self.act_on(recoverable, found, &mut not_recovered).await;
                    self.whole.send_replace(false);
                }
                Err(error) => {
                    // `health` logs that the store is unavailable.
                    let is_away = matches!(error, ScheduleError::Unavailable(_));
                    if !is_away && not_inspected.is_new(&error) {
                        tracing::error!(
                            %error,
                            "the schedule cannot be inspected for lost data; nothing in it is repaired until that \
                             succeeds; trying again"
                        );
                    }
                    tokio::time::sleep(back_off).await;
                    back_off = (back_off * 2).min(LONGEST_BACK_OFF);
                }
            }
            let (journal, schedule) = (self.journal.as_deref(), self.schedule.as_ref());
            inspected = inspect_again(journal, schedule, recoverable, false).await;
        }
    }

    /// Does what the result of an inspection requires; returns when it is time for the next inspection.
    /// `not_recovered` is the error with which the last recovery failed.
    async fn act_on(
        &self,
        recoverable: &dyn Recoverable,
        found: Inspection,
        not_recovered: &mut LastError,
    ) {
        let reason = match found {
            Inspection::Whole => {
                not_recovered.clear();
                return recoverable.wait_for_loss().await;
            }
            Inspection::Clearing | Inspection::Unowned | Inspection::Replaced => {
                return tokio::time::sleep(INSPECT_SOON).await;
            }
            Inspection::Loading => {
                return tokio::select! {
                    () = tokio::time::sleep(INSPECT_AGAIN) => {}
                    () = recoverable.wait_for_loss() => {}
                };
            }
            Inspection::ToLoad(reason) => reason,
        };
        // A recovery that follows a failed one is not announced again.
        if not_recovered.is_none() || reason != LoadReason::Unfinished {
            announce(reason, self.journal.is_some());
        }
        match self.rebuild(recoverable, reason).await {
            Ok(()) => not_recovered.clear(),
            Err(error) => {
                if not_recovered.is_new(&error) {
                    tracing::error!(
                        %error,
                        "the recovery of the schedule failed; a server begins it again within seconds"
                    );
                }
                tokio::time::sleep(INSPECT_AGAIN).await;
            }
        }
    }

    /// Compares the schedule with the journal and repairs it. Waits for stores that are unavailable. Ends
    /// early if another server has taken over or more is lost; the next inspection finds that.
    ///
    /// # Errors
    /// An error that does not pass by itself.
    async fn rebuild(
        &self,
        recoverable: &dyn Recoverable,
        reason: LoadReason,
    ) -> Result<(), MaintenanceError> {
        let started = Instant::now();
        if let Some(journal) = &self.journal {
            self.write_down(journal.as_ref(), reason).await;
        }
        let bringing = tokio::time::timeout(LONGEST_BRINGING, self.bring_settings());
        let (repaired, _) = tokio::join!(self.resync(recoverable, started), bringing);
        repaired
    }

    /// The settings of lanes are lost with everything else, and until they are back, nothing is sent. So they do not wait until
    /// the duty of the settings looks again.
    async fn bring_settings(&self) {
        let Some(journal) = &self.journal else {
            return;
        };
        let bringing = bring_settings(journal.as_ref(), self.schedule.as_ref(), None);
        if let Err(error) = bringing.await {
            tracing::debug!(
                %error,
                "the settings of lanes could not be brought into the recovered schedule; the duty of the settings tries again"
            );
        }
    }

    /// See [`Recovery::rebuild`].
    async fn resync(
        &self,
        recoverable: &dyn Recoverable,
        started: Instant,
    ) -> Result<(), MaintenanceError> {
        let journal = self.journal.clone();
        let mut resync = Resync::new(journal, self.schedule.as_ref(), recoverable);
        let mut reported = Instant::now();
        let mut back_off = BACK_OFF;
        let mut reach = Reach::default();
        let mut pace = Pace::new(self.metrics.slight_lateness());
        loop {
            let began = Instant::now();
            match resync.step().await {
                Ok(true) => {
                    back_off = BACK_OFF;
                    reach = Reach::default();
                    let counts = self.metrics.slight_lateness();
                    let rest = pace.rest(counts, began.elapsed(), resync.can_wait());
                    resync.note_attempts(pace.is_beside_attempts());
                    if !rest.is_zero() {
                        tokio::time::sleep(rest).await;
                    }
                }
                Ok(false) => break,
                Err(error) if error.may_pass() => {
                    let is_of_schedule = matches!(error, MaintenanceError::Schedule(_));
                    tracing::debug!(%error, "a step of the recovery of the schedule failed; trying again");
                    tokio::select! {
                        () = tokio::time::sleep(back_off) => {}
                        () = recoverable.wait_for_loss() => return Ok(()),
                    }
                    if is_of_schedule && reach.is_given_up(recoverable) {
                        return Ok(());
                    }
                    back_off = (back_off * 2).min(LONGEST_BACK_OFF);
                }
                Err(error) => return Err(error),
            }
            if reported.elapsed() >= REPORT_LOADING {
                reported = Instant::now();
                if let Ok(false) = recoverable.report_loading().await {
                    return Ok(());
                }
            }
        }
        loop {
            match recoverable.finish_loading().await {
                Ok(true) => break,
                // The schedule must be inspected again.
                Ok(false) | Err(ScheduleError::Rebuilding) => return Ok(()),
                // More may be lost while a partition is out of reach.
                Err(_) => {
                    tokio::select! {
                        () = tokio::time::sleep(INSPECT_SOON) => {}
                        () = recoverable.wait_for_loss() => return Ok(()),
                    }
                    if reach.is_given_up(recoverable) {
                        return Ok(());
                    }
                }
            }
        }
        announce_end(resync.done(), started.elapsed());
        Ok(())
    }

    async fn write_down(&self, journal: &dyn Journal, reason: LoadReason) {
        let Some(reason) = why(reason) else {
            return;
        };
        let rebuild = Rebuild {
            at_ms: self.schedule.clock().now_ms(),
            actor: Actor::maintenance(),
            reason: reason.to_string(),
        };
        if let Err(error) = journal.rebuilding(&rebuild).await {
            tracing::warn!(
                %error,
                "the recovery of the schedule could not be recorded in the histories of the notifications; the \
                 recovery continues"
            );
        }
    }

    async fn remember(&self, recoverable: &dyn Recoverable) {
        let Some(journal) = &self.journal else {
            return;
        };
        let mut written = String::new();
        loop {
            tokio::time::sleep(REMEMBER).await;
            let counts = recoverable.write_counts();
            if counts != written && journal.remember(WRITE_COUNTS, &counts).await.is_ok() {
                written = counts;
            }
        }
    }
}

/// Since when a part that is loaded is out of reach.
#[derive(Default)]
struct Reach {
    missed_since: Option<Instant>,
}

impl Reach {
    /// Whether a part has been out of reach for long enough. Until it is back, the other parts are whole; then the next
    /// inspection begins with it again.
    fn is_given_up(&mut self, recoverable: &dyn Recoverable) -> bool {
        if !recoverable.is_some_out_of_reach() {
            self.missed_since = None;
            return false;
        }
        let since = *self.missed_since.get_or_insert_with(Instant::now);
        since.elapsed() >= GIVEN_UP_AFTER
    }
}

/// Whether the inspection found nothing missing.
fn is_whole(found: Inspection) -> bool {
    match found {
        Inspection::Whole => true,
        Inspection::Loading
        | Inspection::Clearing
        | Inspection::ToLoad(_)
        | Inspection::Replaced
        | Inspection::Unowned => false,
    }
}
