//! After the call: its outcome into the journal, its lease settled, however long that takes.
//!
//! A journal that is away is waited for. One that is there and refuses this outcome (a constraint is
//! violated, a row or a page of it is damaged) would refuse it again, and the notification would stay
//! pending in it: reconciling would put it back, and it would be sent again and again. So it is set
//! aside in the journal and leaves the schedule; it is not sent until it is released by hand. If
//! the journal refuses even to set it aside, the lease is kept for as long as this process lives. Once it
//! has died, the attempt is made once more.

use super::worker::Worker;
use crate::domain::attempt::{Attempt, Outcome};
use crate::domain::decision::Decision;
use crate::domain::key::Key;
use crate::domain::notification::Notification;
use crate::domain::state::State;
use crate::health::{Backoff, Store};
use crate::journal::recorder::Recorder;
use crate::journal::{Actor, JournalError, Recorded, Recording, Registering, SettingAside};
use crate::schedule::{Lease, LeaseRequest, LeasedOne, ScheduleError, Settled, Settlement};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

/// How long before its end a lease is renewed whose outcome is not recorded yet. Less than what a
/// lease lasts beyond the longest attempt, so that it is never renewed while all is well.
const RENEW_BEFORE_MS: i64 = 2_000;
/// Longest reason for being set aside that is kept, in characters.
const LONGEST_REASON: usize = 500;

impl Worker {
    /// Gives a lease back unused.
    pub(super) async fn release(&self, lease: Lease) {
        self.settle(lease, Settlement::Release).await;
    }

    /// Writes an outcome to the journal, however long that takes: the outcome of a call that was
    /// made must not be forgotten while we live. The lease is renewed meanwhile, so that the
    /// attempt is not made again. Says how to settle; `None` if we are to end first.
    pub(super) async fn record(
        &self,
        lease: &mut Lease,
        attempt: Attempt,
        decision: Decision,
    ) -> Option<Settlement> {
        self.metrics.attempt(&attempt);
        let interrupted = attempt.answer.outcome == Outcome::Interrupted;
        let applied = if interrupted {
            Settlement::Release
        } else {
            self.settlement_for(&decision)
        };
        let Some(recorder) = &self.recorder else {
            return Some(applied);
        };
        let recording = Recording {
            key: lease.entry.notification.key.clone(),
            attempt,
            before: lease.entry.progress,
            decision,
            at_ms: self.clock.now_ms(),
        };
        let notification = lease.entry.notification.clone();
        let keeping = self.keep(recorder, notification, recording, applied);
        self.hold(lease, keeping).await
    }

