//! How soon a server delivers, and how soon Redis is complete: at its start with an empty Redis and with a full one, and
//! after Redis was emptied under it.

use crate::load::{arrived, register_to};
use crate::receiver::now_us;
use crate::{Bench, journal, now_ms};
use std::time::{Duration, Instant};

/// Number of notifications that are due when a measurement begins.
const DUE: usize = 1_000;
/// How long before they are due they are registered.
const LEAD_MS: u64 = 3_000;

/// Starts the server while Redis is empty. What is due was written by SQL.
pub async fn start_with_empty_redis(bench: &mut Bench) {
    bench.redis.flush().await;
    let before = bench.redis.memory().await;
    bench.receiver.stats("reset").await;
    let now = now_ms();
    let lanes = bench.options.lanes as u64;
    bench.fill.insert(DUE as u64, lanes, now..now + 1).await;
    let (started, started_us) = (Instant::now(), now_us());
    let (ready, whole) = tokio::join!(bench.setup.start_server(), bench.redis.whole());
    let last_us = arrived(&bench.receiver, DUE).await;
    let first_us = bench.receiver.stats("").await.first_us;
    let entries = bench.check_entries().await;
    println!(
        "start with an empty Redis: ready after {:.3} s, first of {DUE} due ones after {:.3} s, last after {:.3} s; {}",
        ready.as_secs_f64(),
        seconds(started_us, first_us),
        seconds(started_us, last_us),
        whole.since(started, entries),
    );
    let each = (bench.redis.memory().await).of_each(before, entries, bench.options.body_bytes);
    println!("waiting for the first attempt, as loaded: {each}");
    bench.check_time();
}

/// Stops the server and starts it again, while Redis has everything.
pub async fn restart(bench: &mut Bench) {
    bench.receiver.stats("reset").await;
    let due_ms = now_us() / 1_000 + LEAD_MS;
    let due = (0..DUE).map(|_| due_ms);
    register_to(&bench.setup, bench.urls(), due).await;
    let begun = Instant::now();
    bench.setup.stop_server().await;
    let stopped = begun.elapsed();
    until(due_ms * 1_000).await;
    let started_us = now_us();
    let ready = bench.setup.start_server().await;
    let last_us = arrived(&bench.receiver, DUE).await;
    let first_us = bench.receiver.stats("").await.first_us;
    let entries = bench.check_entries().await;
    println!(
        "restart with {entries} in Redis: stopped after {:.3} s, ready after {:.3} s, first of {DUE} due ones after {:.3} \
         s, last after {:.3} s",
        stopped.as_secs_f64(),
        ready.as_secs_f64(),
        seconds(started_us, first_us),
        seconds(started_us, last_us),
    );
    bench.check_time();
}

/// Empties Redis under the server.
pub async fn flush(bench: &Bench, round: u64) {
    bench.receiver.stats("reset").await;
    let due_ms = now_us() / 1_000 + LEAD_MS;
    register_to(&bench.setup, bench.urls(), (0..DUE).map(|_| due_ms)).await;
    // Redis is emptied right before the notifications are due, so that none of them is sent before that.
    until(due_ms * 1_000 - 20_000).await;
    bench.redis.flush().await;
    let (flushed, flushed_us) = (Instant::now(), now_us().max(due_ms * 1_000));
    let whole = bench.redis.whole().await;
    let last_us = arrived(&bench.receiver, DUE).await;
    let first_us = bench.receiver.stats("").await.first_us;
    let entries = bench.check_entries().await;
    println!(
        "round {round}: flush: first of {DUE} due ones after {:.3} s, last after {:.3} s; {}",
        seconds(flushed_us, first_us),
        seconds(flushed_us, last_us),
        whole.since(flushed, entries),
    );
    bench.check_time();
}

fn seconds(from_us: u64, to_us: u64) -> f64 {
    to_us.saturating_sub(from_us) as f64 / 1e6
}

/// Waits until this instant, in microseconds since 1970. Fails if it is over.
pub async fn until(at_us: u64) {
    let wait_us = at_us.saturating_sub(now_us());
    assert!(wait_us > 0, "registering took too long");
    tokio::time::sleep(Duration::from_micros(wait_us)).await;
}

impl Bench {
    /// How many entries Redis has. Fails if some are missing that are due by the instant up to which everything was loaded.
    pub async fn check_entries(&self) -> u64 {
        let loaded_until_ms = self.redis.loaded_until_ms().await;
        let loaded_until_ms = loaded_until_ms.expect("noted when Redis is complete");
        // In this order: what has just arrived is recorded meanwhile, and leaves both, the journal first.
        let entries = self.redis.entries().await;
        let expected = journal::count_due_by(&self.setup, loaded_until_ms).await;
        assert!(
            entries >= expected,
            "Redis has {entries} entries, and {expected} are due by {loaded_until_ms}"
        );
        entries
    }
}
