//! A Redis primary with two replicas, watched by three sentinels, in this machine's loopback.

use super::ports::HeldPort;
use super::redis::Running;
use super::redis_node::{Node, acl_log, ask, until, user_with};
use super::redis_shared::SENTINEL_DATABASES;
use super::redis_tls::RedisAuthority;
use futures_util::future::join_all;
use redis::{Cmd, Value};
use std::collections::HashMap;
use std::fs;
use tempfile::TempDir;

/// The name of the primary.
const NAME: &str = "ringback-test";
const REPLICAS: usize = 2;
const SENTINELS: usize = 3;
/// After this time without an answer a primary is dead for a sentinel, while a test wants that.
const DOWN_AFTER_MS: u32 = 500;
/// And at all other times: no server is replaced only because the machine stood still for a moment.
const PATIENT_MS: u32 = 60_000;
/// Ports that are tried for a sentinel.
const TRIES: usize = 10;
/// What a sentinel says once it listens.
const READY: &str = "Sentinel ID is";

/// The servers and the sentinels. They end when this value does.
pub struct Sentinels {
    nodes: Vec<Node>,
    sentinels: Vec<Sentinel>,
    scheme: &'static str,
}

/// One sentinel.
struct Sentinel {
    _running: Running,
    port: HeldPort,
    /// If its port is one for TLS: another one, for the tests alone.
    plain: Option<HeldPort>,
    _dir: TempDir,
}

impl Sentinels {
    /// Starts some. They replace a primary when they are told to.
    pub async fn start() -> Self {
        Self::start_for(&[], &[]).await
    }

    /// Starts some of which the servers have the user of the documents with these rights, and the sentinels with those, or neither
    /// if there are none.
    pub async fn start_for(rights: &[String], at_sentinels: &[String]) -> Self {
        Self::start_with(rights, at_sentinels, None).await
    }

    /// Likewise, with an authority: everybody must use TLS, servers and sentinels among themselves as well.
    pub async fn start_with(
        rights: &[String],
        at_sentinels: &[String],
        tls: Option<&RedisAuthority>,
    ) -> Self {
        let databases = SENTINEL_DATABASES.to_string();
        let arguments = ["--repl-diskless-sync-delay", "0", "--databases", &databases];
        let arguments = [arguments.map(String::from).to_vec(), user_with(rights)].concat();
        let primary = Node::start(&arguments, tls);
        let follow = [
            "--replicaof".to_string(),
            format!("127.0.0.1 {}", primary.port()),
        ];
        let arguments = [arguments, follow.to_vec()].concat();
        let replicas = (0..REPLICAS).map(|_| Node::start(&arguments, tls));
        let nodes: Vec<Node> = [primary].into_iter().chain(replicas).collect();
        let port = nodes[0].port();
        let sentinels = (0..SENTINELS).map(|_| Sentinel::start(port, tls));
        let started = Self {
            sentinels: sentinels.collect(),
            nodes,
            scheme: if tls.is_some() { "rediss" } else { "redis" },
        };
        for sentinel in &started.sentinels {
            sentinel.quicken().await;
            if !at_sentinels.is_empty() {
                let mut set = redis::cmd("ACL");
                set.arg("SETUSER").arg("ringback").arg(at_sentinels);
                let made: Option<()> = sentinel.ask(&set).await;
                made.expect("a user");
            }
        }
        started.until_whole().await;
        started
    }

    /// Its URL, with every sentinel.
    pub fn url(&self) -> String {
        let sentinels = self.sentinels.iter();
        let sentinels = sentinels.map(|sentinel| format!("127.0.0.1:{}", sentinel.port.number));
        let sentinels: Vec<String> = sentinels.collect();
        let scheme = self.scheme;
        format!("{scheme}+sentinel://{}/{NAME}", sentinels.join(","))
    }

    /// Likewise, for the user of the documents.
    pub fn user_url(&self) -> String {
        let url = self.url();
        url.replace("sentinel://", "sentinel://ringback:PASSWORD@")
    }

    /// What servers and sentinels have refused to a user, and how many connections of that user the primary and the first sentinel
    /// have.
    pub async fn refused(&self) -> (Vec<Value>, usize, usize) {
        let mut refused = Vec::new();
        for node in self.nodes.iter().filter(|node| node.server.is_there()) {
            refused.extend(node.run::<Vec<Value>>(&acl_log()).await);
        }
        for sentinel in &self.sentinels {
            let log: Option<Vec<Value>> = sentinel.ask(&acl_log()).await;
            refused.extend(log.expect("a log"));
        }
        let clients = redis::cmd("CLIENT").arg("LIST").to_owned();
        let at_primary: String = self.nodes[self.primary().await].run(&clients).await;
        let at_sentinel: Option<String> = self.sentinels[0].ask(&clients).await;
        let of_user = |clients: &str| clients.matches(" user=ringback ").count();
        let at_sentinel = of_user(&at_sentinel.expect("a list"));
        (refused, of_user(&at_primary), at_sentinel)
    }

