//! Forgetting old notifications, so that the journal does not grow for ever.
//!
//! It works in small steps with rests between them: each step is one transaction, and in SQLite registrations
//! and recordings wait for that transaction. A pending notification is never forgotten. A dead letter waits for
//! a replay or a discard, so it is forgotten only if that is configured.

use super::duty::{Duty, Step};
use super::error::MaintenanceError;
use crate::journal::{JournalMaintenance, Prune, Pruned};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Bodies and notifications forgotten in one step, and the rest between two steps.
const BATCH: usize = 500;
const STEP_REST: Duration = Duration::from_millis(200);
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
}

/// The duty that forgets old notifications.
pub struct Pruner {
    journal: Arc<dyn JournalMaintenance>,
    retention: Retention,
    pruned: Pruned,
}

impl Pruner {
    /// A duty that forgets the notifications of this journal that are older than `retention` allows.
    #[must_use]
    pub fn new(journal: Arc<dyn JournalMaintenance>, retention: Retention) -> Self {
        Self {
            journal,
            retention,
            pruned: Pruned::default(),
        }
    }

    /// Forgets a bounded number of the notifications that are old at `now_ms`.
    ///
    /// # Errors
    /// If the journal fails; the step can be repeated.
    pub async fn step(&mut self, now_ms: i64) -> Result<Step<Pruned>, MaintenanceError> {
        let pruned = self
            .journal
            .prune(&self.retention.at(now_ms), BATCH)
            .await?;
        self.pruned.payloads += pruned.payloads;
        self.pruned.records += pruned.records;
        if pruned.more {
            return Ok(Step::More);
        }
        Ok(Step::Done(std::mem::take(&mut self.pruned)))
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

    fn start_over(&mut self) {
        self.pruned = Pruned::default();
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

#[cfg(test)]
mod tests {
    use super::*;

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
