//! A store that is away for a while: nothing accepted is lost, nothing is sent twice.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::{RedisServer, connect};
use crate::support::ringback::{Server, Stores, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::config::{JournalConfig, RedisUrl};
use ringback::domain::lease::Expiry;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};

/// A second connection to a server's journal that keeps everybody else from writing.
async fn lock_journal(server: &Server) -> SqliteConnection {
    let JournalConfig::Sqlite(path) = &server.config().journal else {
        panic!("it has a SQLite journal");
    };
    let options = SqliteConnectOptions::new().filename(path);
    let mut connection = options.connect().await.expect("opened");
    connection.execute("BEGIN IMMEDIATE").await.expect("locked");
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_away_for_longer_than_a_lease_doubles_nothing() {
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let server = Server::start_by_hand(Stores::Redis).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    let mut lock = lock_journal(&server).await;
    merchant.release();

    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let mut expiry = async || -> Option<i64> {
        let command = redis::Cmd::zscore("{rb:0}:leases", "t/a");
        let expiry: Option<String> = command.query_async(&mut redis).await.expect("answered");
        expiry.map(|text| Expiry::from_text(&text).expect("an expiry").at_ms)
    };
    // The clock goes on by three leases, each time almost to the end of the one in force.
    for _ in 0..3 {
        let before = expiry().await.expect("a lease");
        server.clock().turn_to(before - 1_000);
        within("the lease to be renewed", async {
            while expiry().await == Some(before) {
                short_pause().await;
            }
        })
        .await;
    }
    lock.execute("ROLLBACK").await.expect("unlocked");
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1);
    assert_eq!(view["attempts"][0]["outcome"], "acknowledged");
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_redis_is_back_the_very_next_registration_is_accepted() {
    let mut merchant = Merchant::start().await;
    let redis = RedisServer::start(&["--appendonly", "yes"]);
    let server = Server::start_as(Stores::RedisOnly, |config| {
        config.schedule.redis = Some(RedisUrl::parse(&redis.url(0)).expect("a URL"));
    })
    .await;
    let mut early = registration("early", &merchant);
    early["delay"] = "1s".into();
    server.register(early).await;
    let refused = async {
        let asked = registration("refused", &merchant);
        let (status, problem) = server
            .call(Method::POST, "/v1/notifications", Some(asked))
            .await;
        assert_eq!(status, 503, "{problem}");
    };
    let _redis = redis.restart(refused).await;
    server.register(registration("late", &merchant)).await;
    let mut bodies = [merchant.call().await.body, merchant.call().await.body];
    bodies.sort_unstable();
    assert_eq!(bodies, [&b"id=early"[..], b"id=late"]);
    for id in ["early", "late"] {
        server.until_state(id, "delivered").await;
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_waits_until_the_series_before_is_settled() {
    let held = Reaction::Held(Box::new(Reaction::Answer(410, vec![])));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let redis = RedisServer::start(&[]);
    let server = Server::start_as(Stores::Redis, |config| {
        config.schedule.redis = Some(RedisUrl::parse(&redis.url(0)).expect("a URL"));
    })
    .await;
    let mut asked = registration("a", &merchant);
    asked["ladder"] = "standard-webhooks".into();
    server.register(asked).await;
    merchant.call().await;
    // Redis answers what only reads and holds back what writes, as in a failover.
    let mut connection = connect(&redis.url(0)).await;
    let mut pause = redis::cmd("CLIENT");
    let paused = pause
        .arg(&["PAUSE", "700", "WRITE"])
        .exec_async(&mut connection)
        .await;
    paused.expect("paused");
    merchant.release();
    // The journal has the end; the schedule still has the lease.
    server.until("a", |view| view["state"] == "dead").await;
    let path = "/v1/dead-letters/t/a/replay";
    let (status, view) = server.call(Method::POST, path, None).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["series"], 2);
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_that_died_before_its_answer_can_be_asked_for_again() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::Redis).await;
    let mut asked = registration("a", &merchant);
    asked["delay"] = "1h".into();
    server.register(asked).await;
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let jobs = redis::Cmd::hget("{rb:0}:jobs", "t/a");
    let envelope: Vec<u8> = jobs.query_async(&mut redis).await.expect("there");
    let path = "/v1/notifications/t/a";
    let (status, view) = server.call(Method::DELETE, path, None).await;
    assert_eq!(status, 200, "{view}");
    // As it is if the server dies between the journal and the settlement: the lease is out.
    let lane = reqwest::Url::parse(&merchant.url("/")).expect("a URL");
    let lane = lane.origin().ascii_serialization();
    let mut left = redis::pipe();
    left.hset("{rb:0}:jobs", "t/a", envelope);
    left.zadd("{rb:0}:leases", "t/a", 9_000_000_000_000_000_i64);
    left.zadd(
        format!("{{rb:0}}:leased:{lane}"),
        "t/a",
        9_000_000_000_000_000_i64,
    );
    left.hset("{rb:0}:changing", "t/a", "somebody:1");
    left.exec_async(&mut redis).await.expect("written");
    let (status, view) = server.call(Method::DELETE, path, None).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(view["state"], "cancelled");
    server.stop().await;
    assert!(merchant.arrived().is_none());
}
