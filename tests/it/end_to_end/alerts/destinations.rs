//! Destinations that fail, and dead letters.

use super::{HOUR_MS, MINUTE_MS, Pager, at, lane_of, refusing, start_by_hand};
use crate::end_to_end::on_stores;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::ringback::{Api, Server, Stores, with_ladder};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::{JournalConfig, ServeConfig};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

on_stores!(
    a_destination_that_fails_for_the_set_time_and_is_back_is_told_twice,
    dead_letters_that_pile_up_are_told_once,
);
on_stores!(@ shared Postgres two_servers_tell_each_thing_once);
on_stores!(@ restarted Embedded a_restart_does_not_tell_it_again);
on_stores!(@ restarted_redis Redis a_restart_does_not_tell_it_again);
on_stores!(@ left Embedded an_alert_that_was_decided_and_not_registered_is_sent_by_the_next);
on_stores!(@ many_embedded Embedded a_thousand_destinations_at_once_are_told_together);
on_stores!(@ many_postgres Postgres a_thousand_destinations_at_once_are_told_together);
on_stores!(@ deaf Embedded what_fails_for_the_alerts_is_not_told);

/// Has a call to a merchant fail; the next is due in an hour.
pub async fn fail(api: &Api, merchant: &mut Merchant, id: &str) {
    api.register(with_ladder(id, merchant, &["1h", "1h", "1h"]))
        .await;
    merchant.call().await;
    failed(api, merchant, id, 1).await;
}

/// Whether the schedule knows the last answer of a merchant as a failure. A destination that answers and for which
/// nothing is pending may be forgotten (404).
async fn is_known_to_fail(api: &Api, merchant: &Merchant) -> bool {
    let lane = lane_of(merchant).replace(':', "%3A").replace('/', "%2F");
    let path = format!("/v1/lanes/{lane}");
    api.call(Method::GET, &path, None).await.1["last_outcome"] == "http_status"
}

/// Waits until so many attempts were made, the last of which has failed, and the schedule knows it too: the journal has
/// it first.
async fn failed(api: &Api, merchant: &Merchant, id: &str, attempts: u64) {
    api.until_attempts(id, attempts).await;
    within("the settlement", async {
        while !is_known_to_fail(api, merchant).await {
            short_pause().await;
        }
    })
    .await;
}

/// Waits until a merchant has acknowledged a notification, and the schedule knows it too.
pub(super) async fn acknowledged(api: &Api, merchant: &Merchant, id: &str) {
    api.until_state(id, "delivered").await;
    within("the settlement", async {
        while is_known_to_fail(api, merchant).await {
            short_pause().await;
        }
    })
    .await;
}

/// Has another destination fail for the set time, and expects the alert of that to be the next one: whatever comes
/// before it was not to be sent.
async fn expect_nothing_else(server: &Server, pager: &mut Pager, id: &str) {
    let mut other = refusing().await;
    fail(server, &mut other, id).await;
    server.clock().advance(10 * MINUTE_MS);
    let alert = pager.alert(server).await;
    assert_eq!(alert["type"], "destination.failing", "{alert}");
    assert_eq!(alert["destinations"][0]["lane"], lane_of(&other), "{alert}");
}

/// The alerts that are registered, by their types.
async fn registered(api: &Api) -> Vec<String> {
    let path = "/v1/notifications?topic=ringback.alert&limit=100";
    let (status, page) = api.call(Method::GET, path, None).await;
    assert_eq!(status, 200, "{page}");
    let items = page["items"].as_array().expect("a list").iter();
    let ids = items.map(|item| item["id"].as_str().expect("an id"));
    ids.map(|id| id.split(':').next().unwrap_or_default().to_string())
        .collect()
}

