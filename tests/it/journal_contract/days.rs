//! Reading all that was registered in a span of time.

use super::Store;
use super::samples::{
    START_MS, apply, delivery, do_change, failure, find, keep, key, recording, refusal,
    registering_at, registration,
};
use ringback::domain::attempt::Outcome;
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::endpoint_name::EndpointName;
use ringback::domain::key::Key;
use ringback::domain::lane::Lane;
use ringback::domain::notification::{Notification, Registration, Target};
use ringback::domain::order::{OrderMode, OrderPlace};
use ringback::domain::progress::Progress;
use ringback::domain::state::{Cause, State};
use ringback::journal::{
    DayAttempt, DayNotification, DayReading, DaySelection, Journal, JournalCounts, Prune,
    RegisterResult, UnreadableNotification,
};
use std::sync::Arc;

const DAY_MS: i64 = 86_400_000;

/// The day that begins at [`START_MS`].
fn day() -> DaySelection {
    DaySelection {
        from_ms: START_MS,
        until_ms: START_MS + DAY_MS,
        topic: None,
        lane: None,
    }
}

async fn one(journal: &dyn Journal, id: &str, at_ms: i64) -> (Arc<Notification>, Progress) {
    let given = registering_at(registration(key(id)), START_MS + at_ms);
    let progress = given.progress;
    (keep(journal, given).await, progress)
}

/// Reads a day to its end, in pages of this length.
async fn rest(reading: &mut dyn DayReading, limit: usize) -> Vec<DayNotification> {
    let mut all = Vec::new();
    while let Some(page) = reading.page(limit).await.expect("read") {
        assert!(page.items.len() <= limit);
        assert_eq!(page.unreadable, []);
        all.extend(page.items);
    }
    all
}

async fn read(journal: &dyn Journal, selection: &DaySelection) -> Vec<DayNotification> {
    let mut reading = journal.read_day(selection).await.expect("begun");
    let counts = reading.counts().await.expect("counted");
    let all = rest(reading.as_mut(), 100).await;
    reading.end().await;
    let of = |state| all.iter().filter(|item| item.state == state).count() as u64;
    let expected = JournalCounts {
        registered: all.len() as u64,
        scheduled: of(State::Scheduled),
        delivered: of(State::Delivered),
        dead: of(State::Dead),
        cancelled: of(State::Cancelled),
    };
    assert_eq!(counts, expected);
    all
}

fn ids(all: &[DayNotification]) -> Vec<&str> {
    all.iter().map(|item| item.key.id()).collect()
}

