//! A Redis Cluster: three primaries with a replica each, in this machine's loopback.
//!
//! It is made by commands over connections of our own, as `redis-cli --cluster create` makes one. What its nodes
//! believe is read from the nodes themselves, so everything is awaited by asking.

use super::redis_node::{Node, acl_log, line_of, until};
use super::redis_tls::RedisAuthority;
use futures_util::future::join_all;
use redis::{Cmd, Value};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Nodes that get slots. The others become their replicas, in the same order.
const PRIMARIES: usize = 3;
const NODES: usize = 2 * PRIMARIES;
/// Slots of a cluster.
const SLOTS: usize = 16_384;

/// The nodes. They end when this value does.
pub struct RedisCluster {
    nodes: Vec<Node>,
    ids: Vec<String>,
    scheme: &'static str,
}

/// What a node believes about one node, itself perhaps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    id: String,
    flags: BTreeSet<String>,
    primary: String,
    epoch: u64,
    slots: Vec<SlotRange>,
}

/// From which slot to which.
type SlotRange = (u16, u16);

impl RedisCluster {
    /// Starts one in which a dead primary is replaced after about two seconds.
    pub async fn start() -> Self {
        Self::start_with(&["--cluster-node-timeout", "1000"]).await
    }

    /// Starts one in which no node counts as dead only because the machine is busy.
    pub async fn start_patient() -> Self {
        Self::start_with(&["--cluster-node-timeout", "60000"]).await
    }

    /// Starts one whose nodes have these arguments as well.
    pub async fn start_with(arguments: &[&str]) -> Self {
        Self::start_as(arguments, None).await
    }

    /// Likewise, with an authority: everybody must use TLS, the nodes among themselves as well.
    pub async fn start_as(arguments: &[&str], tls: Option<&RedisAuthority>) -> Self {
        let usual = ["--cluster-enabled", "yes"]
            .into_iter()
            .chain(["--cluster-config-file", "nodes.conf"])
            // The other partitions go on when a shard is away.
            .chain(["--cluster-require-full-coverage", "no"])
            // A replica stands for election however long it has not heard from its primary.
            .chain(["--cluster-replica-validity-factor", "0"])
            // A replica stays with its primary.
            .chain(["--cluster-migration-barrier", "9"])
            .chain(["--databases", "1"])
            .chain(["--repl-diskless-sync-delay", "0"]);
        let for_tls: &[&str] = match tls {
            Some(_) => &["--tls-cluster", "yes"],
            None => &[],
        };
        let arguments = (usual.chain(arguments.iter().copied()))
            .chain(for_tls.iter().copied())
            .map(String::from);
        Self::start_exactly(&arguments.collect::<Vec<_>>(), tls).await
    }

    /// Starts one whose nodes have these arguments, and besides only where they listen and keep their files.
    pub async fn start_exactly(arguments: &[String], tls: Option<&RedisAuthority>) -> Self {
        let nodes: Vec<Node> = (0..NODES)
            .map(|_| Node::start_in_cluster(arguments, tls))
            .collect();
        let ids = nodes.iter().map(|node| {
            let command = cluster(&["MYID"]);
            async move { node.run::<String>(&command).await }
        });
        let ids = join_all(ids).await;
        let scheme = if tls.is_some() { "rediss" } else { "redis" };
        let made = Self { nodes, ids, scheme };
        made.join().await;
        made
    }

