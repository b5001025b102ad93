//! Loading a Redis that leaves content to the journal: with places in lanes, and with the content of those that need it.

use super::stage::Stage;
use crate::journal_contract::samples::{START_MS, key, registering_at, registration};
use crate::support::postgres::{connect, run};
use ringback::domain::notification::Registration;
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::journal::decorator::{JournalCall, JournalDecorator};
use ringback::journal::{Journal, JournalError, Registering};
use ringback::maintenance::recovery::load::Loader;
use ringback::schedule::HeldProgress;
use std::sync::{Arc, Mutex};

/// A journal that notes which calls are made.
struct CountedJournal {
    inner: Arc<dyn Journal>,
    calls: Mutex<Vec<JournalCall>>,
}

impl CountedJournal {
    fn around(inner: &Arc<dyn Journal>) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.clone(),
            calls: Mutex::default(),
        })
    }

    fn calls(&self, call: JournalCall) -> usize {
        let calls = self.calls.lock().expect("not poisoned");
        calls.iter().filter(|made| **made == call).count()
    }
}

impl JournalDecorator for CountedJournal {
    fn inner(&self) -> &dyn Journal {
        self.inner.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        self.calls.lock().expect("not poisoned").push(call);
        calling.await
    }
}

/// Has a place in an order of its own.
fn ordered(id: &str, at_ms: i64) -> Registering {
    let registration = Registration {
        order: Some(OrderPlace::new(id, 1, OrderMode::Latest).expect("a place")),
        ..registration(key(id))
    };
    registering_at(registration, START_MS + at_ms)
}

async fn load(stage: &Stage, journal: Arc<dyn Journal>) -> u64 {
    let mut loader = Loader::new(journal, stage.schedule.as_ref(), true);
    while loader.step().await.expect("put in") {}
    assert_eq!(loader.done().read, loader.done().restored.missing);
    loader.done().read
}

/// Whether an entry has its content.
async fn is_whole(stage: &Stage, id: &str) -> bool {
    let held = stage.held(id).await.expect("it is there");
    matches!(held.progress, HeldProgress::Whole(_))
}

/// Their content is read with each page; once most need no content, places are read again.
#[tokio::test]
async fn if_most_of_a_page_needs_content_the_next_is_read_with_it() {
    let stage = Stage::postgres_with_window().await;
    let ordered: Vec<_> = (0..2_000)
        .map(|at| ordered(&format!("o{at}"), at))
        .collect();
    for some in ordered.chunks(500) {
        stage.journal.register(some).await.expect("kept");
    }
    let plain: Vec<_> = (2_000..20_000)
        .map(|at| registering_at(registration(key(&format!("p{at}"))), START_MS + at))
        .collect();
    for some in plain.chunks(500) {
        stage.journal.register(some).await.expect("kept");
    }
    let journal = CountedJournal::around(&stage.journal);
    assert_eq!(load(&stage, journal.clone()).await, 20_000);
    for (id, expected) in [
        ("o0", true),
        ("o1999", true),
        ("p2000", false),
        ("p19999", false),
    ] {
        assert_eq!(is_whole(&stage, id).await, expected, "{id}");
    }
    // Beside attempts, pages have 250 notifications: one of places and what they needed, seven with the content of the other
    // ordered ones, and one with the content of those that need none.
    assert_eq!(journal.calls(JournalCall::Pendings), 1);
    assert_eq!(journal.calls(JournalCall::PendingPage), 8);
    assert!(journal.calls(JournalCall::PlacesPage) > 2);
}

/// Of such a page, everything is read as without places, and only what is damaged is left out.
#[tokio::test]
async fn damaged_content_that_is_needed_delays_no_other() {
    let stage = Stage::postgres_with_window().await;
    for number in 0..10 {
        let id = number.to_string();
        match number % 2 {
            0 => {
                let kept = stage.journal.register(&[ordered(&id, number)]).await;
                kept.expect("kept");
            }
            _ => {
                stage.journal_one(&id, number).await;
            }
        }
    }
    let mut beside = connect(stage.postgres.as_deref().expect("on PostgreSQL")).await;
    let damage = "UPDATE notifications SET ladder = 'rope' WHERE id = '4'";
    run(&mut beside, damage).await;
    assert_eq!(load(&stage, stage.journal.clone()).await, 9);
    assert!(stage.held("4").await.is_none());
    for id in ["0", "3", "5", "9"] {
        assert!(stage.held(id).await.is_some(), "{id}");
    }
}
