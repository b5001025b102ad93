//! Searches: by an id, the beginning of one, a webhook id, a part of a URL.

use super::Store;
use super::samples::{
    START_MS, apply, delivery, do_change, keep, refusal, registering_at, registration,
};
use ringback::domain::change::Change;
use ringback::domain::destination::Destination;
use ringback::domain::endpoint::EndpointName;
use ringback::domain::key::Key;
use ringback::domain::notification::{Registration, Target};
use ringback::domain::state::{Cause, State};
use ringback::domain::webhook_id::WebhookId;
use ringback::journal::{
    Actor, Cursor, Filter, Journal, MOST_TOPICS, Order, Registering, SnapshotPage, UrlFilter,
};
use std::sync::Arc;
use uuid::{Timestamp, Uuid};

fn key(topic: &str, id: &str) -> Key {
    Key::new(topic, id).expect("a key")
}

fn at(topic: &str, id: &str, at_ms: i64) -> Registering {
    registering_at(registration(key(topic, id)), START_MS + at_ms)
}

fn to(id: &str, target: Target, at_ms: i64) -> Registering {
    let given = Registration {
        target,
        ..registration(key("t", id))
    };
    registering_at(given, START_MS + at_ms)
}

/// A webhook id that was made at this instant.
pub fn made_at(at_ms: i64) -> WebhookId {
    let at_ms = u64::try_from(at_ms).expect("after 1970");
    let nanos = u32::try_from(at_ms % 1_000).expect("small") * 1_000_000;
    let instant = Timestamp::from_unix_time(at_ms / 1_000, nanos, 0, 0);
    WebhookId::new(Uuid::new_v7(instant))
}

fn with_webhook_id(id: &str, webhook_id: WebhookId, registered_ms: i64) -> Registering {
    let (notification, progress) =
        registration(key("t", id)).accept(webhook_id, registered_ms, None);
    Registering {
        notification: Arc::new(notification),
        progress,
        actor: Actor::named("orders"),
    }
}

fn id(id: &str) -> Filter {
    Filter {
        id: Some(id.to_string()),
        ..Filter::default()
    }
}

fn prefix(prefix: &str) -> Filter {
    Filter {
        id_prefix: Some(prefix.to_string()),
        ..Filter::default()
    }
}

fn webhook_id(webhook_id: WebhookId) -> Filter {
    Filter {
        webhook_id: Some(webhook_id),
        ..Filter::default()
    }
}

fn url(part: &str, lanes: &[&str]) -> Filter {
    Filter {
        url: Some(UrlFilter {
            contains: part.to_string(),
            lanes: lanes.iter().map(|lane| (*lane).to_string()).collect(),
        }),
        ..Filter::default()
    }
}

async fn page(
    journal: &dyn Journal,
    filter: &Filter,
    cursor: Option<Cursor>,
    limit: usize,
) -> SnapshotPage {
    let page = journal.list(filter, Order::Registered, cursor, limit).await;
    page.expect("read")
}

/// The keys of all pages.
async fn keys(journal: &dyn Journal, filter: &Filter, order: Order, limit: usize) -> Vec<String> {
    let (mut keys, mut cursor) = (Vec::new(), None);
    loop {
        let page = journal.list(filter, order, cursor, limit).await;
        let page = page.expect("read");
        assert!(page.items.len() <= limit && !page.too_many_topics);
        keys.extend(page.items.iter().map(|item| item.key.to_string()));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return keys,
        }
    }
}

async fn check(journal: &dyn Journal, filter: &Filter, expected: &[&str]) {
    for limit in [1, 2, 100] {
        let found = keys(journal, filter, Order::Registered, limit).await;
        assert_eq!(found, expected, "{filter:?}");
    }
}

/// A dead letter of a lane; its instant of registration and of its end are so many milliseconds after the start.
async fn dead(journal: &dyn Journal, id: &str, host: &str, (at_ms, ended_ms): (i64, i64)) {
    let url = Destination::parse(&format!("https://{host}.example/")).expect("a url");
    let given = to(id, Target::Url(url), at_ms);
    let progress = given.progress;
    let notification = keep(journal, given).await;
    let mut refused = refusal(&notification, progress);
    refused.at_ms = START_MS + ended_ms;
    apply(journal, refused).await;
}

