//! One lease, from claim to settlement.
//!
//! The order is: ask the journal if the schedule may be behind it, make the attempt, write the
//! outcome to the journal, settle the lease. Dying
//!
//! * before the call: nothing was sent; the lease expires and the attempt is made after the next claim;
//! * between the merchant's answer and the journal: the one case of a repeated delivery;
//! * between the journal and the settlement: the lease expires, the next claim asks the journal and
//!   settles without sending.
//!
//! A server may go on without knowing that its lease has expired, in the middle of a change by hand. So the
//! next worker of the notification raises its fence in the journal first, and that change is refused.

use super::bodies::{BodyAtHand, BodyReader, FoundBody};
use super::failure::without_answer;
use super::http_client::HttpClient;
use super::in_flight::InFlight;
use crate::clock::{Clock, millis};
use crate::domain::attempt::{Answer, Attempt, Outcome};
use crate::domain::decision::{Decision, decide, is_recovery};
use crate::domain::lane_health::CallResult;
use crate::domain::notification::Notification;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::health::{Backoff, Health, Store};
use crate::journal::JournalError;
use crate::journal::recorder::Recorder;
use crate::schedule::{Lease, Schedule, Settlement};
use crate::telemetry::metrics::Metrics;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What every worker needs.
pub struct Worker {
    pub(super) client: Arc<HttpClient>,
    pub(super) schedule: Arc<dyn Schedule>,
    pub(super) recorder: Option<Arc<Recorder>>,
    /// The schedule's clock.
    pub(super) clock: Arc<dyn Clock>,
    /// This machine's.
    pub(super) machine_clock: Arc<dyn Clock>,
    /// The notifications that this process has a worker for.
    pub(super) in_flight: InFlight,
    /// Cut short the calls in flight: they count as interrupted and are made again.
    pub(super) interrupt: CancellationToken,
    /// Stop waiting for stores that do not answer: the process is about to end.
    pub(super) abandon: CancellationToken,
    /// How the stores are doing.
    pub(super) health: Arc<Health>,
    /// Finds what is to be sent.
    pub(super) bodies: BodyReader,
    /// Counts what is done.
    pub(super) metrics: Arc<Metrics>,
}

impl Worker {
    /// Works off one lease.
    pub async fn run(&self, lease: Lease) {
        let Some((mut entered, lease)) = self.in_flight.enter(lease) else {
            return;
        };
        let mut next = Some(lease);
        while let Some(lease) = next {
            self.attempt(lease).await;
            next = entered.leave();
        }
    }

    async fn attempt(&self, lease: Lease) {
        let Some(lease) = self.confirm(lease).await else {
            return;
        };
        let latest_start_ms = self.latest_start_ms(&lease);
        let body = match self.bodies.find(&lease, latest_start_ms).await {
            FoundBody::AtHand(body) => body,
            FoundBody::NoMemory => {
                self.release(lease).await;
                return;
            }
            FoundBody::Unreadable(why) => {
                self.set_aside_unsent(lease, why).await;
                return;
            }
        };
        // It was due when it was leased, by the schedule's clock; ours may be a little behind.
        let leased_ms = lease.expires_ms() - self.schedule.limits().lease_ms;
        // Before the clock is read: then what a suspension in between adds to `until` is nothing.
        let measured = Instant::now();
        let started_ms = self.clock.now_ms().max(leased_ms);
        if started_ms > latest_start_ms || self.interrupt.is_cancelled() {
            // The call might outlive its lease and overlap with the next one.
            self.release(lease).await;
            return;
        }
        let Some(answer) = self.call(&lease, body, measured, started_ms).await else {
            // Probably another worker has it by now; to give it back does no harm.
            tracing::info!(
                notification = %lease.entry.notification.key,
                "not sent: the lease expired before the request began"
            );
            self.release(lease).await;
            return;
        };
        self.conclude(lease, measured, started_ms, answer).await;
    }

    /// Makes the call; `None` if the lease was over before it was begun. The body is not kept beyond
    /// it: recording and settling may take long, and need it no more.
    async fn call(
        &self,
        lease: &Lease,
        body: BodyAtHand,
        measured: Instant,
        started_ms: i64,
    ) -> Option<Answer> {
        // Receivers compare the timestamp with their own clocks, so it is ours and not Redis's.
        let signed_ms = self.machine_clock.now_ms();
        let left_ms = u64::try_from(lease.expires_ms() - started_ms).unwrap_or(0);
        let until = measured + Duration::from_millis(left_ms);
        let number = lease.entry.progress.next_number();
        let notification = &lease.entry.notification;
        let calling = self
            .client
            .deliver(notification, &body.bytes, number, signed_ms, until);
        tokio::select! {
            answer = calling => answer,
            () = self.interrupt.cancelled() => Some(without_answer(
                Outcome::Interrupted,
                "the dispatcher was stopped before an answer came".to_string(),
            )),
        }
    }

