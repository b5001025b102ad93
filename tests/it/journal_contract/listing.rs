//! Lists: filters, order, pages.

use super::Store;
use super::samples::{
    START_MS, apply, delivery, do_change, failure, find, keep, key as samples_key, recording,
    refusal, registering_at, registration,
};
use ringback::domain::attempt::{Answer, Attempt, Outcome};
use ringback::domain::call_trace::CallTrace;
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::key::Key;
use ringback::domain::notification::{Registration, Start, Target};
use ringback::domain::state::{Cause, State};
use ringback::journal::{Filter, Journal, Order};
use std::sync::Arc;

const LANES: [&str; 2] = ["https://shop.example", "http://other.example:8080"];
const TOPICS: [&str; 2] = ["payment.succeeded", "order.closed"];

/// One notification per topic, lane and end; each a second after the one before. Their ids are
/// `topic-lane-end`, the ends one of these.
const ENDS: [&str; 5] = ["scheduled", "delivered", "cancelled", "refused", "blocked"];

async fn filled(store: &dyn Store) -> Arc<dyn Journal> {
    let journal = store.open().await;
    let mut now_ms = START_MS;
    for (topic_number, topic) in TOPICS.iter().enumerate() {
        for (lane_number, lane) in LANES.iter().enumerate() {
            for end in ENDS {
                let key = Key::new(topic, &format!("{topic_number}-{lane_number}-{end}"));
                let given = Registration {
                    target: Target::Url(
                        Destination::parse(&format!("{lane}/notify")).expect("a url"),
                    ),
                    ..registration(key.expect("a key"))
                };
                let given = registering_at(given, now_ms);
                let progress = given.progress;
                let notification = keep(&*journal, given).await;
                match end {
                    "scheduled" => {}
                    "delivered" => apply(&*journal, delivery(&notification, progress)).await,
                    "refused" => apply(&*journal, refusal(&notification, progress)).await,
                    "blocked" => {
                        let end = recording(&notification, progress, Outcome::Blocked, None);
                        apply(&*journal, end).await;
                    }
                    _ => {
                        do_change(&*journal, &notification.key, Change::Cancel, now_ms + 20).await;
                    }
                }
                now_ms += 1_000;
            }
        }
    }
    journal
}

pub async fn the_last_attempt_of_each_is_read(store: &dyn Store) {
    let journal = store.open().await;
    let journal = &*journal;
    let keep = async |id: &str| {
        let given = registering_at(registration(samples_key(id)), START_MS);
        let progress = given.progress;
        (keep(journal, given).await, progress)
    };
    let (twice, progress) = keep("twice").await;
    apply(journal, failure(&twice, progress)).await;
    let progress = find(journal, &twice.key).await.progress;
    apply(journal, refusal(&twice, progress)).await;
    let (never, _) = keep("never").await;
    let (interrupted, progress) = keep("interrupted").await;
    let broken_off = recording(&interrupted, progress, Outcome::Interrupted, None);
    apply(journal, broken_off).await;
    // More than one statement of SQLite takes.
    let mut keys = vec![
        interrupted.key.clone(),
        samples_key("unknown"),
        never.key.clone(),
        twice.key.clone(),
    ];
    keys.extend((0..200).map(|number| samples_key(&number.to_string())));
    let last = journal.last_attempts(&keys).await.expect("read");
    assert_eq!(last.len(), keys.len());
    let told = |attempt: &Attempt| {
        let answer = &attempt.answer;
        (
            attempt.number,
            answer.outcome,
            answer.status,
            answer.reason.clone(),
        )
    };
    let told: Vec<_> = last.iter().map(|last| last.as_ref().map(told)).collect();
    let reason = |outcome: Outcome| format!("it was {outcome}");
    let interrupted = (1, Outcome::Interrupted, None, reason(Outcome::Interrupted));
    let refused = (
        2,
        Outcome::HttpStatus,
        Some(410),
        reason(Outcome::HttpStatus),
    );
    assert_eq!(told[..4], [Some(interrupted), None, None, Some(refused)]);
    assert!(told[4..].iter().all(Option::is_none));
    let of_twice = last[3].as_ref().expect("an attempt");
    let whole = find(journal, &twice.key)
        .await
        .attempts
        .pop()
        .expect("an attempt");
    let without_answer = Attempt {
        answer: Answer {
            body: Vec::new(),
            ..whole.answer
        },
        trace: CallTrace::default(),
        ..whole
    };
    assert_eq!(*of_twice, without_answer);
    assert_eq!(journal.last_attempts(&[]).await.expect("read"), []);
}