pub async fn dead_letters_of_a_lane_and_of_a_cause_are_found(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    // Those that were registered first died last.
    for (id, host, times) in [
        ("1", "a", (0, 9_000)),
        ("2", "b", (1, 8_000)),
        ("3", "a", (2, 7_000)),
        ("4", "a", (3, 6_000)),
    ] {
        dead(journal, id, host, times).await;
    }
    let url = Destination::parse("https://a.example/").expect("a url");
    keep(journal, to("5", Target::Url(url), 4)).await;
    let of = |lane: &str, cause| Filter {
        state: Some(State::Dead),
        lane: Some(lane.to_string()).filter(|lane| !lane.is_empty()),
        cause,
        ..Filter::default()
    };
    let refused = Some(Cause::Refused);
    for (filter, expected) in [
        (of("https://a.example", None), vec!["t/1", "t/3", "t/4"]),
        (of("https://a.example", refused), vec!["t/1", "t/3", "t/4"]),
        (of("https://a.example", Some(Cause::Blocked)), vec![]),
        (of("https://c.example", None), vec![]),
        (of("", refused), vec!["t/1", "t/2", "t/3", "t/4"]),
        (of("", Some(Cause::Blocked)), vec![]),
    ] {
        for limit in [1, 2, 100] {
            let by_end = keys(journal, &filter, Order::Ended, limit).await;
            assert_eq!(by_end, expected, "{filter:?}");
            let mut by_registration = keys(journal, &filter, Order::Registered, limit).await;
            by_registration.reverse();
            assert_eq!(by_registration, expected, "{filter:?}");
        }
    }
    let since = Filter {
        from_ms: Some(START_MS + 7_000),
        to_ms: Some(START_MS + 9_000),
        ..of("https://a.example", None)
    };
    assert_eq!(keys(journal, &since, Order::Ended, 10).await, ["t/3"]);
}

pub async fn a_page_reads_no_more_than_it_may(store: &dyn Store) {
    let journal = store.open().await;
    let batch: Vec<_> = (0..40)
        .map(|number| at("t", &number.to_string(), number))
        .collect();
    journal.register(&batch).await.expect("kept");
    let filter = Filter {
        id_contains: Some("7".to_string()),
        ..Filter::default()
    };
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let page = journal.list_scanned(&filter, Order::Registered, cursor, 5, 10);
        let page = page.await.expect("read");
        let ids = page.items.iter().map(|item| item.key.id().to_string());
        pages.push(ids.collect::<Vec<_>>());
        // The cursor says how far was read.
        let until = START_MS + 40 - 10 * i64::try_from(pages.len()).expect("small");
        let Some(next) = page.next.filter(|next| next.at_ms >= START_MS) else {
            break;
        };
        assert_eq!(next.at_ms, until);
        cursor = Some(next);
        if pages.len() == 4 {
            break;
        }
    }
    assert_eq!(pages[..4], [["37"], ["27"], ["17"], ["7"]]);
}

pub async fn an_id_is_found_in_every_topic(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    check(journal, &id("order-1"), &[]).await;
    check(journal, &prefix("o"), &[]).await;
    let all = [
        ("b", "order-1"),
        ("a", "order-1"),
        ("a", "order-10"),
        ("c", "order-2"),
        ("Z", "order-1"),
        ("c", "Order-1"),
        ("c", "order"),
        ("c", "order-~"),
    ];
    for (number, (topic, id)) in (0..).zip(all) {
        keep(journal, at(topic, id, number * 1_000)).await;
    }
    // The newest comes first, whatever its topic.
    check(
        journal,
        &id("order-1"),
        &["Z/order-1", "a/order-1", "b/order-1"],
    )
    .await;
    check(journal, &id("order-10"), &["a/order-10"]).await;
    check(journal, &id("order-3"), &[]).await;
    let begun = ["Z/order-1", "a/order-10", "a/order-1", "b/order-1"];
    check(journal, &prefix("order-1"), &begun).await;
    check(journal, &prefix("order-~"), &["c/order-~"]).await;
    check(journal, &prefix("Order"), &["c/Order-1"]).await;
    check(journal, &prefix("order-1000"), &[]).await;
    let containing = |part: &str, filter: Filter| Filter {
        id_contains: Some(part.to_string()),
        ..filter
    };
    let with_part = [
        "c/Order-1",
        "Z/order-1",
        "a/order-10",
        "a/order-1",
        "b/order-1",
    ];
    let any = Filter::default;
    check(journal, &containing("rder-1", any()), &with_part).await;
    check(journal, &containing("r-~", any()), &["c/order-~"]).await;
    check(journal, &containing("%", any()), &[]).await;
    let ten = containing("0", prefix("order-1"));
    check(journal, &ten, &["a/order-10"]).await;
    let both = |topic: &str, filter: Filter| Filter {
        topic: Some(topic.to_string()),
        ..filter
    };
    check(journal, &both("a", id("order-1")), &["a/order-1"]).await;
    check(journal, &both("none", id("order-1")), &[]).await;
    let of_a = ["a/order-10", "a/order-1"];
    check(journal, &both("a", prefix("order")), &of_a).await;
    // A whole id that does not begin with the text.
    let mut neither = id("order-1");
    neither.id_prefix = Some("order-10".to_string());
    check(journal, &neither, &[]).await;
    neither.id_prefix = Some("order-".to_string());
    check(journal, &neither, &["Z/order-1", "a/order-1", "b/order-1"]).await;
}

