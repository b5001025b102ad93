//! A schedule in a cluster: each partition follows its slot, and goes its own way when a shard is away.

use super::scene::{delayed, generation, goes_on, holder, serve, until_held, until_loaded};
use crate::support::merchant::{Merchant, Reaction};
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_node::until;
use crate::support::ringback::{Server, registration};
use crate::support::{short_pause, within};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::pin;
use std::time::Instant;

/// So many lanes that each shard has one, unless chance is against it by one in thousands.
const MERCHANTS: usize = 24;

/// A server in a cluster, and a merchant in a partition of each shard.
struct Scene {
    cluster: RedisCluster,
    server: Server,
    /// By the node that has the partition at first, with the partition.
    merchants: BTreeMap<usize, (usize, Merchant)>,
    /// By the same node, a notification that waits there for half an hour.
    probes: BTreeMap<usize, String>,
}

impl Scene {
    async fn start() -> Self {
        let cluster = RedisCluster::start().await;
        let server = serve(&cluster.url()).await;
        let (mut merchants, mut probes) = (BTreeMap::new(), BTreeMap::new());
        for number in 0..MERCHANTS {
            let merchant = Merchant::start().await;
            let id = format!("probe-{number}");
            server.register(delayed(&id, &merchant, "30m")).await;
            let (node, partition) = holder(&cluster, &id).await;
            if let Entry::Vacant(free) = merchants.entry(node) {
                free.insert((partition, merchant));
                probes.insert(node, id);
            }
        }
        assert_eq!(merchants.len(), 3, "each shard has a partition");
        cluster.until_whole().await;
        Self {
            cluster,
            server,
            merchants,
            probes,
        }
    }

    /// The nodes with a merchant, in order.
    fn nodes(&self) -> [usize; 3] {
        let nodes: Vec<usize> = self.merchants.keys().copied().collect();
        nodes.try_into().expect("three")
    }

    fn merchant(&mut self, node: usize) -> &mut Merchant {
        &mut self.merchants.get_mut(&node).expect("one").1
    }

    fn partition(&self, node: usize) -> usize {
        self.merchants[&node].0
    }

    /// Has something delivered to the merchant of a shard.
    async fn goes_on(&mut self, node: usize, id: &str) {
        let merchant = &mut self.merchants.get_mut(&node).expect("one").1;
        goes_on(&self.server, merchant, id, Instant::now()).await;
    }

    /// The path of the lane of a merchant.
    fn lane_path(&self, node: usize) -> String {
        let port = self.merchants[&node].1.port();
        format!("/v1/lanes/http%3A%2F%2F127.0.0.1%3A{port}")
    }

    async fn end(mut self) {
        self.server.stop().await;
        let merchants = self.merchants.values_mut();
        for (_, merchant) in merchants {
            assert!(merchant.arrived().is_none());
        }
    }
}

/// Fails unless a server says that it is ready. Ends a little later.
async fn until_seen_ready(server: &Server) {
    let (status, report) = server.call(Method::GET, "/readyz", None).await;
    assert_eq!(status, 200, "{report}");
    short_pause().await;
}

/// How many partitions do not answer, as the metrics say.
async fn partitions_away(server: &Server) -> u32 {
    let client = reqwest::Client::builder().no_proxy().build();
    let asked = client
        .expect("a client")
        .get(format!("{}/metrics", server.url()));
    let answer = within("the metrics", asked.send())
        .await
        .expect("an answer");
    let text = answer.text().await.expect("a text");
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("ringback_schedule_partitions_away "));
    value.expect("it is there").parse().expect("a number")
}