    /// The URL of one server.
    pub fn node_url(&self, node: usize) -> String {
        self.nodes[node].server.url(0)
    }

    /// The primary, once all sentinels say the same and it says so itself.
    pub async fn primary(&self) -> usize {
        until("a primary", || self.primary_now()).await
    }

    async fn primary_now(&self) -> Option<usize> {
        let primary = self.elected().await?;
        let role = self.nodes[primary].replication("role").await?;
        (role == "master").then_some(primary)
    }

    /// The primary by what all sentinels say, which may be dead or not know of it.
    async fn elected(&self) -> Option<usize> {
        let asked = self.sentinels.iter().map(Sentinel::primary);
        let said: Option<Vec<u16>> = join_all(asked).await.into_iter().collect();
        let said = said?;
        let is_same = said.iter().all(|port| *port == said[0]);
        let has = |node: &Node| node.port() == said[0];
        self.nodes.iter().position(has).filter(|_| is_same)
    }

    /// Has the sentinels notice that this primary is dead or hangs, waits until they have replaced it, and says by which.
    pub async fn until_replaced(&self, primary: usize) -> usize {
        self.set_down_after(DOWN_AFTER_MS).await;
        let other = async || {
            let now = self.primary_now().await;
            now.filter(|now| *now != primary)
        };
        until("the promotion of a replica", other).await;
        self.set_down_after(PATIENT_MS).await;
        // If the machine stood still meanwhile, the new one may be about to be replaced as well.
        let settled = async || match self.is_any_electing().await {
            true => None,
            false => other().await,
        };
        until("the end of the elections", settled).await
    }

    async fn is_any_electing(&self) -> bool {
        let asked = self.sentinels.iter().map(Sentinel::finds_nothing_wrong);
        !join_all(asked).await.into_iter().all(|fine| fine)
    }

    /// Kills a server with SIGKILL.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Kills the primary, and says which it was.
    pub async fn kill_primary(&mut self) -> usize {
        let primary = self.primary().await;
        self.kill(primary);
        primary
    }

    /// Starts a server that was killed again. It begins as what it was at first, until the sentinels tell it.
    pub async fn start_again(&mut self, node: usize) {
        self.nodes[node].server.start_again().await;
    }

    /// Stops a server in its tracks: it keeps its connections and answers nobody.
    pub async fn hang(&self, node: usize) {
        self.nodes[node].server.pause().await;
    }

    /// Ends some of the sentinels.
    pub fn end_sentinels(&mut self, many: usize) {
        self.sentinels.truncate(SENTINELS - many);
    }

    /// Lets it go on.
    pub fn resume(&self, node: usize) {
        self.nodes[node].server.resume();
    }

    /// Has a sentinel replace the primary, dead or alive, and returns the old one and the new one.
    pub async fn fail_over(&self) -> (usize, usize) {
        let old = until("a primary", || self.elected()).await;
        let command = sentinel("FAILOVER").arg(NAME).to_owned();
        // Refused while it finds no replica that is well, while an election goes on, and given up when that takes too
        // long.
        let new = until("the promotion of a replica", async || {
            if self.elected().await == Some(old) {
                let _: Option<()> = self.sentinels[0].ask(&command).await;
            }
            self.primary_now().await.filter(|primary| *primary != old)
        });
        (old, new.await)
    }

    async fn set_down_after(&self, ms: u32) {
        let mut set = sentinel("SET");
        set.arg(&[NAME, "down-after-milliseconds", &ms.to_string()]);
        for one in &self.sentinels {
            until("a sentinel to be there", || one.ask::<()>(&set)).await;
        }
    }

    /// Cuts the primary off from its replicas, so that what it writes from now on is nowhere else. The replicas stand
    /// still until [`Sentinels::resume`]: one that goes on while its primary is alive copies everything. How long a
    /// replica has been without its primary is no matter for the sentinels.
    pub async fn cut_replication(&self) -> Vec<usize> {
        let primary = self.primary().await;
        let replicas = (0..self.nodes.len()).filter(|node| *node != primary);
        let replicas: Vec<usize> = replicas.collect();
        for replica in &replicas {
            self.hang(*replica).await;
        }
        // Else what is written now would wait for them in the buffers of the connections.
        let mut cut = redis::cmd("CLIENT");
        cut.arg(&["KILL", "TYPE", "replica"]);
        self.nodes[primary].run::<()>(&cut).await;
        replicas
    }

