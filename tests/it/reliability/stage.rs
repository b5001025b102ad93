//! The real processes of a run: servers and stores, to be killed and started again.

mod findings;
mod stores;

pub use findings::Recorded;
pub use stores::{CLUSTER_PARTITIONS, SHARED_PARTITIONS, Stores};

use super::callers::Servers;
use super::complaints::Complaints;
use super::leases::{self, OutLease};
use super::receiver::{Receiver, Try};
use crate::support::postgres::PostgresServer;
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::redis::{RedisServer, Written};
use crate::support::redis_cluster::RedisCluster;
use crate::support::ringback::Api;
use crate::support::sentinels::Sentinels;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Most calls that one server makes at a time (`--concurrency`), which is also the most that one kill excuses.
pub const CONCURRENCY: usize = 512;

/// The servers' `--horizon`, the shortest there is. What is due later waits in the journal alone until a minute before it is due, or
/// until it is changed by hand.
const HORIZON: &str = "2m";

/// How long a lease of the servers lasts: their `--timeout` of one second, and five seconds more.
pub const LEASE: Duration = Duration::from_secs(6);

/// One server process of the run; killed ones stay on the list.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The name under which it writes into the journal.
    pub instance: String,
    /// Whether it was ended by SIGKILL.
    pub killed: bool,
}

/// More than one Redis, of which one takes over from another.
pub enum SeveralRedis {
    /// A primary with replicas behind sentinels.
    Sentinels(Sentinels),
    /// A cluster.
    Cluster(RedisCluster),
}

/// The processes.
pub struct Stage {
    dir: TempDir,
    redis: Option<RedisServer>,
    several: Option<SeveralRedis>,
    redis_line: Option<Proxy>,
    /// With its database.
    postgres: Option<(PostgresServer, String)>,
    postgres_line: Option<Proxy>,
    running: Vec<Option<(usize, Process)>>,
    lost_leases: HashMap<Try, usize>,
    lost_bare_leases: HashMap<u32, usize>,
    /// When replicas took over or might have: from when until when.
    take_overs: Vec<(Instant, Instant)>,
    partitions: usize,
    senders: Vec<Sender>,
    urls: Arc<Servers>,
    complaints: Arc<Mutex<Complaints>>,
}

impl Stage {
    /// Starts everything.
    pub async fn start(stores: Stores, receiver: &Receiver) -> Self {
        Self::begin(stores, receiver, false).await
    }

    /// Likewise, with lines between servers and stores that can be disturbed.
    pub async fn start_with_lines(stores: Stores, receiver: &Receiver) -> Self {
        Self::begin(stores, receiver, true).await
    }

