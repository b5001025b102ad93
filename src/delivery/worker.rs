//! Works on one lease, from the claim to the settlement.
//!
//! The order of the steps: ask the journal if the schedule may be behind it, make the attempt, write the
//! outcome to the journal, settle the lease. If the process dies
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
use crate::domain::decision::{Decision, EndedAttempt, decide, is_recovery};
use crate::domain::ladder::Ladder;
use crate::domain::lane_health::{CallOutcome, LaneReport};
use crate::domain::progress::Progress;
use crate::domain::receiver_requests::{FollowedRequests, GonePolicy, RequestEffect};
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::endpoints::Endpoints;
use crate::health::{Backoff, Health, Store};
use crate::journal::JournalError;
use crate::journal::recorder::Recorder;
use crate::schedule::{Lease, Schedule, Settlement};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Tracer;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// When it is asked again, at the soonest and at the latest, whether the lower number has ended that a notification of a
/// strict order waits for, in milliseconds.
const SOONEST_AGAIN_MS: i64 = 5_000;
const LATEST_AGAIN_MS: i64 = 60_000;

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
    pub async fn run(&self, lease: Box<Lease>) {
        let Some((mut entered, lease)) = self.in_flight.enter(lease) else {
            return;
        };
        let mut next = Some(lease);
        while let Some(lease) = next {
            self.attempt(lease).await;
            next = entered.leave();
        }
    }

    // The future of this function is moved several times for each attempt, and kept as long as the attempt lasts. With
    // everything in it, it was 25 KB, and moving it was a tenth of all work. So its large parts are in boxes, each only while it runs.
    async fn attempt(&self, lease: Box<Lease>) {
        // The journal knows whether another number has ended this one, or comes first.
        let asks_first = lease.entry.verify || lease.entry.notification.order.is_some();
        let lease = match asks_first {
            true => match Box::pin(self.confirm(lease)).await {
                Some(lease) => lease,
                None => return,
            },
            false => lease,
        };
        let latest_start_ms = self.latest_start_ms(&lease);
        let body = match self.bodies.find(&lease, latest_start_ms).await {
            FoundBody::AtHand(body) => body,
            FoundBody::NoMemory => {
                Box::pin(self.release(lease)).await;
                return;
            }
            FoundBody::Unreadable(why) => {
                Box::pin(self.set_aside_unsent(lease, why)).await;
                return;
            }
        };
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
        let call = self.call(&lease, target, body, (measured, started_ms), &recorder);
        let result = Box::pin(call).await;
        if let SendResult::NoProxy(why) = result {
            Box::pin(self.defer_without_proxy(lease, &why.to_string())).await;
            return;
        }
        if let SendResult::NotLookedUp = result {
            tracing::debug!(
                notification = %lease.entry.notification.key,
                "a notification was not sent, because the look-up of its host name could not begin in time; no attempt is \
                 spent"
            );
            Box::pin(self.release(lease)).await;
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
        let gone = endpoint.as_ref().and_then(|known| known.settings.gone);
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
            holds_when_gone: gone == Some(GonePolicy::Hold),
        };
        Box::pin(self.conclude(lease, made)).await;
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
    fn latest_start_ms(&self, lease: &Lease) -> i64 {
        lease.expires_ms() - millis(self.client.timeout())
    }

    /// Asks the journal whether the notification must still be sent, and is not to wait for another one. If an
    /// earlier lease has expired, raises the fence, so that the journal refuses late changes under that
    /// lease, and records the lost attempt as interrupted. Returns `None` if nothing is sent under this lease.
    async fn confirm(&self, lease: Box<Lease>) -> Option<Box<Lease>> {
        let Some(recorder) = &self.recorder else {
            return Some(lease);
        };
        let (mut lease, found) = self.look_up(recorder, lease).await?;
        let Some(snapshot) = found else {
            // A journal that was restored from an older copy does not know the notification. It was accepted,
            // so it is registered in the journal again. If that fails, it is tried again when the lease has
            // expired.
            if self.write_down_again(recorder, &mut lease).await? {
                self.settle(lease, Settlement::Recheck).await;
            }
            return None;
        };
        if snapshot.lane != lease.entry.notification.lane {
            tracing::error!(
                notification = %snapshot.key,
                "the schedule and the journal have different destinations for a notification; its entry in the \
                 schedule is not sent but removed; if it is pending in the journal, maintenance puts it into the \
                 schedule again"
            );
            let settlement = Settlement::forget(snapshot.progress, self.clock.now_ms());
            self.settle(lease, settlement).await;
            return None;
        }
        let known = &lease.entry.progress;
        let recorded = &snapshot.progress;
        let step =
            |progress: &Progress| (progress.series, progress.attempts, progress.first_due_ms);
        let same = step(known) == step(recorded) && known.next_due_ms() >= recorded.next_due_ms();
        if snapshot.state != State::Scheduled || snapshot.set_aside.is_some() || !same {
            // The journal has a newer state that did not reach the schedule, or the notification is set aside.
            // So the lease is settled to the state in the journal. Of a notification that a higher number has ended, nobody
            // else records the attempt whose lease has expired.
            let is_unrecorded = snapshot.takes_late_delivery() && step(known) == step(recorded);
            if let Some(started_ms) = lease.entry.interrupted_ms.filter(|_| is_unrecorded) {
                lease = self.note_interruption(lease, started_ms).await?;
            }
            let settlement = Settlement::to_journal(&snapshot, self.clock.now_ms());
            self.settle(lease, settlement).await;
            return None;
        }
        if let Some(started_ms) = lease.entry.interrupted_ms {
            lease = self.note_interruption(lease, started_ms).await?;
        }
        if let Some(due_ms) = snapshot.waits_for_ms {
            // Its end makes this one due. The time is for the case that nobody says so.
            let again_ms = look_again_ms(due_ms, self.clock.now_ms());
            self.settle(lease, Settlement::Defer(again_ms)).await;
            return None;
        }
        lease.entry.verify = false;
        lease.entry.raise_fence = false;
        lease.entry.interrupted_ms = None;
        Some(lease)
    }

    /// Waits before the journal is asked again. `false` if there is no time left to make the attempt.
    pub(super) async fn wait_for_journal(&self, lease: &Lease, backoff: &mut Backoff) -> bool {
        let waiting = self.abandon.run_until_cancelled(backoff.wait());
        waiting.await.is_some() && self.clock.now_ms() <= self.latest_start_ms(lease)
    }

    /// Reads a leased notification from the journal. Raises its fence if an earlier lease has expired.
    /// Returns `None` if the journal could not be read before the latest start: then nothing is sent, and
    /// the lease is released or the notification set aside.
    async fn look_up(
        &self,
        recorder: &Recorder,
        lease: Box<Lease>,
    ) -> Option<(Box<Lease>, Option<Snapshot>)> {
        let key = lease.entry.notification.key.clone();
        let expired_before = lease.entry.raise_fence || lease.entry.interrupted_ms.is_some();
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        loop {
            let looked_up = if expired_before {
                recorder.journal().fence(&key).await
            } else {
                recorder.snapshot(key.clone()).await
            };
            match looked_up {
                Ok(found) => return Some((lease, found)),
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    // If the journal cannot read or fence the notification, it probably cannot record an
                    // outcome either.
                    let why = format!("the journal cannot read or fence the notification: {error}");
                    self.set_aside_unsent(lease, why).await;
                    return None;
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(
                        notification = %key,
                        %error,
                        "the journal cannot be asked whether to send a notification now; trying again"
                    );
                }
            }
            if !self.wait_for_journal(&lease, &mut backoff).await {
                // Nothing was sent. If the lease expired instead, an attempt would be recorded as interrupted.
                self.release(lease).await;
                return None;
            }
        }
    }

    /// Records an attempt as interrupted whose outcome was not recorded. Returns `None` if the journal has
    /// another progress by now (then the lease is settled), or if the process ends.
    async fn note_interruption(
        &self,
        mut lease: Box<Lease>,
        started_ms: i64,
    ) -> Option<Box<Lease>> {
        let before = lease.entry.progress;
        let attempt = Attempt::interrupted(&before, started_ms);
        let decision = Decision {
            state: State::Scheduled,
            cause: None,
            progress: before,
            request: None,
        };
        match self.record(&mut lease, attempt, decision).await? {
            Settlement::Release => Some(lease),
            settlement => {
                self.settle(lease, settlement).await;
                None
            }
        }
    }
}

/// When it is asked again whether the lower number has ended that a notification waits for: after that one is due, not
/// together with it, and less often the longer that one is overdue.
fn look_again_ms(due_ms: i64, now_ms: i64) -> i64 {
    let apart_ms = due_ms.saturating_sub(now_ms).saturating_abs();
    now_ms
        + apart_ms
            .saturating_add(SOONEST_AGAIN_MS)
            .min(LATEST_AGAIN_MS)
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
