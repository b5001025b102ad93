//! Works on one lease, from the claim to the settlement.
//!
//! The order of the steps: read in the journal what the schedule does not have, ask the journal if the schedule may be
//! behind it, make the attempt, write the outcome to the journal, settle the lease. If the process dies
//!
//! * before the call, nothing was sent. The lease expires, and the attempt is made after the next claim.
//! * between the start of the call and the write to the journal, the attempt is made again, even if the
//!   merchant had accepted it. No other crash repeats a delivery.
//! * between the journal and the settlement, the lease expires. The worker after the next claim asks the
//!   journal, and settles without sending.
//!
//! A server that makes a change by hand may be suspended until its lease has expired, and then continue
//! without knowing that. So the next worker first raises the fence of the notification in the journal, and
//! the journal refuses the late change.

use super::attempt_log::AttemptLog;
use super::attempt_span::AttemptSpan;
use super::bodies::{BodyAtHand, BodyReader, FoundBody};
use super::call_recorder::CallRecorder;
use super::call_target::CallTarget;
use super::http_client::{HttpClient, SendResult};
use super::in_flight::InFlight;
use super::permits::Permits;
use super::unusable_keys::UnusableKeys;
use crate::clock::{Clock, millis};
use crate::domain::attempt::{Answer, Attempt};
use crate::domain::attempt_reason::marked_as_recovery;
use crate::domain::call_trace::CallTrace;
use crate::domain::decision::{EndedAttempt, decide, is_recovery};
use crate::domain::ladder::Ladder;
use crate::domain::lane_health::{CallOutcome, LaneReport};
use crate::domain::receiver_requests::{FollowedRequests, RequestEffect};
use crate::endpoints::Endpoints;
use crate::health::Health;
use crate::journal::recorder::Recorder;
use crate::schedule::{CLAIMED_EARLY_MS, ClaimedLease, Lease, Schedule};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Tracer;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long an attempt that was claimed early waits at most, by a clock that nobody sets. A little longer than
/// [`CLAIMED_EARLY_MS`], so that this clock does not decide when an attempt begins.
const LONGEST_EARLY_WAIT: Duration = Duration::from_millis(2 * CLAIMED_EARLY_MS as u64);

/// Works on leases. All worker tasks of a dispatcher share one `Worker`.
pub struct Worker {
    pub(super) client: Arc<HttpClient>,
    pub(super) schedule: Arc<dyn Schedule>,
    pub(super) recorder: Option<Arc<Recorder>>,
    /// The receivers that have a name.
    pub(super) endpoints: Arc<Endpoints>,
    /// The endpoints with a key that cannot be opened, as far as the log says it.
    pub(super) unusable_keys: UnusableKeys,
    /// The schedule's clock.
    pub(super) clock: Arc<dyn Clock>,
    /// The clock of this machine.
    pub(super) machine_clock: Arc<dyn Clock>,
    /// The notifications for which this process has a worker.
    pub(super) in_flight: InFlight,
    /// When cancelled, the calls in flight stop. They are recorded as interrupted and made again.
    pub(super) interrupt: CancellationToken,
    /// When cancelled, workers stop waiting for stores that do not answer, because the process ends.
    pub(super) abandon: CancellationToken,
    /// The health of the stores.
    pub(super) health: Arc<Health>,
    /// Gets the bodies that are to be sent.
    pub(super) bodies: BodyReader,
    /// Writes the log of the attempts.
    pub(super) log: AttemptLog,
    /// Counts the attempts.
    pub(super) metrics: Arc<Metrics>,
    /// Records the attempts that belong to a trace.
    pub(super) tracer: Tracer,
    /// Gets to know which attempts are answered.
    pub(super) permits: Arc<Permits>,
}

/// A call that was made.
pub(super) struct CallMade {
    pub(super) measured: Instant,
    pub(super) started_ms: i64,
    pub(super) answer: Answer,
    pub(super) trace: CallTrace,
    /// The span of the attempt, if its trace is recorded.
    pub(super) span: Option<Box<AttemptSpan>>,
    /// Which requests of the receiver are followed.
    pub(super) followed: FollowedRequests,
    /// Whether the lane is held if the receiver asks for no more calls.
    pub(super) holds_when_gone: bool,
}

impl Worker {
    /// Works on one lease until it is settled. If this process already has a worker for the notification,
    /// that worker gets the lease and this call returns at once.
    pub async fn run(&self, lease: impl Into<ClaimedLease>) {
        let Some((mut entered, lease)) = self.in_flight.enter(lease.into()) else {
            return;
        };
        let mut next = Some(lease);
        while let Some(lease) = next {
            let found = match lease {
                ClaimedLease::Whole(lease) => Some((lease, None)),
                ClaimedLease::Bare(lease) => Box::pin(self.look_up_bare(*lease)).await,
            };
            if let Some((lease, body)) = found {
                self.attempt(lease, body).await;
            }
            next = entered.leave();
        }
    }

