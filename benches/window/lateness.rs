//! How late calls arrive at half the rate of a drain: while nothing else happens, while Redis is filled again, and while
//! notifications come into the window.

use crate::load::{arrived, register_to};
use crate::processor_time::ProcessorTime;
use crate::receiver::now_us;
use crate::report::Lateness;
use crate::settled::{SETTLED_MS, on_disk};
use crate::start_up::until;
use crate::{Bench, now_ms};
use std::time::{Duration, Instant};

/// How long after the first call the loading begins.
const BEFORE_LOADING: Duration = Duration::from_secs(3);
/// How many notifications come into the window in each second of the measurement: nine times as many as with a million in
/// half an hour.
const COMING_PER_SECOND: u64 = 5_000;
/// The default horizon, in milliseconds. Half of it is loaded.
const HORIZON_MS: i64 = 3_600_000;

/// Delivers notifications that are due at the same instant. Returns how many are delivered per second.
pub async fn drain(bench: &Bench) -> f64 {
    let many = bench.options.drained;
    bench.receiver.stats("reset").await;
    let lead_ms = 5_000 + many as u64 / 5;
    let due_ms = now_us() / 1_000 + lead_ms;
    register_to(&bench.setup, bench.urls(), (0..many).map(|_| due_ms)).await;
    until(due_ms * 1_000).await;
    let before = bench.setup.processor_time();
    let last_us = arrived(&bench.receiver, many).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let each = bench.setup.processor_time().of_each(before, many);
    let per_second = many as f64 / ((last_us - due_ms * 1_000) as f64 / 1e6);
    println!("drain {per_second:.0}/s; processor time of each: {each}");
    bench.check_time();
    per_second
}

/// A load that was registered.
struct Load {
    many: usize,
    first_ms: u64,
}

/// Registers notifications that are due evenly, `per_second` in each second.
async fn register(bench: &Bench, per_second: f64, first_ms: u64) -> Load {
    let many = (per_second * bench.options.late_seconds as f64) as usize;
    bench.receiver.stats("reset").await;
    let due = |number: usize| first_ms + (number as f64 / per_second * 1e3) as u64;
    register_to(&bench.setup, bench.urls(), (0..many).map(due)).await;
    on_disk(&bench.setup).await;
    let now_ms = now_us() / 1_000;
    assert!(now_ms < first_ms, "registering took too long");
    Load { many, first_ms }
}

/// When the first of a load is due that is registered now, in milliseconds since 1970.
fn first_ms(bench: &Bench, per_second: f64) -> u64 {
    let many = (per_second * bench.options.late_seconds as f64) as u64;
    now_us() / 1_000 + SETTLED_MS + many / 5
}

/// Waits until all of a load has arrived. Returns how late those were that were due in a part of the time, in milliseconds
/// since 1970.
async fn lateness(bench: &Bench, load: &Load, parts: &[(u64, u64)]) -> Vec<Lateness> {
    arrived(&bench.receiver, load.many).await;
    let stats = bench.receiver.stats("late").await;
    let of = |part: &(u64, u64)| {
        let calls = stats.late_us.iter().zip(&stats.due_us);
        let range = part.0.saturating_mul(1_000)..part.1.saturating_mul(1_000);
        let counted = calls.filter(|(_, due_us)| range.contains(*due_us));
        Lateness::of(counted.map(|(late_us, _)| *late_us).collect())
    };
    parts.iter().map(of).collect()
}

/// While nothing else happens.
pub async fn alone(bench: &Bench, per_second: f64) {
    let load = register(bench, per_second, first_ms(bench, per_second)).await;
    until(load.first_ms * 1_000).await;
    let busy = Busy::begin(bench);
    let late = lateness(bench, &load, &[(0, u64::MAX)]).await;
    println!(
        "late at {per_second:.0}/s: {}; {}",
        late[0],
        busy.end(bench)
    );
    bench.check_time();
}