pub async fn a_day_has_all_that_was_registered_in_it_with_its_end(store: &dyn Store) {
    let journal = store.open().await;
    let journal = &*journal;
    one(journal, "the day before", -1).await;
    let (delivered, start) = one(journal, "delivered", 0).await;
    apply(journal, failure(&delivered, start)).await;
    let second = find(journal, &delivered.key).await.progress;
    let acknowledged = delivery(&delivered, second);
    apply(journal, acknowledged.clone()).await;
    let (dead, start) = one(journal, "dead", 1).await;
    apply(journal, refusal(&dead, start)).await;
    let (discarded, start) = one(journal, "discarded", 2).await;
    apply(journal, refusal(&discarded, start)).await;
    do_change(
        journal,
        &discarded.key,
        Change::Discard,
        START_MS + 2 * DAY_MS,
    )
    .await;
    let (cancelled, _) = one(journal, "cancelled", 3).await;
    do_change(journal, &cancelled.key, Change::Cancel, START_MS + 500).await;
    let (replayed, start) = one(journal, "replayed", 4).await;
    apply(journal, refusal(&replayed, start)).await;
    do_change(journal, &replayed.key, Change::Replay, START_MS + DAY_MS).await;
    let (interrupted, start) = one(journal, "interrupted", 5).await;
    apply(
        journal,
        recording(&interrupted, start, Outcome::Interrupted, None),
    )
    .await;
    for number in [1, 2] {
        let ordered = Registration {
            order: Some(OrderPlace::new("o", number, OrderMode::Latest).expect("a place")),
            ..registration(key(&format!("order-{number}")))
        };
        let registering = registering_at(ordered, START_MS + 5 + number);
        let replies = journal.register(&[registering]).await.expect("kept");
        match (number, &replies[..]) {
            (1, [RegisterResult::Created]) | (2, [RegisterResult::CreatedOver(_)]) => {}
            (_, replies) => panic!("{number}: {replies:?}"),
        }
    }
    one(journal, "the last", DAY_MS - 1).await;
    one(journal, "the day after", DAY_MS).await;

    let all = read(journal, &day()).await;
    let expected = [
        "delivered",
        "dead",
        "discarded",
        "cancelled",
        "replayed",
        "interrupted",
        "order-1",
        "order-2",
        "the last",
    ];
    assert_eq!(ids(&all), expected);
    for item in &all {
        let snapshot = find(journal, &item.key).await;
        let progress = snapshot.progress;
        let last = snapshot.attempts.last().map(|last| DayAttempt {
            outcome: last.answer.outcome,
            status: last.answer.status,
            started_ms: last.started_ms,
            duration_ms: last.duration_ms,
        });
        let shown = DayNotification {
            webhook_id: snapshot.webhook_id,
            next_due_ms: snapshot.next_due_ms(),
            is_discarded: item.key.id() == "discarded",
            key: snapshot.key,
            lane: snapshot.lane,
            destination: snapshot.destination,
            state: snapshot.state,
            cause: snapshot.cause,
            registered_ms: snapshot.registered_ms,
            first_due_ms: progress.first_due_ms,
            deadline_ms: progress.deadline_ms,
            ended_ms: snapshot.ended_ms,
            series: progress.series,
            attempts: progress.attempts,
            last_attempt: last,
        };
        assert_eq!(*item, shown);
    }
    let by_id = |id: &str| all.iter().find(|item| item.key.id() == id).expect(id);
    assert_eq!(by_id("delivered").ended_ms, Some(acknowledged.at_ms));
    assert_eq!(by_id("delivered").attempts, 2);
    assert_eq!(by_id("dead").cause, Some(Cause::Refused));
    assert_eq!(by_id("discarded").state, State::Cancelled);
    assert_eq!(by_id("discarded").ended_ms, Some(START_MS + 2 * DAY_MS));
    assert_eq!(
        (by_id("replayed").state, by_id("replayed").series),
        (State::Scheduled, 2)
    );
    assert_eq!(by_id("order-1").cause, Some(Cause::Superseded));
    assert_eq!(by_id("the last").last_attempt, None);
}

pub async fn a_day_is_read_as_of_one_instant(store: &dyn Store) {
    let journal = store.open().await;
    let journal = &*journal;
    let mut starts = Vec::new();
    for number in 0..5 {
        starts.push(one(journal, &number.to_string(), number).await);
    }
    let mut reading = journal.read_day(&day()).await.expect("begun");
    let first = reading.page(2).await.expect("read").expect("a page");
    assert_eq!(ids(&first.items), ["0", "1"]);
    for (notification, start) in &starts {
        apply(journal, delivery(notification, *start)).await;
    }
    one(journal, "late", 3).await;
    let others = rest(reading.as_mut(), 2).await;
    assert_eq!(ids(&others), ["2", "3", "4"]);
    assert!(others.iter().all(|item| item.state == State::Scheduled));
    let counts = reading.counts().await.expect("counted");
    assert_eq!((counts.registered, counts.scheduled), (5, 5));
    reading.end().await;
    let now = read(journal, &day()).await;
    assert_eq!(ids(&now), ["0", "1", "2", "3", "late", "4"]);
}

pub async fn pages_of_a_day_follow_on_each_other(store: &dyn Store) {
    let journal = store.open().await;
    // Many of one millisecond, as a batch has them.
    let batch: Vec<_> = (0..25)
        .map(|number| {
            registering_at(
                registration(key(&format!("{number:02}"))),
                START_MS + number / 9,
            )
        })
        .collect();
    journal.register(&batch).await.expect("kept");
    for limit in [1, 5, 8, 24, 25, 26] {
        let mut reading = journal.read_day(&day()).await.expect("begun");
        let all = rest(reading.as_mut(), limit).await;
        reading.end().await;
        let registered: Vec<i64> = all.iter().map(|item| item.registered_ms).collect();
        assert!(registered.is_sorted(), "{limit}");
        let mut ids = ids(&all);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((all.len(), ids.len()), (25, 25), "{limit}");
        // The same again, and in the same order.
        assert_eq!(all, read(&*journal, &day()).await, "{limit}");
    }
    let empty = DaySelection {
        from_ms: START_MS + DAY_MS,
        until_ms: START_MS + 2 * DAY_MS,
        ..day()
    };
    assert_eq!(read(&*journal, &empty).await, []);
}