pub async fn a_search_is_narrowed_by_every_other_filter(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    for (number, id) in (0..).zip(["1", "2", "3", "4"]) {
        keep(journal, at("t", id, number * 1_000)).await;
    }
    let cancelled = key("t", "2");
    do_change(journal, &cancelled, Change::Cancel, START_MS + 5_000).await;
    let given = at("t", "5", 6_000);
    let progress = given.progress;
    let delivered = keep(journal, given).await;
    let delivery = delivery(&delivered, progress);
    journal.record(&[delivery]).await.expect("kept");
    let of = |id: &str| prefix(id);
    let state = |filter: Filter, state| Filter {
        state: Some(state),
        ..filter
    };
    check(journal, &state(of("2"), State::Cancelled), &["t/2"]).await;
    check(journal, &state(of("2"), State::Scheduled), &[]).await;
    check(journal, &state(id("5"), State::Delivered), &["t/5"]).await;
    let lane = |filter: Filter, lane: &str| Filter {
        lane: Some(lane.to_string()),
        ..filter
    };
    check(journal, &lane(of("1"), "https://shop.example"), &["t/1"]).await;
    check(journal, &lane(of("1"), "https://other.example"), &[]).await;
    let within = |filter: Filter, from_ms, to_ms| Filter {
        from_ms: Some(START_MS + from_ms),
        to_ms: Some(START_MS + to_ms),
        ..filter
    };
    check(journal, &within(of("3"), 2_000, 2_001), &["t/3"]).await;
    check(journal, &within(of("3"), 2_001, 9_000), &[]).await;
    check(journal, &within(of("3"), 0, 2_000), &[]).await;
    // By their ends: what has not ended is in no such list.
    let ended = async |filter: &Filter| keys(journal, filter, Order::Ended, 10).await;
    assert_eq!(ended(&of("2")).await, ["t/2"]);
    assert_eq!(ended(&of("1")).await, Vec::<String>::new());
}

pub async fn a_webhook_id_is_found_by_its_instant(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    let instant = START_MS + 10_000_000;
    let mut ids = Vec::new();
    // Registered at the instant; later and earlier, within the narrow window and within the wide one; and too late.
    for (id, away_ms) in [
        ("at", 0),
        ("later", 2_000),
        ("earlier", -2_000),
        ("hour-later", 3_600_000),
        ("hour-earlier", -3_600_000),
        ("too-late", 3_600_001),
        ("too-early", -3_600_001),
    ] {
        let made = made_at(instant);
        keep(journal, with_webhook_id(id, made, instant + away_ms)).await;
        ids.push((id, made));
    }
    for (id, made) in &ids {
        let key = format!("t/{id}");
        let is_near = !id.starts_with("too-");
        let expected: &[&str] = if is_near { &[&key] } else { &[] };
        check(journal, &webhook_id(*made), expected).await;
        // With its id, it is found whenever it was registered.
        let mut both = webhook_id(*made);
        both.id = Some((*id).to_string());
        check(journal, &both, &[&key]).await;
        both.id = Some("other".to_string());
        check(journal, &both, &[]).await;
    }
    let mut found = webhook_id(ids[0].1);
    found.id_prefix = Some("a".to_string());
    found.topic = Some("t".to_string());
    check(journal, &found, &["t/at"]).await;
    found.topic = Some("other".to_string());
    check(journal, &found, &[]).await;
    // Made at other instants, the last of which no row number can have.
    for made in [0, 1 << 47, (1 << 48) - 1] {
        check(journal, &webhook_id(made_at(made)), &[]).await;
    }
    let other = WebhookId::from_bytes([0xff; 16]);
    check(journal, &webhook_id(other), &[]).await;
}

pub async fn more_than_can_be_sorted_is_scanned_in_the_same_order(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    let batch: Vec<_> = (0..2_100)
        .map(|number| at("t", &format!("many-{number:04}"), number / 10))
        .collect();
    journal.register(&batch).await.expect("kept");
    keep(journal, at("t", "one", 50)).await;
    for text in ["many-", "many-0", "m"] {
        let found = keys(journal, &prefix(text), Order::Registered, 700).await;
        let ids = (0..2_100).rev().map(|number| format!("t/many-{number:04}"));
        let wanted: Vec<String> = ids
            .filter(|key| key.starts_with(&format!("t/{text}")))
            .collect();
        assert_eq!(found, wanted, "{text}");
    }
    check(journal, &prefix("o"), &["t/one"]).await;
}

