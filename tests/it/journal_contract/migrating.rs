//! From one version's schema to the next, with all that is in it.

use super::older::{before_the_newest, migrations, older_postgres, older_sqlite};
use super::samples::{
    START_MS, apply, changing, delivery, failure, keep, key, refusal, registering,
};
use super::{INSTANCE, PostgresStore, SqliteStore, Store};
use crate::support::postgres::{connect, run};
use crate::support::within;
use ringback::domain::attempt::Attempt;
use ringback::domain::body::Body;
use ringback::domain::call_trace::CallTrace;
use ringback::domain::change::Change;
use ringback::domain::key::Key;
use ringback::domain::notification::Start;
use ringback::domain::snapshot::Snapshot;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::{
    Filter, Journal, JournalCounts, JournalError, JournalReads, Order, Transition,
};
use tokio::task::JoinSet;

/// Everything that a journal shows.
#[derive(Debug, PartialEq)]
struct Shown {
    counts: JournalCounts,
    list: Vec<Key>,
    found: Vec<Option<Snapshot>>,
    histories: Vec<Vec<Transition>>,
    bodies: Vec<Option<Body>>,
}

const IDS: [&str; 8] = [
    "waiting",
    "failed",
    "delivered",
    "dead",
    "cancelled",
    "replayed",
    "resent",
    "rescheduled",
];

/// One notification in each state, with all that belongs to it.
async fn fill(journal: &dyn Journal) {
    for id in IDS {
        let given = registering(id);
        let progress = given.progress;
        let notification = keep(journal, given).await;
        match id {
            "failed" => apply(journal, failure(&notification, progress)).await,
            "delivered" | "resent" => apply(journal, delivery(&notification, progress)).await,
            "dead" | "replayed" => apply(journal, refusal(&notification, progress)).await,
            _ => {}
        }
        let change = match id {
            "cancelled" => Change::Cancel,
            "replayed" => Change::Replay,
            "resent" => Change::Resend,
            "rescheduled" => Change::Reschedule(Start::After(1_000)),
            _ => continue,
        };
        let change = changing(&notification.key, change, START_MS + 90);
        journal.change(change).await.expect("applied");
    }
}

fn without_trace(attempt: &Attempt) -> Attempt {
    Attempt {
        trace: CallTrace::default(),
        ..attempt.clone()
    }
}

async fn shown(journal: &dyn Journal) -> Shown {
    let everything = Filter::default();
    let page = journal.list(&everything, Order::Registered, None, 100);
    let page = page.await.expect("read");
    let mut shown = Shown {
        counts: journal.counts().await.expect("read"),
        list: page.items.into_iter().map(|item| item.key).collect(),
        found: Vec::new(),
        histories: Vec::new(),
        bodies: Vec::new(),
    };
    for id in IDS {
        let key = key(id);
        let found = journal.find(&key).await.expect("read");
        // A version before has neither fences nor traces.
        let found = found.map(|found| Snapshot {
            fence: 0,
            attempts: found.attempts.iter().map(without_trace).collect(),
            ..found
        });
        shown.found.push(found);
        shown
            .histories
            .push(journal.transitions(&key).await.expect("read"));
        let pending = journal.pending(&key).await.expect("read");
        shown
            .bodies
            .push(pending.map(|pending| pending.notification.body.clone()));
    }
    shown
}

/// What is kept goes on to be of use: changes, recordings and registrations follow on it.
async fn check_goes_on(journal: &dyn Journal) {
    keep(journal, registering("new")).await;
    for (id, change) in [("waiting", Change::Cancel), ("dead", Change::Discard)] {
        let change = changing(&key(id), change, START_MS + 100);
        journal.change(change).await.expect("applied");
        let lines = journal.transitions(&key(id)).await.expect("read");
        assert_eq!(lines.last().expect("a line").at_ms, START_MS + 100);
    }
    journal.check().await.expect("works");
}

#[tokio::test]
async fn a_filled_sqlite_journal_of_the_version_before_is_carried_over() {
    let filled = SqliteStore::new();
    let journal = filled.open().await;
    fill(&*journal).await;
    let expected = shown(&*journal).await;
    journal.close().await;

    let versions = before_the_newest(&migrations("migrations/sqlite").await);
    let older = older_sqlite(&filled, *versions.last().expect("one")).await;
    let journal = older.open().await;
    assert_eq!(shown(&*journal).await, expected);
    check_goes_on(&*journal).await;
}

#[tokio::test]
async fn a_filled_postgres_journal_of_the_version_before_is_carried_over() {
    let store = PostgresStore::new();
    let filled = store.open().await;
    fill(&*filled).await;
    let expected = shown(&*filled).await;
    filled.close().await;

    let versions = before_the_newest(&migrations("migrations/postgres").await);
    let url = older_postgres(&store, *versions.last().expect("one")).await;
    let refused = PostgresJournal::open(&url, INSTANCE, false).await.err();
    let Some(JournalError::Refused(text)) = refused else {
        panic!("{refused:?}");
    };
    assert!(text.contains("run `ringback migrate`"), "{text}");
    let applied = PostgresJournal::migrate(&url).await.expect("migrated");
    assert_eq!(applied.len(), 1);
    assert_eq!(PostgresJournal::migrate(&url).await.expect("none"), [""; 0]);
    let journal = PostgresJournal::open(&url, INSTANCE, false).await;
    let journal = journal.expect("it opens");
    assert_eq!(shown(&journal).await, expected);
    check_goes_on(&journal).await;
    // The one it was copied from is left alone.
    assert_eq!(shown(&*store.open().await).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_start_at_once_migrate_once() {
    let store = PostgresStore::new();
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let url = store.url.clone();
        tasks.spawn(async move {
            let journal = PostgresJournal::open(&url, INSTANCE, true).await;
            let journal = journal.expect("it opens");
            keep(&journal, registering(&uuid::Uuid::now_v7().to_string())).await;
            journal.id().to_string()
        });
    }
    let mut ids = within("all to open", tasks.join_all()).await;
    ids.dedup();
    assert_eq!(ids.len(), 1, "it has one name");
    assert_eq!(
        store.open().await.counts().await.expect("read").registered,
        4
    );
}

async fn check_refused(url: &str, reason: &str) {
    for migrate in [true, false] {
        match PostgresJournal::open(url, INSTANCE, migrate).await.err() {
            Some(JournalError::Refused(text)) => assert!(text.contains(reason), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_or_of_another_program_is_refused() {
    let store = PostgresStore::new();
    store.open().await.close().await;
    let mut connection = connect(&store.url).await;
    run(
        &mut connection,
        "INSERT INTO ringback_migrations VALUES (9999, 'from the future', now(), TRUE, '', 0)",
    )
    .await;
    check_refused(&store.url, "newer version").await;
    let other = PostgresStore::new();
    let mut connection = connect(&other.url).await;
    run(&mut connection, "CREATE TABLE notifications (id INTEGER)").await;
    check_refused(&other.url, "another program").await;
}

#[tokio::test]
async fn an_empty_database_is_left_alone_unless_asked() {
    let store = PostgresStore::new();
    let error = PostgresJournal::open(&store.url, INSTANCE, false)
        .await
        .err();
    let Some(JournalError::Refused(text)) = error else {
        panic!("{error:?}");
    };
    assert!(text.contains("ringback migrate"), "{text}");
    let mut connection = connect(&store.url).await;
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
            .fetch_one(&mut connection)
            .await
            .expect("read");
    assert_eq!(tables, 0);
}