    /// Makes one cluster of the nodes, which do not know each other.
    async fn join(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            // Each its own, so that the nodes agree at once on who has which slots.
            let epoch = cluster(&["SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            node.run::<()>(&epoch).await;
            if number < PRIMARIES {
                let mut add = cluster(&["ADDSLOTS"]);
                for slot in slots_of(number) {
                    add.arg(slot);
                }
                node.run::<()>(&add).await;
            }
        }
        for (number, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[number + 1..] {
                let meet = cluster(&["MEET", "127.0.0.1", &other.port().to_string()]);
                node.run::<()>(&meet).await;
            }
        }
        until("the nodes to know each other", async || {
            let views = join_all(self.nodes.iter().map(view)).await;
            let all = views.iter().all(|view| {
                let is_known = |line: &Line| !line.flags.contains("handshake");
                (view.as_ref()).is_some_and(|view| view.len() == NODES && view.iter().all(is_known))
            });
            all.then_some(())
        })
        .await;
        for (replica, primary) in self.nodes[PRIMARIES..].iter().zip(&self.ids) {
            replica.run::<()>(&cluster(&["REPLICATE", primary])).await;
        }
        self.until_whole().await;
    }

    /// Likewise, for the user of the documents, which the nodes must have.
    pub fn user_url(&self) -> String {
        self.url()
            .replace("cluster://", "cluster://ringback:PASSWORD@")
    }

    /// What the nodes have refused to a user, and how many connections of that user they have.
    pub async fn refused(&self) -> (Vec<Value>, usize) {
        let (mut refused, mut connections) = (Vec::new(), 0);
        let clients = redis::cmd("CLIENT").arg("LIST").to_owned();
        for node in self.nodes.iter().filter(|node| node.server.is_there()) {
            refused.extend(node.run::<Vec<Value>>(&acl_log()).await);
            let clients: String = node.run(&clients).await;
            connections += clients.matches(" user=ringback ").count();
        }
        (refused, connections)
    }

    /// Its URL, with every node.
    pub fn url(&self) -> String {
        let nodes = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        let nodes = nodes.collect::<Vec<_>>().join(",");
        format!("{}+cluster://{nodes}", self.scheme)
    }

    /// How many nodes there are, dead ones included.
    pub fn nodes(&self) -> RangeInclusive<usize> {
        0..=NODES - 1
    }

    /// The URL of one node.
    pub fn node_url(&self, node: usize) -> String {
        self.nodes[node].server.url(0)
    }

    /// Which slot a partition of the schedule is in.
    pub async fn slot_of(&self, partition: usize) -> u16 {
        let key = format!("{{rb:{partition}}}:jobs");
        let command = cluster(&["KEYSLOT", &key]);
        until("a node to be there", async || {
            let asked = self.nodes.iter().map(|node| node.ask::<u16>(&command));
            join_all(asked).await.into_iter().flatten().next()
        })
        .await
    }

    /// The nodes that are primaries with slots now.
    pub async fn primaries(&self) -> BTreeSet<usize> {
        let mut primaries = BTreeSet::new();
        for first in (0..PRIMARIES).map(|number| *slots_of(number).start()) {
            let slot = u16::try_from(first).expect("a slot");
            primaries.insert(self.primary_of(slot).await);
        }
        primaries
    }

    /// The partitions below `most` that this node has, which is a primary.
    pub async fn partitions_of(&self, node: usize, most: usize) -> Vec<usize> {
        let mut partitions = Vec::new();
        for partition in 0..most {
            if self.primary_now(self.slot_of(partition).await).await == Some(node) {
                partitions.push(partition);
            }
        }
        partitions
    }

    /// The primary that has a slot: of those that say so themselves, the one that was elected last.
    pub async fn primary_of(&self, slot: u16) -> usize {
        until("a primary of the slot", async || {
            self.primary_now(slot).await
        })
        .await
    }

    async fn primary_now(&self, slot: u16) -> Option<usize> {
        let views = join_all(self.nodes.iter().map(view)).await;
        let own = views.into_iter().enumerate().filter_map(|(node, view)| {
            let own = |line: &Line| line.flags.contains("myself");
            Some((node, view?.into_iter().find(own)?))
        });
        let claims = own.filter(|(_, line)| {
            let has = |(from, to): &SlotRange| (*from..=*to).contains(&slot);
            line.flags.contains("master") && line.slots.iter().any(has)
        });
        claims
            .max_by_key(|(_, line)| line.epoch)
            .map(|(node, _)| node)
    }

    /// Waits until another than this node is the primary of a slot, and says which.
    pub async fn until_primary_is_other(&self, slot: u16, than: usize) -> usize {
        until("the promotion of a replica", async || {
            let primary = self.primary_now(slot).await;
            primary.filter(|primary| *primary != than)
        })
        .await
    }

    /// The replicas of a primary that are there.
    pub async fn replicas_of(&self, primary: usize) -> Vec<usize> {
        let id = &self.ids[primary];
        let mut replicas = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let lines = view(node).await.unwrap_or_default();
            let follows = |line: &Line| line.flags.contains("myself") && line.primary == *id;
            if lines.iter().any(follows) {
                replicas.push(number);
            }
        }
        replicas
    }