    /// Makes the attempt of a lease. `body` is its body, if that was read with the rest.
    ///
    /// The future of this function is moved several times for each attempt, and kept as long as the attempt lasts. With
    /// everything in it, it was 25 KB, and moving it was a tenth of all work. So its large parts are in boxes, each only while it
    /// runs.
    async fn attempt(&self, lease: Box<Lease>, body: Option<Bytes>) {
        // The journal knows whether another number has ended this one, or comes first.
        let asks_first = lease.entry.verify || lease.entry.notification.order.is_some();
        let latest_start_ms = self.latest_start_ms(&lease);
        let (lease, body) = match asks_first {
            true => match Box::pin(self.confirm_and_read(lease, body)).await {
                Some(found) => found,
                None => return,
            },
            false => {
                let notification = &lease.entry.notification;
                let class = lease.class;
                let reading = (self.bodies).find((notification, body), class, latest_start_ms);
                let body = reading.await;
                (lease, body)
            }
        };
        let body = match body {
            FoundBody::AtHand(body) => body,
            FoundBody::NoMemory => {
                tracing::debug!(
                    notification = %lease.entry.notification.key,
                    "a notification was not sent, because other bodies took all the memory until it was too late; it is due \
                     again in a moment, and no attempt is spent"
                );
                Box::pin(self.defer_without_capacity(lease)).await;
                return;
            }
            FoundBody::NotRead => {
                Box::pin(self.release(lease)).await;
                return;
            }
            FoundBody::Missing => {
                Box::pin(self.confirm_without_body(lease)).await;
                return;
            }
            FoundBody::Unreadable(why) => {
                Box::pin(self.set_aside_unsent(lease, why)).await;
                return;
            }
        };
        self.wait_if_claimed_early(&lease).await;
        // Last, so that a change of the endpoint holds for this attempt too.
        let found = match lease.entry.notification.lane.is_of_endpoint() {
            true => Box::pin(self.find_endpoint(lease)).await,
            false => Some((lease, None)),
        };
        let Some((lease, endpoint)) = found else {
            return;
        };
        let found = match self.default_signers(endpoint.as_deref()) {
            Some(signers) => Some((lease, signers, None)),
            None => Box::pin(self.find_signers(lease, endpoint.as_deref())).await,
        };
        let Some((lease, signers, tls)) = found else {
            return;
        };
        // The start is never before the claim, even if our reading of the schedule's clock is a little behind.
        let leased_ms = lease.expires_ms() - self.schedule.limits().lease_ms;
        // Read before the clock, so that a suspension between the two cannot make `until` later.
        let measured = Instant::now();
        let started_ms = self.clock.now_ms().max(leased_ms);
        if started_ms > latest_start_ms || self.interrupt.is_cancelled() {
            // A call that began now might end after its lease, and overlap with the next attempt.
            Box::pin(self.release(lease)).await;
            return;
        }
        let recorder = CallRecorder::default();
        let with = (&signers, tls.as_deref());
        let Some(target) = CallTarget::of(&lease.entry.notification, endpoint.as_ref(), with)
        else {
            Box::pin(self.release(lease)).await;
            return;
        };
        let span = AttemptSpan::begin(&self.tracer, &lease.entry.notification, target.url);
        let target = CallTarget {
            share: lease.class.into(),
            trace: span
                .as_ref()
                .map_or(target.trace, |span| Some(span.context())),
            ..target
        };
        let followed = target.followed(&lease.entry.notification.ladder);
        let holds_when_gone = target.holds_when_gone();
        let call = self.call(&lease, target, body, (measured, started_ms), &recorder);
        let result = Box::pin(call).await;
        if let SendResult::NoProxy(why) = result {
            Box::pin(self.defer_without_proxy(lease, &why.to_string())).await;
            return;
        }
        if let SendResult::NotLookedUp = result {
            tracing::debug!(
                notification = %lease.entry.notification.key,
                "a notification was not sent, because the look-up of its host name could not begin in time; it is due again \
                 in a moment, and no attempt is spent"
            );
            Box::pin(self.defer_without_capacity(lease)).await;
            return;
        }
        let SendResult::Answered(answer) = result else {
            // Another worker probably has the notification by now. Releasing an expired lease changes nothing.
            tracing::info!(
                notification = %lease.entry.notification.key,
                "a notification was not sent, because its lease expired before the request began; after that, any \
                 server can claim it again"
            );
            Box::pin(self.release(lease)).await;
            return;
        };
        let mut trace = recorder.into_trace();
        trace.deferral = lease.deferral;
        if let Some(endpoint) = endpoint {
            trace.endpoint_version = Some(endpoint.version);
        }
        trace.key_ids = signers.ids();
        let made = CallMade {
            measured,
            started_ms,
            answer,
            trace,
            span,
            followed,
            holds_when_gone,
        };
        Box::pin(self.conclude(lease, made)).await;
    }

