//! The ways in which a store can be away, on the real program: what callers, probes, merchants and
//! the log see of it. Everything goes on by itself once the store is back.

use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;
use crate::support::redis::{RedisServer, connect};
use crate::support::ringback::registration;
use crate::support::{short_pause, within};
use reqwest::Method;
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Far more than the few seconds after which a caller is answered, and far less than for ever.
const FEW_SECONDS: Duration = Duration::from_secs(15);

/// How often a probe asks.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(50);

/// What an outage looks like from outside.
pub(super) struct Outage {
    /// The store that it strikes.
    store: &'static str,
    /// Whether what was accepted is delivered meanwhile.
    drains: bool,
}

/// A server in the middle of its work: an attempt in flight, another soon due.
pub(super) struct Scene {
    server: Process,
    merchant: Merchant,
    stage: tempfile::TempDir,
}

impl Scene {
    pub(super) async fn set(arguments: &[&str]) -> Self {
        let stage = tempfile::tempdir().expect("a temporary directory");
        let server = Process::start_unharmed(stage.path(), arguments).await;
        let held = Reaction::Held(Box::new(Reaction::success()));
        let mut merchant = Merchant::scripted(vec![held], Reaction::success()).await;
        server.api().register(registration("held", &merchant)).await;
        assert_eq!(merchant.call().await.body, b"id=held");
        let mut soon = registration("soon", &merchant);
        soon["delay"] = "1s".into();
        server.api().register(soon).await;
        Self {
            server,
            merchant,
            stage,
        }
    }

    fn journal(&self) -> std::path::PathBuf {
        self.stage.path().join("journal.db")
    }

    /// Plays from the beginning of an outage to its end, which `end` brings about.
    pub(super) async fn play(mut self, outage: Outage, end: impl Future<Output = ()>) {
        // Callers are told to come again, and soon.
        let refused = registration("refused", &self.merchant);
        let client = reqwest::Client::builder().no_proxy().build();
        let client = client.expect("a client");
        let asked = Instant::now();
        let answer = client
            .post(format!("{}/v1/notifications", self.server.api().url()))
            .header("content-type", "application/json")
            .body(refused.to_string());
        let answer = within("an answer", answer.send()).await.expect("an answer");
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["retry-after"], "1");
        assert!(asked.elapsed() < FEW_SECONDS, "{:?}", asked.elapsed());

        // Probes are told what is wrong, as long as somebody tries.
        let asked = Instant::now();
        let api = self.server.api().clone();
        let unready = async {
            loop {
                let (status, readiness) = api.call(Method::GET, "/readyz", None).await;
                if status == 503 {
                    return readiness;
                }
                let again = Some(refused.clone());
                let (status, view) = api.call(Method::POST, "/v1/notifications", again).await;
                assert_eq!(status, 503, "{view}");
            }
        };
        let readiness = within("the server to be unready", unready).await;
        println!("  unready after {:?}: {readiness}", asked.elapsed());
        for store in readiness["stores"].as_array().expect("a list") {
            let up = store["state"] == "up";
            assert_eq!(up, store["store"] != outage.store, "{readiness}");
            assert!(up || store["since"].is_string() && store["cause"].is_string());
        }
        let named = format!("the {}", outage.store);
        let detail = readiness["detail"].as_str().expect("a text");
        assert!(detail.contains(&named), "{detail}");

        // The attempt in flight ends, and its outcome has to wait.
        self.merchant.release();
        if outage.drains {
            for id in ["held", "soon"] {
                self.server.api().until_state(id, "delivered").await;
            }
        }

        // Probes are told so until the outage is over, whatever a check finds in between.
        let refusals = async {
            for _ in 0..2 {
                let again = Some(refused.clone());
                let (status, view) = api.call(Method::POST, "/v1/notifications", again).await;
                assert_eq!(status, 503, "{view}");
            }
        };
        let samples = async {
            loop {
                let (status, readiness) = api.call(Method::GET, "/readyz", None).await;
                assert_eq!(status, 503, "{readiness}");
                tokio::time::sleep(BETWEEN_SAMPLES).await;
            }
        };
        tokio::select! {
            () = within("two refusals", refusals) => {}
            () = samples => {}
        }
        end.await;
        let ended = Instant::now();
        let mut calls = vec![b"id=held".to_vec(), self.merchant.call().await.body];
        println!("  first call {:?} after the return", ended.elapsed());
        let api = self.server.api().clone();
        let ready = async {
            while api.call(Method::GET, "/readyz", None).await.0 != 200 {
                short_pause().await;
            }
        };
        within("the server to be ready", ready).await;
        println!("  ready {:?} after the return", ended.elapsed());
        let accepted = async {
            loop {
                let again = Some(refused.clone());
                let (status, view) = api.call(Method::POST, "/v1/notifications", again).await;
                match status {
                    200 | 201 => return,
                    503 => short_pause().await,
                    _ => panic!("{status} {view}"),
                }
            }
        };
        within("the registration to be accepted", accepted).await;
        for id in ["held", "soon", "refused"] {
            api.until_state(id, "delivered").await;
        }
        println!("  all delivered {:?} after the return", ended.elapsed());

