//! A Redis that loses its data under a running server.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{Server, Stores, registration};
use crate::support::within;

/// Empties the server's Redis behind its back.
async fn flush(server: &Server) {
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let flush = redis::cmd("FLUSHDB").exec_async(&mut redis).await;
    flush.expect("flushed");
}

/// Awaits that so many notifications are in the server's Redis.
async fn until_held(server: &Server, many: usize) {
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    within("Redis to be filled", async {
        loop {
            let command = redis::Cmd::hlen("{rb:0}:jobs");
            let size: usize = command.query_async(&mut redis).await.expect("a size");
            if size == many {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The kinds of the lines of a notification's history.
async fn history(server: &Server, id: &str) -> Vec<String> {
    let view = server.get(id).await;
    let lines = view["transitions"].as_array().expect("a history").iter();
    lines
        .map(|line| line["kind"].as_str().expect("a kind").to_string())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_redis_is_filled_again_and_registrations_are_accepted_meanwhile() {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Redis).await;
    let delayed = async |id: &str| {
        let mut asked = registration(id, &merchant);
        asked["delay"] = "30m".into();
        server.register(asked).await;
    };
    delayed("a").await;
    delayed("b").await;
    flush(&server).await;
    server.clock().advance(1);
    // The first call after the flush.
    delayed("c").await;
    until_held(&server, 3).await;
    assert_eq!(history(&server, "a").await, ["registered", "restored"]);
    server.clock().advance(30 * 60_000);
    let mut bodies = Vec::new();
    for _ in 0..3 {
        bodies.push(merchant.call().await.body);
    }
    bodies.sort_unstable();
    assert_eq!(bodies, [b"id=a", b"id=b", b"id=c"]);
    for id in ["a", "b", "c"] {
        server.until_state(id, "delivered").await;
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_way_when_redis_is_flushed_is_made_once() {
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let server = Server::start(Stores::Redis).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    flush(&server).await;
    // The dispatcher's slow poll notices, the keeper fills it, and the same server claims it anew.
    until_held(&server, 1).await;
    server.register(registration("b", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=b");
    merchant.release();
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1);
    server.until_state("b", "delivered").await;
    until_held(&server, 0).await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_journal_a_flushed_redis_goes_on_empty() {
    let mut merchant = Merchant::start().await;
    let server = Server::start(Stores::RedisOnly).await;
    let mut lost = registration("lost", &merchant);
    lost["delay"] = "30m".into();
    server.register(lost.clone()).await;
    flush(&server).await;
    server.register(registration("new", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=new");
    // What callers register again is new.
    server.register(lost).await;
    server.stop().await;
}
