//! A server on more than one Redis, and what every test here sees of it.

use crate::support::held::holds;
use crate::support::merchant::Merchant;
use crate::support::redis::connect;
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_node::until;
use crate::support::ringback::{
    CLUSTER_PARTITIONS, Server, Stores, config, fresh_postgres, redis_url, registration,
};
use ringback::config::RedisTls;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Deliveries go on within two seconds of an election. The rest is for machines that others use too.
const SOON: Duration = Duration::from_secs(5);

/// A server with a journal in PostgreSQL and its schedule there.
pub async fn serve(redis: &str) -> Server {
    serve_with(redis, RedisTls::default()).await
}

/// Likewise, with certificates for its connections to Redis.
pub async fn serve_with(redis: &str, tls: RedisTls) -> Server {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(dir.path(), Stores::Embedded);
    config.journal = fresh_postgres();
    config.schedule.redis = Some(redis_url(redis));
    config.schedule.redis_tls = tls;
    if redis.contains("cluster") {
        config.schedule.partitions = CLUSTER_PARTITIONS;
    }
    Server::open(config, None, Some(dir)).await
}

/// A registration that is due after a while.
pub fn delayed(id: &str, merchant: &Merchant, delay: &str) -> Value {
    let mut asked = registration(id, merchant);
    asked["delay"] = delay.into();
    asked
}

/// Has something delivered that is registered now, soon after this instant.
pub async fn goes_on(server: &Server, merchant: &mut Merchant, id: &str, since: Instant) {
    server.register(registration(id, merchant)).await;
    assert_eq!(merchant.call().await.body, format!("id={id}").as_bytes());
    let took = since.elapsed();
    println!("{id}: delivered {took:?} after the election was seen");
    assert!(took < SOON, "{id}: {took:?}");
    server.until_state(id, "delivered").await;
}

/// Which node of a cluster has a notification, and in which partition.
pub async fn holder(cluster: &RedisCluster, id: &str) -> (usize, usize) {
    for partition in 0..usize::from(CLUSTER_PARTITIONS) {
        let node = cluster.primary_of(cluster.slot_of(partition).await).await;
        let mut connection = connect(&cluster.node_url(node)).await;
        let key = format!("t/{id}");
        let held = holds(&mut connection, partition, &key).await;
        if held.expect("answered") {
            return (node, partition);
        }
    }
    panic!("{id} is in no partition");
}

/// The number under which a partition is loaded: another one after every loading.
pub async fn generation(url: &str, partition: usize) -> String {
    let mut connection = connect(url).await;
    let get = redis::Cmd::hget(format!("{{rb:{partition}}}:meta"), "generation");
    get.query_async(&mut connection).await.expect("a number")
}

/// Waits until a partition at this server holds a notification.
pub async fn until_held(url: &str, partition: usize, id: &str) {
    let key = format!("t/{id}");
    until("a notification to be in the schedule", async || {
        let held = holds(&mut connect(url).await, partition, &key).await;
        held.ok()?.then_some(())
    })
    .await;
}

/// Waits until a partition at this server was loaded again.
pub async fn until_loaded(url: &str, partition: usize) {
    until("a partition to be whole", async || {
        let get = redis::Cmd::hget(format!("{{rb:{partition}}}:meta"), "state");
        let state: Option<String> = get.query_async(&mut connect(url).await).await.ok()?;
        (state.as_deref() == Some("whole")).then_some(())
    })
    .await;
}
