//! Settings that one node of a cluster has and the others have not.

use super::finding::{PARTITIONS, open_with_limits, whole};
use crate::cli::program::run;
use crate::schedule_contract::fixture::{LIMITS, START_MS};
use crate::support::redis::connect;
use crate::support::redis_cluster::RedisCluster;
use ringback::clock::ManualClock;

/// A cluster in which a node that does not have the first partition may evict keys.
async fn cluster_with_a_node_that_evicts() -> (RedisCluster, usize) {
    let cluster = RedisCluster::start().await;
    let first = cluster.primary_of(cluster.slot_of(0).await).await;
    let mut others = cluster.primaries().await;
    others.remove(&first);
    let node = *others.first().expect("three primaries");
    let mut connection = connect(&cluster.node_url(node)).await;
    for (setting, value) in [("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")] {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg(setting).arg(value);
        let () = set.query_async(&mut connection).await.expect("set");
    }
    (cluster, node)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_the_node_of_a_cluster_that_may_evict_keys() {
    let (cluster, node) = cluster_with_a_node_that_evicts().await;
    let dir = tempfile::tempdir().expect("a directory");
    let partitions = PARTITIONS.to_string();
    let arguments = [
        "doctor",
        "--redis",
        &cluster.url(),
        "--partitions",
        &partitions,
    ];
    let said = tokio::task::block_in_place(|| run(dir.path(), &arguments, &[]));
    assert_eq!(said.status, 1, "{}", said.stdout);
    let mut about_memory: Vec<&str> = (said.stdout.lines())
        .filter(|line| line.contains("redis memory: "))
        .collect();
    about_memory.sort_unstable();
    let url = cluster.node_url(node);
    let address = url.split('/').nth(2).expect("host and port");
    let [well, ill] = about_memory[..] else {
        panic!("one line about the others, and one about the node: {said:?}");
    };
    assert!(well.starts_with("ok ") && !well.contains(address), "{well}");
    let said = format!("redis memory: {address}: maxmemory-policy is allkeys-lru");
    assert!(ill.starts_with("problem ") && ill.contains(&said), "{ill}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_journal_warns_of_what_any_node_may_lose() {
    let (cluster, _) = cluster_with_a_node_that_evicts().await;
    let schedule = open_with_limits(cluster.url(), LIMITS, ManualClock::at(START_MS));
    whole(&schedule).await;
    let warnings = schedule.durability_warnings().await;
    let says = |text: &str| warnings.iter().any(|warning| warning.contains(text));
    assert!(
        says("may evict keys") && says("append-only"),
        "{warnings:?}"
    );
    assert_eq!(warnings.len(), 2, "each is told once: {warnings:?}");
}
