//! One step of a job: leases some notifications, changes them together with the place of the job, and settles the
//! leases.
//!
//! Dying before the journal has kept the step leaves leases that expire in a few seconds; the next server repeats the
//! step. Dying after it leaves the changes in the journal and not in the schedule: the leases expire, the journal is
//! asked before anything is sent, and the reconciler finds the changes by their time, as it does for a change of one
//! notification by hand. The next server goes on behind them.

use super::reasons::{detail_of, failure_reason, skip_reason};
use super::{SharedService, filtered, lane_retry};
use crate::domain::change::Change;
use crate::domain::job::{BulkJob, JobKind};
use crate::domain::job_result::{JobReason, JobResult};
use crate::domain::key::Key;
use crate::domain::priority::Priority;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::journal::{Actor, ChangeResult, Changing, JobStep, JobStepped, JobUnchanged};
use crate::schedule::{CHANGE_LEASE_MS, Settled};
use crate::service::held::{HeldLease, Leasing};
use crate::service::timeouts::with_timeout;
use crate::service::{LONGEST_LEASE_WAIT, Service, ServiceError};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A step waits twice for the lease of a notification, which is for as long as another server's lease can last.
const _: () = assert!(2_000 * LONGEST_LEASE_WAIT.as_secs() >= CHANGE_LEASE_MS.unsigned_abs());

/// A job while this server has it.
pub(super) struct CurrentJob {
    pub(super) job: Arc<BulkJob>,
    pub(super) fence: i64,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepDone {
    /// It was kept. So many notifications were changed, and so many others were seen.
    Kept {
        changed: usize,
        skipped: usize,
        failed: usize,
    },
    /// The lease of a notification was lost; nothing was changed. The step can be repeated.
    Again,
    /// The job no longer runs, or another server has it.
    Lost,
}

/// A notification that is leased for a job, to be changed.
pub(super) struct LeasedForJob {
    held: HeldLease,
    before: Box<Snapshot>,
    change: Change,
}

/// What became of one notification of a step before the journal was written.
enum Prepared {
    Leased(Box<LeasedForJob>),
    /// It needs nothing, or cannot be leased or read.
    Unchanged(JobUnchanged),
    /// An attempt of it is in flight, or may be, or another request of this server is changing it. Its turn comes when that
    /// has ended.
    InFlight(Key),
}

/// The notifications of a step, before the journal is written.
#[derive(Default)]
pub(super) struct PreparedStep {
    pub(super) leased: Vec<LeasedForJob>,
    /// Those that need nothing or cannot be changed.
    pub(super) unchanged: Vec<JobUnchanged>,
    /// Those that have to wait for the end of an attempt, or of another request of this server.
    pub(super) in_flight: Vec<Key>,
}

impl Service {
    /// Leases the notifications of a step that need a change.
    ///
    /// # Errors
    /// If a store fails. Nothing is leased then.
    pub(super) async fn prepare_job_step(
        self: &SharedService,
        job: &Arc<BulkJob>,
        keys: Vec<Key>,
    ) -> Result<PreparedStep, ServiceError> {
        let mut step = PreparedStep::default();
        let mut problem = None;
        let mut preparing = JoinSet::new();
        let mut asked = HashMap::new();
        for key in keys {
            let (service, job, known) = (self.clone(), job.clone(), key.clone());
            let task = preparing.spawn(async move { service.prepare(key, &job).await });
            asked.insert(task.id(), known);
        }
        while let Some(prepared) = preparing.join_next_with_id().await {
            match prepared {
                Ok((_, Ok(Prepared::Leased(one)))) => step.leased.push(*one),
                Ok((_, Ok(Prepared::Unchanged(one)))) => step.unchanged.push(one),
                Ok((_, Ok(Prepared::InFlight(key)))) => step.in_flight.push(key),
                Ok((_, Err(error))) => problem = Some(error),
                // A panic is logged where it happens, and the lease expires.
                Err(failed) => {
                    let key = asked.remove(&failed.id());
                    let failed = key.map(|key| JobUnchanged::new(key, JobReason::Internal));
                    step.unchanged.extend(failed);
                }
            }
        }
        if let Some(error) = problem {
            self.release_all(step.leased).await;
            return Err(error);
        }
        Ok(step)
    }