async fn ids(journal: &dyn Journal, filter: &Filter, order: Order, limit: usize) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = journal
            .list(filter, order, cursor, limit)
            .await
            .expect("read");
        assert!(page.items.len() <= limit);
        ids.extend(page.items.iter().map(|item| item.key.id().to_string()));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return ids,
        }
    }
}

/// What the filter must pick, newest first.
fn expected(filter: &Filter, order: Order) -> Vec<String> {
    let mut picked = Vec::new();
    for (topic_number, topic) in TOPICS.iter().enumerate() {
        for (lane_number, lane) in LANES.iter().enumerate() {
            for end in ENDS {
                let (state, cause) = match end {
                    "scheduled" => (State::Scheduled, None),
                    "delivered" => (State::Delivered, None),
                    "cancelled" => (State::Cancelled, None),
                    "refused" => (State::Dead, Some(Cause::Refused)),
                    _ => (State::Dead, Some(Cause::Blocked)),
                };
                let picks = filter
                    .topic
                    .as_deref()
                    .is_none_or(|wanted| wanted == *topic)
                    && filter.lane.as_deref().is_none_or(|wanted| wanted == *lane)
                    && filter.state.is_none_or(|wanted| wanted == state)
                    && filter.cause.is_none_or(|wanted| Some(wanted) == cause)
                    && match order {
                        Order::Registered => true,
                        Order::Ended => state != State::Scheduled,
                        // Each is due when it is registered.
                        Order::Due => state == State::Scheduled,
                    };
                if picks {
                    picked.push(format!("{topic_number}-{lane_number}-{end}"));
                }
            }
        }
    }
    picked.reverse();
    picked
}

pub async fn each_filter_picks_its_own(store: &dyn Store) {
    let journal = filled(store).await;
    let one_of = |texts: [&str; 2]| [None, Some(texts[0].to_string()), Some(texts[1].to_string())];
    let states = State::ALL.iter().copied().map(Some).chain([None]);
    for state in states {
        for cause in [None, Some(Cause::Refused), Some(Cause::WindowClosed)] {
            for lane in one_of(LANES) {
                for topic in one_of(TOPICS) {
                    for order in [Order::Registered, Order::Ended, Order::Due] {
                        let filter = Filter {
                            topic: topic.clone(),
                            state,
                            lane: lane.clone(),
                            cause,
                            ..Filter::default()
                        };
                        let found = ids(&*journal, &filter, order, 3).await;
                        assert_eq!(found, expected(&filter, order), "{filter:?} {order:?}");
                    }
                }
            }
        }
    }
}

pub async fn times_include_their_start_and_not_their_end(store: &dyn Store) {
    let journal = filled(store).await;
    let all = expected(&Filter::default(), Order::Registered);
    // Registered a second apart; those that ended did so 20 ms later.
    for (order, late_ms) in [(Order::Registered, 0), (Order::Ended, 20)] {
        let within = |from_ms, to_ms| Filter {
            from_ms: Some(START_MS + late_ms + from_ms),
            to_ms: Some(START_MS + late_ms + to_ms),
            ..Filter::default()
        };
        let check = async |from_ms, to_ms, expected: &[&String]| {
            let found = ids(&*journal, &within(from_ms, to_ms), order, 2).await;
            assert_eq!(
                found.iter().collect::<Vec<_>>(),
                expected,
                "{from_ms}..{to_ms}"
            );
        };
        let oldest: Vec<&String> = all.iter().rev().collect();
        check(1_000, 3_000, &[oldest[2], oldest[1]]).await;
        check(1_000, 2_999, &[oldest[2], oldest[1]]).await;
        check(1_001, 3_001, &[oldest[3], oldest[2]]).await;
        check(2_000, 2_000, &[]).await;
        check(3_000, 1_000, &[]).await;
    }
}

