//! Loading a Redis that leaves content to the journal: with places in lanes, and with the content of those that need it.

use super::stage::{HORIZON_MS, Stage};
use crate::journal_contract::samples::{START_MS, key, place, registering_at, registration};
use crate::support::postgres::{connect, run};
use ringback::clock::Clock as _;
use ringback::domain::notification::Registration;
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::place::PlaceInLane;
use ringback::domain::priority::Priority;
use ringback::journal::decorator::{JournalCall, JournalDecorator};
use ringback::journal::{Journal, JournalError, Registering};
use ringback::maintenance::recovery::load::Loader;
use ringback::maintenance::repair::Repaired;
use ringback::maintenance::sweep::Sweep;
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

/// Of what is bare, the sweep reads the place alone; the rest of what is not there, or not at that time.
#[tokio::test]
async fn the_sweep_reads_only_places_of_what_is_bare() {
    let stage = Stage::postgres_with_window().await;
    for number in 0..10 {
        stage
            .journal_one(&number.to_string(), 60_000 + number)
            .await;
    }
    assert_eq!(load(&stage, stage.journal.clone()).await, 10);
    let journal = CountedJournal::around(&stage.journal);
    let mut sweep = Sweep::new(journal.clone(), stage.schedule.clone());
    // It compares what was registered some time ago.
    let now_ms = stage.clock.now_ms() + 10 * HORIZON_MS;
    assert_eq!(
        sweep.pass(now_ms).await.expect("compared"),
        Repaired::default()
    );
    assert!(journal.calls(JournalCall::PlacesPage) > 0);
    assert_eq!(journal.calls(JournalCall::PendingPage), 0);
    assert_eq!(journal.calls(JournalCall::Pendings), 0);

    stage.unschedule("3").await;
    let elsewhere = PlaceInLane {
        entry: place(&key("4")),
        due_ms: START_MS + 65_000,
        priority: Priority::Normal,
    };
    let moved = stage.schedule.restore_places(&[elsewhere]).await;
    assert_eq!(moved.expect("moved").moved, 1);
    let repaired = sweep.pass(now_ms).await.expect("compared");
    let expected = Repaired {
        restored: 1,
        moved: 1,
        ..Repaired::default()
    };
    assert_eq!(repaired, expected);
    assert_eq!(journal.calls(JournalCall::PendingPage), 0);
    for (id, at_ms) in [("3", 60_003), ("4", 60_004)] {
        let due_ms = stage.held(id).await.expect("held").progress.next_due_ms();
        assert!(due_ms.abs_diff(START_MS + at_ms) <= 20, "{id}: {due_ms}");
    }
    // What has its content in Redis is read with it: the place says too little. While most has, whole pages are read.
    let whole: Vec<_> = (0..20)
        .map(|at| ordered(&format!("o{at}"), 61_000 + at))
        .collect();
    stage.journal.register(&whole[..5]).await.expect("kept");
    assert_eq!(sweep.pass(now_ms).await.expect("compared").restored, 5);
    assert_eq!(journal.calls(JournalCall::PendingPage), 0);
    stage.journal.register(&whole[5..]).await.expect("kept");
    assert_eq!(sweep.pass(now_ms).await.expect("compared").restored, 15);
    assert!(journal.calls(JournalCall::PendingPage) > 0);
    assert_eq!(
        sweep.pass(now_ms).await.expect("compared"),
        Repaired::default()
    );
    for at in 0..20 {
        assert!(is_whole(&stage, &format!("o{at}")).await);
    }
    // What is young may still be on its way.
    stage.unschedule("5").await;
    let repaired = sweep.pass(stage.clock.now_ms()).await.expect("compared");
    assert_eq!(repaired, Repaired::default());
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
