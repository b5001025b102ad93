//! Endpoints that cannot be read any more, or whose keys cannot be opened: they are replaced by setting them again.

use super::on_stores;
use crate::support::merchant::Merchant;
use crate::support::postgres::connect as connect_postgres;
use crate::support::redis::connect as connect_redis;
use crate::support::ringback::{BEGIN_MS, Server, Stores, config, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::clock::ManualClock;
use ringback::config::{JournalConfig, ServeConfig};
use ringback::domain::master_key::MasterKey;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;
use zeroize::Zeroizing;

on_stores!(
    what_cannot_be_read_is_replaced_as_a_whole,
    a_key_that_cannot_be_opened_is_replaced,
    what_names_an_endpoint_that_cannot_be_read_waits_and_delays_no_other,
);

const SHOP: &str = "/v1/endpoints/shop-1";

async fn start(stores: Stores) -> Server {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (config, dir) = with_master_key(stores, dir);
    Server::open(config, None, Some(dir)).await
}

fn with_master_key(stores: Stores, dir: TempDir) -> (ServeConfig, TempDir) {
    let mut config = config(dir.path(), stores);
    config.master_key = Some(MasterKey::from_random(Zeroizing::new([7; 32])));
    (config, dir)
}

/// Replaces a part of the text of the endpoint by another one.
async fn damage(config: &ServeConfig, part: &str, by: &str) {
    const UPDATE: &str = "UPDATE endpoints SET number = number + 1000000000000,
        settings = replace(settings, $1, $2), keys = replace(keys, $1, $2)";
    match &config.journal {
        JournalConfig::Postgres(url) => {
            let mut connection = connect_postgres(url.expose()).await;
            let update = sqlx::query(UPDATE).bind(part).bind(by);
            update.execute(&mut connection).await.expect("written");
        }
        JournalConfig::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let mut connection = options.connect().await.expect("a connection");
            let update = sqlx::query(UPDATE).bind(part).bind(by);
            update.execute(&mut connection).await.expect("written");
        }
        JournalConfig::None => {
            let url = config.schedule.redis.as_ref().expect("a Redis");
            let mut connection = connect_redis(url.expose()).await;
            let mut read = ::redis::cmd("HGET");
            read.arg("{rb:0}:endpoints").arg("shop-1");
            let record: String = read.query_async(&mut connection).await.expect("read");
            let mut write = ::redis::cmd("HSET");
            write.arg("{rb:0}:endpoints").arg("shop-1");
            // In the record, the text is a string in JSON.
            let [part, by] = [part, by].map(|text| text.replace('"', "\\\""));
            let damaged = record.replace(&part, &by);
            assert_ne!(damaged, record);
            write.arg(damaged);
            let () = write.query_async(&mut connection).await.expect("written");
        }
    }
}

async fn put(server: &Server, merchant: &Merchant, keys: Option<Value>) -> (u16, Value) {
    let mut endpoint = json!({ "url": merchant.url("/n"), "concurrency": 3 });
    if let Some(keys) = keys {
        endpoint["keys"] = keys;
    }
    server.call(Method::PUT, SHOP, Some(endpoint)).await
}

async fn what_cannot_be_read_is_replaced_as_a_whole(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    let (status, made) = put(&server, &merchant, None).await;
    assert_eq!(status, 201, "{made}");
    let config = server.config().clone();
    let dir = server.stop_and_keep().await;
    damage(&config, "\"url\"", "\"uri\"").await;
    let server = Server::open(config, None, dir).await;
    let (status, _) = server.call(Method::GET, SHOP, None).await;
    assert_eq!(status, 500);
    let (status, problem) = put(&server, &merchant, None).await;
    assert_eq!(status, 409, "{problem}");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("`keys`"), "{detail}");
    let patch = Some(json!({ "timeout": "1s" }));
    let (status, _) = server.call(Method::PATCH, SHOP, patch).await;
    assert_eq!(status, 500);
    let (status, replaced) = put(&server, &merchant, Some(json!([]))).await;
    assert_eq!(status, 200, "{replaced}");
    assert_eq!(replaced["version"], 2, "{replaced}");
    let naming = json!({ "topic": "t", "id": "a", "endpoint": "shop-1", "body": "x" });
    server.register(naming).await;
    merchant.call().await;
    server.until_state("a", "delivered").await;
    let (_, lane) = server
        .call(Method::GET, "/v1/lanes/endpoint%3Ashop-1", None)
        .await;
    assert_eq!(lane["concurrency"], 3, "{lane}");
    server.stop().await;
}