    /// Kills a node with SIGKILL.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts a node that was killed again, at its ports and with what the cluster told it. It is empty until it
    /// has copied what its primary has.
    pub async fn start_again(&mut self, node: usize) {
        self.nodes[node].server.start_again().await;
    }

    /// Kills the primary of a slot, and returns it with its replica when that is the primary.
    pub async fn kill_primary_of(&mut self, slot: u16) -> (usize, usize) {
        let dead = self.primary_of(slot).await;
        self.kill(dead);
        (dead, self.until_primary_is_other(slot, dead).await)
    }

    /// Stops a node in its tracks: it keeps its connections and answers nobody.
    pub async fn hang(&self, node: usize) {
        self.nodes[node].server.pause().await;
    }

    /// Lets it go on.
    pub fn resume(&self, node: usize) {
        self.nodes[node].server.resume();
    }

    /// Has the replica of a slot's primary take over while the primary lives, without losing a write.
    pub async fn hand_over(&self, slot: u16) -> (usize, usize) {
        let primary = self.primary_of(slot).await;
        let replicas = self.replicas_of(primary).await;
        let replica = *replicas.first().expect("it has one");
        self.nodes[replica].run::<()>(&cluster(&["FAILOVER"])).await;
        let other = self.until_primary_is_other(slot, primary).await;
        // Until it has heard of it, the old one takes itself for a primary.
        self.until_whole().await;
        (primary, other)
    }

    /// Cuts a primary off from its replicas, so that what it writes from now on is nowhere else. The replicas stand
    /// still until [`RedisCluster::resume`]: one that goes on while its primary is alive copies everything.
    pub async fn cut_replication(&self, primary: usize) -> Vec<usize> {
        let replicas = self.replicas_of(primary).await;
        for replica in &replicas {
            self.hang(*replica).await;
        }
        // Else what is written now would wait for them in the buffers of the connection.
        let mut cut = redis::cmd("CLIENT");
        cut.arg(&["KILL", "TYPE", "replica"]);
        self.nodes[primary].run::<()>(&cut).await;
        replicas
    }

    /// Waits until all nodes that run agree, every replica has what its primary has, and no slot is without a node.
    pub async fn until_whole(&self) {
        until("the cluster to be whole", async || {
            self.is_whole().await.then_some(())
        })
        .await;
    }

    async fn is_whole(&self) -> bool {
        let there = || self.nodes.iter().filter(|node| node.server.is_there());
        let views = join_all(there().map(view)).await;
        let mut agreed = BTreeSet::new();
        for view in views {
            let Some(mut lines) = view else { return false };
            for line in &mut lines {
                line.flags.remove("myself");
                // Replicas hear of the epoch of their primary later.
                line.epoch = 0;
            }
            let is_bad = |flag: &str| matches!(flag, "fail" | "fail?" | "handshake");
            let is_here = |line: &Line| self.is_there(&line.id);
            if (lines.iter().filter(|line| is_here(line)))
                .any(|line| line.flags.iter().any(|flag| is_bad(flag)))
            {
                return false;
            }
            lines.retain(is_here);
            lines.sort_unstable();
            agreed.insert(lines);
        }
        let states = join_all(there().map(async |node| {
            let info: String = node.ask(&cluster(&["INFO"])).await?;
            let is_ok = line_of(&info, "cluster_state").as_deref() == Some("ok");
            let covered = line_of(&info, "cluster_slots_assigned")?;
            let is_primary = node.replication("role").await.as_deref() == Some("master");
            let is_covered = covered == SLOTS.to_string();
            Some(is_ok && is_covered && (is_primary || self.is_whole_replica(node).await))
        }))
        .await;
        agreed.len() == 1 && states.into_iter().all(|state| state == Some(true))
    }

    /// Whether a replica has what its primary has.
    async fn is_whole_replica(&self, replica: &Node) -> bool {
        let port = replica.replication("master_port").await;
        let is_primary = |node: &&Node| Some(node.port().to_string()) == port;
        let Some(primary) = self.nodes.iter().find(is_primary) else {
            return false;
        };
        match primary.written().await {
            Some(written) => replica.has_copied(written).await,
            None => false,
        }
    }

    fn is_there(&self, id: &str) -> bool {
        let mut all = self.nodes.iter().zip(&self.ids);
        all.any(|(node, own)| own == id && node.server.is_there())
    }

