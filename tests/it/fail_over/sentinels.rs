//! A schedule behind sentinels: the server finds each new primary by itself.

use super::scene::{delayed, generation, goes_on, serve, until_held};
use crate::support::merchant::Merchant;
use crate::support::sentinels::Sentinels;
use std::time::Instant;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_go_on_after_every_kind_of_election() {
    let mut merchant = Merchant::start().await;
    let mut sentinels = Sentinels::start().await;
    let server = serve(&sentinels.url()).await;
    goes_on(&server, &mut merchant, "at first", Instant::now()).await;

    server
        .register(delayed("waits-1", &merchant, "100ms"))
        .await;
    assert_eq!(merchant.call().await.body, b"id=waits-1");
    sentinels.until_whole().await;
    let dead = sentinels.kill_primary().await;
    sentinels.until_replaced(dead).await;
    goes_on(&server, &mut merchant, "after-a-death", Instant::now()).await;

    sentinels.start_again(dead).await;
    sentinels.until_whole().await;
    let hung = sentinels.primary().await;
    sentinels.hang(hung).await;
    sentinels.until_replaced(hung).await;
    goes_on(&server, &mut merchant, "while-it-hangs", Instant::now()).await;
    // It takes itself for the primary until it is told otherwise.
    sentinels.resume(hung);
    goes_on(&server, &mut merchant, "after-it-hung", Instant::now()).await;

    sentinels.until_whole().await;
    sentinels.fail_over().await;
    goes_on(&server, &mut merchant, "handed-over", Instant::now()).await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_primary_took_along_is_put_back_from_the_journal() {
    let mut merchant = Merchant::start().await;
    let mut sentinels = Sentinels::start().await;
    let server = serve(&sentinels.url()).await;
    server.register(delayed("kept", &merchant, "30m")).await;
    sentinels.until_whole().await;
    let primary = sentinels.primary().await;
    let before = generation(&sentinels.node_url(primary), 0).await;
    let replicas = sentinels.cut_replication().await;
    server.register(delayed("lost", &merchant, "30m")).await;
    until_held(&sentinels.node_url(primary), 0, "lost").await;
    sentinels.kill(primary);
    for replica in replicas {
        sentinels.resume(replica);
    }
    let (_, new) = sentinels.fail_over().await;
    let url = sentinels.node_url(new);
    until_held(&url, 0, "lost").await;
    assert_ne!(generation(&url, 0).await, before);
    goes_on(&server, &mut merchant, "new", Instant::now()).await;
    until_held(&url, 0, "kept").await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}
