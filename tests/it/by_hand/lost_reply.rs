//! A change whose answer from the journal is lost: it is answered as done if it is in the journal, and only then.

use super::scripted::Scripted;
use super::{LIMITS, actor, journal};
use crate::journal_contract::samples::{
    START_MS, apply, delivery, find, history, key, raise_fence, registration,
};
use ringback::clock::ManualClock;
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::decorator::{JournalCall, JournalDecorator};
use ringback::journal::recorder::Recorder;
use ringback::journal::{Journal, JournalError};
use ringback::schedule::{ClaimQuota, Settled, Settlement};
use ringback::schedule::{ScheduleLeases as _, ScheduleReads as _};
use ringback::service::{Service, ServiceError};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// What becomes of a change of which no answer comes.
#[derive(Debug, Clone, Copy)]
enum Unanswered {
    Written,
    NotWritten,
    /// It is written, and another server raises the fence before anybody looks.
    WrittenAndFenced,
}

/// A journal that does not answer the next change.
struct Silent {
    journal: Arc<dyn Journal>,
    next: Mutex<Option<Unanswered>>,
}

impl JournalDecorator for Silent {
    fn inner(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        if call != JournalCall::Change {
            return calling.await;
        }
        let next = self.next.lock().expect("no panic").take();
        match next {
            None => return calling.await,
            Some(Unanswered::NotWritten) => {}
            Some(Unanswered::Written) => drop(calling.await?),
            Some(Unanswered::WrittenAndFenced) => {
                drop(calling.await?);
                raise_fence(self.journal.as_ref(), &key("1")).await;
            }
        }
        Err(JournalError::Unavailable("the connection broke".into()))
    }
}

/// One notification, `1`, that is delivered.
struct Delivered {
    schedule: Arc<Scripted>,
    journal: Arc<Silent>,
    service: Arc<Service>,
    _dir: TempDir,
}

impl Delivered {
    async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let schedule = Scripted::over_journal(&ManualClock::at(START_MS), LIMITS);
        let journal = Arc::new(Silent {
            journal: journal(&dir).await,
            next: Mutex::default(),
        });
        let recorder = Arc::new(Recorder::start(journal.clone()));
        let service = Arc::new(Service::new(Some(recorder), schedule.clone()));
        let registered = service.register(registration(key("1")), actor()).await;
        registered.expect("registered");
        let scene = Self {
            schedule,
            journal,
            service,
            _dir: dir,
        };
        scene.deliver().await;
        scene
    }

    /// Makes the attempt that is due, which is acknowledged.
    async fn deliver(&self) {
        let claimed = self.schedule.claim(ClaimQuota::of(1)).await;
        let lease = claimed.expect("claimed").leases.pop().expect("it is due");
        let progress = lease.entry.progress;
        let last = delivery(&lease.entry.notification, progress);
        apply(&*self.journal, last).await;
        let ended = Settlement::to(State::Delivered, None, progress, START_MS);
        let settled = self.schedule.settle(lease, ended).await;
        assert_eq!(settled.expect("answered"), Settled::Done);
    }

    fn next_is(&self, next: Unanswered) {
        *self.journal.next.lock().expect("no panic") = Some(next);
    }

    async fn resend(&self) -> Result<Snapshot, ServiceError> {
        self.service.resend(&key("1"), actor(), "").await
    }

    async fn series(&self) -> u32 {
        find(&*self.journal, &key("1")).await.progress.series
    }
}

fn is_unavailable(reply: &Result<Snapshot, ServiceError>) -> bool {
    matches!(
        reply,
        Err(ServiceError::Journal(JournalError::Unavailable(_)))
    )
}

#[tokio::test]
async fn a_resend_that_was_written_is_answered_as_done() {
    let scene = Delivered::new().await;
    scene.next_is(Unanswered::Written);
    let resent = scene.resend().await.expect("it is done");
    assert_eq!(
        (resent.state, resent.progress.series),
        (State::Scheduled, 2)
    );
    assert_eq!(resent.attempts.len(), 1, "as a look-up shows it");
    let entry = scene.schedule.find(&key("1")).await.expect("answered");
    let entry = entry.expect("it is in the schedule").entry;
    assert_eq!(entry.progress, resent.progress);
    // While it is pending, a repetition begins nothing.
    let again = scene.resend().await;
    assert!(
        matches!(again, Err(ServiceError::Refused { .. })),
        "{again:?}"
    );
    scene.deliver().await;
    assert_eq!(scene.series().await, 2);
    assert_eq!(
        history(&*scene.journal, &key("1")).await,
        ["registered", "delivered", "resent", "delivered"]
    );
}

#[tokio::test]
async fn a_resend_that_was_not_written_is_answered_as_unknown_and_can_be_repeated() {
    let scene = Delivered::new().await;
    scene.next_is(Unanswered::NotWritten);
    let resent = scene.resend().await;
    assert!(is_unavailable(&resent), "{resent:?}");
    assert_eq!(scene.series().await, 1);
    let resent = scene.resend().await.expect("it is done");
    assert_eq!(resent.progress.series, 2);
}

#[tokio::test]
async fn a_change_after_which_something_else_came_is_answered_as_unknown() {
    let scene = Delivered::new().await;
    scene.next_is(Unanswered::WrittenAndFenced);
    let resent = scene.resend().await;
    assert!(is_unavailable(&resent), "{resent:?}");
    assert_eq!(scene.series().await, 2);
}