    /// Writes what is leased into the journal, which does not know it. `false` if the journal refuses it,
    /// or its body is lost; `None` if we are to end first.
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
        let writing = self.register_again(recorder, registering);
        self.hold(lease, writing).await
    }

    async fn register_again(&self, recorder: &Recorder, registering: Registering) -> Option<bool> {
        let key = registering.notification.key.clone();
        if registering.notification.body.here().is_none() {
            tracing::error!(notification = %key, "the journal has lost a notification and its body");
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
                        "the journal had forgotten a notification that the schedule holds; it is written \
                         down again"
                    );
                    return Some(true);
                }
                // To try again would not help.
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    tracing::error!(
                        notification = %key,
                        %error,
                        "the journal has lost a notification and refuses to register it again"
                    );
                    return Some(false);
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(notification = %key, %error, "a notification cannot be registered again now; trying again");
                }
            }
            self.abandon.run_until_cancelled(backoff.wait()).await?;
        }
    }

    /// Renews a lease for as long as something takes that is written into the journal under it.
    pub(super) async fn hold<T>(&self, lease: &mut Lease, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
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
                // Another worker has it; the journal decides which outcome counts.
                Ok(None) => return work.await,
                // Out of reach, so it cannot be claimed either.
                Err(_) => tokio::select! {
                    biased;
                    done = &mut work => return done,
                    () = backoff.wait() => {}
                },
            }
        }
    }

    async fn keep(
        &self,
        recorder: &Recorder,
        notification: Arc<Notification>,
        recording: Recording,
        applied: Settlement,
    ) -> Option<Settlement> {
        let mut backoff = Backoff::new(&self.health, Store::Journal);
        loop {
            match recorder.record(recording.clone()).await {
                Ok(Recorded::Applied) => return Some(applied),
                Ok(Recorded::Stale(snapshot)) => {
                    return Some(Settlement::to_journal(&snapshot, self.clock.now_ms()));
                }
                // A journal that was set back has forgotten it. Written down again, it comes back with
                // this attempt.
                Ok(Recorded::Missing) => {
                    let registering = Registering {
                        notification: notification.clone(),
                        progress: recording.before,
                        actor: Actor::maintenance(),
                    };
                    if !self.register_again(recorder, registering).await? {
                        return Some(applied);
                    }
                }
                Err(error @ (JournalError::Corrupt(_) | JournalError::Refused(_))) => {
                    let why = unrecorded(&recording.attempt, &error);
                    self.set_aside(recorder, &recording.key, why).await?;
                    return Some(Settlement::forget(recording.before, self.clock.now_ms()));
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(notification = %recording.key, %error, "the outcome cannot be recorded now; trying again");
                    self.abandon.run_until_cancelled(backoff.wait()).await?;
                }
            }
        }
    }

    /// Sets a notification aside whose outcome cannot be recorded, or that cannot be asked about, however
    /// long that takes. `None` if we are to end first.
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
                        "the journal refuses a notification; it is set aside and not sent again until it \
                         is released by hand"
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
                        "the journal refuses a notification, and to set it aside; it is kept back for as \
                         long as this server runs"
                    );
                }
                Err(error @ JournalError::Unavailable(_)) => {
                    tracing::debug!(notification = %key, %error, "a notification cannot be set aside now; trying again");
                }
            }
            self.abandon.run_until_cancelled(backoff.wait()).await?;
        }
    }

    /// Sets a leased notification aside that cannot be sent, and has the schedule forget it.
    pub(super) async fn set_aside_unsent(&self, mut lease: Lease, why: String) {
        let key = lease.entry.notification.key.clone();
        let Some(recorder) = &self.recorder else {
            // Not settled: to drop it would lose it, and to release it would bring it back at once. It
            // comes back when the lease expires.
            tracing::error!(notification = %key, reason = why, "a notification cannot be sent");
            return;
        };
        let setting = self.set_aside(recorder, &key, why);
        if self.hold(&mut lease, setting).await.is_some() {
            let settlement = Settlement::forget(lease.entry.progress, self.clock.now_ms());
            self.settle(lease, settlement).await;
        }
    }

    /// Settles a lease, trying again while that may help: repeating is safe, since the expiry identifies the lease.
    ///
    /// A lease that is lost may have been claimed again by this very process: then that one is settled
    /// instead. An outcome that the journal holds is applied whichever worker has the lease, and also if
    /// there is none: Redis may have been set back to before it was given.
    pub(super) async fn settle(&self, mut lease: Lease, mut settlement: Settlement) {
        let key = lease.entry.notification.key.clone();
        let mut backoff = Backoff::new(&self.health, Store::Schedule);
        loop {
            match self
                .schedule
                .settle(lease.clone(), settlement.clone())
                .await
            {
                Ok(Settled::Done) => return,
                Ok(Settled::Lost) => match self.after_lost_lease(&lease, settlement).await {
                    Some((newest, instead)) => (lease, settlement) = (newest, instead),
                    None => return,
                },
                Err(error @ (ScheduleError::Unavailable(_) | ScheduleError::Rebuilding)) => {
                    tracing::debug!(notification = %key, %error, "the lease cannot be settled now; trying again");
                    let waiting = self.abandon.run_until_cancelled(backoff.wait());
                    if waiting.await.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::error!(notification = %key, %error, "a lease cannot be settled");
                    return;
                }
            }
        }
    }

    /// What is to be settled instead of a lease that was lost, and how: this process's own newer lease on the
    /// same notification, if it has one.
    async fn after_lost_lease(
        &self,
        lost: &Lease,
        settlement: Settlement,
    ) -> Option<(Lease, Settlement)> {
        let key = &lost.entry.notification.key;
        // Normal after a reply was lost on its way; the call had been executed.
        tracing::debug!(notification = %key, "the lease was lost");
        let Some(newest) = self.in_flight.newer(key) else {
            if is_outcome(&settlement)
                && let Some(recorder) = &self.recorder
            {
                let request = LeaseRequest::for_repair(lost.entry.notification.key_in_lane());
                // If another worker has it, the journal is asked when that lease expires.
                if let Ok(LeasedOne::Leased(newest)) = self.schedule.lease_one(&request).await {
                    self.bring_to_the_journal(recorder, *newest).await;
                }
            }
            return None;
        };
        let (here, there) = (lost.entry.progress, newest.entry.progress);
        let instead = if here.series != there.series {
            // It was replayed meanwhile: that series is not ours.
            Settlement::Release
        } else if !matches!(settlement, Settlement::End { .. })
            && (here.attempts != there.attempts || newest.entry.raise_fence)
        {
            // Another worker has made more attempts or fewer, or may change it yet under a lease that has
            // expired: the journal knows.
            Settlement::Recheck
        } else {
            settlement
        };
        let result = lost.result;
        Some((Lease { result, ..newest }, instead))
    }

    /// Ends the lease that took the place of a lost one by what the journal has by now. A failure leaves
    /// it to expire; the journal is asked then.
    async fn bring_to_the_journal(&self, recorder: &Recorder, lease: Lease) {
        let key = lease.entry.notification.key.clone();
        let of_expired = lease.entry.raise_fence || lease.entry.interrupted_ms.is_some();
        let settlement = match recorder.snapshot(key.clone()).await {
            Ok(Some(recorded)) if recorded.state != State::Scheduled || !of_expired => {
                Settlement::to_journal(&recorded, self.clock.now_ms())
            }
            Ok(_) | Err(_) => Settlement::Recheck,
        };
        if let Err(error) = self.schedule.settle(lease, settlement).await {
            tracing::debug!(notification = %key, %error, "a lease is left to expire");
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

/// Whether a settlement applies what the journal holds.
fn is_outcome(settlement: &Settlement) -> bool {
    match settlement {
        Settlement::Again(_) | Settlement::End { .. } => true,
        Settlement::Release | Settlement::Recheck => false,
    }
}

/// Why a notification is set aside. Says how its attempt ended, since nothing else will.
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
    format!("attempt {number} ended as {outcome}{status}, and that cannot be recorded: {cause}")
}
