//! Benchmark: one server with ten million pending notifications in PostgreSQL, of which Redis holds only what is due soon.
//!
//! The journal is filled by SQL ([`fill`]): most notifications are due in the next 29 days, and those of `--in-window` within
//! half an hour, so that they are in Redis; nothing else is due while the measurements are taken. Then these measurements
//! follow:
//!
//! * `start`: Redis is empty and a thousand notifications are due when the server is started ([`start_up`]): the time until
//!   it is ready, until it delivers the first one, and until everything that is due soon is in Redis. Redis's memory before
//!   and after gives the bytes of an entry.
//! * `restart`: likewise, but Redis holds everything.
//! * `idle`: the processor time of each process while nothing is due.
//! * `drain`, `late`: as in the benchmark `throughput`, with this journal.
//! * `flush`: a thousand notifications are due when Redis is emptied under the running server.
//! * `late while loading`: how late calls arrive at half the rate of the drain while Redis is filled again, and while
//!   notifications come into the window ([`lateness`]).
//! * The sizes of the tables and indexes, the statements that took longer than 100 ms, `ringback audit`, and `ringback export` of
//!   the day on which all were registered.
//!
//! Before that, with stores of their own: the bytes of an entry as a registration writes it, and of one that waits for its
//! second attempt ([`waiting`]).
//!
//! The run fails if a notification is delivered twice, or is not delivered, or if `ringback audit` finds a difference.
//! `cargo bench --bench window -- --help` shows the options.

mod export;
mod fill;
mod journal;
mod lateness;
#[path = "../throughput/load.rs"]
#[expect(dead_code, reason = "the other benchmark does more with it")]
mod load;
#[path = "../../tests/it/support/postgres.rs"]
#[expect(dead_code, reason = "the tests do more with their servers")]
mod postgres;
#[path = "../throughput/processor_time.rs"]
mod processor_time;
#[path = "../throughput/receiver.rs"]
mod receiver;
mod redis_state;
#[path = "../throughput/report.rs"]
#[expect(dead_code, reason = "the other benchmark does more with it")]
mod report;
#[path = "../throughput/server.rs"]
#[expect(dead_code, reason = "the other benchmark does more with it")]
mod server;
#[path = "../throughput/settled.rs"]
mod settled;
mod start_up;
mod waiting;

use fill::Fill;
use receiver::{Receiver, now_us};
use redis_state::RedisState;
use server::{Setup, Stores};
use std::time::{Duration, Instant};

/// The settings of PostgreSQL: it logs statements that take long, and compresses the pages that it writes into its log of changes,
/// as `docs/operations.md` says.
const POSTGRES: &[&str] = &["log_min_duration_statement=100", "wal_compression=on"];
/// How long after the filling the window may last: less than half of the default horizon.
const WINDOW_MS: i64 = 29 * 60_000;
/// How long the measurements take before what is in the window becomes due: at first, and for each round.
const FIRST_ROUND_MS: i64 = 10 * 60_000;
const ROUND_MS: i64 = 10 * 60_000;
/// How long the server has nothing to do before it counts as idle, and for how long that is measured.
const BEFORE_IDLE: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(30);

/// The options of the command line.
#[derive(Debug, Clone)]
struct Options {
    pending: u64,
    in_window: u64,
    destinations: u64,
    body_bytes: u64,
    rounds: u64,
    /// Notifications that wait for their second attempt.
    later: usize,
    /// Destinations of what is delivered.
    lanes: usize,
    /// 1: due in the order of their registrations.
    in_order: u64,
    late_seconds: u64,
    drained: usize,
}

impl Options {
    fn parse() -> Option<Self> {
        let mut options = Self {
            pending: 10_000_000,
            in_window: 1_000_000,
            destinations: 10_000,
            body_bytes: 512,
            rounds: 1,
            later: 1_000_000,
            lanes: 32,
            in_order: 0,
            late_seconds: 20,
            drained: 100_000,
        };
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let number: u64 = words.next()?.parse().ok()?;
            let small = usize::try_from(number).ok()?;
            match word.as_str() {
                "--pending" => options.pending = number,
                "--in-window" => options.in_window = number,
                "--destinations" => options.destinations = number,
                "--body-bytes" => options.body_bytes = number,
                "--rounds" => options.rounds = number,
                "--later" => options.later = small,
                "--lanes" => options.lanes = small,
                "--in-order" => options.in_order = number,
                "--late-seconds" => options.late_seconds = number,
                "--drained" => options.drained = small,
                _ => return None,
            }
        }
        let is_possible = options.pending > options.in_window + options.destinations
            && options.in_window > 0
            && options.destinations >= options.lanes as u64
            && (32..=65_536).contains(&options.body_bytes)
            && (1..=2).contains(&options.rounds)
            && options.lanes > 0
            && options.in_order <= 1
            && options.late_seconds >= 5
            && options.drained > 0;
        is_possible.then_some(options)
    }
}

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("installed once");
    rlimit::increase_nofile_limit(u64::MAX).expect("a limit of open files");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    if std::env::args().nth(1).as_deref() == Some(receiver::ROLE) {
        runtime.block_on(receiver::run());
        return;
    }
    let Some(options) = Options::parse() else {
        eprintln!(
            "options: --pending N (more than those in the window and one for each destination) --in-window N \
             --destinations N --body-bytes N (32 to 65536) --rounds N (2 at most) --later N (0: not measured) --lanes N \
             --in-order 0|1 --late-seconds N (5 at least) --drained N"
        );
        std::process::exit(2);
    };
    runtime.block_on(async {
        if options.later > 0 {
            waiting::measure(&options).await;
        }
        measure(&options).await;
    });
}