    /// Waits until every server that runs is the primary or has what the primary has, and every sentinel knows them
    /// and the other sentinels.
    pub async fn until_whole(&self) {
        until("everything to be whole", async || {
            self.is_whole().await.then_some(())
        })
        .await;
    }

    async fn is_whole(&self) -> bool {
        let Some(primary) = self.primary_now().await else {
            return false;
        };
        let Some(written) = self.nodes[primary].written().await else {
            return false;
        };
        let port = self.nodes[primary].port().to_string();
        for (number, node) in self.nodes.iter().enumerate() {
            if number == primary || !node.server.is_there() {
                continue;
            }
            let follows = node.replication("master_port").await.as_ref() == Some(&port);
            if !(follows && node.has_copied(written).await) {
                return false;
            }
        }
        let states = self.sentinels.iter().map(Sentinel::knows_all);
        join_all(states).await.into_iter().all(|knows| knows)
    }

    /// Empties the primary.
    pub async fn flush(&self) {
        let primary = self.primary().await;
        let node = &self.nodes[primary];
        node.run::<()>(&redis::cmd("FLUSHALL")).await;
    }
}

impl Sentinel {
    /// Starts one that watches the server at this port.
    fn start(primary: u16, tls: Option<&RedisAuthority>) -> Self {
        for _ in 0..TRIES {
            let port = HeldPort::any();
            let plain = tls.map(|_| HeldPort::any());
            let for_tls = tls.map_or(Vec::new(), |tls| tls.settings(port.number));
            let for_tls = for_tls
                .iter()
                .map(|(name, value)| format!("{name} {value}\n"));
            let dir = tempfile::tempdir().expect("a temporary directory");
            let settings = format!(
                "bind 127.0.0.1\nport {}\ndir {}\n\
                 sentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
                 sentinel down-after-milliseconds {NAME} {PATIENT_MS}\n\
                 sentinel failover-timeout {NAME} 2000\n\
                 sentinel parallel-syncs {NAME} 1\n{}",
                plain.as_ref().unwrap_or(&port).number,
                dir.path().display(),
                for_tls.collect::<String>(),
            );
            // It writes what it learns into the same file.
            let file = dir.path().join("sentinel.conf");
            fs::write(&file, settings).expect("written");
            if let Some(running) = Running::launch(&[file.into(), "--sentinel".into()], READY) {
                return Self {
                    _running: running,
                    port,
                    plain,
                    _dir: dir,
                };
            }
        }
        panic!("no sentinel came up at {TRIES} free ports");
    }

    /// Has it look at everything more often, and not stop its work when the machine was busy. A sentinel makes a server a
    /// replica again that says for four such periods of publishing to be a primary, so these must be longer than an
    /// election. Servers before version 7 do not know how, and need some seconds more for everything.
    async fn quicken(&self) {
        let mut debug = sentinel("DEBUG");
        debug.arg(&["INFO-PERIOD", "200", "PING-PERIOD", "100"]);
        debug.arg(&["ASK-PERIOD", "100", "PUBLISH-PERIOD", "750"]);
        debug.arg(&["TILT-TRIGGER", "60000", "ELECTION-TIMEOUT", "2000"]);
        let _: Option<()> = self.ask(&debug).await;
    }

    async fn ask<Reply: redis::FromRedisValue>(&self, command: &Cmd) -> Option<Reply> {
        let port = self.plain.as_ref().unwrap_or(&self.port);
        ask(port.number, command).await.ok()
    }

    /// The port of the primary, as it says.
    async fn primary(&self) -> Option<u16> {
        let command = sentinel("GET-MASTER-ADDR-BY-NAME").arg(NAME).to_owned();
        let (_, port): (String, u16) = self.ask(&command).await?;
        Some(port)
    }

    /// Whether it knows the replicas and the other sentinels, and finds nothing wrong.
    async fn knows_all(&self) -> bool {
        let Some(known) = self.known().await else {
            return false;
        };
        let is = |field: &str, value: &str| known.get(field).is_some_and(|known| known == value);
        is("num-slaves", &REPLICAS.to_string())
            && is("num-other-sentinels", &(SENTINELS - 1).to_string())
            && is("flags", "master")
    }

    /// Whether the primary is alive for it, and no election goes on that it knows of.
    async fn finds_nothing_wrong(&self) -> bool {
        let known = self.known().await;
        known.is_some_and(|known| known.get("flags").is_some_and(|flags| flags == "master"))
    }

    /// What it knows of the primary.
    async fn known(&self) -> Option<HashMap<String, String>> {
        let command = sentinel("MASTER").arg(NAME).to_owned();
        self.ask(&command).await
    }
}

fn sentinel(word: &str) -> Cmd {
    let mut command = redis::cmd("SENTINEL");
    command.arg(word);
    command
}
