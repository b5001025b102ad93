//! What the schedule has of a notification is only a place in a lane: the attempt sends what the journal has, and only
//! what the journal has.

use super::on_stores;
use super::set_aside::{Damage, sql};
use crate::support::held::{held, until_leases_are_back};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::postgres::PostgresServer;
use crate::support::redis::connect;
use crate::support::ringback::{BEGIN_MS, Server, Stores, config, registration, with_ladder};
use crate::support::{short_pause, within};
use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, pipe};
use reqwest::Method;
use ringback::clock::ManualClock;
use ringback::config::{JournalConfig, PostgresUrl};
use ringback::domain::lane::Lane;
use ringback::schedule::CLAIMED_EARLY_MS;
use serde_json::json;

macro_rules! on_journals_beside_redis {
    ($($name:ident),+ $(,)?) => {
        on_stores!(@ redis Redis $($name)+);
        on_stores!(@ postgres Postgres $($name)+);
    };
}
on_journals_beside_redis!(
    a_place_that_is_too_early_is_corrected,
    what_has_ended_or_is_set_aside_is_not_sent,
    what_the_journal_cannot_read_is_set_aside,
    what_the_journal_cannot_read_does_not_keep_the_rest_from_being_whole,
    what_can_neither_be_read_nor_set_aside_is_tried_again,
    one_that_lost_its_content_keeps_its_order,
    what_waits_for_a_retry_takes_little_and_is_retried,
    what_is_due_in_more_than_a_minute_can_be_changed_at_once,
);

const MINUTE_MS: i64 = 60_000;

async fn redis_of(server: &Server) -> MultiplexedConnection {
    let url = server.config().schedule.redis.as_ref().expect("on Redis");
    connect(url.expose()).await
}

fn lane_of(merchant: &Merchant) -> Lane {
    Lane::parse(&merchant.url("/")).expect("a lane")
}

/// Gives a notification a place in its lane that is due now, and nothing else.
async fn place(redis: &mut MultiplexedConnection, merchant: &Merchant, id: &str, now_ms: i64) {
    let lane = lane_of(merchant);
    let key = format!("t/{id}");
    let mut placed = pipe();
    placed.hdel("{rb:0}:jobs", &key);
    placed.zadd(format!("{{rb:0}}:lane:{}", lane.as_str()), &key, now_ms);
    placed.zadd("{rb:0}:lanes", lane.as_str(), now_ms * 1_000);
    let () = placed.query_async(redis).await.expect("written");
}

/// Has another notification of the same destination delivered, so what was due before was looked at.
async fn deliver_another(server: &Server, merchant: &mut Merchant, id: &str) {
    server.register(registration(id, merchant)).await;
    let expected = format!("id={id}").into_bytes();
    assert_eq!(merchant.call().await.body, expected);
    server.until_state(id, "delivered").await;
}