    /// Empties every primary.
    pub async fn flush(&self) {
        for node in self.nodes.iter().filter(|node| node.server.is_there()) {
            if node.replication("role").await.as_deref() == Some("master") {
                node.run::<()>(&redis::cmd("FLUSHALL")).await;
            }
        }
    }

    /// Has a node take for full what it may use.
    pub async fn fill(&self, node: usize) {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg(1);
        self.nodes[node].run::<()>(&command).await;
    }

    /// Empties one primary.
    pub async fn flush_node(&self, primary: usize) {
        (self.nodes[primary].run::<()>(&redis::cmd("FLUSHALL"))).await;
    }

    /// Begins to move a slot to another primary: from now on each of the two has a part of its keys.
    pub async fn begin_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        let from = self.primary_of(slot).await;
        let moved = SlotMove {
            cluster: self,
            slot,
            from,
            to,
        };
        moved.set(to, &["IMPORTING", &self.ids[from]]).await;
        moved.set(from, &["MIGRATING", &self.ids[to]]).await;
        moved
    }
}

/// A slot that is being moved. Dropping it leaves it so.
pub struct SlotMove<'cluster> {
    cluster: &'cluster RedisCluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl SlotMove<'_> {
    async fn set(&self, node: usize, words: &[&str]) {
        let mut command = cluster(&["SETSLOT", &self.slot.to_string()]);
        command.arg(words);
        self.cluster.nodes[node].run::<()>(&command).await;
    }

    /// How many keys have not been moved yet.
    pub async fn remaining(&self) -> usize {
        let count = cluster(&["COUNTKEYSINSLOT", &self.slot.to_string()]);
        self.cluster.nodes[self.from].run(&count).await
    }

    /// Moves up to so many keys, and says how many there were.
    pub async fn migrate(&self, most: usize) -> usize {
        let [slot, most] = [self.slot.to_string(), most.to_string()];
        let from = &self.cluster.nodes[self.from];
        let keys: Vec<Vec<u8>> = from.run(&cluster(&["GETKEYSINSLOT", &slot, &most])).await;
        if !keys.is_empty() {
            let port = self.cluster.nodes[self.to].port();
            let mut migrate = redis::cmd("MIGRATE");
            migrate
                .arg("127.0.0.1")
                .arg(port)
                .arg("")
                .arg(0)
                .arg(10_000);
            migrate.arg("KEYS").arg(&keys);
            // A key that has ended meanwhile is answered NOKEY, which is no error.
            from.run::<redis::Value>(&migrate).await;
        }
        keys.len()
    }

    /// Moves what is left, and gives the slot to its new node. First to that node, so that there is no moment at which
    /// neither has it.
    pub async fn finish(self) {
        while self.migrate(100).await > 0 {}
        let id = &self.cluster.ids[self.to];
        self.set(self.to, &["NODE", id]).await;
        self.set(self.from, &["NODE", id]).await;
        self.cluster.until_whole().await;
    }
}

/// The slots that a primary gets at first.
fn slots_of(primary: usize) -> RangeInclusive<usize> {
    primary * SLOTS / PRIMARIES..=(primary + 1) * SLOTS / PRIMARIES - 1
}

fn cluster(words: &[&str]) -> Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg(words);
    command
}

/// What a node believes, if it is there.
async fn view(node: &Node) -> Option<Vec<Line>> {
    let text: String = node.ask(&cluster(&["NODES"])).await?;
    text.lines().map(line).collect()
}

/// A line of CLUSTER NODES: id, address, flags, primary, ping sent, pong received, epoch, link, slots.
fn line(text: &str) -> Option<Line> {
    let words: Vec<&str> = text.split(' ').collect();
    let [id, _, flags, primary, _, _, epoch, _, slots @ ..] = &words[..] else {
        return None;
    };
    // A slot that is being moved stands in brackets besides.
    let slots = slots.iter().filter(|slots| !slots.starts_with('['));
    let slots = slots.map(|slots| {
        let (from, to) = slots.split_once('-').unwrap_or((slots, slots));
        Some((from.parse().ok()?, to.parse().ok()?))
    });
    Some(Line {
        id: (*id).to_string(),
        flags: flags.split(',').map(String::from).collect(),
        primary: (*primary).to_string(),
        epoch: epoch.parse().ok()?,
        slots: slots.collect::<Option<Vec<_>>>()?,
    })
}
