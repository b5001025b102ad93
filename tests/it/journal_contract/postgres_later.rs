//! What holds of PostgreSQL alone: how much is read to find what is due later, and a migration without a lock that stops
//! writers.

use super::older::{before_the_newest, migrations, older_postgres};
use super::postgres_reading::rows_read;
use super::samples::{START_MS, keep, key, registering_at, registration};
use super::{INSTANCE, PostgresStore, Store};
use crate::support::postgres::{connect, run};
use ringback::domain::destination::Destination;
use ringback::domain::lane::Lane;
use ringback::domain::later::LaneAfter;
use ringback::domain::notification::{Registration, Start, Target};
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::{Cursor, Journal, JournalMaintenance as _, JournalReads as _};
use ringback::maintenance::duty::{Duty as _, Step};
use ringback::maintenance::later_lanes::LaterLanes;
use std::sync::Arc;

const HOUR_MS: i64 = 3_600_000;

/// 2,000 of one destination that are due after an hour, 1,000 of it that are due at once, and one of each of 40 others.
async fn fill(journal: &dyn Journal) {
    let delayed = |id: String, delay_ms| Registration {
        start: Start::After(delay_ms),
        ..registration(key(&id))
    };
    let common: Vec<_> = (0..3_000)
        .map(|number| delayed(number.to_string(), if number < 2_000 { HOUR_MS } else { 0 }))
        .map(|registration| registering_at(registration, START_MS))
        .collect();
    for part in common.chunks(250) {
        journal.register(part).await.expect("kept");
    }
    for number in 0..40 {
        let url = format!("https://shop-{number:02}.example/");
        let rare = Registration {
            target: Target::Url(Destination::parse(&url).expect("a url")),
            ..delayed(format!("rare-{number}"), HOUR_MS)
        };
        keep(journal, registering_at(rare, START_MS)).await;
    }
}

#[tokio::test]
async fn what_is_due_later_is_found_in_few_rows_whatever_the_planner_believes() {
    let store = PostgresStore::new();
    fill(&*store.open().await).await;
    let lanes = ["https://shop.example", "https://shop-07.example"].map(|name| LaneAfter {
        lane: Lane::from_name(name),
        after_ms: START_MS,
    });
    for analysed in [false, true] {
        if analysed {
            run(&mut connect(&store.url).await, "ANALYZE").await;
        }
        let journal = store.open().await;
        rows_read(&store, journal).await;
        let journal = store.open().await;
        let found = journal.later_lanes(None, 100).await.expect("read");
        assert_eq!(found.len(), 41);
        let read = rows_read(&store, journal).await;
        assert!(read < 3 * 41, "{read} rows for 41 destinations");
        let journal = store.open().await;
        let counts = journal.count_later(&lanes, 100).await.expect("read");
        let many: Vec<u64> = counts.iter().map(|count| count.many).collect();
        assert_eq!(many, [100, 1]);
        let read = rows_read(&store, journal).await;
        assert!(read < 2 * 101, "{read} rows for 101");
        let journal = store.open().await;
        let from = Cursor {
            at_ms: START_MS,
            row: i64::MAX,
        };
        let (entered, next) = journal.fill_in_later(from, 100).await.expect("read");
        assert!(entered == 0 && next.is_some());
        let read = rows_read(&store, journal).await;
        assert!(read < 2 * 100, "{read} rows for a page of 100");
    }
}

/// The duty of a server that has just been started; how many it enters.
async fn run_duty(journal: &Arc<dyn Journal>, now_ms: i64) -> u64 {
    let mut duty = LaterLanes::new(journal.clone());
    loop {
        if let Step::Done(entered) = duty.step(now_ms).await.expect("it runs") {
            return entered;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_started_again_does_not_read_all_that_is_pending_again() {
    const DAY_MS: i64 = 24 * HOUR_MS;
    let store = PostgresStore::new();
    let journal = store.open().await;
    let later = |number: u32| Registration {
        start: Start::After(20 * DAY_MS),
        ..registration(key(&number.to_string()))
    };
    // More than one page.
    let later: Vec<_> = (0..1_100)
        .map(|number| registering_at(later(number), START_MS))
        .collect();
    for part in later.chunks(250) {
        journal.register(part).await.expect("kept");
    }
    let mut connection = connect(&store.url).await;
    let mut forget = async || {
        let forget = "UPDATE statuses SET later_lane = NULL WHERE ctid IN (SELECT ctid FROM statuses LIMIT 7)";
        run(&mut connection, forget).await;
    };
    // As a server of an earlier version writes them.
    forget().await;
    assert_eq!(run_duty(&journal, START_MS).await, 7);
    forget().await;
    assert_eq!(
        run_duty(&journal, START_MS + 1).await,
        7,
        "there was such a server a moment ago"
    );
    assert_eq!(run_duty(&journal, START_MS + 2).await, 0);
    forget().await;
    assert_eq!(run_duty(&journal, START_MS + 2).await, 0, "nothing is read");
    assert_eq!(run_duty(&journal, START_MS + DAY_MS + 1).await, 0);
    assert_eq!(run_duty(&journal, START_MS + DAY_MS + 2).await, 7);
    assert_eq!(run_duty(&journal, START_MS + DAY_MS + 3).await, 0);
    forget().await;
    assert_eq!(
        run_duty(&journal, START_MS + DAY_MS).await,
        7,
        "the clock was set back"
    );
}

/// The statements of docs/runbooks.md.
#[tokio::test]
async fn the_column_and_the_index_may_be_made_before_by_hand() {
    let filled = PostgresStore::new();
    let journal = filled.open().await;
    fill(&*journal).await;
    journal.close().await;
    let before = before_the_newest(&migrations("migrations/postgres").await);
    let version = *before.iter().rfind(|version| **version < 20).expect("one");
    let url = older_postgres(&filled, version).await;
    let document = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks.md"),
    );
    let document = document.expect("readable");
    let by_hand: Vec<&str> = document
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("later_lane") && line.ends_with(';'))
        .collect();
    assert_eq!(by_hand.len(), 2, "{by_hand:?}");
    let mut connection = connect(&url).await;
    for statement in by_hand {
        run(&mut connection, statement).await;
    }
    let definition = "SELECT indexdef FROM pg_indexes
        WHERE indexname = 'statuses_later' AND schemaname = ANY (current_schemas(FALSE))";
    let shown = async |url: &str| {
        let mut connection = connect(url).await;
        let shown: String = sqlx::query_scalar(definition)
            .fetch_one(&mut connection)
            .await
            .expect("read");
        let (_, columns) = shown.split_once(" USING ").expect("a definition");
        columns.to_string()
    };
    let made = shown(&url).await;
    assert_eq!(
        made,
        shown(&filled.url).await,
        "it is that of the migration"
    );
    let journal = PostgresJournal::open(&url, INSTANCE, true).await;
    let journal = journal.expect("it migrates");
    assert_eq!(shown(&url).await, made);
    let mut cursor = Some(Cursor {
        at_ms: START_MS,
        row: i64::MAX,
    });
    let mut entered = 0;
    while let Some(from) = cursor {
        let (many, next) = journal.fill_in_later(from, 500).await.expect("entered");
        (entered, cursor) = (entered + many, next);
    }
    assert_eq!(entered, 2_040);
    assert_eq!(
        journal.later_lanes(None, 100).await.expect("read").len(),
        41
    );
    journal.close().await;
}
