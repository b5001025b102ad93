//! What holds of PostgreSQL alone: a server that is away, slow, read-only, or holds what cannot be
//! read.

use super::samples::{START_MS, apply, changing, delivery, failure, find, keep, key, registering};
use super::{INSTANCE, PostgresStore, Store};
use crate::support::postgres::{PostgresServer, connect, run};
use ringback::domain::change::Change;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::recorder::Recorder;
use ringback::journal::{
    ChangeResult, Filter, JournalError, JournalMaintenance, JournalReads, JournalWrites, Order,
    PageBodies, Recorded, RegisterResult,
};
use sqlx::{Connection as _, Executor as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Far longer than any call may wait, and far less than for ever.
const FEW_SECONDS: Duration = Duration::from_secs(20);

async fn open(url: &str) -> PostgresJournal {
    let journal = PostgresJournal::open(url, INSTANCE, true).await;
    journal.expect("it opens")
}

fn check_unavailable<T: std::fmt::Debug>(result: Result<T, JournalError>) {
    assert!(
        matches!(result, Err(JournalError::Unavailable(_))),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_started_again_it_has_all_that_was_answered() {
    let mut server = PostgresServer::start(&[]);
    let journal = open(&server.fresh_database()).await;
    let batch: Vec<_> = (0..100).map(|id| registering(&id.to_string())).collect();
    journal.register(&batch).await.expect("kept");
    server.kill();
    let asked = Instant::now();
    check_unavailable(journal.register(&[registering("100")]).await);
    check_unavailable(journal.find(&key("1")).await);
    check_unavailable(journal.check().await);
    assert!(asked.elapsed() < FEW_SECONDS, "{:?}", asked.elapsed());
    server.start_again().await;
    // The very next calls work.
    keep(&journal, registering("100")).await;
    journal.check().await.expect("works");
    let counts = journal.counts().await.expect("read");
    assert_eq!((counts.registered, counts.scheduled), (101, 101));
    for one in &batch {
        apply(&journal, delivery(&one.notification, one.progress)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_between_two_calls_it_costs_none_of_them() {
    let mut server = PostgresServer::start(&[]);
    let journal = Arc::new(open(&server.fresh_database()).await);
    // Several connections are open, and all of them break.
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let journal = journal.clone();
        tasks.spawn(async move {
            keep(&*journal, registering(&format!("before-{number}"))).await;
            find(&*journal, &key(&format!("before-{number}"))).await;
        });
    }
    tasks.join_all().await;
    server.restart(async {}).await;
    let given = registering("after");
    let (notification, progress) = (given.notification.clone(), given.progress);
    keep(&*journal, given).await;
    apply(&*journal, failure(&notification, progress)).await;
    find(&*journal, &notification.key).await;
    server.restart(async {}).await;
    let change = changing(&notification.key, Change::Cancel, START_MS + 9);
    let result = journal.change(change).await.expect("applied");
    assert!(matches!(result, ChangeResult::Done(_)), "{result:?}");
    server.restart(async {}).await;
    journal
        .list(&Filter::default(), Order::Registered, None, 10)
        .await
        .expect("read");
}

#[tokio::test]
async fn a_database_that_takes_no_writes_can_be_read() {
    let store = PostgresStore::new();
    keep(&*store.open().await, registering("1")).await;
    let read_only = "options=-c%20default_transaction_read_only%3Don";
    let journal = open(&format!("{}?{read_only}", store.url)).await;
    check_unavailable(journal.register(&[registering("2")]).await);
    check_unavailable(journal.check().await);
    let change = changing(&key("1"), Change::Cancel, START_MS);
    check_unavailable(journal.change(change).await);
    let snapshot = find(&journal, &key("1")).await;
    assert_eq!(snapshot.key, key("1"));
    assert_eq!(journal.counts().await.expect("read").registered, 1);
}

/// What others do to the tables of the work, and how it is undone.
const OBSTACLES: [(&str, &str); 5] = [
    (
        "CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql
         AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON payloads
         FOR EACH STATEMENT EXECUTE FUNCTION refuse()",
        "DROP FUNCTION refuse CASCADE",
    ),
    (
        "CREATE FUNCTION swallow() RETURNS TRIGGER LANGUAGE plpgsql
         AS $$ BEGIN RETURN NULL; END $$;
         CREATE TRIGGER swallow BEFORE INSERT ON notifications
         FOR EACH ROW EXECUTE FUNCTION swallow()",
        "DROP FUNCTION swallow CASCADE",
    ),
    (
        "ALTER TABLE attempts ADD CONSTRAINT none CHECK (FALSE) NOT VALID",
        "ALTER TABLE attempts DROP CONSTRAINT none",
    ),
    (
        "ALTER TABLE transitions RENAME TO others",
        "ALTER TABLE others RENAME TO transitions",
    ),
    (
        "ALTER SEQUENCE arrivals RENAME TO others",
        "ALTER SEQUENCE others RENAME TO arrivals",
    ),
];

#[tokio::test]
async fn a_check_fails_where_the_work_would() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    let mut beside = connect(&store.url).await;
    journal.check().await.expect("works");
    for (obstacle, undo) in OBSTACLES {
        run(&mut beside, obstacle).await;
        let checked = journal.check().await;
        assert!(checked.is_err(), "{obstacle}");
        run(&mut beside, undo).await;
        // A session may have planned for the tables as they were.
        journal.check().await.expect(undo);
    }
}

#[tokio::test]
async fn a_check_fails_where_a_table_is_locked_against_writes() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    let mut beside = connect(&store.url).await;
    let tables = [
        "notifications",
        "statuses",
        "payloads",
        "attempts",
        "transitions",
    ];
    for table in tables {
        // The weakest lock that keeps writers out: building an index takes it.
        let mut locking = beside.begin().await.expect("begun");
        let lock = format!("LOCK TABLE {table} IN SHARE MODE");
        run(&mut locking, &lock).await;
        check_unavailable(journal.check().await);
        locking.rollback().await.expect("unlocked");
        journal.check().await.expect(table);
        // The strongest that does not: vacuuming takes it.
        let mut locking = beside.begin().await.expect("begun");
        let lock = format!("LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE");
        run(&mut locking, &lock).await;
        journal.check().await.expect(table);
        locking.rollback().await.expect("unlocked");
    }
}

#[tokio::test]
async fn a_row_that_somebody_holds_on_to_is_not_waited_for_for_ever() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    let given = registering("held");
    let progress = given.progress;
    let notification = keep(&*journal, given).await;
    let mut beside = connect(&store.url).await;
    let mut holding = beside.begin().await.expect("begun");
    holding
        .execute("SELECT * FROM statuses FOR UPDATE")
        .await
        .expect("locked");
    let delivered = delivery(&notification, progress);
    let asked = Instant::now();
    check_unavailable(journal.record(std::slice::from_ref(&delivered)).await);
    let change = changing(&notification.key, Change::Cancel, START_MS);
    check_unavailable(journal.change(change).await);
    assert!(asked.elapsed() < FEW_SECONDS, "{:?}", asked.elapsed());
    // Nobody else is disturbed.
    keep(&*journal, registering("free")).await;
    holding.rollback().await.expect("let go");
    apply(&*journal, delivered.clone()).await;
    let snapshot = find(&*journal, &notification.key).await;
    assert_eq!(snapshot.attempts, [Arc::unwrap_or_clone(delivered.attempt)]);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_costs_only_itself() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    let batch: Vec<_> = ["1", "2", "3"].map(registering).to_vec();
    journal.register(&batch).await.expect("kept");
    let spoil = "UPDATE notifications SET ladder = 'rope' WHERE id = '2'";
    run(&mut connect(&store.url).await, spoil).await;
    let (page, next) = journal
        .pending_page(None, i64::MAX, 10, PageBodies::All)
        .await
        .expect("read");
    let ids: Vec<&str> = page.iter().map(|one| one.notification.key.id()).collect();
    assert_eq!(ids, ["1", "3"]);
    assert!(next.is_some());
    let page = journal
        .list(&Filter::default(), Order::Registered, None, 10)
        .await;
    assert_eq!(page.expect("read").items.len(), 2);
    let corrupt = |error: Option<JournalError>| {
        assert!(matches!(error, Some(JournalError::Corrupt(_))), "{error:?}");
    };
    corrupt(journal.find(&key("2")).await.err());
    corrupt(journal.pending(&key("2")).await.err());
    corrupt(journal.pendings(&["1", "2"].map(key)).await.err());
    let recorder = Recorder::start(journal);
    // Those beside it are read all the same.
    let (one, two, three) = tokio::join!(
        recorder.pending(key("1")),
        recorder.pending(key("2")),
        recorder.pending(key("3"))
    );
    corrupt(two.err());
    for read in [one, three] {
        assert!(read.expect("read").is_some());
    }
    let again = async |id| recorder.register(registering(id)).await;
    let (one, two, new) = tokio::join!(again("1"), again("2"), again("4"));
    assert!(matches!(one, Ok(RegisterResult::Existing(_))), "{one:?}");
    corrupt(two.err());
    new.expect("kept");
    // Its attempts are recorded all the same: nothing of the row has to be read for that.
    let delivered = delivery(&batch[1].notification, batch[1].progress);
    let reply = recorder.record(delivered).await.expect("kept");
    assert_eq!(reply, Recorded::Applied);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_password() {
    let url = "postgres://me:hunter2@127.0.0.1:1/orders?sslmode=disable";
    let error = PostgresJournal::open(url, INSTANCE, true).await.err();
    let Some(JournalError::Unavailable(text)) = error else {
        panic!("{error:?}");
    };
    assert!(text.contains("postgres://127.0.0.1:1/orders"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}
