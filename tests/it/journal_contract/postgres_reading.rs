//! What holds of PostgreSQL alone: how much it reads for what is asked, counted by PostgreSQL itself.
//! A plan that reads more than that would be found out by time alone, in production.

use super::samples::{
    START_MS, apply, changing, delivery, keep, key, refusal, registering, registering_at,
    registration,
};
use super::searching::made_at;
use super::{PostgresStore, Store};
use crate::support::postgres::{connect, run};
use crate::support::{short_pause, within};
use ringback::domain::activity::ActivityCounts;
use ringback::domain::body::Body;
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::headers::Headers;
use ringback::domain::job::JobSelection;
use ringback::domain::job_filter::{FilteredSelection, JobFilter};
use ringback::domain::key::Key;
use ringback::domain::lane::Lane;
use ringback::domain::notification::{Registration, Target};
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::state::{Cause, State};
use ringback::journal::{
    Actor, DaySelection, Filter, Journal, Order, PageBodies, Recorded, Registering, SettingAside,
};
use sqlx::Connection as _;
use std::sync::Arc;

/// Closes a journal and says how many rows of the tables were read since the last time.
pub async fn rows_read(store: &PostgresStore, journal: Arc<dyn Journal>) -> i64 {
    journal.close().await;
    let mut beside = connect(&store.url).await;
    // Sessions report what they read when they end.
    let ended = async {
        loop {
            let sessions: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'ringback'",
            )
            .fetch_one(&mut beside)
            .await
            .expect("read");
            if sessions == 0 {
                return;
            }
            short_pause().await;
        }
    };
    within("the sessions to end", ended).await;
    let read = sqlx::query_scalar(
        "SELECT (sum(idx_tup_fetch) + sum(seq_tup_read))::BIGINT FROM pg_stat_user_tables
         WHERE relname IN ('notifications', 'statuses', 'activity') OR relname LIKE 'payloads%' OR relname LIKE 'attempts%'",
    )
    .fetch_one(&mut beside)
    .await
    .expect("read");
    run(&mut beside, "SELECT pg_stat_reset()").await;
    read
}

#[tokio::test]
async fn a_group_reads_no_more_than_it_writes_whatever_the_planner_believes() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    keep(&*journal, registering("first")).await;
    // As far as the planner knows, there is a single notification, and it is not scheduled.
    let change = changing(&key("first"), Change::Cancel, START_MS);
    journal.change(change).await.expect("applied");
    run(&mut connect(&store.url).await, "ANALYZE").await;
    let batch: Vec<_> = (0..5_000).map(|id| registering(&id.to_string())).collect();
    for part in batch.chunks(250) {
        journal.register(part).await.expect("kept");
    }
    for part in batch[..500].chunks(250) {
        let recordings: Vec<_> = part
            .iter()
            .map(|one| delivery(&one.notification, one.progress))
            .collect();
        let replies = journal.record(&recordings).await.expect("kept");
        assert!(replies.iter().all(|reply| *reply == Recorded::Applied));
    }
    let read = rows_read(&store, journal).await;
    assert!(read < 5_000, "{read} rows were read");
}

#[tokio::test]
async fn numbers_that_come_downwards_read_no_more_than_they_write_whatever_the_planner_believes() {
    for mode in [OrderMode::Latest, OrderMode::Strict] {
        let store = PostgresStore::new();
        let journal = store.open().await;
        let ordered = |number: i64| {
            let ordered = Registration {
                order: Some(OrderPlace::new("o", number, mode).expect("a place")),
                ..registration(key(&number.to_string()))
            };
            registering_at(ordered, START_MS)
        };
        keep(&*journal, ordered(2_000)).await;
        run(&mut connect(&store.url).await, "ANALYZE").await;
        let batch: Vec<_> = (0..500).rev().map(ordered).collect();
        for part in batch.chunks(50) {
            journal.register(part).await.expect("kept");
        }
        let read = rows_read(&store, journal).await;
        assert!(read < 10 * 500, "{mode}: {read} rows were read");
    }
}