    /// Does a step, with the changes of the notifications that are leased. `call_now`: the destination is called now even if
    /// it is probed.
    ///
    /// # Errors
    /// If a store fails. The step may have been kept nevertheless, so the caller must read the job again.
    pub(super) async fn do_job_step(
        self: &SharedService,
        current: &CurrentJob,
        leased: Vec<LeasedForJob>,
        mut step: JobStep,
        call_now: bool,
    ) -> Result<StepDone, ServiceError> {
        let job = &current.job;
        let changes = leased.iter().map(|one| Changing {
            lease: one.held.token(),
            fence: one.before.fence,
            change: one.change,
            // It goes behind what is sent anyway.
            series_priority: (job.kind == JobKind::Replay).then_some(Priority::Low),
            actor: Actor::unaudited(&*job.actor),
            reason: reason_of(job),
            at_ms: step.at_ms,
        });
        step.changes = changes.collect();
        let Some(journal) = self.journal() else {
            return Ok(StepDone::Lost);
        };
        match with_timeout(journal.step_job(&step)).await {
            Ok(JobStepped::Kept(results)) => {
                let all = step.unchanged_with(&results);
                let of = |result| {
                    all.iter()
                        .filter(|one| one.reason.result() == result)
                        .count()
                };
                let (skipped, failed) = (of(JobResult::Skipped), of(JobResult::Failed));
                let changed = step.unchanged.len() + results.len() - all.len();
                self.settle_all(leased, results, call_now).await;
                Ok(StepDone::Kept {
                    changed,
                    skipped,
                    failed,
                })
            }
            Ok(JobStepped::NotificationLost) => {
                self.recheck_all(leased).await;
                Ok(StepDone::Again)
            }
            Ok(JobStepped::JobLost) => {
                self.release_all(leased).await;
                Ok(StepDone::Lost)
            }
            // The journal may have kept the step nevertheless, or may still do so.
            Err(error) => {
                self.recheck_all(leased).await;
                Err(error.into())
            }
        }
    }

    /// Leases one notification, if it needs a change.
    async fn prepare(
        self: SharedService,
        key: Key,
        job: &BulkJob,
    ) -> Result<Prepared, ServiceError> {
        let unchanged = |reason| Ok(Prepared::Unchanged(JobUnchanged::new(key.clone(), reason)));
        let Some(asked) = change_of(job.kind) else {
            return unchanged(JobReason::Missing);
        };
        let mut leasing = self.lease_for_step(&key, asked).await;
        if let Err(ServiceError::Unsettled) = leasing {
            // A server that died with its lease leaves that for longer than one wait. If two waits take longer than this
            // server has the job, the next server repeats the step.
            leasing = self.lease_for_step(&key, asked).await;
        }
        let leasing = match leasing {
            Ok(Some(leasing)) => leasing,
            // A request that waits for a slow store may hold the lock, also one about another notification with the same lock.
            Ok(None) => return Ok(Prepared::InFlight(key)),
            Err(error) => return failed_alone(&key, error),
        };
        let (held, before) = match leasing {
            Leasing::Held(held, before) => (held, before),
            // It is called already, so it need not be made due.
            Leasing::InFlight if asked == Change::Retry => return unchanged(JobReason::InFlight),
            Leasing::InFlight => return Ok(Prepared::InFlight(key)),
            Leasing::Refused(found) => return unchanged(JobReason::of_state(&found)),
            Leasing::Missing => return unchanged(JobReason::Missing),
        };
        let change = match job.kind {
            JobKind::LaneRetry | JobKind::AfterOutage => {
                lane_retry::change(&before, self.clock.now_ms())
            }
            JobKind::Replay | JobKind::Cancel => match self.change_of_set(job, &before).await {
                Ok(change) => change,
                Err(error) => {
                    self.release(held).await;
                    return failed_alone(&before.key, error);
                }
            },
            JobKind::LaneRelease => None,
        };
        let Some(change) = change else {
            self.release(held).await;
            return unchanged(skip_reason(job, &before));
        };
        if let Err(error) = self.check_endpoint(change, &before).await {
            self.release(held).await;
            return failed_alone(&before.key, error);
        }
        if let (HeldLease::Entry(lease), Some(recorder)) = (&held, &self.recorder)
            && let Err(error) = self.record_interruption(recorder, lease, &before).await
        {
            self.release(held).await;
            return failed_alone(&before.key, error);
        }
        Ok(Prepared::Leased(Box::new(LeasedForJob {
            held,
            before,
            change,
        })))
    }

