//! Destinations of which everything, or a part, waits in the journal alone: they are known like any other.

use super::on_journaled_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::postgres::PostgresServer;
use crate::support::ringback::{Api, BEGIN_MS, Server, Stores, config, registration, with_ladder};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::clock::ManualClock;
use ringback::config::{JournalConfig, PostgresUrl};
use ringback::domain::lane::Lane;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

on_journaled_stores!(
    a_destination_of_which_everything_waits_is_listed,
    what_the_schedule_has_too_is_counted_once,
    a_destination_of_which_everything_waits_is_held_and_released,
    a_destination_that_fails_and_has_its_next_call_later_is_in_trouble,
    an_attempt_by_hand_of_what_waits_does_not_wait_for_a_probe,
    an_endpoint_of_which_everything_waits_is_in_use,
    a_strict_number_waits_for_one_in_the_journal,
    a_strict_number_goes_when_the_one_in_the_journal_is_cancelled,
    the_latest_number_ends_one_in_the_journal,
);

const MINUTE_MS: i64 = 60_000;

/// A server that has what is due within an hour in its schedule, as all have by default.
async fn start(stores: Stores) -> Server {
    let dir = tempfile::tempdir().expect("a directory");
    let config = config(dir.path(), stores);
    Server::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await
}

async fn register(server: &Server, id: &str, merchant: &Merchant, delay: &str) {
    let mut asked = registration(id, merchant);
    asked["delay"] = json!(delay);
    server.register(asked).await;
}

fn lane(merchant: &Merchant) -> String {
    let lane = Lane::parse(&merchant.url("/")).expect("a lane");
    lane.as_str().to_string()
}

fn path(merchant: &Merchant, verb: &str) -> String {
    let encoded: String = url::form_urlencoded::byte_serialize(lane(merchant).as_bytes()).collect();
    format!("/v1/lanes/{encoded}{verb}")
}

async fn show(api: &Api, merchant: &Merchant) -> Value {
    let (status, view) = api.call(Method::GET, &path(merchant, ""), None).await;
    assert_eq!(status, 200, "{view}");
    view
}

/// All lanes in pages of so many, with what is pending in each. Each comes once.
async fn list(api: &Api, query: &str, limit: usize) -> BTreeMap<String, u64> {
    let (mut all, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let escaped: String = url::form_urlencoded::byte_serialize(cursor.as_bytes()).collect();
        let path = format!("/v1/lanes?{query}&limit={limit}&cursor={escaped}");
        let (status, page) = api.call(Method::GET, &path, None).await;
        assert_eq!(status, 200, "{page}");
        for item in page["items"].as_array().expect("a list") {
            assert_eq!(item["pending_is_at_least"], false, "{item}");
            let name = item["lane"].as_str().expect("a name").to_string();
            let before = all.insert(name, item["pending"].as_u64().expect("a number"));
            assert_eq!(before, None, "{item}");
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_string(),
            None => return all,
        }
    }
}

/// Awaits a number of pending ones. What has ended leaves the schedule after its end was recorded.
async fn until_pending(api: &Api, merchant: &Merchant, wanted: u64) {
    within("the number of pending ones", async {
        while show(api, merchant).await["pending"] != wanted {
            short_pause().await;
        }
    })
    .await;
}

async fn a_destination_of_which_everything_waits_is_listed(stores: Stores) {
    let server = start(stores).await;
    let mut merchants = Vec::new();
    for number in 0..5 {
        let merchant = Merchant::start().await;
        for copy in 0..=number {
            register(&server, &format!("{number}-{copy}"), &merchant, "2h").await;
        }
        merchants.push(merchant);
    }
    // One that has a part in the schedule.
    register(&server, "near", &merchants[4], "20m").await;
    let expected: BTreeMap<String, u64> = merchants
        .iter()
        .zip([1, 2, 3, 4, 6])
        .map(|(merchant, pending)| (lane(merchant), pending))
        .collect();
    for limit in [1, 2, 100] {
        for query in ["", "state=open"] {
            assert_eq!(list(&server, query, limit).await, expected, "{limit}");
        }
        for query in ["state=held", "state=probing"] {
            assert!(list(&server, query, limit).await.is_empty());
        }
    }
    for (merchant, pending) in merchants.iter().zip([1, 2, 3, 4, 6]) {
        let view = show(&server, merchant).await;
        assert_eq!(view["pending"], pending, "{view}");
        assert_eq!((&view["due"], &view["state"]), (&json!(0), &json!("open")));
    }
    let (status, _) = server
        .call(Method::DELETE, "/v1/notifications/t/1-0", None)
        .await;
    assert_eq!(status, 200);
    let unknown = Merchant::start().await;
    assert_eq!(show(&server, &unknown).await["pending"], 0);
    server.stop().await;
}