pub async fn pages_of_a_search_follow_on_each_other(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    // Three share each instant, so that pages end within one.
    let batch: Vec<_> = (0..20)
        .map(|number| {
            at(
                &format!("t{}", number % 4),
                &format!("x{number:02}"),
                number / 3,
            )
        })
        .collect();
    for one in batch {
        keep(journal, one).await;
    }
    let filter = prefix("x");
    let first = page(journal, &filter, None, 7).await;
    keep(journal, at("t0", "x99", 1_000)).await;
    let second = page(journal, &filter, first.next, 7).await;
    let third = page(journal, &filter, second.next, 7).await;
    let pages = [first, second, third];
    let ids = pages.iter().flat_map(|page| &page.items);
    let ids: Vec<&str> = ids.map(|item| item.key.id()).collect();
    let wanted: Vec<String> = (0..20)
        .rev()
        .map(|number| format!("x{number:02}"))
        .collect();
    assert_eq!(ids, wanted);
    assert_eq!(pages[2].next, None);
}

pub async fn an_id_is_not_looked_for_in_too_many_topics(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    let batch: Vec<_> = (0..MOST_TOPICS)
        .map(|number| at(&format!("topic-{number:04}"), "1", 0))
        .collect();
    journal.register(&batch).await.expect("kept");
    let found = page(journal, &id("1"), None, 1_000).await;
    assert_eq!((found.items.len(), found.too_many_topics), (1_000, false));
    keep(journal, at("another", "1", 1)).await;
    for filter in [id("1"), prefix("1")] {
        let found = page(journal, &filter, None, 1_000).await;
        assert_eq!((found.items.len(), found.too_many_topics), (0, true));
        let of_topic = Filter {
            topic: Some("another".to_string()),
            ..filter
        };
        check(journal, &of_topic, &["another/1"]).await;
    }
    // These are not looked for in each topic.
    let made = made_at(START_MS);
    keep(journal, with_webhook_id("w", made, START_MS)).await;
    check(journal, &webhook_id(made), &["t/w"]).await;
    check(journal, &url("nowhere", &[]), &[]).await;
}

pub async fn a_part_of_a_url_is_found(store: &dyn Store) {
    let journal = store.open().await;
    let journal = journal.as_ref();
    let own = |text: &str| Target::Url(Destination::parse(text).expect("a url"));
    let name = EndpointName::parse("shop-1").expect("a name");
    let targets = [
        ("plain", own("https://shop.example/notify?id=1_2")),
        ("upper", own("https://SHOP.example/Notify")),
        ("percent", own("https://shop.example/a%20b")),
        ("other", own("https://other.example/'--")),
        ("named", Target::Endpoint(name.clone(), None)),
        (
            "both",
            Target::Endpoint(name, Destination::parse("https://own.example/").ok()),
        ),
    ];
    for (number, (id, target)) in (0..).zip(targets) {
        keep(journal, to(id, target, number)).await;
    }
    check(
        journal,
        &url("shop.example", &[]),
        &["t/percent", "t/upper", "t/plain"],
    )
    .await;
    check(journal, &url("NOTIFY", &[]), &["t/upper", "t/plain"]).await;
    check(journal, &url("1_2", &[]), &["t/plain"]).await;
    check(journal, &url("1%2", &[]), &[]).await;
    check(journal, &url("1x2", &[]), &[]).await;
    check(journal, &url("a%20b", &[]), &["t/percent"]).await;
    check(journal, &url("%", &[]), &["t/percent"]).await;
    check(journal, &url("_", &[]), &["t/plain"]).await;
    check(journal, &url("'--", &[]), &["t/other"]).await;
    check(journal, &url("\\", &[]), &[]).await;
    check(journal, &url("ä", &[]), &[]).await;
    // The URL of the endpoint, for what has no other.
    let lanes = ["endpoint:shop-1", "endpoint:\"'{}"];
    check(journal, &url("of-shop-1", &lanes), &["t/named"]).await;
    check(journal, &url("own.example", &[]), &["t/both"]).await;
    check(journal, &url("of-shop-1", &["endpoint:shop-2"]), &[]).await;
    // With others.
    let mut of_id = url("shop.example", &[]);
    of_id.id = Some("upper".to_string());
    check(journal, &of_id, &["t/upper"]).await;
    of_id.id = Some("other".to_string());
    check(journal, &of_id, &[]).await;
    let mut of_id = url("of-shop-1", &lanes);
    of_id.id_prefix = Some("na".to_string());
    check(journal, &of_id, &["t/named"]).await;
    let mut of_lane = url("shop", &[]);
    of_lane.lane = Some("https://other.example".to_string());
    check(journal, &of_lane, &[]).await;
    of_lane.state = Some(State::Scheduled);
    of_lane.lane = Some("https://shop.example".to_string());
    check(journal, &of_lane, &["t/percent", "t/upper", "t/plain"]).await;
}