/// While Redis is filled again after it was emptied.
pub async fn after_flush(bench: &Bench, round: u64, per_second: f64) {
    let load = register(bench, per_second, first_ms(bench, per_second)).await;
    let flush_ms = load.first_ms + BEFORE_LOADING.as_millis() as u64;
    until(flush_ms * 1_000).await;
    bench.redis.flush().await;
    let (flushed, flushed_ms) = (Instant::now(), now_us() / 1_000);
    let busy = Busy::begin(bench);
    let whole = bench.redis.whole().await;
    let busy = busy.end(bench);
    let at_ms = |at: Instant| flushed_ms + (at - flushed).as_millis() as u64;
    let (loaded_ms, compared_ms) = (at_ms(whole.loaded), at_ms(whole.compared));
    let mut parts = vec![
        (0, flushed_ms),
        (flushed_ms, loaded_ms),
        (flushed_ms + 1_000, loaded_ms),
        (loaded_ms, compared_ms),
        (compared_ms, u64::MAX),
    ];
    parts.extend(seconds_from(bench, flushed_ms));
    let late = lateness(bench, &load, &parts).await;
    let entries = bench.check_entries().await;
    println!(
        "round {round}: flush at {per_second:.0}/s: {}; {busy}",
        whole.since(flushed, entries)
    );
    let names = [
        "before the flush",
        "while loading after the flush",
        "while loading after the flush, after the first second",
        "while the loaded is compared",
        "after that",
    ];
    for (name, late) in names.iter().zip(&late) {
        println!("round {round}: late {name}: {late}");
    }
    for (second, late) in late[names.len()..].iter().enumerate() {
        println!("round {round}: late in second {second} after the flush: {late}");
    }
    bench.check_time();
}

/// While notifications come into the window.
pub async fn while_window_loads(bench: &Bench, round: u64, per_second: f64) {
    let coming = COMING_PER_SECOND * bench.options.late_seconds;
    // Half of the time for writing what comes in.
    let first_ms = first_ms(bench, per_second) + 10_000 + coming / 10;
    let from_ms = i64::try_from(first_ms).expect("in range") + HORIZON_MS / 2;
    let due = from_ms..from_ms + 1_000 * bench.options.late_seconds as i64;
    let end_ms = due.end;
    let destinations = bench.options.destinations;
    bench.fill.insert(coming, destinations, due).await;
    let before = bench.redis.entries().await;
    let load = register(bench, per_second, first_ms).await;
    assert!(now_ms() < from_ms - HORIZON_MS / 2, "filling took too long");
    until(load.first_ms * 1_000).await;
    let busy = Busy::begin(bench);
    let mut parts = vec![(0, u64::MAX)];
    parts.extend(seconds_from(bench, load.first_ms));
    let late = lateness(bench, &load, &parts).await;
    let busy = busy.end(bench);
    bench.redis.loaded(end_ms).await;
    let came = bench.check_entries().await.saturating_sub(before);
    assert!(
        came >= coming,
        "only {came} of {coming} came into the window"
    );
    println!(
        "round {round}: late at {per_second:.0}/s while {COMING_PER_SECOND}/s come into the window: {}; {busy}",
        late[0]
    );
    for (second, late) in late[1..].iter().enumerate() {
        println!("round {round}: late in second {second} of that: {late}");
    }
    bench.check_time();
}

/// Each second of a measurement that began then, in milliseconds since 1970.
fn seconds_from(bench: &Bench, begun_ms: u64) -> impl Iterator<Item = (u64, u64)> {
    let second = move |number| (begun_ms + number * 1_000, begun_ms + (number + 1) * 1_000);
    (0..bench.options.late_seconds).map(second)
}

/// How busy the processes are.
struct Busy {
    begun: Instant,
    before: ProcessorTime,
}

impl Busy {
    fn begin(bench: &Bench) -> Self {
        Self {
            begun: Instant::now(),
            before: bench.setup.processor_time(),
        }
    }

    fn end(self, bench: &Bench) -> String {
        let taken = bench.setup.processor_time().of_each(self.before, 1);
        let percent = |us: f64| us / 1e4 / self.begun.elapsed().as_secs_f64();
        format!(
            "of a core: server {:.0} %, Redis {:.0} %, PostgreSQL {:.0} %",
            percent(taken.server_us),
            percent(taken.redis_us),
            percent(taken.postgres_us),
        )
    }
}
