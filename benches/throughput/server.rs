//! The measured server and its stores, as separate processes.

use crate::postgres::PostgresServer;
use crate::processor_time::{Processes, ProcessorTime};
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};

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

/// A server with its stores. The processes end when this value is dropped. [`Setup::stop`] ends the server and
/// Redis, and waits until they have ended.
pub struct Setup {
    ringback: Child,
    redis: Option<Child>,
    postgres: Option<PostgresServer>,
    /// The URL of Redis, if it is used.
    pub redis_url: Option<String>,
    _dir: TempDir,
    /// The URL of the API.
    pub url: String,
    /// A client for calls of the API.
    pub client: reqwest::Client,
    runs: AtomicUsize,
}

impl Setup {
    /// Starts the stores and then the server. Waits until the server is ready.
    pub async fn start(stores: Stores) -> Self {
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
            let server = PostgresServer::start(POSTGRES);
            arguments.extend(["--journal".to_string(), server.url("postgres")]);
            postgres = Some(server);
        }
        if stores == Stores::RedisOnly {
            arguments.extend(["--journal".to_string(), "none".to_string()]);
        }
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        let ringback = Command::new(env!("CARGO_BIN_EXE_ringback"))
            .args(arguments)
            .args(["--listen", &format!("127.0.0.1:{port}"), "--log", "warn"])
            .args(["--allow-destination", "127.0.0.0/8", "--data-dir"])
            .arg(dir.path())
            .kill_on_drop(true)
            .spawn()
            .expect("the server");
        let setup = Self {
            ringback,
            redis,
            postgres,
            redis_url,
            _dir: dir,
            url,
            client,
            runs: AtomicUsize::new(0),
        };
        setup.ready().await;
        setup
    }

    /// The number of the next run. No other run against this server has the same number.
    pub fn next_run(&self) -> usize {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// The processor time that the server and its stores have taken so far.
    pub fn processor_time(&self) -> ProcessorTime {
        ProcessorTime::read(Processes {
            server: self.ringback.id(),
            redis: self.redis.as_ref().and_then(Child::id),
            postgres: self.postgres.as_ref().map(PostgresServer::process),
        })
    }

    async fn ready(&self) {
        for _ in 0..200 {
            let answer = self.client.get(format!("{}/readyz", self.url)).send().await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server did not become ready");
    }

    /// Kills the server and Redis, and waits until they have ended.
    pub async fn stop(mut self) {
        self.ringback.kill().await.expect("the server ends");
        if let Some(redis) = &mut self.redis {
            redis.kill().await.expect("Redis ends");
        }
    }
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
