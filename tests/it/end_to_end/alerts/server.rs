//! What each server tells of itself: late attempts, and stores that it cannot use. And who may use the topic.

use super::{HOUR_MS, MINUTE_MS, Pager, start_by_hand, with_alerts};
use crate::end_to_end::on_stores;
use crate::support::merchant::Merchant;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::ringback::{Server, Stores, registration};
use reqwest::Method;
use ringback::config::{JournalConfig, PostgresUrl, RedisUrl, ServeConfig};
use serde_json::Value;
use std::time::Duration;

on_stores!(@ late Embedded attempts_that_begin_late_are_told);
on_stores!(@ late_redis RedisOnly attempts_that_begin_late_are_told);

async fn attempts_that_begin_late_are_told(stores: Stores) {
    let server = start_by_hand(stores, |_| {}).await;
    let mut pager = Pager::start(&server).await;
    let mut merchant = Merchant::start().await;
    for number in 0..10 {
        let mut asked = registration(&format!("n{number}"), &merchant);
        asked["delay"] = "1h".into();
        server.register(asked).await;
    }
    server.clock().advance(HOUR_MS + MINUTE_MS);
    for _ in 0..10 {
        merchant.call().await;
    }
    let alert = pager.alert(&server).await;
    assert_eq!(alert["type"], "lateness.high", "{alert}");
    assert_eq!(
        (&alert["attempts"], &alert["late_attempts"]),
        (&10.into(), &10.into())
    );
    assert_eq!(
        (&alert["late_after"], &alert["within"]),
        (&"30s".into(), &"5m".into())
    );
    let since = alert["since"].clone();
    assert!(alert["server"].is_string(), "{alert}");
    let alert = pager.alert_later(server.clock(), MINUTE_MS).await;
    assert_eq!(alert["type"], "lateness.normal", "{alert}");
    assert_eq!(alert["since"], since, "{alert}");
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

fn soon(config: &mut ServeConfig) {
    with_alerts(config);
    config.alerts.store_after = Some(Duration::from_millis(200));
}

/// Expects the alert that a store cannot be used.
async fn expect_unavailable(pager: &mut Pager, store: &str) -> Value {
    let alert = pager.told().await;
    assert_eq!(alert["type"], "store.unavailable", "{alert}");
    assert_eq!(alert["store"], store, "{alert}");
    assert!(alert["server"].is_string(), "{alert}");
    alert
}

/// Expects the alert that it can be used again.
async fn expect_available(pager: &mut Pager, before: &Value) {
    let alert = pager.told().await;
    assert_eq!(alert["type"], "store.available", "{alert}");
    for member in ["store", "server", "since"] {
        assert_eq!(alert[member], before[member], "{alert}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_is_told_and_that_it_is_back() {
    let mut redis = RedisServer::start(&["--appendonly", "yes"]);
    let url = RedisUrl::parse(&redis.url(0)).expect("a URL");
    let server = Server::start_as(Stores::Postgres, |config| {
        soon(config);
        config.schedule.redis = Some(url);
    })
    .await;
    let mut pager = Pager::start(&server).await;
    redis.kill();
    let alert = expect_unavailable(&mut pager, "schedule").await;
    redis.start_again().await;
    expect_available(&mut pager, &alert).await;
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_is_away_is_told_and_that_it_is_back() {
    let mut postgres = PostgresServer::start(&[]);
    let url = PostgresUrl::parse(&postgres.fresh_database()).expect("a URL");
    let server = Server::start_as(Stores::Postgres, |config| {
        soon(config);
        config.journal = JournalConfig::Postgres(url);
    })
    .await;
    let mut pager = Pager::start(&server).await;
    postgres.kill();
    let alert = expect_unavailable(&mut pager, "journal").await;
    postgres.start_again().await;
    expect_available(&mut pager, &alert).await;
    server.stop().await;
    assert!(pager.0.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_cannot_register_under_the_topic_of_alerts() {
    let server = Server::start(Stores::Embedded).await;
    let merchant = Merchant::start().await;
    let mut asked = registration("destination.failing:1:0000000000000000:pager", &merchant);
    asked["topic"] = "ringback.alert".into();
    let path = "/v1/notifications";
    let (status, problem) = server.call(Method::POST, path, Some(asked)).await;
    assert_eq!(status, 422, "{problem}");
    assert_eq!(problem["errors"][0]["pointer"], "/topic", "{problem}");
    server.stop().await;
}
