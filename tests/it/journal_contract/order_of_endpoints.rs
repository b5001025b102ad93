//! Orders of an endpoint that was removed and made again: what means the old one does not count for the new one.

use super::Store;
use super::samples::{
    START_MS, apply, changing, delivery, do_change, failure, find, key, refusal, registering_at,
    registration,
};
use ringback::domain::change::Change;
use ringback::domain::endpoint::{EndpointName, EndpointSettings};
use ringback::domain::notification::{Registration, Target};
use ringback::domain::order::{OrderConflict, OrderMode, OrderPlace};
use ringback::domain::state::{Cause, State};
use ringback::journal::{
    Actor, ChangeResult, EndpointSet, ExpectedVersion, Journal, Prune, RegisterResult, Registering,
    RemovingEndpoint, SettingEndpoint,
};

/// When the endpoint is made again.
pub const AGAIN_MS: i64 = START_MS + 20;

pub fn shop() -> EndpointName {
    EndpointName::parse("shop-1").expect("a name")
}

pub async fn set(journal: &dyn Journal, url: &str, at_ms: i64) -> EndpointSet {
    set_over(journal, url, at_ms, ExpectedVersion::Any).await
}

async fn set_over(
    journal: &dyn Journal,
    url: &str,
    at_ms: i64,
    expected: ExpectedVersion,
) -> EndpointSet {
    // What a caller writes here is not the member that the store writes.
    let text = format!(
        r#"{{"url":"{url}","metadata":"{{\"a\":1,\"made_again_ms\":7}}","headers":[["x",",\"made_again_ms\":7}}"]]}}"#
    );
    let setting = SettingEndpoint {
        name: shop(),
        settings: EndpointSettings::from_text(&text).expect("settings"),
        keys: None,
        sealed_with: None,
        expected,
        actor: Actor::named("ops"),
        at_ms,
        made_again_after_ms: 0,
    };
    journal.set_endpoint(&setting).await.expect("set")
}

async fn remove(journal: &dyn Journal, at_ms: i64) {
    let removing = RemovingEndpoint {
        name: shop(),
        actor: Actor::named("ops"),
        at_ms,
    };
    assert!(journal.remove_endpoint(&removing).await.expect("removed"));
}

pub async fn make_again(journal: &dyn Journal) {
    remove(journal, START_MS + 10).await;
    let removed = journal
        .endpoint(&shop())
        .await
        .expect("read")
        .expect("kept");
    let expected = ExpectedVersion::Removed(removed.endpoint.version);
    let set = set_over(journal, "https://b.example/n", AGAIN_MS, expected).await;
    let EndpointSet::Created(made) = set else {
        panic!("{set:?}");
    };
    assert_eq!(made.settings.made_again_ms, Some(AGAIN_MS));
}

/// A notification of the endpoint. Its id says what is registered: `l5 old` is the number 5 of the order key `l`, in which
/// only the latest counts; keys that begin with `s` are strict.
pub fn ordered(id: &str, at_ms: i64) -> Registering {
    let registration = Registration {
        target: Target::Endpoint(shop(), None),
        order: Some(place_of(id)),
        ..registration(key(id))
    };
    registering_at(registration, at_ms)
}

/// The place in an order that an id says.
pub fn place_of(id: &str) -> OrderPlace {
    let (place, _) = id.split_once(' ').expect("two words");
    let (order_key, number) = place.split_at(1);
    let mode = match order_key {
        "s" => OrderMode::Strict,
        _ => OrderMode::Latest,
    };
    let number = number.parse().expect("a number");
    OrderPlace::new(order_key, number, mode).expect("a place")
}

pub async fn register(journal: &dyn Journal, one: &Registering) -> RegisterResult {
    let mut replies = (journal.register(std::slice::from_ref(one)).await).expect("answered");
    assert_eq!(replies.len(), 1);
    replies.remove(0)
}

/// Registers one for the endpoint of before. It is new.
pub async fn old(journal: &dyn Journal, id: &str) -> Registering {
    let one = ordered(id, START_MS);
    assert_eq!(
        register(journal, &one).await,
        RegisterResult::Created,
        "{id}"
    );
    one
}

