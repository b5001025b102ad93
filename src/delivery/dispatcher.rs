//! The loop that claims what is due and has it run.
//!
//! Sleeps until the next due time, or until something earlier is registered; a slow poll is
//! only the safety net. A permit is taken before a lease is claimed and goes back when the worker
//! is over, so attempts in flight are bounded and nothing is claimed that cannot start at once.

use super::bodies::{BodyMemory, BodyReader};
use super::http_client::HttpClient;
use super::in_flight::InFlight;
use super::permits::Permits;
use super::worker::Worker;
use crate::clock::Clock;
use crate::health::Health;
use crate::journal::recorder::Recorder;
use crate::schedule::{ClaimQuota, Schedule, ScheduleError};
use crate::telemetry::metrics::Metrics;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The slow poll: the longest time something due could be overlooked if a message was lost.
const POLL: Duration = Duration::from_secs(1);
/// First wait after a failed claim, and the longest. Short, so that work goes on soon after the
/// store is back.
const BACK_OFF: Duration = Duration::from_millis(50);
const LONGEST_BACK_OFF: Duration = Duration::from_millis(400);
/// What a worker may take beyond its call while the stores are well. If nothing was claimed for
/// longer than that and a call, something is wrong.
const WORK_MARGIN: Duration = Duration::from_secs(20);
/// How long stopping waits for the reply to the last claim.
const LAST_CLAIM: Duration = Duration::from_secs(2);
/// How long interrupted workers may take to record and settle at the end of a stop.
const LAST_GRACE: Duration = Duration::from_secs(3);

/// How the dispatcher stops. See [`Dispatcher::run`].
#[derive(Debug, Clone)]
pub struct Stop {
    /// Claim nothing more and let the attempts in flight end.
    pub drain: CancellationToken,
    /// How long they may take until they are interrupted.
    pub drain_timeout: Duration,
}

/// The dispatcher of one instance.
pub struct Dispatcher {
    worker: Arc<Worker>,
    schedule: Arc<dyn Schedule>,
    clock: Arc<dyn Clock>,
    permits: Arc<Permits>,
    tasks: TaskTracker,
    health: Arc<Health>,
}

impl Dispatcher {
    /// Puts a dispatcher together that makes at most `concurrency` attempts at a time. The time that is
    /// signed is that of `machine_clock`.
    #[must_use]
    pub fn new(
        client: Arc<HttpClient>,
        schedule: Arc<dyn Schedule>,
        recorder: Option<Arc<Recorder>>,
        machine_clock: Arc<dyn Clock>,
        concurrency: usize,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let clock = schedule.clock();
        let (interrupt, abandon) = (CancellationToken::new(), CancellationToken::new());
        let bodies = BodyReader {
            recorder: recorder.clone(),
            clock: clock.clone(),
            health: health.clone(),
            memory: BodyMemory::default(),
            interrupt: interrupt.clone(),
            abandon: abandon.clone(),
        };
        let worker = Arc::new(Worker {
            client,
            schedule: schedule.clone(),
            recorder,
            clock: clock.clone(),
            machine_clock,
            in_flight: InFlight::default(),
            interrupt,
            abandon,
            health: health.clone(),
            bodies,
            metrics,
        });
        Self {
            worker,
            schedule,
            clock,
            permits: Permits::new(concurrency),
            tasks: TaskTracker::new(),
            health,
        }
    }

    /// What runs a lease, for callers that claim by other means than [`Dispatcher::run`].
    #[must_use]
    pub fn worker(&self) -> Arc<Worker> {
        self.worker.clone()
    }

    /// Lets the bodies that are read from the journal for attempts take so many bytes together.
    ///
    /// # Panics
    /// If it runs already.
    #[must_use]
    pub fn with_body_memory(mut self, bytes: usize) -> Self {
        let worker = Arc::get_mut(&mut self.worker);
        worker.expect("invariant: nothing runs yet").bodies.memory = BodyMemory::of(bytes);
        self
    }

