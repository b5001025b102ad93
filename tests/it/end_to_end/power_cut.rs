//! A power cut of the machine that Redis and the servers share: all of them die at once, and Redis comes
//! back without what it had not flushed (`appendfsync everysec`). The journal has everything.
//!
//! One destination is busy with a single call, so what is due waits in Redis, before the cut and behind the
//! lease that comes back with it. No instant has to be met.

use crate::support::held::HELD;
use crate::support::merchant::{Merchant, Reaction};
use crate::support::process::Process;
use crate::support::redis::{RedisServer, Written, connect};
use crate::support::ringback::registration;
use crate::support::{postgres, short_pause, within};
use reqwest::Method;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Notifications of each kind.
const MANY: usize = 20;

/// The servers of one journal, and their Redis.
struct Machine {
    dir: TempDir,
    redis: RedisServer,
    /// `None` for one in SQLite, beside a single server.
    journal: Option<String>,
    servers: Vec<Process>,
}

impl Machine {
    /// Servers that make one call at a time to each destination.
    async fn start(servers: usize, journal: Option<String>) -> Self {
        let redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "everysec"]);
        let mut machine = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            redis,
            journal,
            servers: Vec::new(),
        };
        for _ in 0..servers {
            machine.start_server().await;
        }
        machine
    }

    async fn start_server(&mut self) {
        let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let redis = self.redis.url(0);
        let mut arguments = vec!["--timeout", "10s", "--lane-concurrency", "1"];
        arguments.extend(["--signing-secret", secret, "--redis", &redis]);
        if let Some(journal) = &self.journal {
            arguments.extend(["--journal", journal]);
        }
        let dir = self
            .dir
            .path()
            .join(format!("server{}", self.servers.len()));
        let mut server = Process::start(&dir, &arguments).await;
        server.take_log(|_| {});
        self.servers.push(server);
    }

    /// A server of these, counted round and round.
    fn server(&self, number: usize) -> &Process {
        &self.servers[number % self.servers.len()]
    }

    /// What Redis has written down, once that is all that it was told.
    async fn written(&self) -> Written {
        let mut connection = connect(&self.redis.url(0)).await;
        within("Redis to write to its file", async {
            loop {
                let mut info = redis::cmd("INFO");
                let info: String =
                    (info.arg("persistence").query_async(&mut connection).await).expect("answered");
                if info.contains("aof_buffer_length:0\r") {
                    return self.redis.written();
                }
                short_pause().await;
            }
        })
        .await
    }

    /// Redis alone dies, and comes back with what it had written down then.
    async fn set_redis_back(&mut self, written: &Written) {
        self.redis.kill();
        assert!(self.redis.set_back(written), "its files were rewritten");
        self.redis.start_again().await;
    }

    /// The name of the run that Redis is in.
    async fn run_of_redis(&self) -> String {
        let mut connection = connect(&self.redis.url(0)).await;
        let mut info = redis::cmd("INFO");
        let info: String =
            (info.arg("server").query_async(&mut connection).await).expect("answered");
        let line = info.lines().find_map(|line| line.strip_prefix("run_id:"));
        line.expect("its run").to_string()
    }

    /// Awaits that a command to Redis has this reply.
    async fn until_redis<Reply: redis::FromRedisValue + PartialEq>(
        &self,
        words: &[&str],
        wanted: Reply,
    ) {
        let mut connection = connect(&self.redis.url(0)).await;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        within(&format!("{words:?} to be answered as wished"), async {
            while command
                .query_async::<Reply>(&mut connection)
                .await
                .expect("a reply")
                != wanted
            {
                short_pause().await;
            }
        })
        .await;
    }

    /// Everything dies; Redis comes back with what it had written down then, and as many servers start.
    async fn cut(&mut self, written: &Written) {
        let servers: Vec<Process> = self.servers.drain(..).collect();
        let many = servers.len();
        self.redis.kill();
        for server in servers {
            server.kill().await;
        }
        assert!(self.redis.set_back(written), "its files were rewritten");
        self.redis.start_again().await;
        for _ in 0..many {
            self.start_server().await;
        }
    }
}

/// Half an hour from now, in microseconds since 1970.
fn soon() -> String {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    (since_1970.as_micros() + 1_800_000_000).to_string()
}

/// A change by hand, which must be answered 200.
async fn change(server: &Process, method: Method, path: &str) {
    let (status, view) = server.api().call(method, path, None).await;
    assert_eq!(status, 200, "{path}: {view}");
}

