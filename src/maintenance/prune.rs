//! Forgetting old notifications, so that the journal does not grow for ever.
//!
//! It works in small steps with rests between them: each step is one transaction, and in SQLite registrations
//! and recordings wait for that transaction. A run that takes long has shorter rests: more becomes old than the usual rests
//! let it forget, or much became old at once, and the journal must not grow for ever. A pending notification is never
//! forgotten. A dead letter waits for a replay or a discard, so it is forgotten only if that is configured.

use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use crate::journal::{JournalMaintenance, PartitionWork, PartitionedTables, Prune, Pruned};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bodies and notifications forgotten in one step, and the usual rest between two steps: at most 2,500 a second.
const BATCH: usize = 500;
const STEP_REST: Duration = Duration::from_millis(200);
/// After a run has taken this long, the rest is so many times as long as the step before took, but no shorter than
/// [`SHORTEST_REST`] and no longer than usual. So at most a quarter of the time is spent on steps, unless they take longer than
/// usual rests.
const LONG_RUN: Duration = Duration::from_secs(60);
const REST_OF_LONG_RUN: u32 = 3;
const SHORTEST_REST: Duration = Duration::from_millis(20);
/// The rest between two runs.
const RUN_REST: Duration = Duration::from_secs(60);

/// For how long a notification is kept after it has ended, in milliseconds; `None` for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Bodies and headers of delivered and cancelled notifications.
    pub payloads_ms: Option<i64>,
    /// Delivered and cancelled notifications.
    pub records_ms: Option<i64>,
    /// Dead letters.
    pub dead_ms: Option<i64>,
}

impl Retention {
    /// What may be forgotten at this instant.
    #[must_use]
    pub fn at(&self, now_ms: i64) -> Prune {
        let before = |kept_ms: Option<i64>| kept_ms.map(|kept_ms| now_ms.saturating_sub(kept_ms));
        Prune {
            payloads_before_ms: before(self.payloads_ms).unwrap_or(i64::MIN),
            records_before_ms: before(self.records_ms).unwrap_or(i64::MIN),
            dead_before_ms: before(self.dead_ms),
        }
    }

    /// What is to be done about the partitions of these tables at this instant.
    #[must_use]
    pub const fn partition_work(&self, tables: PartitionedTables, now_ms: i64) -> PartitionWork {
        let kept_ms = match tables {
            PartitionedTables::Bodies => self.payloads_ms,
            PartitionedTables::History => self.records_ms,
        };
        PartitionWork {
            tables,
            now_ms,
            kept_ms,
        }
    }
}

/// The duty that forgets old notifications.
pub struct Pruner {
    journal: Arc<dyn JournalMaintenance>,
    retention: Retention,
    pruned: Pruned,
    /// When the run began; `None` between two runs.
    begun: Option<Instant>,
    /// How long the last step took.
    step_took: Duration,
    bodies: Tended,
    history: Tended,
}

/// How far the partitions of some tables are.
#[derive(Debug, Default)]
struct Tended {
    /// When there was nothing more to do; `None` if there is.
    at: Option<Instant>,
    /// Whether that was in this run.
    in_this_run: bool,
    /// Whether the last step for them failed.
    has_failed: bool,
}

impl Pruner {
    /// A duty that forgets the notifications of this journal that are older than `retention` allows.
    #[must_use]
    pub fn new(journal: Arc<dyn JournalMaintenance>, retention: Retention) -> Self {
        Self {
            journal,
            retention,
            pruned: Pruned::default(),
            begun: None,
            step_took: Duration::ZERO,
            bodies: Tended::default(),
            history: Tended::default(),
        }
    }

    /// Forgets a bounded number of the notifications that are old at `now_ms`.
    ///
    /// # Errors
    /// If the journal fails; the step can be repeated.
    pub async fn step(&mut self, now_ms: i64) -> Result<Step<Pruned>, MaintenanceError> {
        let started = Instant::now();
        self.begun.get_or_insert(started);
        let pruned = self.journal.prune(&self.retention.at(now_ms), BATCH).await;
        // A journal that was away has other work to make up for first.
        let pruned = pruned.inspect_err(|_| self.begun = None)?;
        self.pruned.payloads += pruned.payloads;
        self.pruned.records += pruned.records;
        let mut tended_more = false;
        for tables in [PartitionedTables::Bodies, PartitionedTables::History] {
            let tended = self.tended(tables);
            let is_due = (tended.at).is_none_or(|tended| tended.elapsed() >= RUN_REST);
            if is_due || !(pruned.more || tended.in_this_run) {
                tended_more |= self.tend(tables, now_ms).await;
            }
        }
        self.step_took = started.elapsed();
        if pruned.more || tended_more {
            return Ok(Step::More);
        }
        self.end_run();
        Ok(Step::Done(std::mem::take(&mut self.pruned)))
    }