async fn what_the_schedule_has_too_is_counted_once(stores: Stores) {
    let server = start(stores).await;
    let mut merchant = Merchant::start().await;
    // In the schedule, but not yet so near that everything by then was loaded; and in the journal alone.
    for (id, delay) in [("soon", "5m"), ("near", "50m"), ("far", "3h")] {
        register(&server, id, &merchant, delay).await;
    }
    let expected = BTreeMap::from([(lane(&merchant), 3)]);
    assert_eq!(list(&server, "", 10).await, expected);
    assert_eq!(show(&server, &merchant).await["pending"], 3);
    server.clock().advance(5 * MINUTE_MS);
    merchant.call().await;
    server.until_state("soon", "delivered").await;
    until_pending(&server, &merchant, 2).await;
    server.clock().advance(45 * MINUTE_MS);
    merchant.call().await;
    server.until_state("near", "delivered").await;
    until_pending(&server, &merchant, 1).await;
    // It is being loaded now, or was loaded.
    for _ in 0..2 {
        assert_eq!(show(&server, &merchant).await["pending"], 1);
        server.clock().advance(100 * MINUTE_MS / 2);
    }
    server.clock().turn_to(BEGIN_MS + 180 * MINUTE_MS);
    merchant.call().await;
    server.until_state("far", "delivered").await;
    until_pending(&server, &merchant, 0).await;
    assert!(list(&server, "", 10).await.is_empty());
    server.stop().await;
}

async fn a_destination_of_which_everything_waits_is_held_and_released(stores: Stores) {
    let server = start(stores).await;
    let mut merchant = Merchant::start().await;
    for id in ["a", "b"] {
        register(&server, id, &merchant, "2h").await;
    }
    let reason = || Some(json!({ "reason": "they move" }));
    let (status, held) = server
        .call(Method::POST, &path(&merchant, "/hold"), reason())
        .await;
    assert_eq!((status, &held["pending"]), (200, &json!(2)), "{held}");
    let expected = BTreeMap::from([(lane(&merchant), 2)]);
    for query in ["", "state=held"] {
        assert_eq!(list(&server, query, 10).await, expected);
    }
    server.clock().advance(120 * MINUTE_MS);
    within("what is held to be due", async {
        while show(&server, &merchant).await["due"] != 2 {
            short_pause().await;
        }
    })
    .await;
    assert!(merchant.arrived().is_none());
    let (status, job) = server
        .call(Method::POST, &path(&merchant, "/release"), reason())
        .await;
    assert_eq!((status, &job["done"]), (202, &json!(2)), "{job}");
    for _ in 0..2 {
        merchant.call().await;
    }
    for id in ["a", "b"] {
        server.until_state(id, "delivered").await;
    }
    server.stop().await;
}

