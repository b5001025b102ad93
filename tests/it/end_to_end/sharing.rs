//! Several servers on one Redis, and servers that do not belong together.

use super::{on_several_redis, on_stores};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis::connect;
use crate::support::ringback::{Server, Stores, config, registration, secret};
use crate::support::{short_pause, within};
use reqwest::Method;
use ringback::app::App;
use ringback::domain::lane::Lane;
use ringback::domain::signature::SigningSecret;
use std::collections::BTreeMap;
use std::time::Duration;

on_stores!(@ redis_only RedisOnly two_servers_share_the_work_and_never_send_the_same_attempt_twice);
on_several_redis!(two_servers_share_the_work_and_never_send_the_same_attempt_twice);
on_stores!(@ cluster_only ClusterOnly two_servers_share_the_work_and_never_send_the_same_attempt_twice);
on_stores!(@ postgres Postgres two_servers_share_the_work_and_never_send_the_same_attempt_twice);

async fn two_servers_share_the_work_and_never_send_the_same_attempt_twice(stores: Stores) {
    const LANES: usize = 40;
    const EACH: usize = 10;
    let mut merchants = Vec::new();
    for _ in 0..LANES {
        merchants.push(Merchant::start().await);
    }
    let one = Server::start(stores).await;
    // Each names itself to the merchant, who can tell them apart by that.
    let mut beside = one.config().clone();
    beside.delivery.user_agent = "the-other".to_string();
    let other = Server::open(beside, None, None).await;

    let mut registering = tokio::task::JoinSet::new();
    for number in 0..LANES * EACH {
        let api = if number % 2 == 0 {
            (*one).clone()
        } else {
            (*other).clone()
        };
        let mut asked = registration(&format!("n{number}"), &merchants[number % LANES]);
        asked["delay"] = "500ms".into();
        registering.spawn(async move { api.register(asked).await });
    }
    registering.join_all().await;

    let mut senders = [0, 0];
    let mut attempts = BTreeMap::new();
    for merchant in &mut merchants {
        for _ in 0..EACH {
            let call = merchant.call().await;
            let by_other = call.header("User-Agent") == "the-other";
            assert!(call.is_signed_by(&secret()));
            senders[usize::from(by_other)] += 1;
            let attempt = (call.header("Webhook-Id").to_string(), call.attempt());
            *attempts.entry(attempt).or_insert(0) += 1;
        }
    }
    for number in 0..LANES * EACH {
        one.until_state(&format!("n{number}"), "delivered").await;
    }
    one.stop().await;
    other.stop().await;
    assert!(
        merchants
            .iter_mut()
            .all(|merchant| merchant.arrived().is_none())
    );
    assert_eq!(
        attempts.len(),
        LANES * EACH,
        "each notification has one attempt"
    );
    assert!(attempts.values().all(|calls| *calls == 1), "{attempts:?}");
    assert!(
        senders.iter().all(|sent| *sent > 0),
        "both did some of the work: {senders:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_signs_with_another_secret_is_refused_while_the_others_live() {
    let first = Server::start(Stores::RedisOnly).await;
    let mut beside = first.config().clone();
    beside.delivery.signing_secret = SigningSecret::from_random(&[43; 32]);
    let error = App::start(beside.clone())
        .await
        .err()
        .expect("it is refused");
    let text = format!("{error:#}");
    assert!(text.contains("sign with another secret"), "{text}");
    assert!(
        !text.contains(beside.delivery.signing_secret.expose()),
        "{text}"
    );
    // With the same, and with another once the first has stopped, it starts.
    let same = Server::open(first.config().clone(), None, None).await;
    same.stop().await;
    first.stop().await;
    Server::open(beside, None, None).await.stop().await;
}

/// All its attempts are in flight, so it claims nothing: for as long as a call may take, which is longer than
/// a server that claims nothing is taken to be alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_no_attempt_free_says_that_it_is_alive() {
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut own = config(dir.path(), Stores::RedisOnly);
    own.delivery.concurrency = 1;
    // No attempt comes free while the sign of life is waited for.
    own.delivery.timeout = Duration::from_secs(120);
    let url = own.schedule.redis.clone().expect("on Redis");
    let server = Server::open(own, None, None).await;
    server.register(registration("a", &merchant)).await;
    merchant.call().await;
    let mut redis = connect(url.expose()).await;
    let mut alive_at = async || {
        let asked = redis::Cmd::hgetall("{rb:0}:meta");
        let meta: BTreeMap<String, String> = asked.query_async(&mut redis).await.expect("answered");
        let mut at = meta.into_iter().filter(|(name, _)| name.starts_with("at:"));
        at.next().expect("its last word").1
    };
    let before = alive_at().await;
    within("a sign of life", async {
        while alive_at().await == before {
            short_pause().await;
        }
    })
    .await;
    merchant.release();
    server.until_state("a", "delivered").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_journal_is_refused() {
    let first = Server::start(Stores::Redis).await;
    let redis = first.config().schedule.redis.clone();
    for stores in [Stores::Redis, Stores::RedisOnly] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut foreign = config(dir.path(), stores);
        foreign.schedule.redis.clone_from(&redis);
        let error = App::start(foreign).await.err().expect("it is refused");
        assert!(
            format!("{error:#}").contains("belongs to journal"),
            "{error:#}"
        );
    }
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_says_of_nobody_whose_it_is_is_left_to_the_journal_that_knows_it() {
    let mut merchant = Merchant::start().await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let own = config(dir.path(), Stores::Redis);
    let server = Server::open(own.clone(), None, None).await;
    let mut asked = registration("a", &merchant);
    asked["delay"] = "1s".into();
    server.register(asked).await;
    server.stop().await;
    let url = own.schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let lost = redis::Cmd::del(&["{rb:0}:epoch", "{rb:0}:meta"]);
    lost.exec_async(&mut redis).await.expect("deleted");
    let beside = tempfile::tempdir().expect("a temporary directory");
    let mut foreign = config(beside.path(), Stores::Redis);
    foreign.schedule.redis.clone_from(&own.schedule.redis);
    let error = App::start(foreign).await.err().expect("it is refused");
    let text = format!("{error:#}");
    assert!(text.contains("without an owner"), "{text}");
    let server = Server::open(own, None, None).await;
    assert_eq!(merchant.call().await.body, b"id=a");
    server.until_state("a", "delivered").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_lost_is_put_back_at_the_next_start() {
    let mut merchant = Merchant::start().await;
    let server = Server::start_by_hand(Stores::Redis).await;
    for id in ["a", "b"] {
        let mut asked = registration(id, &merchant);
        asked["delay"] = "30m".into();
        server.register(asked).await;
    }
    let url = server.config().schedule.redis.clone().expect("on Redis");
    let mut redis = connect(url.expose()).await;
    let flush = redis::cmd("FLUSHDB").exec_async(&mut redis).await;
    flush.expect("flushed");
    let server = server.restart().await;
    server.clock().advance(30 * 60_000);
    let mut bodies = [merchant.call().await.body, merchant.call().await.body];
    bodies.sort_unstable();
    assert_eq!(bodies, [b"id=a", b"id=b"]);
    for id in ["a", "b"] {
        server.until_state(id, "delivered").await;
    }
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// As docs/operations.md says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_partitions_is_changed_by_starting_with_another() {
    let mut merchant = Merchant::start().await;
    let mut held = Merchant::start().await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut own = config(dir.path(), Stores::Postgres);
    own.schedule.partitions = 2;
    let mut server = Server::open(own.clone(), None, None).await;
    let lane = Lane::parse(&held.url("/")).expect("a lane");
    let lane: String = url::form_urlencoded::byte_serialize(lane.as_str().as_bytes()).collect();
    let change = async |server: &Server, what: &str| {
        let path = format!("/v1/lanes/{lane}/{what}");
        let (status, view) = server.call(Method::POST, &path, None).await;
        assert!(matches!(status, 200 | 202), "{status} {view}");
    };
    change(&server, "hold").await;
    server.register(registration("held", &held)).await;
    for (number, partitions) in [256, 1, 4].into_iter().enumerate() {
        let id = format!("a{number}");
        let mut asked = registration(&id, &merchant);
        asked["delay"] = "3s".into();
        server.register(asked).await;
        own.schedule.partitions = partitions;
        let other = tempfile::tempdir().expect("a temporary directory");
        let mut beside = own.clone();
        beside.data_dir = other.path().to_path_buf();
        let error = App::start(beside).await.err().expect("it is refused");
        let text = format!("{error:#}");
        assert!(text.contains("another server uses it"), "{text}");
        server.stop().await;
        server = Server::open(own.clone(), None, None).await;
        let body = format!("id={id}").into_bytes();
        assert_eq!(merchant.call().await.body, body);
        server.until_state(&id, "delivered").await;
        // A hold is in the journal.
        assert_eq!(server.get("held").await["state"], "scheduled");
        assert!(held.arrived().is_none());
    }
    change(&server, "release").await;
    assert_eq!(held.call().await.body, b"id=held");
    server.until_state("held", "delivered").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

/// As if it had hung while servers with another number took over. It must not go on beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_schedule_was_replaced_by_another_number_ends() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut own = config(dir.path(), Stores::Postgres);
    own.schedule.partitions = 2;
    let url = own.schedule.redis.clone().expect("on Redis");
    let app = App::start(own).await.expect("it starts");
    let mut redis = connect(url.expose()).await;
    let get = redis::Cmd::get("{rb:0}:epoch");
    let owner: String = get.query_async(&mut redis).await.expect("there");
    let owner = owner.replace("/2", "/4");
    let mut replace = redis::pipe();
    replace.atomic().cmd("FLUSHDB");
    replace.set("{rb:0}:epoch", &owner);
    replace.hset("{rb:0}:meta", "owner", &owner);
    replace.hset("{rb:0}:meta", "generation", i64::MAX / 1_000);
    replace.exec_async(&mut redis).await.expect("replaced");
    within("the server to end", app.broken()).await;
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_in_use_is_refused() {
    let first = Server::start(Stores::Embedded).await;
    let error = App::start(first.config().clone())
        .await
        .err()
        .expect("it is refused");
    assert!(error.to_string().contains("in use"), "{error:#}");
    first.stop().await;
}