    const fn tended(&mut self, tables: PartitionedTables) -> &mut Tended {
        match tables {
            PartitionedTables::Bodies => &mut self.bodies,
            PartitionedTables::History => &mut self.history,
        }
    }

    /// The next step begins a run.
    const fn end_run(&mut self) {
        self.begun = None;
        self.bodies.in_this_run = false;
        self.history.in_this_run = false;
    }

    /// Does the next step for the partitions of these tables. Returns whether there is another one that need not wait. If this fails,
    /// what has no partition is deleted one by one, so pruning goes on.
    async fn tend(&mut self, tables: PartitionedTables, now_ms: i64) -> bool {
        let work = self.retention.partition_work(tables, now_ms);
        let tended = self.journal.tend_partitions(&work).await;
        let has_failed = tended.is_err();
        let failed_before = self.tended(tables).has_failed;
        let tended = tended.unwrap_or_else(|error| {
            let of = tables.content();
            // The health of the journal says that it is away. If pruning works between two failures, it is not.
            match error.may_pass() && !failed_before {
                true => tracing::debug!(%error, "no partition of {of} can be made or dropped in the journal now; it is tried again"),
                false => tracing::warn!(%error, "no partition of {of} can be made or dropped in the journal now; it is tried again"),
            }
            Pruned::default()
        });
        self.pruned.payloads += tended.payloads;
        *self.tended(tables) = Tended {
            at: (!tended.more).then(Instant::now),
            in_this_run: !tended.more,
            has_failed,
        };
        tended.more
    }

    /// Forgets all notifications that are old at `now_ms`.
    ///
    /// # Errors
    /// As [`Pruner::step`].
    pub async fn pass(&mut self, now_ms: i64) -> Result<Pruned, MaintenanceError> {
        loop {
            if let Step::Done(pruned) = self.step(now_ms).await? {
                return Ok(pruned);
            }
        }
    }
}

impl Duty for Pruner {
    type Outcome = Pruned;

    const NAME: &'static str = "prune";
    const STEP_REST: Duration = STEP_REST;

    fn step(
        &mut self,
        now_ms: i64,
    ) -> impl Future<Output = Result<Step<Pruned>, MaintenanceError>> + Send {
        Pruner::step(self, now_ms)
    }

    fn step_rest(&self) -> Duration {
        let run_took = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        rest_after(self.step_took, run_took)
    }

    fn start_over(&mut self) {
        self.pruned = Pruned::default();
        self.end_run();
    }

    fn rest(_took: Duration) -> Duration {
        RUN_REST
    }

    fn report(pruned: Pruned) {
        let Pruned {
            payloads, records, ..
        } = pruned;
        if payloads + records > 0 {
            tracing::info!(
                payloads,
                records,
                "old bodies and records were removed from the journal"
            );
        }
    }
}

/// How long to rest after a step, in a run that has taken `run_took` so far.
fn rest_after(step_took: Duration, run_took: Duration) -> Duration {
    if run_took < LONG_RUN {
        return STEP_REST;
    }
    (step_took * REST_OF_LONG_RUN).clamp(SHORTEST_REST, STEP_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_shorter_rests() {
        fn check(step_ms: u64, run_ms: u64, expected_ms: u64) {
            let millis = Duration::from_millis;
            let rest = rest_after(millis(step_ms), millis(run_ms));
            assert_eq!(rest, millis(expected_ms), "{step_ms} {run_ms}");
        }
        check(0, 0, 200);
        check(20, 59_999, 200);
        check(20, 60_000, 60);
        check(1, 60_000, 20);
        check(66, 60_000, 198);
        check(5_000, 60_000, 200);
    }

    #[test]
    fn what_is_kept_for_ever_is_never_old() {
        fn check(kept_ms: Option<i64>, now_ms: i64, expected: i64) {
            let retention = Retention {
                payloads_ms: kept_ms,
                ..Retention::default()
            };
            assert_eq!(retention.at(now_ms).payloads_before_ms, expected);
        }
        check(Some(10), 100, 90);
        check(Some(i64::MAX), -100, i64::MIN);
        check(None, i64::MAX, i64::MIN);
        assert_eq!(Retention::default().at(5).dead_before_ms, None);
    }
}