/// 3,000 that were delivered, to one lane under one topic, and after every hundredth of them one of
/// each other kind.
async fn fill(journal: &dyn Journal) {
    for number in 0..30 {
        let at_ms = START_MS + number * 1_000;
        let common: Vec<_> = (0..100)
            .map(|id| registering_at(registration(key(&format!("{number}-{id}"))), at_ms))
            .collect();
        journal.register(&common).await.expect("kept");
        let delivered: Vec<_> = common
            .iter()
            .map(|one| delivery(&one.notification, one.progress))
            .collect();
        journal.record(&delivered).await.expect("kept");
        let other = Registration {
            target: Target::Url(Destination::parse("https://rare.example/").expect("a url")),
            ..registration(Key::new("rare", &format!("{number}-rare")).expect("a key"))
        };
        keep(journal, registering_at(other, at_ms + 1)).await;
        let dead = registering_at(registration(key(&format!("{number}-dead"))), at_ms + 2);
        let progress = dead.progress;
        let dead = keep(journal, dead).await;
        apply(journal, refusal(&dead, progress)).await;
        let cancelled = registering_at(registration(key(&format!("{number}-off"))), at_ms + 3);
        let cancelled = keep(journal, cancelled).await;
        let change = changing(&cancelled.key, Change::Cancel, at_ms + 4);
        journal.change(change).await.expect("applied");
    }
}

#[tokio::test]
async fn a_list_reads_no_more_than_it_shows_whatever_the_planner_believes() {
    let store = PostgresStore::new();
    fill(&*store.open().await).await;
    let of = |state, topic: &str, lane: &str| Filter {
        state,
        topic: Some(topic.to_string()).filter(|topic| !topic.is_empty()),
        lane: Some(lane.to_string()).filter(|lane| !lane.is_empty()),
        ..Filter::default()
    };
    let (rare, common) = ("https://rare.example", "https://shop.example");
    let refused = Filter {
        cause: Some(Cause::Refused),
        ..Filter::default()
    };
    for analysed in [false, true] {
        if analysed {
            run(&mut connect(&store.url).await, "ANALYZE").await;
        }
        for (filter, order) in [
            (of(None, "", ""), Order::Registered),
            (of(None, "", ""), Order::Ended),
            (of(None, "rare", ""), Order::Registered),
            (of(None, "payment.succeeded", ""), Order::Registered),
            (of(None, "", rare), Order::Registered),
            (of(None, "", common), Order::Registered),
            (of(Some(State::Scheduled), "", ""), Order::Registered),
            (of(Some(State::Dead), "", ""), Order::Registered),
            (of(Some(State::Dead), "", ""), Order::Ended),
            (of(Some(State::Cancelled), "", ""), Order::Registered),
            (of(Some(State::Cancelled), "", ""), Order::Ended),
            (of(Some(State::Delivered), "", ""), Order::Ended),
            (refused.clone(), Order::Ended),
            (of(None, "", ""), Order::Due),
        ] {
            let journal = store.open().await;
            rows_read(&store, journal).await;
            let journal = store.open().await;
            let page = journal.list(&filter, order, None, 20).await.expect("read");
            assert_eq!(page.items.len(), 20, "{filter:?} {order:?}");
            let read = rows_read(&store, journal).await;
            // Two tables, one row more than is shown, and those of delivered ones in between.
            assert!(read < 70, "{read} rows for {filter:?} {order:?}");
        }
    }
}

/// Metrics ask for it every few seconds, whatever is in the journal.
#[tokio::test]
async fn what_is_due_longest_is_found_in_few_rows_whatever_the_planner_believes() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    fill(&*journal).await;
    // What is set aside does not count, and is stepped over.
    let first = Key::new("rare", "0-rare").expect("a key");
    let setting = SettingAside {
        key: first,
        at_ms: START_MS,
        reason: "damage".to_string(),
    };
    journal.set_aside(&setting).await.expect("set aside");
    rows_read(&store, journal).await;
    for analysed in [false, true] {
        if analysed {
            run(&mut connect(&store.url).await, "ANALYZE").await;
        }
        let journal = store.open().await;
        rows_read(&store, journal).await;
        let journal = store.open().await;
        let oldest_ms = journal.oldest_due().await.expect("read");
        assert_eq!(oldest_ms, Some(START_MS + 1_001));
        let read = rows_read(&store, journal).await;
        assert!(read < 10, "{read} rows");
    }
}

