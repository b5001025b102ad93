//! Before an attempt, asks the journal about the notification where the schedule may be behind it, or where another one of
//! its order may come first.

use super::bodies::FoundBody;
use super::worker::Worker;
use crate::domain::attempt::Attempt;
use crate::domain::decision::Decision;
use crate::domain::progress::Progress;
use crate::domain::snapshot::Snapshot;
use crate::domain::state::State;
use crate::health::{Backoff, Store};
use crate::journal::JournalError;
use crate::journal::recorder::Recorder;
use crate::schedule::{Lease, Settlement};
use bytes::Bytes;
use std::pin::pin;

/// When it is asked again, at the soonest and at the latest, whether the lower number has ended that a notification of a
/// strict order waits for, in milliseconds.
const SOONEST_AGAIN_MS: i64 = 5_000;
const LATEST_AGAIN_MS: i64 = 60_000;
/// When a notification is looked at again that the journal does not know and cannot be given, in milliseconds. Each time,
/// it is logged.
pub(super) const UNKNOWN_AGAIN_MS: i64 = 600_000;

impl Worker {
    /// As [`Worker::confirm`], and gets the body at the same time: after a loss of Redis, each attempt asks the journal for
    /// both, and would be later if it asked for one after the other.
    pub(super) async fn confirm_and_read(
        &self,
        lease: Box<Lease>,
        read: Option<Bytes>,
    ) -> Option<(Box<Lease>, FoundBody)> {
        let notification = lease.entry.notification.clone();
        let (class, latest_start_ms) = (lease.class, self.latest_start_ms(&lease));
        let mut reading = pin!(
            self.bodies
                .find((&notification, read), class, latest_start_ms)
        );
        let mut confirming = pin!(self.confirm(lease));
        let mut body = None;
        loop {
            tokio::select! {
                biased;
                confirmed = &mut confirming => {
                    // If nothing is sent, it does not matter whether there is a body.
                    let lease = confirmed?;
                    let body = match body {
                        Some(body) => body,
                        None => reading.await,
                    };
                    return Some((lease, body));
                }
                found = &mut reading, if body.is_none() => body = Some(found),
            }
        }
    }

    /// Asks the journal whether the notification must still be sent, and is not to wait for another one. If an
    /// earlier lease has expired, raises the fence, so that the journal refuses late changes under that
    /// lease, and records the lost attempt as interrupted. Returns `None` if nothing is sent under this lease.
    pub(super) async fn confirm(&self, lease: Box<Lease>) -> Option<Box<Lease>> {
        let Some(recorder) = &self.recorder else {
            return Some(lease);
        };
        let (mut lease, found) = self.look_up(recorder, lease).await?;
        let Some(snapshot) = found else {
            // A journal that was restored from an older copy does not know the notification. It was accepted,
            // so it is registered in the journal again. If the journal refuses that, or its body was in the journal
            // alone, it is tried again later: a newer copy of the journal may be restored.
            let settlement = match self.write_down_again(recorder, &mut lease).await? {
                true => Settlement::Recheck,
                false => Settlement::Defer(self.clock.now_ms() + UNKNOWN_AGAIN_MS),
            };
            self.settle(lease, settlement).await;
            return None;
        };
        let entered = &lease.entry.notification;
        if snapshot.lane != entered.lane || snapshot.webhook_id != entered.webhook_id {
            tracing::error!(
                notification = %snapshot.key,
                "the schedule and the journal have different registrations of a notification; its entry in the \
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

    /// For a notification of which the journal has no body: sets it aside, if it is pending in the journal.
    pub(super) async fn confirm_without_body(&self, lease: Box<Lease>) {
        if let Some(lease) = self.confirm(lease).await {
            let why = "the journal has no body for this notification".to_string();
            self.set_aside_unsent(lease, why).await;
        }
    }

    /// Waits before the journal is asked again. `false` if there is no time left to make the attempt under a lease that ends
    /// then.
    pub(super) async fn wait_for_journal(&self, expires_ms: i64, backoff: &mut Backoff) -> bool {
        let waiting = self.abandon.run_until_cancelled(backoff.wait());
        waiting.await.is_some() && self.clock.now_ms() <= self.latest_start_before_ms(expires_ms)
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
                recorder.fence(key.clone()).await
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
            if !self
                .wait_for_journal(lease.expires_ms(), &mut backoff)
                .await
            {
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