    async fn begin(stores: Stores, receiver: &Receiver, has_lines: bool) -> Self {
        let redis = match stores {
            Stores::Embedded | Stores::SentinelsAndPostgres | Stores::ClusterAndPostgres => None,
            Stores::RedisAndSqlite | Stores::RedisAndPostgres | Stores::PartitionsAndPostgres => {
                let durable = ["--appendonly", "yes", "--appendfsync", "everysec"];
                Some(RedisServer::start(&durable))
            }
        };
        let several = match stores {
            Stores::Embedded
            | Stores::RedisAndSqlite
            | Stores::RedisAndPostgres
            | Stores::PartitionsAndPostgres => None,
            Stores::SentinelsAndPostgres => Some(SeveralRedis::Sentinels(Sentinels::start().await)),
            Stores::ClusterAndPostgres => Some(SeveralRedis::Cluster(RedisCluster::start().await)),
        };
        let postgres = match stores {
            Stores::Embedded | Stores::RedisAndSqlite => None,
            Stores::RedisAndPostgres
            | Stores::PartitionsAndPostgres
            | Stores::SentinelsAndPostgres
            | Stores::ClusterAndPostgres => {
                let server = PostgresServer::start(&["fsync=on"]);
                let url = server.fresh_database();
                let name = url.rsplit('/').next().expect("a name").to_string();
                Some((server, name))
            }
        };
        let redis_line = redis.as_ref().filter(|_| has_lines);
        let postgres_line = postgres.as_ref().filter(|_| has_lines);
        let mut stage = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            redis_line: redis_line.map(|redis| Proxy::start(redis.address())),
            postgres_line: postgres_line.map(|(server, _)| Proxy::start(server.address())),
            redis,
            several,
            postgres,
            partitions: stores.partitions(),
            running: (0..stores.servers()).map(|_| None).collect(),
            lost_leases: HashMap::new(),
            lost_bare_leases: HashMap::new(),
            take_overs: Vec::new(),
            senders: Vec::new(),
            urls: Arc::default(),
            complaints: Arc::default(),
        };
        for which in 0..stores.servers() {
            stage.start_server(which, receiver).await;
        }
        stage
    }

    /// Where the servers are, for the callers.
    pub fn urls(&self) -> Arc<Servers> {
        self.urls.clone()
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.running.len()
    }

    /// Whether there is a Redis.
    pub fn has_redis(&self) -> bool {
        self.redis.is_some()
    }

    /// The line to Redis.
    pub fn redis_line(&self) -> &Proxy {
        self.redis_line.as_ref().expect("started with lines")
    }

    /// The line to PostgreSQL.
    pub fn postgres_line(&self) -> &Proxy {
        self.postgres_line.as_ref().expect("started with lines")
    }

    /// Whether there is a PostgreSQL.
    pub fn has_postgres(&self) -> bool {
        self.postgres.is_some()
    }

    /// Kills PostgreSQL.
    pub fn kill_postgres(&mut self) {
        let (server, _) = self.postgres.as_mut().expect("there is one");
        tokio::task::block_in_place(|| server.kill());
    }

    /// Starts PostgreSQL again on what it wrote down.
    pub async fn start_postgres(&mut self) {
        let (server, _) = self.postgres.as_mut().expect("there is one");
        server.start_again().await;
    }

    /// Kills a server.
    pub async fn kill_server(&mut self, which: usize) {
        let (sender, process) = self.running[which].take().expect("it runs");
        self.senders[sender].killed = true;
        self.urls.set(which, None);
        process.kill().await;
    }

    /// Starts a server, with a `User-Agent` that no other has.
    pub async fn start_server(&mut self, which: usize, receiver: &Receiver) {
        let (sender, agent) = receiver.admit();
        let mut arguments: Vec<String> = ["--timeout", "1s", "--log", "info"]
            .map(String::from)
            .to_vec();
        let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        arguments.extend(["--signing-secret", secret, "--user-agent", &agent].map(String::from));
        arguments.extend(["--concurrency".to_string(), CONCURRENCY.to_string()]);
        arguments.extend(["--horizon", HORIZON].map(String::from));
        if let Some(url) = self.redis_url() {
            arguments.extend(["--redis".to_string(), url]);
        }
        if self.redis_url().is_some() {
            arguments.extend(["--partitions".to_string(), self.partitions.to_string()]);
        }
        if let Some((server, database)) = &self.postgres {
            let url = match &self.postgres_line {
                Some(line) => server.url_by(line.address(), database),
                None => server.url(database),
            };
            arguments.extend(["--journal".to_string(), url]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let dir = self.data_dir(which);
        let mut process = Process::start(&dir, &arguments).await;
        let complaints = self.complaints.clone();
        process.take_log(move |line| complaints.lock().expect("not poisoned").hear(line));
        self.senders.push(Sender {
            instance: process.instance().to_string(),
            killed: false,
        });
        self.urls.set(which, Some(process.api().url().to_string()));
        self.running[which] = Some((sender, process));
    }

    /// Where the servers find Redis.
    fn redis_url(&self) -> Option<String> {
        let one = self.redis.as_ref().map(|redis| match &self.redis_line {
            Some(line) => format!("redis://{}/0", line.address()),
            None => redis.url(0),
        });
        one.or_else(|| match self.several.as_ref()? {
            SeveralRedis::Sentinels(sentinels) => Some(sentinels.url()),
            SeveralRedis::Cluster(cluster) => Some(cluster.url()),
        })
    }

    /// More than one Redis.
    pub fn several(&self) -> &SeveralRedis {
        self.several.as_ref().expect("there are several")
    }

    /// Those behind sentinels.
    pub fn sentinels(&mut self) -> &mut Sentinels {
        match &mut self.several {
            Some(SeveralRedis::Sentinels(sentinels)) => sentinels,
            Some(SeveralRedis::Cluster(_)) | None => panic!("started with other stores"),
        }
    }

    /// Those in a cluster.
    pub fn cluster(&mut self) -> &mut RedisCluster {
        match &mut self.several {
            Some(SeveralRedis::Cluster(cluster)) => cluster,
            Some(SeveralRedis::Sentinels(_)) | None => panic!("started with other stores"),
        }
    }

    /// Notes that a replica took over between these instants, or might have. It does not have the last writes of its primary, so
    /// leases were lost without anybody seeing which. Before the first instant all replicas had everything, and after the second one
    /// they have it again.
    pub fn note_take_over(&mut self, began: Instant, ended: Instant) {
        self.take_overs.push((began, ended));
    }

    /// Whether Redis may have lost, unseen, the lease of a call that arrived then.
    ///
    /// What a replica lacks was written after the beginning, or was on its way to it then. If that is the lease, the call came
    /// after it. If it is that the lease was renewed, the call came the time of a lease before that at most. What a former primary
    /// leased last, before it heard that it is one no more, is called within the time of a lease.
    pub fn may_have_lost_lease(&self, arrived: Instant) -> bool {
        // A server does not make an attempt that it has in flight itself.
        self.servers() > 1
            && (self.take_overs.iter())
                .any(|(began, ended)| arrived + LEASE >= *began && arrived <= *ended + LEASE)
    }

    /// Each partition, and the URL of the server that has it now.
    async fn places(&self) -> Vec<(String, usize)> {
        match (&self.redis, &self.several) {
            (Some(redis), _) => (0..self.partitions)
                .map(|partition| (redis.url(0), partition))
                .collect(),
            (None, Some(SeveralRedis::Sentinels(sentinels))) => {
                vec![(sentinels.node_url(sentinels.primary().await), 0)]
            }
            (None, Some(SeveralRedis::Cluster(cluster))) => {
                let mut all = Vec::new();
                for partition in 0..CLUSTER_PARTITIONS {
                    let primary = cluster.primary_of(cluster.slot_of(partition).await).await;
                    all.push((cluster.node_url(primary), partition));
                }
                all
            }
            (None, None) => Vec::new(),
        }
    }

    /// Kills Redis.
    pub fn kill_redis(&mut self) {
        let redis = self.redis.as_mut().expect("there is one");
        tokio::task::block_in_place(|| redis.kill());
    }

    /// Starts Redis again on what it wrote down.
    pub async fn start_redis(&mut self) {
        let redis = self.redis.as_mut().expect("there is one");
        redis.start_again().await;
    }

    /// What Redis has written down by now.
    pub fn written_by_redis(&self) -> Written {
        self.redis.as_ref().expect("there is one").written()
    }

    /// Takes from Redis, which is dead, what it wrote down since then. Notes the leases that it lost by
    /// that: where there are several servers, another one than its sender may be given an attempt. `false`,
    /// and nothing is taken, if Redis rewrote its files meanwhile.
    pub async fn set_redis_back(&mut self, to: &Written) -> bool {
        let redis = self.redis.as_mut().expect("there is one");
        let copied = |redis: &RedisServer| tokio::task::block_in_place(|| redis.start_copy());
        let held = leases::leases(&copied(redis)).await;
        if !redis.set_back(to) {
            return false;
        }
        let left = leases::leases(&copied(redis)).await;
        let lost = held.into_iter().filter(|lease| !left.contains(lease));
        self.note_lost(lost.collect());
        true
    }

    /// Empties Redis under the servers. Notes the leases that were out at that very moment.
    pub async fn flush_redis(&mut self) {
        let redis = self.redis.as_ref().expect("there is one");
        let lost = leases::flush(redis).await;
        self.note_lost(lost);
    }

    fn note_lost(&mut self, leases: Vec<OutLease>) {
        // A server does not make an attempt that it has in flight itself.
        if self.servers() > 1 {
            for OutLease {
                number, attempt, ..
            } in leases
            {
                *match attempt {
                    Some(attempt) => self.lost_leases.entry(Try { number, attempt }).or_default(),
                    None => self.lost_bare_leases.entry(number).or_default(),
                } += 1;
            }
        }
    }

    /// How many leases of each attempt Redis lost.
    pub fn lost_leases(&self) -> &HashMap<Try, usize> {
        &self.lost_leases
    }

    /// Likewise, of each notification whose entry was bare: Redis did not know which attempt it was.
    pub fn lost_bare_leases(&self) -> &HashMap<u32, usize> {
        &self.lost_bare_leases
    }

    /// All server processes of the run.
    pub fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// What they complained of.
    pub fn complaints(&self) -> MutexGuard<'_, Complaints> {
        self.complaints.lock().expect("not poisoned")
    }

    /// The API of a server that runs.
    pub fn api(&self) -> Api {
        let running = self.running.iter().flatten().next();
        running.expect("one runs").1.api().clone()
    }

    /// Stops the servers gently.
    pub async fn stop(&mut self) {
        for (_, process) in self.running.iter_mut().filter_map(Option::take) {
            process.signal("TERM").await;
            assert!(process.ended().await.success(), "a server ended badly");
        }
    }

    fn data_dir(&self, which: usize) -> PathBuf {
        self.dir.path().join(format!("server{which}"))
    }

    /// The journal in SQLite.
    fn journal(&self) -> PathBuf {
        self.data_dir(0).join("journal.db")
    }
}
