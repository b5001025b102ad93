//! The kind `after_outage`: when a destination answers again, sends now what failed while it was away and waits for a
//! later step of its ladder, if the endpoint says so. Everything else is as for `lane_retry`.
//!
//! The schedule notes an outage that has ended together with the answer that ended it, and keeps the note until a server
//! has dealt with it. Every server asks for such notes. The job of an outage has the same id whoever makes it, so the
//! journal keeps it once. Dying before the job is kept leaves the note to the other servers; dying after it, too, and
//! then they find the job.

use super::counting::{Counted, count};
use super::{NO_JOBS, SharedService, lane_retry, refusal};
use crate::domain::call_rate::CallRate;
use crate::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobState};
use crate::domain::lane::Lane;
use crate::domain::outage::EndedOutage;
use crate::domain::timestamp::display_ms;
use crate::journal::Actor;
use crate::service::timeouts::with_timeout;
use crate::service::{Service, ServiceError};
use futures_util::StreamExt as _;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often a server asks for outages that have ended.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// After how long it is tried again to make a job that could not be made, because another job of the lane runs, there
/// are too many, or a store failed. It doubles with each refusal.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How many outages are dealt with at a time, so that one for which much has to be counted does not stop the others.
const AT_ONCE: usize = 4;

/// When the jobs of outages that could not be made are tried again.
#[derive(Debug, Default)]
struct RefusedOutages(HashMap<Lane, (Instant, Duration)>);

impl RefusedOutages {
    fn is_over(&self, lane: &Lane, now: Instant) -> bool {
        self.0.get(lane).is_none_or(|(until, _)| *until <= now)
    }

    /// Waits after a refusal: twice as long as after the one before, up to [`LONGEST_WAIT`].
    fn refuse(&mut self, lane: Lane, now: Instant) {
        let before = self.0.get(&lane).map(|(_, wait)| *wait);
        let wait = before.map_or(AGAIN, |wait| (2 * wait).min(LONGEST_WAIT));
        self.0.insert(lane, (now + wait, wait));
    }

    fn forget(&mut self, lane: &Lane) {
        self.0.remove(lane);
    }

    /// Forgets lanes that were not asked for any more long after their wait: another server has dealt with them.
    fn forget_old(&mut self, now: Instant) {
        (self.0).retain(|_, (until, _)| *until + 2 * LONGEST_WAIT > now);
    }
}

impl Service {
    /// Makes jobs after outages until the stop.
    pub async fn run_after_outages(self: SharedService, stop: CancellationToken) {
        let mut handled = Vec::new();
        let mut refused = RefusedOutages::default();
        loop {
            let mut found = Vec::new();
            match with_timeout(self.schedule.ended_outages(&handled)).await {
                Ok(outages) => found = outages,
                // `health` logs the outages of the stores.
                Err(error) => {
                    tracing::debug!(%error, "this server could not ask for ended outages")
                }
            }
            handled.clear();
            let now = Instant::now();
            refused.forget_old(now);
            found.retain(|outage| refused.is_over(&outage.lane, now));
            let mut done = futures_util::stream::iter(found)
                .map(|outage| async {
                    let done = self.after_outage(&outage).await;
                    (outage, done)
                })
                .buffer_unordered(AT_ONCE);
            while let Some((outage, done)) = done.next().await {
                match done {
                    Ok(()) => {
                        refused.forget(&outage.lane);
                        handled.push(outage);
                    }
                    Err(error) => {
                        tracing::debug!(lane = %outage.lane, %error, "no job could be made after an outage yet");
                        refused.refuse(outage.lane, Instant::now());
                    }
                }
            }
            if handled.is_empty() {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(ASK_EVERY) => {}
                }
            } else if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Makes the job of an outage, if there is something for it to do.
    async fn after_outage(&self, outage: &EndedOutage) -> Result<(), ServiceError> {
        let Some(rate) = self.rate_after_outage(&outage.lane).await? else {
            return Ok(());
        };
        let journal = self.journal().ok_or(NO_JOBS)?;
        let mut job = self.job_after(outage, rate);
        // To count may take seconds, and another job may stand in the way for days.
        if let Some(obstacle) = with_timeout(journal.job_obstacle(&job)).await? {
            return refusal(obstacle, job.kind);
        }
        let Some(selection) = lane_retry::selection(&job) else {
            return Ok(());
        };
        let Counted {
            matched, at_least, ..
        } = count(journal, &selection).await?;
        job.counts.matched = matched;
        if matched == 0 && !at_least {
            return Ok(());
        }
        self.add_job(journal, &job).await
    }

    /// At which rate it is sent; `None` if each notification waits for its ladder. An error if the endpoint cannot be read:
    /// that may be put right.
    async fn rate_after_outage(&self, lane: &Lane) -> Result<Option<CallRate>, ServiceError> {
        let (Some(_), Some(name)) = (self.journal(), lane.endpoint()) else {
            return Ok(None);
        };
        let endpoint = with_timeout(self.endpoints.find(&name, self.clock.now_ms())).await?;
        Ok(endpoint.and_then(|endpoint| endpoint.settings.after_outage_rate))
    }

    fn job_after(&self, outage: &EndedOutage, rate: CallRate) -> BulkJob {
        let EndedOutage {
            lane,
            from_ms,
            until_ms,
        } = outage;
        // The first call without an answer began before it ended.
        let began_ms = from_ms - self.schedule.limits().lease_ms;
        let (from, until) = (display_ms(*from_ms), display_ms(*until_ms));
        let reason =
            format!("the destination answers again; no call was answered from {from} to {until}");
        BulkJob {
            id: JobId::after_outage(outage),
            kind: JobKind::AfterOutage,
            state: JobState::Running,
            lane: Some(lane.clone()),
            filter: None,
            failed_since_ms: Some(began_ms),
            counts: JobCounts::default(),
            rate,
            actor: Actor::maintenance().name().into(),
            reason: reason.into(),
            problem: None,
            created_ms: self.clock.now_ms(),
            ended_ms: None,
        }
    }
}

#[cfg(test)]
mod tests;