#[tokio::test]
async fn a_search_reads_little_more_than_it_finds_whatever_the_planner_believes() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    fill(&*journal).await;
    let made = made_at(START_MS + 15_000);
    let (notification, progress) =
        registration(key("sought")).accept(made, START_MS + 15_000, None);
    let sought = Registering {
        notification: Arc::new(notification),
        progress,
        actor: Actor::named("orders"),
    };
    keep(&*journal, sought).await;
    rows_read(&store, journal).await;
    let text = |text: &str| Some(text.to_string());
    let ids = |id: Option<String>, id_prefix: Option<String>, topic: Option<String>| Filter {
        id,
        id_prefix,
        topic,
        ..Filter::default()
    };
    let webhook_id = Filter {
        webhook_id: Some(made),
        ..Filter::default()
    };
    let dead_of_lane = Filter {
        state: Some(State::Dead),
        lane: text("https://rare.example"),
        ..Filter::default()
    };
    for analysed in [false, true] {
        if analysed {
            run(&mut connect(&store.url).await, "ANALYZE").await;
        }
        for (filter, found, most) in [
            // Two topics, each looked for three times; and the notification in two tables.
            (ids(text("sought"), None, None), 1, 20),
            (ids(text("nowhere"), None, None), 0, 20),
            (ids(text("sought"), None, text("payment.succeeded")), 1, 5),
            (ids(None, text("sou"), None), 1, 20),
            (ids(None, text("7-9"), None), 11, 50),
            // Eleven in two tables, and once more to see how many there are.
            (ids(None, text("7-9"), text("payment.succeeded")), 11, 40),
            // Those that were registered in the same second.
            (webhook_id.clone(), 1, 120),
            // Those of the lane, in two tables, and once more to see how many there are.
            (dead_of_lane.clone(), 0, 100),
        ] {
            let journal = store.open().await;
            rows_read(&store, journal).await;
            let journal = store.open().await;
            let page = journal.list(&filter, Order::Registered, None, 20).await;
            assert_eq!(page.expect("read").items.len(), found, "{filter:?}");
            let read = rows_read(&store, journal).await;
            assert!(read < most, "{read} rows for {filter:?}");
        }
    }
}

#[tokio::test]
async fn plots_read_no_more_than_their_time_whatever_the_planner_believes() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    for server in ["a", "b"] {
        let minutes = (0..2_000).map(|minute| (minute, ActivityCounts::default()));
        let minutes: Vec<_> = minutes.collect();
        let kept = journal.keep_activity(server, &minutes).await;
        kept.expect("kept");
    }
    rows_read(&store, journal).await;
    for analysed in [false, true] {
        if analysed {
            run(&mut connect(&store.url).await, "ANALYZE").await;
        }
        let journal = store.open().await;
        rows_read(&store, journal).await;
        let journal = store.open().await;
        let read = journal.activity(1_900, 1_960, 1).await.expect("read");
        assert_eq!(read.len(), 60);
        let now = [(2_001, ActivityCounts::default())];
        journal.keep_activity("a", &now).await.expect("kept");
        let read = rows_read(&store, journal).await;
        assert!(read <= 2 * 60 + 2, "{read} rows");
    }
}

#[tokio::test]
async fn a_page_of_a_day_reads_no_more_than_it_gives_whatever_the_planner_believes() {
    let store = PostgresStore::new();
    fill(&*store.open().await).await;
    let of = |topic: Option<&str>, lane: Option<&str>| DaySelection {
        from_ms: START_MS,
        until_ms: START_MS + 86_400_000,
        topic: topic.map(str::to_string),
        lane: lane.map(Lane::from_name),
    };
    for analysed in [false, true] {
        if analysed {
            run(&mut connect(&store.url).await, "ANALYZE").await;
        }
        for selection in [
            of(None, None),
            of(Some("rare"), None),
            of(Some("payment.succeeded"), None),
            of(None, Some("https://rare.example")),
            of(Some("payment.succeeded"), Some("https://shop.example")),
        ] {
            let journal = store.open().await;
            rows_read(&store, journal).await;
            let journal = store.open().await;
            let mut reading = journal.read_day(&selection).await.expect("begun");
            let page = reading.page(20).await.expect("read").expect("a page");
            assert_eq!(page.items.len(), 20, "{selection:?}");
            reading.end().await;
            let read = rows_read(&store, journal).await;
            // Three tables.
            assert!(read <= 65, "{read} rows for {selection:?}");
        }
    }
}

#[tokio::test]
async fn a_page_of_what_is_pending_reads_no_more_than_it_gives() {
    let store = PostgresStore::new();
    fill(&*store.open().await).await;
    let journal = store.open().await;
    rows_read(&store, journal).await;
    let journal = store.open().await;
    let (page, _) = journal
        .pending_page(None, i64::MAX, 20, PageBodies::All)
        .await
        .expect("read");
    assert_eq!(page.len(), 20);
    let read = rows_read(&store, journal).await;
    assert!(read <= 70, "{read} rows were read");
    let journal = store.open().await;
    let page = journal.places_page(None, i64::MAX, 20).await.expect("read");
    assert_eq!(page.places.len(), 20);
    let read = rows_read(&store, journal).await;
    // Two tables.
    assert!(read <= 50, "{read} rows were read for places");
}