/// Waits at most a minute for a future. `what` names it in the error.
async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), coming).await {
        Ok(value) => value,
        Err(_) => panic!("this took more than a minute: {what}"),
    }
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    i64::try_from(now_us() / 1_000).expect("in range")
}

/// What all measurements work with.
struct Bench {
    options: Options,
    setup: Setup,
    receiver: Receiver,
    redis: RedisState,
    fill: Fill,
    /// When the first notification of the window becomes due. All measurements must be over by then.
    window_from_ms: i64,
}

impl Bench {
    /// The addresses of what is delivered.
    fn urls(&self) -> &[String] {
        &self.receiver.urls[..self.options.lanes]
    }

    /// Fails if the measurements took so long that the window has become due.
    fn check_time(&self) {
        assert!(
            now_ms() < self.window_from_ms,
            "the measurements took so long that what is in the window has become due"
        );
    }
}

async fn measure(options: &Options) {
    let mut bench = start(options).await;
    journal::print_sizes(&bench.setup).await;
    bench.print_slow("while filling").await;
    start_up::start_with_empty_redis(&mut bench).await;
    bench.print_slow("at the start").await;
    idle(&bench).await;
    start_up::restart(&mut bench).await;
    let half = lateness::drain(&bench).await / 2.0;
    lateness::alone(&bench, half).await;
    bench.print_slow("with a load").await;
    for round in 1..=options.rounds {
        start_up::flush(&bench, round).await;
        bench.print_slow("after the flush").await;
        lateness::after_flush(&bench, round, half).await;
        bench.print_slow("after the flush under load").await;
        lateness::while_window_loads(&bench, round, half).await;
        bench.print_slow("while the window is loaded").await;
    }
    bench.check_time();
    scrape(&bench.setup).await;
    audit(&bench.setup).await;
    bench.print_slow("by the audit").await;
    export::measure(&bench).await;
    bench.print_slow("by the export").await;
    bench.setup.stop().await;
}

/// Starts everything, fills the journal, and stops the server again.
async fn start(options: &Options) -> Bench {
    let destinations = usize::try_from(options.destinations).expect("fits");
    let receiver = Receiver::start(destinations).await;
    let mut setup = Setup::start_with(Stores::RedisPostgres, POSTGRES).await;
    let redis = RedisState::of(&setup).await;
    let begun = Instant::now();
    let fill = Fill::prepare(&mut setup, &receiver, options).await;
    let rest = options.pending - options.in_window - options.destinations;
    let now = now_ms();
    let month = now + WINDOW_MS..now + 29 * 86_400_000;
    fill.insert(rest, options.destinations, month).await;
    fill.vacuum().await;
    let from_ms = FIRST_ROUND_MS + ROUND_MS * i64::try_from(options.rounds).expect("small");
    let now = now_ms();
    let window = now + from_ms..now + WINDOW_MS;
    let window_from_ms = window.start;
    fill.insert(options.in_window, options.destinations, window)
        .await;
    fill.finish().await;
    let (filled, seconds) = (rest + options.in_window, begun.elapsed().as_secs_f64());
    println!("{filled} notifications were filled in within {seconds:.0} s");
    Bench {
        options: options.clone(),
        setup,
        receiver,
        redis,
        fill,
        window_from_ms,
    }
}

/// How much processor time each process takes while nothing is due.
async fn idle(bench: &Bench) {
    tokio::time::sleep(BEFORE_IDLE).await;
    let before = bench.setup.processor_time();
    tokio::time::sleep(IDLE).await;
    let taken = bench.setup.processor_time().of_each(before, 1);
    let percent = |us: f64| us / 1e4 / IDLE.as_secs_f64();
    println!(
        "idle for {} s: server {:.2} %, Redis {:.2} %, PostgreSQL {:.2} % of a core; the server has {:.0} MB",
        IDLE.as_secs(),
        percent(taken.server_us),
        percent(taken.redis_us),
        percent(taken.postgres_us),
        resident_mb(bench.setup.process()),
    );
}

/// The resident memory of a process, in megabytes of 10^6 bytes.
fn resident_mb(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kb.unwrap_or(0.0) * 1_024.0 / 1e6
}

/// How long the metrics take, and what they say of the window.
async fn scrape(setup: &Setup) {
    let begun = Instant::now();
    let answer = setup
        .client
        .get(format!("{}/metrics", setup.urls[0]))
        .send();
    let text = answer.await.expect("an answer").text().await;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let text = text.expect("a text");
    let is_told = |line: &&str| {
        line.starts_with("ringback_schedule_") && !line.contains("_memory")
            || line.starts_with("ringback_notifications{")
    };
    let told: Vec<&str> = text.lines().filter(is_told).collect();
    println!("metrics after {took:.0} ms: {}", told.join("; "));
}

/// Has the program compare the stores. Fails if they differ.
async fn audit(setup: &Setup) {
    let begun = Instant::now();
    let postgres = setup.postgres.as_ref().expect("these stores include it");
    let redis = setup.redis_url.as_deref().expect("these stores include it");
    let audit = tokio::process::Command::new(env!("CARGO_BIN_EXE_ringback"))
        .args(["audit", "--redis", redis])
        .args(["--journal", &postgres.url("postgres")])
        .output();
    let audit = audit.await.expect("the program");
    let took = begun.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&audit.stdout);
    let complaint = String::from_utf8_lossy(&audit.stderr);
    println!(
        "audit after {took:.1} s: {}\n{text}{complaint}",
        audit.status
    );
    assert!(audit.status.success(), "the stores differ");
}
