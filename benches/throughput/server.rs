//! The measured servers and their stores, as separate processes.

use crate::postgres::PostgresServer;
use crate::processor_time::{Processes, ProcessorTime, waits};
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A script that counts the pending entries of a schedule in Redis: those that wait in a lane, most of which are nowhere else,
/// and those that are leased.
pub const COUNT_ENTRIES: &str = "
    local many = redis.call('ZCARD', '{rb:0}:leases')
    for _, lane in ipairs(redis.call('ZRANGE', '{rb:0}:lanes', 0, -1)) do
      many = many + redis.call('ZCARD', '{rb:0}:lane:' .. lane)
    end
    return many";

/// The stores of the server: its schedule and its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// The schedule in Redis, without a journal.
    RedisOnly,
    /// The schedule in Redis, the journal in PostgreSQL.
    RedisPostgres,
    /// The schedule in Redis, the journal in SQLite.
    RedisSqlite,
    /// The schedule in memory, the journal in SQLite.
    Embedded,
}

impl Stores {
    /// All kinds of stores.
    pub const ALL: [Self; 4] = [
        Self::RedisOnly,
        Self::RedisPostgres,
        Self::RedisSqlite,
        Self::Embedded,
    ];

    /// The stores with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|stores| stores.to_string() == name)
    }
}

impl fmt::Display for Stores {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::RedisOnly => "redis",
            Self::RedisPostgres => "redis+postgres",
            Self::RedisSqlite => "redis+sqlite",
            Self::Embedded => "embedded",
        })
    }
}

/// The settings of PostgreSQL. It waits for the disk at every commit, as by default. It gets more memory than by
/// default, and writes a checkpoint less often.
const POSTGRES: &[&str] = &["fsync=on", "shared_buffers=512MB", "max_wal_size=8GB"];

/// Maximum time until the server is ready. After that, the run fails.
const LONGEST_START: Duration = Duration::from_secs(60);

/// A server with its stores, or several servers with the same stores. The processes end when this value is dropped.
/// [`Setup::stop`] ends the servers and Redis, and waits until they have ended.
pub struct Setup {
    ringback: Option<Child>,
    /// The servers besides the first.
    others: Vec<Child>,
    /// The arguments of the first server.
    arguments: Vec<String>,
    redis: Option<Child>,
    /// PostgreSQL, if it is used.
    pub postgres: Option<PostgresServer>,
    /// The URL of Redis, if it is used.
    pub redis_url: Option<String>,
    _dir: TempDir,
    /// The URLs of the APIs of all servers.
    pub urls: Vec<String>,
    /// A client for calls of the API.
    pub client: reqwest::Client,
    runs: AtomicUsize,
}

impl Setup {
    /// Starts the stores and then the server. Waits until the server is ready.
    pub async fn start(stores: Stores) -> Self {
        Self::start_with(stores, &[]).await
    }

    /// As [`Setup::start`], with further settings of PostgreSQL.
    pub async fn start_with(stores: Stores, postgres_settings: &[&str]) -> Self {
        let mut setup = Self::prepare(stores, postgres_settings).await;
        setup.start_server().await;
        setup
    }

    /// As [`Setup::start`], with so many servers, and so many partitions of the schedule if it is in Redis.
    pub async fn start_servers(stores: Stores, servers: usize, partitions: usize) -> Self {
        let mut setup = Self::prepare(stores, &[]).await;
        if setup.redis_url.is_some() {
            let partitions = ["--partitions".to_string(), partitions.to_string()];
            setup.arguments.extend(partitions);
        }
        setup.start_server().await;
        for _ in 1..servers {
            setup.start_other().await;
        }
        setup
    }

