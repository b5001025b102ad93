use super::*;
use crate::clock::ManualClock;
use crate::delivery::address_filter::AddressFilter;
use crate::delivery::dispatcher::Dispatcher;
use crate::delivery::http_client::{HttpClient, HttpClientSettings};
use crate::domain::ack::AckRule;
use crate::domain::decision::{EndedAttempt, decide};
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::ladder::Ladder;
use crate::domain::notification::{Registration, Start, Target};
use crate::domain::priority::Priority;
use crate::domain::receiver_requests::FollowedRequests;
use crate::domain::snapshot::Snapshot;
use crate::domain::webhook_id::WebhookId;
use crate::health::Health;
use crate::journal::Journal;
use crate::journal::decorator::{JournalCall, JournalDecorator};
use crate::journal::sqlite::SqliteJournal;
use crate::schedule::Limits;
use crate::schedule::memory::MemorySchedule;
use crate::telemetry::metrics::Metrics;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

const NOW_MS: i64 = 1_795_163_400_000;
const HOUR_MS: i64 = 3_600_000;

/// What becomes of a recording.
#[derive(Debug, Clone, Copy)]
enum Failure {
    /// It does not reach the journal.
    NotMade,
    /// It is kept, and the reply is lost.
    ReplyLost,
}

/// A journal of which the first recordings fail. An hour passes with each failure.
struct AwayJournal {
    journal: SqliteJournal,
    clock: ManualClock,
    failures: Mutex<VecDeque<Failure>>,
}

impl JournalDecorator for AwayJournal {
    fn inner(&self) -> &dyn Journal {
        &self.journal
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        if call != JournalCall::Record {
            return calling.await;
        }
        let failure = self.failures.lock().expect("no panic").pop_front();
        match failure {
            None => return calling.await,
            Some(Failure::NotMade) => {}
            Some(Failure::ReplyLost) => drop(calling.await?),
        }
        self.clock.advance(HOUR_MS);
        Err(JournalError::Unavailable("it is away".to_string()))
    }
}

/// A journal with one notification, and a worker that records its first attempt.
struct Scene {
    journal: Arc<AwayJournal>,
    recorder: Arc<Recorder>,
    worker: Arc<Worker>,
    registering: Registering,
    _dir: TempDir,
}

impl Scene {
    async fn new(failures: &[Failure]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().expect("a directory");
        let clock = ManualClock::at(NOW_MS);
        let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
        let journal = Arc::new(AwayJournal {
            journal: journal.expect("it opens"),
            clock: clock.clone(),
            failures: Mutex::new(failures.iter().copied().collect()),
        });
        let schedule = Arc::new(MemorySchedule::new(
            Arc::new(clock.clone()),
            Limits::OF_TESTS,
        ));
        let recorder = Arc::new(Recorder::start(journal.clone()));
        let client = HttpClient::new(HttpClientSettings {
            filter: AddressFilter {
                allowed: Vec::new(),
                allow_http: false,
            },
            timeout: Duration::from_secs(10),
            user_agent: "test".to_string(),
            proxy: None,
        });
        let dispatcher = Dispatcher::new(
            Arc::new(client),
            schedule,
            Some(recorder.clone()),
            Arc::new(clock),
            1,
            Health::new(true),
            Metrics::new(),
        );
        let registering = registering();
        let given = std::slice::from_ref(&registering);
        let registered = recorder.journal().register(given).await;
        registered.expect("registered");
        Self {
            journal,
            recorder,
            worker: dispatcher.worker(),
            registering,
            _dir: dir,
        }
    }

    /// Records that its first attempt ended like this, and gives what was decided and how it stands then.
    async fn record(&self, outcome: Outcome, status: u16) -> (Decision, Snapshot) {
        let before = self.registering.progress;
        let notification = self.registering.notification.clone();
        let mut attempt = Attempt::interrupted(&before, NOW_MS);
        attempt.answer.outcome = outcome;
        attempt.answer.status = Some(status);
        let ended = EndedAttempt {
            started_ms: NOW_MS,
            ended_ms: NOW_MS,
            outcome,
            status: Some(status),
            retry_after: None,
        };
        let followed = FollowedRequests {
            retry_after: true,
            gone: true,
        };
        let decision = decide(&notification.ladder, followed, &before, &ended, 0.5);
        let key = notification.key.clone();
        let recording = Recording {
            key: key.clone(),
            attempt: Arc::new(attempt),
            before,
            decision,
            at_ms: NOW_MS,
        };
        let kept = (self.worker)
            .keep(&self.recorder, notification, recording, Settlement::Release)
            .await;
        assert!(matches!(kept, Some(Settlement::Release)), "it is applied");
        let found = self.recorder.journal().find(&key).await;
        (decision, found.expect("read").expect("it is there"))
    }

    /// The instant of the last line of its history.
    async fn last_line_ms(&self) -> i64 {
        let key = &self.registering.notification.key;
        let lines = self.recorder.journal().transitions(key).await;
        lines.expect("read").last().expect("a line").at_ms
    }
}

fn registering() -> Registering {
    let registration = Registration {
        key: Key::new("t", "1").expect("a key"),
        target: Target::Url(Destination::parse("https://shop.example/notify").expect("a URL")),
        body: Bytes::from_static(b"paid"),
        content_type: "text/plain".to_string(),
        headers: Headers::default(),
        start: Start::After(0),
        ladder: Some(Ladder::standard()),
        ack: Some(AckRule::standard()),
        priority: Priority::Normal,
        order: None,
    };
    let webhook_id = WebhookId::new(Uuid::from_u128(1));
    let (notification, progress) = registration.accept(webhook_id, NOW_MS, None);
    Registering {
        notification: Arc::new(notification),
        progress,
        actor: Actor::named("test"),
    }
}

#[tokio::test]
async fn what_is_written_late_has_ended_when_it_is_written() {
    for (outcome, status, state) in [
        (Outcome::Acknowledged, 200, State::Delivered),
        (Outcome::HttpStatus, 410, State::Dead),
    ] {
        let scene = Scene::new(&[Failure::NotMade, Failure::NotMade]).await;
        let (_, stands) = scene.record(outcome, status).await;
        let written_ms = NOW_MS + 2 * HOUR_MS;
        assert_eq!((stands.state, stands.ended_ms), (state, Some(written_ms)));
        assert_eq!(scene.last_line_ms().await, written_ms);
        // When the attempt was made is told as it was.
        assert_eq!(stands.attempts[0].started_ms, NOW_MS);
    }
}

#[tokio::test]
async fn a_failure_that_is_written_late_moves_no_later_attempt() {
    let scene = Scene::new(&[Failure::NotMade]).await;
    let (decision, stands) = scene.record(Outcome::HttpStatus, 500).await;
    assert_eq!(stands.state, State::Scheduled);
    assert_eq!(stands.progress, decision.progress);
    assert!(stands.progress.due_ms < NOW_MS + HOUR_MS);
}

#[tokio::test]
async fn what_was_written_at_the_first_try_keeps_its_end() {
    for (outcome, status) in [(Outcome::Acknowledged, 200), (Outcome::HttpStatus, 410)] {
        let scene = Scene::new(&[Failure::ReplyLost, Failure::NotMade]).await;
        let (_, stands) = scene.record(outcome, status).await;
        assert_eq!(stands.ended_ms, Some(NOW_MS));
        assert_eq!(stands.attempts.len(), 1, "{:?}", stands.attempts);
        assert_eq!(scene.last_line_ms().await, NOW_MS);
        let failures = scene.journal.failures.lock().expect("no panic");
        assert!(failures.is_empty());
    }
}