fn reason() -> Option<Value> {
    Some(json!({ "reason": "a test" }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_go_on_after_every_kind_of_election() {
    let mut scene = Scene::start().await;
    let [node, other, _] = scene.nodes();
    let slot = scene.cluster.slot_of(scene.partition(node)).await;
    let (dead, second) = scene.cluster.kill_primary_of(slot).await;
    assert_eq!(dead, node);
    scene.goes_on(node, "after-a-death").await;
    scene.cluster.start_again(dead).await;
    scene.cluster.until_whole().await;

    scene.cluster.hang(second).await;
    scene.cluster.until_primary_is_other(slot, second).await;
    scene.goes_on(node, "while-it-hangs").await;
    scene.goes_on(other, "elsewhere").await;
    // It takes itself for the primary until it hears from the others.
    scene.cluster.resume(second);
    scene.goes_on(node, "after-it-hung").await;

    scene.cluster.until_whole().await;
    scene.cluster.hand_over(slot).await;
    scene.goes_on(node, "handed-over").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_and_its_partition_with_it() {
    let mut scene = Scene::start().await;
    let [from, to, third] = scene.nodes();
    let slot = scene.cluster.slot_of(scene.partition(from)).await;
    let waits = delayed("waits", scene.merchant(from), "200ms");
    scene.server.register(waits).await;
    assert_eq!(scene.merchant(from).call().await.body, b"id=waits");
    scene.server.until_state("waits", "delivered").await;
    let moving = scene.cluster.begin_move(slot, to).await;
    assert_eq!(moving.migrate(1).await, 1);
    for (node, id) in [(third, "third-half"), (to, "to-half")] {
        let merchant = &mut scene.merchants.get_mut(&node).expect("one").1;
        goes_on(&scene.server, merchant, id, Instant::now()).await;
    }
    moving.finish().await;
    assert_eq!(scene.cluster.primary_of(slot).await, to);
    scene.goes_on(from, "moved").await;
    scene.goes_on(third, "third-whole").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_shard_is_away_the_others_go_on_and_then_it_goes_on_too() {
    let mut scene = Scene::start().await;
    let [away, other, third] = scene.nodes();
    let mut shard = scene.cluster.replicas_of(away).await;
    shard.push(away);
    for node in &shard {
        scene.cluster.kill(*node);
    }
    let path = "/v1/notifications";
    let asked = registration("refused", scene.merchant(away));
    let (status, problem) = (scene.server.call(Method::POST, path, Some(asked.clone()))).await;
    assert_eq!(status, 503, "{problem}");
    // Each of a batch goes its own way.
    let batch = json!({ "notifications": [
        delayed("in-a-batch-1", scene.merchant(away), "30m"),
        registration("in-a-batch-2", scene.merchant(other)),
        delayed("in-a-batch-3", scene.merchant(away), "30m"),
        registration("in-a-batch-4", scene.merchant(third)),
    ] });
    let path = "/v1/notifications/batch";
    let (status, answer) = scene.server.call(Method::POST, path, Some(batch)).await;
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().expect("one for each");
    let statuses: Vec<_> = results.iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses, [503, 201, 503, 201], "{answer}");
    for (node, id) in [(other, "in-a-batch-2"), (third, "in-a-batch-4")] {
        let body = scene.merchant(node).call().await.body;
        assert_eq!(body, format!("id={id}").as_bytes());
    }
    for (node, id) in [(other, "other"), (third, "third")] {
        for number in 0..5 {
            scene.goes_on(node, &format!("{id}-{number}")).await;
        }
    }
    // Nor do they wait for it when one of them loses its data, or when their lanes are held and released.
    let (url, partition) = (scene.cluster.node_url(other), scene.partition(other));
    scene.cluster.flush_node(other).await;
    scene.goes_on(other, "loaded-again").await;
    until_held(&url, partition, &scene.probes[&other]).await;
    until_loaded(&url, partition).await;
    let lane = scene.lane_path(third);
    for (change, expected) in [("hold", 200), ("release", 202)] {
        let path = format!("{lane}/{change}");
        let (status, answer) = scene.server.call(Method::POST, &path, reason()).await;
        assert_eq!(status, expected, "{answer}");
    }
    scene.goes_on(third, "released").await;
    let lane = scene.lane_path(away);
    let path = format!("{lane}/hold");
    let (status, answer) = scene.server.call(Method::POST, &path, reason()).await;
    assert_eq!(status, 503, "{answer}");
    for node in shard {
        scene.cluster.start_again(node).await;
    }
    scene.cluster.until_whole().await;
    let path = format!("{lane}/release");
    until("its lane to be released", async || {
        let (status, _) = scene.server.call(Method::POST, &path, reason()).await;
        (status == 202).then_some(())
    })
    .await;
    // What was refused may be in the journal all the same, and is delivered then by itself.
    scene.server.register_again(asked).await;
    assert_eq!(scene.merchant(away).call().await.body, b"id=refused");
    scene.goes_on(away, "back").await;
    // Its servers kept nothing on disk, so what waits there came from the journal.
    let url = scene.cluster.node_url(away);
    until_held(&url, scene.partition(away), &scene.probes[&away]).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_partition_that_lost_writes_is_loaded_again() {
    let mut scene = Scene::start().await;
    let [loses, other, third] = scene.nodes();
    let partition = scene.partition(loses);
    let slot = scene.cluster.slot_of(partition).await;
    let before = generation(&scene.cluster.node_url(loses), partition).await;
    let mut others = Vec::new();
    for node in [other, third] {
        let partition = scene.partition(node);
        let url = scene.cluster.node_url(node);
        others.push((generation(&url, partition).await, url, partition));
    }
    let replicas = scene.cluster.cut_replication(loses).await;
    let lost = delayed("lost", scene.merchant(loses), "30m");
    scene.server.register(lost).await;
    until_held(&scene.cluster.node_url(loses), partition, "lost").await;
    scene.cluster.kill(loses);
    for replica in replicas {
        scene.cluster.resume(replica);
    }
    let new = scene.cluster.until_primary_is_other(slot, loses).await;
    let url = scene.cluster.node_url(new);
    until_held(&url, partition, "lost").await;
    assert_ne!(generation(&url, partition).await, before);
    scene.goes_on(loses, "new").await;
    for (before, url, partition) in others {
        assert_eq!(generation(&url, partition).await, before, "{partition}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_stays_ready_while_a_shard_is_away() {
    let mut scene = Scene::start().await;
    let [away, other, _] = scene.nodes();
    assert_eq!(partitions_away(&scene.server).await, 0);
    let held = Reaction::Held(Box::new(Reaction::success()));
    scene.merchant(away).now_does(held);
    let called = registration("called", scene.merchant(away));
    scene.server.register(called).await;
    assert_eq!(scene.merchant(away).call().await.body, b"id=called");
    let mut shard = scene.cluster.replicas_of(away).await;
    shard.push(away);
    for node in &shard {
        scene.cluster.kill(*node);
    }
    // Nothing else is registered or sent, so all calls for what is accepted, read and settled fail for seconds.
    scene.merchant(away).release();
    scene.merchant(away).now_does(Reaction::success());
    for number in 0..3 {
        let asked = registration(&format!("refused-{number}"), scene.merchant(away));
        let path = "/v1/notifications";
        let mut refused = pin!(scene.server.call(Method::POST, path, Some(asked)));
        let (status, problem) = loop {
            tokio::select! {
                answer = &mut refused => break answer,
                () = until_seen_ready(&scene.server) => {}
            }
        };
        assert_eq!(status, 503, "{problem}");
    }
    until_seen_ready(&scene.server).await;
    assert!(partitions_away(&scene.server).await > 0);
    scene.goes_on(other, "elsewhere").await;
    for node in shard {
        scene.cluster.start_again(node).await;
    }
    scene.cluster.until_whole().await;
    scene.server.until_state("called", "delivered").await;
    for number in 0..3 {
        let asked = registration(&format!("refused-{number}"), scene.merchant(away));
        scene.server.register_again(asked).await;
    }
    for _ in 0..3 {
        scene.merchant(away).call().await;
    }
    scene.end().await;
}