async fn a_destination_that_fails_and_has_its_next_call_later_is_in_trouble(stores: Stores) {
    let server = start(stores).await;
    let refused = Reaction::Answer(500, Vec::new());
    let mut merchant = Merchant::scripted(vec![], refused).await;
    let mut well = Merchant::start().await;
    register(&server, "well", &well, "3h").await;
    server.register(registration("delivered", &well)).await;
    well.call().await;
    server.until_state("delivered", "delivered").await;
    server
        .register(with_ladder("a", &merchant, &["6h", "6h"]))
        .await;
    merchant.call().await;
    server.until_attempts("a", 1).await;
    // It leaves the schedule after its outcome was recorded.
    let overview = async || {
        let address = format!("{}/ui/", server.url());
        let client = reqwest::Client::builder().no_proxy().build();
        let answer = client.expect("a client").get(address).send();
        let answer = within("the page", answer).await.expect("an answer");
        within("the page", answer.text()).await.expect("a text")
    };
    within("the destination to be in trouble", async {
        while !overview().await.contains(&lane(&merchant)) {
            short_pause().await;
        }
    })
    .await;
    assert!(!overview().await.contains(&lane(&well)));
    // Hours later, it still is, until a call is acknowledged.
    server.clock().advance(5 * 60 * MINUTE_MS);
    let view = show(&server, &merchant).await;
    assert_eq!(
        (&view["pending"], &view["last_outcome"]),
        (&json!(1), &json!("http_status"))
    );
    merchant.now_does(Reaction::success());
    server.clock().advance(60 * MINUTE_MS);
    merchant.call().await;
    server.until_state("a", "delivered").await;
    within("the destination to be well", async {
        while overview().await.contains(&lane(&merchant)) {
            short_pause().await;
        }
    })
    .await;
    server.stop().await;
}

async fn an_attempt_by_hand_of_what_waits_does_not_wait_for_a_probe(stores: Stores) {
    let server = start(stores).await;
    let mut merchant = Merchant::start().await;
    register(&server, "waits", &merchant, "5h").await;
    server.clock().advance(10_000);
    merchant.now_does(Reaction::Close);
    for id in ["a", "b", "c"] {
        server.register(with_ladder(id, &merchant, &["6h"])).await;
        merchant.call().await;
        server.until_attempts(id, 1).await;
    }
    within("the destination to be probed", async {
        while show(&server, &merchant).await["state"] != "probing" {
            short_pause().await;
        }
    })
    .await;
    merchant.now_does(Reaction::success());
    // The clock stands, so no probe is due.
    let retry = "/v1/notifications/t/waits/retry";
    let (status, view) = server.call(Method::POST, retry, None).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(merchant.call().await.body, b"id=waits");
    server.until_state("waits", "delivered").await;
    server.stop().await;
}

async fn an_endpoint_of_which_everything_waits_is_in_use(stores: Stores) {
    let server = start(stores).await;
    let merchant = Merchant::start().await;
    let shop = "/v1/endpoints/shop";
    let settings = json!({ "url": merchant.url("/") });
    let (status, view) = server.call(Method::PUT, shop, Some(settings)).await;
    assert_eq!(status, 201, "{view}");
    let asked = json!({ "topic": "t", "id": "a", "endpoint": "shop", "body": "1", "delay": "2h" });
    server.register(asked).await;
    let listed = list(&server, "", 10).await;
    assert_eq!(listed, BTreeMap::from([("endpoint:shop".to_string(), 1)]));
    let (status, problem) = server.call(Method::DELETE, shop, None).await;
    assert_eq!(status, 409, "{problem}");
    let cancelled = server.call(Method::DELETE, "/v1/notifications/t/a", None);
    assert_eq!(cancelled.await.0, 200);
    let (status, problem) = server.call(Method::DELETE, shop, None).await;
    assert_eq!(status, 204, "{problem}");
    server.stop().await;
}

fn ordered(id: &str, merchant: &Merchant, number: i64, mode: &str) -> Value {
    let mut asked = registration(id, merchant);
    asked["order"] = json!({ "key": "order-1", "number": number, "mode": mode });
    asked
}

