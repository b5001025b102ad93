//! What Redis holds, and how much memory that takes.

use crate::server::{COUNT_ENTRIES, Setup};
use redis::aio::MultiplexedConnection;
use std::time::{Duration, Instant};

/// Maximum time until Redis is complete. After that, the run fails.
const LONGEST_LOADING: Duration = Duration::from_secs(300);

/// A connection to the Redis of a setup.
pub struct RedisState(MultiplexedConnection);

impl RedisState {
    /// Connects.
    pub async fn of(setup: &Setup) -> Self {
        let url = setup.redis_url.as_deref();
        let client = redis::Client::open(url.expect("these stores include Redis"));
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let client = client.expect("a URL");
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        Self(connection.await.expect("connected"))
    }

    async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let mut connection = self.0.clone();
        let asked = command.query_async(&mut connection).await;
        asked.expect("Redis answers")
    }

    /// Removes everything.
    pub async fn flush(&self) {
        self.ask::<()>(&redis::cmd("FLUSHALL")).await;
    }

    /// How many entries there are.
    pub async fn entries(&self) -> u64 {
        self.ask(redis::cmd("EVAL").arg(COUNT_ENTRIES).arg(0)).await
    }

    /// How many leases there are.
    pub async fn leases(&self) -> u64 {
        self.ask(&redis::Cmd::zcard("{rb:0}:leases")).await
    }

    /// Up to which due time everything was loaded, in milliseconds since 1970.
    pub async fn loaded_until_ms(&self) -> Option<i64> {
        let command = redis::Cmd::hget("{rb:0}:meta", "loaded_until");
        self.ask(&command).await
    }

    /// Waits until everything that is due soon is in Redis again, and until the server has compared it with the journal.
    pub async fn whole(&self) -> Whole {
        let begun = Instant::now();
        let fields = redis::Cmd::hmget("{rb:0}:meta", &["loaded_until", "state"]);
        // Each time something was noted as loaded, and how many entries there were. The duty that loads the window notes
        // something now and then, also just after the data was lost, and while what was loaded is compared.
        let (mut noted, mut loads) = (None, Vec::new());
        loop {
            let (loaded_until, state): (Option<String>, Option<String>) = self.ask(&fields).await;
            let now = Instant::now();
            if loaded_until != noted {
                noted = loaded_until;
                if noted.is_some() {
                    loads.push((now, self.entries().await));
                }
            }
            if state.as_deref() == Some("whole") && noted.is_some() {
                let all = self.entries().await;
                let is_whole = |(_, many): &&(Instant, u64)| many + all / 1_000 >= all;
                let loaded = loads.iter().find(is_whole).or(loads.last());
                let (loaded, _) = loaded.expect("noted as loaded");
                return Whole {
                    loaded: *loaded,
                    compared: now,
                };
            }
            assert!(begun.elapsed() < LONGEST_LOADING, "Redis is not complete");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until everything that is due by then was loaded, in milliseconds since 1970.
    pub async fn loaded(&self, due_ms: i64) {
        let begun = Instant::now();
        while self.loaded_until_ms().await < Some(due_ms) {
            assert!(
                begun.elapsed() < LONGEST_LOADING,
                "the window is not loaded"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// How much memory everything takes.
    pub async fn memory(&self) -> Memory {
        let info: String = self.ask(redis::cmd("INFO").arg("memory")).await;
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
        };
        let jobs = redis::cmd("MEMORY")
            .arg("USAGE")
            .arg("{rb:0}:jobs")
            .arg("SAMPLES")
            .arg(20_000)
            .to_owned();
        Memory {
            used: field("used_memory:"),
            resident: field("used_memory_rss:"),
            jobs: self.ask::<Option<u64>>(&jobs).await.unwrap_or(0),
        }
    }
}

/// When Redis was complete.
#[derive(Debug, Clone, Copy)]
pub struct Whole {
    /// When the server noted that everything was put in, but for at most a thousandth, which came into the window since.
    pub loaded: Instant,
    /// When all entries were compared with the journal too: the server counts Redis as whole.
    pub compared: Instant,
}

impl Whole {
    /// The times since an instant, and how many of `entries` were put in per second.
    pub fn since(self, begun: Instant, entries: u64) -> String {
        let (loaded, compared) = (self.loaded - begun, self.compared - begun);
        format!(
            "all {entries} back after {:.2} s ({:.0}/s), compared with the journal after {:.2} s",
            loaded.as_secs_f64(),
            entries as f64 / loaded.as_secs_f64(),
            compared.as_secs_f64(),
        )
    }
}

/// How much memory Redis takes, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// By its own count.
    pub used: u64,
    /// Of the process.
    pub resident: u64,
    /// Of the hash with the entries; estimated from a part of them.
    pub jobs: u64,
}

impl Memory {
    /// What `many` entries with bodies of this length take, compared with `before`.
    pub fn of_each(self, before: Self, many: u64, body_bytes: u64) -> String {
        let each = |bytes: u64| bytes as f64 / many as f64;
        let used = each(self.used.saturating_sub(before.used));
        let jobs = each(self.jobs.saturating_sub(before.jobs));
        format!(
            "{many} entries take {used:.1} bytes each, {:.1} beyond the body of {body_bytes}; of these, {jobs:.1} in the \
             hash of the entries; used_memory {:.0} MB, resident {:.0} MB",
            used - body_bytes as f64,
            self.used as f64 / 1e6,
            self.resident as f64 / 1e6,
        )
    }
}