pub async fn a_day_of_a_topic_and_of_an_endpoint_has_those_alone(store: &dyn Store) {
    let journal = store.open().await;
    let shop = EndpointName::parse("shop").expect("a name");
    let url = |text: &str| Destination::parse(text).expect("a URL");
    let targets = [
        Target::Url(url("https://shop.example/n")),
        Target::Endpoint(shop.clone(), None),
    ];
    for (number, target) in targets.into_iter().enumerate() {
        for topic in ["refund", "pay"] {
            for at_ms in [-1, 7, DAY_MS] {
                let registration = Registration {
                    target: target.clone(),
                    ..registration(Key::new(topic, &format!("{number} {at_ms}")).expect("a key"))
                };
                keep(&*journal, registering_at(registration, START_MS + at_ms)).await;
            }
        }
    }
    let check = async |topic: Option<&str>, lane: Option<Lane>, expected: &[&str]| {
        let selection = DaySelection {
            topic: topic.map(str::to_string),
            lane,
            ..day()
        };
        let all = read(&*journal, &selection).await;
        let mut keys: Vec<&str> = all.iter().map(|item| item.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, expected, "{selection:?}");
    };
    let lane = Lane::of_endpoint(&shop);
    check(
        None,
        None,
        &["pay/0 7", "pay/1 7", "refund/0 7", "refund/1 7"],
    )
    .await;
    check(Some("pay"), None, &["pay/0 7", "pay/1 7"]).await;
    check(None, Some(lane.clone()), &["pay/1 7", "refund/1 7"]).await;
    check(Some("pay"), Some(lane), &["pay/1 7"]).await;
    check(Some("pa"), None, &[]).await;
    check(None, Some(Lane::from_name("endpoint:sho")), &[]).await;
}

pub async fn what_cannot_be_read_is_named_and_counted(store: &dyn Store) {
    let journal = store.open().await;
    for (number, id) in ["a", "damaged", "b"].into_iter().enumerate() {
        one(&*journal, id, number as i64).await;
    }
    journal.close().await;
    drop(journal);
    let damage = "UPDATE notifications SET topic = 'no topic' WHERE id = 'damaged'";
    store.damage(damage).await;
    let journal = store.open().await;
    let mut reading = journal.read_day(&day()).await.expect("begun");
    let counts = reading.counts().await.expect("counted");
    assert_eq!((counts.registered, counts.scheduled), (3, 3));
    let page = reading.page(10).await.expect("read").expect("a page");
    assert_eq!(ids(&page.items), ["a", "b"]);
    let [UnreadableNotification { name, problem }] = &page.unreadable[..] else {
        panic!("{:?}", page.unreadable);
    };
    assert_eq!(name, "no topic/damaged");
    assert!(problem.contains("is not a valid key"), "{problem}");
    reading.end().await;
}

pub async fn it_is_known_up_to_when_a_day_may_lack_something(store: &dyn Store) {
    let journal = store.open().await;
    let journal = &*journal;
    let pruned = async || {
        let reading = journal.read_day(&day()).await.expect("begun");
        let pruned = reading.pruned();
        reading.end().await;
        pruned.after(START_MS)
    };
    let mut prune = Prune {
        payloads_before_ms: i64::MIN,
        records_before_ms: START_MS + 100,
        dead_before_ms: Some(START_MS + 100),
    };
    journal.prune(&prune, 10).await.expect("pruned");
    assert_eq!(pruned().await, None);
    // One of the day before, of which the day lacks nothing.
    let (before, start) = one(journal, "before", -DAY_MS).await;
    apply(journal, delivery(&before, start)).await;
    journal.prune(&prune, 10).await.expect("pruned");
    assert_eq!(pruned().await, None);
    let (dead, start) = one(journal, "dead", 0).await;
    let parked = refusal(&dead, start);
    apply(journal, parked.clone()).await;
    prune.dead_before_ms = Some(parked.at_ms + 1);
    assert_eq!(journal.prune(&prune, 10).await.expect("pruned").records, 1);
    assert_eq!(pruned().await, Some(parked.at_ms + 1));
    let (delivered, start) = one(journal, "delivered", 200).await;
    let end = delivery(&delivered, start);
    apply(journal, end.clone()).await;
    prune.records_before_ms = end.at_ms + 1;
    prune.dead_before_ms = None;
    assert_eq!(journal.prune(&prune, 10).await.expect("pruned").records, 1);
    assert_eq!(pruned().await, Some(end.at_ms));
    assert_eq!(read(journal, &day()).await, []);
}
