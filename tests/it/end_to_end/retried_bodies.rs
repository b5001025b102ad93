//! Where the content of a notification is that waits in Redis for a later attempt, or was loaded into Redis: in the journal
//! alone, if there is one.

use crate::end_to_end::on_stores;
use crate::end_to_end::set_aside::sql;
use crate::support::held::held;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{Server, Stores, with_ladder};
use crate::support::{short_pause, within};
use ::redis::Cmd;
use ::redis::aio::MultiplexedConnection;
use bytes::Bytes;
use ringback::domain::body::Body;
use ringback::domain::notification::Notification;
use ringback::domain::progress::Progress;
use ringback::schedule::Entry;
use ringback::schedule::envelope::{self, BodyWriting, Decoded};
use serde_json::{Value, json};
use std::sync::Arc;

const JOBS: &str = "{rb:0}:jobs";
const FIELD: &str = "t/order-1";
const BODY: &str = "a body that is found in Redis, or not";

macro_rules! on_journals_beside_redis {
    ($($name:ident),+ $(,)?) => {
        on_stores!(@ redis Redis $($name)+);
        on_stores!(@ postgres Postgres $($name)+);
    };
}
on_journals_beside_redis!(
    a_later_attempt_reads_it_in_the_journal,
    redis_is_loaded_without_it_again,
    redis_is_loaded_without_that_of_a_first_attempt,
    one_that_an_earlier_version_left_in_redis_is_sent,
    what_begins_again_has_it_in_redis,
    one_that_the_journal_has_lost_is_set_aside,
    what_the_journal_has_lost_altogether_can_be_registered_again,
    what_is_registered_anew_replaces_what_the_journal_has_lost,
);