/// Registers one for the endpoint that was made again. It is new and ends nothing.
pub async fn new(journal: &dyn Journal, id: &str) -> Registering {
    let one = ordered(id, AGAIN_MS);
    assert_eq!(
        register(journal, &one).await,
        RegisterResult::Created,
        "{id}"
    );
    one
}

/// Registers one that is refused because of this other one.
pub async fn refused(
    journal: &dyn Journal,
    one: &Registering,
    conflict: OrderConflict,
    other: &str,
) {
    let expected = RegisterResult::OutOfOrder {
        conflict,
        other: Some(key(other)),
    };
    let reply = register(journal, one).await;
    assert_eq!(reply, expected, "{:?}", one.notification.key);
}

/// Registers one that ends these.
pub async fn ends(journal: &dyn Journal, id: &str, at_ms: i64, expected: &[&str]) {
    match register(journal, &ordered(id, at_ms)).await {
        RegisterResult::CreatedOver(ended) => {
            let ended: Vec<&str> = ended.iter().map(|one| one.key.id()).collect();
            assert_eq!(ended, expected, "{id}");
        }
        other => panic!("{id}: {other:?}"),
    }
}

async fn state(journal: &dyn Journal, id: &str) -> (State, Option<Cause>) {
    let found = find(journal, &key(id)).await;
    (found.state, found.cause)
}

const PENDING: (State, Option<Cause>) = (State::Scheduled, None);

pub async fn the_latest_number_of_the_endpoint_before_does_not_count(store: &dyn Store) {
    let journal = store.open().await;
    set(&*journal, "https://a.example/n", START_MS).await;
    old(&*journal, "l1 old").await;
    ends(&*journal, "l9 old", START_MS, &["l1 old"]).await;
    make_again(&*journal).await;
    // A later change does not make it again.
    let changed = set(&*journal, "https://c.example/n", AGAIN_MS + 5).await;
    assert!(matches!(changed, EndpointSet::Changed(_)), "{changed:?}");
    new(&*journal, "l1 new").await;
    ends(&*journal, "l9 new", AGAIN_MS, &["l1 new"]).await;
    let taken = ordered("l9 newer", AGAIN_MS + 9);
    refused(&*journal, &taken, OrderConflict::NumberTaken, "l9 new").await;
    let lower = register(&*journal, &ordered("l5 new", AGAIN_MS + 9)).await;
    assert!(matches!(lower, RegisterResult::Superseded(_)), "{lower:?}");
    ends(&*journal, "l10 new", AGAIN_MS, &["l9 new"]).await;
    // Nor the other way round, for what was registered at the same time on a server that did not know the new one yet.
    assert_eq!(state(&*journal, "l9 old").await, PENDING);
    let late = register(&*journal, &ordered("l8 old", AGAIN_MS - 1)).await;
    assert!(matches!(late, RegisterResult::Superseded(_)), "{late:?}");
    ends(&*journal, "l11 old", AGAIN_MS - 1, &["l9 old"]).await;
    assert_eq!(state(&*journal, "l10 new").await, PENDING);
    // What is done by hand is judged likewise.
    let dead = new(&*journal, "r1 new").await;
    apply(&*journal, refusal(&dead.notification, dead.progress)).await;
    register(&*journal, &ordered("r7 old", AGAIN_MS - 1)).await;
    do_change(&*journal, &key("r1 new"), Change::Replay, AGAIN_MS + 60).await;
    let again = find(&*journal, &key("r1 new")).await.progress;
    apply(&*journal, refusal(&dead.notification, again)).await;
    new(&*journal, "r2 new").await;
    let fence = find(&*journal, &key("r1 new")).await.fence;
    let replay = ringback::journal::Changing {
        fence,
        ..changing(&key("r1 new"), Change::Replay, AGAIN_MS + 90)
    };
    let replayed = journal.change(replay).await.expect("answered");
    assert!(
        matches!(replayed, ChangeResult::Superseded(_)),
        "{replayed:?}"
    );
}