#[tokio::test]
async fn a_page_of_a_job_reads_little_more_than_it_gives_whatever_the_planner_believes() {
    let store = PostgresStore::new();
    fill(&*store.open().await).await;
    let all = FilteredSelection {
        filter: JobFilter::default(),
        until_ms: START_MS + 1_000_000,
    };
    for analysed in [false, true] {
        if analysed {
            run(&mut connect(&store.url).await, "ANALYZE").await;
        }
        for selection in [
            JobSelection::Dead(all.clone()),
            JobSelection::Pending(all.clone()),
        ] {
            let journal = store.open().await;
            rows_read(&store, journal).await;
            let journal = store.open().await;
            let page = journal.job_page(&selection, None, 20).await.expect("read");
            assert_eq!(page.found.len(), 20, "{selection:?}");
            let read = rows_read(&store, journal).await;
            // Two tables, and once more all 30 in one of them, to see whether there is a next page.
            assert!(read <= 100, "{read} rows for {selection:?}");
        }
    }
}

#[tokio::test]
async fn a_filter_that_little_passes_gives_short_pages_and_misses_nothing() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    let of_topic = |topic: &str, id: &str| registration(Key::new(topic, id).expect("a key"));
    for at_ms in [0, 100_000] {
        let rare = of_topic("rare", &at_ms.to_string());
        keep(&*journal, registering_at(rare, START_MS + at_ms)).await;
    }
    keep(&*journal, registering_at(of_topic("common", "0"), START_MS)).await;
    // 60,000 more of those, a millisecond after each other, in the same lane as the rare ones.
    run(
        &mut connect(&store.url).await,
        "INSERT INTO notifications
         SELECT row_id + (more << 21), topic, id || more, webhook_id, lane, url, ladder, ack,
            content_type, fingerprint, registered_ms + more, actor, instance
         FROM notifications, generate_series(1::BIGINT, 60000) AS more WHERE topic = 'common';
         INSERT INTO statuses (notification, state, series, step, attempts, first_due_ms,
            deadline_ms, due_ms, clamped)
         SELECT row_id, 'scheduled', 1, 0, 0, registered_ms, registered_ms, registered_ms, FALSE
         FROM notifications WHERE topic = 'common' AND id <> '0'",
    )
    .await;
    let filter = Filter {
        topic: Some("rare".to_string()),
        lane: Some("https://shop.example".to_string()),
        ..Filter::default()
    };
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let page = journal.list(&filter, Order::Registered, cursor, 10).await;
        let page = page.expect("read");
        let ids = page.items.iter().map(|item| item.key.id().to_string());
        pages.push(ids.collect::<Vec<_>>());
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, [["100000"], ["0"]]);
}

#[tokio::test]
async fn loading_without_bodies_looks_up_no_payload_but_of_what_has_headers_or_is_old() {
    let store = PostgresStore::new();
    let journal = store.open().await;
    let mut headers = Headers::default();
    headers.insert("X-Shop", "7").expect("allowed");
    let with_headers = |number: u32| Registration {
        headers: headers.clone(),
        ..registration(key(&format!("headers-{number}")))
    };
    let mut batch: Vec<_> = (0..200).map(|id| registering(&id.to_string())).collect();
    batch.extend((0..20).map(|number| registering_at(with_headers(number), START_MS)));
    batch.extend((0..20).map(|number| registering(&format!("old-{number}"))));
    journal.register(&batch).await.expect("kept");
    // As a server of an earlier version writes them. This session is waited for as those of the journal, since it also reports
    // what it read when it ends.
    let mut updating = connect(&store.url).await;
    let old = "SET application_name = 'ringback';
        UPDATE notifications SET body_bytes = NULL WHERE id LIKE 'old-%'";
    run(&mut updating, old).await;
    updating.close().await.expect("closed");
    let mut beside = connect(&store.url).await;
    rows_read(&store, journal).await;
    for analysed in [false, true] {
        if analysed {
            run(&mut beside, "ANALYZE").await;
        }
        let journal = store.open().await;
        let read = journal.pending_page(None, i64::MAX, 1_000, PageBodies::None);
        let (page, _) = read.await.expect("read");
        let read = rows_read(&store, journal).await;
        assert_eq!(page.len(), 240);
        for pending in &page {
            let notification = &pending.notification;
            assert_eq!(
                notification.body,
                Body::InJournal(14),
                "{}",
                notification.key
            );
            let has_headers = notification.key.id().starts_with("headers");
            assert_eq!(notification.headers == headers, has_headers);
        }
        assert!(
            read < 2 * 240 + 40 + 20,
            "{read} rows for 240 and the payloads of 40"
        );
    }
}