    /// Runs until `stop.drain` is cancelled, then lets the attempts in flight end, interrupts those
    /// that take too long, settles everything and returns.
    pub async fn run(self, stop: Stop) {
        let mut back_off = BACK_OFF;
        let longest_work = self.worker.client.timeout() + WORK_MARGIN;
        self.health.expect_claims(Some(longest_work));
        while let Some(quota) = stop.drain.run_until_cancelled(self.quota()).await {
            match self.claim(quota, &stop.drain).await {
                Ok(is_limited) => {
                    back_off = BACK_OFF;
                    let waiting = self.until_due(is_limited);
                    stop.drain.run_until_cancelled(waiting).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "a claim failed");
                    stop.drain
                        .run_until_cancelled(tokio::time::sleep(back_off))
                        .await;
                    back_off = (back_off * 2).min(LONGEST_BACK_OFF);
                }
            }
        }
        self.health.expect_claims(None);
        self.drain(stop.drain_timeout).await;
    }

    /// What may be claimed, once there is a free permit.
    async fn quota(&self) -> ClaimQuota {
        loop {
            let quota = self.permits.quota();
            if quota.total > 0 {
                return quota;
            }
            self.permits.released().await;
        }
    }

    /// Claims once within the quota, and starts a worker for each lease. Not cut short but at the very end: a
    /// claim whose reply is thrown away leaves leases without a worker. Says whether the quota was used up for
    /// a part of what is due.
    async fn claim(
        &self,
        quota: ClaimQuota,
        drain: &CancellationToken,
    ) -> Result<bool, ScheduleError> {
        let wake = self.schedule.wake();
        wake.reset();
        let claimed = tokio::select! {
            claimed = self.schedule.claim(quota) => claimed?,
            () = async {
                drain.cancelled().await;
                tokio::time::sleep(LAST_CLAIM).await;
            } => return Ok(false),
        };
        let stopping = drain.is_cancelled();
        for lease in claimed.leases {
            let permit = self.permits.take(lease.class);
            let worker = self.worker.clone();
            self.tasks.spawn(async move {
                let _in_flight = worker.metrics.begin();
                if stopping {
                    worker.release(lease).await;
                } else {
                    worker.run(lease).await;
                }
                drop(permit);
            });
        }
        if let Some(next_due_ms) = claimed.next_due_ms {
            wake.bring_forward(next_due_ms);
        }
        Ok(claimed.is_limited)
    }

    /// Waits until something may be due, or, if the quota was used up for a part of what is due, until it
    /// grows.
    async fn until_due(&self, is_limited: bool) {
        let wake = self.schedule.wake();
        // However often something that is due earlier is registered.
        let mut poll = pin!(tokio::time::sleep(POLL));
        loop {
            let at_ms = wake.at_ms();
            if at_ms <= self.clock.now_ms() {
                return;
            }
            tokio::select! {
                () = self.clock.sleep_until(at_ms) => return,
                () = wake.moved() => {}
                () = self.permits.released(), if is_limited => return,
                () = &mut poll => return,
            }
        }
    }

    async fn drain(&self, timeout: Duration) {
        self.tasks.close();
        let in_flight = self.tasks.len();
        if in_flight > 0 {
            tracing::info!(in_flight, "waiting for the attempts in flight");
        }
        if tokio::time::timeout(timeout, self.tasks.wait())
            .await
            .is_ok()
        {
            return;
        }
        tracing::warn!(
            in_flight = self.tasks.len(),
            "stopping: interrupting attempts that did not end within the drain time-out"
        );
        self.worker.interrupt.cancel();
        if tokio::time::timeout(LAST_GRACE, self.tasks.wait())
            .await
            .is_err()
        {
            // Their leases expire, and the journal is asked before they are sent again.
            tracing::warn!(
                in_flight = self.tasks.len(),
                "stopping although a store does not answer: these attempts are not recorded, and are made \
                 again once their leases have expired"
            );
            self.worker.abandon.cancel();
            self.tasks.wait().await;
        }
    }
}