    /// The change of one notification of a filter; `None` if it needs none. The page with its key may have been read long
    /// ago, so what has been sent again since is found here.
    async fn change_of_set(
        &self,
        job: &BulkJob,
        before: &Snapshot,
    ) -> Result<Option<Change>, ServiceError> {
        let (Some(change), Some(set)) = (filtered::change(job, before), filtered::set_of(job))
        else {
            return Ok(None);
        };
        if !set.may_be_sent_again(before) {
            return Ok(Some(change));
        }
        let journal = self.journal().ok_or(super::NO_JOBS)?;
        let history = with_timeout(journal.transitions(&before.key)).await?;
        Ok((!filtered::is_sent_again(job, &history)).then_some(change))
    }

    /// `None` if other requests of this server have held the lock on the key for too long: nothing was asked of the stores.
    async fn lease_for_step(
        self: &SharedService,
        key: &Key,
        asked: Change,
    ) -> Result<Option<Leasing>, ServiceError> {
        // Held only until the notification is leased: a step leases many, and two of them may share a lock.
        let Ok(_lock) = self.locks.lock(key).await else {
            return Ok(None);
        };
        self.lease(key, asked).await.map(Some)
    }

    /// Settles the leases to what the journal has now.
    async fn settle_all(
        self: &SharedService,
        leased: Vec<LeasedForJob>,
        results: Vec<ChangeResult>,
        mut call_now: bool,
    ) {
        let mut settling = JoinSet::new();
        for (one, result) in leased.into_iter().zip(results) {
            let call_now = std::mem::take(&mut call_now);
            let held = match call_now {
                true => one.held.for_change(one.change),
                false => one.held,
            };
            let service = self.clone();
            settling.spawn(async move { service.settle_one((held, call_now), result).await });
        }
        // A panic is logged where it happens, and the lease expires.
        while settling.join_next().await.is_some() {}
    }

    async fn settle_one(
        self: &SharedService,
        (held, call_now): (HeldLease, bool),
        result: ChangeResult,
    ) {
        let Some(journal) = self.journal() else {
            return;
        };
        let after = match result {
            ChangeResult::Done(after)
            | ChangeResult::Refused(after)
            | ChangeResult::Fenced(after)
            | ChangeResult::Superseded(after)
            | ChangeResult::PayloadDeleted(after) => after,
            ChangeResult::Missing => return self.release(held).await,
        };
        let key = after.key.clone();
        match self
            .settle_to_journal(journal, (held, call_now), &after)
            .await
        {
            Ok(Settled::Lost) if after.state == State::Scheduled => {
                self.restore(journal, &key).await;
            }
            Ok(Settled::Lost) | Err(_) if after.state != State::Scheduled => {
                self.remove_after_loss(after.key_in_lane());
            }
            Ok(Settled::Done | Settled::Lost) => {}
            Err(error) => tracing::debug!(
                notification = %key,
                %error,
                "a notification that a job has changed could not be moved in the schedule; the reconciler does it"
            ),
        }
    }

    pub(super) async fn release_all(self: &SharedService, leased: Vec<LeasedForJob>) {
        for one in leased {
            self.release(one.held).await;
        }
    }

    async fn recheck_all(self: &SharedService, leased: Vec<LeasedForJob>) {
        for one in leased {
            self.recheck(one.held).await;
        }
    }
}

/// What an error of one notification means: a store that is away stops the step, everything else is a matter of this
/// notification.
fn failed_alone(key: &Key, error: ServiceError) -> Result<Prepared, ServiceError> {
    let Some(reason) = failure_reason(&error) else {
        return Err(error);
    };
    if reason == JobReason::EndpointMadeAgain {
        tracing::warn!(notification = %key, %error, "a job does not replay a dead letter; it counts it as failed");
    } else {
        tracing::error!(
            notification = %key,
            %error,
            "a job cannot change a notification; the job counts it as failed and goes on"
        );
    }
    let mut unchanged = JobUnchanged::new(key.clone(), reason);
    if reason == JobReason::Unreadable {
        unchanged.detail = detail_of(&error.to_string());
    }
    Ok(Prepared::Unchanged(unchanged))
}

/// What the kinds of jobs do with a notification; `None` if a kind does nothing.
fn change_of(kind: JobKind) -> Option<Change> {
    match kind {
        JobKind::LaneRetry | JobKind::AfterOutage => Some(Change::Retry),
        JobKind::Replay => Some(Change::Replay),
        JobKind::Cancel => Some(Change::Cancel),
        JobKind::LaneRelease => None,
    }
}

/// What the history of a notification says.
fn reason_of(job: &BulkJob) -> String {
    let name = job.id.in_history();
    match &*job.reason {
        "" => name,
        reason => format!("{name}: {reason}"),
    }
}
