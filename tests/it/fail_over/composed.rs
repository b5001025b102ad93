//! The cluster of `deploy/docker-compose.cluster.yml`: its nodes get the arguments that the file gives them.

use super::scene::{delayed, goes_on, holder, serve};
use crate::support::merchant::Merchant;
use crate::support::redis_cluster::RedisCluster;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Those that every cluster of Ringback's needs, as a table of the document says.
const NEEDED: [&str; 4] = [
    "cluster-require-full-coverage",
    "cluster-replica-validity-factor",
    "cluster-node-timeout",
    "appendonly",
];
/// What the file leaves at its default. One of many databases takes memory for each, and a replica would wait five seconds
/// for others before it copies.
const FOR_TESTS: [&str; 4] = ["--databases", "1", "--repl-diskless-sync-delay", "0"];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The arguments of a node: the items of its command, without the program.
fn node_arguments() -> Vec<String> {
    let file = read("deploy/docker-compose.cluster.yml");
    let (_, node) = file.split_once("\nx-node: &node\n").expect("the nodes");
    let (_, command) = node.split_once("  command:\n").expect("their command");
    let lines = command.lines().map(str::trim);
    let items = lines
        .filter(|line| !line.starts_with('#'))
        .map_while(|line| line.strip_prefix("- "));
    let mut items = items.map(|item| item.trim_matches('"').to_string());
    assert_eq!(items.next().as_deref(), Some("valkey-server"));
    items.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_go_on_in_the_cluster_of_the_compose_file_when_a_primary_dies() {
    let mut arguments = node_arguments();
    let document = read("docs/operations.md");
    for setting in NEEDED {
        let flag = format!("--{setting}");
        let place = arguments.iter().position(|argument| *argument == flag);
        let value = &arguments[place.expect(setting) + 1];
        let row = format!("| `{setting} {value}` |");
        assert!(document.contains(&row), "{row}");
    }
    arguments.extend(FOR_TESTS.map(String::from));
    let mut cluster = RedisCluster::start_exactly(&arguments, None).await;
    let server = serve(&cluster.url()).await;
    let mut merchant = Merchant::start().await;
    goes_on(&server, &mut merchant, "at-first", Instant::now()).await;
    server.register(delayed("waits", &merchant, "30m")).await;
    let (primary, partition) = holder(&cluster, "waits").await;
    cluster.until_whole().await;
    let slot = cluster.slot_of(partition).await;
    let (dead, _) = cluster.kill_primary_of(slot).await;
    assert_eq!(dead, primary);
    goes_on(&server, &mut merchant, "after-a-death", Instant::now()).await;
    server.stop().await;
    assert!(merchant.arrived().is_none());
}