    /// Decides what follows from the answer, records the attempt and settles the lease.
    async fn conclude(
        &self,
        mut lease: Lease,
        measured: Instant,
        started_ms: i64,
        mut answer: Answer,
    ) {
        let before = lease.entry.progress;
        let notification = lease.entry.notification.clone();
        if !before.next_is_by_hand() && is_recovery(&before, started_ms) {
            mark_recovery(&mut answer);
        }
        let decision = decide(
            &notification.ladder,
            &before,
            started_ms,
            answer.outcome,
            answer.status,
            draw(),
        );
        let attempt = Attempt {
            series: before.series,
            number: before.next_number(),
            due_ms: before.next_due_ms(),
            started_ms,
            duration_ms: millis(measured.elapsed()),
            answer,
        };
        lease.result = CallResult::of(attempt.answer.outcome, attempt.duration_ms);
        log(&notification, &attempt, &decision);
        let Some(settlement) = self.record(&mut lease, attempt, decision).await else {
            return;
        };
        self.settle(lease, settlement).await;
    }

    /// When an attempt under this lease must have begun, so that it ends before the lease does.
    fn latest_start_ms(&self, lease: &Lease) -> i64 {
        lease.expires_ms() - millis(self.client.timeout())
    }

    /// Asks the journal whether a notification is still to be sent, if its entry is marked `verify`. If an
    /// earlier lease has expired, raises the fence, so that late changes under it are refused, and records
    /// the lost attempt as interrupted. `None` if nothing is to be sent.
    async fn confirm(&self, lease: Lease) -> Option<Lease> {
        let Some(recorder) = self.recorder.as_ref().filter(|_| lease.entry.verify) else {
            return Some(lease);
        };
        let (mut lease, found) = self.look_up(recorder, lease).await?;
        let Some(snapshot) = found else {
            // A journal that was set back has forgotten it. It was accepted: to drop it would lose it.
            // One that cannot be written down comes back when its lease expires.
            if self.write_down_again(recorder, &mut lease).await? {
                self.settle(lease, Settlement::Recheck).await;
            }
            return None;
        };
        if snapshot.lane != lease.entry.notification.lane {
            tracing::error!(
                notification = %snapshot.key,
                "the schedule and the journal name different destinations for a notification; the schedule's entry \
                 is removed and not sent"
            );
            let settlement = Settlement::forget(snapshot.progress, self.clock.now_ms());
            self.settle(lease, settlement).await;
            return None;
        }
        let known = &lease.entry.progress;
        let recorded = &snapshot.progress;
        let same = (known.series, known.attempts) == (recorded.series, recorded.attempts)
            && known.next_due_ms() >= recorded.next_due_ms();
        if snapshot.state != State::Scheduled || snapshot.set_aside.is_some() || !same {
            // The outcome is in the journal, or it is set aside; only the settlement was lost.
            let settlement = Settlement::to_journal(&snapshot, self.clock.now_ms());
            self.settle(lease, settlement).await;
            return None;
        }
        if let Some(started_ms) = lease.entry.interrupted_ms {
            lease = self.note_interruption(lease, started_ms).await?;
        }
        lease.entry.verify = false;
        lease.entry.raise_fence = false;
        lease.entry.interrupted_ms = None;
        Some(lease)
    }

    /// What the journal says of a leased notification, with its fence raised if an earlier lease on it
    /// has expired. `None` if the journal cannot be asked in time: then nothing is to be sent.
    async fn look_up(
        &self,
        recorder: &Recorder,
        lease: Lease,
    ) -> Option<(Lease, Option<Snapshot>)> {
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
                    // What cannot be asked about, or not be fenced, can hardly be recorded either.
                    let why = format!("whether to send it cannot be asked: {error}");
                    self.set_aside_unsent(lease, why).await;
                    return None;
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(notification = %key, %error, "cannot ask the journal before a delivery");
                }
            }
            let waiting = self.abandon.run_until_cancelled(backoff.wait());
            if waiting.await.is_none() || self.clock.now_ms() > self.latest_start_ms(&lease) {
                // Nothing was sent, and a lease that expires would look as if something was.
                self.release(lease).await;
                return None;
            }
        }
    }

    /// Writes down that an attempt began whose outcome was not recorded. `None` if the journal has another
    /// progress by now: then the lease is settled.
    async fn note_interruption(&self, mut lease: Lease, started_ms: i64) -> Option<Lease> {
        let before = lease.entry.progress;
        let attempt = Attempt::interrupted(&before, started_ms);
        let decision = Decision {
            state: State::Scheduled,
            cause: None,
            progress: before,
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

fn mark_recovery(answer: &mut Answer) {
    let mark = "recovery attempt: the window closed before it could be made";
    answer.reason = if answer.reason.is_empty() {
        mark.to_string()
    } else {
        format!("{} ({mark})", answer.reason)
    };
}

fn log(notification: &Notification, attempt: &Attempt, decision: &Decision) {
    let Attempt {
        number,
        duration_ms,
        answer,
        ..
    } = attempt;
    let Notification { key, lane, .. } = notification;
    let outcome = answer.outcome;
    let (status, reason) = (answer.status, &answer.reason);
    match decision.state {
        State::Delivered => tracing::debug!(
            notification = %key, %lane, attempt = number, duration_ms, status, "delivered"
        ),
        State::Scheduled | State::Cancelled => tracing::info!(
            notification = %key, %lane, attempt = number, duration_ms, %outcome, status, reason,
            "attempt failed"
        ),
        State::Dead => tracing::info!(
            notification = %key, %lane, attempt = number, duration_ms, %outcome, status, reason,
            cause = decision.cause.map(|cause| cause.as_str()), "parked as a dead letter"
        ),
    }
}

/// A random number from 0 up to 1, for jittered ladders.
fn draw() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_be_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
        // Without randomness the middle: the ladder unjittered.
        Err(_) => 0.5,
    }
}
