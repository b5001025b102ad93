//! A server that has at sentinels, at their servers and in a cluster the rights that `docs/operations.md` gives it, and no others.

use super::scene::{delayed, goes_on, serve};
use crate::support::merchant::Merchant;
use crate::support::redis::{
    documented_rights, documented_rights_at_sentinels, documented_rights_besides,
};
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_node::user_with;
use crate::support::sentinels::Sentinels;
use redis::Value;
use std::time::Instant;

/// Of a server at Redis servers, alone or with Sentinel, and at the nodes of a cluster.
pub fn rights() -> Vec<String> {
    [documented_rights(), documented_rights_besides()].concat()
}

fn is_none(refused: &[Value]) {
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sentinels_that_have_the_user_a_server_is_refused_nothing() {
    let mut merchant = Merchant::start().await;
    let mut sentinels = Sentinels::start_for(&rights(), &documented_rights_at_sentinels()).await;
    let server = serve(&sentinels.user_url()).await;
    goes_on(&server, &mut merchant, "at first", Instant::now()).await;
    is_none(&sentinels.refused().await.0);
    let dead = sentinels.kill_primary().await;
    sentinels.until_replaced(dead).await;
    goes_on(&server, &mut merchant, "after-a-death", Instant::now()).await;
    let (refused, at_primary, at_sentinel) = sentinels.refused().await;
    is_none(&refused);
    assert!(
        at_primary > 0 && at_sentinel > 0,
        "{at_primary} {at_sentinel}"
    );
    server.stop().await;
}

/// They are asked without user and password then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sentinels_without_passwords_the_password_is_for_the_servers_alone() {
    let mut merchant = Merchant::start().await;
    let sentinels = Sentinels::start_for(&rights(), &[]).await;
    let server = serve(&sentinels.user_url()).await;
    goes_on(&server, &mut merchant, "at first", Instant::now()).await;
    sentinels.until_whole().await;
    sentinels.fail_over().await;
    goes_on(&server, &mut merchant, "handed-over", Instant::now()).await;
    let (_, at_primary, at_sentinel) = sentinels.refused().await;
    assert!(at_primary > 0, "{at_primary}");
    assert_eq!(at_sentinel, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_a_server_is_refused_nothing() {
    let mut merchant = Merchant::start().await;
    let user = user_with(&rights());
    let arguments: Vec<&str> = (user.iter().map(String::as_str))
        .chain(["--cluster-node-timeout", "1000"])
        .collect();
    let mut cluster = RedisCluster::start_with(&arguments).await;
    let server = serve(&cluster.user_url()).await;
    goes_on(&server, &mut merchant, "at first", Instant::now()).await;
    server.register(delayed("later", &merchant, "30m")).await;
    cluster.until_whole().await;
    is_none(&cluster.refused().await.0);
    let slot = cluster.slot_of(0).await;
    cluster.kill_primary_of(slot).await;
    goes_on(&server, &mut merchant, "after-a-death", Instant::now()).await;
    let slot = cluster.slot_of(1).await;
    cluster.hand_over(slot).await;
    goes_on(&server, &mut merchant, "handed-over", Instant::now()).await;
    let (refused, connections) = cluster.refused().await;
    is_none(&refused);
    assert!(connections > 0);
    server.stop().await;
}
