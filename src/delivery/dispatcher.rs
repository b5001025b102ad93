//! The loop that claims due notifications and starts a worker for each lease.
//!
//! The loop sleeps until the next due time, or until something earlier is registered. Unless all permits are
//! taken, it claims at least once a second, in case a wake-up message was lost. A permit is taken before a claim
//! and released when the worker has ended. So the attempts in flight are bounded, and every claimed lease gets
//! a worker at once.

use super::attempt_log::AttemptLog;
use super::bodies::{BodyMemory, BodyReader};
use super::http_client::HttpClient;
use super::in_flight::InFlight;
use super::permits::Permits;
use super::unusable_keys::UnusableKeys;
use super::worker::Worker;
use super::working_time::WorkingTime;
use crate::clock::Clock;
use crate::endpoints::Endpoints;
use crate::health::Health;
use crate::journal::recorder::Recorder;
use crate::schedule::{ClaimQuota, Schedule, ScheduleError};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Tracer;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longest sleep between two claims. If a wake-up message is lost, a due notification waits at most this long.
const POLL: Duration = Duration::from_secs(1);
/// How long the next claim waits at most if attempts for lanes that are not known to answer began too often.
const PACE: Duration = Duration::from_millis(5);
/// How long the next claim waits at most for a part of the permits if one took all that busy lanes may have, or for a part of
/// the attempts in flight if one filled most lanes that it served. Without that wait a claim follows every few calls that
/// end, and costs more than the leases that it gives.
const GATHER: Duration = Duration::from_millis(2);
/// First wait after a failed claim. Short, so that work continues soon after the store is back.
const BACK_OFF: Duration = Duration::from_millis(50);
/// Longest wait after a failed claim.
const LONGEST_BACK_OFF: Duration = Duration::from_millis(400);
/// How often it is tried again to open the signing keys that could not be opened.
const REVIEW_KEYS: Duration = Duration::from_millis(250);
/// How often the store is asked again for the endpoints of skipped lanes that this server does not know.
const ASK_FOR_ENDPOINTS: Duration = Duration::from_secs(10);
/// How long a worker may take in addition to its call while both stores work. If no claim succeeds for
/// longer than a call and this margin, health reports that attempts are stuck.
const WORK_MARGIN: Duration = Duration::from_secs(20);
/// How long a stop waits for the reply to the last claim.
const LAST_CLAIM: Duration = Duration::from_secs(2);
/// How long interrupted workers may take to record and settle at the end of a stop.
const LAST_GRACE: Duration = Duration::from_secs(3);

/// How the dispatcher is stopped. See [`Dispatcher::run`].
#[derive(Debug, Clone)]
pub struct Stop {
    /// Cancelled when the dispatcher must stop claiming and wait for the attempts in flight.
    pub drain: CancellationToken,
    /// How long the attempts in flight may take until they are interrupted.
    pub drain_timeout: Duration,
}

/// When the next claim may bring more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    /// When something is due.
    WhenDue,
    /// Also when a permit is given back: the quota was used up for a part of what is due.
    AfterRelease,
    /// Also after [`PACE`]: attempts for such a part began too often.
    AfterPace,
}

/// The dispatcher of one instance.
pub struct Dispatcher {
    worker: Arc<Worker>,
    schedule: Arc<dyn Schedule>,
    clock: Arc<dyn Clock>,
    permits: Arc<Permits>,
    tasks: TaskTracker,
    health: Arc<Health>,
    working: WorkingTime,
}

