//! Redis with TLS, an authority of its own, and certificates that it demands of its clients: one server, Sentinel, a cluster.

use super::rights::rights;
use super::scene::{goes_on, serve_with};
use crate::support::merchant::Merchant;
use crate::support::redis::{RedisServer, documented_rights_at_sentinels};
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_node::{Node, user_with};
use crate::support::redis_tls::RedisAuthority;
use crate::support::sentinels::Sentinels;
use ringback::config::RedisTls;
use ringback::schedule::redis::survey::survey;
use std::fs;
use std::time::Instant;

/// Whether the Redis server of the tests knows TLS. If not, the test says so and tries nothing.
fn knows_tls() -> bool {
    let knows = RedisServer::knows_tls();
    if !knows {
        println!("NOT TRIED: the Redis server was built without TLS");
    }
    knows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sentinels_and_tls_deliveries_go_on_after_an_election() {
    if !knows_tls() {
        return;
    }
    let mut merchant = Merchant::start().await;
    let authority = RedisAuthority::new("Redis CA");
    let at_sentinels = documented_rights_at_sentinels();
    let mut sentinels = Sentinels::start_with(&rights(), &at_sentinels, Some(&authority)).await;
    let server = serve_with(&sentinels.user_url(), authority.client()).await;
    goes_on(&server, &mut merchant, "at-first", Instant::now()).await;
    let dead = sentinels.kill_primary().await;
    sentinels.until_replaced(dead).await;
    goes_on(&server, &mut merchant, "after-a-death", Instant::now()).await;
    let (_, at_primary, at_sentinel) = sentinels.refused().await;
    assert!(
        at_primary > 0 && at_sentinel > 0,
        "{at_primary} {at_sentinel}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_with_tls_deliveries_go_on_after_elections() {
    if !knows_tls() {
        return;
    }
    let mut merchant = Merchant::start().await;
    let authority = RedisAuthority::new("Redis CA");
    let user = user_with(&rights());
    let arguments: Vec<&str> = (user.iter().map(String::as_str))
        .chain(["--cluster-node-timeout", "1000"])
        .collect();
    let mut cluster = RedisCluster::start_as(&arguments, Some(&authority)).await;
    let server = serve_with(&cluster.user_url(), authority.client()).await;
    goes_on(&server, &mut merchant, "at-first", Instant::now()).await;
    cluster.until_whole().await;
    let slot = cluster.slot_of(0).await;
    cluster.kill_primary_of(slot).await;
    goes_on(&server, &mut merchant, "after-a-death", Instant::now()).await;
    let slot = cluster.slot_of(1).await;
    cluster.hand_over(slot).await;
    goes_on(&server, &mut merchant, "handed-over", Instant::now()).await;
    server.stop().await;
}

/// What the survey of `ringback doctor` says of a server with these certificates.
async fn refusal(url: &str, tls: &RedisTls) -> String {
    let survey = survey(url, tls, None, 1).await;
    survey.expect_err("refused").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_are_renewed_are_used_without_a_restart() {
    if !knows_tls() {
        return;
    }
    let mut merchant = Merchant::start().await;
    let mut authority = RedisAuthority::new("Redis CA");
    let stranger = RedisAuthority::new("Stranger");
    let mut redis = Node::start(&[], Some(&authority));
    let url = format!("rediss://127.0.0.1:{}/0", redis.port());
    let server = serve_with(&url, authority.client()).await;
    goes_on(&server, &mut merchant, "at-first", Instant::now()).await;

    // Everything is renewed: the authority, and what both sides show.
    redis.kill();
    authority.renew("Redis CA 2");
    redis.server.start_again().await;
    goes_on(&server, &mut merchant, "renewed", Instant::now()).await;

    // A file is being written at the moment when a connection is opened.
    let right = authority.client();
    let files = right.client.as_ref().expect("given");
    let key = fs::read(&files.key).expect("readable");
    let other_key = fs::read(&stranger.client().client.expect("given").key).expect("readable");
    let mut close = redis::cmd("CLIENT");
    close.arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]);
    for (id, instead) in [("half-written", &key[..20]), ("other-key", &other_key)] {
        fs::write(&files.key, instead).expect("written");
        let closed: usize = redis.run(&close).await;
        assert!(closed > 0, "it had connections");
        goes_on(&server, &mut merchant, id, Instant::now()).await;
        let bad = refusal(&url, &right).await;
        assert!(bad.contains("client.key: "), "{bad}");
    }
    fs::write(&files.key, key).expect("written");
    let closed: usize = redis.run(&close).await;
    assert!(closed > 0, "it had connections");
    goes_on(&server, &mut merchant, "whole-again", Instant::now()).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_do_not_fit_are_refused_by_either_side() {
    if !knows_tls() {
        return;
    }
    let authority = RedisAuthority::new("Redis CA");
    let redis = Node::start(&[], Some(&authority));
    let url = |host: &str| format!("rediss://{host}:{}/0", redis.port());
    let right = authority.client();
    survey(&url("127.0.0.1"), &right, None, 1)
        .await
        .expect("it fits");
    let without = RedisTls {
        client: None,
        ..right.clone()
    };
    let trusting = |ca| RedisTls {
        ca: Some(ca),
        ..right.clone()
    };
    let other = trusting(authority.other_ca("Another CA"));
    let same_name = trusting(authority.other_ca("Redis CA"));
    let gone = trusting("/nowhere/ca.pem".into());
    let stranger = RedisAuthority::new("Stranger");
    let distrusted = RedisTls {
        client: stranger.client().client,
        ..right.clone()
    };
    for (host, tls, said) in [
        ("127.0.0.1", &without, "CertificateRequired"),
        ("127.0.0.1", &distrusted, "UnknownCA"),
        ("127.0.0.1", &other, "UnknownIssuer"),
        ("127.0.0.1", &same_name, "BadSignature"),
        ("127.0.0.1", &RedisTls::default(), "UnknownIssuer"),
        ("127.0.0.1", &gone, "/nowhere/ca.pem: No such file"),
        ("localhost", &right, "certificate not valid for name"),
    ] {
        let refused = refusal(&url(host), tls).await;
        assert!(refused.contains(said), "{said}: {refused}");
    }
}
