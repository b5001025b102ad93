//! Benchmark: how many notifications the dispatcher delivers per second, compared with an HTTP client alone.
//!
//! One run takes several rounds. A round takes these measurements one after the other on the same machine:
//!
//! * `bare`: an HTTP client (reqwest) posts the same signed bodies of 512 bytes to the same receiver. The
//!   other rates are compared with this one, so it is measured before and after `drain` and `single`.
//! * `drain`: 100,000 notifications are due at the same instant. The time counts from that instant until the
//!   last call arrives.
//! * `single`: notifications are registered one by one over HTTP. The time counts from the first registration
//!   until the last call arrives.
//! * `late`: the due times of notifications are evenly spread, at half the rate of `drain`. The result is how
//!   long after its due time each call arrives.
//!
//! With `--servers N`, so many servers share the stores, and the loads are registered at all of them. With `--idle-seconds N`,
//! the processor time is measured too that they take while nothing is due.
//!
//! With `--lead-seconds N`, what is due at an instant was registered so long before at least: with a journal, what waits for
//! more than a minute is verified before it is sent.
//!
//! With `--rebuild N`, another measurement is taken instead: N notifications are pending and a thousand of
//! them become due when Redis is emptied. The result is the time until the first one is delivered, and until
//! all are back in Redis.
//!
//! The receiver, the server, Redis (append-only file on) and this program are separate processes on the same
//! machine. `cargo bench --bench throughput -- --help` shows the options.

mod bare;
mod load;
#[path = "../../tests/it/support/postgres.rs"]
#[expect(dead_code, reason = "the tests do more with their servers")]
mod postgres;
mod processor_time;
mod rebuild;
mod receiver;
mod report;
#[expect(dead_code, reason = "the benchmark `window` stops and starts it")]
mod server;

use receiver::Receiver;
use report::{Rate, Report, Row};
use server::{Setup, Stores};
use std::time::Duration;

/// The options of the command line.
#[derive(Debug, Clone)]
struct Options {
    rounds: usize,
    notifications: usize,
    connections: usize,
    lanes: usize,
    late_seconds: u64,
    idle_seconds: u64,
    lead_seconds: u64,
    servers: usize,
    partitions: usize,
    stores: Vec<Stores>,
    rebuild: Option<usize>,
}

impl Options {
    fn parse() -> Option<Self> {
        let mut options = Self {
            rounds: 3,
            notifications: 100_000,
            connections: 64,
            lanes: 32,
            late_seconds: 10,
            idle_seconds: 0,
            lead_seconds: 0,
            servers: 1,
            partitions: 1,
            stores: Stores::ALL.to_vec(),
            rebuild: None,
        };
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|word| word.parse().ok());
            match word.as_str() {
                "--rounds" => options.rounds = number()?,
                "--notifications" => options.notifications = number()?,
                "--connections" => options.connections = number()?,
                "--lanes" => options.lanes = number()?,
                "--late-seconds" => options.late_seconds = number()? as u64,
                "--idle-seconds" => options.idle_seconds = number()? as u64,
                "--lead-seconds" => options.lead_seconds = number()? as u64,
                "--servers" => options.servers = number()?.max(1),
                "--partitions" => options.partitions = number()?,
                "--rebuild" => options.rebuild = Some(number()?),
                "--stores" => options.stores = vec![Stores::from_name(&words.next()?)?],
                _ => return None,
            }
        }
        // A journal in SQLite has one server, and so has a schedule in memory.
        if options.servers > 1 {
            let is_shared =
                |stores: &Stores| matches!(stores, Stores::RedisOnly | Stores::RedisPostgres);
            options.stores.retain(is_shared);
        }
        Some(options)
    }
}

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("installed once");
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
            "options: --rounds N --notifications N --connections N --lanes N --late-seconds N \
             --idle-seconds N --lead-seconds N --servers N --partitions N \
             --stores redis|redis+postgres|redis+sqlite|embedded --rebuild N"
        );
        std::process::exit(2);
    };
    match options.rebuild {
        Some(pending) => runtime.block_on(rebuild::measure(&options, pending)),
        None => runtime.block_on(measure(&options)),
    }
}

