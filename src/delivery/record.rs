//! After the call, writes the outcome to the journal, however long that takes. `settle.rs` then settles the
//! lease.
//!
//! If the journal is unavailable, the worker waits for it. If the journal is available and refuses the
//! outcome (a constraint is violated, a row or a page is damaged), it would refuse it again. The
//! notification would stay pending in the journal, reconciling would schedule it again, and it would be
//! sent again and again. So the notification is set aside in the journal and removed from the schedule. It
//! is not sent until it is released by hand. If the journal also refuses to set the notification aside,
//! the lease is renewed as long as this process lives. After the process has ended, the attempt is made
//! once more.

use super::worker::Worker;
use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::decision::Decision;
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::state::State;
use crate::health::{Backoff, Store};
use crate::journal::recorder::Recorder;
use crate::journal::{Actor, JournalError, Recorded, Recording, Registering, SettingAside};
use crate::schedule::{Lease, Settlement};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

/// How long before its expiry a lease is renewed if the outcome is not recorded yet. A lease lasts longer
/// than the longest attempt by more than this, so no lease is renewed while the stores work.
const RENEW_BEFORE_MS: i64 = 2_000;
/// Maximum number of characters of the stored reason why a notification is set aside.
const LONGEST_REASON: usize = 500;

impl Worker {
    /// Writes an outcome to the journal, however long that takes: the outcome of a call must not be lost
    /// while this process lives. Renews the lease meanwhile, so that the attempt is not made again. Returns
    /// how to settle the lease, or `None` if the process ends before the outcome is written.
    pub(super) async fn record(
        &self,
        lease: &mut Lease,
        attempt: Attempt,
        decision: Decision,
    ) -> Option<Settlement> {
        self.metrics.attempt(&attempt);
        let activity = self.metrics.activity();
        activity.attempt(&attempt, self.clock.now_ms());
        let interrupted = attempt.answer.outcome == Outcome::Interrupted;
        let applied = if interrupted {
            Settlement::Release
        } else {
            self.settlement_for(&decision)
        };
        let Some(recorder) = &self.recorder else {
            self.count_dead_letter(&decision);
            return Some(applied);
        };
        let recording = Recording {
            key: lease.entry.notification.key.clone(),
            attempt: Arc::new(attempt),
            before: lease.entry.progress,
            decision,
            at_ms: self.clock.now_ms(),
        };
        let notification = lease.entry.notification.clone();
        let mut keeping = Box::pin(self.keep(recorder, notification, recording, applied));
        self.hold(lease, keeping.as_mut()).await
    }

    /// Registers a leased notification in the journal again, because the journal does not know it. Returns
    /// `false` if the journal refuses it or the body is lost, and `None` if the process ends first.
    pub(super) async fn write_down_again(
        &self,
        recorder: &Recorder,
        lease: &mut Lease,
    ) -> Option<bool> {
        let registering = Registering {
            notification: lease.entry.notification.clone(),
            progress: lease.entry.progress,
            actor: Actor::maintenance(),
        };
        let writing = pin!(self.register_again(recorder, registering));
        self.hold(lease, writing).await
    }