/// Registers "first", which waits in the journal alone, and "second", which waits for it.
async fn register_behind_one_in_the_journal(server: &Server, merchant: &mut Merchant) {
    let mut first = ordered("first", merchant, 1, "strict");
    first["delay"] = json!("2h");
    server.register(first).await;
    server
        .register(ordered("second", merchant, 2, "strict"))
        .await;
    // Another one of the same destination is sent, so what is due was looked at, and the second one waits.
    server.register(registration("other", merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=other");
}

async fn a_strict_number_waits_for_one_in_the_journal(stores: Stores) {
    let server = start(stores).await;
    let mut merchant = Merchant::start().await;
    register_behind_one_in_the_journal(&server, &mut merchant).await;
    server.clock().advance(119 * MINUTE_MS);
    server.register(registration("another", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=another");
    assert_eq!(server.get("second").await["attempts_made"], 0);
    server.clock().advance(MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=first");
    server.until_state("first", "delivered").await;
    // The one behind it is put off for a minute at most.
    let second = async {
        loop {
            let waiting = tokio::time::timeout(Duration::from_millis(300), merchant.call());
            match waiting.await {
                Ok(call) => return call,
                Err(_) => server.clock().advance(MINUTE_MS),
            }
        }
    };
    let second = within("the second number", second).await;
    assert_eq!(second.body, b"id=second");
    server.until_state("second", "delivered").await;
    server.stop().await;
}

async fn a_strict_number_goes_when_the_one_in_the_journal_is_cancelled(stores: Stores) {
    let server = start(stores).await;
    let mut merchant = Merchant::start().await;
    register_behind_one_in_the_journal(&server, &mut merchant).await;
    let cancelled = server.call(Method::DELETE, "/v1/notifications/t/first", None);
    assert_eq!(cancelled.await.0, 200);
    // No time passes.
    assert_eq!(merchant.call().await.body, b"id=second");
    server.until_state("second", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn the_latest_number_ends_one_in_the_journal(stores: Stores) {
    let server = start(stores).await;
    let mut merchant = Merchant::start().await;
    let mut lower = ordered("lower", &merchant, 1, "latest");
    lower["delay"] = json!("2h");
    server.register(lower).await;
    server
        .register(ordered("higher", &merchant, 2, "latest"))
        .await;
    assert_eq!(merchant.call().await.body, b"id=higher");
    server.until_state("higher", "delivered").await;
    let lower = server.get("lower").await;
    assert_eq!(
        (&lower["state"], &lower["cause"]),
        (&json!("cancelled"), &json!("superseded"))
    );
    until_pending(&server, &merchant, 0).await;
    assert!(list(&server, "", 10).await.is_empty());
    server.clock().advance(150 * MINUTE_MS);
    server.register(registration("other", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=other");
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// What the schedule knows is listed, and the rest is asked for with the cursor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn destinations_are_listed_while_the_journal_is_away() {
    let mut postgres = PostgresServer::start(&[]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = config(dir.path(), Stores::Redis);
    let url = PostgresUrl::parse(&postgres.fresh_database());
    config.journal = JournalConfig::Postgres(url.expect("a URL"));
    let server = Server::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await;
    let (some, all) = (Merchant::start().await, Merchant::start().await);
    register(&server, "near", &some, "20m").await;
    register(&server, "far", &some, "2h").await;
    register(&server, "farther", &all, "3h").await;
    let expected = BTreeMap::from([(lane(&some), 2), (lane(&all), 1)]);
    assert_eq!(list(&server, "", 10).await, expected);

    postgres.kill();
    let (status, page) = server.call(Method::GET, "/v1/lanes", None).await;
    assert_eq!(status, 200, "{page}");
    let items = page["items"].as_array().expect("a list");
    assert_eq!(items.len(), 1, "{page}");
    let item = &items[0];
    assert_eq!(item["lane"], lane(&some), "{page}");
    assert_eq!(
        (&item["pending"], &item["pending_is_at_least"]),
        (&json!(1), &json!(true))
    );
    let cursor = page["next_cursor"].as_str().expect("those in the journal");
    let path = format!("/v1/lanes?cursor={cursor}");
    let (status, problem) = server.call(Method::GET, &path, None).await;
    assert_eq!(status, 503, "{problem}");

    postgres.start_again().await;
    within("the journal to answer", async {
        while server.call(Method::GET, &path, None).await.0 != 200 {
            short_pause().await;
        }
    })
    .await;
    assert_eq!(list(&server, "", 10).await, expected);
    server.stop().await;
}