impl Dispatcher {
    /// Creates a dispatcher that makes at most `concurrency` attempts at a time. Requests are signed with
    /// the time of `machine_clock`.
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
        let permits = Permits::new(concurrency);
        metrics.limit_concurrency(concurrency);
        let worker = Arc::new(Worker {
            client,
            schedule: schedule.clone(),
            recorder,
            endpoints: Arc::default(),
            unusable_keys: UnusableKeys::default(),
            clock: clock.clone(),
            machine_clock,
            in_flight: InFlight::default(),
            interrupt,
            abandon,
            health: health.clone(),
            bodies,
            log: AttemptLog::default(),
            metrics,
            tracer: Tracer::default(),
            permits: permits.clone(),
        });
        Self {
            worker,
            schedule,
            clock,
            permits,
            tasks: TaskTracker::new(),
            health,
            working: WorkingTime::default(),
        }
    }

    /// The worker of this dispatcher, for callers that claim leases themselves.
    #[must_use]
    pub fn worker(&self) -> Arc<Worker> {
        self.worker.clone()
    }

    /// Uses these endpoints for notifications that name one.
    ///
    /// # Panics
    /// If a worker from [`Dispatcher::worker`] is in use.
    #[must_use]
    pub fn with_endpoints(mut self, endpoints: Arc<Endpoints>) -> Self {
        let worker = Arc::get_mut(&mut self.worker);
        worker.expect("invariant: nothing runs yet").endpoints = endpoints;
        self
    }

    /// Records attempts with this tracer.
    ///
    /// # Panics
    /// As [`Dispatcher::with_endpoints`].
    #[must_use]
    pub fn with_tracer(mut self, tracer: Tracer) -> Self {
        let worker = Arc::get_mut(&mut self.worker);
        worker.expect("invariant: nothing runs yet").tracer = tracer;
        self
    }

    /// Limits the memory for all bodies that attempts read from the journal to this many bytes.
    ///
    /// # Panics
    /// If a worker from [`Dispatcher::worker`] is in use.
    #[must_use]
    pub fn with_body_memory(mut self, bytes: usize) -> Self {
        let worker = Arc::get_mut(&mut self.worker);
        worker.expect("invariant: nothing runs yet").bodies.memory = BodyMemory::of(bytes);
        self
    }

    /// Claims and starts workers until `stop.drain` is cancelled. Then waits for the attempts in flight,
    /// interrupts those that take longer than `stop.drain_timeout`, and returns when all workers have ended.
    pub async fn run(self, stop: Stop) {
        tokio::join!(
            self.claim_until(&stop.drain),
            self.review_skipped_lanes(&stop.drain)
        );
        self.drain(stop.drain_timeout).await;
    }

    /// Claims until `drain` is cancelled.
    async fn claim_until(&self, drain: &CancellationToken) {
        let mut back_off = BACK_OFF;
        let longest_work = self.worker.client.timeout() + WORK_MARGIN;
        self.health.expect_claims(Some(longest_work));
        while let Some(quota) = drain.run_until_cancelled(self.quota()).await {
            match self.claim(quota, drain).await {
                Ok((more, filled)) => {
                    back_off = BACK_OFF;
                    let waiting = async {
                        let given_back = self.permits.gather(filled, GATHER).await;
                        if !given_back || more == More::WhenDue {
                            self.until_due(more).await;
                        }
                    };
                    drain.run_until_cancelled(waiting).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "claiming due notifications failed; trying again");
                    let waiting = self.wait_after(&error, back_off);
                    drain.run_until_cancelled(waiting).await;
                    back_off = (back_off * 2).min(LONGEST_BACK_OFF);
                }
            }
        }
        self.health.expect_claims(None);
    }

    /// Waits after a claim that has failed. If it was refused because the schedule has lost data, the wait ends soon after this
    /// instance may use the schedule again, which is within a few milliseconds: what is due is not sent meanwhile.
    async fn wait_after(&self, error: &ScheduleError, back_off: Duration) {
        let mut waiting = pin!(tokio::time::sleep(back_off));
        if let (ScheduleError::Rebuilding, Some(recoverable)) = (error, self.schedule.recoverable())
        {
            tokio::time::sleep(back_off / 10).await;
            tokio::select! {
                () = recoverable.wait_until_usable() => {}
                () = &mut waiting => {}
            }
        } else {
            waiting.await;
        }
    }

    /// Claims again for endpoints that are skipped, as soon as they are known and their signing keys can be opened, until `drain` is
    /// cancelled.
    async fn review_skipped_lanes(&self, drain: &CancellationToken) {
        let mut asked_again_at = Instant::now();
        while drain
            .run_until_cancelled(tokio::time::sleep(REVIEW_KEYS))
            .await
            .is_some()
        {
            let asks_again = asked_again_at.elapsed() >= ASK_FOR_ENDPOINTS;
            if asks_again {
                asked_again_at = Instant::now();
            }
            if self.worker.review_skipped_lanes(asks_again) {
                self.schedule.wake().bring_forward(self.clock.now_ms());
            }
        }
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

    /// Claims once within the quota, and starts a worker for each lease. Returns when the next claim may bring more, and
    /// whether most leases were for lanes that are full now. The claim is not cancelled as soon as `drain` is, because its
    /// reply may bring leases that need a worker. During a stop, it is dropped after [`LAST_CLAIM`]; its leases then expire.
    async fn claim(
        &self,
        quota: ClaimQuota,
        drain: &CancellationToken,
    ) -> Result<(More, bool), ScheduleError> {
        let wake = self.schedule.wake();
        wake.reset();
        let claimed = tokio::select! {
            biased;
            claimed = self.schedule.claim(quota) => claimed?,
            () = async {
                drain.cancelled().await;
                tokio::time::sleep(LAST_CLAIM).await;
            } => return Ok((More::WhenDue, false)),
        };
        let stopping = drain.is_cancelled();
        let mut rest = quota;
        let given = claimed.leases.len() + claimed.bare.len();
        let (is_limited, next_due_ms) = (claimed.is_limited, claimed.next_due_ms);
        let mut to_full_lanes = 0;
        self.working.claimed(self.clock.now_ms());
        for lease in claimed.into_leases() {
            rest.take(lease.class(), 1);
            to_full_lanes += usize::from(lease.lane().is_full);
            let lease_ms = self.schedule.limits().lease_ms;
            let deferral = self.working.deferral(&lease, lease_ms);
            let lease = lease.deferred(deferral);
            let permit = self.permits.take(lease.class());
            let worker = self.worker.clone();
            self.tasks.spawn(async move {
                let _in_flight = worker.metrics.begin(lease.class());
                if stopping {
                    Box::pin(worker.release_claimed(lease)).await;
                } else {
                    worker.run(lease).await;
                }
                drop(permit);
            });
        }
        self.working.used_up(rest, is_limited);
        if let Some(next_due_ms) = next_due_ms {
            wake.bring_forward(next_due_ms);
        }
        let more = match is_limited {
            false => More::WhenDue,
            true if self.permits.is_too_fast(rest) => More::AfterPace,
            true => More::AfterRelease,
        };
        Ok((more, to_full_lanes * 2 > given))
    }

    /// Waits until a claim may bring something.
    async fn until_due(&self, more: More) {
        let wake = self.schedule.wake();
        // It begins once, before the loop. The loop goes round again when something becomes due earlier, and that
        // must not restart this sleep.
        let mut poll = pin!(tokio::time::sleep(POLL));
        let mut pace = pin!(tokio::time::sleep(PACE));
        loop {
            let at_ms = wake.at_ms();
            if at_ms <= self.clock.now_ms() {
                return;
            }
            tokio::select! {
                () = self.clock.sleep_until(at_ms) => return,
                () = wake.moved() => {}
                () = self.permits.released(), if more == More::AfterRelease => return,
                () = &mut pace, if more == More::AfterPace => return,
                () = &mut poll => return,
            }
        }
    }

    async fn drain(&self, timeout: Duration) {
        self.tasks.close();
        let in_flight = self.tasks.len();
        if in_flight > 0 {
            tracing::info!(in_flight, "stopping: waiting for the attempts in flight");
        }
        if tokio::time::timeout(timeout, self.tasks.wait())
            .await
            .is_ok()
        {
            return;
        }
        tracing::warn!(
            in_flight = self.tasks.len(),
            "stopping: some attempts did not end within the drain time-out; the calls among them that are in flight \
             are interrupted, and are made again after the next start or by another server"
        );
        self.worker.interrupt.cancel();
        if tokio::time::timeout(LAST_GRACE, self.tasks.wait())
            .await
            .is_err()
        {
            // The journal is asked before these notifications are sent again.
            tracing::warn!(
                in_flight = self.tasks.len(),
                "stopping although a store does not answer or answers slowly: the outcomes of the attempts in flight \
                 may not be recorded; an attempt whose outcome is not recorded is made again: with Redis when its lease has \
                 expired, otherwise at the next start"
            );
            self.worker.abandon.cancel();
            self.tasks.wait().await;
        }
    }
}