    /// Waits until the attempt is due, if it was claimed early. If the clock is set back meanwhile,
    /// the wait ends all the same: nobody else can make the attempt while this worker has it.
    async fn wait_if_claimed_early(&self, lease: &Lease) {
        let due_ms = lease.entry.progress.next_due_ms();
        let leased_ms = lease.expires_ms() - self.schedule.limits().lease_ms;
        if (leased_ms + 1..=leased_ms + CLAIMED_EARLY_MS).contains(&due_ms) {
            let _ = timeout(LONGEST_EARLY_WAIT, self.clock.sleep_until(due_ms)).await;
        }
    }

    /// Makes the call. The body is
    /// dropped after the call, because recording and settling may take long and do not need the body.
    async fn call(
        &self,
        lease: &Lease,
        target: CallTarget<'_>,
        body: BodyAtHand,
        (measured, started_ms): (Instant, i64),
        recorder: &CallRecorder,
    ) -> SendResult {
        let left_ms = u64::try_from(lease.expires_ms() - started_ms).unwrap_or(0);
        let until = measured + Duration::from_millis(left_ms);
        let number = lease.entry.progress.next_number();
        let notification = &lease.entry.notification;
        let bytes = &body.bytes;
        // Receivers compare the signed time with their own clocks, so it comes from this machine's clock and
        // not from that of Redis.
        let signed = (number, &*self.machine_clock);
        let within = (until, &self.interrupt);
        let client = &self.client;
        client
            .deliver(notification, target, bytes, signed, within, recorder)
            .await
    }

    /// Decides what follows from the answer, records the attempt and settles the lease.
    pub(super) async fn conclude(
        &self,
        mut lease: Box<Lease>,
        CallMade {
            measured,
            started_ms,
            mut answer,
            trace,
            span,
            followed,
            holds_when_gone,
        }: CallMade,
    ) {
        let before = lease.entry.progress;
        let notification = lease.entry.notification.clone();
        let ended = EndedAttempt {
            started_ms,
            ended_ms: self.clock.now_ms().max(started_ms),
            outcome: answer.outcome,
            status: answer.status,
            retry_after: trace.retry_after,
        };
        // What is held, probed or limited loses no part of its window.
        let at_start = before.deferred(&notification.ladder, lease.deferral);
        let draw = draw(&notification.ladder);
        let decision = decide(&notification.ladder, followed, &at_start, &ended, draw);
        if let Some(request) = decision.request {
            answer.reason.push_str(&request.in_words());
        }
        if !before.next_is_by_hand() && is_recovery(&at_start, started_ms) {
            answer.reason = marked_as_recovery(&answer.reason);
        }
        let attempt = Attempt {
            series: before.series,
            number: before.next_number(),
            due_ms: before.next_due_ms(),
            started_ms,
            duration_ms: millis(measured.elapsed()),
            answer,
            trace,
        };
        lease.report = LaneReport::of(attempt.answer.outcome, attempt.duration_ms);
        lease.outcome = CallOutcome::of(attempt.answer.outcome, attempt.answer.status);
        if let Some(LaneReport::Answered(_)) = lease.report {
            self.permits.answered(lease.class);
        }
        self.log.write(&notification, &attempt, &decision);
        if let Some(span) = span {
            span.end(&notification, &attempt);
        }
        if holds_when_gone && decision.request == Some(RequestEffect::Stopped) {
            Box::pin(self.hold_gone_lane(&mut lease)).await;
        }
        let Some(settlement) = self.record(&mut lease, attempt, decision).await else {
            return;
        };
        self.settle(lease, settlement).await;
    }

    /// The latest start of an attempt under this lease. An attempt that starts later might end after the
    /// lease has expired.
    pub(super) fn latest_start_ms(&self, lease: &Lease) -> i64 {
        self.latest_start_before_ms(lease.expires_ms())
    }

    /// The latest start of an attempt under a lease that ends then, in milliseconds since 1970.
    pub(super) fn latest_start_before_ms(&self, expires_ms: i64) -> i64 {
        expires_ms - millis(self.client.timeout())
    }
}

/// A random number from 0 up to 1, if the ladder has jitter. Otherwise nothing depends on it, and a call of the operating
/// system for each attempt is saved.
fn draw(ladder: &Ladder) -> f64 {
    if !ladder.has_jitter() {
        return 0.5;
    }
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_be_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
        // Without a random number, the middle: then the intervals have no jitter.
        Err(_) => 0.5,
    }
}
