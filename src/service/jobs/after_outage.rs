//! The kind `after_outage`: when a destination answers again, sends now what failed while it was away and waits for a
//! later step of its ladder, if the endpoint says so. Everything else is as for `lane_retry`.
//!
//! The schedule notes an outage that has ended together with the answer that ended it, and keeps the note until a server
//! has dealt with it. Every server asks for such notes. The job of an outage has the same id whoever makes it, so the
//! journal keeps it once. Dying before the job is kept leaves the note to the other servers; dying after it, too, and
//! then they find the job.

use super::counting::{Counted, count};
use super::{NO_JOBS, SharedService, lane_retry};
use crate::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobState};
use crate::domain::lane::Lane;
use crate::domain::lane_settings::CallRate;
use crate::domain::outage::EndedOutage;
use crate::domain::timestamp::display_ms;
use crate::journal::Actor;
use crate::service::timeouts::with_timeout;
use crate::service::{Service, ServiceError};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often a server asks for outages that have ended.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// After how long it is tried again to make a job that could not be made, because another job of the lane runs or a
/// store failed.
const AGAIN: Duration = Duration::from_secs(5);

impl Service {
    /// Makes jobs after outages until the stop.
    pub async fn run_after_outages(self: SharedService, stop: CancellationToken) {
        let mut handled = Vec::new();
        let mut again: HashMap<Lane, Instant> = HashMap::new();
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
            again.retain(|_, at| *at > Instant::now());
            for outage in found {
                if again.contains_key(&outage.lane) {
                    continue;
                }
                match self.after_outage(&outage).await {
                    Ok(()) => handled.push(outage),
                    Err(error) => {
                        tracing::debug!(lane = %outage.lane, %error, "no job could be made after an outage yet");
                        again.insert(outage.lane, Instant::now() + AGAIN);
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
        let Some(rate) = self.rate_after_outage(&outage.lane) else {
            return Ok(());
        };
        let journal = self.journal().ok_or(NO_JOBS)?;
        let mut job = self.job_after(outage, rate);
        let Some(selection) = lane_retry::selection(&job) else {
            return Ok(());
        };
        let Counted { matched, at_least } = count(journal, &selection).await?;
        job.counts.matched = matched;
        if matched == 0 && !at_least {
            return Ok(());
        }
        self.add_job(journal, &job).await
    }

    /// At which rate it is sent; `None` if each notification waits for its ladder.
    fn rate_after_outage(&self, lane: &Lane) -> Option<CallRate> {
        self.journal()?;
        let endpoint = self.endpoints.known(&lane.endpoint()?)?;
        endpoint.settings.after_outage_rate
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
            failed_since_ms: Some(began_ms),
            counts: JobCounts::default(),
            rate,
            actor: (*Actor::maintenance().0).into(),
            reason: reason.into(),
            problem: None,
            created_ms: self.clock.now_ms(),
            ended_ms: None,
        }
    }
}