async fn a_place_that_is_too_early_is_corrected(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut redis = redis_of(&server).await;
    let mut asked = registration("a", &merchant);
    asked["delay"] = json!("30m");
    server.register(asked).await;
    place(&mut redis, &merchant, "a", BEGIN_MS).await;
    server.clock().advance(1);
    deliver_another(&server, &mut merchant, "b").await;
    until_leases_are_back(&mut redis).await;
    assert_eq!(held(&mut redis).await, 1);
    server
        .clock()
        .turn_to(BEGIN_MS + 30 * MINUTE_MS - CLAIMED_EARLY_MS - 1);
    deliver_another(&server, &mut merchant, "c").await;
    server.clock().advance(CLAIMED_EARLY_MS + 1);
    assert_eq!(merchant.call().await.body, b"id=a");
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 1);
    assert_eq!(
        view["attempts"][0]["started_at"],
        "2026-11-20T09:00:00.000Z"
    );
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn what_has_ended_or_is_set_aside_is_not_sent(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut redis = redis_of(&server).await;
    for id in ["delivered", "cancelled", "aside"] {
        let mut asked = registration(id, &merchant);
        if id != "delivered" {
            asked["delay"] = json!("2h");
        }
        server.register(asked).await;
    }
    assert_eq!(merchant.call().await.body, b"id=delivered");
    server.until_state("delivered", "delivered").await;
    let cancelled = server.call(Method::DELETE, "/v1/notifications/t/cancelled", None);
    assert_eq!(cancelled.await.0, 200);
    let aside = "INSERT INTO set_aside (topic, id, at_ms, reason, instance) \
                 VALUES ('t', 'aside', 1, 'by hand', 'i')";
    sql(&server.config().journal, aside).await;
    for id in ["delivered", "cancelled", "aside"] {
        place(&mut redis, &merchant, id, BEGIN_MS).await;
    }
    server.clock().advance(1);
    deliver_another(&server, &mut merchant, "other").await;
    within("the places to be given up", async {
        while held(&mut redis).await > 0 {
            short_pause().await;
        }
    })
    .await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn what_the_journal_cannot_read_is_set_aside(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut redis = redis_of(&server).await;
    let mut asked = registration("a", &merchant);
    asked["delay"] = json!("30m");
    server.register(asked).await;
    let damage = "UPDATE notifications SET ladder = ladder || ' and damage'";
    sql(&server.config().journal, damage).await;
    place(&mut redis, &merchant, "a", BEGIN_MS).await;
    server.clock().advance(1);
    within("the place to be given up", async {
        while held(&mut redis).await > 0 {
            short_pause().await;
        }
    })
    .await;
    let repair = "UPDATE notifications SET ladder = replace(ladder, ' and damage', '')";
    sql(&server.config().journal, repair).await;
    let view = server.get("a").await;
    let reason = view["set_aside"]["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("the journal cannot read the notification: "),
        "{reason}"
    );
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// Its place is loaded like any other; only the attempt reads the rest.
async fn what_the_journal_cannot_read_does_not_keep_the_rest_from_being_whole(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut redis = redis_of(&server).await;
    for id in ["broken", "a"] {
        let mut asked = registration(id, &merchant);
        asked["delay"] = json!("30m");
        server.register(asked).await;
    }
    let damage = "UPDATE notifications SET ladder = ladder || ' and damage' WHERE id = 'broken'";
    sql(&server.config().journal, damage).await;
    let () = (::redis::cmd("FLUSHDB").query_async(&mut redis).await).expect("emptied");
    // This makes the server notice.
    server.register(registration("now", &merchant)).await;
    assert_eq!(merchant.call().await.body, b"id=now");
    within("the schedule to be whole again", async {
        let state = Cmd::hget("{rb:0}:meta", "state");
        while state.query_async::<String>(&mut redis).await.ok() != Some("whole".to_string()) {
            short_pause().await;
        }
    })
    .await;
    server.clock().advance(30 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=a");
    server.until_state("a", "delivered").await;
    until_leases_are_back(&mut redis).await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// Its lease is given back in time: the end of one that expires counts as an attempt that was interrupted.
async fn what_can_neither_be_read_nor_set_aside_is_tried_again(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    let mut redis = redis_of(&server).await;
    let asked = with_ladder("broken", &merchant, &["4m"]);
    server.register(asked).await;
    assert_eq!(merchant.call().await.attempt(), 1);
    server.until_attempts("broken", 1).await;
    until_leases_are_back(&mut redis).await;
    let again_ms = BEGIN_MS + 4 * MINUTE_MS - CLAIMED_EARLY_MS;
    place(&mut redis, &merchant, "broken", again_ms).await;
    let damage = "UPDATE notifications SET ladder = ladder || ' and damage'";
    sql(&server.config().journal, damage).await;
    Damage::Note.do_it(&server.config().journal).await;
    server.clock().advance(4 * MINUTE_MS);
    for again in 0..3 {
        let expires_ms = until_leased(&mut redis).await;
        if again == 2 {
            let repair = "UPDATE notifications SET ladder = replace(ladder, ' and damage', '')";
            sql(&server.config().journal, repair).await;
        }
        // Later than that, no attempt would begin under this lease.
        let timeout_ms =
            i64::try_from(server.config().delivery.timeout.as_millis()).expect("short");
        server.clock().turn_to(expires_ms - timeout_ms);
        until_leases_are_back(&mut redis).await;
        server.clock().advance(MINUTE_MS);
    }
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_state("broken", "delivered").await;
    assert_eq!(view["attempts_made"], 2);
    assert_eq!(view["attempts"].as_array().map(Vec::len), Some(2));
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// Waits until `t/broken` is leased; says when the lease ends, in milliseconds since 1970.
async fn until_leased(redis: &mut MultiplexedConnection) -> i64 {
    within("it to be leased", async {
        let lease = Cmd::zscore("{rb:0}:leases", "t/broken");
        loop {
            let found: Option<i64> = lease.query_async(redis).await.expect("a score");
            match found {
                Some(expiry_us) => return expiry_us / 1_000,
                None => short_pause().await,
            }
        }
    })
    .await
}

/// A strict second number that is due, whose first number is not.
async fn one_that_lost_its_content_keeps_its_order(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut redis = redis_of(&server).await;
    for (id, number, delay) in [("first", 1, "30m"), ("second", 2, "20m")] {
        let mut asked = registration(id, &merchant);
        asked["order"] = json!({ "key": "order-1", "number": number, "mode": "strict" });
        asked["delay"] = json!(delay);
        server.register(asked).await;
    }
    let () = Cmd::hdel("{rb:0}:jobs", "t/second")
        .query_async(&mut redis)
        .await
        .expect("lost");
    server.clock().advance(20 * MINUTE_MS);
    deliver_another(&server, &mut merchant, "other").await;
    until_leases_are_back(&mut redis).await;
    assert_eq!(server.get("second").await["attempts_made"], 0);
    server.clock().advance(10 * MINUTE_MS);
    assert_eq!(merchant.call().await.body, b"id=first");
    assert_eq!(merchant.call().await.body, b"id=second");
    server.until_state("second", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn what_waits_for_a_retry_takes_little_and_is_retried(stores: Stores) {
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    let server = Server::start_by_hand(stores).await;
    let mut redis = redis_of(&server).await;
    server.register(with_ladder("a", &merchant, &["4m"])).await;
    assert_eq!(merchant.call().await.attempt(), 1);
    server.until_attempts("a", 1).await;
    until_leases_are_back(&mut redis).await;
    assert_eq!(held(&mut redis).await, 1);
    // A journal may lose what it was given a moment ago.
    assert_eq!(envelopes(&mut redis).await, 1);
    server.clock().advance(2 * MINUTE_MS - 1);
    deliver_another(&server, &mut merchant, "b").await;
    until_leases_are_back(&mut redis).await;
    assert_eq!(envelopes(&mut redis).await, 1);
    server.clock().advance(MINUTE_MS / 2);
    within("its content to be left to the journal", async {
        while envelopes(&mut redis).await > 0 {
            short_pause().await;
        }
    })
    .await;
    assert_eq!(held(&mut redis).await, 1);
    server.clock().advance(3 * MINUTE_MS / 2 - CLAIMED_EARLY_MS);
    assert!(merchant.arrived().is_none());
    server.clock().advance(CLAIMED_EARLY_MS + 1);
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_state("a", "delivered").await;
    assert_eq!(
        view["attempts"][1]["started_at"],
        view["attempts"][1]["due_at"]
    );
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

async fn envelopes(redis: &mut MultiplexedConnection) -> usize {
    let envelopes = Cmd::hlen("{rb:0}:jobs");
    envelopes.query_async(redis).await.expect("a number")
}

async fn what_is_due_in_more_than_a_minute_can_be_changed_at_once(stores: Stores) {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(stores).await;
    let mut redis = redis_of(&server).await;
    for id in ["cancelled", "moved", "retried"] {
        let mut asked = registration(id, &merchant);
        asked["delay"] = json!("30m");
        server.register(asked).await;
    }
    let change = async |method, path: &str, body| {
        let path = format!("/v1/notifications/t/{path}");
        server.call(method, &path, body).await
    };
    assert_eq!(change(Method::DELETE, "cancelled", None).await.0, 200);
    let later = Some(json!({ "delay": "50m" }));
    assert_eq!(change(Method::PATCH, "moved", later).await.0, 200);
    assert_eq!(change(Method::POST, "retried/retry", None).await.0, 200);
    assert_eq!(merchant.call().await.body, b"id=retried");
    server.until_state("retried", "delivered").await;
    until_leases_are_back(&mut redis).await;
    assert_eq!(held(&mut redis).await, 1);
    server
        .clock()
        .advance(50 * MINUTE_MS - CLAIMED_EARLY_MS - 1);
    deliver_another(&server, &mut merchant, "other").await;
    assert!(merchant.arrived().is_none());
    server.clock().advance(CLAIMED_EARLY_MS + 1);
    assert_eq!(merchant.call().await.body, b"id=moved");
    server.until_state("moved", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// Nothing is sent that the journal cannot be asked about, and no attempt is spent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_journal_is_away_it_waits() {
    let mut postgres = PostgresServer::start(&[]);
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = config(dir.path(), Stores::Redis);
    let url = PostgresUrl::parse(&postgres.fresh_database());
    config.journal = JournalConfig::Postgres(url.expect("a URL"));
    let server = Server::open(config, Some(ManualClock::at(BEGIN_MS)), Some(dir)).await;
    let mut merchant = Merchant::scripted(vec![Reaction::fail()], Reaction::success()).await;
    server.register(with_ladder("a", &merchant, &["4m"])).await;
    assert_eq!(merchant.call().await.attempt(), 1);
    server.until_attempts("a", 1).await;
    let mut redis = redis_of(&server).await;
    until_leases_are_back(&mut redis).await;
    postgres.kill();
    server.clock().advance(4 * MINUTE_MS);
    within("it to be claimed", async {
        let leases = Cmd::zcard("{rb:0}:leases");
        while leases
            .query_async::<usize>(&mut redis)
            .await
            .expect("a number")
            == 0
        {
            short_pause().await;
        }
    })
    .await;
    assert!(merchant.arrived().is_none());
    postgres.start_again().await;
    assert_eq!(merchant.call().await.attempt(), 2);
    let view = server.until_state("a", "delivered").await;
    assert_eq!(view["attempts_made"], 2);
    server.stop().await;
    assert!(merchant.arrived().is_none());
}