async fn nothing_that_was_answered_is_undone(servers: usize, journal: Option<String>) {
    let mut machine = Machine::start(servers, journal).await;
    let held = Reaction::Held(Box::new(Reaction::success()));
    let mut busy = Merchant::scripted(vec![held], Reaction::success()).await;
    let mut other = Merchant::start().await;

    machine
        .server(0)
        .api()
        .register(registration("busy", &busy))
        .await;
    busy.call().await;
    let ids = |kind: &str| {
        (0..MANY)
            .map(|number| format!("{kind}{number}"))
            .collect::<Vec<_>>()
    };
    for (number, id) in [ids("cancelled"), ids("kept")].concat().iter().enumerate() {
        let server = machine.server(number);
        server.api().register(registration(id, &busy)).await;
    }
    for id in ids("early") {
        let mut asked = registration(&id, &other);
        asked["delay"] = "1h".into();
        machine.server(0).api().register(asked).await;
    }
    let before = machine.written().await;

    // What follows is missing in Redis after the cut.
    for (number, id) in ids("cancelled").iter().enumerate() {
        // At another server than the one that registered it, where there is one.
        let server = machine.server(number + 1);
        change(server, Method::DELETE, &format!("/v1/notifications/t/{id}")).await;
    }
    for (number, id) in ids("early").iter().enumerate() {
        let server = machine.server(number);
        change(
            server,
            Method::POST,
            &format!("/v1/notifications/t/{id}/retry"),
        )
        .await;
        assert_eq!(other.call().await.body, format!("id={id}").as_bytes());
        server.api().until_state(id, "delivered").await;
    }
    for (number, id) in ids("late").iter().enumerate() {
        let server = machine.server(number);
        server.api().register(registration(id, &busy)).await;
    }
    machine.cut(&before).await;
    busy.release();

    let api = machine.server(0).api();
    let mut wanted = BTreeMap::from([("id=busy".to_string(), 1)]);
    for id in [ids("kept"), ids("late")].concat() {
        api.until_state(&id, "delivered").await;
        wanted.insert(format!("id={id}"), 1);
    }
    // It was in flight at the cut.
    api.until_state("busy", "delivered").await;
    machine.until_redis(&HELD, 0).await;
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(call) = busy.arrived() {
        let body = String::from_utf8(call.body).expect("a text");
        *calls.entry(body).or_default() += 1;
    }
    assert_eq!(calls, wanted);
    for id in ids("cancelled") {
        assert_eq!(api.get(&id).await["state"], "cancelled");
    }
    assert!(
        other.arrived().is_none(),
        "delivered before the cut and again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_undoes_nothing_with_sqlite() {
    nothing_that_was_answered_is_undone(1, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_undoes_nothing_with_postgres() {
    nothing_that_was_answered_is_undone(1, Some(postgres::fresh_database())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_undoes_nothing_of_two_servers() {
    nothing_that_was_answered_is_undone(2, Some(postgres::fresh_database())).await;
}

/// The call is in flight when Redis is set back to before it got a lease, and its destination is then busy
/// with a lease that had been settled.
async fn a_call_that_lives_on_is_made_once(last: Reaction) {
    let mut machine = Machine::start(1, None).await;
    let ends = last.clone();
    let script = vec![
        Reaction::Held(Box::new(Reaction::success())),
        Reaction::Held(Box::new(ends)),
    ];
    let mut merchant = Merchant::scripted(script, Reaction::success()).await;
    let api = machine.server(0).api().clone();
    for id in ["first", "second"] {
        let mut asked = registration(id, &merchant);
        asked["ladder"] = serde_json::json!({ "intervals": ["1h"] });
        api.register(asked).await;
    }
    merchant.call().await;
    let before = machine.written().await;
    merchant.release();
    api.until_state("first", "delivered").await;
    merchant.call().await;
    machine.set_redis_back(&before).await;
    let run = machine.run_of_redis().await;
    machine
        .until_redis(&["HGET", "{rb:0}:meta", "run"], run)
        .await;
    machine
        .until_redis(&["HGET", "{rb:0}:meta", "state"], "whole".to_string())
        .await;
    merchant.release();
    let view = api.until_attempts("second", 1).await;
    machine.until_redis(&["ZCARD", "{rb:0}:leases"], 0).await;
    let is_over = view["state"] == "delivered";
    // What has failed is due in an hour.
    machine.until_redis(&HELD, usize::from(!is_over)).await;
    machine
        .until_redis(&["ZCOUNT", "{rb:0}:lanes", "-inf", &soon()], 0)
        .await;
    assert!(merchant.arrived().is_none(), "its outcome was known");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_that_comes_after_redis_was_set_back_is_kept() {
    a_call_that_lives_on_is_made_once(Reaction::success()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_that_comes_after_redis_was_set_back_is_kept() {
    a_call_that_lives_on_is_made_once(Reaction::fail()).await;
}
