//! A registration that ends lower numbers of its order, while the schedule does not give them.

use super::{NOW_MS, Server, memory, order};
use ringback::api::ApiSettings;
use ringback::clock::ManualClock;
use ringback::domain::key::Key;
use ringback::domain::notification::Notification;
use ringback::domain::state::{Cause, State};
use ringback::journal::recorder::Recorder;
use ringback::journal::sqlite::SqliteJournal;
use ringback::journal::{Actor, RegisterResult, Registering};
use ringback::schedule::decorator::{ScheduleCall, ScheduleDecorator};
use ringback::schedule::memory::MemorySchedule;
use ringback::schedule::{Schedule, ScheduleError};
use ringback::service::Service;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A schedule that answers no request for a lease by hand, and counts these.
struct NoLeases {
    inner: MemorySchedule,
    asked: AtomicUsize,
}

impl ScheduleDecorator for NoLeases {
    fn inner(&self) -> &dyn Schedule {
        &self.inner
    }

    async fn around<T: Send>(
        &self,
        call: ScheduleCall,
        calling: impl Future<Output = Result<T, ScheduleError>> + Send,
    ) -> Result<T, ScheduleError> {
        if call == ScheduleCall::LeaseOne {
            self.asked.fetch_add(1, Ordering::Relaxed);
            return Err(ScheduleError::Unavailable("no answer in time".into()));
        }
        calling.await
    }
}

fn numbered(id: &str, number: i64) -> Value {
    let mut one = order(id);
    one["order"] = json!({ "key": "o", "number": number, "mode": "latest" });
    one
}

#[tokio::test]
async fn a_schedule_that_is_away_is_asked_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let journal = SqliteJournal::open(&directory.path().join("journal.db"), "one").await;
    let recorder = Arc::new(Recorder::start(Arc::new(journal.expect("opens"))));
    let schedule = Arc::new(NoLeases {
        inner: memory(&ManualClock::at(NOW_MS)),
        asked: AtomicUsize::new(0),
    });
    let service = Service::new(Some(recorder.clone()), schedule.clone());
    let server = Server::start(service, ApiSettings::default()).await;
    server.register(&numbered("0", 1)).await.is(201);
    let journal = recorder.journal();
    let key = |id: &str| Key::new("payment.succeeded", id).expect("a key");
    let first = journal.pending(&key("0")).await.expect("read");
    let first = first.expect("it is pending");
    // As many as a journal has that forgot them and got them again.
    for id in ["1", "2", "3"] {
        let again = Registering {
            notification: Arc::new(Notification {
                key: key(id),
                ..Notification::clone(&first.notification)
            }),
            progress: first.progress,
            actor: Actor::maintenance(),
        };
        let kept = journal.register(&[again]).await.expect("kept");
        assert_eq!(kept, [RegisterResult::Created]);
    }
    server.register(&numbered("latest", 2)).await.is(201);
    assert_eq!(schedule.asked.load(Ordering::Relaxed), 1);
    for id in ["0", "1", "2", "3"] {
        let found = journal.find(&key(id)).await.expect("read");
        let found = found.expect("it is there");
        assert_eq!(
            (found.state, found.cause),
            (State::Cancelled, Some(Cause::Superseded)),
            "{id}"
        );
    }
}