/// Waits at most a minute for a future. `what` names it in the error.
async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), coming).await {
        Ok(value) => value,
        Err(_) => panic!("this took more than a minute: {what}"),
    }
}

async fn measure(options: &Options) {
    let mut report = Report::default();
    for round in 1..=options.rounds {
        let receiver = receiver::Receiver::start(options.lanes).await;
        let mut yardstick = Yardstick::start(&receiver, options).await;
        for stores in &options.stores {
            let (servers, partitions) = (options.servers, options.partitions);
            let setup = Setup::start_servers(*stores, servers, partitions).await;
            let lead = Duration::from_secs(options.lead_seconds);
            let drain = load::drain(&setup, &receiver, options.notifications, lead).await;
            let drain_time = drain.time_of_each;
            let drain = yardstick.share(drain.per_second).await;
            println!("round {round}: {stores} drain {drain}; processor time of each: {drain_time}");
            let many = options.notifications;
            let single = load::single(&setup, &receiver, many, options.connections).await;
            let single_time = single.time_of_each;
            let single = yardstick.share(single.per_second).await;
            println!(
                "round {round}: {stores} single {single}; processor time of each: {single_time}"
            );
            let half = drain.per_second / 2.0;
            let seconds = Duration::from_secs(options.late_seconds);
            let late = load::late(&setup, &receiver, half, seconds, lead).await;
            println!("round {round}: {stores} late at {half:.0}/s: {late}");
            if options.idle_seconds > 0 {
                idle(&setup, round, *stores, options).await;
            }
            report.add(Row {
                stores: *stores,
                drain,
                drain_time,
                single,
                single_time,
                late,
            });
            setup.stop().await;
        }
    }
    print!("{report}");
}

/// How long nothing is due before the servers count as idle.
const BEFORE_IDLE: Duration = Duration::from_secs(10);

/// Measures the processor time that is taken while nothing is due, and how often the servers wake up.
async fn idle(setup: &Setup, round: usize, stores: Stores, options: &Options) {
    tokio::time::sleep(BEFORE_IDLE).await;
    let (waits, before) = (setup.waits(), setup.processor_time());
    let span = Duration::from_secs(options.idle_seconds);
    tokio::time::sleep(span).await;
    let wakes = setup.waits().saturating_sub(waits) as f64 / span.as_secs_f64();
    let taken = setup.processor_time().of_each(before, 1);
    let percent = |us: f64| us / 1e4 / span.as_secs_f64();
    println!(
        "round {round}: {stores} idle for {} s, {} servers, {} partitions: servers {:.2} %, Redis {:.2} %, PostgreSQL \
         {:.2} % of a core; the servers wake up {wakes:.0} times a second",
        options.idle_seconds,
        options.servers,
        options.partitions,
        percent(taken.server_us),
        percent(taken.redis_us),
        percent(taken.postgres_us),
    );
}

/// Measures the rate of the bare client before and after each other rate, because the speed of a shared
/// machine changes within minutes.
struct Yardstick<'a> {
    receiver: &'a Receiver,
    options: &'a Options,
    last: f64,
}

impl<'a> Yardstick<'a> {
    async fn start(receiver: &'a Receiver, options: &'a Options) -> Self {
        let last = bare::rate(receiver, options.notifications, options.connections).await;
        Self {
            receiver,
            options,
            last,
        }
    }

    /// Puts a rate together with the mean of the bare rates before and after it.
    async fn share(&mut self, per_second: f64) -> Rate {
        let Options {
            notifications,
            connections,
            ..
        } = *self.options;
        let after = bare::rate(self.receiver, notifications, connections).await;
        let bare = f64::midpoint(self.last, after);
        self.last = after;
        Rate { per_second, bare }
    }
}