    async fn register_again(&self, recorder: &Recorder, registering: Registering) -> Option<bool> {
        let key = registering.notification.key.clone();
        if registering.notification.body.here().is_none() {
            tracing::error!(
                notification = %key,
                "the journal has lost a notification and its body, and the schedule has no copy of the body, so \
                 the notification cannot be registered in the journal again; register it again unless its \
                 merchant has accepted it"
            );
            return Some(false);
        }
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        loop {
            let registered = recorder
                .journal()
                .register(std::slice::from_ref(&registering));
            match registered.await {
                Ok(_) => {
                    tracing::error!(
                        notification = %key,
                        "the journal had lost a notification that the schedule holds; the notification is \
                         registered in the journal again, and its delivery goes on"
                    );
                    return Some(true);
                }
                // The journal would refuse a second try too.
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    tracing::error!(
                        notification = %key,
                        %error,
                        "the journal has lost a notification and refuses to register it again, so no attempt at it \
                         can be recorded there; repair the journal"
                    );
                    return Some(false);
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(
                        notification = %key,
                        %error,
                        "a notification that the journal has lost cannot be registered in it again now; trying again"
                    );
                }
            }
            self.abandon.run_until_cancelled(backoff.wait()).await?;
        }
    }

    /// Does a piece of work, and renews the lease until the work is done.
    pub(super) async fn hold<T>(
        &self,
        lease: &mut Lease,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        let mut renew_at_ms = lease.expires_ms() - RENEW_BEFORE_MS;
        let mut backoff = Backoff::new(&self.health, Store::Schedule);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.clock.sleep_until(renew_at_ms) => {}
            }
            match self.schedule.renew(lease).await {
                Ok(Some(expiry)) => {
                    lease.renewed(expiry);
                    renew_at_ms = expiry.at_ms - RENEW_BEFORE_MS;
                }
                // Another worker has the notification. The journal decides which outcome counts.
                Ok(None) => return work.await,
                // The renewal failed and is tried again. If the lease expires before that succeeds, another server
                // may make the attempt again.
                Err(_) => tokio::select! {
                    biased;
                    done = &mut work => return done,
                    () = backoff.wait() => {}
                },
            }
        }
    }

    /// Writes an outcome, again and again until the journal has it or refuses it. Returns how to settle the lease, or `None`
    /// if the process ends first.
    async fn keep(
        &self,
        recorder: &Recorder,
        notification: Arc<Notification>,
        mut recording: Recording,
        applied: Settlement,
    ) -> Option<Settlement> {
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        loop {
            match recorder.record(recording.clone()).await {
                Ok(Recorded::Applied) => {
                    self.count_dead_letter(&recording.decision);
                    return Some(applied);
                }
                // The journal was set back to an older copy, and the key was registered again since then.
                Ok(Recorded::Stale(snapshot)) if snapshot.webhook_id != notification.webhook_id => {
                    return Some(Settlement::forget(snapshot.progress, self.clock.now_ms()));
                }
                Ok(Recorded::Stale(snapshot)) => {
                    return Some(Settlement::to_journal(&snapshot, self.clock.now_ms()));
                }
                // A journal that was restored from an older copy does not know the notification. It is
                // registered again, and the next round of the loop records this attempt.
                Ok(Recorded::Missing) => {
                    let registering = Registering {
                        notification: notification.clone(),
                        progress: recording.before,
                        actor: Actor::maintenance(),
                    };
                    if !Box::pin(self.register_again(recorder, registering)).await? {
                        return Some(applied);
                    }
                }
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    let why = unrecorded(&recording.attempt, &error);
                    Box::pin(self.set_aside(recorder, &recording.key, why)).await?;
                    return Some(Settlement::forget(recording.before, self.clock.now_ms()));
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(
                        notification = %recording.key,
                        %error,
                        "the outcome of an attempt cannot be recorded now; trying again"
                    );
                    self.abandon.run_until_cancelled(backoff.wait()).await?;
                }
            }
            // Hours may have passed. Pruning, jobs and alerts read what has ended in the order of these instants, and would
            // never see an end that is written with one that they have passed. Nothing else follows from this instant:
            // the decision stays as it was made, because receivers rely on the published times of the ladder.
            recording.at_ms = self.clock.now_ms();
        }
    }

    /// Sets a notification aside that cannot be read or whose outcome cannot be recorded, however long that
    /// takes. Returns `None` if the process ends first.
    pub(super) async fn set_aside(
        &self,
        recorder: &Recorder,
        key: &Key,
        why: String,
    ) -> Option<()> {
        let setting = SettingAside {
            key: key.clone(),
            at_ms: self.clock.now_ms(),
            reason: why.chars().take(LONGEST_REASON).collect(),
        };
        let reason = &setting.reason;
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        let mut is_said = false;
        loop {
            match recorder.journal().set_aside(&setting).await {
                Ok(()) => {
                    tracing::error!(
                        notification = %key,
                        reason,
                        "a notification is set aside, because the journal cannot read it, has lost its body or \
                         refuses its outcome; it is not sent until it is released by hand"
                    );
                    return Some(());
                }
                Err(JournalError::Corrupt(_) | JournalError::Refused(_)) if is_said => {}
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    is_said = true;
                    tracing::error!(
                        notification = %key,
                        reason,
                        %error,
                        "the journal cannot read a notification, has lost its body or refuses its outcome, and \
                         refuses to set the notification aside; it is not sent, and this server tries again; repair \
                         the journal"
                    );
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(notification = %key, %error, "a notification cannot be set aside now; trying again");
                }
            }
            self.abandon.run_until_cancelled(backoff.wait()).await?;
        }
    }

    /// Sets a leased notification aside that cannot be sent, and removes it from the schedule.
    pub(super) async fn set_aside_unsent(&self, mut lease: Box<Lease>, why: String) {
        let key = lease.entry.notification.key.clone();
        let Some(recorder) = &self.recorder else {
            // The lease is not settled. Removing the entry would lose the notification, and a release would
            // make it due at once. It is due again when the lease has expired.
            tracing::error!(
                notification = %key,
                reason = why,
                "a notification cannot be sent by a server without a journal; it is claimed again when its lease has \
                 expired; start the server with the journal that has its body"
            );
            return;
        };
        let setting = self.set_aside(recorder, &key, why);
        if self.hold(&mut lease, pin!(setting)).await.is_some() {
            let settlement = Settlement::forget(lease.entry.progress, self.clock.now_ms());
            self.settle(lease, settlement).await;
        }
    }

    /// Counts a notification that this decision makes a dead letter.
    fn count_dead_letter(&self, decision: &Decision) {
        if decision.state == State::Dead {
            let activity = self.metrics.activity();
            activity.dead_letter(self.clock.now_ms());
        }
    }

    fn settlement_for(&self, decision: &Decision) -> Settlement {
        let Decision {
            state,
            cause,
            progress,
            ..
        } = *decision;
        Settlement::to(state, cause, progress, self.clock.now_ms())
    }
}

/// The reason why a notification is set aside after an attempt. Contains the outcome of the attempt,
/// because the outcome is stored nowhere else.
fn unrecorded(attempt: &Attempt, error: &JournalError) -> String {
    let Attempt { number, answer, .. } = attempt;
    let status = match answer.status {
        Some(status) => format!(" with {status}"),
        None => String::new(),
    };
    let outcome = answer.outcome;
    let (JournalError::Unavailable(cause)
    | JournalError::Corrupt(cause)
    | JournalError::Refused(cause)) = error;
    format!(
        "attempt {number} ended as {outcome}{status}, but the journal cannot record it: {cause}"
    )
}

#[cfg(test)]
mod tests;