    /// Starts the stores.
    async fn prepare(stores: Stores, postgres_settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let client = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("a client");
        let mut arguments = vec!["serve".to_string()];
        let (mut redis, mut redis_url) = (None, None);
        if stores != Stores::Embedded {
            let port = free_port();
            redis = Some(start_redis(port, &dir).await);
            let url = format!("redis://127.0.0.1:{port}");
            arguments.extend(["--redis".to_string(), url.clone()]);
            redis_url = Some(url);
        }
        let mut postgres = None;
        if stores == Stores::RedisPostgres {
            let server = PostgresServer::start(&[POSTGRES, postgres_settings].concat());
            arguments.extend(["--journal".to_string(), server.url("postgres")]);
            postgres = Some(server);
        }
        if stores == Stores::RedisOnly {
            arguments.extend(["--journal".to_string(), "none".to_string()]);
        }
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        let others = ["--log", "warn", "--allow-destination", "127.0.0.0/8"];
        arguments.extend(others.map(str::to_string));
        arguments.extend(["--listen".to_string(), format!("127.0.0.1:{port}")]);
        arguments.extend(["--data-dir".to_string(), dir.path().display().to_string()]);
        Self {
            ringback: None,
            others: Vec::new(),
            arguments,
            redis,
            postgres,
            redis_url,
            _dir: dir,
            urls: vec![url],
            client,
            runs: AtomicUsize::new(0),
        }
    }

    /// Starts one more server with the same stores and settings.
    async fn start_other(&mut self) {
        let address = format!("127.0.0.1:{}", free_port());
        let mut arguments = self.arguments.clone();
        let listen = arguments.iter().position(|word| word == "--listen");
        arguments[listen.expect("it listens") + 1] = address.clone();
        self.others.push(spawn(&arguments));
        let url = format!("http://{address}");
        self.ready(&url).await;
        self.urls.push(url);
    }

    /// Starts the server, which does not run. Returns how long it took until the server was ready.
    pub async fn start_server(&mut self) -> Duration {
        let started = Instant::now();
        self.ringback = Some(spawn(&self.arguments));
        self.ready(&self.urls[0]).await;
        started.elapsed()
    }

    /// Has the server stop, and waits until it has. The stores go on.
    pub async fn stop_server(&mut self) {
        let mut ringback = self.ringback.take().expect("it runs");
        let process = ringback.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-TERM", &process]).status();
        assert!(sent.await.expect("kill").success());
        let status = ringback.wait().await.expect("the server ends");
        assert!(status.success(), "the server ended with {status}");
    }

    /// The id of the server's process.
    pub fn process(&self) -> u32 {
        let process = self.ringback.as_ref().and_then(Child::id);
        process.expect("it runs")
    }

    /// The number of the next run. No other run against this server has the same number.
    pub fn next_run(&self) -> usize {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    fn server_ids(&self) -> Vec<u32> {
        let servers = self.ringback.iter().chain(&self.others);
        servers.filter_map(Child::id).collect()
    }

    /// How often the threads of the servers have waited so far.
    pub fn waits(&self) -> u64 {
        waits(&self.server_ids())
    }

    /// The processor time that the servers and their stores have taken so far.
    pub fn processor_time(&self) -> ProcessorTime {
        ProcessorTime::read(Processes {
            servers: self.server_ids(),
            redis: self.redis.as_ref().and_then(Child::id),
            postgres: self.postgres.as_ref().map(PostgresServer::process),
        })
    }

    async fn ready(&self, url: &str) {
        let started = Instant::now();
        while started.elapsed() < LONGEST_START {
            let answer = self.client.get(format!("{url}/readyz")).send().await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the server did not become ready");
    }

    /// Kills the servers and Redis, and waits until they have ended.
    pub async fn stop(mut self) {
        for ringback in self.ringback.iter_mut().chain(&mut self.others) {
            ringback.kill().await.expect("the server ends");
        }
        if let Some(redis) = &mut self.redis {
            redis.kill().await.expect("Redis ends");
        }
    }
}

fn spawn(arguments: &[String]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ringback"))
        .args(arguments)
        .kill_on_drop(true)
        .spawn()
        .expect("the server")
}

async fn start_redis(port: u16, dir: &TempDir) -> Child {
    let redis = Command::new(redis_binary())
        .args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
        ])
        .args([
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
            "--auto-aof-rewrite-min-size",
            "1gb",
            "--dir",
        ])
        .arg(dir.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("a Redis server");
    for _ in 0..200 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_ok()
        {
            return redis;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("Redis did not start");
}

fn redis_binary() -> PathBuf {
    std::env::var_os("RINGBACK_TEST_REDIS").map_or_else(|| "redis-server".into(), PathBuf::from)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a free port")
        .port()
}