        let lines = self.server.logged("is back after").await;
        self.server.signal("TERM").await;
        let lines = [lines, self.server.logged("stopped").await].concat();
        let loud: Vec<&Value> = lines
            .iter()
            .filter(|line| matches!(line["level"].as_str(), Some("WARN" | "ERROR")))
            .collect();
        assert_eq!(loud.len(), 1, "{loud:#?}");
        assert_eq!(loud[0]["store"], outage.store);
        println!("  {}", loud[0]["message"]);
        let back = lines
            .iter()
            .filter_map(|line| line["message"].as_str())
            .filter(|message| message.contains("is back after"));
        assert_eq!(back.count(), 1);

        // Nobody was called twice.
        while let Some(call) = self.merchant.arrived() {
            calls.push(call.body);
        }
        calls.sort_unstable();
        assert_eq!(calls, [&b"id=held"[..], b"id=refused", b"id=soon"]);
    }
}

/// Runs one command on a Redis server.
async fn command(redis: &RedisServer, parts: &[&str]) {
    let mut connection = connect(&redis.url(0)).await;
    let mut command = redis::cmd(parts[0]);
    let answered = command.arg(&parts[1..]).exec_async(&mut connection).await;
    answered.expect("executed");
}

fn signal(id: &str, name: &str) {
    let sent = Command::new("kill").args([name, id]).status();
    assert!(sent.expect("kill").success());
}

/// With the schedule in Redis: commands that begin the outage, and those that end it.
async fn on_redis(arguments: &[&str], outage: Outage, begin: &[&[&str]], end: &[&[&str]]) {
    let redis = RedisServer::start(arguments);
    let scene = Scene::set(&["--redis", &redis.url(0)]).await;
    for parts in begin {
        command(&redis, parts).await;
    }
    let ending = async {
        for parts in end {
            command(&redis, parts).await;
        }
    };
    scene.play(outage, ending).await;
}

const SCHEDULE: Outage = Outage {
    store: "schedule",
    drains: false,
};
pub(super) const JOURNAL: Outage = Outage {
    store: "journal",
    drains: false,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_gone_and_started_again() {
    let redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let scene = Scene::set(&["--redis", &redis.url(0)]).await;
    let (stopped, gone) = tokio::sync::oneshot::channel();
    let (start, started) = tokio::sync::oneshot::channel::<()>();
    let (again, up) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(async move {
        let meanwhile = async {
            stopped.send(()).expect("awaited");
            started.await.expect("sent");
        };
        let redis = redis.restart(meanwhile).await;
        again.send(()).expect("awaited");
        redis
    });
    gone.await.expect("stopped");
    let end = async {
        start.send(()).expect("awaited");
        up.await.expect("started");
    };
    scene.play(SCHEDULE, end).await;
    running.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_stands_still() {
    let redis = RedisServer::start(&[]);
    let scene = Scene::set(&["--redis", &redis.url(0)]).await;
    let mut connection = connect(&redis.url(0)).await;
    let mut info = redis::cmd("INFO");
    let info: String = info
        .arg("server")
        .query_async(&mut connection)
        .await
        .expect("answered");
    let id = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))
        .expect("there");
    signal(id, "-STOP");
    scene.play(SCHEDULE, async { signal(id, "-CONT") }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_holds_writes_back() {
    on_redis(
        &[],
        SCHEDULE,
        &[&["CLIENT", "PAUSE", "600000", "WRITE"]],
        &[&["CLIENT", "UNPAUSE"]],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_has_become_a_replica() {
    on_redis(
        &[],
        SCHEDULE,
        &[&["REPLICAOF", "127.0.0.1", "1"]],
        &[&["REPLICAOF", "NO", "ONE"]],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_wants_replicas_that_are_not_there() {
    on_redis(
        &[],
        SCHEDULE,
        &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
        &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_full() {
    let outage = Outage {
        store: "schedule",
        drains: true,
    };
    on_redis(
        &[],
        outage,
        &[&["CONFIG", "SET", "maxmemory", "1"]],
        &[&["CONFIG", "SET", "maxmemory", "0"]],
    )
    .await;
}

/// A second connection to a journal that keeps everybody else from writing.
async fn lock(journal: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(journal);
    let mut connection = options.connect().await.expect("opened");
    connection.execute("BEGIN IMMEDIATE").await.expect("locked");
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_is_locked_by_another_process() {
    let scene = Scene::set(&[]).await;
    let mut lock = lock(&scene.journal()).await;
    let end = async {
        lock.execute("ROLLBACK").await.expect("unlocked");
    };
    scene.play(JOURNAL, end).await;
}

/// A limit on the size of files stands in for a full disk: every write is refused by the system.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_s_disk_takes_nothing_more() {
    let scene = Scene::set(&[]).await;
    let id = scene.server.id().to_string();
    let limit = |limit: &str| {
        let set = Command::new("prlimit")
            .args(["--pid", &id, &format!("--fsize={limit}:")])
            .status();
        assert!(set.expect("prlimit").success());
    };
    limit("0");
    let end = async { limit("unlimited") };
    scene.play(JOURNAL, end).await;
}