/// A server whose clock is turned by hand, a merchant that does not accept the first attempts, and the registration.
async fn stage(stores: Stores, failures: usize) -> (Server, Merchant, Value) {
    let refusals = (0..failures).map(|_| Reaction::fail()).collect();
    let merchant = Merchant::scripted(refusals, Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    let mut asked = with_ladder("order-1", &merchant, &["1m", "1m"]);
    asked["body"] = json!(BODY);
    asked["content_type"] = json!("application/x-www-form-urlencoded");
    asked["headers"] = json!({ "x-request-id": "42" });
    (server, merchant, asked)
}

async fn redis_of(server: &Server) -> MultiplexedConnection {
    let url = server.config().schedule.redis.as_ref().expect("on Redis");
    connect(url.expose()).await
}

/// The envelope of the notification in Redis, and what it says; `None` if it has none.
async fn found_in(redis: &mut MultiplexedConnection) -> Option<(Vec<u8>, Decoded)> {
    let asked = Cmd::hget(JOBS, FIELD);
    let found: Option<Vec<u8>> = asked.query_async(redis).await.expect("answered");
    let bytes = found?;
    let decoded = envelope::decode_any(FIELD, &Bytes::from(bytes.clone()));
    Some((bytes, decoded.expect("readable")))
}

/// What Redis has of the notification, all of which is there.
async fn entry_in(redis: &mut MultiplexedConnection) -> (Vec<u8>, Entry) {
    match found_in(redis).await {
        Some((bytes, Decoded::Whole(entry))) => (bytes, *entry),
        other => panic!("{other:?}"),
    }
}

/// Has the first attempt made so long after the registration that the journal has it for certain.
async fn first_call(server: &Server, merchant: &mut Merchant, asked: &Value) {
    let mut asked = asked.clone();
    asked["delay"] = json!("2m");
    server.register(asked).await;
    server.clock().advance(120_000);
    whole_call(merchant, 1).await;
}

/// Awaits that the attempt of this number is over in Redis too, and tells whether the body is there then. If not, nothing
/// else is there but the place in the lane.
async fn has_body_after(redis: &mut MultiplexedConnection, attempts: u32) -> bool {
    let settled = async {
        loop {
            match found_in(redis).await {
                Some((bytes, Decoded::Whole(entry))) if entry.progress.attempts == attempts => {
                    return Some((bytes, entry));
                }
                None if held(redis).await == 1 => return None,
                Some(_) | None => {}
            }
            short_pause().await;
        }
    };
    let Some((bytes, entry)) = within("the attempt to be settled", settled).await else {
        return false;
    };
    let mut parts = bytes.windows(BODY.len());
    assert!(parts.any(|part| part == BODY.as_bytes()));
    assert_eq!(entry.notification.body.len(), BODY.len());
    true
}

/// Awaits a call with everything that was registered.
async fn whole_call(merchant: &mut Merchant, attempt: u32) {
    let call = merchant.call().await;
    assert_eq!((call.attempt(), &call.body[..]), (attempt, BODY.as_bytes()));
    let form = "application/x-www-form-urlencoded";
    assert_eq!(call.header("Content-Type"), form);
    assert_eq!(call.header("X-Request-Id"), "42");
    assert_eq!(call.request_line, "POST /notify HTTP/1.1");
}

async fn a_later_attempt_reads_it_in_the_journal(stores: Stores) {
    let (server, mut merchant, asked) = stage(stores, 2).await;
    let mut redis = redis_of(&server).await;
    let mut delayed = asked;
    delayed["delay"] = json!("2m");
    server.register(delayed).await;
    assert!(has_body_after(&mut redis, 0).await, "for the first attempt");
    server.clock().advance(120_000);
    whole_call(&mut merchant, 1).await;
    assert!(!has_body_after(&mut redis, 1).await);
    server.clock().advance(60_000);
    whole_call(&mut merchant, 2).await;
    assert!(!has_body_after(&mut redis, 2).await);

    let server = server.restart().await;
    server.clock().advance(60_000);
    whole_call(&mut merchant, 3).await;
    server.until_state("order-1", "delivered").await;
    server.stop().await;
}

async fn redis_is_loaded_without_it_again(stores: Stores) {
    let (server, mut merchant, asked) = stage(stores, 1).await;
    let mut redis = redis_of(&server).await;
    first_call(&server, &mut merchant, &asked).await;
    assert!(!has_body_after(&mut redis, 1).await);
    empty_and_load(&mut redis).await;
    assert!(!has_body_after(&mut redis, 1).await);
    server.clock().advance(60_000);
    whole_call(&mut merchant, 2).await;
    server.until_state("order-1", "delivered").await;
    server.stop().await;
}

async fn redis_is_loaded_without_that_of_a_first_attempt(stores: Stores) {
    let (server, mut merchant, mut asked) = stage(stores, 1).await;
    let mut redis = redis_of(&server).await;
    asked["delay"] = json!("1m");
    server.register(asked).await;
    assert!(has_body_after(&mut redis, 0).await, "it was registered");
    empty_and_load(&mut redis).await;
    assert!(!has_body_after(&mut redis, 0).await, "it was loaded");
    server.clock().advance(60_000);
    whole_call(&mut merchant, 1).await;
    assert!(!has_body_after(&mut redis, 1).await);
    server.clock().advance(60_000);
    whole_call(&mut merchant, 2).await;
    server.until_state("order-1", "delivered").await;
    server.stop().await;
}

/// Empties Redis, and awaits that the entry is there again.
async fn empty_and_load(redis: &mut MultiplexedConnection) {
    let () = Cmd::new()
        .arg("FLUSHDB")
        .query_async(redis)
        .await
        .expect("emptied");
    let loaded = async {
        while held(redis).await == 0 {
            short_pause().await;
        }
    };
    within("the entry to be back", loaded).await;
}

/// The entries of a version that left every body in Redis.
async fn one_that_an_earlier_version_left_in_redis_is_sent(stores: Stores) {
    let (server, mut merchant, mut asked) = stage(stores, 2).await;
    let mut redis = redis_of(&server).await;
    asked["delay"] = json!("2m");
    server.register(asked).await;
    let (_, entry) = entry_in(&mut redis).await;
    server.clock().advance(120_000);
    whole_call(&mut merchant, 1).await;
    assert!(!has_body_after(&mut redis, 1).await);
    // Another body than that of the journal tells which of the two was sent.
    let before = Entry {
        notification: Arc::new(Notification {
            body: Body::Here(Bytes::from_static(b"of the version before")),
            ..(*entry.notification).clone()
        }),
        progress: Progress {
            step: 1,
            attempts: 1,
            due_ms: entry.progress.due_ms + 60_000,
            ..entry.progress
        },
        ..entry
    };
    let () = Cmd::hset(JOBS, FIELD, envelope::encode(&before, BodyWriting::Whole))
        .query_async(&mut redis)
        .await
        .expect("written");
    server.clock().advance(60_000);
    let call = merchant.call().await;
    assert_eq!(
        (call.attempt(), &call.body[..]),
        (2, &b"of the version before"[..])
    );
    server.until_attempts("order-1", 2).await;
    server.clock().advance(60_000);
    whole_call(&mut merchant, 3).await;
    server.until_state("order-1", "delivered").await;
    server.stop().await;
}

/// The first attempt of a series comes soon, so reading its body would only cost.
async fn what_begins_again_has_it_in_redis(stores: Stores) {
    let (server, mut merchant, mut asked) = stage(stores, 1).await;
    let mut redis = redis_of(&server).await;
    asked["ladder"] = json!({ "intervals": [] });
    server.register(asked).await;
    whole_call(&mut merchant, 1).await;
    server.until_state("order-1", "dead").await;
    let held = json!({ "reason": "the shop is closed" });
    let lane = urlencoding_of(&merchant.url(""));
    let path = format!("/v1/lanes/{lane}/hold");
    let (status, problem) = server.call(reqwest::Method::POST, &path, Some(held)).await;
    assert_eq!(status, 200, "{problem}");
    let again = json!({ "reason": "it opens again" });
    let path = "/v1/dead-letters/t/order-1/replay";
    let (status, problem) = server.call(reqwest::Method::POST, path, Some(again)).await;
    assert_eq!(status, 200, "{problem}");
    assert!(has_body_after(&mut redis, 1).await);
    server.stop().await;
}

fn urlencoding_of(lane: &str) -> String {
    lane.replace(':', "%3A").replace('/', "%2F")
}

async fn one_that_the_journal_has_lost_is_set_aside(stores: Stores) {
    let (server, mut merchant, asked) = stage(stores, 1).await;
    let mut redis = redis_of(&server).await;
    first_call(&server, &mut merchant, &asked).await;
    assert!(!has_body_after(&mut redis, 1).await);
    sql(&server.config().journal, "DELETE FROM payloads").await;
    server.clock().advance(60_000);
    let view = server
        .until("order-1", |view| view["set_aside"].is_object())
        .await;
    let reason = view["set_aside"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("has no body"), "{reason}");
    assert_eq!(view["attempts_made"], 1);
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// The journal loses everything, as when an older copy of it was restored.
async fn forget_in_the_journal(server: &Server, stores: Stores) {
    let journal = &server.config().journal;
    for table in [
        "attempts",
        "transitions",
        "payloads",
        "statuses",
        "notifications",
    ] {
        if (table, stores) != ("statuses", Stores::Redis) {
            sql(journal, &format!("DELETE FROM {table}")).await;
        }
    }
}

/// As when an older copy of the journal was restored. It cannot be sent, and nothing of it is in the way of the same
/// notification when its owner registers it again.
async fn what_the_journal_has_lost_altogether_can_be_registered_again(stores: Stores) {
    let (server, mut merchant, asked) = stage(stores, 1).await;
    let mut redis = redis_of(&server).await;
    first_call(&server, &mut merchant, &asked).await;
    assert!(!has_body_after(&mut redis, 1).await);
    forget_in_the_journal(&server, stores).await;
    server.clock().advance(60_000);
    let put_off = async {
        let leases = Cmd::zcard("{rb:0}:leases");
        while found_in(&mut redis).await.is_none()
            || leases
                .query_async::<usize>(&mut redis)
                .await
                .expect("a number")
                > 0
        {
            short_pause().await;
        }
    };
    within("the entry to be put off", put_off).await;
    assert!(merchant.arrived().is_none());

    server.register(asked).await;
    whole_call(&mut merchant, 1).await;
    let view = server.until_state("order-1", "delivered").await;
    assert_eq!(view["attempts_made"], 1);
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// Redis still has what was registered before, with another body and webhook id.
async fn what_is_registered_anew_replaces_what_the_journal_has_lost(stores: Stores) {
    let (server, mut merchant, mut asked) = stage(stores, 0).await;
    let mut redis = redis_of(&server).await;
    asked["delay"] = json!("1m");
    let mut before = asked.clone();
    before["body"] = json!("what was asked for at first");
    server.register(before).await;
    let (_, lost) = entry_in(&mut redis).await;
    forget_in_the_journal(&server, stores).await;

    server.register(asked).await;
    let (_, entry) = entry_in(&mut redis).await;
    assert_ne!(entry.notification.webhook_id, lost.notification.webhook_id);
    server.clock().advance(60_000);
    whole_call(&mut merchant, 1).await;
    let view = server.until_state("order-1", "delivered").await;
    assert_eq!(
        view["webhook_id"],
        entry.notification.webhook_id.to_string()
    );
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// Without a journal, Redis has the only copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_journal_it_stays_in_redis() {
    let (server, mut merchant, asked) = stage(Stores::RedisOnly, 2).await;
    let mut redis = redis_of(&server).await;
    server.register(asked).await;
    whole_call(&mut merchant, 1).await;
    assert!(has_body_after(&mut redis, 1).await);
    server.clock().advance(60_000);
    whole_call(&mut merchant, 2).await;
    assert!(has_body_after(&mut redis, 2).await);
    server.clock().advance(60_000);
    whole_call(&mut merchant, 3).await;
    server.until_state("order-1", "delivered").await;
    server.stop().await;
}