pub async fn a_strict_number_of_the_endpoint_before_does_not_count(store: &dyn Store) {
    use OrderConflict::{NumberTaken, OtherMode, Passed};
    let journal = store.open().await;
    set(&*journal, "https://a.example/n", START_MS).await;
    old(&*journal, "s1 old").await;
    let attempted = old(&*journal, "s5 old").await;
    let failed = failure(&attempted.notification, attempted.progress);
    apply(&*journal, failed).await;
    old(&*journal, "s7 old").await;
    old(&*journal, "l1 old").await;
    let again = |id: &str| ordered(id, START_MS);
    refused(&*journal, &again("s5 again"), NumberTaken, "s5 old").await;
    refused(&*journal, &again("s4 again"), Passed, "s5 old").await;
    let latest = |at_ms| {
        let registration = Registration {
            target: Target::Endpoint(shop(), None),
            order: Some(OrderPlace::new("s", 4, OrderMode::Latest).expect("a place")),
            ..registration(key("latest"))
        };
        registering_at(registration, at_ms)
    };
    refused(&*journal, &latest(START_MS), OtherMode, "s7 old").await;
    make_again(&*journal).await;
    for id in ["s3 new", "s5 new", "s2 new"] {
        new(&*journal, id).await;
    }
    let waits = |id| {
        let (journal, key) = (&journal, key(id));
        async move {
            let found = journal.snapshots(&[key]).await.expect("read");
            let found = found.into_iter().flatten().next().expect("it is there");
            found.waits_for_ms.is_some()
        }
    };
    for (id, expected) in [
        ("s1 old", false),
        ("s7 old", true),
        ("s2 new", false),
        ("s3 new", true),
        ("s5 new", true),
    ] {
        assert_eq!(waits(id).await, expected, "{id}");
    }
    // The key may be used with another mode.
    let place = OrderPlace::new("l", 1, OrderMode::Strict).expect("a place");
    let other_mode = Registration {
        target: Target::Endpoint(shop(), None),
        order: Some(place),
        ..registration(key("strict"))
    };
    let other_mode = registering_at(other_mode, AGAIN_MS);
    let reply = register(&*journal, &other_mode).await;
    assert_eq!(reply, RegisterResult::Created);
    // An attempt of its own number counts.
    let given = new(&*journal, "s9 new").await;
    apply(&*journal, delivery(&given.notification, given.progress)).await;
    // A number of its own was sent.
    refused(&*journal, &ordered("s8 new", AGAIN_MS), Passed, "s9 new").await;
    let newer = ordered("s3 newer", AGAIN_MS);
    refused(&*journal, &newer, NumberTaken, "s3 new").await;
    refused(&*journal, &latest(AGAIN_MS), OtherMode, "s9 new").await;
}

pub async fn the_highest_number_of_each_endpoint_is_kept_by_itself(store: &dyn Store) {
    let journal = store.open().await;
    set(&*journal, "https://a.example/n", START_MS).await;
    let highest = old(&*journal, "l9 old").await;
    let delivered = delivery(&highest.notification, highest.progress);
    apply(&*journal, delivered).await;
    make_again(&*journal).await;
    let dead = new(&*journal, "l1 new").await;
    apply(&*journal, refusal(&dead.notification, dead.progress)).await;
    let second = new(&*journal, "l2 new").await;
    apply(&*journal, delivery(&second.notification, second.progress)).await;
    let prune = Prune {
        payloads_before_ms: 0,
        records_before_ms: START_MS + 10_000_000_000,
        dead_before_ms: None,
    };
    let pruned = journal.prune(&prune, 100).await.expect("pruned");
    assert_eq!(pruned.records, 1);
    for (id, expected) in [("l9 old", false), ("l1 new", true), ("l2 new", true)] {
        let found = journal.find(&key(id)).await.expect("read");
        assert_eq!(found.is_some(), expected, "{id}");
    }
}

pub async fn an_endpoint_that_cannot_be_read_stops_no_registration(store: &dyn Store) {
    let journal = store.open().await;
    set(&*journal, "https://a.example/n", START_MS).await;
    make_again(&*journal).await;
    journal.close().await;
    let damage = r#"UPDATE endpoints SET settings = '{"url":,"made_again_ms":"x"}'"#;
    store.damage(damage).await;
    let journal = store.open().await;
    new(&*journal, "l1 new").await;
    new(&*journal, "s1 new").await;
    let found = journal.find(&key("s1 new")).await.expect("read");
    assert!(found.is_some());
}