async fn a_key_that_cannot_be_opened_is_replaced(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = start(stores).await;
    let given = json!([{ "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" }]);
    let (status, made) = put(&server, &merchant, Some(given.clone())).await;
    assert_eq!(status, 201, "{made}");
    let config = server.config().clone();
    let dir = server.stop_and_keep().await;
    damage(&config, "\"2.", "\"2.AAAA").await;
    let server = Server::open(config, None, dir).await;
    let naming = json!({ "topic": "t", "id": "a", "endpoint": "shop-1", "body": "x" });
    server.register(naming).await;
    let warned = async {
        loop {
            let (_, ready) = server.call(Method::GET, "/readyz", None).await;
            // The route needs no key, so it does not name the endpoint.
            assert!(!ready.to_string().contains("shop-1"), "{ready}");
            if (ready["warnings"].to_string()).contains("a signing key of 1 endpoints") {
                return;
            }
            short_pause().await;
        }
    };
    within("the warning", warned).await;
    assert!(merchant.arrived().is_none(), "nothing is sent");
    let (status, replaced) = put(&server, &merchant, Some(given)).await;
    assert_eq!(status, 200, "{replaced}");
    assert_ne!(replaced["keys"][0]["id"], made["keys"][0]["id"]);
    merchant.call().await;
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1, "{view}");
    server.stop().await;
}

/// There is one call at a time, and each that waits for the endpoint would take it.
async fn what_names_an_endpoint_that_cannot_be_read_waits_and_delays_no_other(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let mut healthy = Merchant::start().await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut config, dir) = with_master_key(stores, dir);
    config.delivery.concurrency = 1;
    let clock = ManualClock::at(BEGIN_MS);
    let server = Server::open(config.clone(), Some(clock.clone()), Some(dir)).await;
    let (status, made) = put(&server, &merchant, None).await;
    assert_eq!(status, 201, "{made}");
    let ids = ["a", "b", "c"];
    for id in ids {
        let mut asked = json!({ "topic": "t", "id": id, "endpoint": "shop-1", "body": id });
        asked["delay"] = "1m".into();
        server.register(asked).await;
    }
    let dir = server.stop_and_keep().await;
    damage(&config, "\"url\"", "\"uri\"").await;
    clock.advance(60_000);
    let server = Server::open(config, Some(clock), dir).await;
    for number in 0..3 {
        let id = format!("healthy{number}");
        server.register(registration(&id, &healthy)).await;
        healthy.call().await;
        server.until_state(&id, "delivered").await;
    }
    let (status, ready) = server.call(Method::GET, "/readyz", None).await;
    assert_eq!(status, 200, "{ready}");
    assert!(!ready.to_string().contains("signing key"), "{ready}");
    let (status, changed) = put(&server, &merchant, Some(json!([]))).await;
    assert_eq!(status, 200, "{changed}");
    for id in ids {
        merchant.call().await;
        let view = server.until_state(id, "delivered").await;
        let attempts = view["attempts"].as_array().expect("attempts");
        // Without a journal, nothing is kept of attempts.
        let kept = usize::from(stores != Stores::RedisOnly);
        assert_eq!(attempts.len(), kept, "{view}");
        for attempt in attempts {
            assert_ne!(attempt["deferred_by"], "keys", "{view}");
        }
    }
    server.stop().await;
}