async fn a_destination_that_fails_for_the_set_time_and_is_back_is_told_twice(stores: Stores) {
    let server = start_by_hand(stores, |_| {}).await;
    let mut pager = Pager::start(&server).await;
    let mut shop = refusing().await;
    fail(&server, &mut shop, "a").await;
    server.clock().advance(10 * MINUTE_MS - 1);
    // A short outage of another one that is over before is not told.
    let mut short = refusing().await;
    fail(&server, &mut short, "short").await;
    short.now_does(Reaction::success());
    let path = "/v1/notifications/t/short/retry";
    let (status, view) = server.call(Method::POST, path, None).await;
    assert_eq!(status, 200, "{view}");
    server.until_state("short", "delivered").await;

    server.clock().advance(1);
    let alert = pager.alert(&server).await;
    let id = alert["id"].as_str().expect("an id");
    assert_eq!(
        alert,
        json!({
            "type": "destination.failing", "id": id, "at": at(10 * MINUTE_MS), "since": at(0),
            "count": 1, "count_is_least": false, "text": alert["text"],
            "destinations": [{
                "lane": lane_of(&shop), "since": at(0), "pending": 1,
                "last_outcome": "http_status", "last_status": 500,
            }],
        })
    );
    let text = alert["text"].as_str().expect("a text");
    assert!(text.starts_with(&lane_of(&shop)), "{text}");

    // Its next call is acknowledged, and no other has failed for a minute.
    shop.now_does(Reaction::success());
    server.clock().advance(50 * MINUTE_MS);
    shop.call().await;
    acknowledged(&server, &shop, "a").await;
    server.clock().advance(MINUTE_MS);
    let alert = pager.alert(&server).await;
    assert_eq!(alert["type"], "destination.recovered", "{alert}");
    assert_eq!(alert["since"], at(0), "{alert}");
    assert_eq!(alert["destinations"][0]["lane"], lane_of(&shop), "{alert}");

    expect_nothing_else(&server, &mut pager, "z").await;
    if stores != Stores::RedisOnly {
        let types = registered(&server).await;
        let (failing, recovered) = ("destination.failing", "destination.recovered");
        assert_eq!(types, [failing, recovered, failing]);
    }
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

async fn two_servers_tell_each_thing_once(stores: Stores) {
    let one = start_by_hand(stores, |_| {}).await;
    let clock = one.clock().clone();
    let other = Server::open(one.config().clone(), Some(clock.clone()), None).await;
    let mut pager = Pager::start(&one).await;
    let mut shop = refusing().await;
    fail(&one, &mut shop, "a").await;
    clock.advance(10 * MINUTE_MS);
    assert_eq!(pager.alert(&one).await["type"], "destination.failing");
    // Whichever of them had the duty, the other one goes on with what that one remembered.
    one.stop().await;
    shop.now_does(Reaction::success());
    clock.advance(50 * MINUTE_MS);
    shop.call().await;
    acknowledged(&other, &shop, "a").await;
    clock.advance(MINUTE_MS);
    let alert = pager.alert(&other).await;
    assert_eq!(alert["type"], "destination.recovered", "{alert}");
    assert_eq!(alert["since"], at(0), "{alert}");
    expect_nothing_else(&other, &mut pager, "z").await;
    assert_eq!(registered(&other).await.len(), 3);
    other.stop().await;
    assert!(pager.0.arrived().is_none());
}

async fn a_restart_does_not_tell_it_again(stores: Stores) {
    let server = start_by_hand(stores, |_| {}).await;
    let mut pager = Pager::start(&server).await;
    let mut shop = refusing().await;
    fail(&server, &mut shop, "a").await;
    server.clock().advance(10 * MINUTE_MS);
    assert_eq!(pager.alert(&server).await["type"], "destination.failing");
    let server = server.restart().await;
    // A schedule in memory knows nothing of the destination until this call fails.
    server.clock().advance(50 * MINUTE_MS);
    shop.call().await;
    failed(&server, &shop, "a", 2).await;
    server.clock().advance(20 * MINUTE_MS);
    expect_nothing_else(&server, &mut pager, "y").await;
    let server = server.restart().await;
    shop.now_does(Reaction::success());
    server.clock().advance(HOUR_MS);
    shop.call().await;
    acknowledged(&server, &shop, "a").await;
    server.clock().advance(MINUTE_MS);
    let alert = pager.alert(&server).await;
    assert_eq!(alert["type"], "destination.recovered", "{alert}");
    assert_eq!(alert["since"], at(0), "{alert}");
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

async fn an_alert_that_was_decided_and_not_registered_is_sent_by_the_next(stores: Stores) {
    let server = start_by_hand(stores, |_| {}).await;
    let mut pager = Pager::start(&server).await;
    let JournalConfig::Sqlite(path) = server.config().journal.clone() else {
        panic!("it has a SQLite journal");
    };
    let (config, clock) = (server.config().clone(), server.clock().clone());
    let dir = server.stop_and_keep().await;
    // As a server leaves it that dies between the two.
    let id = "destination.failing:1795163400000:6f1ed002ab559585";
    let body = json!({ "id": id, "type": "destination.failing" }).to_string();
    let waiting =
        json!({ "kind": "destination.failing", "id": id, "text": "a sentence", "body": body });
    let remembered = json!({ "waiting": [waiting] }).to_string();
    let options = SqliteConnectOptions::new().filename(path);
    let mut connection = options.connect().await.expect("opened");
    let writing = sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('kept:alerts', ?1)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    );
    let written = writing.bind(remembered).execute(&mut connection).await;
    written.expect("written");
    connection.close().await.expect("closed");
    let server = Server::open(config, Some(clock), dir).await;
    assert_eq!(pager.alert(&server).await["id"], id);
    expect_nothing_else(&server, &mut pager, "z").await;
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

async fn a_thousand_destinations_at_once_are_told_together(stores: Stores) {
    const MANY: usize = 1_000;
    let server = start_by_hand(stores, |config| config.delivery.concurrency = 64).await;
    let mut pager = Pager::start(&server).await;
    // Nobody listens at these addresses.
    let url = |number: usize| format!("http://127.77.{}.{}:1/", number / 250, number % 250 + 1);
    let asked: Vec<Value> = (0..MANY)
        .map(|number| {
            json!({ "topic": "t", "id": format!("n{number}"), "url": url(number), "body": "x",
                    "ladder": { "intervals": ["10h"] } })
        })
        .collect();
    let batch = json!({ "notifications": asked });
    let path = "/v1/notifications/batch";
    let (status, view) = server.call(Method::POST, path, Some(batch)).await;
    assert_eq!(status, 200, "{view}");
    for number in 0..MANY {
        server.until_attempts(&format!("n{number}"), 1).await;
    }
    server.clock().advance(10 * MINUTE_MS);
    let alert = pager.alert(&server).await;
    assert_eq!(alert["type"], "destination.failing", "{alert}");
    assert_eq!(alert["count"], MANY, "{alert}");
    let listed = alert["destinations"].as_array().map(Vec::len);
    assert_eq!(listed, Some(10), "{alert}");
    let text = alert["text"].as_str().expect("a text");
    assert!(text.ends_with(" and 997 others."), "{text}");
    expect_nothing_else(&server, &mut pager, "z").await;
    assert_eq!(registered(&server).await.len(), 2);
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

async fn dead_letters_that_pile_up_are_told_once(stores: Stores) {
    let few = |config: &mut ServeConfig| {
        config.alerts.dead_letters = Some(3);
        config.alerts.failing_after = None;
    };
    let server = start_by_hand(stores, few).await;
    let mut pager = Pager::start(&server).await;
    let mut shop = refusing().await;
    let die = async |shop: &mut Merchant, id: &str| {
        server.register(with_ladder(id, shop, &[])).await;
        shop.call().await;
        server.until_state(id, "dead").await;
    };
    for id in ["a", "b", "c"] {
        die(&mut shop, id).await;
    }
    let alert = pager.alert(&server).await;
    assert_eq!(alert["type"], "dead_letters.accumulating", "{alert}");
    assert_eq!(alert["count"], 3, "{alert}");
    assert_eq!(alert["within"], "1h", "{alert}");
    assert_eq!(
        alert["destinations"],
        json!([{ "lane": lane_of(&shop), "dead_letters": 3 }])
    );
    // These come too early for another alert, and are told later with the next.
    server.clock().advance(1);
    for id in ["d", "e"] {
        die(&mut shop, id).await;
    }
    server.clock().advance(15 * MINUTE_MS);
    die(&mut shop, "f").await;
    let alert = pager.alert(&server).await;
    assert_eq!(alert["type"], "dead_letters.accumulating", "{alert}");
    assert_eq!(alert["count"], 3, "{alert}");
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

async fn what_fails_for_the_alerts_is_not_told(stores: Stores) {
    let one = |config: &mut ServeConfig| config.alerts.dead_letters = Some(1);
    let server = start_by_hand(stores, one).await;
    // Whoever gets the alerts answers wrongly, and an alert has one attempt.
    let mut pager = Pager(refusing().await);
    let once = json!({ "ladder": { "intervals": [] } });
    pager.introduce(&server, once).await;
    let mut shop = refusing().await;
    fail(&server, &mut shop, "a").await;
    server.clock().advance(10 * MINUTE_MS);
    assert_eq!(pager.told().await["type"], "destination.failing");
    let path = "/v1/dead-letters?topic=ringback.alert";
    crate::support::within("the alert to be dead", async {
        while server.call(Method::GET, path, None).await.1["items"] == json!([]) {
            short_pause().await;
        }
    })
    .await;
    // Neither its dead letter nor its lane makes an alert.
    server.clock().advance(20 * MINUTE_MS);
    pager.0.now_does(Reaction::Answer(200, b"ok".to_vec()));
    expect_nothing_else(&server, &mut pager, "z").await;
    assert_eq!(registered(&server).await.len(), 2);
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}