pub async fn lists_are_sorted_newest_first(store: &dyn Store) {
    let journal = store.open().await;
    let mut notifications = Vec::new();
    for (id, at_ms) in [("middle", 20), ("oldest", 10), ("newest", 30), ("same", 30)] {
        let key = Key::new("t", id).expect("a key");
        let given = registering_at(registration(key), START_MS + at_ms);
        let progress = given.progress;
        notifications.push((keep(&*journal, given).await, progress));
    }
    let list = async |order| ids(&*journal, &Filter::default(), order, 3).await;
    assert_eq!(
        list(Order::Registered).await,
        ["same", "newest", "middle", "oldest"]
    );
    assert_eq!(list(Order::Ended).await, Vec::<String>::new());
    for (number, end_ms) in [(3, 5), (0, 15), (1, 25)] {
        let (notification, progress) = &notifications[number];
        let mut end = delivery(notification, *progress);
        end.at_ms = START_MS + 1_000 + end_ms;
        apply(&*journal, end).await;
    }
    assert_eq!(list(Order::Ended).await, ["oldest", "middle", "same"]);
}

pub async fn what_is_due_is_sorted_by_when_it_became_due(store: &dyn Store) {
    let journal = store.open().await;
    for (id, delay_ms) in [
        ("later", 300),
        ("first", 100),
        ("second", 200),
        ("third", 200),
    ] {
        let mut given = registration(Key::new("t", id).expect("a key"));
        given.start = Start::After(delay_ms);
        keep(&*journal, registering_at(given, START_MS)).await;
    }
    let due_before = async |to_ms: i64| {
        let filter = Filter {
            to_ms: Some(START_MS + to_ms),
            ..Filter::default()
        };
        ids(&*journal, &filter, Order::Due, 1).await
    };
    assert_eq!(due_before(100).await, Vec::<String>::new());
    assert_eq!(due_before(101).await, ["first"]);
    assert_eq!(due_before(300).await, ["third", "second", "first"]);
    // An attempt that is asked for by hand is due at once.
    let later = Key::new("t", "later").expect("a key");
    do_change(&*journal, &later, Change::Retry, START_MS + 150).await;
    assert_eq!(due_before(200).await, ["later", "first"]);
    let cancelled = Key::new("t", "first").expect("a key");
    do_change(&*journal, &cancelled, Change::Cancel, START_MS + 150).await;
    assert_eq!(due_before(200).await, ["later"]);
}

pub async fn pages_follow_on_each_other_whatever_is_registered_meanwhile(store: &dyn Store) {
    let journal = store.open().await;
    let add = async |id: String, at_ms| {
        let key = Key::new("t", &id).expect("a key");
        keep(
            &*journal,
            registering_at(registration(key), START_MS + at_ms),
        )
        .await;
    };
    // Five share each instant, so that pages end within one.
    for number in 0..50 {
        add(format!("{number:02}"), number / 5).await;
    }
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = journal
            .list(&Filter::default(), Order::Registered, cursor, 7)
            .await
            .expect("read");
        seen.extend(page.items.iter().map(|item| item.key.id().to_string()));
        add(format!("later-{pages}"), 1_000 + pages).await;
        pages += 1;
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let newest_first: Vec<String> = (0..50).rev().map(|number| format!("{number:02}")).collect();
    assert_eq!(seen, newest_first);
    assert_eq!(pages, 8);
}

pub async fn an_impossible_filter_gives_an_empty_list(store: &dyn Store) {
    let journal = filled(store).await;
    for (filter, order) in [
        (
            Filter {
                state: Some(State::Delivered),
                cause: Some(Cause::Refused),
                ..Filter::default()
            },
            Order::Registered,
        ),
        (
            Filter {
                state: Some(State::Scheduled),
                ..Filter::default()
            },
            Order::Ended,
        ),
        (
            Filter {
                topic: Some("x' OR '1' = '1".into()),
                ..Filter::default()
            },
            Order::Registered,
        ),
    ] {
        let page = journal.list(&filter, order, None, 10).await.expect("read");
        assert!(page.items.is_empty() && page.next.is_none(), "{filter:?}");
    }
}
