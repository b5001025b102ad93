//! The servers of the tests themselves do what the tests of this folder suppose: seen by plain connections.

use crate::support::redis::connect;
use crate::support::redis_cluster::RedisCluster;
use crate::support::sentinels::Sentinels;
use redis::Cmd;
use redis::aio::MultiplexedConnection;

async fn get(url: &str, key: &str) -> Option<String> {
    let mut connection = connect(url).await;
    Cmd::get(key)
        .query_async(&mut connection)
        .await
        .expect("answered")
}

async fn set(url: &str, key: &str, value: &str) {
    let mut connection = connect(url).await;
    let set = Cmd::set(key, value);
    set.exec_async(&mut connection).await.expect("executed");
}

/// The code of the error that reading a key gives.
async fn refusal(connection: &mut MultiplexedConnection, key: &str) -> Option<String> {
    let read: redis::RedisResult<Option<String>> = Cmd::get(key).query_async(connection).await;
    read.err()?.code().map(String::from)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_replace_a_dead_primary_and_take_it_back_as_a_replica() {
    let mut sentinels = Sentinels::start().await;
    let first = sentinels.primary().await;
    set(&sentinels.node_url(first), "key", "kept").await;
    sentinels.until_whole().await;
    let dead = sentinels.kill_primary().await;
    assert_eq!(dead, first);
    let second = sentinels.until_replaced(dead).await;
    assert_eq!(
        get(&sentinels.node_url(second), "key").await.as_deref(),
        Some("kept")
    );
    sentinels.start_again(dead).await;
    sentinels.until_whole().await;
    assert_eq!(sentinels.primary().await, second);
    let (old, third) = sentinels.fail_over().await;
    assert_eq!(old, second);
    assert_ne!(third, second);
    sentinels.flush().await;
    assert_eq!(get(&sentinels.node_url(third), "key").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_demote_a_primary_that_hung_when_it_goes_on() {
    let sentinels = Sentinels::start().await;
    let old = sentinels.primary().await;
    sentinels.hang(old).await;
    let new = sentinels.until_replaced(old).await;
    set(&sentinels.node_url(new), "key", "new").await;
    sentinels.resume(old);
    sentinels.until_whole().await;
    assert_eq!(
        get(&sentinels.node_url(old), "key").await.as_deref(),
        Some("new")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sentinels_what_a_primary_wrote_alone_is_gone_with_it() {
    let mut sentinels = Sentinels::start().await;
    let primary = sentinels.primary().await;
    set(&sentinels.node_url(primary), "before", "kept").await;
    sentinels.until_whole().await;
    let replicas = sentinels.cut_replication().await;
    set(&sentinels.node_url(primary), "after", "lost").await;
    sentinels.kill(primary);
    for replica in replicas {
        sentinels.resume(replica);
    }
    let (old, new) = sentinels.fail_over().await;
    assert_eq!(old, primary);
    let url = sentinels.node_url(new);
    assert_eq!(get(&url, "before").await.as_deref(), Some("kept"));
    assert_eq!(get(&url, "after").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_replaces_a_dead_primary_and_one_that_hangs() {
    let mut cluster = RedisCluster::start().await;
    let slot = cluster.slot_of(0).await;
    let key = "{rb:0}:key";
    let first = cluster.primary_of(slot).await;
    set(&cluster.node_url(first), key, "kept").await;
    cluster.until_whole().await;
    let (dead, second) = cluster.kill_primary_of(slot).await;
    assert_eq!(dead, first);
    assert_eq!(
        get(&cluster.node_url(second), key).await.as_deref(),
        Some("kept")
    );
    cluster.start_again(dead).await;
    cluster.until_whole().await;
    assert_eq!(cluster.replicas_of(second).await, [dead]);

    cluster.hang(second).await;
    assert_eq!(cluster.until_primary_is_other(slot, second).await, dead);
    set(&cluster.node_url(dead), key, "newer").await;
    cluster.resume(second);
    cluster.until_whole().await;
    assert_eq!(cluster.hand_over(slot).await, (dead, second));
    assert_eq!(
        get(&cluster.node_url(second), key).await.as_deref(),
        Some("newer")
    );
    cluster.flush().await;
    assert_eq!(get(&cluster.node_url(second), key).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_what_a_primary_wrote_alone_is_gone_with_it() {
    let mut cluster = RedisCluster::start().await;
    let slot = cluster.slot_of(0).await;
    let primary = cluster.primary_of(slot).await;
    set(&cluster.node_url(primary), "{rb:0}:before", "kept").await;
    cluster.until_whole().await;
    let replicas = cluster.cut_replication(primary).await;
    assert_eq!(replicas.len(), 1);
    set(&cluster.node_url(primary), "{rb:0}:after", "lost").await;
    cluster.kill(primary);
    cluster.resume(replicas[0]);
    let new = cluster.until_primary_is_other(slot, primary).await;
    assert_eq!(new, replicas[0]);
    let url = cluster.node_url(new);
    assert_eq!(get(&url, "{rb:0}:before").await.as_deref(), Some("kept"));
    assert_eq!(get(&url, "{rb:0}:after").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_in_steps_and_a_shard_goes_away_alone() {
    let mut cluster = RedisCluster::start_patient().await;
    let slot = cluster.slot_of(0).await;
    let from = cluster.primary_of(slot).await;
    let to = (cluster.nodes())
        .find(|node| *node < 3 && *node != from)
        .expect("another primary");
    let mut at_first = connect(&cluster.node_url(from)).await;
    for key in ["{rb:0}:1", "{rb:0}:2", "{rb:0}:3"] {
        set(&cluster.node_url(from), key, "moved").await;
    }
    let moving = cluster.begin_move(slot, to).await;
    assert_eq!(moving.migrate(1).await, 1);
    assert_eq!(moving.remaining().await, 2);
    assert_eq!(
        refusal(&mut at_first, "{rb:0}:none").await.as_deref(),
        Some("ASK")
    );
    moving.finish().await;
    assert_eq!(
        refusal(&mut at_first, "{rb:0}:1").await.as_deref(),
        Some("MOVED")
    );
    assert_eq!(cluster.primary_of(slot).await, to);
    let moved = get(&cluster.node_url(to), "{rb:0}:2").await;
    assert_eq!(moved.as_deref(), Some("moved"));

    let mut shard = cluster.replicas_of(to).await;
    shard.push(to);
    for node in &shard {
        cluster.kill(*node);
    }
    let others = cluster.partitions_of(from, 32).await;
    let key = format!("{{rb:{}}}:key", others.first().expect("some"));
    set(&cluster.node_url(from), &key, "goes on").await;
    for node in shard {
        cluster.start_again(node).await;
    }
    cluster.until_whole().await;
    assert_eq!(cluster.primary_of(slot).await, to);
}
